"""Calibration of the decision family."""

from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.special import logit

from doxascope.benchmarks.agents.decisions import ReportNoise
from doxascope.benchmarks.agents.updates import Floats, Incoherent
from doxascope.benchmarks.calibration.design import (
    PERMUTATIONS,
    RESAMPLES,
    Design,
    Test,
    excludes,
    rejects,
    score_of,
    scores,
    simulation,
    told,
)
from doxascope.metrics import (
    Resampling,
    cmh_test,
    gcm_test,
    isotonic_calibration,
    knn_cmi,
    lie,
    median_ci,
    monotone_pairwise,
    quantile_bins,
    stratified_permutation,
)
from doxascope.metrics.metric import known_outcome
from doxascope.metrics.tables.samples import Decisions, Prizes

FAMILY = "E. Decisions"
PER_STRATUM = 15
KNN_RESAMPLES = 79
"""79 ordered draws have their 2.5% quantile at the second; more would only take longer."""

PERMUTE = Test("CMI, permutation within strata")
CMH = Test("Cochran-Mantel-Haenszel")
GCM = Test("GCM, isotonic nuisances, states")
GCM_STAR = Test("GCM, isotonic nuisances, exact policy and p*")
GCM_SMOOTH = Test("GCM, cubic nuisances, exact policy and p*")
FOLDS = 5


def _cubic(report: Floats, y: Floats) -> Floats:
    """Cross-fitted regression on a cubic of the report's log-odds."""
    x = np.vander(logit(report), 4)
    fold = np.arange(len(y)) % FOLDS  # contexts come in random order
    fits = [np.linalg.lstsq(x[fold != k], y[fold != k], rcond=None)[0] for k in range(FOLDS)]
    return (x * np.stack(fits)[fold]).sum(axis=1)


