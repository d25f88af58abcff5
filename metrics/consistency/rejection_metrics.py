"""Tables of options before and after a rejection: is the ratio kept, beyond the words (METRICS B, W3); and can it be
read, and does it respond (METRICS W4)?
"""

from collections.abc import Iterator
from functools import cache, partial

import numpy as np

from ..contract import Array, Resampling, Score
from ..divergence import LOGIT_EPS, clipped_logit
from ..inference.means import LOSS, UNIT, cluster_mean
from ..metric import (
    FARTHEST,
    Compared,
    Line,
    bounds,
    claimed,
    clusters_of,
    compare_mean,
    compare_moments,
    compare_rms,
    keys_of,
    mean_of,
    metric,
    with_drop_reasons,
)
from ..tables.samples import Options
from . import rejection
from .competence import BELOW_MENTIONED, GATE, BeliefGate, belief_gate, kappa_word, least_covered
from .sampling_bias import chance_corrected, expected_jsd_binomial, jsd_plugin_bias
from .sampling_bias import consistency_kappa as kappa

OPTIONS = "prior_<option>, posterior_<option>, rejected; or item, context, rejected, count_<option>"
THREE = f"{OPTIONS}; three options"
UNALLOCATED = "none: an end of what the mass on no option leaves open"


def _shares(sample: Options) -> tuple[Array, Array]:
    """[n] share of the first of the two options that remain, before and after."""
    scores = rejection.belief_consistency(sample.prior, sample.posterior, sample.rejected)
    return scores.prior2[:, 0].copy(), scores.post2[:, 0].copy()


def _changes(sample: Options) -> Array:
    """[n] change of the log-odds of the two options that remain."""
    (before, _), (after, _) = (clipped_logit(share, "share") for share in _shares(sample))
    return after - before


@metric(
    "B12", THREE, Options, needs=("three",), place=210, margin="logodds",
    compare=lambda sample: compare_rms("rms_logodds", _changes(sample), sample, FARTHEST),
)  # fmt: skip
def logodds_change_lines(sample: Options, how: Resampling) -> Iterator[Line]:
    """How far do the odds of two move when a third is rejected? In nats, without a ceiling; 0 is a kept ratio."""
    if sample.strata is not None:  # it is told of each part by itself
        return
    (before, after), clusters = _shares(sample), clusters_of(sample)
    score = with_drop_reasons(rejection.rms_logodds_change(before, after, clusters, how=how), sample, before + after)
    beside = {"half of the changes are at most": f"{score.median_abs:.3f}"}
    if score.n_clipped:
        beside[f"shares moved off 0 or 1 by {LOGIT_EPS:g}"] = str(score.n_clipped)
    if sample.words_prior is not None:
        beside["of the words alone"] = "0, which is no belief"
    claim = claimed(np.abs(_changes(sample)), sample, "logodds", how, worst=FARTHEST)
    yield Line("rms_logodds", "root mean square change of the log-odds", score, beside, claim, worst=FARTHEST)
    open_ends = rejection.ratio_bounds(sample.prior, sample.posterior, sample.rejected)
    least = open_ends.prior_lo + open_ends.post_lo  # NaN where no mass could be on the two
    for end, value, extreme in (("lower", open_ends.rms_lo, "least"), ("upper", open_ends.rms_hi, "largest")):
        bound = rejection.LogoddsChange(
            rms=value,
            n_clipped=open_ends.n_clipped,
            n_rows=open_ends.n_rows,
            n_dropped=open_ends.n_dropped,
            status=open_ends.status,
            ci_method=UNALLOCATED,
        )
        quantity = f"{extreme} change that the mass on no option leaves open"
        yield Line(f"rms_{end}", quantity, with_drop_reasons(bound, sample, least))


def _both_scores(sample: Options) -> tuple[Array, Array]:
    """[n] three-class consistency of the read-outs, and of the words alone."""
    assert sample.words_prior is not None
    assert sample.words_posterior is not None
    c3 = rejection.belief_consistency(sample.prior, sample.posterior, sample.rejected).c3
    return c3, rejection.belief_consistency(sample.words_prior, sample.words_posterior, sample.rejected).c3


def _compare_gain(sample: Options) -> Compared | None:
    if sample.words_prior is None:
        return None
    c3, null = _both_scores(sample)
    moments = np.column_stack([np.ones(len(c3)), c3, null])

    def gain(sums: Array) -> Array:
        return np.atleast_1d(chance_corrected(sums[:, 1] / sums[:, 0], sums[:, 2] / sums[:, 0]).kappa)

    return compare_moments("kappa_word", keys_of(sample), clusters_of(sample), moments, gain)


