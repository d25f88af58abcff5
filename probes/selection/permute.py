"""Targets under the null that what is shared by a group says nothing of its targets (PROBES 4, 5).

Groups exchange their targets as wholes, and only with groups of the same shape: the same rows by role (template,
negation, position, ...). What a role does to the targets on average is so kept, and only what the content says is lost.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ...hooks.errors import UserError
from ...metrics.inference.rows import cluster_codes
from ...metrics.validation import Floats

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
        draws: copies.
        seed: of the permutations.

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
