"""Agents that are asked the same question again and again, and see their own answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from .trajectories import Floats


@dataclass(frozen=True)
class Repeating:
    """An agent whose distribution at a turn is (1 - weight) times that afresh plus weight times where history draws it.

    Afresh, the log-probability of an option has SD `taste` between options, and a place in the list adds `lean` for
    each place that it is further up; both are multiplied, so that the order matters. Where history draws it:

    - `nowhere`: it ignores history. B is 0, whatever the lean, and it settles at once.
    - `uniform`: it corrects itself. From turn 2 on, B(a) = weight (P_single(a) - 1/k).
    - `truth`: it leaks what is right. From turn 2 on, B(a) = weight P_single(a) of every wrong option.
    - `last`: it sticks to its last answer. Without a lean B is 0 in expectation, and the slope of the update on the
      belief is weight - 1 from turn 2 on, within a question.
    - `urn`: it learns from its answers as from draws, (strength P_single + counts) / (strength + answers): a
      martingale without a lean, with B = 0 in expectation. Its `weight` says nothing.
    """

    drawn: Literal["nowhere", "uniform", "truth", "last", "urn"] = "nowhere"
    weight: float = 0.5
    taste: float = 0.7
    lean: float = 0.0
    strength: float = 4.0

    def fresh(self, orders: Sequence[Sequence[int]], rng: np.random.Generator) -> Floats:
        """[orders, k] its distribution afresh, for a question with these orders of the options."""
        k = len(orders[0])
        liking = self.taste * rng.standard_normal(k)
        place: NDArray[np.int64] = np.array([np.argsort(order) for order in orders])
        return softmax(liking - self.lean * place, axis=1)

    def turn(self, fresh: Floats, history: Sequence[int], truth: int | None = None) -> Floats:
        """[k] its distribution at a turn, from that afresh in the same order and its answers so far."""
        k = len(fresh)
        if not history or self.drawn == "nowhere":
            return fresh
        if self.drawn == "urn":
            counts = np.bincount(history, minlength=k)
            return (self.strength * fresh + counts) / (self.strength + len(history))
        to = {"uniform": None, "last": history[-1], "truth": truth}[self.drawn]
        return (1 - self.weight) * fresh + self.weight * (np.full(k, 1 / k) if to is None else np.eye(k)[to])