@simulation
def _decides(rng: Generator, agent: ReportNoise, contexts: int, exact: bool = False) -> dict[str, float]:
    """`exact` adds the tests of the policy itself and p*, not of drawn actions and states."""
    d = agent.sample(contexts, rng)
    found = scores("decision", d, PERMUTATIONS)
    strata = quantile_bins(d.belief, contexts // PER_STRATUM)
    tests = {
        PERMUTE.name: rejects(found["cmi"].p),
        CMH.name: rejects(cmh_test(d.action, known_outcome(d), strata).p),
        GCM.name: told(found["gcm"]),
    }
    return tests | (_exactly(d) if exact else {})


def _exactly(d: Decisions) -> dict[str, float]:
    pi, p_star = np.asarray(d.action_prob), np.asarray(d.p_star)
    mapped = (isotonic_calibration(d.belief, y, d.clusters) for y in (pi, p_star))
    smooth = (_cubic(d.belief, y) for y in (pi, p_star))
    return {
        GCM_STAR.name: told(gcm_test(pi, p_star, *mapped)),
        GCM_SMOOTH.name: told(gcm_test(pi, p_star, *smooth)),
    }


COLLAPSED = Test("CMI, permutation, one row per context")
ROWS = Test("CMI, permutation over repetitions", "picture", note="repetitions are no contexts")
KNN = Test("kNN CMI > 0, bootstrap of repetitions", "paper", note="clones are neighbours, and 0 is the boundary")


def _collapsed(d: Decisions) -> dict[str, float]:
    return {COLLAPSED.name: rejects(score_of("decision", "cmi", d, PERMUTATIONS).p)}


@simulation
def _repeats(rng: Generator, agent: ReportNoise, contexts: int) -> dict[str, float]:
    d = agent.sample(contexts, rng)
    action, theta, report = d.action.astype(np.int64), known_outcome(d), d.belief
    n = len(action)
    picks = rng.integers(0, n, (KNN_RESAMPLES, n))
    drawn = [knn_cmi(action[rows], theta[rows], report[rows]).cmi for rows in picks]
    bins = quantile_bins(report, n // PER_STRATUM)
    return {
        **_collapsed(d),
        ROWS.name: rejects(stratified_permutation(action, theta, bins, how=Resampling(draws=PERMUTATIONS)).p),
        KNN.name: float(np.sort(drawn)[1] > 0),
    }


ORDER = Test("order-restricted test")
PAIRS_HOLM = Test("any Fisher pair, Holm, one row per context", bound=True, note="ten exact tests of counts, with Holm")
PAIRS = Test("any Fisher pair, five repetitions as rows", "paper", note="pseudo-replicates, ten tests")


@simulation
def _choices(rng: Generator, agent: ReportNoise, contexts: int) -> dict[str, float]:
    d = agent.sample(contexts, rng)
    bins = quantile_bins(d.belief[:: agent.repetitions], 5)
    once = d.action[:: agent.repetitions]
    all_rows = monotone_pairwise(np.repeat(bins, agent.repetitions), d.action, "1", "0")
    return {
        ORDER.name: rejects(score_of("decision-order", "order_deviance", d, PERMUTATIONS).p),
        PAIRS_HOLM.name: float(monotone_pairwise(bins, once, "1", "0").n_significant_holm > 0),
        PAIRS.name: float(all_rows.n_significant > 0),
    }


PRIZE = Test("debiased mean square of a prompt effect, interval")
PRIZE_FEW = Test(PRIZE.name, "picture", note="not promised: the status is few_contexts")


PRIZE_MARGIN = 0.05
PRIZE_BOUND = Test("no prompt effect beyond .05, bound of the RMS effect")


@simulation
def _prize_claim(rng: Generator, effect: float, contexts: int) -> dict[str, float]:
    """Is independence claimed? A rejection is a claim; a prompt moves a context as in `_prize`."""
    return {PRIZE_BOUND.name: float(_prize_score(effect, contexts, rng).rms_upper < PRIZE_MARGIN)}


def _prize_score(effect: float, contexts: int, rng: Generator) -> Any:
    """Of five readings under each of two prompts; the second moves a context up or down by `effect`."""
    base = rng.uniform(0.3, 0.7, (contexts, 1))
    moved = base + effect * rng.choice([-1.0, 1.0], (contexts, 1))
    base, moved = (x + rng.uniform(-0.2, 0.2, (contexts, 5)) for x in (base, moved))
    return score_of("prize", "prize_effect", Prizes(base=base, alt=moved), RESAMPLES)


@simulation
def _prize(rng: Generator, effect: float, planted: float, contexts: int) -> dict[str, float]:
    """Does the interval of the mean square hold what is planted?"""
    return {PRIZE.name: excludes(_prize_score(effect, contexts, rng), planted**2)}


LIE_CI = Test(
    "mean signed violation, bootstrap interval", bound=True, note="no shorter than t, for the sake of heavy tails"
)
LIE_MEDIAN = Test(
    "median signed violation, order statistics",
    bound=True,
    note="order statistics come in steps: the wider is taken",
)


@simulation
def _violations(rng: Generator, gap: float, n: int, planted: float) -> dict[str, float]:
    said = Incoherent(gap).sample(n, rng)
    median = median_ci(lie(said.p, said.conditional, said.weights).signed)
    return {
        LIE_CI.name: excludes(score_of("lie", "lie", said, RESAMPLES), planted),
        LIE_MEDIAN.name: excludes(median, planted),
    }


def designs() -> list[Design]:
    """The designs of this family."""
    level, power = "level", "power"
    labels = (PERMUTE, CMH, GCM)
    """A report that is p* leaves nothing of p* unexplained: the exact form of the test has no null there."""
    independence = (*labels, GCM_STAR, GCM_SMOOTH)
    noisy = ReportNoise(noise=1.5, responsive=2.0, taste=0.5)
    repeated = ReportNoise(taste=1.0, repetitions=5, trembling=False, digits=2)
    repeatedly = ReportNoise(noise=2.0, responsive=2.0, taste=0.5, repetitions=2)
    flat = ReportNoise(responsive=0.0, repetitions=5, trembling=False)
    falling = ReportNoise(responsive=-0.5, repetitions=5, trembling=False)
    return [
        Design("E-exact", FAMILY, "sound agent, ten distinct beliefs in quantile bins, 200 contexts", level,
               "action independent of theta given the report", _decides(ReportNoise(levels=10), 200), labels),
        Design("E-bins", FAMILY, "sound agent, continuous beliefs in 13 quantile bins, 200 contexts", level,
               "action independent of theta given the report", _decides(ReportNoise(), 200), labels),
        Design("E-misbelief", FAMILY, "agent whose belief is 1 logit off p*, in 13 quantile bins, 200 contexts", level,
               "action independent of theta given the report",
               _decides(ReportNoise(misbelief=1.0), 200, exact=True), independence),
        Design("E-misbelief-50", FAMILY, "agent whose belief is 1 logit off p*, 50 contexts", level,
               "action independent of theta given the report",
               lambda rng: _exactly(ReportNoise(misbelief=1.0).sample(50, rng)), (GCM_STAR, GCM_SMOOTH)),
        Design("E-noise", FAMILY, "report noise of 1.5 logits, responsive action, 200 contexts", power,
               "the action knows more than the report",
               _decides(noisy, 200, exact=True), independence),
        Design("E-noise-more", FAMILY, "the same, 400 contexts in 26 bins", power,
               "the action knows more than the report", _decides(noisy, 400), labels),
        Design("E-repeats", FAMILY, "sound agent, 200 contexts x 5 equal repetitions, reports rounded to .01", level,
               "action independent of theta given the report", _repeats(repeated, 200),
               (COLLAPSED, ROWS, KNN)),
        Design("E-repeats-noise", FAMILY, "report noise of 2 logits in each of two repetitions, 500 contexts", power,
               "the action knows more than the report", lambda rng: _collapsed(repeatedly.sample(500, rng)),
               (COLLAPSED,)),
        Design("E-flat", FAMILY, "flat choice curve, 200 contexts (x 5 equal repetitions)", level,
               "the curve does not fall", _choices(flat, 200), (ORDER, PAIRS_HOLM, PAIRS)),
        Design("E-falling", FAMILY, "falling choice curve, 250 contexts", power,
               "half a logit of the action down per logit of belief up", _choices(falling, 250), (ORDER, PAIRS_HOLM)),
        Design("E-prize", FAMILY, "no prompt effect, 100 contexts x 5 readings of SD .115", level, "effect 0",
               _prize(0.0, 0.0, 100), (PRIZE,)),
        Design("E-prize-ci", FAMILY, "prompt effect of .05, 100 contexts x 5 readings of SD .115", level,
               "mean square .0025", _prize(0.05, 0.05, 100), (PRIZE,)),
        Design("E-prize-60", FAMILY, "no prompt effect, 60 contexts x 5 readings of SD .115", level, "effect 0",
               _prize(0.0, 0.0, 60), (PRIZE_FEW,)),
        Design("E-prize-power", FAMILY, "prompt effect of .05, 120 contexts x 5 readings of SD .115", power,
               "mean square .0025, not 0", _prize(0.05, 0.0, 120), (PRIZE,)),
        Design("E-prize-margin", FAMILY, "prompt effect of .05, 100 contexts x 5 readings of SD .115", level,
               "effect at the margin", _prize_claim(PRIZE_MARGIN, 100), (PRIZE_BOUND,)),
        Design("E-prize-none", FAMILY, "no prompt effect, 100 contexts x 5 readings of SD .115", power,
               "effect 0: independence is claimed", _prize_claim(0.0, 100), (PRIZE_BOUND,)),
        Design("E-lie", FAMILY, "Incoherent, 60 beliefs", level, "gap .05", _violations(0.05, 60, 0.05),
               (LIE_CI, LIE_MEDIAN)),
        Design("E-lie-power", FAMILY, "Incoherent, 60 beliefs", power, "gap .045", _violations(0.045, 60, 0.0),
               (LIE_CI, LIE_MEDIAN)),
    ]  # fmt: skip
