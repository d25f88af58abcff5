"""Drift within a question, under the model's own sampling law (METRICS A9)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.typing import ArrayLike

from ..inference.multiplicity import adjust
from ..inference.studentised import studentised_mean
from ..score import NAN, Score
from ..validation import Floats, updates


@dataclass(frozen=True, kw_only=True)
class Drift(Score):
    """Mean squared drift of a question's belief, sampling noise removed."""

    headline: ClassVar[str] = "drift2"
    drift2: float = NAN
    """Unbiased, and so negative about half of the time if there is no drift."""
    n_questions: int = 0
    n_chains: int = 0
    mean_drift: Floats = field(default_factory=lambda: np.zeros(0))
    """[questions given] mean update; NaN where fewer than two chains are left."""
    t: Floats = field(default_factory=lambda: np.zeros(0))
    """Of each question alone; empty for `drift_covariance`, and so are the two below."""
    p_question: Floats = field(default_factory=lambda: np.zeros(0))
    p_holm: Floats = field(default_factory=lambda: np.zeros(0))


def drift_variance(
    deltas: Sequence[ArrayLike] | Floats, *, level: float = 0.95, draws: int = 2000, seed: int = 0
) -> Drift:
    """Mean over questions of squared mean update, less its sampling variance (METRICS A9).

    Args:
        deltas: for each question, the updates b_T - b_0 of its chains, sampled at temperature 1 without
            truncation (any other sampler breaks the martingale by itself). NaN is a chain without a belief.
        level: of the interval, over questions.
        draws: of the studentised bootstrap over questions; fewer than ten get a t interval.
        seed: of the bootstrap.

    A question needs two chains and is otherwise dropped and counted. b_0 must be exact: noise in it is shared
    by the chains and counts as drift (then use `drift_covariance`). `p` is one-sided: drift only adds.
    """
    means, variances = np.full((2, len(deltas)), np.nan)
    t = np.full(len(deltas), np.nan)
    p = np.full(len(deltas), np.nan)
    n_chains = 0
    for i, chains in enumerate(deltas):
        d = _updates(chains, f"deltas[{i}]")
        if len(d) < 2:
            continue
        n_chains += len(d)
        means[i], variances[i] = d.mean(), d.var(ddof=1) / len(d)
        if d.max() > d.min():
            t[i] = means[i] / np.sqrt(variances[i])
            p[i] = 2 * scipy.stats.t.sf(abs(t[i]), len(d) - 1)
    return Drift(
        **_over_questions(means**2 - variances, level=level, draws=draws, seed=seed),
        n_chains=n_chains,
        mean_drift=means,
        t=t,
        p_question=p,
        p_holm=adjust(p).p_adjusted,
    )


def drift_covariance(
    first: Sequence[ArrayLike] | Floats,
    second: Sequence[ArrayLike] | Floats,
    *,
    level: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
) -> Drift:
    """The same from two disjoint halves, for a prior that is itself an estimate (METRICS A9).

    Args:
        first: for each question, updates of some of its chains from one reading of b_0.
        second: of the other chains, from another reading whose noise is independent.
        level: of the interval.
        draws: of the bootstrap over questions.
        seed: of the bootstrap.

    The mean over questions of the product of the halves' means; each half needs one chain.
    """
    if len(first) != len(second):
        raise ValueError(f"lengths differ: first {len(first)}, second {len(second)}; give both per question")
    halves = np.full((2, len(first)), np.nan)
    n_chains = 0
    for i, pair in enumerate(zip(first, second, strict=True)):
        one, two = (_updates(x, f"{name}[{i}]") for x, name in zip(pair, ("first", "second"), strict=True))
        if len(one) and len(two):
            halves[:, i] = one.mean(), two.mean()
            n_chains += len(one) + len(two)
    return Drift(
        **_over_questions(halves.prod(axis=0), level=level, draws=draws, seed=seed),
        n_chains=n_chains,
        mean_drift=halves.mean(axis=0),
    )


def _updates(chains: ArrayLike, name: str) -> Floats:
    d = updates(chains, name)
    if d.ndim != 1:
        raise ValueError(f"{name}: shape {d.shape}; give one update per chain")
    return d[np.isfinite(d)]


def _over_questions(squares: Floats, *, level: float, draws: int, seed: int) -> dict[str, Any]:
    """The fields of a mean over questions."""
    known = squares[np.isfinite(squares)]
    n, dropped = len(known), len(squares) - len(known)
    interval = studentised_mean(known, seed=seed, draws=draws, level=level)
    mean = float(known.mean()) if n else NAN
    found = interval.fields() | {
        "n_rows": n,
        "n_clusters": n,
        "n_dropped": dropped,
        "drift2": mean,
        "n_questions": n,
        "reasons": {"too_few_chains": dropped} if dropped else {},
        "status": "too_few" if not n else "one_cluster" if n < 2 else "ok",
    }
    if interval.se > 0:
        found["p"] = float(scipy.stats.t.sf(mean / interval.se, n - 1))
        found["p_method"] = f"one-sided t({n - 1}) over questions"
    return found
