"""How many surprises a mean loss rests on: near 0 and 1 it is made by outcomes that seldom come (METRICS F1).

Where none of them came, the losses hardly vary, and no interval and no test that looks at their spread holds.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..validation import floats
from .rows import complete_rows

FEW_SURPRISES = 5.0
"""As the counts that are expected of a table should be at least (Cochran 1954)."""
RARE = 0.2
"""Surprises that are likelier than this come often enough to be seen in any sample that has clusters enough."""


class Surprises(NamedTuple):
    """What the spread of a mean loss is made of, by the lights of the beliefs themselves."""

    effective: float
    """How many surprises of one size would make it; infinite where no outcome changes the loss."""
    chance: float
    """Their mean chance, each weighing by what it adds to the variance."""

    @property
    def few(self) -> bool:
        """Whether no interval of the mean loss is promised."""
        return self.effective < FEW_SURPRISES and self.chance < RARE


def surprises(beliefs: ArrayLike, losses: ArrayLike, clusters: ArrayLike | None = None) -> Surprises:
    """Count the surprises that a mean loss, or a mean difference of losses, rests on.

    Args:
        beliefs: [n, k] probabilities of the k outcomes of each row.
        losses: [n, k] what the row would lose (or one kind more than the other) if each came true.
        clusters: [n] whose rows have one outcome, or outcomes that go together. None: every row its own.

    An outcome that is not the likeliest one comes with chance q and moves the loss by J. Sums of such jumps have the
    variance of sum J^2 q, and the excess kurtosis of (sum J^2 q)^2 / sum J^4 q equal ones: as many as they are where
    they are alike, and one where a single question decides. Rows with a hole are left out.
    """
    p, loss = floats(beliefs), floats(losses)
    if p.ndim != 2 or p.shape != loss.shape:
        raise ValueError(f"beliefs {p.shape}, losses {loss.shape}; give [n, outcomes] twice")
    rows = complete_rows(clusters, p=p, loss=loss)
    p, loss = rows.columns
    if not rows.n:
        return Surprises(np.inf, 1.0)
    likeliest = p.argmax(axis=1)[:, None]
    jump = (loss - np.take_along_axis(loss, likeliest, axis=1)) ** 2
    if not jump.any():
        return Surprises(np.inf, 1.0)
    if not (jump * p).any():  # beliefs of 0 and 1 foresee no surprise
        return Surprises(0.0, 0.0)
    jump = jump / jump.max()
    together = np.bincount(rows.codes)[rows.codes].astype(np.float64)  # equal rows jump at once: m^2 J^2 q, m^4 J^4 q
    variance = float(together @ (jump * p).sum(axis=1))
    fourth = float(together**3 @ (jump**2 * p).sum(axis=1))
    return Surprises(variance**2 / fourth, float(together @ (jump * p * p).sum(axis=1)) / variance)
