"""Is an update the one that Bayes' rule makes of the believer's own prior and likelihoods? (METRICS D11, D12)"""

from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..contract import NAN, RESAMPLING, Floats, Resampling, Score, floats, probabilities, same_shape
from ..divergence import LOGIT_EPS
from ..inference.clusters import complete_rows
from ..inference.intervals import correlation_of_sums, moment_interval
from ..inference.means import FEW_CLUSTERS


class InformationGap(NamedTuple):
    """METRICS D11, in nats: `gap` = `change` - `evidence`."""

    gap: Floats
    """[n] KL(posterior, Bayes): 0 if and only if the update is Bayes' rule's."""
    change: Floats
    """[n] KL(posterior, prior): how far the belief went."""
    evidence: Floats
    """[n] mean log-likelihood under the posterior, less the log-probability of the evidence: what it asks for."""


def information_gap(prior: ArrayLike, loglik: ArrayLike, posterior: ArrayLike) -> InformationGap:
    """Information that comes out of an update and did not go in (METRICS D11; arXiv 2605.06915).

    Args:
        prior: [n, k] beliefs over the options; of each row their shares.
        loglik: [n, k] natural logarithm of the probability of the evidence under each, up to a constant of the row.
        posterior: [n, k] as `prior`.

    >>> round(float(information_gap([[0.5, 0.5]], np.log([[0.8, 0.2]]), [[0.5, 0.5]]).gap[0]), 4)  # ln(.5 / .4)
    0.2231
    """
    pi, q, log_like, _ = _learning(prior, loglik, posterior)
    with np.errstate(invalid="ignore"):
        marginal = np.logaddexp.reduce(np.log(pi) + log_like, axis=1, keepdims=True)
    change = (q * np.log(q / pi)).sum(axis=1)
    evidence = (q * (log_like - marginal)).sum(axis=1)
    return InformationGap(np.maximum(change - evidence, 0), change, evidence)  # a rounding below 0


class BayesCoherence(Score, headline="correlation"):
    """METRICS D12."""

    correlation: float = NAN
    gradient: float = NAN
    """Slope of the observed on the expected change of log-odds; below 1 the evidence is weighed too little."""
    n_clipped: int = 0
    """Shares of options that were moved to 1e-6."""


def bayes_coherence(
    prior: ArrayLike,
    loglik: ArrayLike,
    posterior: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    how: Resampling = RESAMPLING,
) -> BayesCoherence:
    """Bayesian coherence coefficient: Pearson correlation of observed and expected changes of log-odds (METRICS D12;
    arXiv 2507.17951), over all pairs of options in the order of their columns.

    Arguments as of `information_gap`; `groups` [n] is what was sampled. Fewer than three rows are `too_few`, beliefs
    that all change alike `no_update`, evidence that is all alike `no_evidence`.
    """
    rows = complete_rows(groups, prior=prior, loglik=loglik, posterior=posterior)
    pi, q, log_like, n_clipped = _learning(*rows.columns)
    moved = np.log(q) - np.log(pi)
    pairs = list(combinations(range(pi.shape[1]), 2))
    x, y = (np.column_stack([column[:, i] - column[:, j] for i, j in pairs]) for column in (log_like, moved))
    if rows.n < 3:
        return BayesCoherence(status="too_few", n_clipped=n_clipped, **rows.counts)
    for values, status in ((x, "no_evidence"), (y, "no_update")):
        if np.ptp(values) <= LOGIT_EPS:
            return BayesCoherence(status=status, n_clipped=n_clipped, **rows.counts)
    x, y = x - x.mean(), y - y.mean()
    moments = np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=2).sum(axis=1)
    value = float(correlation_of_sums(moments.sum(axis=0)))
    interval = moment_interval(moments, rows.codes, correlation_of_sums, how=how).within(-1.0, 1.0, value)
    n, sx, sy, sxx, _, sxy = moments.sum(axis=0)
    return BayesCoherence(
        correlation=value,
        gradient=float((n * sxy - sx * sy) / (n * sxx - sx * sx)),
        n_clipped=n_clipped,
        status="few_clusters" if rows.n_clusters < FEW_CLUSTERS else interval.concern,
        **rows.counts,
        **interval.fields(),
    )


def _learning(prior: ArrayLike, loglik: ArrayLike, posterior: ArrayLike) -> tuple[Floats, Floats, Floats, int]:
    """Prior and posterior as shares, none below 1e-6, the log-likelihoods, and how many shares were below."""
    shares, n_below = [], 0
    for values, name in ((prior, "prior"), (posterior, "posterior")):
        mass = np.atleast_2d(probabilities(values, name))
        total = mass.sum(axis=1, keepdims=True)
        share = mass / np.where(total > 0, total, np.nan)
        n_below += int((share < LOGIT_EPS).sum())
        kept = np.maximum(share, LOGIT_EPS)
        shares.append(kept / kept.sum(axis=1, keepdims=True))
    log_like = np.atleast_2d(floats(loglik))
    same_shape(prior=shares[0], loglik=log_like, posterior=shares[1])
    return shares[0], shares[1], log_like, n_below
