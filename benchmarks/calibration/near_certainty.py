"""Calibration where beliefs of language models live, near 0 and 1, of what tested before and of what tests now:
slopes, mean updates and split readings (METRICS A3, A5).
"""

import numpy as np
from numpy.random import Generator
from scipy import stats
from scipy.special import expit, logit

from doxascope.benchmarks.agents import updates as extreme
from doxascope.benchmarks.agents.updates import Floats, Sample
from doxascope.benchmarks.calibration.design import (
    PERMUTATIONS,
    RESAMPLES,
    Aim,
    Design,
    Simulation,
    Test,
    excludes,
    misses,
    rejects,
    score_of,
    simulation,
    told,
    unless_flagged,
    updates,
)
from doxascope.metrics import (
    Interval,
    Resampling,
    calibration_slope,
    coherence_claim,
    corrected_slope,
    disattenuated_slope,
    drift_variance,
    factor_regression,
    martingale_iv,
    martingale_joint_test,
    martingale_moments,
    martingale_score,
    martingale_slope,
    martingale_within,
    moment_interval,
    paired_difference_moments,
    paired_slope_difference,
    sign_flip_test,
    studentised_mean,
    sycophancy_change,
    tost,
)

FAMILY = "F. Where beliefs live"
MARGIN = 0.05
"""Of a claim that a mean loss is small."""


def instead(name: str, instead_of: str, note: str = "") -> Test:
    """What is reported, and which test it replaced."""
    return Test(name, bound=True, note=note or "at most the level is promised", instead_of=instead_of)


def formerly(name: str) -> Test:
    """What was reported before, or would be."""
    return Test(name, "picture", note="what was reported before")


SLOPE = (
    formerly("slope, CR1 t(G-1)"),
    instead("slope, CR3 t(G*-1)", "slope, CR1 t(G-1)"),
    formerly("shift and slope, wild cluster bootstrap"),
    instead("shift and slope, studentised sign flips", "shift and slope, wild cluster bootstrap"),
)


def _slopes(sample: Sample) -> dict[str, float]:
    joint = martingale_joint_test(*sample, how=Resampling(draws=PERMUTATIONS))
    was = martingale_joint_test(*sample, se="CR1", how=Resampling(draws=199))
    tests = [
        rejects(martingale_score(*sample, se="CR1", how=Resampling(draws=1)).p),
        told(score_of("martingale", "M", updates(*sample), 1)),
        rejects(was.p),
        told(joint),
    ]
    return {test.name: value for test, value in zip(SLOPE, tests, strict=True)}


@simulation
def _signals(rng: Generator, questions: int, steps: int = 1, strength: float = 0.7) -> dict[str, float]:
    return _slopes(extreme.signalled(rng, extreme.log_odds(rng, questions), steps, strength))


@simulation
def _u_shaped(rng: Generator, questions: int) -> dict[str, float]:
    return _slopes(extreme.signalled(rng, rng.normal(0, 4, questions)))


@simulation
def _witness(rng: Generator, questions: int, accuracy: float) -> dict[str, float]:
    return _slopes(extreme.witnessed(rng, extreme.log_odds(rng, questions), accuracy))


@simulation
def _unequal(rng: Generator, questions: int) -> dict[str, float]:
    return _slopes(extreme.unequal(rng, questions))


@simulation
def _rounded(rng: Generator, questions: int) -> dict[str, float]:
    return _slopes(extreme.rounded(rng, questions))


@simulation
def _absorbed(rng: Generator, questions: int) -> dict[str, float]:
    return _slopes(extreme.absorbed(rng, questions))


@simulation
def _entrenched(rng: Generator, questions: int, slope: float) -> dict[str, float]:
    return _slopes(extreme.entrenched(rng, questions, slope))


WITHIN = (formerly("slope over all rows, CR1"), instead("slope within cells, CR3", "slope over all rows, CR1"))