@metric(
    "W3, B12",
    "a belief table, or a run; three options",
    Options,
    needs=("three", "words_prior"),
    compare=_compare_gain,
    of_parts=False,
    place=200,
)
def word_gain_lines(sample: Options, how: Resampling) -> Iterator[Line]:
    """Three-class consistency beyond what the words alone would give; 0 is the taste for words, 1 is coherent."""
    c3, null = _both_scores(sample)
    score = kappa_word(c3, null, clusters_of(sample), how=how)
    beside = {"three-class consistency": f"{score.c:.3f}", "of the words alone": f"{score.c_word:.3f}"}
    yield Line("kappa_word", "gain over word identity", with_drop_reasons(score, sample, c3 + null), beside)


# Does the ratio of two options survive the rejection of a third? (METRICS B)

EXACT_GRID = 10_000
"""Outcomes up to which the sampling noise of an instance is enumerated; beyond, its first order is near enough."""


QUANTITIES = {
    "c2": "consistency",
    "c3": "three-option consistency",
    "leak": "leak to the rejected option, bits",
    "p_invalid_raw": "probability of the rejected option",
    "p_invalid_norm": "share of the rejected option",
    "entropy_prior": "entropy of the two before, bits",
    "entropy_post": "entropy of the two after, bits",
    "p_error_prior": "no option before",
    "p_error_post": "no option after",
    "mse": "mean squared change of the two",
    "mae": "mean absolute change of the two",
    "switch": "chance that two draws disagree",
    "hswitch": "chance that two draws disagree, from the favoured one",
}
"""Field of METRICS B2 -> what it is."""
PUBLISHED = ("c3", "p_invalid_raw", "entropy_prior", "entropy_post", "p_error_prior", "p_error_post")
"""Fields that instances without a ratio may have; published tables leave these instances out (METRICS B9)."""


def _compare_consistency(sample: Options) -> Compared:
    scores = rejection.belief_consistency(sample.prior, sample.posterior, sample.rejected)
    return compare_mean("c2", scores.c2, sample, limits=UNIT)


@metric("B2, B9, B11, B12", THREE, Options, needs=("three",), compare=_compare_consistency, place=220, margin="jsd")
def consistency_lines(sample: Options, how: Resampling) -> Iterator[Line]:
    """Do two options keep their ratio when a third is rejected? 1 is a kept ratio."""
    scores = rejection.belief_consistency(sample.prior, sample.posterior, sample.rejected)
    mean = partial(mean_of, sample, how=how, within=UNIT, strata=sample.strata)

    for name, quantity in QUANTITIES.items():
        values = getattr(scores, name)
        score = mean(values, within=LOSS if name == "leak" else UNIT)
        if name != "c2":
            yield Line(name, quantity, score)
            continue
        beside = bounds(values)
        floor = sampling_floor(scores.prior2, sample.n_prior, sample.n_posterior)
        used = np.isfinite(values)
        known = used if floor is None else used & np.isfinite(floor)
        if floor is not None and known.any():
            beside["expected of an unchanged belief, counted so often"] = f"{1 - floor[known].mean():.4f}"
        claim = None if sample.strata is not None else claimed(np.maximum(1 - values, 0), sample, "jsd", how)
        yield Line(name, quantity, score, beside, claim, by_wording=_by_wording(sample, values, how))
        for bound, fill in (("lower", 0.0), ("upper", 1.0)):
            filled = np.where(used, values, fill)
            yield Line(f"c2_{bound}", f"consistency, had the undefined ones scored {fill:g}", mean(filled))
    for name in PUBLISHED:
        included = np.where(scores.included_paper, getattr(scores, name), np.nan)
        quantity = f"{QUANTITIES[name]}, undefined ratios left out"
        yield Line(f"{name.removesuffix('_raw')}_included", quantity, mean(included))
    if sample.n_prior is not None and sample.n_posterior is not None:
        corrected = scores.c2 + jsd_plugin_bias(2, sample.n_prior, sample.n_posterior)
        if np.isfinite(corrected).any():
            yield Line("c2_corrected", "consistency, the divergence of sampling taken off", mean(corrected))


def _by_wording(sample: Options, values: Array, how: Resampling) -> dict[str, Score]:
    """Template -> the mean of its instances, where there are several templates."""
    if sample.template is None or len(names := np.unique(sample.template.astype(str))) < 2:
        return {}
    chosen, clusters = (sample.template.astype(str) == names[:, None]), clusters_of(sample)
    means = [cluster_mean(values[at], clusters[at], within=UNIT, how=how) for at in chosen]
    return dict(zip(map(str, names), means, strict=True))


