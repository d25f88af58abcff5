"""Calibration of what is asked of probabilities and of two ways of reading (METRICS E15, E16, F9)."""

import numpy as np
from numpy.random import Generator

from ....metrics import calibration_error, method_correlation, moment_interval, quantile_bins, ratio_of_sums
from ..trajectories import Floats
from .comparisons import FAMILY
from .decisions import FAMILY as DECISIONS
from .design import RESAMPLES, Aim, Design, Test, excludes, misses, simulation, unless_flagged
from .extreme import formerly, instead

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
    was = moment_interval(columns, owner, lambda s: s[:, 0] / s[:, 1], seed=0, draws=RESAMPLES)
    now = ratio_of_sums(columns, owner, within=(0.0, 1.0), seed=0, draws=RESAMPLES)
    return {RATIO_WAS.name: misses(was.lo, was.hi, null), RATIO.name: unless_flagged(now, excludes(now, null))}


ALIKE = Test("disattenuated correlation, interval", bound=True, note="no shorter than CR3; flagged: weak_reliability")
NOISE = Test("readings of noise alone are called reliable", bound=True, note="weak_reliability says that they are not")


@simulation
def _read_twice(
    rng: Generator, things: int, correlation: float, reliability: float, null: float | None = None
) -> dict[str, float]:
    """Two kinds, the mean of whose two readings has this reliability."""
    found = method_correlation(*_readings(rng, things, correlation, reliability), draws=RESAMPLES)
    return {ALIKE.name: unless_flagged(found, excludes(found, correlation if null is None else null))}


@simulation
def _noise(rng: Generator, things: int, reliability: float) -> dict[str, float]:
    """A rejection: the status is `ok`."""
    found = method_correlation(*_readings(rng, things, 0.5, reliability), draws=RESAMPLES)
    return {NOISE.name: float(found.status == "ok")}


def _readings(rng: Generator, things: int, correlation: float, reliability: float) -> tuple[Floats, Floats]:
    """[things, 2] twice."""
    shared, own = rng.standard_normal((2, things))
    held = np.sqrt(reliability) * np.stack([shared, correlation * shared + np.sqrt(1 - correlation**2) * own])
    first, second = held[:, :, None] + np.sqrt(2 * (1 - reliability)) * rng.standard_normal((2, things, 2))
    return first, second


def designs() -> list[Design]:
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
               _noise(60, 0.0), (NOISE,)),
        Design("F-alike-reliable", FAMILY, "60 things read twice in two ways of reliability .8", power,
               "reliability .8", _noise(60, 0.8), (NOISE,)),
    ]  # fmt: skip
    return found
