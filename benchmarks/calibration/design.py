"""What the calibration page is made of: designs, each simulated over many seeds, each with several tests; the row of
each test, with its verdict; and numbers of planted agents by the engine that scores runs and tables.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Concatenate, Literal, ParamSpec

import numpy as np
from numpy.random import Generator

from doxascope.metrics import Score
from doxascope.metrics.contract import Array, Resampling
from doxascope.metrics.number import Number
from doxascope.metrics.scoring.engine import score_samples
from doxascope.metrics.tables.sample_rows import Pairs, Updates
from doxascope.metrics.tables.samples import Sample

ALPHA = 0.05
SEEDS = 1000
"""Per level."""
AGAIN_SEEDS = 4000
"""Fresh ones, of what lies outside its level."""
POWER_SEEDS = 400
PERMUTATIONS = 499
"""Permutations and sign flips inside a simulation; 25 of 500 is exactly 5%."""
RESAMPLES = 999
"""Bootstrap draws inside a simulation."""

Role = Literal["ours", "paper", "picture"]
Aim = Literal["level", "power"]


class Flagged(float):
    """What a test said whose result says by its status that the level is not promised."""


Simulation = Callable[[Generator], Mapping[str, float]]
"""One sample: test name -> 1 rejected, 0 not, NaN undefined; or one of these `Flagged`."""
Settings = ParamSpec("Settings")


def simulation(once: Callable[Concatenate[Generator, Settings], dict[str, float]]) -> Callable[Settings, Simulation]:
    """Turn a function of random numbers and settings into one that is given the settings first."""
    return lambda *args, **kwargs: lambda rng: once(rng, *args, **kwargs)


@dataclass(frozen=True)
class Test:
    """One column of a design."""

    name: str
    role: Role = "ours"
    """`ours` is held to its level, `paper` is published practice, `picture` shows what an uncorrected or
    misapplied test does. Only the first is headlined."""
    nominal: float = ALPHA
    bound: bool = False
    """The nominal level is an upper bound by construction, and `note` says why: a lower rate is no fault."""
    note: str = ""
    """Why it does not hold its level, where it does not, or why that is a bound."""
    instead_of: str = ""
    """The test of the same design that it replaced."""


@dataclass(frozen=True)
class Design:
    """One agent at one sample size."""

    key: str
    """Unique; the seeds are derived from it, so that designs can be added without moving the others."""
    family: str
    agent: str
    """The agent and the sample in words."""
    aim: Aim
    """`level`: the null is true, so a rejection is an error (for an interval: a miss of the planted value).
    `power`: the stated effect is planted."""
    truth: str
    simulate: Simulation
    tests: tuple[Test, ...]


def rejects(p: float, alpha: float = ALPHA) -> float:
    """1 if p is at most alpha, NaN if it is undefined."""
    return float(p <= alpha) if np.isfinite(p) else float("nan")


def unless_flagged(score: Score, value: float) -> float | Flagged:
    """The same, marked if the status of the result says that the level is not promised there."""
    return value if score.status == "ok" else Flagged(value)


def told(score: Score) -> float | Flagged:
    """Whether its p rejects, likewise marked."""
    return unless_flagged(score, rejects(score.p))


def misses(lo: float, hi: float, truth: float) -> float:
    """1 if an interval leaves out the truth, NaN if there is none."""
    return float(not lo <= truth <= hi) if np.isfinite(lo) and np.isfinite(hi) else float("nan")


def excludes(score: Score, truth: float) -> float:
    """The same of the interval of a score."""
    return misses(score.ci_lo, score.ci_hi, truth)


# What one test did in one design, and the verdict on it.

TARGET_POWER = 0.8
OUTSIDE = ("timid", "too many")
"""Verdicts on a level that is not as it should be."""


@dataclass(frozen=True)
class Row:
    """One test of one design."""

    key: str
    """Of the design."""
    family: str
    agent: str
    aim: str
    truth: str
    test: str
    role: str
    nominal: float
    bound: bool
    """The nominal level is the most that is promised."""
    rate: float
    """Share of the seeds with a defined result in which the test rejected, or the interval missed."""
    se: float
    """Of the rate."""
    seeds: int
    undefined: int
    flagged: int
    """Seeds in which the status of the result said that the level is not promised."""
    verdict: str
    note: str
    instead_of: str
    """The test of the same design that it replaced; empty: none."""
    first_rate: float
    """Of the first stage, where the row was run again on fresh seeds; all else is then of these. Otherwise 0."""
    first_seeds: int


FLAGGED = "flagged"
"""Verdict on a level that is too high, but not where the status of the result is `ok`."""


def verdict(rate: float, n: int, nominal: float, aim: str, bound: bool = False) -> str:
    """Level: within two standard errors (at the nominal level) or not; of a bound, not above. Power: at least .8."""
    if not n:
        return "undefined"
    if aim == "power":
        return "found" if rate >= TARGET_POWER else "often missed"
    reach = 2 * float(np.sqrt(nominal * (1 - nominal) / n))
    if rate > nominal + reach + 1e-12:
        return "too many"
    return "holds" if bound or rate >= nominal - reach - 1e-12 else "timid"


# Numbers of planted agents, made by the engine that scores runs and tables: the same code is calibrated as is used.


def number_of(metric: str, name: str, sample: Sample, draws: int) -> Number:
    """One number of a metric of the engine by its name; the first of them, where it has several of parts."""
    found = score_samples([sample], Resampling(draws=draws), metric, until=name).numbers
    return next(one for one in found if one.metric == name)


def score_of(metric: str, name: str, sample: Sample, draws: int) -> Any:
    """Its score; which fields that has depends on the name."""
    return number_of(metric, name, sample, draws).score


def scores(metric: str, sample: Sample, draws: int) -> dict[str, Any]:
    """Name -> score, of all numbers of a metric."""
    return {one.metric: one.score for one in score_samples([sample], Resampling(draws=draws), metric).numbers}


def updates(
    prior: Array,
    posterior: Array,
    clusters: Array | None = None,
    *,
    outcome: Array | None = None,
    readings: Array | None = None,
    keys: Array | None = None,
    **fields: Any,
) -> Updates:
    """A sample of updates [n]; `fields` are those of `Updates`, the others of its pairs."""
    pairs = Pairs(prior=prior, posterior=posterior, clusters=clusters, outcome=outcome, readings=readings, keys=keys)
    return Updates(views={"": pairs}, **fields)


def names(n: int) -> Array:
    """[n] numbers whose order as texts is their own, so that draws do not depend on it."""
    return np.arange(n) + 10 ** len(str(n))
