"""How probes are trained and judged, fixed before anything is read (PROBES 4, 11)."""

from typing import Annotated

from pydantic import Field

from ..hooks.settings import Settings
from .folds import MIN_FOLDS
from .selection.nested import PENALTIES

Penalty = Annotated[float, Field(ge=1e-6, le=1e12)]


class Thresholds(Settings):
    """What falsifies a claim. They are printed beside it, and are part of what a job is known by."""

    alpha: float = Field(default=0.05, gt=0, lt=0.5)
    """Of every permutation test."""
    selectivity: float = Field(default=0.1, ge=0)
    """R2 that the target must have above random targets."""
    coherence: float = Field(default=0.1, gt=0, lt=1)
    """Most that |p(X) + p(not X) - 1| may be on average."""
    groups: int = Field(default=50, ge=5)
    """Fewest groups for any claim."""


class StudyPlan(Settings):
    """Settings of a sweep and of what is shown of its registered place."""

    depth: float = Field(default=0.6, ge=0, le=1)
    """The registered layer rule: the relative depth at which the probe of the claims is read."""
    folds: int = Field(default=5, ge=MIN_FOLDS)
    penalties: tuple[Penalty, ...] = Field(default=PENALTIES, min_length=1)
    permutations: int = Field(default=199, ge=19, le=10**6)
    """Of the band, and of every permutation test."""
    refits: int = Field(default=200, ge=20, le=10**6)
    """Resamples of groups with all fits repeated, of every interval."""
    control_draws: int = Field(default=20, ge=1, le=10**5)
    """Random targets of the control task."""
    transfer: tuple[str, ...] = ("polarity", "template", "domain")
    """Columns to train on one level of and test on another, where they are there."""
    level: float = Field(default=0.95, gt=0.5, lt=1)
    seed: int = Field(default=0, ge=0, lt=2**32)
    """Of folds, permutations, refits and controls."""
    thresholds: Thresholds = Thresholds()
