"""Contexts read under interventions: unedited and edited branches in one tree and one pass, so that they are paired."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp

from ....hooks.backends.capture import CapturePlan
from ....hooks.edits.along import Clamp, Erase
from ....hooks.edits.erasure import Eraser
from ....hooks.edits.interventions import Intervention, Steer
from ....hooks.edits.vector import Vector
from ....hooks.errors import UserError
from ....hooks.exact.exact import ExactReading
from ....hooks.exact.next_token import next_token_kl
from ....hooks.lm import LanguageModel
from ....hooks.model.blocks import blocks
from ....hooks.prompts.chat import Conversation
from ....hooks.prompts.places import Position
from ....hooks.prompts.query import Query
from ....metrics.validation import Floats
from ....probes.card.site_rule import AT_THE_ANSWER
from ....probes.causal.data import ACTION, COVERAGE, EXACT, HERE, LATER, OUTCOMES, PLAIN, PROBE, VERBAL, Arm
from ....probes.estimators.readout import LinearReadout
from ....probes.kept import Arrays
from .contexts import CausalContext, CausalPlace, CausalQuestion

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
        queries = [self.at(one)._query(f"{i}", one.belief) for i, one in enumerate(contexts)]
        _, _, captured = self.lm.read(queries, budget=self.budget, capture=self._capture())
        assert captured is not None
        (values,) = captured.residuals.values()
        return self.part(values.double().numpy())

    def under(self, context: CausalContext, arms: Mapping[Arm, Intervention], *, whole: bool) -> Arrays:
        """`values` [arms + 1, outcomes], unedited before the arms, whose `arms` are their JSON; and `features` [1 +
        erasers, layers, d] at the probe's token, unedited and under each erasure.

        Args:
            context: what is asked.
            arms: what is done, each beside the others.
            whole: whether actions and stated beliefs are read, too, besides the exact belief.
        """
        told = [context.belief.record(), whole and [a and a.record() for a in (context.action, context.verbal)]]
        about = [context.group, told, [[*arm, one.record()] for arm, one in arms.items()]]
        digest = hashlib.sha256(json.dumps([self.known, about], sort_keys=True, default=str).encode()).hexdigest()[:16]
        return self.keep(f"context-{digest}", lambda: self.at(context)._under(context, arms, whole))

    def _under(self, context: CausalContext, arms: Mapping[Arm, Intervention], whole: bool) -> Arrays:
        asked = {EXACT: context.belief}
        if whole:
            asked |= {name: one for name, one in ((ACTION, context.action), (VERBAL, context.verbal)) if one}
        queries = [self._query(name, one) for name, one in asked.items()]
        _require_shared(queries, context.name)
        branches = {f"arm{i}": [one] for i, one in enumerate(arms.values())}
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
        branches = {f"arm{i}": [one] for i, one in enumerate(arms.values())}
        told = [[dict(message) for message in one] for one in conversations]
        about = json.dumps([self.known, told, [one.record() for one in arms.values()]], sort_keys=True, default=str)
        found = self.keep(
            f"neutral-{hashlib.sha256(about.encode()).hexdigest()[:16]}",
            lambda: next_token_kl(self.lm, conversations, branches, budget=self.budget),
        )
        return {arm: found[name] for arm, name in zip(arms, branches, strict=True)}

    def steer(self, step: Floats, dose: float, name: str, source: str, **where: Any) -> Steer:
        """Adds so many steps at the place, or elsewhere."""
        return Steer(Vector(self.whole(step), name, source), strength=dose, **self._where(**where))

    def clamp(self, belief: float, group: str, step: Floats, name: str) -> Clamp:
        """Sets the log-odds that the probe reads of a group, by moving along a direction."""
        readout = self.readout_of(group)
        direction = Vector(self.whole(readout.direction), "probe")
        along = Vector(self.whole(step), name)
        return Clamp(direction, belief, offset=readout.offset, along=along, **self._where())

    def erase(self, eraser: Eraser) -> Erase:
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
        made = np.zeros(self._heads() * len(values))
        _, start = self._head(len(made))
        made[start : start + len(values)] = values
        return made

    def _head(self, width: int) -> tuple[int, int]:
        if self.place.head is None:
            return width, 0
        own = width // self._heads()
        return own, own * self.place.head

    def _heads(self) -> int:
        return int(self.lm.model.config.get_text_config().num_attention_heads)

    def _where(self, **changed: Any) -> dict[str, Any]:
        return {"layers": self.place.layer, "at": self.place.edited, "sites": self.place.site} | changed

    def _capture(self) -> CapturePlan:
        return CapturePlan(sites=(self.place.site,), layers=self.layers)  # pyright: ignore[reportArgumentType]

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
        up, down = (logsumexp(reading.logp + np.log(one)) for one in (values, 1 - values))
        return float(up - down)


def share(reading: ExactReading, asked: CausalQuestion) -> float:
    """Mean of what the options mean."""
    return float(reading.prob @ np.asarray(asked.values))


def arms_of(one: Arrays) -> list[Arm]:
    """What was done, after the unedited branch."""
    return [Arm(*arm) for arm in json.loads(str(one["arms"]))]


def readings_of(n: int, found: Iterable[tuple[int, Arrays]]) -> dict[Arm, Floats]:
    """Arm -> [n, outcomes], the unedited branch among them; NaN in contexts where it was not made.

    Args:
        n: contexts.
        found: number of a context, and what was read in it.
    """
    made: dict[Arm, Floats] = {}
    for i, one in found:
        for arm, values in zip((PLAIN, *arms_of(one)), one["values"], strict=True):
            made.setdefault(arm, np.full((n, len(OUTCOMES)), np.nan))[i] = values
    return made


def features_of(found: Sequence[Arrays], session: Session) -> dict[tuple[str, str], Floats]:
    """(Eraser, or empty, and place) -> [contexts, d] activations."""
    names = ["", *(arm.name for arm in arms_of(found[0]) if arm.kind == "erase")]
    layers = {HERE: session.layers.index(session.place.layer), LATER: len(session.layers) - 1}
    if len(session.layers) == 1:
        del layers[LATER]
    return {
        (name, where): np.stack([one["features"][row, layer] for one in found])
        for row, name in enumerate(names)
        for where, layer in layers.items()
    }
