"""Calibration of the martingale family."""

from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.special import expit, logit

from doxascope.benchmarks.agents.updates import (
    Anchored,
    Bayesian,
    Floats,
    LeakyJudge,
    PriorNoise,
    Trajectories,
    Updater,
)
from doxascope.benchmarks.calibration.design import (
    PERMUTATIONS,
    RESAMPLES,
    Aim,
    Design,
    Flagged,
    Test,
    excludes,
    misses,
    names,
    number_of,
    rejects,
    score_of,
    simulation,
    unless_flagged,
    updates,
)
from doxascope.metrics import (
    MARGINS,
    Resampling,
    brier_on_abs_martingale,
    drift_covariance,
    factor_regression,
    martingale_icm_test,
    martingale_score,
)
from doxascope.metrics.contract import Array
from doxascope.metrics.martingale.slope import FEW_FOR_FLIPS
from doxascope.metrics.tables.sample_rows import Chains, Pairs
from doxascope.metrics.tables.samples import Forecasts

UpdateAgent = Bayesian | Anchored | PriorNoise | LeakyJudge | Updater
FAMILY = "A. Martingale"
SMALL = Bayesian(warmup=20, evidence=2)
"""Small updates of spread beliefs: the case in which a margin of .02 can be met."""
MARGIN = MARGINS["martingale"]

SAFE = "leaving out questions, and t over those that carry the slope, err to the safe side"
SLOPE = Test("slope, CR3 t(G*-1)", bound=True, note=SAFE)
SLOPE_CR1 = Test("slope, CR1 t(G-1)", "picture", note="too many in few questions, and where beliefs are extreme")
JOINT = Test("intercept and slope, studentised sign flips")
JOINT_CR1 = Test("intercept and slope, CR1 F(2, G-1)", "picture", note="short of what a Wald test of clusters needs")
CVM = Test("ICM CvM, sign flips")
KS = Test("ICM KS, sign flips")
HOLM = Test("slope, joint and CvM with Holm", bound=True, note="Holm holds the level at most, less as its tests agree")
IID = Test("slope, iid t", "paper", note="the spread of updates depends on the prior")


@simulation
def _moves(rng: Generator, agent: UpdateAgent, questions: int) -> dict[str, float]:
    """All tests of updates; those of several steps are clustered by question."""
    columns = agent.sample(questions, rng).updates()
    slope = score_of("martingale", "M", updates(*columns), PERMUTATIONS)
    prior, post, question = columns
    each = np.arange(len(prior)) if question is None else question
    before = martingale_score(prior, post, each, se="CR1", how=Resampling(draws=1))
    tests = score_of("martingale-tests", "tests", updates(*columns), PERMUTATIONS)
    joint = rejects(tests.p_tests["joint"])
    return {
        SLOPE.name: rejects(slope.p),
        SLOPE_CR1.name: rejects(before.p),
        JOINT.name: joint if slope.effective_clusters >= FEW_FOR_FLIPS else Flagged(joint),
        JOINT_CR1.name: rejects(before.joint_p),
        CVM.name: rejects(tests.p_tests["cvm"]),
        KS.name: rejects(martingale_icm_test(*columns, how=Resampling(draws=PERMUTATIONS)).p_ks),
        HOLM.name: rejects(tests.p),
        IID.name: rejects(slope.p_iid),
    }


NAIVE = Test("slope of one reading, HC3", "picture", note="the reading, not the belief, fails the property")
IV_CI = Test("split-reading IV slope, interval")
IV_P = Test("split-reading IV slope, bootstrap p")


@simulation
def _read_twice(rng: Generator, agent: PriorNoise, questions: int) -> dict[str, float]:
    sample = agent.sample(questions, rng)
    prior, post = sample.read.T
    again = agent.reading(sample.belief[:, 0], rng)
    read = np.column_stack([prior, again])
    sample = updates(read.mean(axis=1), post, readings=read)
    score = score_of("martingale-replicates", "M_iv", sample, RESAMPLES)
    return {
        NAIVE.name: rejects(martingale_score(prior, post, se="HC3").p),
        IV_CI.name: excludes(score, 0.0),
        IV_P.name: rejects(score.p),
    }


