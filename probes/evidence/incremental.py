"""What a probe adds beyond what is known without it: the exact logit, the verbal belief, both (PROBES 10).

Both models are logistic, fitted on the same grouped folds. What they are fitted on is read by probes that saw neither
the fold that they are judged on nor the row's own: a cross-fitted probe alone would carry the labels of the one into
the other. Under the null the part of the probe that the others do not explain is exchanged between groups, and the
larger model fitted anew.
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
        probe: [K, n] in row k what is read of the rows of fold k by a probe that did not see it, and of each other row
            by one that saw neither fold k nor the row's own (`CrossFitted.signals`); or [n], of a probe that saw none.
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
    columns = np.column_stack([floats(column) for _, column in base])
    numbers = np.unique(np.asarray(folds), return_inverse=True)[1]
    read = np.broadcast_to(floats(probe), (int(numbers.max()) + 1, len(columns)))
    kept = np.isfinite(columns).all(axis=1) & np.isfinite(read).all(axis=0)
    columns, y, labels = columns[kept], floats(y)[kept], np.asarray(groups)[kept]
    present, mine = np.unique(numbers[kept], return_inverse=True)
    read = read[present][:, kept]
    roles = None if roles is None else np.asarray(roles)[kept]
    counts = {
        "n_rows": int(kept.sum()),
        "n_dropped": int((~kept).sum()),
        "reasons": {"undefined": int((~kept).sum())} if not kept.all() else {},
        "n_clusters": len(set(labels.tolist())),
    }
    if len(present) < 2 or len(set(y.tolist())) < 2:
        return Incremental(status="too_few", base=names, **counts)
    known = np.column_stack([np.ones(len(y)), _unit(columns)])
    rest = np.stack([_unexplained(row, known, mine != k) for k, row in enumerate(read)])
    if not rest.any():
        return Incremental(status="nothing_new", base=names, **counts)
    moved = permuted_targets(np.arange(len(y)), labels, roles, draws=draws, seed=seed).targets.astype(np.intp)
    order = np.column_stack([np.arange(len(y)), moved])
    without = _out_of_fold(known, np.zeros_like(rest), order[:, :1], y, mine)[:, 0]
    with_it = _out_of_fold(known, rest, order, y, mine)
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


def _unexplained(probe: Floats, known: Floats, train: NDArray[np.bool_]) -> Floats:
    """[n] the probe less what the known columns say of it, by the training rows; 0 where nothing is left."""
    rest = probe - known @ np.linalg.lstsq(known[train], probe[train], rcond=None)[0]
    size = float(rest[train].std())
    return rest / size if size > 1e-9 * max(1.0, float(probe.std())) else np.zeros_like(rest)


def _out_of_fold(known: Floats, rest: Floats, order: NDArray[np.intp], y: Floats, folds: NDArray[np.intp]) -> Floats:
    """[n, B] beliefs by logistic fits of known and, for each fold k, one ordering [n, B] of its rest [K, n]."""
    found = np.empty(order.shape)
    block = max(1, AT_ONCE // (len(y) * (known.shape[1] + 1)))
    for k, row in enumerate(rest):
        test = folds == k
        for start in range(0, order.shape[1], block):
            some = row[order[:, start : start + block]]
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
