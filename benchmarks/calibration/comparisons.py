"""Calibration of `doxascope compare`, two kinds of belief about the same questions, and of what is asked of
probabilities and of two ways of reading (METRICS E15, E16, F9).
"""

from collections.abc import Collection, Iterator, Sequence

import numpy as np
from numpy.random import Generator
from scipy.special import expit

from doxascope.benchmarks.agents import SaysOtherwise
from doxascope.benchmarks.agents.kinds import METHODS
from doxascope.benchmarks.agents.updates import Anchored, Floats
from doxascope.benchmarks.calibration.decisions import FAMILY as DECISIONS
from doxascope.benchmarks.calibration.design import (
    ALPHA,
    RESAMPLES,
    Aim,
    Design,
    Test,
    excludes,
    misses,
    names,
    simulation,
    unless_flagged,
    updates,
)
from doxascope.benchmarks.calibration.near_certainty import formerly, instead
from doxascope.metrics import (
    MARGINS,
    calibration_error,
    method_correlation,
    moment_interval,
    quantile_bins,
    ratio_of_sums,
    tost,
)
from doxascope.metrics.contract import Resampling
from doxascope.metrics.number import Number
from doxascope.metrics.scoring.differences import paired_differences, pairs_of
from doxascope.metrics.scoring.engine import measured
from doxascope.metrics.tables.samples import Forecasts, Multiclass, Sample, Told, YesNo

FAMILY = "F. Shared inference"
SLOPE, BRIER, BOOK = "M", "brier_post", "dutch_book_complement"
SAFE = "no shorter than CR3, which errs to the safe side"
INTERVALS = {
    SLOPE: Test("paired difference of M", bound=True, note=SAFE),
    BRIER: Test("paired difference of the Brier score", bound=True, note=SAFE),
    BOOK: Test("paired difference of the sure loss", bound=True, note=SAFE),
}
ANY = Test("any of the three called different, Holm", bound=True, note="Holm bounds the chance of one among three")
NOISE = 0.15
"""Half-width of the uniform noise of a reading, which beliefs that stay off 0 and 1 have room for."""
EXCESS = 0.1
"""Largest excess of a belief and its complement over one."""


def _read(rng: Generator, pull: float, noise: float, excess: Floats, kind: str, seed: int) -> Iterator[Sample]:
    """One kind: updates pulled by so much, their end read with noise, and beliefs that sum to more than one."""
    n = len(excess)
    agent, keys = Anchored(pull=pull).sample(n, seed), names(n)
    end = agent.read[:, 1] + rng.uniform(-noise, noise, n)
    yield updates(agent.read[:, 0], end, keys, outcome=agent.outcome, keys=keys, kind=kind)
    belief = agent.read[:, 0] * (1 - EXCESS)
    yield YesNo(belief=belief, negated=1 + excess - belief, mass=np.ones(n), clusters=keys, keys=keys, kind=kind)


def differences(samples: Sequence[Sample], names: Collection[str] = INTERVALS) -> dict[str, Number]:
    """Number -> the first kind less the second, by the road that `compare` takes."""
    how = Resampling(draws=RESAMPLES)
    found = measured(samples, how, compared=set(names), only_compared=True)
    pairs = pairs_of(found.comparable, (), samples)
    return {pair.metric: number for pair, number in zip(pairs, paired_differences(pairs, how), strict=True)}


def two_kinds(
    rng: Generator, questions: int, apart: float, noise: float = NOISE
) -> tuple[list[Sample], dict[str, float]]:
    """Two kinds that share questions and half of what makes them incoherent, and what each number of the first is less
    that of the second: all of it if `apart` is 1, nothing if it is 0.

    Noise of half-width w adds w^2 / 3 to a Brier score. Both have it, and `apart` takes it away from the second, whose
    beliefs and complements exceed one by less, too.
    """
    seed = int(rng.integers(2**31))
    shared, own = rng.uniform(0, EXCESS / 2, questions), rng.uniform(0, EXCESS / 2, (2, questions))
    excess = [shared + own[0], shared + (1 - apart) * own[1]]
    less = noise * np.sqrt(1 - apart)
    samples = [
        *_read(rng, 0.3, noise, excess[0], "exact", seed),
        *_read(rng, 0.3, less, excess[1], "verbal", seed),
    ]
    return samples, {SLOPE: 0.0, BRIER: apart * noise**2 / 3, BOOK: apart * 100 * EXCESS / 4}


