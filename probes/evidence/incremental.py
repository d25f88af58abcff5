"""What a probe adds beyond what is known without it: the exact logit, the verbal belief, both (PROBES 10).

Both models are logistic, fitted on the same grouped folds. Under the null the part of the probe that the others do not
explain is exchanged between groups, and the larger model fitted anew.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from ...metrics.decision.prediction import logloss_improvement
from ...metrics.score import NAN, Score
from ...metrics.validation import Floats, floats
from ..selection.permute import permuted_targets
from .skill import log_loss

STEPS = 12
SHRINK = 1e-2
"""Penalty on standardised columns: keeps separable data finite, the same in both models."""
AT_ONCE = 20_000_000
"""Numbers of the permuted designs that are held at once."""


@dataclass(frozen=True, kw_only=True)
class Incremental(Score):
    """METRICS E5 with a permutation test."""

    headline: ClassVar[str] = "gain"
    gain: float = NAN
    """Out-of-fold log-loss without the probe less that with it, nats per row; negative if it only adds noise."""
    loss_without: float = NAN
    loss_with: float = NAN
    base: tuple[str, ...] = ()


def incremental_validity(
    probe: ArrayLike,
    y: ArrayLike,
    base: Sequence[tuple[str, ArrayLike]],
    groups: ArrayLike,
    folds: NDArray[np.intp],
    *,
    roles: ArrayLike | None = None,
    draws: int = 999,
    seed: int = 0,
    level: float = 0.95,
) -> Incremental:
    """Gain in grouped log-loss of probe and base over base alone.

    Args:
        probe: [n] cross-fitted log-odds of the probe.
        y: [n] what is predicted: truth, or an action, in [0, 1].
        base: (name, [n] log-odds) of what is known without the probe; rows with a hole in one are dropped.
        groups: [n].
        folds: [n] grouped.
        roles: [n] what a row is within its group.
        draws: permutations.
        seed: of them.
        level: of the interval of the gain, which is conditional on the fits.
    """
    names = tuple(name for name, _ in base)
    columns = np.column_stack([floats(probe), *(floats(column) for _, column in base)])
    kept = np.isfinite(columns).all(axis=1)
    columns, y, labels = columns[kept], floats(y)[kept], np.asarray(groups)[kept]
    _, mine = np.unique(np.asarray(folds)[kept], return_inverse=True)
    roles = None if roles is None else np.asarray(roles)[kept]
    counts = {
        "n_rows": int(kept.sum()),
        "n_dropped": int((~kept).sum()),
        "reasons": {"undefined": int((~kept).sum())} if not kept.all() else {},
        "n_clusters": len(set(labels.tolist())),
    }
    if mine.max(initial=0) < 1 or len(set(y.tolist())) < 2:
        return Incremental(status="too_few", base=names, **counts)
    known = np.column_stack([np.ones(len(y)), _unit(columns[:, 1:])])
    rest = columns[:, 0] - known @ np.linalg.lstsq(known, columns[:, 0], rcond=None)[0]
    if rest.std() <= 1e-9 * max(1.0, float(columns[:, 0].std())):
        return Incremental(status="nothing_new", base=names, **counts)
    rest = rest / rest.std()
    null = permuted_targets(rest, labels, roles, draws=draws, seed=seed).targets
    without = _out_of_fold(known, np.zeros((len(y), 1)), y, mine)[:, 0]
    with_it = _out_of_fold(known, np.column_stack([rest, null]), y, mine)
    loss = log_loss(y, without).mean()
    gains = loss - np.array([log_loss(y, one).mean() for one in with_it.T])
    observed = float(gains[0])
    interval = {}
    if set(np.unique(y)) <= {0.0, 1.0}:
        interval = logloss_improvement(
            without, with_it[:, 0], y, eps=1e-6, groups=labels, seed=seed, level=level
        ).interval()
    return Incremental(
        gain=observed,
        loss_without=float(loss),
        loss_with=float(loss - observed),
        base=names,
        p=float((1 + (gains[1:] >= observed - 1e-12).sum()) / (1 + draws)),
        p_method=f"residual probe exchanged between groups, {draws} permutations",
        **(interval | {"params": {"draws": draws, "seed": seed}}),
        **counts,
    )


def _unit(x: Floats) -> Floats:
    scale = x.std(axis=0)
    return (x - x.mean(axis=0)) / np.where(scale > 0, scale, 1.0)


def _out_of_fold(known: Floats, added: Floats, y: Floats, folds: NDArray[np.intp]) -> Floats:
    """[n, B] beliefs by logistic fits of [known, one column of added], each fold by the fit without it."""
    found = np.empty_like(added)
    block = max(1, AT_ONCE // (len(y) * (known.shape[1] + 1)))
    for start in range(0, added.shape[1], block):
        some = added[:, start : start + block]
        for k in range(int(folds.max()) + 1):
            test = folds == k
            beta = _newton(known[~test], some[~test], y[~test])
            found[test, start : start + block] = expit(known[test] @ beta[:, :-1].T + some[test] * beta[:, -1])
    return found


def _newton(known: Floats, added: Floats, y: Floats) -> Floats:
    """[B, p + 1] coefficients of B logistic fits that differ in their last column alone."""
    p, n_fits = known.shape[1], added.shape[1]
    beta = np.zeros((n_fits, p + 1))
    ridge = np.append(0.0, np.full(p, SHRINK))
    for _ in range(STEPS):
        score = known @ beta[:, :-1].T + added * beta[:, -1]
        prob = expit(score)
        off, weight = prob - y[:, None], np.maximum(prob * (1 - prob), 1e-9)
        gradient = np.column_stack([off.T @ known, (off * added).sum(axis=0)]) + ridge * beta
        hessian = np.empty((n_fits, p + 1, p + 1))
        hessian[:, :p, :p] = np.einsum("nb,ni,nj->bij", weight, known, known, optimize=True)
        hessian[:, :p, p] = hessian[:, p, :p] = (weight * added).T @ known
        hessian[:, p, p] = (weight * added**2).sum(axis=0)
        hessian += np.diag(ridge)
        step = np.linalg.solve(hessian, gradient[..., None])[..., 0]
        beta -= np.clip(step, -5, 5)
        if np.abs(step).max() < 1e-8:
            break
    return beta
