"""What an organism has learnt, measured through the ordinary loader against the exact posterior."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import expit

from ....hooks.edits.interventions import Replace
from ..trajectories import Floats
from .network import HELD_AT
from .reading import beliefs_of, held_along, numbers_of
from .species import Species
from .world import Contexts, UrnQuestion, draw_contexts

if TYPE_CHECKING:
    from ....hooks.lm import LanguageModel

LEAST_R2, MOST_ERROR = 0.99, 0.02
"""What training must reach, or it fails: R2 of log-odds, and mean absolute error of a probability."""
FRESH = 20_231
"""Seed of contexts that no organism was trained on."""


class Learnt(NamedTuple):
    """One reading of an organism against what it should be."""

    reading: str
    r2: float
    """Of log-odds."""
    error: float
    """Mean absolute error of a probability."""
    slope: float
    """Of log-odds on those that they should be."""

    @property
    def reached(self) -> bool:
        """Whether it is within the tolerance."""
        return self.r2 >= LEAST_R2 and self.error <= MOST_ERROR
