"""What a causal check asks, and where it intervenes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....hooks.errors import UserError
from ....hooks.model.points import SITES
from ....hooks.prompts.chat import Conversation
from ....hooks.prompts.options import Option
from ....hooks.prompts.places import Position
from ....metrics.validation import Floats
from ....probes.estimators.readout import LinearReadout

NAN = float("nan")


@dataclass(frozen=True)
class CausalQuestion:
    """One question after a context, and what its answers mean."""

    messages: Conversation
    """The context and the question."""
    options: tuple[Option, ...]
    """As `make_options` makes them."""
    values: tuple[float, ...]
    """[options] in [0, 1]: 1 and 0 for a yes-or-no belief or an action, the number for a stated belief."""
    prefill: str = ""
    """How the answer begins."""
    terminators: tuple[str, ...] | None = None
    """What closes an option, where that is not what closes all others: numbers need it."""

    def __post_init__(self) -> None:
        if len(self.values) != len(self.options) or not all(0 <= value <= 1 for value in self.values):
            raise UserError(f"asked: values {list(self.values)} of {len(self.options)} options; give each in [0, 1]")
        if max(self.values) == min(self.values):
            raise UserError("asked: all options mean the same; give values that differ")

    def record(self) -> dict[str, Any]:
        """What decides its reading."""
        options = [[one.name, list(one.forms)] for one in self.options]
        return {
            "messages": [dict(message) for message in self.messages],
            "options": options,
            "values": list(self.values),
            "prefill": self.prefill,
            "terminators": self.terminators,
        }


@dataclass(frozen=True)
class CausalContext:
    """A context, and what is asked after it. All questions begin with the same messages up to the probe's token."""

    name: str
    group: str
    """What shares content with others; all uncertainty is over groups."""
    belief: CausalQuestion
    """The exact belief: log-odds of the sum of probability times value against that of what is left."""
    action: CausalQuestion | None = None
    """A choice; its share is the sum of probability times value."""
    verbal: CausalQuestion | None = None
    """A stated belief; its mean."""
    target: float = NAN
    """What the probe is of, as a probability: truth, or p* of Bayes' rule. NaN: not known; then nothing is erased."""
    log_lr: float = 0.0
    """Natural log-likelihood ratio of the evidence between the probe's token and the question: what Bayes' rule adds to
    the log-odds to which the probe's belief is set."""
    position: Position | None = None
    """Where the probe reads in this context; None: where `CausalPlace` says."""
    break_even: float = NAN
    """The probability from which on the action has the higher expected utility."""


@dataclass(frozen=True)
class CausalPlace:
    """Where the probe reads, and where interventions are made."""

    layer: int
    position: Position
    """In the conversation of each context's belief."""
    site: str = "resid_post"
    head: int | None = None
    """Of `head_out`."""
    at: Position | str | Sequence[Position | str] | None = None
    """The tokens that are edited; None: those that the probe reads."""
    wrong_layer: int | None = None
    """At which the same vector is a control."""
    wrong_position: Position | None = None
    """Likewise."""

    def __post_init__(self) -> None:
        if self.layer < 0:
            raise UserError(f"layer {self.layer}: give its number, from 0")
        if self.site not in SITES:
            raise UserError(f"site {self.site!r}: known: {', '.join(SITES)}")
        if self.wrong_layer == self.layer:
            raise UserError(f"wrong_layer: {self.layer} is the probe's own layer; give another")
        if self.wrong_position is not None and self.wrong_position == self.position:
            raise UserError("wrong_position: is the probe's own; give another")

    @property
    def edited(self) -> Any:
        """What edits take as `at`."""
        return edited_tokens(self.position) if self.at is None else self.at


class Background(NamedTuple):
    """Activations of the probe's place in more contexts than are intervened on: of what directions are made, doses have
    their unit, random directions are drawn and erasers fitted."""

    x: Floats
    """[m, d]."""
    target: Floats
    """[m] NaN: not known."""
    groups: NDArray[Any]
    """[m]."""


class WithoutFold(NamedTuple):
    """A probe as it is without a fold of what it was fitted on: by all of them the estimation of its direction enters
    the interval of its gain."""

    readout: LinearReadout
    background: Background
    """Without the fold."""


def edited_tokens(position: Position) -> Position:
    """The tokens that a probe's position is made of: of a mean, each of them."""
    return position.model_copy(update={"at": "each"}) if position.at == "mean" else position


def require_contexts(contexts: Sequence[CausalContext]) -> None:
    """Raise UserError for no context, two of one name, or fewer than two groups."""
    if not contexts:
        raise UserError("contexts: there are none; no row is left to intervene on")
    names = [one.name for one in contexts]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UserError(f"contexts: {twice!r} is there twice")
    if len({one.group for one in contexts}) < 2:
        raise UserError(f"contexts: all are of the group {contexts[0].group!r}; give two groups or more")
    if bad := next((one for one in contexts if not (np.isnan(one.target) or 0 <= one.target <= 1)), None):
        raise UserError(f"context {bad.name!r}: target {bad.target!r} is no probability")
