"""Uncertainty of what a probe says: groups are resampled and everything is fitted anew (PROBES 7).

The errors of one probe are shared by all its items, so that a bootstrap over items with a fixed probe is too narrow.
A resample holds fewer different groups than the data, so that its probes are a little worse: the interval is therefore
the estimate and the standard error of the draws, not their percentiles.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

from ...metrics.inference.rows import cluster_codes
from ..folds import MIN_FOLDS

Rows = NDArray[np.intp]
Statistic = Callable[[Rows, NDArray[np.intp]], Mapping[str, float]]
"""From row numbers, with repetitions, and the fold of each, to named numbers, everything fitted on those rows."""
METHOD = "groups resampled, probe refitted, normal"


class Refitted(NamedTuple):
    """A number with its interval."""

    value: float
    lo: float
    hi: float
    se: float
    n_groups: int

    def within(self, least: float, most: float) -> "Refitted":
        """The same with its interval cut to the range that the number can have."""
        return self._replace(lo=max(self.lo, least), hi=min(self.hi, most)) if self.known else self

    @property
    def known(self) -> bool:
        """Whether there is an interval."""
        return bool(np.isfinite(self.se))


def refit(
    statistic: Statistic, groups: ArrayLike, folds: NDArray[np.intp], *, draws: int, seed: int, level: float = 0.95
) -> dict[str, Refitted]:
    """Estimates of a statistic on all rows, with intervals from refits on resampled groups.

    A copy of a group stays in the group's fold. A number that is undefined in more than a tenth of the draws has no
    interval.
    """
    codes, n_groups = cluster_codes(groups, len(folds))
    rows_of = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes, minlength=n_groups))[:-1])
    whole = statistic(np.arange(len(folds)), folds)
    rng = np.random.default_rng(seed)
    drawn: dict[str, list[float]] = {name: [] for name in whole}
    done = 0
    while done < draws:
        rows = np.concatenate([rows_of[g] for g in rng.integers(0, n_groups, n_groups)])
        present, renumbered = np.unique(folds[rows], return_inverse=True)
        if len(present) < MIN_FOLDS:
            continue
        done += 1
        for name, value in statistic(rows, renumbered).items():
            drawn[name].append(value)
    z = float(norm.ppf(0.5 + level / 2))
    found = {}
    for name, value in whole.items():
        values = np.array(drawn[name])
        finite = values[np.isfinite(values)]
        se = float(finite.std(ddof=1)) if len(finite) >= max(2, 0.9 * draws) else float("nan")
        found[name] = Refitted(float(value), value - z * se, value + z * se, se, n_groups)
    return found
