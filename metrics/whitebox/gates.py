"""May an inner read-out be called a belief? The gate of inner read-outs (METRICS W3).

Read-outs come as matrices [n, k]: one row per context, one column per option as it stands in the prompt.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import lsqr
from scipy.special import log_softmax, logit, logsumexp

from ..consistency.evidence_response import MOST, items_responding
from ..contract import NAN, RESAMPLING, Floats, Resampling, Score, floats, refuse, same_shape
from ..divergence import LOGIT_EPS
from ..inference.clusters import complete_rows
from ..inference.intervals import Interval, moment_interval
from ..inference.means import cluster_mean

MAX_LOGIT = float(logit(1 - LOGIT_EPS))


class WordIdentityNull(Score, headline="null_prob"):
    """METRICS W3."""

    null_prob: Floats
    """[n, k] read-outs that depend on the words alone. Score them like real ones, then `chance_corrected`."""
    constants: Mapping[Any, float]
    """Mean log-probability of each word, in nats."""


def word_identity_null(logp: ArrayLike, option: ArrayLike, item: ArrayLike) -> WordIdentityNull:
    """What a read-out would be that knows the words and no context (METRICS W3).

    Args:
        logp: [n, k] natural log-probabilities.
        option: [n, k] the word of each, or [k] if all contexts share them.
        item: [n] item of each context; items weigh equally in the constants, however many contexts they have.

    -Inf and NaN are left out of the means; a word without any finite value makes its contexts NaN. A score
    that compares read-outs of the same words (two-class consistency) has 1 under this null: then the score
    cannot tell a belief from word identity, and `chance_corrected` is NaN (`chance_is_perfect`).
    """
    logp, words = _matrix(logp, option, "logp")
    labels = np.asarray(item)
    if labels.shape != (len(logp),):
        raise ValueError(f"item: shape {labels.shape} for {len(logp)} contexts; give one per context")
    codes, unique = pd.factorize(words.ravel())
    cells = pd.DataFrame({"item": np.repeat(labels, logp.shape[1]), "word": codes, "logp": logp.ravel()})
    cells = cells[np.isfinite(cells["logp"])]
    by_item = cells.groupby(["word", "item"], sort=False)["logp"].mean()
    means = by_item.groupby(level="word").mean().reindex(range(len(unique))).to_numpy()
    null = log_softmax(means[codes].reshape(logp.shape), axis=1)
    bad = np.isnan(null).any(axis=1)
    return WordIdentityNull(
        null_prob=np.where(bad[:, None], np.nan, np.exp(null)),
        constants=dict(zip(unique.tolist(), means.tolist(), strict=True)),
        n_rows=int((~bad).sum()),
        n_clusters=len(pd.unique(labels)),
        n_dropped=int(bad.sum()),
        reasons={"word_without_value": int(bad.sum())} if bad.any() else {},
    )


class ReadoutGate(Score, headline="partial_corr"):
    """METRICS W3. The interval of the base class is that of `partial_corr`, over items."""

    coverage: float = NAN
    """Median over contexts of the inner read-out's mass on the options."""
    partial_corr: float = NAN
    """Correlation of inner with exact log-odds given the words. Word identity has none: NaN, which fails."""
    evidence_response: float = NAN
    """Mean change of the rejected option's inner log-odds from prior to posterior."""
    evidence_exact: float = NAN
    """The same of the exact read-out."""
    evidence_ci: tuple[float, float] = (NAN, NAN)
    responding: float = NAN
    """Share of the items in which the rejected option moves as in the exact read-out, less those in which it moves the
    other way."""
    responding_ci: tuple[float, float] = (NAN, NAN)
    """One-sided bounds of that share."""
    withheld: str = ""
    """Why that share is not judged, in words; empty if it is."""
    n_clipped: int = 0
    """Log-odds cut at those of 1e-6 from 0 or 1."""
    failures: tuple[str, ...] = ()
    """Which of `coverage`, `partial_corr`, `evidence_response` and `items_responding` did not pass."""
    passed: bool = False


