"""Calibration of `doxascope compare`: two kinds of belief about the same questions, by three numbers at once."""

from collections.abc import Iterator

import numpy as np
from numpy.random import Generator

from ...scoring.engine import measured
from ...scoring.number import Number, Resampling
from ...scoring.paired import paired_differences, pairs_of
from ...tables.samples import Sample, YesNo
from ..trajectories import Floats
from ..updating import Anchored
from .design import ALPHA, RESAMPLES, Design, Test, excludes, simulation
from .scored import names, updates

FAMILY = "F. Shared inference"
SLOPE, BRIER, BOOK = "M", "brier_post", "dutch_book_complement"
INTERVALS = {
    SLOPE: Test("paired difference of M"),
    BRIER: Test("paired difference of the Brier score"),
    BOOK: Test("paired difference of the sure loss"),
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


def differences(samples: list[Sample], draws: int = RESAMPLES) -> dict[str, Number]:
    """Number -> the first kind less the second, by the road that `compare` takes."""
    how = Resampling(draws=draws)
    found = measured(samples, how, compared=set(INTERVALS), only_compared=True)
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
        Design("F-compare-pull-power", FAMILY, "two kinds, the second pulled by .2 more, 80 questions", power,
               "M .2 apart", _pulled(80, 0.2, 0.0), each[:1]),
    ]  # fmt: skip
