"""How a causal check is made and judged, fixed before anything is edited (PROBES 9, 11)."""

from typing import Annotated

from pydantic import Field, model_validator

from ...hooks.settings import Settings
from ..folds import MIN_FOLDS
from ..plan import Penalty
from ..selection.nested import PENALTIES

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
