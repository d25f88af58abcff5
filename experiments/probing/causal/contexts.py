"""The contexts of a causal check, where it intervenes and what it asks, and their reading: unedited and edited
branches in one tree and one pass, so that they are paired.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from ....base.errors import UserError
from ....hooks.backends.captures import CapturePlan
from ....hooks.edits.directions import Clamp, Erase, Eraser
from ....hooks.edits.interventions import Intervention, Steer
from ....hooks.edits.vectors import Vector
from ....hooks.exact.next_token import next_token_kl
from ....hooks.exact.option_beliefs import ExactReading
from ....hooks.exact.queries import Query
from ....hooks.lm import LanguageModel
from ....hooks.model.blocks import SITES, blocks
from ....hooks.prompts.chat import Conversation
from ....hooks.prompts.options import Option
from ....hooks.prompts.places import Position
from ....metrics.contract import Floats
from ....probes.causal.plan import ACTION, COVERAGE, EXACT, HERE, LATER, OUTCOMES, PLAIN, PROBE, VERBAL, Arm
from ....probes.estimators import LinearReadout
from ....probes.features import AT_THE_ANSWER
from ....probes.job import Arrays

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
    """A probe without a fold of what it was fitted on: how far its direction depends on the rows."""

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
    names = [context.name for context in contexts]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UserError(f"contexts: {twice!r} is there twice")
    if len({context.group for context in contexts}) < 2:
        raise UserError(f"contexts: all are of the group {contexts[0].group!r}; give two groups or more")
    if bad := next(
        (context for context in contexts if not (np.isnan(context.target) or 0 <= context.target <= 1)), None
    ):
        raise UserError(f"context {bad.name!r}: target {bad.target!r} is no probability")


Keep = Callable[[str, Callable[[], Arrays]], Arrays]
"""From a name and what computes arrays to the arrays, which may be known from before."""
TOKEN = "probe"
"""The position at which the probe reads."""


def compute(name: str, make: Callable[[], Arrays]) -> Arrays:
    """Keeps nothing."""
    return make()


@dataclass(frozen=True)
class Session:
    """One model, one place, one probe."""

    lm: LanguageModel
    place: CausalPlace
    readout_of: Callable[[str], LinearReadout]
    """From a group to what reads it: a fit that did not see it."""
    budget: int | None = None
    keep: Keep = compute
    known: str = ""
    """Of the model and the probe: what readings depend on besides contexts and interventions."""

    @property
    def layers(self) -> tuple[int, ...]:
        """That are captured: the probe's and the last."""
        return tuple(sorted({self.place.layer, len(blocks(self.lm.model)) - 1}))

    def at(self, context: CausalContext) -> "Session":
        """The same where the probe reads in this context."""
        if context.position is None:
            return self
        return replace(self, place=replace(self.place, position=context.position))

    def activations(self, contexts: Sequence[CausalContext]) -> Floats:
        """[contexts, layers, d] unedited, at the probe's token, of its head if it is of one."""
        queries = [self.at(context)._query(f"{i}", context.belief) for i, context in enumerate(contexts)]
        _, _, captured = self.lm.read(queries, budget=self.budget, capture=self._capture())
        assert captured is not None
        (values,) = captured.residuals.values()
        return self.part(values.double().numpy())

    def under(self, context: CausalContext, arms: Mapping[Arm, Intervention], *, whole: bool) -> Arrays:
        """`values` [arms + 1, outcomes], unedited before the arms, whose `arms` are their JSON; and `features` [1 +
        erasers, layers, d] at the probe's token, unedited and under each erasure.

        Args:
            whole: whether actions and stated beliefs are read, too, besides the exact belief.
        """
        questions = [asdict(context.belief), whole and [a and asdict(a) for a in (context.action, context.verbal)]]
        about = [context.group, questions, [[*arm, edit.record()] for arm, edit in arms.items()]]
        digest = hashlib.sha256(json.dumps([self.known, about], sort_keys=True, default=str).encode()).hexdigest()[:16]
        return self.keep(f"context-{digest}", lambda: self.at(context)._under(context, arms, whole))

    def _under(self, context: CausalContext, arms: Mapping[Arm, Intervention], whole: bool) -> Arrays:
        asked = {EXACT: context.belief}
        if whole:
            asked |= {name: each for name, each in ((ACTION, context.action), (VERBAL, context.verbal)) if each}
        queries = [self._query(name, each) for name, each in asked.items()]
        _require_shared(queries, context.name)
        branches = {f"arm{i}": [each] for i, each in enumerate(arms.values())}
        readings, _, captured = self.lm.read(queries, budget=self.budget, capture=self._capture(), edits=branches)
        assert captured is not None
        (residuals,) = captured.residuals.values()
        of_belief = captured.rows["readout_id"].str.partition("/")[0] == EXACT
        features = self.part(residuals.double().numpy())[of_belief.to_numpy()]
        values = np.full((len(branches) + 1, len(OUTCOMES)), np.nan)
        at = self.layers.index(self.place.layer)
        values[:, OUTCOMES.index(PROBE)] = self.readout_of(context.group).logit(features[:, at])
        for number, reading in enumerate(readings):
            row, name = number // len(queries), queries[number % len(queries)].readout_id
            value = (log_odds if name == EXACT else share)(reading, asked[name])
            values[row, OUTCOMES.index(name)] = value
            if name == EXACT:
                values[row, OUTCOMES.index(COVERAGE)] = reading.coverage
        kept = [0, *(1 + i for i, arm in enumerate(arms) if arm.kind == "erase")]
        return {"values": values, "features": features[kept], "arms": np.array(json.dumps(list(arms)))}

    def kl(self, conversations: Sequence[Conversation], arms: Mapping[Arm, Intervention]) -> dict[Arm, Floats]:
        """[conversations] KL divergence of the next token by each arm."""
        branches = {f"arm{i}": [each] for i, each in enumerate(arms.values())}
        prompts = [[dict(message) for message in each] for each in conversations]
        about = json.dumps(
            [self.known, prompts, [each.record() for each in arms.values()]], sort_keys=True, default=str
        )
        divergences = self.keep(
            f"neutral-{hashlib.sha256(about.encode()).hexdigest()[:16]}",
            lambda: next_token_kl(self.lm, conversations, branches, budget=self.budget),
        )
        return {arm: divergences[name] for arm, name in zip(arms, branches, strict=True)}

    def steer(self, step: Floats, dose: float, name: str, source: str, **where: Any) -> Intervention:
        """Adds so many steps at the place, or elsewhere."""
        return Steer(Vector(self.whole(step), name, source), strength=dose, **self._where(**where))

    def clamp(self, belief: float, group: str, step: Floats, name: str) -> Intervention:
        """Sets the log-odds that the probe reads of a group, by moving along a direction."""
        readout = self.readout_of(group)
        direction = Vector(self.whole(readout.direction), "probe")
        along = Vector(self.whole(step), name)
        return Clamp(direction, belief, offset=readout.offset, along=along, **self._where())

    def erase(self, eraser: Eraser) -> Intervention:
        """Erases at the place."""
        read, write = (np.stack([self.whole(row) for row in rows]) for rows in (eraser.read, eraser.write))
        return Erase(Eraser(read, write, self.whole(eraser.mean), eraser.name, eraser.source), **self._where())

    def on_neutral(self) -> Any:
        """The tokens of a neutral conversation that are most like those that are edited: its last ones by name, else
        the end of its last message.
        """
        at = self.place.edited
        if isinstance(at, Position):
            return "last" if at.at in AT_THE_ANSWER else Position(at="end", message=-1)
        return at

    def part(self, values: Floats) -> Floats:
        """Of values [..., width] those of the probe's head."""
        width, start = self._head(values.shape[-1])
        return values[..., start : start + width]

    def whole(self, values: Floats) -> Floats:
        """[width] from those of the probe's head."""
        if self.place.head is None:
            return values
        wide = np.zeros(self._heads() * len(values))
        _, start = self._head(len(wide))
        wide[start : start + len(values)] = values
        return wide

    def _head(self, width: int) -> tuple[int, int]:
        if self.place.head is None:
            return width, 0
        of_head = width // self._heads()
        return of_head, of_head * self.place.head

    def _heads(self) -> int:
        return int(self.lm.model.config.get_text_config().num_attention_heads)

    def _where(self, **changed: Any) -> dict[str, Any]:
        return {"layers": self.place.layer, "at": self.place.edited, "sites": self.place.site} | changed

    def _capture(self) -> CapturePlan:
        return CapturePlan(sites=(self.place.site,), layers=self.layers)  # type: ignore

    def _query(self, name: str, asked: CausalQuestion) -> Query:
        return self.lm.reader.query(
            name,
            asked.messages,
            asked.options,
            asked.prefill,
            positions={TOKEN: self.place.position},
            terminators=asked.terminators,
            own_turns=True,
        )