@simulation
def _apart(
    rng: Generator, questions: int, apart: float, noise: float = NOISE, against_none: bool = False
) -> dict[str, float]:
    """Does an interval miss what was planted, or, `against_none`, leave out zero?"""
    samples, truth = two_kinds(rng, questions, apart, noise)
    found = differences(samples)
    nulls = dict.fromkeys(truth, 0.0) if against_none else truth
    told = {test.name: excludes(found[name].score, nulls[name]) for name, test in INTERVALS.items()}
    called = any(number.value("p_adjusted") <= ALPHA for number in found.values())
    return told | {ANY.name: float(called)}


@simulation
def _pulled(rng: Generator, questions: int, apart: float, null: float) -> dict[str, float]:
    seed = int(rng.integers(2**31))
    none = np.zeros(questions)
    samples = [*_read(rng, 0.1, NOISE, none, "exact", seed), *_read(rng, 0.1 + apart, NOISE, none, "verbal", seed)]
    return {INTERVALS[SLOPE].name: excludes(differences(samples)[SLOPE].score, null)}


SAME = instead("claim of the same, reckoning with what was missed", "claim of the same, two t tests")
SAME_BY_T = formerly(SAME.instead_of)
LOST = 0.36
"""What an incoherent question loses, in euros."""


def _booked(excess: Floats, kind: str) -> YesNo:
    """Beliefs of one half whose complements exceed what is left of one by so much."""
    n = len(excess)
    keys, even = names(n), np.full(n, 0.5)
    return YesNo(belief=even, negated=even + excess, mass=np.ones(n), clusters=keys, keys=keys, kind=kind)


@simulation
def _called_same(rng: Generator, questions: int, share: float) -> dict[str, float]:
    """Is a kind that loses much in a share of the questions called the same as one that does not?"""
    little = rng.uniform(0, 0.005, (2, questions))
    first = np.where(rng.random(questions) < share, LOST, 0.0) + little[0]
    found = differences([_booked(first, "exact"), _booked(little[1], "verbal")], [BOOK])[BOOK]
    was = tost(
        float(found.score.estimate), found.score.se, questions - 1, -MARGINS["dutch_book"], MARGINS["dutch_book"]
    )
    return {SAME_BY_T.name: float(was.equivalent), SAME.name: float(found.is_none)}


UNEQUAL = instead("paired difference of a mean, no shorter than CR3", "paired difference of a mean, bootstrap")
UNEQUAL_WAS = formerly(UNEQUAL.instead_of)


@simulation
def _unequal(rng: Generator, clusters: int, apart: float = 0.0) -> dict[str, float]:
    """Clusters of 1 to 50 rows; one kind is swayed more, by what a cluster shares; on average by `apart`."""
    sizes = np.exp(rng.uniform(0, np.log(50), clusters)).astype(int)
    owner = np.repeat(np.arange(clusters), sizes)
    n = len(owner)
    first = apart + 0.2 * rng.standard_normal(clusters)[owner] + rng.uniform(-0.3, 0.3, n)
    second = rng.uniform(-0.3, 0.3, n)
    keys, even = names(n), np.full(n, 0.5)
    kinds = [
        Told(user=expit(x), licensed_user=even, agent=even, licensed_agent=even, clusters=owner, keys=keys, kind=kind)
        for x, kind in ((first, "exact"), (second, "verbal"))
    ]
    score = differences(kinds, ["excess"])["excess"].score
    moments = np.column_stack([np.ones(n), first - second])
    was = moment_interval(
        moments, owner, lambda s: s[:, 1] / s[:, 0], kind="percentile", how=Resampling(draws=RESAMPLES)
    )
    return {UNEQUAL_WAS.name: misses(was.lo, was.hi, 0.0), UNEQUAL.name: unless_flagged(score, excludes(score, 0.0))}


RARE = Test("paired difference of the loss", bound=True, note="flagged where few surprises are to be expected")
RARE_WAS = formerly("paired difference of the loss, whatever its status")
LOSSES = {"brier": "Brier score", "log_loss": "log-loss"}