def readout_gate(
    inner_logp: ArrayLike,
    exact_logp: ArrayLike,
    option: ArrayLike,
    item: ArrayLike,
    rejected: ArrayLike,
    *,
    min_coverage: float = 0.01,
    min_corr: float = 0.5,
    min_responding: float = MOST,
    noise_floor: float = 1e-6,
    how: Resampling = RESAMPLING,
) -> ReadoutGate:
    """May an inner read-out be called a belief? To be judged on held-out items (METRICS W3).

    Args:
        inner_logp: [n, k] natural log-probabilities at an inner layer, not normalised.
        exact_logp: [n, k] those of the model's output.
        option: [n, k] the word of each, or [k] if all contexts share them; None, and log-probabilities of NaN, where a
            context has fewer options.
        item: [n] item of each context: pairs posteriors with priors, and is the unit of the intervals.
        rejected: [n] column of the rejected option, or of that which the evidence is about; -1 marks a prior context.
        min_coverage: the median coverage must reach it.
        min_corr: the partial correlation must reach it, with the lower end of its interval above 0.
        min_responding: the share of the items that respond must lie above it, with its one-sided bound; see
            `items_responding`. Of fewer than five items it is withheld, not judged.
        noise_floor: a mean evidence response of this size or less, in nats, is none.

    The correlation is of what is left of log option shares when the best constant per word and level per
    context are taken out of both. Taking each word's mean out of its log-odds would leave the words beside
    it, and a read-out of words alone could pass.

    The evidence response must have the exact one's sign with an interval off 0: a mean, which a tenth of the items can
    make. So most items have to respond, too. What is undefined fails.
    A context with a NaN is dropped; a single item has no interval and fails.
    """
    inner, words = _matrix(inner_logp, option, "inner_logp")
    exact, _ = _matrix(exact_logp, option, "exact_logp")
    same_shape(inner_logp=inner, exact_logp=exact)
    k = inner.shape[1]
    if k < 2:
        raise ValueError("inner_logp: one option has no log-odds; give two or more")
    where = np.asarray(rejected)
    if where.shape != (len(inner),) or not np.isin(where, np.arange(-1, k)).all():
        raise ValueError(f"rejected: give one column 0 .. {k - 1} per context, or -1 for a prior")
    there = ~pd.isna(words)
    inner, exact = (np.where(there, logp, -np.inf) for logp in (inner, exact))
    words = np.where(there, words, "")
    rows = complete_rows(item, inner_logp=inner, exact_logp=exact, option=words, rejected=where, there=there)
    inner, exact, words, where, there = rows.columns
    items = rows.codes
    settings: dict[str, Any] = {
        "min_coverage": min_coverage,
        "min_corr": min_corr,
        "min_responding": min_responding,
        "noise_floor": noise_floor,
        **how.params,
    }
    if not rows.n:
        failures = ("coverage", "partial_corr", "evidence_response")
        return ReadoutGate(failures=failures, status="too_few", params=settings, **rows.counts)
    coverage = float(np.median(np.exp(logsumexp(inner, axis=1))))
    (x, clipped_x), (y, clipped_y) = _log_odds(inner, there), _log_odds(exact, there)
    codes = pd.factorize(words.ravel())[0].reshape(words.shape)
    u, v = _without_words(inner, codes, there), _without_words(exact, codes, there)
    moments = np.stack([u * u, v * v, u * v]).sum(axis=2).T

    def corr(sums: Floats) -> Floats:
        scale = sums[:, 0] * sums[:, 1]
        return sums[:, 2] / np.sqrt(np.where(scale > 0, scale, np.nan))

    partial = float(corr(moments.sum(axis=0, keepdims=True))[0])
    interval = Interval()
    if np.isfinite(partial):
        interval = moment_interval(moments, items, corr, how=how)
    response, response_exact, owners = _evidence(x, y, codes, items, where)
    change = cluster_mean(response, owners, how=how)
    share = items_responding(response, response_exact, owners, how=Resampling(level=2 * how.level - 1))
    change_exact = float(response_exact.mean()) if len(response_exact) else NAN
    # Without a floor the rounding of a constant read-out would be a response with a tight interval.
    off_zero = abs(change.mean) > noise_floor and (change.ci_lo > 0 or change.ci_hi < 0)
    verdicts = {
        "coverage": coverage >= min_coverage,
        "partial_corr": partial >= min_corr and interval.lo > 0,
        "evidence_response": off_zero and change.mean * change_exact > 0,
        "items_responding": bool(share.withheld) or share.ci_lo > min_responding,
    }
    failures = tuple(name for name, passed in verdicts.items() if not passed)
    return ReadoutGate(
        coverage=coverage,
        partial_corr=partial,
        evidence_response=change.mean,
        evidence_exact=change_exact,
        evidence_ci=(change.ci_lo, change.ci_hi),
        responding=share.share,
        responding_ci=(share.ci_lo, share.ci_hi),
        withheld=share.withheld,
        n_clipped=clipped_x + clipped_y,
        failures=failures,
        passed=not failures,
        **interval.fields(**settings),
        **rows.counts,
    )


