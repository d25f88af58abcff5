"""How a causal check is made and judged, fixed before anything is edited, and what it has read: in every context,
unedited and under each intervention (PROBES 9, 11).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from ...base.settings import Settings
from ...metrics.contract import Floats
from ..cross_validation import PENALTIES
from ..evidence.study import Penalty
from ..groups import MIN_FOLDS

Dose = Annotated[float, Field(gt=0, allow_inf_nan=False)]
PATTERN, WEIGHTS, MEANS = "pattern", "weights", "means"
"""Directions that a check makes itself: the covariance of the activations with the probe's score (Haufe et al. 2014),
the probe's own weights, and the difference of the means of what is likely and what is not."""


class CausalThresholds(Settings):
    """What falsifies a causal claim, besides intervals that reach zero."""

    groups: int = Field(default=10, ge=2)
    """Fewest groups for any claim."""
    reversal: float = Field(default=0.1, ge=0, lt=1)
    """Most that the mean dose response may turn back, as a share of its range."""
    gain: float = Field(default=0.1, ge=0, lt=1)
    """That the interval of the causal gain must exceed: a forward pass has no noise, and any gain is more than none."""
    error: float = Field(default=0.1, gt=0, lt=1)
    """Mean distance from the posterior that surgery may leave, with its interval."""
    left: float = Field(default=0.1, gt=0, lt=1)
    """R2 that what is left after an erasure must stay below, with its interval."""
    obeys: float = Field(default=0.2, gt=0, lt=1)
    """How far from 1 the slope of the belief on what Bayes' rule asks for may lie, with its interval: an interval that
    merely holds 1 shows nothing."""


class CausalPlan(Settings):
    """Settings of a causal check."""

    directions: tuple[str, ...] = Field(default=(PATTERN, WEIGHTS, MEANS), min_length=1)
    """That are steered along: `pattern`, `weights`, `means`, or names of directions that are given. Claims are about
    the first."""
    doses: tuple[Dose, ...] = Field(default=(0.5, 1.0, 2.0, 4.0), min_length=2)
    """In standard deviations of the activations' projection on the direction; each is given both ways."""
    dose: Dose = 2.0
    """The registered one of them, at which directions are compared."""
    random: int = Field(default=100, ge=0, le=10**5)
    """Directions drawn from the covariance of the activations, as long as the registered one at the registered dose. 0:
    none; fewer than 19 say nothing at a level of 95%."""
    random_contexts: int = Field(default=20, ge=2)
    """Contexts in which they are tried, the first of each group in turn."""
    surgery: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = (0.1, 0.3, 0.5, 0.7, 0.9)
    """Beliefs to which the probe's is set; none: no surgery."""
    erase: bool = True
    """Whether the target is erased. It needs a target, and as many groups as folds."""
    folds: int = Field(default=5, ge=MIN_FOLDS)
    """Of groups, without each of which an eraser and a probe of what is left are fitted."""
    shrinkage: float = Field(default=0.1, ge=0, lt=1)
    """Of the covariance by which a target is erased."""
    penalties: tuple[Penalty, ...] = Field(default=PENALTIES, min_length=1)
    refits: int = Field(default=60, ge=20, le=10**5)
    """Of the intervals of what can still be decoded."""
    draws: int = Field(default=2000, ge=50, le=10**6)
    """Of every bootstrap."""
    level: float = Field(default=0.95, gt=0.5, lt=1)
    seed: int = Field(default=0, ge=0, lt=2**32)
    thresholds: CausalThresholds = CausalThresholds()

    @model_validator(mode="after")
    def _hangs_together(self) -> "CausalPlan":
        if self.dose not in self.doses:
            raise ValueError(f"dose: {self.dose:g} is not one of the doses {', '.join(f'{d:g}' for d in self.doses)}")
        for name in ("doses", "directions", "surgery"):
            if len(set(getattr(self, name))) < len(getattr(self, name)):
                raise ValueError(f"{name}: one is there twice")
        return self

    @property
    def signed(self) -> tuple[float, ...]:
        """All doses, both ways, ascending."""
        return tuple(sorted((*self.doses, *(-dose for dose in self.doses))))


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
        """[n] half the difference between an arm and the same with its dose turned round: what depends on the sign."""
        return (self.of(arm, outcome) - self.of(arm._replace(dose=-arm.dose), outcome)) / 2

    def asked(self, outcome: str) -> bool:
        """Whether an outcome was read at all."""
        return bool(np.isfinite(self.of(PLAIN, outcome)).any())
