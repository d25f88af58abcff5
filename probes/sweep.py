"""Sweeps over sites, layers and positions: the whole curve, its permutation band, and what selection makes of it.

Every permuted target goes through the same pipeline as the true one: the choice of the penalty, and of the place to
read, within each outer fold (PROBES 4).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..metrics.contract import Floats, Resampling
from .cross_validation import PENALTIES, nested_ridge, spread_of_targets
from .dataset import ProbeData
from .features import ReadAt
from .groups import Permuted, permuted_targets


@dataclass(frozen=True)
class AtPoint:
    """What one place gave for the true target (column 0) and the permuted ones."""

    inner: Floats
    """[K, 1 + draws] see `Nested`."""
    outer: Floats
    """[K, 1 + draws]."""
    penalties: Floats
    """[K] chosen for the true target."""


SpreadPoints = Callable[[Callable[[ReadAt], AtPoint], Iterable[ReadAt]], Iterable[AtPoint]]
"""What `map` does, with points that may be computed side by side."""


@dataclass(frozen=True)
class Sweep:
    """R2 are out of fold, against the mean of the training folds; they can be negative."""

    points: tuple[ReadAt, ...]
    r2: Floats
    """[points] of the true target."""
    null_r2: Floats
    """[points, draws] of the permuted ones."""
    p_max: Floats
    """[points] max-T permutation p: how often the best place of a permuted target does as well; NaN if untested."""
    band: float
    """What the best place of a permuted target stays below in a share `level` of the permutations; NaN if untested."""
    level: float
    selected_r2: float
    """Of the pipeline that chooses its place within each outer fold."""
    selected_p: float
    selected: tuple[ReadAt, ...]
    """[K] the place chosen for each outer fold."""
    penalties: Floats
    """[points, K]."""
    n_fixed: int
    """Groups that could not exchange their targets."""
    untested: str = ""
    """Why no permutation test can be made; empty: it was."""

    def p_at(self, at: ReadAt) -> float:
        """Permutation p of one place that was fixed before reading."""
        i = self.points.index(at)
        return permutation_p(self.r2[i], self.null_r2[i])


def permutation_p(observed: float, null: Floats) -> float:
    """(b + 1) / (B + 1) (METRICS F4); NaN without draws."""
    if not len(null):
        return float("nan")
    return float((1 + (null >= observed - 1e-12).sum()) / (1 + len(null)))


def null_targets(data: ProbeData, how: Resampling) -> Permuted:
    """The permuted log-odds of a data set, the same for every point."""
    return permuted_targets(data.target.logit, data.groups, data.roles, draws=how.n_draws, seed=how.seed)


def sweep_point(
    x: Floats, y: Floats, null: Floats, folds: NDArray[np.intp], penalties: Sequence[float] = PENALTIES
) -> AtPoint:
    """Nested cross-validation at one place, of the target [n] and of permuted ones [n, draws]."""
    fit = nested_ridge(x, np.column_stack([y, null]), folds, penalties, keep=False)
    return AtPoint(fit.inner, fit.outer, np.asarray(penalties, dtype=np.float64)[fit.chosen[:, 0]])


def combine(
    points: Sequence[ReadAt],
    points_of: Sequence[AtPoint],
    y: Floats,
    null: Permuted,
    folds: NDArray[np.intp],
    *,
    level: float = 0.95,
) -> Sweep:
    """The curve, its band and the selected place, from what each place gave."""
    spread = spread_of_targets(np.column_stack([y, null.targets]), folds)
    outer = np.stack([point.outer for point in points_of])  # [points, K, 1 + draws]
    inner = np.stack([point.inner for point in points_of])
    r2 = 1 - outer.sum(axis=1) / spread.sum(axis=0)
    best = inner.argmin(axis=0)  # [K, 1 + draws]
    chosen = np.take_along_axis(outer, best[None], axis=0)[0]
    selected = 1 - chosen.sum(axis=0) / spread.sum(axis=0)
    highest = r2[:, 1:].max(axis=0, initial=-np.inf)
    return Sweep(
        points=tuple(points),
        r2=r2[:, 0],
        null_r2=r2[:, 1:],
        p_max=np.array([permutation_p(value, highest) for value in r2[:, 0]]),
        band=float(np.quantile(highest, level, method="higher")) if len(highest) else float("nan"),
        level=level,
        selected_r2=float(selected[0]),
        selected_p=permutation_p(float(selected[0]), selected[1:]),
        selected=tuple(points[i] for i in best[:, 0]),
        penalties=np.stack([point.penalties for point in points_of]),
        n_fixed=null.n_fixed,
        untested=null.untested,
    )


def sweep(
    data: ProbeData,
    folds: NDArray[np.intp],
    *,
    how: Resampling,
    penalties: Sequence[float] = PENALTIES,
    known: Mapping[ReadAt, AtPoint] | None = None,
    done: Callable[[ReadAt, AtPoint], object] = lambda at, done_at: None,
    spread: SpreadPoints = map,
) -> Sweep:
    """All points of a data set.

    Args:
        folds: [n] of `grouped_folds`.
        how: the permutations, and the level of the band.
        known: what some points have given already.
        done: is told what each of the others gives, as soon as it and those before it are done.
        spread: the map of a pool of threads, say, or of Ray's.
    """
    null = null_targets(data, how)
    y = data.target.logit

    def compute(at: ReadAt) -> AtPoint:
        return sweep_point(data.read(at), y, null.targets, folds, penalties)

    done_at = dict(known or {})
    missing = [at for at in data.points if at not in done_at]
    for at, point in zip(missing, spread(compute, missing), strict=True):
        done_at[at] = point
        done(at, point)
    return combine(data.points, [done_at[at] for at in data.points], y, null, folds, level=how.level)


def at_depth(points: Sequence[ReadAt], depth: float, n_layers: int) -> int:
    """The layer at a relative depth from 0.0, the first of the model's layers, to 1.0, the last, or the nearest that
    was captured: a rule to register, which is kept where all layers were.
    """
    asked = layer_at(depth, n_layers)
    return min({at.layer for at in points}, key=lambda layer: (abs(layer - asked), layer))


def layer_at(depth: float, n_layers: int) -> int:
    """The layer of a model at a relative depth."""
    return int(depth * (n_layers - 1) + 0.5)
