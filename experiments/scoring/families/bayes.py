"""Is an update the one that Bayes' rule asks for? (METRICS D1-D4, D9)"""

from collections.abc import Iterator

import numpy as np

from ....metrics import (
    BayesNoiseFloor,
    bayes_noise_floor,
    bayes_posterior,
    beyond_floor,
    cluster_mean,
    cluster_share,
    coherent_posterior,
    direction,
    direction_rates,
    grether_regression,
)
from ....metrics import bayes_error as error_of
from ...tables.rows import by_reading
from ...tables.samples import Evidence
from ..number import Resampling
from .metric import VERBAL_TOLERANCE, Line, claimed, clusters_of, metric, with_drop_reasons

EVIDENCE = "p_x, p_y, p_y_given_x, posterior"


def _floor(sample: Evidence, policy: str, how: Resampling) -> BayesNoiseFloor:
    columns = (sample.p_x, sample.p_y_given_x, sample.p_y, sample.posterior)
    p_x, likelihood, p_y, posterior = (by_reading(sample, values) for values in columns)
    return bayes_noise_floor(p_x, likelihood, p_y, posterior, policy, VERBAL_TOLERANCE, seed=how.seed)


@metric("D1, D2", f"{EVIDENCE} [, p_y_given_not_x]", Evidence)
def bayes_error(sample: Evidence, how: Resampling) -> Iterator[Line]:
    """How far the stated posterior is from the one that Bayes' rule makes of the other readings."""
    readings = (sample.p_x, sample.p_y_given_x, sample.p_y)
    for policy in ("clip", "raw", "drop"):
        target = bayes_posterior(*readings, policy=policy)
        score = error_of(sample.posterior, target.v, sample.clusters, **how.interval)
        beside = {
            "mean absolute error": f"{score.mae:.3f}",
            "bias": f"{score.bias:+.3f}",
            "the paper's eq. 2 (grows with n)": f"{score.l2_eq2:.3f}",
        }
        if sample.replicate is not None:
            floor = _floor(sample, policy, how)
            beside["of a perfect Bayesian read with this noise"] = f"{floor.rmse:.3f}"
            if policy == "clip":
                yield Line("noise_floor", "RMSE of a perfect Bayesian read with this noise", floor)
                yield Line("beyond_floor", "RMSE to Bayes beyond that", beyond_floor(score, floor))
        if policy == "clip":
            above = np.where(np.isfinite(target.v), target.incoherent, np.nan)
            rate = with_drop_reasons(cluster_share(above, clusters_of(sample), **how.interval), sample, above)
            yield Line("incoherence", "posteriors above 1, so readings of no distribution", rate)
            beside["posteriors above 1, so readings of no distribution"] = f"{target.incoherence_rate:.1%}"
        yield Line(
            f"rmse_{policy}",
            f"RMSE to Bayes ({policy})",
            with_drop_reasons(score, sample, sample.posterior - target.v),
            beside,
        )
    if sample.p_y_given_not_x is None:
        return
    coherent = coherent_posterior(sample.p_x, sample.p_y_given_x, sample.p_y_given_not_x)
    score = error_of(sample.posterior, coherent.posterior, sample.clusters, **how.interval)
    beside = {"mean absolute error": f"{score.mae:.3f}", "bias": f"{score.bias:+.3f}"}
    yield Line(
        "rmse_coherent",
        "RMSE to Bayes (coherent P(Y))",
        with_drop_reasons(score, sample, sample.posterior - coherent.posterior),
        beside,
    )
    off = sample.p_y - coherent.py
    clusters = clusters_of(sample)
    score = with_drop_reasons(cluster_mean(off, clusters, **how.interval), sample, off)
    claim = claimed(off, clusters, "lie", how, bounded_below=False, worst=1.0)
    yield Line("p_y_incoherence", "stated P(Y) less total probability", score, equivalence=claim)


@metric("D3, D4", EVIDENCE, Evidence)
def bayes_direction(sample: Evidence, how: Resampling) -> Iterator[Line]:
    """How often updates go the wrong way, too far, not far enough, or nowhere."""
    target = bayes_posterior(sample.p_x, sample.p_y_given_x, sample.p_y).v
    score = direction_rates(sample.p_x, sample.posterior, target, VERBAL_TOLERANCE, sample.clusters, **how.interval)
    shares = {
        label.replace("_", " "): f"{getattr(score, label):.1%} [{lo:.1%}, {hi:.1%}]"
        for label, (lo, hi) in score.intervals.items()
        if label != "incorrect"
    }
    size = np.abs(target - sample.p_x)
    middle = np.median(size[np.isfinite(size)]) if np.isfinite(size).any() else np.nan
    wrong = np.array(direction(sample.p_x, sample.posterior, target, VERBAL_TOLERANCE).labels) == "incorrect"
    halves = [wrong[here & np.isfinite(sample.posterior)] for here in (size <= middle, size > middle)]
    if all(map(len, halves)):  # near 0 the direction is noise
        shares[f"wrong where Bayes moves by {middle:.2f} or less, by more"] = ", ".join(
            f"{x.mean():.1%}" for x in halves
        )
    if sample.replicate is not None:
        shares["of a perfect Bayesian read with this noise"] = f"{_floor(sample, 'clip', how).incorrect:.1%}"
    yield Line(
        "incorrect",
        "updates in the wrong direction",
        with_drop_reasons(score, sample, sample.posterior + target),
        shares,
    )


@metric(
    "D9",
    f"{EVIDENCE}, p_y_given_not_x",
    Evidence,
    needs=("p_y_given_not_x",),
)
def grether(sample: Evidence, how: Resampling) -> Iterator[Line]:
    """How much updates weigh evidence and prior, in log-odds; Bayes weighs both by 1."""
    assert sample.p_y_given_not_x is not None
    score = grether_regression(
        sample.p_x, sample.posterior, sample.p_y_given_x, sample.p_y_given_not_x, sample.clusters
    )
    beside = {
        "weight of the prior": f"{score.prior:.3f} (se {score.se_prior:.3f})",
        "constant": f"{score.const:+.3f} (se {score.se_const:.3f})",
    }
    yield Line("grether", "weight of the evidence", with_drop_reasons(score, sample, sample.posterior), beside)


METRICS = (
    bayes_error,
    bayes_direction,
    grether,
)
