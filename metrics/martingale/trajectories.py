"""From trajectories of a belief to the pairs that a martingale regression takes (METRICS A11)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..inference.rows import cluster_codes
from ..score import Score
from ..validation import Floats, one_of, probabilities

MODES = ("per_step", "first_last")


@dataclass(frozen=True, kw_only=True)
class TrajectoryPairs(Score):
    """Pairs of a belief and a later one; arrays [n_pairs]."""

    headline: ClassVar[str] = "n_pairs"
    n_pairs: int
    prior: Floats
    post: Floats
    group: NDArray
    """Question of each pair: what to cluster by."""
    weight: Floats
    """1 / pairs of its question: as `weights`, they give the question-balanced slope."""
    n_without_pair: int
    """Trajectories that gave none."""


def trajectory_pairs(
    trajectories: Sequence[ArrayLike], mode: str = "per_step", groups: ArrayLike | None = None
) -> TrajectoryPairs:
    """Pair the beliefs along each trajectory (METRICS A11).

    Args:
        trajectories: one sequence of beliefs in [0, 1] per trajectory, of any lengths; NaN is missing.
        mode: `per_step`, each belief with the next; or `first_last`, the first with the last. The slopes of
            the two differ by compounding, and per-step slopes of procedures with unequal numbers of steps
            cannot be compared.
        groups: question of each trajectory; without them each trajectory is its own, numbered from 0.

    A pair needs both its beliefs: a missing step is never bridged, and the pairs lost are counted.
    """
    one_of(mode, MODES, "mode")
    labels = np.arange(len(trajectories)) if groups is None else np.asarray(groups)
    cluster_codes(labels, len(trajectories))
    prior, post, owner = [], [], []
    n_dropped = 0
    found = np.zeros(len(trajectories), dtype=np.intp)
    for i, trajectory in enumerate(trajectories):
        b = probabilities(trajectory, f"trajectories[{i}]")
        if b.ndim != 1:
            raise ValueError(f"trajectories[{i}]: shape {b.shape}; give a sequence of beliefs")
        before, after = (b[:-1], b[1:]) if mode == "per_step" or len(b) < 2 else (b[:1], b[-1:])
        whole = np.isfinite(before) & np.isfinite(after)
        prior.append(before[whole])
        post.append(after[whole])
        found[i] = whole.sum()
        n_dropped += int((~whole).sum())
        owner.append(np.full(found[i], i))
    index = np.concatenate([*owner, np.zeros(0)]).astype(np.intp)
    group = labels[index]
    codes, n_groups = cluster_codes(group, len(group))
    per_group = np.bincount(codes, minlength=n_groups)
    n = len(index)
    return TrajectoryPairs(
        n_pairs=n,
        prior=np.concatenate([*prior, np.zeros(0)]),
        post=np.concatenate([*post, np.zeros(0)]),
        group=group,
        weight=1.0 / per_group[codes],
        n_without_pair=int((found == 0).sum()),
        n_rows=n,
        n_clusters=n_groups,
        n_dropped=n_dropped,
        reasons={"missing_step": n_dropped} if n_dropped else {},
        status="ok" if n else "too_few",
        params={"mode": mode},
    )