def _require_shared(queries: Sequence[Query], context: str) -> None:
    """Raise UserError if questions differ before the probe's token: then it is not one belief that is edited."""
    trunks = {query.prompt.ids[: query.places[-1].token + 1] for query in queries}
    if len(trunks) > 1:
        raise UserError(
            f"context {context!r}: belief, action and stated belief differ before the probe's token; read it earlier"
        )


def log_odds(reading: ExactReading, asked: CausalQuestion) -> float:
    """Natural log-odds of what the options mean; infinite where the probability of one side is 0."""
    with np.errstate(divide="ignore"):
        values = np.asarray(asked.values)
        up, down = (logsumexp(reading.logp + np.log(weights)) for weights in (values, 1 - values))
        return float(up - down)


def share(reading: ExactReading, asked: CausalQuestion) -> float:
    """Mean of what the options mean."""
    return float(reading.prob @ np.asarray(asked.values))


def arms_of(reading: Arrays) -> list[Arm]:
    """What was done, after the unedited branch."""
    return [Arm(*arm) for arm in json.loads(str(reading["arms"]))]


def readings_of(n: int, numbered: Iterable[tuple[int, Arrays]]) -> dict[Arm, Floats]:
    """Arm -> [n, outcomes], the unedited branch among them; NaN in contexts where it was not made."""
    readings: dict[Arm, Floats] = {}
    for i, reading in numbered:
        for arm, values in zip((PLAIN, *arms_of(reading)), reading["values"], strict=True):
            readings.setdefault(arm, np.full((n, len(OUTCOMES)), np.nan))[i] = values
    return readings


def features_of(readings: Sequence[Arrays], session: Session) -> dict[tuple[str, str], Floats]:
    """(Eraser, or empty, and place) -> [contexts, d] activations."""
    names = ["", *(arm.name for arm in arms_of(readings[0]) if arm.kind == "erase")]
    layers = {HERE: session.layers.index(session.place.layer), LATER: len(session.layers) - 1}
    if len(session.layers) == 1:
        del layers[LATER]
    return {
        (name, where): np.stack([reading["features"][row, layer] for reading in readings])
        for row, name in enumerate(names)
        for where, layer in layers.items()
    }
