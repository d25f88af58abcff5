"""Grouped folds: what shares content lies in one fold (PROBES 3)."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..hooks.errors import UserError
from ..metrics.inference.rows import cluster_codes

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


def check_folds(folds: ArrayLike, groups: ArrayLike) -> Ints:
    """The folds [n] of a user's own, numbered from 0.

    Raises UserError naming a group that lies in two of them: what was trained on would be tested on.
    """
    given = np.asarray(folds)
    labels = np.asarray(groups)
    numbers, n_folds = cluster_codes(given, len(labels))
    codes, n_groups = cluster_codes(labels, len(labels))
    lowest, highest = np.full(n_groups, n_folds), np.full(n_groups, -1)
    np.minimum.at(lowest, codes, numbers)
    np.maximum.at(highest, codes, numbers)
    if (torn := lowest != highest).any():
        name = labels[int(np.argmax(torn[codes]))]
        raise UserError(f"folds: group {str(name)!r} lies in several; rows that share content belong in one fold")
    if n_folds < MIN_FOLDS:
        raise UserError(f"folds: {n_folds}; nested selection needs at least {MIN_FOLDS}")
    return numbers
