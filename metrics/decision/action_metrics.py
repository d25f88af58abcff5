"""Tables of beliefs and actions: do choices use the stated belief, and could it drive them? (METRICS E1-E8, E11-E13)"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations

import numpy as np

from ..contract import Array, Resampling
from ..metric import (
    Compared,
    Line,
    clusters_of,
    compare_moments,
    keys_of,
    known_outcome,
    metric,
    tested_mean,
    with_drop_reasons,
)
from ..tables.sample_rows import part_of
from ..tables.samples import Decisions, Knowledge, Menus, Policies, Predictions, Prizes
from .choice import cyclic_monotonicity, menu_shift, prize_independence, probability_weighting
from .monotone import monotone_exact_shares, monotone_order_test, monotone_pairwise
from .prediction import isotonic_calibration, logloss_improvement
from .strata import (
    GcmTest,
    cmh_test,
    gcm_test,
    quantile_bins,
    rao_blackwell_cmi,
    stratified_permutation,
    sufficiency_r2,
)
from .sufficiency import (
    FEWEST,
    NOTHING_LEFT,
    explained_share,
    knn_cmi,
    latent_knowledge,
    monotone_sufficiency,
    sufficiency_moments,
)

PER_STRATUM = 15
"""Contexts in a neighbourhood of the belief (METRICS E2)."""
BINS = 5
DECISIONS = "belief, action, outcome"
EXACT = f"{DECISIONS}, action_prob"


def _contexts(sample: Decisions) -> tuple[Decisions, Mapping[str, str]]:
    """The first row of each context, since repetitions look like information; and that said."""
    clusters = clusters_of(sample)
    first = np.sort(np.unique(clusters.astype(str), return_index=True)[1])
    if len(first) == len(clusters):
        return sample, {}
    kept = part_of(replace(sample, why=None), first, sample.subset)
    return kept, {"rows used": f"the first of each of {len(first)} contexts"}


def strata_of(belief: Array) -> Array:
    """[n] neighbourhood of each belief; NaN where there is none."""
    bins = quantile_bins(belief, max(1, int(np.isfinite(belief).sum()) // PER_STRATUM)).astype(np.float64)
    return np.where(bins < 0, np.nan, bins)


@metric("E1, E2, E3, E4", DECISIONS, Decisions, place=370)
def decision_lines(sample: Decisions, how: Resampling) -> Iterator[Line]:
    """Given the belief, does the action tell more of the outcome? 0: the belief is all that is acted on."""
    contexts, note = _contexts(sample)
    belief, action, outcome = contexts.belief, contexts.action, known_outcome(contexts)
    strata = strata_of(belief)
    score = stratified_permutation(action, outcome, strata, how=how)
    beside = {
        **note,
        "before its mean under permutation is taken off": f"{score.cmi:.4f} minus {score.null_mean:.4f}",
        "by nearest neighbours": f"{knn_cmi(action, outcome, belief).cmi:.4f}",
        "neighbourhoods of the belief": str(len(np.unique(strata[np.isfinite(strata)]))),
    }
    binary = set(action) <= {"0", "1"}
    if len(set(action)) == 2:
        beside["Cochran-Mantel-Haenszel p"] = f"{cmh_test(action, outcome, strata).p:.3g}"
    score = with_drop_reasons(score, contexts, belief, outcome)
    yield Line("cmi", "information beyond the belief, nats", score, beside)
    if binary:
        taken = action.astype(np.float64)
        score, _ = _covariance(contexts, taken, outcome, how)
        score = with_drop_reasons(score, contexts, belief, outcome)
        yield Line("gcm", "covariance of action and outcome, z", score, FITTED)


FITTED = {"beyond what rising functions of the belief predict": "fitted on other contexts"}


def _covariance(sample: Decisions, action: Array, target: Array, how: Resampling) -> tuple[GcmTest, list[Array]]:
    """Of what the belief leaves of an action and of a target, each [n]; and what it predicts of both."""
    owners = clusters_of(sample)
    fits = [isotonic_calibration(sample.belief, y, owners, seed=how.seed) for y in (action, target)]
    return gcm_test(action, target, *fits, owners), fits


@metric("E7", "belief, action (0 or 1), outcome", Decisions, place=380)
def decision_order_lines(sample: Decisions, how: Resampling) -> Iterator[Line]:
    """Does action 1 become more frequent as the belief rises? Deviance from the best rising curve; 0 is none."""
    contexts, note = _contexts(sample)
    bins = quantile_bins(contexts.belief, BINS)
    score = monotone_order_test(bins, contexts.action, "1", "0", how=how)
    pairs = monotone_pairwise(bins, contexts.action, "1", "0")
    beside = {
        **note,
        "shares of action 1 from the lowest beliefs up": ", ".join(f"{x:.2f}" for x in pairs.shares),
        "pairs against the order": f"{pairs.n_violations} of {pairs.n_pairs}, {pairs.n_significant_holm} after Holm",
    }
    score = with_drop_reasons(score, contexts, contexts.belief)
    yield Line("order_deviance", "deviance from a rising curve", score, beside)


@metric("E4, E7", f"{EXACT} [, p_star]", Decisions, needs=("action_prob",), place=390)
def decision_exact_lines(sample: Decisions, how: Resampling) -> Iterator[Line]:
    """How much of an exact policy the belief explains, and what the policy knows beyond it."""
    contexts, note = _contexts(sample)
    assert contexts.action_prob is not None
    policy, strata = contexts.action_prob, strata_of(contexts.belief)
    both = contexts.belief + policy
    explained = sufficiency_r2(policy, strata)
    adjusted = {**note, "less what strata explain by chance": f"{explained.r2_adjusted:.3f}"}
    score = with_drop_reasons(explained, contexts, both)
    yield Line("sufficiency_r2", "share of the policy that the belief explains", score, adjusted)
    yield _against_order("discordant", "pairs of contexts against the order", contexts, policy)
    if contexts.p_star is not None:
        known = both + contexts.p_star
        score = with_drop_reasons(rao_blackwell_cmi(policy, contexts.p_star, strata), contexts, known)
        yield Line("cmi_exact", "information beyond the belief, exact, nats", score)
        test, fits = _covariance(contexts, policy, contexts.p_star, how)
        if _left(contexts.p_star, fits[1]) < NOTHING_LEFT or _left(policy, fits[0]) < NOTHING_LEFT:
            test = replace(test, T=np.nan, p=np.nan, p_method="", status="nothing_left")
        yield Line("gcm_exact", "covariance of policy and truth, z", with_drop_reasons(test, contexts, known), FITTED)


def _against_order(name: str, quantity: str, sample: Decisions | Policies, share: Array, part: str = "") -> Line:
    """Pairs of contexts whose exact shares [n] fall as the belief rises."""
    score = monotone_exact_shares(sample.belief, share)
    curve = {"distance from the best rising curve": f"{score.iso_rms:.3f}", "Kendall's tau": f"{score.tau:.3f}"}
    return Line(name, quantity, with_drop_reasons(score, sample, sample.belief + share), curve, part=part)


@metric("E6", DECISIONS, Decisions, place=400)
def decision_isotonic_lines(sample: Decisions, how: Resampling) -> Iterator[Line]:
    """The same after beliefs were mapped to frequencies: a sensitivity check, for the map itself loses information."""
    contexts, note = _contexts(sample)
    belief, action, outcome = contexts.belief, contexts.action, known_outcome(contexts)
    mapped = isotonic_calibration(belief, outcome, clusters_of(contexts), seed=how.seed)
    score = stratified_permutation(action, outcome, strata_of(mapped), how=how)
    plain = stratified_permutation(action, outcome, strata_of(belief), how=how)
    beside = {
        **note,
        "map": "the best rising curve, fitted on other contexts",
        "levels that it leaves of the beliefs": f"{_levels(mapped)} of {_levels(belief)}",
        "beyond the belief as stated": f"{plain.debiased:.4f} (p {plain.p:.3g})",
    }
    score = with_drop_reasons(score, contexts, belief, outcome)
    yield Line("cmi_isotonic", "information beyond the recalibrated belief, nats", score, beside)


ACTIONS = {"Yes": ("yes", "y", "1", "true"), "Defer": ("defer", "d"), "No": ("no", "n", "0", "false")}
"""Name of an action -> how tables write it."""
PAIRS = (("Yes", "No"), ("Yes", "Defer"), ("Defer", "No"))
"""The first of each should become more frequent as the belief rises."""


def published_lines(belief: Array, action: Array, outcome: Array, contexts: Array) -> Iterator[Line]:
    """The estimates of rational-agents (Tables 1, 2 and 5) on all rows, repetitions among them: no tests. Fewer than
    ten contexts have none: neighbours are then copies of each other.
    """
    n = len({*contexts[np.isfinite(belief) & np.isfinite(outcome)]})
    few = {"status": "too_few"} if n < FEWEST else {}
    mapped = isotonic_calibration(belief, outcome)
    for name, values in (("cmi_knn", belief), ("cmi_knn_isotonic", mapped)):
        score = knn_cmi(action, outcome, values)
        score = replace(score, n_clusters=n, cmi=np.nan if few else score.cmi, **few)
        yield Line(name, "nearest-neighbour CMI as published, nats", score)
    bins, short = quantile_bins(belief, BINS), {text: name for name, texts in ACTIONS.items() for text in texts}
    named = np.array([short.get(str(label).lower(), "") for label in action], dtype=object)
    for first, second in PAIRS:
        if {first, second} <= set(named):
            score = monotone_pairwise(bins, named, first, second)
            score = replace(score, n_clusters=n, **({"frac_significant": np.nan} if few else {}), **few)
            quantity = "significant violations of the order as published"
            yield Line("order_pairs", quantity, score, part=f"{first} against {second}")


@metric("E1, E6, E7", f"{DECISIONS}, without action_prob", Decisions, place=405)
def decision_published_lines(sample: Decisions, how: Resampling) -> Iterator[Line]:
    """What a paper prints of sampled actions: nearest-neighbour information, and pairs of actions against the order."""
    if sample.action_prob is None:
        yield from published_lines(sample.belief, sample.action, known_outcome(sample), clusters_of(sample))


def _left(values: Array, fit: Array) -> float:
    """Share of the variance that the fit leaves; 0 of what does not vary."""
    known = np.isfinite(values) & np.isfinite(fit)
    total = values[known].var() if known.any() else 0.0
    return float(np.mean((values[known] - fit[known]) ** 2) / total) if total > 0 else 0.0


def _levels(values: Array) -> int:
    return len(np.unique(values[np.isfinite(values)]))


@metric("E5", "p1, p2, outcome; or p1_<class>, p2_<class>, truth", Predictions, place=410)
def logloss_lines(sample: Predictions, how: Resampling) -> Iterator[Line]:
    """How much closer the second predictions come than the first, in nats; both must be made out of fold."""
    score = logloss_improvement(sample.first, sample.second, sample.truth, groups=sample.clusters, how=how)
    known = sample.first.sum(axis=1) + sample.second.sum(axis=1)
    beside = {
        "loss of the first, the second": f"{score.ll1:.4f}, {score.ll2:.4f}",
        "of the frequencies alone": f"{score.ll_marginal:.4f}",
        "in percent of the first": f"{score.pct:.2f}",
    }
    yield Line("logloss_gain", "gain in log-loss, nats", with_drop_reasons(score, sample, known, sample.truth), beside)


@metric("E8", "context, p_base, p_alt", Prizes, place=420)
def prize_lines(sample: Prizes, how: Resampling) -> Iterator[Line]:
    """Does the belief depend on what is paid for it? Mean square of the effect, less what repetitions differ by."""
    score = prize_independence(sample.base, sample.alt, how=how)
    claim = "within" if score.equivalent else "not shown to be within"
    beside = {
        "RMS of the difference of means": f"{score.rmse_means:.3f}",
        "noise alone would show": f"{score.noise_floor:.3f}",
        f"95% bound of the RMS effect {score.rms_upper:.3f},": f"{claim} {score.params.get('margin', np.nan):g}",
        "mean shift": f"{score.mean_shift:+z.3f} (TOST p {score.p_tost_shift:.3g})",
    }
    yield Line("prize_effect", "mean square effect of the prize", score, beside)


# Could a belief drive the choices, whose exact probabilities are known? (METRICS E4, E7, E11-E13)


def _compare_sufficiency(sample: Decisions) -> Compared | None:
    if sample.action_prob is None:
        return None
    owners = clusters_of(sample)
    moments = sufficiency_moments(sample.belief, sample.action_prob, owners)
    return compare_moments("sufficiency", keys_of(sample), owners, moments, explained_share)


@metric("E4", EXACT, Decisions, needs=("action_prob",), compare=_compare_sufficiency, place=430)
def sufficiency_lines(sample: Decisions, how: Resampling) -> Iterator[Line]:
    """How much of an exact policy does a rising function of the belief predict, in other contexts? 1: all of it."""
    assert sample.action_prob is not None
    score = monotone_sufficiency(sample.belief, sample.action_prob, clusters_of(sample), how=how)
    score = with_drop_reasons(score, sample, sample.belief + sample.action_prob)
    yield Line("sufficiency", "share of the policy that a rising function of the belief predicts", score)


@metric("E4, E11", f"{EXACT}, p_star", Decisions, needs=("action_prob", "p_star"), place=440)
def knows_more_lines(sample: Decisions, how: Resampling) -> Iterator[Line]:
    """Do the exact choice and the truth still go together once the belief is known? Partial correlation; 0: no."""
    assert sample.action_prob is not None
    assert sample.p_star is not None
    score = latent_knowledge(sample.belief, sample.action_prob, sample.p_star, clusters_of(sample), how=how)
    reported = with_drop_reasons(score, sample, sample.belief + sample.action_prob + sample.p_star)
    beside = {"share of the truth that the belief leaves": f"{score.left_of_target:.3f}"}
    yield Line("knows_more", "what the choice knows of the truth beyond the belief", reported, beside)


@metric("E13", EXACT, Decisions, needs=("action_prob",), place=450)
def weighting_lines(sample: Decisions, how: Resampling) -> Iterator[Line]:
    """Is the belief used as it is, or weighted? Exponent of the weighting; 1 is as it is."""
    assert sample.action_prob is not None
    score = probability_weighting(sample.belief, sample.action_prob, clusters_of(sample), how=how)
    reported = with_drop_reasons(score, sample, sample.belief + sample.action_prob)
    beside = {"p tests": "an exponent of 1", "share of the choice's log-odds that it explains": f"{score.r2:.3f}"}
    yield Line("weighting", "exponent of the probability weighting", reported, beside)


@metric("E4, E7, E12", "beliefs and exact policies of a run", Policies, place=460)
def choices_lines(sample: Policies, how: Resampling) -> Iterator[Line]:
    """Could any utilities with random shocks have these choices, by this belief? 0: yes. And pair by pair."""
    known = sample.belief + sample.policy.sum(axis=1)
    cyclic = cyclic_monotonicity(sample.belief, sample.policy, how=Resampling(how.seed))
    slopes = ", ".join(f"{name} {slope:.2f}" for name, slope in zip(sample.actions, cyclic.slopes, strict=False))
    beside = {"with utilities that rise by": slopes, "pairs of contexts against the order": f"{cyclic.discordant:.3f}"}
    yield Line("cyclic", "distance from any random-utility choice", with_drop_reasons(cyclic, sample, known), beside)
    for i, j in combinations(range(len(sample.actions)), 2):
        pair = sample.policy[:, [i, j]]
        with np.errstate(divide="ignore", invalid="ignore"):
            share = pair[:, 1] / pair.sum(axis=1)
        named = f"{sample.actions[j]} against {sample.actions[i]}"
        quantity = f"pairs of contexts against the order, {named}"
        yield _against_order("discordant_pair", quantity, sample, share, named)
    if sample.p_star is not None:
        score = rao_blackwell_cmi(sample.policy, sample.p_star, strata_of(sample.belief))
        score = with_drop_reasons(score, sample, known + sample.p_star)
        yield Line("cmi_policy", "information of all actions beyond the belief, exact, nats", score)


@metric("E12", "choices of a run from two menus", Menus, place=470)
def menus_lines(sample: Menus, how: Resampling) -> Iterator[Line]:
    """Does a third action change the share of the first among the first two? 0: irrelevant alternatives are so."""
    shift, owners = menu_shift(sample.two, sample.three), clusters_of(sample)
    for name, quantity, values in (
        ("menu_shift", "share of the first of two options, with a third minus without", shift),
        ("menu_size", "size of that change", np.abs(shift)),
    ):
        yield Line(name, quantity, with_drop_reasons(tested_mean(values, owners, how), sample, values))


@metric("E11", "two beliefs, and what either may predict", Knowledge, place=480)
def latent_lines(sample: Knowledge, how: Resampling) -> Iterator[Line]:
    """Does the other belief predict the action, or the truth, beyond the stated one? Partial correlation; 0: no."""
    for name, quantity, target in (
        ("latent_action", "what it knows of the action beyond its belief", sample.action_prob),
        ("latent_truth", "what it knows of the truth beyond its belief", sample.p_star),
    ):
        if target is not None:
            score = latent_knowledge(sample.stated, sample.other, target, sample.clusters, how=how)
            known = sample.stated + sample.other + target
            beside = {"share of it that the belief leaves": f"{score.left_of_target:.3f}"}
            yield Line(name, quantity, with_drop_reasons(score, sample, known), beside)
