"""What a probe is trained on: a probability, on the log-odds scale where it is regressed on (PROBES 1, 2)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..hooks.errors import UserError
from ..metrics.logodds import clipped_logit
from ..metrics.validation import Floats, probabilities

EPS = 1e-3
"""Targets are moved this far off 0 and 1 before their log-odds are taken."""
GRADED = "graded"
BINARY = "binary"


@dataclass(frozen=True)
class Target:
    """[n] targets of one probe."""

    name: str
    """`truth`, `posterior` (p* of x), `exact`, `verbal`, `action`, or a name of the user's own."""
    prob: Floats
    """[n] in [0, 1]."""
    logit: Floats
    """[n] natural log-odds, clipped."""
    n_clipped: int

    @property
    def kind(self) -> str:
        """`binary` if every target is 0 or 1, else `graded`."""
        return BINARY if bool(((self.prob == 0) | (self.prob == 1)).all()) else GRADED


def make_target(name: str, values: ArrayLike, eps: float = EPS) -> Target:
    """Checked targets.

    Raises UserError for a hole, a value that is no probability, one class only, or targets that are all the same.
    """
    try:
        prob = probabilities(values, f"target {name}")
    except ValueError as error:
        raise UserError(str(error)) from None
    if np.isnan(prob).any():
        row = int(np.argmax(np.isnan(prob)))
        raise UserError(f"target {name}: row {row} has none; leave out rows without a target")
    if len(prob) == 0 or prob.min() == prob.max():
        said = f"all {len(prob)} rows have {prob[0]:g}" if len(prob) else "there are no rows"
        raise UserError(f"target {name}: {said}; a probe needs targets that differ")
    logit, n_clipped = clipped_logit(prob, name, eps)
    return Target(name, prob, logit, n_clipped)