def _matrix(logp: ArrayLike, option: ArrayLike, name: str) -> tuple[Floats, NDArray[Any]]:
    array = floats(logp)
    words = np.asarray(option, dtype=object)
    if array.ndim != 2:
        raise ValueError(f"{name}: shape {array.shape}; give [contexts, options]")
    refuse(array, array > 1e-6, f"{name}:", " is no log-probability; give values of 0 or less")
    if words.shape not in (array.shape, array.shape[1:]):
        raise ValueError(f"option: shape {words.shape} for {name} {array.shape}; give [n, k] or [k]")
    return array, np.broadcast_to(words, array.shape)


def _log_odds(logp: Floats, there: NDArray[np.bool_]) -> tuple[Floats, int]:
    """Log-odds of each option against the others, cut at `MAX_LOGIT`, and how many were cut. NaN: none is there."""
    others = [logsumexp(np.delete(logp, j, axis=1), axis=1) for j in range(logp.shape[1])]
    with np.errstate(invalid="ignore"):
        odds = np.where(there, logp - np.stack(others, axis=1), np.nan)  # NaN if no option has any mass, too
    n_clipped = int((np.abs(odds) > MAX_LOGIT).sum())
    return np.clip(odds, -MAX_LOGIT, MAX_LOGIT), n_clipped


def _without_words(logp: Floats, word: NDArray[np.intp], there: NDArray[np.bool_]) -> Floats:
    """Log option shares [n, k] less the best constant per word and level per context; 0 if none is left."""
    size = there.sum(axis=1)
    context = np.nonzero(there)[0]  # [m] of each cell that is there
    with np.errstate(invalid="ignore"):
        shares = log_softmax(logp, axis=1)[there]
    shares = np.maximum(np.where(np.isnan(shares), -np.log(size[context]), shares), np.log(LOGIT_EPS))
    y = shares - (np.bincount(context, shares, len(logp)) / size)[context]
    # One row per cell: its own word, less the mean of the words of its context.
    cell, beside = np.nonzero(there[context])
    rows = np.concatenate([np.arange(len(y)), cell])
    columns = np.concatenate([word[there], word[context[cell], beside]])
    values = np.concatenate([np.ones(len(y)), -1 / size[context[cell]]])
    design = csr_array((values, (rows, columns)), shape=(len(y), int(word.max()) + 1))
    left = y - design @ lsqr(design, y, atol=1e-12, btol=1e-12)[0]
    if float(left @ left) <= 1e-12 * max(float(y @ y), 1.0):  # dust of the solver
        left = np.zeros_like(y)
    means = np.zeros_like(logp)
    means[there] = left
    return means


def _evidence(
    x: Floats, y: Floats, word: NDArray[np.intp], items: NDArray[Any], rejected: NDArray[Any]
) -> tuple[Floats, Floats, NDArray[Any]]:
    """Per posterior: change of the rejected word's log-odds from the item's priors, and the item."""
    k = x.shape[1]
    cells = pd.DataFrame({"item": np.repeat(items, k), "word": word.ravel(), "inner": x.ravel(), "exact": y.ravel()})
    is_prior = np.repeat(rejected < 0, k)
    is_rejected = np.tile(np.arange(k), len(x)) == np.repeat(rejected, k)
    before = cells[is_prior].groupby(["item", "word"], as_index=False)[["inner", "exact"]].mean()
    both = cells[is_rejected].merge(before, on=["item", "word"], suffixes=("", "_before"))
    inner, exact = ((both[name] - both[f"{name}_before"]).to_numpy(dtype=np.float64) for name in ("inner", "exact"))
    return inner, exact, both["item"].to_numpy()
