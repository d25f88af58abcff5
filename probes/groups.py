"""What shares content stays together: grouped folds, and targets that groups exchange as wholes (PROBES 3 to 5).

Groups exchange targets only with groups of the same shape: the same rows by role (template, negation, position,
...). What a role does to the targets on average is so kept, and only what the content says is lost.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ..base.errors import UserError
from ..metrics.contract import Floats
from ..metrics.inference.clusters import cluster_codes

MIN_FOLDS = 3
"""Of two folds, one held out, none would be left to select by."""

Ints = NDArray[np.intp]


def grouped_folds(groups: ArrayLike, n_folds: int, seed: int) -> Ints:
    """[n] the fold of each row, 0 to `n_folds` - 1; every group in one of them, folds of about equal size.

    Groups are shuffled by the seed, and the larger ones placed first, each in the fold that holds the fewest rows.

    Raises UserError for fewer groups than folds, or fewer than three folds.
    """
    codes, n_groups = cluster_codes(groups, len(np.asarray(groups)))
    if n_folds < MIN_FOLDS:
        raise UserError(f"folds: {n_folds}; nested selection needs at least {MIN_FOLDS}")
    if n_groups < n_folds:
        raise UserError(f"folds: {n_folds} of {n_groups} groups; give at least as many groups as folds")
    sizes = np.bincount(codes, minlength=n_groups)
    shuffled = np.random.default_rng(seed).permutation(n_groups)
    home, filled = np.empty(n_groups, dtype=np.intp), np.zeros(n_folds, dtype=np.int64)
    for group in shuffled[np.argsort(-sizes[shuffled], kind="stable")]:
        home[group] = np.argmin(filled)
        filled[home[group]] += sizes[group]
    return home[codes]


EXCHANGEABLE, ARRANGEMENTS = 5, 20
"""Groups that must be able to exchange their targets, and different targets that must come of it: of fewer no p is .05.
"""


class Permuted(NamedTuple):
    """Targets of the null."""

    targets: Floats
    """[n, draws]."""
    n_fixed: int
    """Groups that no other has the shape of: they keep their targets, which makes the test conservative."""
    untested: str
    """Why no test can be made of them, with what to do; empty: one can. There are no draws then."""


def permuted_targets(
    y: ArrayLike, groups: ArrayLike, roles: ArrayLike | None = None, *, draws: int, seed: int
) -> Permuted:
    """Group-permuted copies of targets [n]; none where too few groups, or groups that are all alike, exchange them.

    Args:
        y: [n] numbers.
        groups: [n].
        roles: [n] what a row is within its group; None: its number in it.
    """
    y = np.asarray(y, dtype=np.float64)
    codes, n_groups = cluster_codes(groups, len(y))
    if roles is None:
        names = pd.Series(codes).groupby(codes).cumcount().astype(str)
    else:
        names = pd.Series(np.asarray(roles)).astype(str)
        names = names + "\0" + names.groupby([codes, names]).cumcount().astype(str)
    order = np.lexsort((names.to_numpy(), codes))
    starts = np.searchsorted(codes[order], np.arange(n_groups))
    rows_of = np.split(order, starts[1:])
    shapes: dict[tuple[str, ...], list[int]] = {}
    for group, rows in enumerate(rows_of):
        shapes.setdefault(tuple(names.iloc[rows]), []).append(group)
    movable = [np.stack([rows_of[group] for group in alike]) for alike in shapes.values() if len(alike) > 1]
    n_fixed = n_groups - sum(map(len, movable))
    untested = ""
    if n_groups - n_fixed < EXCHANGEABLE:
        untested = (
            f"{n_groups - n_fixed} of {n_groups} groups have the same rows as another, and a permutation test needs at "
            f"least {EXCHANGEABLE}; give more groups"
        )
    elif (different := _arrangements([y[rows] for rows in movable])) == 1:
        untested = (
            "all groups hold the same labels, so exchanging them between groups changes nothing; give groups that "
            "differ, such as some of true statements alone and some of false ones"
        )
    elif different < ARRANGEMENTS:
        untested = (
            f"exchanging labels between groups gives {different:.0f} different ones, and a permutation test needs at "
            f"least {ARRANGEMENTS}; give more groups, or groups that differ"
        )
    rng = np.random.default_rng(seed)
    draws = 0 if untested else draws
    targets = np.repeat(y[:, None], draws, axis=1)
    for draw in range(draws):
        for rows in movable:
            targets[rows, draw] = y[rows[rng.permutation(len(rows))]]
    return Permuted(targets, n_fixed, untested)


def _arrangements(targets: Sequence[Floats]) -> float:
    """How many different targets come of exchanges: [groups, rows] of those of each shape."""
    ways = 0.0
    for alike in targets:
        _, times = np.unique(alike, axis=0, return_counts=True)
        ways += math.lgamma(len(alike) + 1) - sum(math.lgamma(n + 1) for n in times.tolist())
    return round(math.exp(min(ways, 100.0)))