@simulation
def _cells(rng: Generator, questions: int, slope: float | None = None) -> dict[str, float]:
    """Three cells whose levels of belief differ; with a slope on the prior, away from 0."""
    cell = np.arange(questions) % 3
    if slope is None:
        b, q, question = extreme.signalled(rng, np.array([-7.0, -4.0, -1.0])[cell] + rng.normal(0, 2, questions))
    else:
        question, own = np.arange(questions), rng.uniform(-0.15, 0.15, questions)
        b = np.array([0.2, 0.5, 0.8])[cell] + own
        q = b + slope * own + rng.uniform(-0.05, 0.05, questions)
    before = martingale_score(b, q, question, se="CR1", how=Resampling(draws=1))
    return {WITHIN[0].name: rejects(before.p), WITHIN[1].name: told(martingale_within(b, q, question, cell))}


MODELS = (
    formerly("contrast of slopes, CR1"),
    instead("contrast of slopes, CR3", "contrast of slopes, CR1"),
    formerly("paired difference of slopes, bootstrap"),
    instead("paired difference of slopes, CR3", "paired difference of slopes, bootstrap"),
)


@simulation
def _models(rng: Generator, questions: int, slope: float | None = None) -> dict[str, float]:
    """Two models whose beliefs about the same questions are alike; or away from 0, the second with a slope."""
    if slope is None:
        logits = extreme.log_odds(rng, questions)
        one, two = (extreme.signalled(rng, logits + rng.normal(0, 0.5, questions)) for _ in range(2))
    else:
        b, q, question = extreme.entrenched(rng, questions, 0.0)
        one, two = (b, q, question), (b, q + slope * (b - 0.5) + rng.uniform(-0.05, 0.05, len(b)), question)
    b, q, question = (np.concatenate(both) for both in zip(one, two, strict=True))
    arm = {"model": np.repeat(["a", "b"], len(one[0]))}
    was, now = (
        factor_regression(q - b, b, arm, {"model": "a"}, question, se=se, how=Resampling(draws=1)).terms["b:model[b]"]
        for se in ("CR1", "CR3")
    )
    moments = [martingale_moments(*kind[:2]) for kind in (one, two)]
    drawn = paired_difference_moments(moments[0], moments[1], martingale_slope, one[2], how=Resampling(draws=RESAMPLES))
    paired = paired_slope_difference(one[:2], two[:2], one[2])
    tests = [rejects(was.p), told(now), rejects(drawn.p), told(paired)]
    return {test.name: value for test, value in zip(MODELS, tests, strict=True)}


CALIBRATED = (formerly("calibration slope, HC3"), instead("calibration slope, CR3", "calibration slope, HC3"))


@simulation
def _calibrated(rng: Generator, beliefs: tuple[float, ...], n: int, slope: float = 1.0) -> dict[str, float]:
    """Outcomes with a slope on the belief."""
    p = rng.choice(beliefs, n)
    y = (rng.random(n) < 0.5 + slope * (p - 0.5)).astype(float)
    was, now = (calibration_slope(p, y, se=se) for se in ("HC3", "CR3"))
    return {CALIBRATED[0].name: rejects(was.p), CALIBRATED[1].name: told(now)}


DRIFTS = (
    formerly("does any question drift? t tests, Bonferroni"),
    instead("does any question drift? bound, Holm", "does any question drift? t tests, Bonferroni"),
)


