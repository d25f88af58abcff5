"""Trajectories of a belief: their pairs (METRICS A11), and drift under the model's own sampling law (METRICS A9)."""

from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import rel_entr

from ..contract import (
    NAN,
    RANGE_SLACK,
    RESAMPLING,
    Floats,
    Resampling,
    Score,
    one_of,
    probabilities,
    refuse,
    row_counts,
    updates,
)
from ..inference.clusters import cluster_codes
from ..inference.means import studentised_mean
from ..inference.paired import adjust


class TrajectoryPairs(Score, headline="n_pairs"):
    """Pairs of a belief and a later one; arrays [n_pairs]."""

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
    one_of(mode, ("per_step", "first_last"), "mode")
    labels = np.arange(len(trajectories)) if groups is None else np.asarray(groups)
    cluster_codes(labels, len(trajectories))
    prior, post, owner = [], [], []
    n_dropped = 0
    n_pairs = np.zeros(len(trajectories), dtype=np.intp)
    for i, trajectory in enumerate(trajectories):
        b = probabilities(trajectory, f"trajectories[{i}]")
        if b.ndim != 1:
            raise ValueError(f"trajectories[{i}]: shape {b.shape}; give a sequence of beliefs")
        before, after = (b[:-1], b[1:]) if mode == "per_step" or len(b) < 2 else (b[:1], b[-1:])
        whole = np.isfinite(before) & np.isfinite(after)
        prior.append(before[whole])
        post.append(after[whole])
        n_pairs[i] = whole.sum()
        n_dropped += int((~whole).sum())
        owner.append(np.full(n_pairs[i], i))
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
        n_without_pair=int((n_pairs == 0).sum()),
        n_rows=n,
        n_clusters=n_groups,
        n_dropped=n_dropped,
        reasons={"missing_step": n_dropped} if n_dropped else {},
        status="ok" if n else "too_few",
        params={"mode": mode},
    )


AT_BOUND = 1e-12
"""A prior this close to 0 or 1 makes any other belief at the end impossible, if only by rounding."""

RARE, MANY = 0.05, 0.25
"""Where more than so many priors are that near to 0 or 1, few chains end on the other side."""


class DriftBound(Score, headline="p"):
    """Does one question drift? (METRICS A9)"""

    smallest_p: float = NAN
    """What so many chains could attain at most, all ending at the far end: nothing below it can be found."""


def drift_bound(last: ArrayLike, prior: float) -> DriftBound:
    """Chernoff-Hoeffding bound of a question's drift: p = min(1, 2 exp(-n KL(mean of last, prior))) (METRICS A9).

    Args:
        last: [n] beliefs at the ends of independent chains, in [0, 1]; NaN is a chain without one.
        prior: the belief that they all started from.

    It holds for any beliefs in [0, 1] and any number of chains, where a t test of a few values that settle near 0
    or 1 does not. `prior_at_bound`: the prior is within 1e-12 of 0 or 1, and rounding can decide. No chain, or no
    prior: `too_few`.
    """
    ends, prior = probabilities(last, "last").ravel(), float(probabilities(prior, "prior"))
    known = ends[np.isfinite(ends)]
    n = len(known)
    counts: dict[str, Any] = row_counts(n, len(ends) - n) | {"n_clusters": n}
    if not n or np.isnan(prior):
        return DriftBound(status="too_few", **counts)
    mean = float(known.mean())
    away = float(rel_entr(mean, prior) + rel_entr(1 - mean, 1 - prior))
    return DriftBound(
        p=min(1.0, 2 * float(np.exp(-n * away))),
        p_method=f"Chernoff-Hoeffding bound, {n} chains",
        smallest_p=min(1.0, 2 * min(prior, 1 - prior) ** n),
        status="ok" if AT_BOUND <= prior <= 1 - AT_BOUND else "prior_at_bound",
        **counts,
    )


class Drift(Score, headline="drift2"):
    """Mean squared drift of a question's belief, sampling noise removed."""

    drift2: float = NAN
    """Unbiased, and so negative about half of the time if there is no drift."""
    n_questions: int = 0
    n_chains: int = 0
    mean_drift: Floats = field(default_factory=lambda: np.zeros(0))
    """[questions given] mean update; NaN where fewer than two chains are left."""
    p_question: Floats = field(default_factory=lambda: np.zeros(0))
    """`drift_bound` of each question alone; empty without priors, and so are the next two."""
    p_holm: Floats = field(default_factory=lambda: np.zeros(0))
    smallest_p: Floats = field(default_factory=lambda: np.zeros(0))
    """The smallest p that each question's chains could attain, before Holm."""
    n_drifting: int | None = None
    """Questions that drift after Holm at 1 - level; None without priors."""
    n_attainable: int | None = None
    """Questions that could pass Holm's first step at all, given how many chains they have."""
    n_at_bound: int = 0
    """Questions whose prior is within 1e-12 of 0 or 1; they are not tested."""


