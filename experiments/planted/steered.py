"""Contexts that were steered along the direction of a probe that is an estimate, of what a model uses or does not."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...probes.causal.data import OUTCOMES, PLAIN, Arm, CausalData
from ...probes.causal.plan import CausalPlan
from ...probes.estimators.ridge import ridge

ROWS, CONTEXTS = 60, 12


def along_an_estimate(seed: int, plan: CausalPlan, folds: int = 10, used: float = 0.0) -> CausalData:
    """Plants the gain `used`, up to what the probe reads along the wrong entries.

    The exact belief is one entry of the activations, and the concept of the probe in another, independent of it, which
    goes into the belief `used` times. The action follows the belief at .1 for each nat. The control, another token,
    does nothing. Probe and direction, the difference of means, are fitted on sixty rows, and again without each fold.
    """
    rng = np.random.default_rng(seed)
    x, y, n = rng.normal(size=(ROWS, 6)) * [2, 1, 1, 1, 1, 1], np.tile([-1.0, 1.0], ROWS // 2), CONTEXTS
    x[:, 1] += y
    entries = np.array([1, used, 0, 0, 0, 0])

    def fitted(rows: NDArray[np.bool_]) -> tuple[float, float]:
        """What a step makes the probe read, and the belief be, more."""
        step = x[rows][y[rows] > 0].mean(axis=0) - x[rows][y[rows] < 0].mean(axis=0)
        return float(ridge(x[rows], y[rows], 1.0)[0] @ step), float(entries @ step)

    values = np.full((n, len(OUTCOMES)), np.nan)
    values[:, :3] = rng.normal(size=(n, 3))
    readings: dict[Arm, Any] = {PLAIN: values}

    def steered(arm: Arm, read: float, moved: float) -> None:
        readings[arm] = values.copy()
        readings[arm][:, 0] += arm.dose * read
        rise = arm.dose * moved + 0.01 * rng.normal(size=n)
        readings[arm][:, 1:3] += rise[:, None] * [1, 0.1]

    of = np.arange(ROWS) // 2 % folds
    rest = {f"{k}": fitted(of != k) for k in range(folds)}
    for dose in plan.signed:
        steered(Arm("steer", "d", dose), *fitted(of >= 0))
    for sign in (1.0, -1.0):
        for k, (read, moved) in rest.items():
            steered(Arm("fold", k, sign * plan.dose), read, moved)
        steered(Arm("position", "", sign * plan.dose), 0.0, 0.0)
    blank = np.full(n, np.nan)
    by_fold = {k: plan.dose * read for k, (read, _) in rest.items()}
    return CausalData(np.arange(n), readings, {"d": 1.0}, blank, np.zeros(n), blank, by_fold=by_fold)


def expected(used: float) -> tuple[float, float]:
    """The gain, and how far a step moves the belief, along the direction that ever more rows would give.

    The means of the concept lie 2 apart in one entry, of which the probe then reads a half: its variance is 2, of which
    the concept makes 1.
    """
    return 2 * used, 2 * used
