"""Calibration of `doxascope compare`: two kinds of belief about the same questions, by three numbers at once."""

from collections.abc import Collection, Iterator, Sequence

import numpy as np
from numpy.random import Generator
from scipy.special import expit

from ....metrics import MARGINS, moment_interval, tost
from ...scoring.measured import measured
from ...scoring.number import Number, Resampling
from ...scoring.paired import paired_differences, pairs_of
from ...tables.samples import Forecasts, Multiclass, Sample, Told, YesNo
from ..trajectories import Floats
from ..updating import Anchored
from .design import ALPHA, RESAMPLES, Design, Test, excludes, misses, simulation, unless_flagged
from .extreme import formerly, instead
from .scored import names, updates

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
    was = moment_interval(moments, owner, lambda s: s[:, 1] / s[:, 0], seed=0, draws=RESAMPLES, kind="percentile")
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


def designs() -> list[Design]:
    """The designs of comparisons."""
    each, level, power = tuple(INTERVALS.values()), "level", "power"
    return [
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
