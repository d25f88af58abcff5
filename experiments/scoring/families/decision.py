"""Do actions use the stated belief, and only that? Does a prize move it? (METRICS E1-E8)"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from ....metrics import (
    cmh_test,
    gcm_test,
    isotonic_calibration,
    knn_cmi,
    logloss_improvement,
    monotone_exact_shares,
    monotone_order_test,
    monotone_pairwise,
    prize_independence,
    quantile_bins,
    rao_blackwell_cmi,
    stratified_permutation,
    sufficiency_r2,
)
from ....metrics.decision.sufficiency import NOTHING_LEFT
from ...tables.cells import Array
from ...tables.rows import take
from ...tables.samples import Decisions, Predictions, Prizes
from ..number import Resampling
from .metric import Line, clusters_of, known_outcome, metric, with_drop_reasons

PER_STRATUM = 15
"""Contexts in a neighbourhood of the belief (METRICS E2)."""
BINS = 5
DECISIONS = "belief, action, outcome"


def _contexts(sample: Decisions) -> tuple[Decisions, Mapping[str, str]]:
    """The first row of each context, since repetitions look like information; and that said."""
    clusters = clusters_of(sample)
    first = np.sort(np.unique(clusters.astype(str), return_index=True)[1])
    if len(first) == len(clusters):
        return sample, {}
    kept = Decisions(
        belief=sample.belief[first],
        action=sample.action[first],
        outcome=known_outcome(sample)[first],
        action_prob=take(sample.action_prob, first),
        p_star=take(sample.p_star, first),
        clusters=clusters[first],
    )
    return kept, {"rows used": f"the first of each of {len(first)} contexts"}


def strata_of(belief: Array) -> Array:
    """[n] neighbourhood of each belief; NaN where there is none."""
    bins = quantile_bins(belief, max(1, int(np.isfinite(belief).sum()) // PER_STRATUM)).astype(np.float64)
    return np.where(bins < 0, np.nan, bins)


@metric("E1, E2, E3, E4", DECISIONS, Decisions)
def decision(sample: Decisions, how: Resampling) -> Iterator[Line]:
    """Given the belief, does the action tell more of the outcome? 0: the belief is all that is acted on."""
    contexts, note = _contexts(sample)
    belief, action, outcome = contexts.belief, contexts.action, known_outcome(contexts)
    strata = strata_of(belief)
    score = stratified_permutation(action, outcome, strata, **how.interval)
    beside = {
        **note,
        "before its mean under permutation is taken off": f"{score.cmi:.4f} less {score.null_mean:.4f}",
        "by nearest neighbours": f"{knn_cmi(action, outcome, belief).cmi:.4f}",
        "neighbourhoods of the belief": str(len(np.unique(strata[np.isfinite(strata)]))),
    }
    binary = set(action) <= {"0", "1"}
    if len(set(action)) == 2:
        beside["Cochran-Mantel-Haenszel p"] = f"{cmh_test(action, outcome, strata).p:.3g}"
    yield Line(
        "cmi", "information beyond the belief, nats", with_drop_reasons(score, contexts, belief, outcome), beside
    )
    if binary:
        taken = action.astype(np.float64)
        owners = clusters_of(contexts)
        fits = [isotonic_calibration(belief, y, owners, seed=how.seed) for y in (taken, outcome)]
        score = gcm_test(taken, outcome, fits[0], fits[1], owners)
        named = {"beyond what rising functions of the belief predict": "fitted on other contexts"}
        yield Line(
            "gcm", "covariance of action and outcome, z", with_drop_reasons(score, contexts, belief, outcome), named
        )


@metric("E7", "belief, action (0 or 1), outcome", Decisions)
def decision_order(sample: Decisions, how: Resampling) -> Iterator[Line]:
    """Does action 1 become more frequent as the belief rises? Deviance from the best rising curve; 0 is none."""
    contexts, note = _contexts(sample)
    bins = quantile_bins(contexts.belief, BINS)
    score = monotone_order_test(bins, contexts.action, "1", "0", **how.test)
    pairs = monotone_pairwise(bins, contexts.action, "1", "0")
    beside = {
        **note,
        "shares of action 1 from the lowest beliefs up": ", ".join(f"{x:.2f}" for x in pairs.shares),
        "pairs against the order": f"{pairs.n_violations} of {pairs.n_pairs}, {pairs.n_significant_holm} after Holm",
    }
    yield Line(
        "order_deviance", "deviance from a rising curve", with_drop_reasons(score, contexts, contexts.belief), beside
    )


@metric("E4, E7", f"{DECISIONS}, action_prob [, p_star]", Decisions, needs=("action_prob",))
def decision_exact(sample: Decisions, how: Resampling) -> Iterator[Line]:
    """How much of an exact policy the belief explains, and what the policy knows beyond it."""
    contexts, note = _contexts(sample)
    assert contexts.action_prob is not None
    policy, strata = contexts.action_prob, strata_of(contexts.belief)
    both = contexts.belief + policy
    explained = sufficiency_r2(policy, strata)
    adjusted = {**note, "less what strata explain by chance": f"{explained.r2_adjusted:.3f}"}
    yield Line(
        "sufficiency_r2",
        "share of the policy that the belief explains",
        with_drop_reasons(explained, contexts, both),
        adjusted,
    )
    shares = monotone_exact_shares(contexts.belief, policy)
    rising = {"distance from the best rising curve": f"{shares.iso_rms:.3f}", "Kendall's tau": f"{shares.tau:.3f}"}
    yield Line("discordant", "pairs of contexts against the order", with_drop_reasons(shares, contexts, both), rising)
    if contexts.p_star is not None:
        score = rao_blackwell_cmi(policy, contexts.p_star, strata)
        yield Line(
            "cmi_exact",
            "information beyond the belief, exact, nats",
            with_drop_reasons(score, contexts, both + contexts.p_star),
        )
        owners = clusters_of(contexts)
        fits = [isotonic_calibration(contexts.belief, y, owners, seed=how.seed) for y in (policy, contexts.p_star)]
        test = gcm_test(policy, contexts.p_star, fits[0], fits[1], owners)
        if _left(contexts.p_star, fits[1]) < NOTHING_LEFT or _left(policy, fits[0]) < NOTHING_LEFT:
            test = replace(test, T=np.nan, p=np.nan, p_method="", status="nothing_left")
        yield Line(
            "gcm_exact",
            "covariance of policy and truth, z",
            with_drop_reasons(test, contexts, both + contexts.p_star),
            {"beyond what rising functions of the belief predict": "fitted on other contexts"},
        )


@metric("E6", DECISIONS, Decisions)
def decision_isotonic(sample: Decisions, how: Resampling) -> Iterator[Line]:
    """The same after beliefs were mapped to frequencies: a sensitivity check, for the map itself loses information."""
    contexts, note = _contexts(sample)
    belief, action, outcome = contexts.belief, contexts.action, known_outcome(contexts)
    mapped = isotonic_calibration(belief, outcome, clusters_of(contexts), seed=how.seed)
    score = stratified_permutation(action, outcome, strata_of(mapped), **how.interval)
    plain = stratified_permutation(action, outcome, strata_of(belief), **how.interval)
    beside = {
        **note,
        "map": "the best rising curve, fitted on other contexts",
        "levels that it leaves of the beliefs": f"{_levels(mapped)} of {_levels(belief)}",
        "beyond the belief as stated": f"{plain.debiased:.4f} (p {plain.p:.3g})",
    }
    yield Line(
        "cmi_isotonic",
        "information beyond the recalibrated belief, nats",
        with_drop_reasons(score, contexts, belief, outcome),
        beside,
    )


def _left(values: Array, fit: Array) -> float:
    """Share of the variance that the fit leaves; 0 of what does not vary."""
    known = np.isfinite(values) & np.isfinite(fit)
    total = values[known].var() if known.any() else 0.0
    return float(np.mean((values[known] - fit[known]) ** 2) / total) if total > 0 else 0.0


def _levels(values: Array) -> int:
    return len(np.unique(values[np.isfinite(values)]))


@metric("E5", "p1, p2, outcome; or p1_<class>, p2_<class>, truth", Predictions)
def logloss(sample: Predictions, how: Resampling) -> Iterator[Line]:
    """How much closer the second predictions come than the first, in nats; both must be made out of fold."""
    score = logloss_improvement(sample.first, sample.second, sample.truth, groups=sample.clusters, **how.interval)
    known = sample.first.sum(axis=1) + sample.second.sum(axis=1)
    beside = {
        "loss of the first, the second": f"{score.ll1:.4f}, {score.ll2:.4f}",
        "of the frequencies alone": f"{score.ll_marginal:.4f}",
        "in percent of the first": f"{score.pct:.2f}",
    }
    yield Line("logloss_gain", "gain in log-loss, nats", with_drop_reasons(score, sample, known, sample.truth), beside)


@metric("E8", "context, p_base, p_alt", Prizes)
def prize(sample: Prizes, how: Resampling) -> Iterator[Line]:
    """Does the belief depend on what is paid for it? Mean square of the effect, less what repetitions differ by."""
    score = prize_independence(sample.base, sample.alt, **how.interval)
    claim = "within" if score.equivalent else "not shown to be within"
    beside = {
        "RMS of the difference of means": f"{score.rmse_means:.3f}",
        "noise alone would show": f"{score.noise_floor:.3f}",
        f"95% bound of the RMS effect {score.rms_upper:.3f},": f"{claim} {score.params.get('margin', np.nan):g}",
        "mean shift": f"{score.mean_shift:+.3f} (TOST p {score.p_tost_shift:.3g})",
    }
    yield Line("prize_effect", "mean square effect of the prize", score, beside)


METRICS = (decision, decision_order, decision_exact, decision_isotonic, logloss, prize)