@simulation
def _rarely(rng: Generator, loss: str, questions: int, log_odds: float, right: bool = False) -> dict[str, float]:
    """Two kinds that are wrong about rare events, up and down, so that they lose alike on average; or the first is
    right, and the second says a quarter.
    """
    more = expit(rng.normal(log_odds, 1, questions))
    less = more / 4
    up, down = np.log(more / less), np.log((1 - less) / (1 - more))
    alike = (more + less) / 2 if loss == "brier" else down / (up + down)
    true = rng.random(questions) < (more if right else alike)
    keys, pair = names(questions), {"exact": more, "verbal": less}
    if loss == "brier":
        samples: list[Sample] = [
            Forecasts(belief=p, outcome=true.astype(float), clusters=keys, keys=keys, kind=kind)
            for kind, p in pair.items()
        ]
    else:
        wrong = np.where(true, rng.integers(1, 4, questions), 0).astype(float)
        samples = [
            Multiclass(
                belief=np.column_stack([1 - p, p / 3, p / 3, p / 3]),
                sizes=np.full(questions, 4),
                truth=wrong,
                clusters=keys,
                keys=keys,
                kind=kind,
            )
            for kind, p in pair.items()
        ]
    score = differences(samples, [loss])[loss].score
    value = excludes(score, 0.0)
    return {RARE_WAS.name: float(value), RARE.name: unless_flagged(score, value)}


APART = Test("difference of what is computed and what is said", bound=True, note=SAFE)
CALLED = Test("called different, in a family of three pairs", bound=True, note="Holm bounds the chance of one of them")
EACH = {kind: Test(f"number of kind {kind}", bound=True, note="no shorter than CR3") for kind in METHODS}
MADE_BY = {"c2": "consistency", "rms_logodds": "logodds-change", SLOPE: "martingale"}
"""Number -> the metric that makes it."""


@simulation
def _says_otherwise(
    rng: Generator, metric: str, n: int, computed: float, said: float, against_none: bool = False
) -> dict[str, float]:
    """Does the number of a kind, or the difference of two, miss what was planted, and are two kinds called different
    that are not? Or, `against_none`: is it told that what is said differs, and from 0, or 1?
    """
    agent, seed, keys = SaysOtherwise(computed, said), int(rng.integers(2**31)), names(n)
    if metric == SLOPE:
        planted = {kind: -pull for kind, pull in agent.planted.items()}
        made = {
            kind: updates(
                urns.read[:, 0], urns.read[:, 1], keys, keys=keys, kind=kind, method=METHODS[kind], outcome=urns.outcome
            )
            for kind, urns in agent.urns(n, seed).items()
        }
    else:
        planted = {kind: agent.c2(kind) for kind in METHODS} if metric == "c2" else agent.planted
        made = agent.words(n, seed)
    how, exact, verbal, probe = Resampling(draws=RESAMPLES), *METHODS
    found = measured(made.values(), how, MADE_BY[metric], until=metric, compared={metric})
    pairs = pairs_of(found.comparable, (), [*made.values()])
    of = {(pair.one.kind, pair.two.kind): i for i, pair in enumerate(pairs)}
    apart = paired_differences(pairs, how)
    other = apart[of[exact, verbal]]
    named = other if against_none else apart[of[exact, probe]]
    null = dict.fromkeys(METHODS, float(metric == "c2")) if against_none else planted
    each = {number.kind: number.score for number in found.numbers if number.metric == metric}
    return {
        APART.name: excludes(other.score, null[exact] - null[verbal]),
        CALLED.name: float(named.value("p_adjusted") <= ALPHA),
        **{test.name: excludes(each[kind], null[kind]) for kind, test in EACH.items()},
    }


