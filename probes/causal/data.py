"""What a causal check has read: in every context, unedited and under each intervention."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...metrics.validation import Floats

PROBE, EXACT, ACTION, VERBAL, COVERAGE = "probe", "exact", "action", "verbal", "coverage"
OUTCOMES = (PROBE, EXACT, ACTION, VERBAL, COVERAGE)
"""Log-odds that the probe reads, log-odds of the exact belief, share of the action, the stated belief, and the coverage
of the exact belief's options: a model that steering has broken says none of them."""
HERE, LATER = "at the place", "after the last block"
"""Where activations are read under erasure, both at the probe's token."""


class Arm(NamedTuple):
    """One intervention."""

    kind: Literal["plain", "steer", "layer", "position", "unrelated", "random", "fold", "erase", "set", "swap"]
    """`layer`, `position`: the registered direction at a wrong one. `fold`: that of the probe which was fitted without
    a fold. `set`: the probe's belief is set. `swap`: to what it is in the context that this one is paired with."""
    name: str = ""
    """Of the direction, or of the eraser."""
    dose: float = 0.0
    """In standard deviations, with its sign; under `set` the belief."""


PLAIN = Arm("plain")


@dataclass(frozen=True)
class CausalData:
    """[n] contexts."""

    groups: NDArray[Any]
    """[n] what shares content."""
    readings: Mapping[Arm, Floats]
    """[n, outcomes] `OUTCOMES` under each arm; NaN where it was not asked."""
    spreads: Mapping[str, float]
    """Direction -> standard deviation of the projection on it: the unit of its doses."""
    target: Floats
    """[n] what the probe is of, a probability; NaN: not known."""
    log_lr: Floats
    """[n] log-likelihood ratio of the evidence that comes after the place and before the question."""
    break_even: Floats
    """[n] probability from which on the action is the better choice; NaN: not known."""
    folds: NDArray[np.intp] | None = None
    """[n] without which each context was erased; None: nothing was."""
    features: Mapping[tuple[str, str], Floats] = field(default_factory=dict)
    """(eraser, or empty, and place) -> [n, d] activations."""
    pairs: NDArray[np.intp] = field(default_factory=lambda: np.zeros((0, 2), dtype=np.intp))
    """[pairs, 2] contexts whose values along the registered direction are swapped: low and high."""
    kl: Mapping[Arm, Floats] = field(default_factory=dict)
    """[m] KL divergence in nats of the next token after neutral prompts."""
    by_fold: Mapping[str, float] = field(default_factory=dict)
    """Fold -> what a probe that was fitted without it reads more at the registered dose of its own direction."""

    def of(self, arm: Arm, outcome: str) -> Floats:
        """[n] an outcome under an arm. NaN where it was not read, or is not finite."""
        column = self.readings[arm][:, OUTCOMES.index(outcome)]
        return np.where(np.isfinite(column), column, np.nan)

    def change(self, arm: Arm, outcome: str) -> Floats:
        """[n] from the unedited branch."""
        return self.of(arm, outcome) - self.of(PLAIN, outcome)

    def effect(self, arm: Arm, outcome: str) -> Floats:
        """[n] half the difference between an arm and the same with its dose turned round: what depends on the sign, not
        on the size of the disturbance."""
        return (self.of(arm, outcome) - self.of(arm._replace(dose=-arm.dose), outcome)) / 2

    def asked(self, outcome: str) -> bool:
        """Whether an outcome was read at all."""
        return bool(np.isfinite(self.of(PLAIN, outcome)).any())
