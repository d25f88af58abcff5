"""Minimal pairs of a world: the same patient but for one covariate, which moves the true chance."""

from collections.abc import Iterator
from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from ...hooks.errors import UserError
from ...hooks.prompts.chat import Conversation
from ...hooks.prompts.options import make_options
from ...hooks.prompts.spans import Span
from ...hooks.settings import Settings, check_placeholders
from ..materials.worlds.source import QUITE, WorldSource, load_world
from ..materials.worlds.world import World
from .minimal_pair import MinimalPair

MOST = 20_000
"""Patients that are drawn to find pairs."""


class CovariatePairs(Settings):
    """A covariate in the state that speaks most against the target, and in that which speaks most for it."""

    of: Literal["covariate"] = "covariate"
    world: WorldSource = WorldSource(of="breast-cancer")
    reveal: int = Field(default=2, ge=1)
    """Covariates of a patient, the one that is exchanged among them."""
    smallest: float = Field(default=0.1, gt=0, lt=1)
    """By how much the exchange moves the true chance at least."""
    answers: tuple[str, str] = ("Yes", "No")
    ask: str = "Answer {yes} or {no}."
    prefill: str = ""
    forms: tuple[str, ...] = Field(default=("{option}",), min_length=1)

    @model_validator(mode="after")
    def _placeholders(self) -> "CovariatePairs":
        check_placeholders("ask", self.ask, ("yes", "no"))
        return self

    def candidates(self, seed: int) -> Iterator[MinimalPair]:
        """Pairs of whatever length."""
        if self.world.of == QUITE:
            raise UserError("pairs.world: queries in words have no covariates to exchange; name another world")
        world = load_world(self.world)
        if (n := len(world.description.observable)) < self.reveal:
            raise UserError(f"pairs.reveal: {self.reveal} covariates; there are {n}")
        seen: set[str] = set()
        for number in range(MOST):
            pair = self._pair(world, number, np.random.default_rng([seed, number]))
            if pair is not None and pair.cluster not in seen:
                seen.add(pair.cluster)
                yield pair

    def _pair(self, world: World, number: int, rng: np.random.Generator) -> MinimalPair | None:
        words = world.description
        names = sorted(rng.choice(words.observable, self.reveal, replace=False), key=words.observable.index)
        drawn = world.draw(rng)
        moved = str(names[int(rng.integers(len(names)))])
        if any(name not in drawn for name in names):
            return None
        evidence = {str(name): drawn[name] for name in names}
        chances = {state: world.chance({**evidence, moved: state}) for state in words.variables[moved].states}
        known = {state: chance for state, chance in chances.items() if np.isfinite(chance)}
        if len(known) < 2:
            return None
        low, high = min(known, key=known.__getitem__), max(known, key=known.__getitem__)
        if known[high] - known[low] < self.smallest:
            return None
        said = words.variables[moved].states[low]
        return MinimalPair(
            id=f"p{number:04}",
            cluster=f"{moved} " + " ".join(f"{k}={v}" for k, v in evidence.items() if k != moved),
            base=self._talk(world, {**evidence, moved: low}),
            donor=self._talk(world, {**evidence, moved: high}),
            options=make_options(self.answers, self.forms),
            spans={"covariate": Span(0, said), "question": Span(0)},
            prefill=self.prefill,
        )

    def _talk(self, world: World, evidence: dict[str, str]) -> Conversation:
        words = world.description
        ask = self.ask.format(yes=self.answers[0], no=self.answers[1])
        text = f"{words.told(evidence)} {words.ask.format(event=words.event)} {ask}"
        return [{"role": "user", "content": text}]
