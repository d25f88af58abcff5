"""Calibration of mean updates and split readings where beliefs live (METRICS A3, A5)."""

import numpy as np
from numpy.random import Generator

from ....metrics import martingale_iv, studentised_mean
from .. import extreme
from ..extreme import Sample
from ..trajectories import Floats
from .design import RESAMPLES, Design, Simulation, Test, misses, simulation, told
from .extreme import FAMILY, formerly, instead
from .scored import score_of, updates

MEAN_UPDATE = (
    formerly("mean update, bootstrap-t"),
    instead("mean update, bootstrap-t or t, the longer", "mean update, bootstrap-t"),
)


def _mean_update(sample: Sample) -> dict[str, float]:
    prior, post, question = sample
    was = studentised_mean(post - prior, question, seed=0, draws=RESAMPLES)
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
def _absorbed(rng: Generator, questions: int) -> dict[str, float]:
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
    was = martingale_iv(before[:, 0], before[:, 1], after[:, :2].mean(axis=1), draws=RESAMPLES)
    now = martingale_iv(before[:, 0], before[:, 1], after[:, 2], draws=RESAMPLES)
    return {SPLIT[0].name: float(bool(told(was))), SPLIT[1].name: told(now)}


Named = tuple[str, str, Simulation, tuple[Test, ...]]
"""Key, agent, simulation and tests of a design."""


def designs() -> list[Design]:
    """Null agents near 0 and 1, and the power that is left."""
    level: list[Named] = [
        ("extreme shift 12", "mean update from priors near 0, 12 questions", _signalled(12), MEAN_UPDATE),
        ("extreme shift 40", "mean update from priors near 0, 40 questions", _signalled(40), MEAN_UPDATE),
        ("extreme shift witness", "mean update by one witness from priors near 0, 40 questions", _witnessed(40),
         MEAN_UPDATE),
        ("extreme shift rounded", "mean update of beliefs of .01, .05, ... of which 0 and 1 stay, 20 questions",
         _absorbed(20), MEAN_UPDATE),
        ("extreme wordings", "three wordings that err alike before and after, 80 questions", _reworded(80, False),
         SPLIT),
        ("extreme wordings near 0", "the same near 0, 60 questions", _reworded(60, True), SPLIT),
    ]  # fmt: skip
    power: list[tuple[Named, str]] = [
        (("extreme shift power", "updates of spread beliefs, 100 questions", _drifting(100), MEAN_UPDATE),
         "mean update .02"),
        (("extreme wordings power", "three wordings, 200 questions", _reworded(200, False, -0.3), SPLIT), "M = -.3"),
    ]  # fmt: skip
    nothing = "nothing is planted but what the test allows"
    found = [Design(key, FAMILY, agent, "level", nothing, run, tests) for key, agent, run, tests in level]
    return found + [Design(key, FAMILY, agent, "power", truth, run, tests) for (key, agent, run, tests), truth in power]