def sampling_floor(shares: Array, n_one: Array | None, n_two: Array | None) -> Array | None:
    """[n] JSD in bits that sampling alone puts between equal beliefs [n, k] (METRICS B12); None of exact ones."""
    if n_one is None or n_two is None:
        return None
    floor = jsd_plugin_bias(shares.shape[1], n_one, n_two)
    if shares.shape[1] == 2:
        for i in np.flatnonzero(n_one * n_two <= EXACT_GRID):
            n_before, n_after = round(n_one[i]), round(n_two[i])
            if n_before and n_after and np.isfinite(shares[i, 0]):
                floor[i] = _expected(float(shares[i, 0]), n_before, n_after)
    return floor


@cache  # parts of a sample share their rows
def _expected(share: float, n_before: int, n_after: int) -> float:
    return expected_jsd_binomial(share, share, n_before, n_after)


@metric("B12", THREE, Options, needs=("three",), of_parts=False, place=230, slow=True)
def consistency_kappa_lines(sample: Options, how: Resampling) -> Iterator[Line]:
    """Consistency beyond what another item's posterior would give; 0 is chance."""
    scores = rejection.belief_consistency(sample.prior, sample.posterior, sample.rejected)
    position = sample.rejected if sample.position is None else sample.position
    score = kappa(scores.prior2, scores.post2, clusters_of(sample), position, how=how)
    beside = {"consistency": f"{score.c:.3f}", "with another item's posterior": f"{score.c_perm:.3f}"}
    yield Line("kappa", "consistency beyond chance", with_drop_reasons(score, sample, scores.c2), beside)


def _share(masses: Array, rejected: Array) -> Array:
    """[n] of the rejected option among all."""
    return rejection.counts_to_probabilities(masses)[np.arange(len(masses)), rejected]


@metric("B10", OPTIONS, Options, of_parts=False, place=240)
def association_lines(sample: Options, how: Resampling) -> Iterator[Line]:
    """Is the rejected option still chosen where it was likely before? 1 is no association."""
    before, after = (_share(masses, sample.rejected) for masses in (sample.prior, sample.posterior))
    score = rejection.invalid_association(before, after, clusters_of(sample), how=how)
    beside = {
        "mean share before, after": f"{score.norm_prior:.3f}, {score.norm_post:.3f}",
        "each weighted by the other": f"{score.wnorm_prior:.3f}, {score.wnorm_post:.3f}",
        "correlation, by ranks": f"{score.pearson:.3f}, {score.spearman:.3f}",
    }
    quantity = "product of the two shares, over that of their means"
    yield Line("invalid_association", quantity, with_drop_reasons(score, sample, before + after), beside)
    raw = sample.prior[np.arange(len(sample.rejected)), sample.rejected]
    mean = mean_of(sample, raw, how, UNIT, strata=sample.strata)
    yield Line("p_rejected_prior", "probability of the rejected option before", mean)


@metric("W4", f"{OPTIONS}[, template, mentioned_<option>]", Options, of_parts=False, place=250)
def competence_lines(sample: Options, how: Resampling) -> Iterator[Line]:
    """Are the options the answer, and is a rejected one given up, in every template? Two verdicts, and no result."""
    rows = np.arange(len(sample.rejected)), sample.rejected
    clusters = clusters_of(sample)
    template = np.full(len(sample.prior), "") if sample.template is None else sample.template
    after = sample.posterior.sum(axis=1)
    least = least_covered(after, template, sample.min_coverage)
    score = belief_gate(
        template=template,
        prior_rejected=_share(sample.prior, sample.rejected),
        post_rejected=_share(sample.posterior, sample.rejected),
        mentioned={name: rejection.counts_to_probabilities(masses)[rows] for name, masses in sample.mentions.items()}
        or None,
        groups=clusters,
        coverage={"before": sample.prior.sum(axis=1), "after": after[least]},
        read_groups={"before": clusters, "after": clusters[least]},
        min_coverage=sample.min_coverage,
        untested={} if sample.mentions else {BELOW_MENTIONED: "no reply that decides nothing was asked for"},
        how=how,
    )
    yield Line(GATE, "least share of items whose rejected option is given up", score, _told(sample, score))


def _told(sample: Options, score: BeliefGate) -> dict[str, str]:
    failed = [condition for condition in score.conditions.values() if not condition.held]
    verdicts = f"{score.readable}; {score.responds}"
    beside = {
        "verdicts:": verdicts,
        **{condition.label: f"{condition.seen}, required: {condition.asked}" for condition in failed},
    }
    averaged = "a model that favours recently named words can respond: no column tells the templates apart"
    return beside if sample.template is not None else beside | {"averaged over templates": averaged}