def drift_variance(
    deltas: Sequence[ArrayLike] | Floats,
    prior: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    *,
    how: Resampling = RESAMPLING,
) -> Drift:
    """Mean over questions of squared mean update, less its sampling variance (METRICS A9).

    Args:
        deltas: for each question, the updates b_T - b_0 of its chains, sampled at temperature 1 without
            truncation (any other sampler breaks the martingale by itself). NaN is a chain without a belief.
        prior: [questions] b_0; with it each question is tested alone by `drift_bound`, with Holm.
        clusters: [questions] cluster of each. None: every question its own.

    A question needs two chains and is otherwise dropped and counted. b_0 must be exact: noise in it is shared
    by the chains and counts as drift (then use `drift_covariance`). `p` is one-sided: drift only adds. Where more than
    a quarter of the priors lie within .05 of 0 or 1 few chains end where it matters, and neither the interval nor p
    holds its level (misses in 8 to 10% there, and far more below .01): `few_surprises`.
    """
    n = len(deltas)
    chains = [_updates(some, f"deltas[{i}]") for i, some in enumerate(deltas)]
    enough = np.array([len(d) > 1 for d in chains], dtype=bool)
    means, variances = np.full((2, n), np.nan)
    for i in np.flatnonzero(enough):
        means[i], variances[i] = chains[i].mean(), chains[i].var(ddof=1) / len(chains[i])
    alone: dict[str, Any] = {}
    rare = False
    if prior is not None:
        start = _of_each(prior, n)
        rare = _rare(start, enough)
        bounds = [drift_bound(_ends(b, d), b) for b, d in zip(start.tolist(), chains, strict=True)]
        p, smallest = (np.array([getattr(x, name) for x in bounds], float) for name in ("p", "smallest_p"))
        at_bound = np.array([x.status == "prior_at_bound" for x in bounds], dtype=bool)
        p, smallest = (np.where(enough & ~at_bound, x, np.nan) for x in (p, smallest))
        adjusted = adjust(p, alpha=1 - how.level)
        attainable = smallest * max(adjusted.family_size, 1) <= 1 - how.level
        alone = {"p_question": p, "p_holm": adjusted.p_adjusted, "smallest_p": smallest}
        alone |= {"n_drifting": int(adjusted.reject.sum()), "n_attainable": int(attainable.sum())}
        alone["n_at_bound"] = int(at_bound.sum())
    fields = _over_questions(means**2 - variances, clusters, how)
    if rare and fields["status"] == "ok":
        fields["status"] = "few_surprises"
    return Drift(**fields, n_chains=sum(len(d) for d in chains if len(d) > 1), mean_drift=means, **alone)


def drift_covariance(
    first: Sequence[ArrayLike] | Floats,
    second: Sequence[ArrayLike] | Floats,
    clusters: ArrayLike | None = None,
    *,
    prior: ArrayLike | None = None,
    how: Resampling = RESAMPLING,
) -> Drift:
    """The same from two disjoint halves, for a prior that is itself an estimate (METRICS A9).

    Args:
        first: for each question, updates of some of its chains from one reading of b_0.
        second: of the other chains, from another reading whose noise is independent.
        clusters: [questions] cluster of each. None: every question its own.
        prior: [questions] b_0 as it was read; only the status rests on it.

    The mean over questions of the product of the halves' means; each half needs one chain. Where priors lie near 0 or 1
    its level is no more promised than that of `drift_variance`: `few_surprises`. Without priors it is `no_prior`.
    """
    if len(first) != len(second):
        raise ValueError(f"lengths differ: first {len(first)}, second {len(second)}; give both per question")
    halves = np.full((2, len(first)), np.nan)
    n_chains = 0
    for i, pair in enumerate(zip(first, second, strict=True)):
        left, right = (_updates(x, f"{name}[{i}]") for x, name in zip(pair, ("first", "second"), strict=True))
        if len(left) and len(right):
            halves[:, i] = left.mean(), right.mean()
            n_chains += len(left) + len(right)
    fields = _over_questions(halves.prod(axis=0), clusters, how)
    if fields["status"] == "ok" and prior is None:
        fields["status"] = "no_prior"
    elif fields["status"] == "ok" and _rare(_of_each(prior, len(first)), ~np.isnan(halves[0] + halves[1])):
        fields["status"] = "few_surprises"
    return Drift(**fields, n_chains=n_chains, mean_drift=halves.mean(axis=0))


def _of_each(prior: ArrayLike | None, n: int) -> Floats:
    start = probabilities([] if prior is None else prior, "prior")
    if start.shape != (n,):
        raise ValueError(f"prior: shape {start.shape} for {n} questions; give one per question")
    return start


def _rare(prior: Floats, used: NDArray[np.bool_]) -> bool:
    """Whether so many of the priors that are used lie near 0 or 1 that few chains end where it matters."""
    return bool(used.any() and np.mean(np.minimum(prior, 1 - prior)[used] < RARE) > MANY)


def _updates(chains: ArrayLike, name: str) -> Floats:
    d = updates(chains, name)
    if d.ndim != 1:
        raise ValueError(f"{name}: shape {d.shape}; give one update per chain")
    return d[np.isfinite(d)]


def _ends(prior: float, deltas: Floats) -> Floats:
    """Beliefs at the ends of chains that start at `prior`; beyond [0, 1] they raise."""
    last = prior + deltas
    refuse(last, (last < -RANGE_SLACK) | (last > 1 + RANGE_SLACK), "prior + deltas:", " is not a probability")
    return last


def _over_questions(squares: Floats, clusters: ArrayLike | None, how: Resampling) -> dict[str, Any]:
    """The fields of a mean over questions."""
    here = np.isfinite(squares)
    known, labels = squares[here], None
    n, dropped = len(known), int((~here).sum())
    n_clusters = n
    if clusters is not None:
        codes: NDArray[np.intp] = cluster_codes(clusters, len(squares))[0]
        labels, n_clusters = cluster_codes(codes[here], n)
    interval = studentised_mean(known, labels, longer=True, how=how)
    mean = float(known.mean()) if n else NAN
    return (
        interval.fields()
        | interval.test_above_zero(mean)
        | {
            "n_rows": n,
            "n_clusters": n_clusters,
            "n_dropped": dropped,
            "drift2": mean,
            "n_questions": n,
            "reasons": {"too_few_chains": dropped} if dropped else {},
            "status": "too_few" if not n else "one_cluster" if n_clusters < 2 else "ok",
        }
    )
