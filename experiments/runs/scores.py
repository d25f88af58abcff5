"""Every number of a run, from its settings and its belief table alone."""

import pandas as pd

from ...hooks.errors import UserError
from ..experiment import Experiment, RunConfig
from ..scoring.engine import require_unique, score_samples
from ..scoring.number import Number, Resampling
from ..tables.samples import ALL


def resampling(config: RunConfig) -> Resampling:
    """How a run's scores are resampled."""
    return Resampling(config.seed, config.bootstrap_draws, config.level)


def score_run(experiment: Experiment, config: RunConfig, beliefs: pd.DataFrame) -> list[Number]:
    """The engine's numbers of the experiment's samples, the paired differences of its headline, and its own numbers.

    Raises UserError for an experiment that breaks its contract: two numbers of one name, or no headline.
    """
    samples = list(experiment.samples(config, beliefs))
    found = score_samples(samples, resampling(config), compared={experiment.headline})
    numbers = [*found.all, *experiment.own_scores(config, beliefs)]
    require_unique(numbers)
    if not any(number.metric == experiment.headline and number.subset == ALL for number in numbers):
        raise UserError(f"{experiment.name}: its headline {experiment.headline!r} is no number of the subset {ALL!r}")
    return numbers
