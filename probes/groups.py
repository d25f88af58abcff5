"""What shares content stays together: grouped folds, and targets that groups exchange as wholes (PROBES 3 to 5).

Groups exchange targets only with groups of the same shape: the same rows by role (template, negation, position,
...). What a role does to the targets on average is so kept, and only what the content says is lost.
"""

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


EXCHANGEABLE = 5
"""Groups that must be able to exchange their targets for a test to be made."""


class Permuted(NamedTuple):
    """Targets of the null."""

    targets: Floats
    """[n, draws]."""
    n_fixed: int
    """Groups that no other has the shape of: they keep their targets, which makes the test conservative."""


def permuted_targets(
    y: ArrayLike, groups: ArrayLike, roles: ArrayLike | None = None, *, draws: int, seed: int
) -> Permuted:
    """Group-permuted copies of targets [n].

    Args:
        y: [n] numbers.
        groups: [n].
        roles: [n] what a row is within its group; None: its number in it.

    Raises UserError if fewer than five groups can exchange their targets.
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
    if n_groups - n_fixed < EXCHANGEABLE:
        raise UserError(
            f"groups: {n_groups - n_fixed} of {n_groups} have the same rows as another; a permutation test needs at "
            f"least {EXCHANGEABLE}"
        )
    rng = np.random.default_rng(seed)
    targets = np.repeat(y[:, None], draws, axis=1)
    for draw in range(draws):
        for rows in movable:
            targets[rows, draw] = y[rows[rng.permutation(len(rows))]]
    return Permuted(targets, n_fixed)
