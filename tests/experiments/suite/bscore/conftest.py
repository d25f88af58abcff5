"""A small configuration of the B-score experiment, for agents and for a tiny random model."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.experiment import Experiment
from doxascope.experiments.suite.bscore import BScoreConfig

SMALL = ("items=4", "runs=2", "turns=4", "bootstrap_draws=50", "per_question=true")


@pytest.fixture(scope="session")
def bscore(tiny_for: Callable[[str], Path]) -> Callable[..., Any]:
    """The experiment, and its configuration for a tiny model with changes."""

    def make(*changes: str) -> tuple[Experiment, BScoreConfig]:
        experiment, config = load_config("bscore", [*SMALL, *changes], str(tiny_for("bscore")))
        assert isinstance(config, BScoreConfig)
        return experiment, config

    return make
