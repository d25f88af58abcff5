"""Tables of priors, likelihoods and posteriors: the information processing gap and the Bayesian coherence coefficient
(METRICS D11, D12).
"""

from collections.abc import Iterator

import numpy as np

from ..contract import Resampling
from ..divergence import LOGIT_EPS
from ..inference.means import LOSS
from ..metric import Compared, Line, compare_mean, mean_of, metric, with_drop_reasons
from ..tables.samples import Evidence, Learning
from .learning import bayes_coherence, information_gap

COLUMNS = (
    "prior_<option>, loglik_<option> and posterior_<option> for each of two or more; or p_x, p_y, p_y_given_x, "
    "p_y_given_not_x, posterior"
)


def _of(sample: Evidence | Learning) -> Learning:
    assert sample.learning is not None
    return sample.learning


def _compare_gap(sample: Evidence | Learning) -> Compared:
    beliefs = _of(sample)
    gap = information_gap(beliefs.prior, beliefs.loglik, beliefs.posterior).gap
    return compare_mean("information_gap", gap, sample, float(-2 * np.log(LOGIT_EPS)))


@metric("D11", COLUMNS, Learning, Evidence, needs=("learning",), compare=_compare_gap, place=324)
def information_gap_lines(sample: Evidence | Learning, how: Resampling) -> Iterator[Line]:
    """How far the posterior is from what Bayes' rule makes of one's own prior and likelihoods. 0: it is that."""
    beliefs = _of(sample)
    gap, change, evidence = information_gap(beliefs.prior, beliefs.loglik, beliefs.posterior)
    known = np.isfinite(gap)
    beside = {}
    if known.any():
        beside["change of the belief, nats"] = f"{change[known].mean():.3f}"
        beside["of which the evidence asks for"] = f"{evidence[known].mean():z.3f}"
    yield Line("information_gap", "information processing gap, nats", mean_of(sample, gap, how, LOSS), beside)


@metric("D12", COLUMNS, Learning, Evidence, needs=("learning",), place=326)
def bayes_coherence_lines(sample: Evidence | Learning, how: Resampling) -> Iterator[Line]:
    """Do log-odds change with the evidence, as Bayes' rule says? 1: in proportion; the gradient says how much."""
    beliefs = _of(sample)
    columns = (beliefs.prior, beliefs.loglik, beliefs.posterior)
    score = bayes_coherence(*columns, sample.clusters, how=how)
    missing = np.where(np.isnan(np.sum(columns, axis=0)).any(axis=1), np.nan, 0.0)
    beside = {"gradient of observed on expected": f"{score.gradient:.3f}"}
    yield Line("bcc", "Bayesian coherence coefficient", with_drop_reasons(score, sample, missing), beside)