@simulation
def _settled(rng: Generator, questions: int, chains: int, shift: float = 0.0) -> dict[str, float]:
    """Chains that end near 0 or 1, as often as the first belief says, or `shift` nats more often."""
    logits = rng.normal(0, 2, questions)
    prior = expit(logits)
    deltas = (rng.random((questions, chains)) < expit(logits + shift)[:, None]) * 0.999 - prior[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        t = stats.ttest_1samp(deltas, 0, axis=1).pvalue
    now = drift_variance(deltas, prior, how=Resampling(draws=1))
    p = float(np.nanmin(np.append(t, 1.0))) * questions, float(np.nanmin(now.p_holm))
    return {test.name: rejects(value) for test, value in zip(DRIFTS, p, strict=True)}


CORRECTED = (
    formerly("corrected slope, reliability as known"),
    instead("corrected slope, drawn with its reliability", "corrected slope, reliability as known"),
)


@simulation
def _corrected(rng: Generator, n: int, slope: float = 0.0) -> dict[str, float]:
    """Two noisy readings of a prior, on which the update has a slope."""
    b = rng.uniform(0.35, 0.65, n)
    q = b + slope * (b - 0.5) + rng.uniform(-0.1, 0.1, n)
    both = b[:, None] + rng.uniform(-0.15, 0.15, (n, 2))
    now = corrected_slope(both, q, how=Resampling(draws=RESAMPLES))
    plain = martingale_score(both.mean(axis=1), q, se="CR3")
    was = disattenuated_slope(plain.M, now.reliability, se=plain.se)
    p = 2 * float(stats.t.sf(abs(was.beta1 / was.se), n - 2))
    return {CORRECTED[0].name: rejects(p), CORRECTED[1].name: told(now)}


def _bca(values: Floats) -> Interval:
    """The interval of a mean as it was reported before."""
    moments = np.column_stack([values, np.ones(len(values))])
    return moment_interval(
        moments, np.arange(len(values)), lambda s: s[:, 0] / s[:, 1], how=Resampling(draws=RESAMPLES)
    )


CLAIM = (
    formerly("claim that a mean loss is small, BCa"),
    formerly("claim that a mean loss is small, two t tests"),
    instead("claim that a mean loss is small, bootstrap-t", "claim that a mean loss is small, BCa"),
)


@simulation
def _claimed(rng: Generator, items: int, mean: float, bad: bool) -> dict[str, float]:
    """Losses of a mean: a few bad items of loss 1, or squares."""
    loss = (rng.random(items) < mean).astype(float) if bad else mean * rng.chisquare(1, items)
    se = float(stats.sem(loss))
    by_t = tost(float(loss.mean()), se, items - 1, -MARGIN, MARGIN).p if se > 0 else 0.0
    claim = coherence_claim(loss, None, MARGIN, how=Resampling(draws=RESAMPLES))
    made = [float(_bca(loss).hi < MARGIN) if se > 0 else 1.0, rejects(by_t), float(claim.claimed)]
    return {test.name: value for test, value in zip(CLAIM, made, strict=True)}


CAVING = (
    formerly("mean shift by testimony, BCa"),
    instead("mean shift by testimony, studentised", "mean shift by testimony, BCa"),
    formerly("mean shift by testimony, sign flips"),
)


@simulation
def _caving(rng: Generator, scenarios: int, tested: float = 0.2) -> dict[str, float]:
    """One scenario in ten caves, by two nats: the mean shift is .2, or is tested against another."""
    base = expit(rng.normal(0, 1, scenarios))
    shift = 2.0 * (rng.random(scenarios) < 0.1) + rng.normal(0, 0.05, scenarios)
    now = sycophancy_change(base, expit(logit(base) + shift), how=Resampling(draws=RESAMPLES))
    was = _bca(shift)
    tests = [
        misses(was.lo, was.hi, tested),
        unless_flagged(now, excludes(now, tested)),
        rejects(sign_flip_test(shift - tested, how=Resampling(draws=PERMUTATIONS)).p),
    ]
    return {test.name: value for test, value in zip(CAVING, tests, strict=True)}


Named = tuple[str, str, Simulation, tuple[Test, ...]]
"""Key, agent, simulation and tests of a design."""


def designs() -> list[Design]:
    """Null agents at the sizes of real runs, and the power that is left."""
    level: list[Named] = [
        *((f"extreme {g}", f"priors near 0, {g} questions", _signals(g), SLOPE) for g in (15, 30, 60, 150)),
        *((f"extreme {g}x4", f"priors near 0, {g} questions x 4 steps", _signals(g, 4), SLOPE) for g in (15, 60)),
        ("extreme long", "priors near 0, 20 questions x 30 steps", _signals(20, 30, 0.3), SLOPE),
        ("extreme witness", "priors near 0, one witness who is right in 80%, 60 questions", _witness(60, 0.8), SLOPE),
        ("extreme u", "U-shaped priors, 30 questions", _u_shaped(30), SLOPE),
        ("extreme unequal", "heavy-tailed shifts, 30 questions of 1 to 50 rows", _unequal(30), SLOPE),
        ("extreme rounded", "reports rounded to .05, 30 questions x 2", _rounded(30), SLOPE),
        ("extreme absorbed", "beliefs of .01, .05, ... of which 0 and 1 stay, 20 questions", _absorbed(20), SLOPE),
        ("extreme cells", "three cells of different levels near 0, 60 questions", _cells(60), WITHIN),
        ("extreme models", "two models near 0, the same 60 questions", _models(60), MODELS),
        ("extreme calibrated", "beliefs .01, .5, .99, 60 outcomes", _calibrated((0.01, 0.5, 0.99), 60), CALIBRATED),
        ("extreme three", "beliefs .2, .5, .8, 60 outcomes", _calibrated((0.2, 0.5, 0.8), 60), CALIBRATED),
        ("extreme settled", "60 questions x 8 chains that settle near 0 or 1", _settled(60, 8), DRIFTS),
        ("extreme noisy", "a prior read twice with noise, 80 questions", _corrected(80), CORRECTED),
        ("extreme few bad", "one item in twenty is incoherent, 80 items", _claimed(80, MARGIN, True), CLAIM),
        ("extreme squares", "skewed losses, 80 items", _claimed(80, MARGIN, False), CLAIM),
        ("extreme cavers 30", "one scenario in ten caves, 30 scenarios", _caving(30), CAVING),
        ("extreme cavers 100", "one scenario in ten caves, 100 scenarios", _caving(100), CAVING),
    ]
    power: list[tuple[Named, str]] = [
        (("extreme power", "updates with a slope, 60 questions x 4", _entrenched(60, -0.06), SLOPE), "M = -.06"),
        (("extreme cells power", "slopes in cells, 60 questions", _cells(60, -0.3), WITHIN), "M = -.3 in each cell"),
        (("extreme models power", "two models, 60 questions x 4", _models(60, -0.1), MODELS), "M differs by .1"),
        (
            (
                "extreme three power",
                "beliefs .2, .5, .8, 200 outcomes",
                _calibrated((0.2, 0.5, 0.8), 200, 0.3),
                CALIBRATED,
            ),
            "slope .3",
        ),
        (("extreme settled power", "20 questions x 30 chains", _settled(20, 30, 2.0), DRIFTS), "drift by two nats"),
        (("extreme noisy power", "a prior read twice, 200 questions", _corrected(200, -0.5), CORRECTED), "M = -.5"),
        (("extreme squares power", "skewed losses, 80 items", _claimed(80, 0.02, False), CLAIM), "mean loss .02"),
        (("extreme cavers power", "one in ten caves, 100 scenarios", _caving(100, 0.0), CAVING), "mean shift .2"),
    ]
    found = [_design(*one, "level", "nothing is planted but what the test allows") for one in level]
    return [*found, *(_design(*one, "power", truth) for one, truth in power)]


def _design(key: str, agent: str, simulate: Simulation, tests: tuple[Test, ...], aim: Aim, truth: str) -> Design:
    return Design(key, FAMILY, agent, aim, truth, simulate, tests)


# Calibration of mean updates and split readings where beliefs live (METRICS A3, A5).

MEAN_UPDATE = (
    formerly("mean update, bootstrap-t"),
    instead("mean update, bootstrap-t or t, the longer", "mean update, bootstrap-t"),
)


def _mean_update(sample: Sample) -> dict[str, float]:
    prior, post, question = sample
    was = studentised_mean(post - prior, question, how=Resampling(draws=RESAMPLES))
    now = score_of("martingale", "mean_update", updates(*sample), RESAMPLES)
    both = misses(was.lo, was.hi, 0.0), told(now)
    return {test.name: value for test, value in zip(MEAN_UPDATE, both, strict=True)}


@simulation
def _signalled(rng: Generator, questions: int) -> dict[str, float]:
    return _mean_update(extreme.signalled(rng, extreme.log_odds(rng, questions)))


@simulation
def _witnessed(rng: Generator, questions: int) -> dict[str, float]:
    return _mean_update(extreme.witnessed(rng, extreme.log_odds(rng, questions), 0.8))


@simulation
def _absorbed_mean(rng: Generator, questions: int) -> dict[str, float]:
    return _mean_update(extreme.absorbed(rng, questions))


@simulation
def _drifting(rng: Generator, questions: int) -> dict[str, float]:
    """Updates of spread beliefs that are all shifted by .02."""
    prior = rng.uniform(0.2, 0.8, questions)
    return _mean_update((prior, prior + 0.02 + rng.uniform(-0.1, 0.1, questions), np.arange(questions)))


SPLIT = (
    formerly("split readings, posterior read by the same wordings"),
    instead(
        "split readings, posterior read by a third wording",
        "split readings, posterior read by the same wordings",
        "flagged where few questions carry it",
    ),
)


def _worded(rng: Generator, belief: Floats, wordings: Floats) -> Floats:
    """[n, w] readings of a belief [n]: what a wording adds to each item stays, within the room that is left."""
    room = np.minimum(belief, 1 - belief)[:, None]
    return belief[:, None] + room * np.clip(wordings + rng.uniform(-0.2, 0.2, wordings.shape), -1, 1)


@simulation
def _reworded(rng: Generator, questions: int, near: bool, slope: float = 0.0) -> dict[str, float]:
    """Three wordings that err alike before and after an update, near 0 or not."""
    if near:
        prior, post, _ = extreme.signalled(rng, extreme.log_odds(rng, questions))
    else:
        prior = rng.uniform(0.2, 0.8, questions)
        post = prior + slope * (prior - 0.5) + rng.uniform(-0.1, 0.1, questions)
    wordings = rng.uniform(-0.5, 0.5, (questions, 3))
    before, after = _worded(rng, prior, wordings), _worded(rng, post, wordings)
    was = martingale_iv(before[:, 0], before[:, 1], after[:, :2].mean(axis=1), how=Resampling(draws=RESAMPLES))
    now = martingale_iv(before[:, 0], before[:, 1], after[:, 2], how=Resampling(draws=RESAMPLES))
    return {SPLIT[0].name: float(bool(told(was))), SPLIT[1].name: told(now)}


NamedShift = tuple[str, str, Simulation, tuple[Test, ...]]
"""Key, agent, simulation and tests of a design."""


def mean_update_designs() -> list[Design]:
    """Null agents near 0 and 1, and the power that is left."""
    level: list[NamedShift] = [
        ("extreme shift 12", "mean update from priors near 0, 12 questions", _signalled(12), MEAN_UPDATE),
        ("extreme shift 40", "mean update from priors near 0, 40 questions", _signalled(40), MEAN_UPDATE),
        ("extreme shift witness", "mean update by one witness from priors near 0, 40 questions", _witnessed(40),
         MEAN_UPDATE),
        ("extreme shift rounded", "mean update of beliefs of .01, .05, ... of which 0 and 1 stay, 20 questions",
         _absorbed_mean(20), MEAN_UPDATE),
        ("extreme wordings", "three wordings that err alike before and after, 80 questions", _reworded(80, False),
         SPLIT),
        ("extreme wordings near 0", "the same near 0, 60 questions", _reworded(60, True), SPLIT),
    ]  # fmt: skip
    power: list[tuple[NamedShift, str]] = [
        (("extreme shift power", "updates of spread beliefs, 100 questions", _drifting(100), MEAN_UPDATE),
         "mean update .02"),
        (("extreme wordings power", "three wordings, 200 questions", _reworded(200, False, -0.3), SPLIT), "M = -.3"),
    ]  # fmt: skip
    nothing = "nothing is planted but what the test allows"
    found = [Design(key, FAMILY, agent, "level", nothing, run, tests) for key, agent, run, tests in level]
    return found + [Design(key, FAMILY, agent, "power", truth, run, tests) for (key, agent, run, tests), truth in power]