def designs() -> list[Design]:
    """The designs of comparisons."""
    each = tuple(INTERVALS.values())
    level: Aim = "level"
    power: Aim = "power"
    aims: tuple[tuple[Aim, str], ...] = (("level", ""), ("power", "-power"))
    return [
        *(
            Design(f"F-kinds-{metric}{end}", FAMILY, f"says otherwise than it computes and holds, {n} {things}", aim,
                   f"{metric}: {said:g} {unit} said, {computed:g} computed and held",
                   _says_otherwise(metric, n, computed, said, aim == power), (APART, CALLED, *EACH.values()))
            for metric, n, things, unit, computed, said in (
                ("c2", 100, "triples of words", "nat of step", 0.2, 0.8),
                ("rms_logodds", 100, "triples of words", "nat of step", 0.2, 0.8),
                (SLOPE, 100, "urns", "of pull", 0.2, 0.6),
            )
            for aim, end in aims
        ),
        Design("F-compare-same", FAMILY, "two kinds of one law, 80 questions", level, "differences 0",
               _apart(80, 0.0), (*each, ANY)),
        Design("F-compare-apart", FAMILY, "two kinds, the second without noise, 80 questions", level,
               "Brier score .0075 apart, sure loss 2.5 cents", _apart(80, 1.0), each),
        Design("F-compare-pull", FAMILY, "two kinds, the second pulled by .2 more, 80 questions", level,
               "M .2 apart", _pulled(80, 0.2, 0.2), each[:1]),
        Design("F-compare-power", FAMILY, "two kinds, the second without noise, 400 questions", power,
               "Brier score .021 apart, sure loss 2.5 cents", _apart(400, 1.0, 0.25, True), (*each[1:], ANY)),
        Design("F-compare-pull-power", FAMILY, "two kinds, the second pulled by .2 more, 150 questions", power,
               "M .2 apart", _pulled(150, 0.2, 0.0), each[:1]),
        *(
            Design(f"F-compare-missed-{n}", FAMILY, f"one kind loses 36 cents in one of 18 of {n} questions", level,
                   "sure losses 2 cents apart: at the margin", _called_same(n, 1 / 18), (SAME_BY_T, SAME))
            for n in (12, 36)
        ),
        Design("F-compare-alike", FAMILY, "no question loses more by one kind, 200 questions", power,
               "sure losses alike: the same is claimed", _called_same(200, 0.0), (SAME_BY_T, SAME)),
        *(
            Design(f"F-compare-unequal-{n}", FAMILY, f"{n} clusters of 1 to 50 rows that share a difference", level,
                   "excess alike", _unequal(n), (UNEQUAL_WAS, UNEQUAL))
            for n in (8, 12, 40)
        ),
        Design("F-compare-unequal-power", FAMILY, "40 clusters of 1 to 50 rows that share a difference", power,
               "excess .25 nat apart", _unequal(40, 0.25), (UNEQUAL_WAS, UNEQUAL)),
        Design("F-compare-rare-power", FAMILY, "chances of about .18 that one kind says right, 400 questions", power,
               "the other says a quarter of them", _rarely("brier", 400, -1.5, right=True), (RARE_WAS, RARE)),
        *(
            Design(f"F-compare-rare-{loss}-{n}-{-where:g}", FAMILY,
                   f"chances of about {expit(where):.2g} that are said too high and too low, {n} questions", level,
                   f"{said} alike", _rarely(loss, n, where), (RARE_WAS, RARE))
            for loss, said in LOSSES.items()
            for where, n in ((-6.0, 60), (-3.0, 60), (-1.5, 200))
        ),
    ]  # fmt: skip


# Calibration of what is asked of probabilities and of two ways of reading (METRICS E15, E16, F9).

ERROR = Test(
    "calibration error, interval", bound=True, note="its variance is no smaller than that of a calibrated model"
)


@simulation
def _confident(
    rng: Generator, questions: int, law: tuple[float, float], over: float, each: int = 1, against_none: bool = False
) -> dict[str, float]:
    """Right with a chance of a Beta law, from one half on, that is overstated by a share of what is left to one.

    `each` rows of a question come true together. The planted value is that of the bins; or 0, `against_none`.
    """
    chance = rng.beta(*law, questions)
    chance = np.maximum(chance, 1 - chance)
    said = chance + over * (1 - chance)
    right = (rng.random(questions) < chance).astype(np.float64)
    chance, said, right, owner = (np.repeat(x, each) for x in (chance, said, right, np.arange(questions)))
    found = calibration_error(said, right, owner)
    member = quantile_bins(said, found.params["bins"])[:, None] == np.arange(found.params["bins"])
    gap = (chance - said) @ member / member.sum(axis=0)
    planted = 0.0 if against_none else float(np.sqrt(member.mean(axis=0) @ gap**2))
    return {ERROR.name: unless_flagged(found, misses(found.ci_lo - 1e-9, found.ci_hi + 1e-9, planted))}


RATIO_WAS = formerly("ratio of sums, bootstrap")
RATIO = instead("ratio of sums, no shorter than CR3", RATIO_WAS.name, "flagged where few clusters carry it")
RATIO_OF_ALL = 0.2


@simulation
def _shares(rng: Generator, clusters: int, spread: float, null: float = RATIO_OF_ALL) -> dict[str, float]:
    """Of sums whose sizes differ by `spread` on the log scale, each cluster has its own share: a fifth on average."""
    size = np.exp(rng.normal(0, spread, clusters))
    columns = np.column_stack([size * rng.beta(1, 4, clusters), size])
    owner = np.arange(clusters)
    was = moment_interval(columns, owner, lambda s: s[:, 0] / s[:, 1], how=Resampling(draws=RESAMPLES))
    now = ratio_of_sums(columns, owner, within=(0.0, 1.0), how=Resampling(draws=RESAMPLES))
    return {RATIO_WAS.name: misses(was.lo, was.hi, null), RATIO.name: unless_flagged(now, excludes(now, null))}