JUDGE = Test("slope of a judge who saw the end, HC3", "picture", note="hindsight, not entrenchment")
PREFIX = Test("slope of readings of prefixes, CR3 t(G*-1)", bound=True, note=SAFE)


@simulation
def _judged(rng: Generator, agent: LeakyJudge, questions: int) -> dict[str, float]:
    sample = agent.sample(questions, rng)
    return {
        JUDGE.name: rejects(martingale_score(*sample.read.T, se="HC3").p),
        PREFIX.name: rejects(score_of("martingale", "M", updates(*sample.belief.T), PERMUTATIONS).p),
    }


FACTOR = Test("difference of two slopes, CR3 by question", bound=True, note=SAFE)
FACTOR_CR1 = Test("difference of two slopes, CR1 by question", "picture", note="too many in few questions")
FACTOR_ROWS = Test(
    "difference of two slopes, rows independent", "paper", note="what the models share by question cancels unseen"
)


@simulation
def _two_models(rng: Generator, pull: float, questions: int) -> dict[str, float]:
    """Two models with the same priors over the same questions, several steps each; the second is anchored."""
    shared = Bayesian(steps=3).sample(questions, rng)
    other = shared.read.copy()
    other[:, 1:] = (1 - pull) * other[:, 1:] + pull * 0.5
    noise = PriorNoise(0.05)
    both = [
        Trajectories(read=noise.reading(belief, rng), belief=belief, outcome=shared.outcome).updates()
        for belief in (shared.read, other)
    ]
    prior, post, group = map(np.concatenate, zip(*both, strict=True))
    model = np.repeat(["first", "second"], len(prior) // 2)
    of, first = {"model": model}, {"model": "first"}
    contrast = score_of("martingale-factors", "M_contrast", updates(prior, post, group, factors=of), PERMUTATIONS)
    by_cr1 = factor_regression(post - prior, prior, of, first, group, se="CR1", how=Resampling(draws=1)).terms[
        "b:model[second]"
    ]
    by_row = factor_regression(post - prior, prior, of, first).terms["b:model[second]"]
    return {
        FACTOR.name: rejects(contrast.p),
        FACTOR_CR1.name: rejects(by_cr1.p),
        FACTOR_ROWS.name: rejects(by_row.p),
    }


TOST = Test("TOST within .02, CR3 t(G*-1)", bound=True, note="both of two tests must reject; few questions never do")
NOT_SIGNIFICANT = Test("coherent because p > .05 (iid)", "paper", note="absence of evidence, not evidence of absence")


@simulation
def _equivalence(rng: Generator, pull: float, questions: int) -> dict[str, float]:
    """Is "coherent" claimed? A rejection is a claim."""
    prior, post = Anchored(pull, of=SMALL).sample(questions, rng).read.T
    slope = number_of("martingale", "M", updates(prior, post), PERMUTATIONS)
    return {
        TOST.name: rejects(slope.value("equivalence")),
        NOT_SIGNIFICANT.name: float(slope.value("p_iid") > 0.05),
    }


DRIFT_P = Test(
    "drift2 > 0, one-sided bootstrap-t",
    bound=True,
    note="squares are skewed to the right: too rarely",
)
LONGER = "no shorter than t, for the sake of heavy tails"
DRIFT_CI = Test("drift2, interval", bound=True, note=LONGER)
DRIFT_NAIVE = Test("mean squared drift, interval over questions", "picture", note="holds the sampling noise of chains")
HALVES_CI = Test("drift2 from disjoint halves of noisy readings, interval", bound=True, note=LONGER)


@simulation
def _chains(rng: Generator, drift: float, questions: int, chains: int, aim: Aim) -> dict[str, float]:
    deltas = Bayesian(evidence=8).chains(questions, chains, rng, drift)
    score = _drift(deltas)
    squares = deltas.mean(axis=1) ** 2
    reach = 1.96 * squares.std(ddof=1) / np.sqrt(questions)
    noise = rng.uniform(-0.1, 0.1, (2, questions, 1))
    half = chains // 2
    first = np.arange(chains) < half
    split = _drift(deltas - np.where(first, *noise), half=np.tile(np.where(first, "first", "second"), questions))
    planted = drift**2 if aim == "level" else 0.0
    return {
        DRIFT_P.name: rejects(score.p),
        DRIFT_CI.name: excludes(score, planted),
        DRIFT_NAIVE.name: misses(squares.mean() - reach, squares.mean() + reach, planted),
        HALVES_CI.name: excludes(split, planted),
    }


@simulation
def _halves_near_0(rng: Generator, questions: int, chains: int) -> dict[str, float]:
    """Chains that end at 0 or 1, as often as a first belief near 0 says, which is read with noise for each half."""
    prior = expit(rng.normal(-4, 1.5, questions))
    ends = rng.random((questions, chains)) < prior[:, None]
    begun = np.clip(prior + rng.uniform(-1, 1, (2, questions)) * prior / 2, 0, 1)
    one, two = ends[:, ::2] - begun[0][:, None], ends[:, 1::2] - begun[1][:, None]
    score = drift_covariance(one, two, prior=begun.mean(axis=0), how=Resampling(draws=RESAMPLES))
    return {HALVES_CI.name: unless_flagged(score, excludes(score, 0.0))}


def _drift(deltas: Floats, half: Array | None = None) -> Any:
    """Of chains [questions, chains] that start at one half: where they start does not count."""
    start = np.full(deltas.size, 0.5)
    question = np.repeat(names(len(deltas)), deltas.shape[1])
    moves = {"": Pairs(prior=start, posterior=start + deltas.ravel())}
    return score_of("drift", "drift2", Chains(views=moves, question=question, half=half), RESAMPLES)


ABS_BRIER = Test("Brier on |M| over cells, iid t", "paper", note="noisier updates raise both sides")
SPLIT_BRIER = Test(
    "Brier on M of the other half, two-level bootstrap",
    bound=True,
    note="resampling cells and questions counts the noise of both twice",
)


CELL_DRAWS = 99
"""Of the bootstrap of cells, which is slow."""


@simulation
def _cells(rng: Generator, cells: int, questions: int, pull: float = 0.0) -> dict[str, float]:
    """Cells that share priors; their posteriors are read with more or less noise, and pulled by 0 to `pull`."""
    shared = Bayesian().sample(questions, rng)
    prior, belief = shared.belief.T
    pulls = rng.permutation(np.linspace(0, pull, cells))
    posts = [
        PriorNoise(width).reading((1 - p) * belief + p * 0.5, rng)
        for width, p in zip(np.linspace(0, 0.14, cells), pulls, strict=True)
    ]
    slopes = [np.polyfit(prior, post - prior, 1)[0] for post in posts]
    briers = [np.mean((post - shared.outcome) ** 2) for post in posts]
    question, outcome = np.tile(np.arange(questions), cells), np.tile(shared.outcome, cells)
    factors = {"cell": np.repeat(names(cells), questions).astype(str)}
    sample = updates(np.tile(prior, cells), np.concatenate(posts), question, outcome=outcome, factors=factors)
    return {
        ABS_BRIER.name: rejects(brier_on_abs_martingale(slopes, briers).p),
        SPLIT_BRIER.name: rejects(score_of("brier-on-martingale", "brier_on_M", sample, CELL_DRAWS).p),
    }


CALIBRATION = Test("calibration slope of 1, CR3 t(G*-1)", bound=True, note=SAFE)


@simulation
def _calibrated(rng: Generator, extreme: float, questions: int) -> dict[str, float]:
    """Beliefs whose log-odds are `extreme` times those of a Bayesian."""
    sample = Bayesian().sample(questions, rng)
    belief = expit(extreme * logit(sample.read[:, 0]))
    forecasts = Forecasts(belief=belief, outcome=sample.outcome)
    return {CALIBRATION.name: rejects(score_of("calibration", "calibration", forecasts, RESAMPLES).p)}


CLUSTERED = (SLOPE, SLOPE_CR1, JOINT, JOINT_CR1, CVM, KS, HOLM, IID)
SINGLE = (SLOPE, JOINT, CVM, KS, IID)


def designs() -> list[Design]:
    """The designs of this family."""
    level, power = "level", "power"
    under, over, judge = Updater(0.4), Updater(3.0, hits=(0.6, 0.75)), LeakyJudge(0.2, Bayesian(evidence=12))
    busy = Bayesian(evidence=2, extra=30)
    return [
        Design("A-60x4", FAMILY, "Bayesian, 60 questions x 4 steps", level, "M = 0",
               _moves(Bayesian(steps=4), 60), CLUSTERED),
        Design("A-20x4", FAMILY, "Bayesian, 20 questions x 4 steps", level, "M = 0",
               _moves(Bayesian(steps=4), 20), CLUSTERED),
        Design("A-15x8", FAMILY, "Bayesian, 15 questions x 8 steps", level, "M = 0",
               _moves(Bayesian(steps=8), 15), CLUSTERED),
        Design("A-11x8", FAMILY, "Bayesian, 11 questions x 8 steps", level, "M = 0",
               _moves(Bayesian(steps=8), 11), CLUSTERED),
        Design("A-60x4-pull", FAMILY, "Anchored, 60 questions x 4 steps", power, "M = -.06",
               _moves(Anchored(0.06, of=Bayesian(steps=4)), 60), CLUSTERED),
        Design("A-150", FAMILY, "Bayesian, 150 questions, one step", level, "M = 0", _moves(Bayesian(), 150), SINGLE),
        Design("A-150-busy", FAMILY, "Bayesian that draws 30 more balls where its prior is off 1/2, 150 questions",
               level, "M = 0", _moves(busy, 150), SINGLE),
        Design("A-pull", FAMILY, "Anchored, 150 questions, one step", power, "M = -.15",
               _moves(Anchored(0.15), 150), SINGLE),
        Design("A-shift", FAMILY, "Anchored with a shift alone, 150 questions, one step", power,
               "M = 0, mean update .025", _moves(Anchored(0.0, shift=0.025), 150), SINGLE),
        Design("A-bend", FAMILY, "Anchored with a bend alone, 150 questions, one step", power,
               "M = 0, U shape of +-.05", _moves(Anchored(0.0, bend=0.05), 150), SINGLE),
        Design("A-under", FAMILY, "Under-updating (gain .4), 1200 questions", power, f"M = {under.slope:+.2f}",
               _moves(under, 1200), SINGLE),
        Design("A-over", FAMILY, "Over-updating (gain 3), 800 questions", power, f"M = {over.slope:+.2f}",
               _moves(over, 800), SINGLE),
        Design("A-noise", FAMILY, "Bayesian read with noise (reliability .82), 150 questions", level, "M of beliefs 0",
               _read_twice(PriorNoise(), 150), (IV_CI, IV_P, NAIVE)),
        Design("A-noise-pull", FAMILY, "Anchored read with noise (reliability .82), 300 questions", power,
               "M of beliefs -.15", _read_twice(PriorNoise(of=Anchored(0.15)), 300), (IV_CI, IV_P, NAIVE)),
        Design("A-leak", FAMILY, "Bayesian judged with a leak of .2, 150 questions", level,
               f"M of beliefs 0, of the readings {judge.slope:+.2f}",
               _judged(judge, 150), (PREFIX, JUDGE)),
        Design("A-leak-pull", FAMILY, "Anchored judged with a leak of .2, 150 questions", power, "M of beliefs -.15",
               _judged(LeakyJudge(0.2, Anchored(0.15)), 150), (PREFIX, JUDGE)),
        Design("A-factor", FAMILY, "two models, equal slopes, 60 shared questions x 3 steps", level, "difference 0",
               _two_models(0.0, 60), (FACTOR, FACTOR_CR1, FACTOR_ROWS)),
        Design("A-factor-pull", FAMILY, "the same, the second anchored", power, "difference about -.15",
               _two_models(0.15, 60), (FACTOR, FACTOR_CR1, FACTOR_ROWS)),
        Design("A-factor-few", FAMILY, "two models, equal slopes, 20 shared questions x 3 steps", level,
               "difference 0", _two_models(0.0, 20), (FACTOR, FACTOR_CR1)),
        Design("A-factor-few-pull", FAMILY, "the same, the second anchored", power, "difference about -.25",
               _two_models(0.25, 20), (FACTOR, FACTOR_CR1)),
        Design("A-tost", FAMILY, "Anchored at the margin, small updates, 400 questions", level, "M = -.02",
               _equivalence(MARGIN, 400), (TOST, NOT_SIGNIFICANT)),
        Design("A-tost-few", FAMILY, "Anchored at the margin, small updates, 40 questions", level, "M = -.02",
               _equivalence(MARGIN, 40), (TOST, NOT_SIGNIFICANT)),
        Design("A-tost-zero", FAMILY, "Bayesian, small updates, 1,000 questions", power, "M = 0: coherence is claimed",
               _equivalence(0.0, 1000), (TOST,)),
        Design("A-drift", FAMILY, "Bayesian, 100 questions x 8 chains", level, "drift2 = 0",
               _chains(0.0, 100, 8, level), (DRIFT_P, DRIFT_CI, HALVES_CI, DRIFT_NAIVE)),
        Design("A-drift-ci", FAMILY, "drifting by .06, 100 questions x 8 chains", level, "drift2 = .0036",
               _chains(0.06, 100, 8, level), (DRIFT_CI, HALVES_CI, DRIFT_NAIVE)),
        Design("A-drift-near-0", FAMILY, "Bayesian from priors near 0, 60 questions x 8 chains in halves", level,
               "drift2 = 0", _halves_near_0(60, 8), (HALVES_CI,)),
        Design("A-drift-power", FAMILY, "drifting by .06, 100 questions x 8 chains", power, "drift2 = .0036",
               _chains(0.06, 100, 8, power), (DRIFT_P, DRIFT_CI, HALVES_CI)),
        Design("A-drift-400", FAMILY, "Bayesian, 400 questions x 8 chains", level, "drift2 = 0",
               _chains(0.0, 400, 8, level), (DRIFT_P, DRIFT_CI, HALVES_CI, DRIFT_NAIVE)),
        Design("A-cells", FAMILY, "36 Bayesian cells of unequal noise, 60 shared questions", level, "every M = 0",
               _cells(36, 60), (SPLIT_BRIER, ABS_BRIER)),
        Design("A-cells-pull", FAMILY, "36 anchored cells, 800 shared questions", power, "M from 0 to -.6",
               _cells(36, 800, 0.6), (SPLIT_BRIER, ABS_BRIER)),
        Design("A-calibration", FAMILY, "Bayesian, 150 questions with outcomes", level, "slope 1",
               _calibrated(1.0, 150), (CALIBRATION,)),
        Design("A-calibration-power", FAMILY, "the same with log-odds twice as large, 150 questions", power,
               "slope about .6, not 1", _calibrated(2.0, 150), (CALIBRATION,)),
    ]  # fmt: skip
