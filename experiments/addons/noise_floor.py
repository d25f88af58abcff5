"""How far the scores of a run move when its log-probabilities move by no more than arithmetic moves them."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from ..experiment import Experiment, RunConfig
from ..runs.scores import score_run
from ..scoring.number import Key, Number

DRAWS = 2
"""Perturbed tables that are scored."""


def score_floors(
    experiment: Experiment, config: RunConfig, beliefs: pd.DataFrame, numbers: Sequence[Number], nat: float
) -> dict[Key, float]:
    """Key of a number -> the largest change of its estimate in `DRAWS` tables in which every option's log-probability
    is `nat` higher or lower, by a coin of its own; NaN where the estimate is undefined. A size, not a bound.

    Args:
        experiment: whose scores they are.
        config: the run's; its seed throws the coins.
        beliefs: the run's belief table.
        numbers: those of the run, as `score_run` gives them.
        nat: the noise floor of a log-probability, from a certificate.
    """
    plain = config.model_copy(update={"bootstrap_draws": 2})  # estimates alone are wanted
    before = {number.key: number.score.estimate for number in numbers}
    found = dict.fromkeys(before, 0.0)
    for draw in range(DRAWS):
        moved = perturbed(beliefs, nat, np.random.default_rng([config.seed, draw]))
        with np.errstate(all="ignore"):
            for number in score_run(experiment, plain, moved):
                change = abs(number.score.estimate - before[number.key])
                found[number.key] = float(np.maximum(found[number.key], change))
    return found


def perturbed(beliefs: pd.DataFrame, nat: float, rng: np.random.Generator) -> pd.DataFrame:
    """The same table with every log-probability `nat` higher or lower, normalised anew over each read-out's options;
    what was written rather than computed has none and stays.
    """
    readouts, _ = pd.factorize(beliefs["readout_id"])
    computed = beliefs["logp"].notna().to_numpy()
    shift = np.where(computed, rng.choice((-nat, nat), len(beliefs)), 0.0)
    prob = beliefs["prob"].to_numpy(float) * np.exp(shift)
    total = np.where(computed, np.bincount(readouts, weights=prob)[readouts], 1.0)
    moved = {"prob": prob / total, "logp": beliefs["logp"] + shift, "coverage": beliefs["coverage"] * total}
    return beliefs.assign(**moved)
