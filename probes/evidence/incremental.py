"""What a probe adds beyond what is known without it: the exact logit, the verbal belief, both (PROBES 10).

Both models are logistic, fitted on the same grouped folds. What they are fitted on is read by probes that saw
neither the fold that they are judged on nor the row's own: a cross-fitted probe alone would carry the labels of the
one into the other. Under the null the part of the probe that the others do not explain is exchanged between the
groups of the fold that is judged, while both models stay as they were fitted without it.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from ...metrics.contract import NAN, RESAMPLING, TIE, Floats, Resampling, Score, floats
from ...metrics.decision.prediction import logloss_improvement
from ...metrics.inference.randomisation import tail_p
from ..estimators import standardised
from ..groups import permuted_targets
from .crossfit import log_loss

STEPS = 12
SHRINK = 1e-2
"""Penalty on standardised columns: keeps separable data finite, the same in both models."""


class Incremental(Score, headline="gain"):
    """METRICS E5 with a permutation test."""

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
    how: Resampling = RESAMPLING,
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
        how: the permutations, 999 unless it says otherwise, and the level of the interval of the gain, which is
            conditional on the fits.

    Each fold has a p of its own, by exchanges within it, and they are combined by Cauchy's law, which holds however
    they depend on each other (Liu and Xie 2020). They do: where two folds agree by chance each adds to the gain of the
    other, and exchanges over all folds at once, which undo that, reject what is true in 8 to 15% at a level of 5%.
    """
    how = how.drawing(999)
    names = tuple(name for name, _ in base)
    columns = np.column_stack([floats(column) for _, column in base])
    numbers = np.unique(np.asarray(folds), return_inverse=True)[1]
    read = np.broadcast_to(floats(probe), (int(numbers.max()) + 1, len(columns)))
    kept = np.isfinite(columns).all(axis=1) & np.isfinite(read).all(axis=0)
    columns, y, labels = columns[kept], floats(y)[kept], np.asarray(groups)[kept]
    present, fold_of = np.unique(numbers[kept], return_inverse=True)
    read = read[present][:, kept]
    roles = None if roles is None else np.asarray(roles)[kept]
    counts: dict[str, Any] = {
        "n_rows": int(kept.sum()),
        "n_dropped": int((~kept).sum()),
        "reasons": {"undefined": int((~kept).sum())} if not kept.all() else {},
        "n_clusters": len(set(labels.tolist())),
    }
    if len(present) < 2 or len(set(y.tolist())) < 2:
        return Incremental(status="too_few", base=names, **counts)
    known = np.column_stack([np.ones(len(y)), standardised(columns)[0]])
    rest = np.stack([_unexplained(row, known, fold_of != k) for k, row in enumerate(read)])
    if not rest.any():
        return Incremental(status="nothing_new", base=names, **counts)
    within = np.zeros(len(y)) if roles is None else roles
    apart = np.char.add(
        np.char.add(fold_of.astype(str), "|"), np.asarray(within).astype(str)
    )  # exchanged within a fold
    exchange = {"groups": labels, "roles": apart, "seed": how.seed}
    moved = permuted_targets(np.arange(len(y)), **exchange, draws=how.n_draws)
    if moved.untested or permuted_targets(y, **exchange, draws=0).untested:
        return Incremental(status="too_few", base=names, **counts)
    order = np.column_stack([np.arange(len(y)), moved.targets.astype(np.intp)])
    without, with_it, p_fold = np.empty(len(y)), np.empty(len(y)), []
    for k, row in enumerate(rest):
        test = fold_of == k
        plain, fuller = (_newton(known[~test], added[~test], y[~test]) for added in (np.zeros_like(row), row))
        without[test] = expit(known[test] @ plain[:-1])
        score = (known[test] @ fuller[:-1])[:, None] + fuller[-1] * row[order[test]]
        losses = np.array([log_loss(y[test], p).mean() for p in expit(score).T])
        with_it[test] = expit(score[:, 0])
        p_fold.append(tail_p(-float(losses[0]), -losses[1:], exact=False, slack=TIE))
    loss = float(log_loss(y, without).mean())
    observed = loss - float(log_loss(y, with_it).mean())
    interval: dict[str, Any] = {}
    if set(np.unique(y)) <= {0.0, 1.0}:
        interval = logloss_improvement(
            without, with_it, y, eps=1e-6, groups=labels, how=replace(how, draws=None)
        ).interval()
    interval["params"] = {"draws": how.n_draws, "seed": how.seed}
    return Incremental(
        gain=observed,
        loss_without=loss,
        loss_with=loss - observed,
        base=names,
        p=_cauchy(np.array(p_fold)),
        p_method=f"residual probe exchanged within folds, {how.n_draws} permutations, {len(p_fold)} folds combined",
        **interval,
        **counts,
    )


def _unexplained(probe: Floats, known: Floats, train: NDArray[np.bool_]) -> Floats:
    """[n] the probe less what the known columns say of it, by the training rows; 0 where nothing is left."""
    rest = probe - known @ np.linalg.lstsq(known[train], probe[train], rcond=None)[0]
    size = float(rest[train].std())
    return rest / size if size > 1e-9 * max(1.0, float(probe.std())) else np.zeros_like(rest)


def _cauchy(p: Floats) -> float:
    """One p of several, however they depend on each other."""
    steep = np.tan((0.5 - np.minimum(p, 1 - 1 / 64)) * np.pi)  # a p of 1 would outweigh all others
    return float(0.5 - np.arctan(steep.mean()) / np.pi)


def _newton(known: Floats, added: Floats, y: Floats) -> Floats:
    """[p + 1] coefficients of the logistic fit of y on what is known [n, p], with an intercept, and what is added."""
    x = np.column_stack([known, added])
    beta, ridge = np.zeros(x.shape[1]), np.append(0.0, np.full(known.shape[1], SHRINK))
    for _ in range(STEPS):
        prob = expit(x @ beta)
        weight = np.maximum(prob * (1 - prob), 1e-9)
        step = np.linalg.solve((x * weight[:, None]).T @ x + np.diag(ridge), (prob - y) @ x + ridge * beta)
        beta -= np.clip(step, -5, 5)
        if np.abs(step).max() < 1e-8:
            break
    return beta