ALIKE = Test("disattenuated correlation, interval", bound=True, note="no shorter than CR3; flagged: weak_reliability")
NOISE_CALLED_RELIABLE = Test(
    "readings of noise alone are called reliable", bound=True, note="weak_reliability says that they are not"
)


@simulation
def _read_twice(
    rng: Generator, things: int, correlation: float, reliability: float, null: float | None = None
) -> dict[str, float]:
    """Two kinds, the mean of whose two readings has this reliability."""
    found = method_correlation(*_readings(rng, things, correlation, reliability), how=Resampling(draws=RESAMPLES))
    return {ALIKE.name: unless_flagged(found, excludes(found, correlation if null is None else null))}


@simulation
def _noise(rng: Generator, things: int, reliability: float) -> dict[str, float]:
    """A rejection: the status is `ok`."""
    found = method_correlation(*_readings(rng, things, 0.5, reliability), how=Resampling(draws=RESAMPLES))
    return {NOISE_CALLED_RELIABLE.name: float(found.status == "ok")}


def _readings(rng: Generator, things: int, correlation: float, reliability: float) -> tuple[Floats, Floats]:
    """[things, 2] twice."""
    shared, own = rng.standard_normal((2, things))
    held = np.sqrt(reliability) * np.stack([shared, correlation * shared + np.sqrt(1 - correlation**2) * own])
    first, second = held[:, :, None] + np.sqrt(2 * (1 - reliability)) * rng.standard_normal((2, things, 2))
    return first, second


def rate_designs() -> list[Design]:
    """The designs of rates and of ways of reading."""
    level: Aim = "level"
    power: Aim = "power"
    spread, sure = (8.0, 2.0), (200.0, 1.0)
    found = [
        *(
            Design(f"E-error-{questions}-{over:g}", DECISIONS, f"{questions} questions, {said}", level,
                   "the distance in the bins", _confident(questions, spread, over), (ERROR,))
            for questions, over, said in (
                (60, 0.0, "calibrated"), (300, 0.0, "calibrated"), (300, 0.4, "overconfident by two fifths")
            )
        ),
        Design("E-error-rare", DECISIONS, "100 questions that go wrong in one of 200, overconfident by half", level,
               "the distance in the bins", _confident(100, sure, 0.5), (ERROR,)),
        Design("E-error-clusters", DECISIONS, "60 questions x 5 rows that come true together, overconfident", level,
               "the distance in the bins", _confident(60, spread, 0.4, 5), (ERROR,)),
        Design("E-error-power", DECISIONS, "300 questions, overconfident by half", power, "error not 0",
               _confident(300, spread, 0.5, against_none=True), (ERROR,)),
        *(
            Design(f"F-ratio-{n}-{width:g}", FAMILY, f"{n} clusters, sizes spread by {width:g} on the log scale", level,
                   "ratio .2", _shares(n, width), (RATIO_WAS, RATIO))
            for n, width in ((8, 1.0), (20, 1.0), (40, 0.5), (40, 1.0))
        ),
        Design("F-ratio-power", FAMILY, "60 clusters, sizes spread by 0.5 on the log scale", power, "ratio .2, not .1",
               _shares(60, 0.5, 0.1), (RATIO_WAS, RATIO)),
        *(
            Design(f"F-alike-{n}-{reliability:g}", FAMILY,
                   f"{n} things read twice in two ways of reliability {reliability:g}", level, "correlation .6",
                   _read_twice(n, 0.6, reliability), (ALIKE,))
            for n, reliability in ((20, 0.8), (60, 0.5), (60, 0.8))
        ),
        Design("F-alike-power", FAMILY, "100 things read twice in two ways of reliability .8", power,
               "correlation .6, not 1", _read_twice(100, 0.6, 0.8, null=1.0), (ALIKE,)),
        Design("F-alike-noise", FAMILY, "60 things read twice in two ways, noise alone", level, "reliability 0",
               _noise(60, 0.0), (NOISE_CALLED_RELIABLE,)),
        Design("F-alike-reliable", FAMILY, "60 things read twice in two ways of reliability .8", power,
               "reliability .8", _noise(60, 0.8), (NOISE_CALLED_RELIABLE,)),
    ]  # fmt: skip
    return found
