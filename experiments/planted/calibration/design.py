"""What the calibration page is made of: designs, each simulated over many seeds, each with several tests."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Concatenate, Literal, ParamSpec

import numpy as np
from numpy.random import Generator

from ....metrics import Score

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
