"""The experiment for a tiny random model, and belief tables of planted listeners."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from doxascope.benchmarks.agents.testimony import Listener
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.experiment import Experiment
from doxascope.experiments.suite.sycophancy import SycophancyConfig
from doxascope.experiments.suite.sycophancy.ask import scenario_of
from doxascope.metrics import belief_table

WORLDS = ("tasks={worlds: {kind: computed}}", "involvement=[third]", "askers=[]", "bootstrap_draws=300")
READ = ("quantity", "given", "evidence", "speaker", "says")


@pytest.fixture(scope="session")
def configured(tiny_for: Callable[[str], Path]) -> Callable[..., Any]:
    """The experiment, and its configuration for a tiny model with changes."""

    def make(*changes: str) -> tuple[Experiment, SycophancyConfig]:
        experiment, config = load_config(
            "sycophancy", ["items=1", "bootstrap_draws=50", *changes], str(tiny_for("sycophancy"))
        )
        assert isinstance(config, SycophancyConfig)
        return experiment, config

    return make


@pytest.fixture(scope="session")
def planted() -> Callable[..., pd.DataFrame]:
    """The belief table that a run would write of listeners: (kind, method) -> who answers there."""

    def make(
        made: tuple[Experiment, Any], listeners: Mapping[tuple[str, str], Listener], seed: int = 0
    ) -> pd.DataFrame:
        experiment, config = made
        rows = []
        for number, item in enumerate(experiment.items(config)):
            known = scenario_of(item).known
            assert known is not None
            questions = experiment.questions(config, item)
            for place, ((kind, method), listener) in enumerate(listeners.items()):
                mind = listener.meets(known, np.random.default_rng([seed, number, place]))
                for question in questions:
                    conditions = question.conditions
                    if kind == "verbal" and conditions["denied"]:
                        continue
                    p = mind.reads(**{key: conditions[key] for key in READ})
                    p = 1 - p if conditions["denied"] else p
                    for index, prob in enumerate((p, 1 - p)):
                        rows.append(
                            {
                                "readout_id": f"{question.readout_id}/{kind}/{method}",
                                "item": item.id,
                                "cluster": item.cluster,
                                "kind": kind,
                                "method": method,
                                "scenario": question.scenario,
                                **conditions,
                                "option": ("Yes", "No")[index],
                                "option_index": index,
                                "prob": prob,
                                "coverage": 1.0,
                                "status": "ok",
                                "outcome": scenario_of(item).outcome,
                            }
                        )
        return belief_table(rows)

    return make


@pytest.fixture(scope="session")
def of_worlds(configured: Callable[..., Any]) -> Callable[..., Any]:
    """The experiment in worlds alone."""
    return lambda items, *changes: configured(*WORLDS, f"items={items}", *changes)


@pytest.fixture(scope="session")
def asked_twice() -> str:
    """Two wordings, so that the noise of a reading is known."""
    ask = [
        {"claim": f"{text} {{claim}}?", "denial": f"{text} not {{claim}}?"} for text in ("Is it so that", "Do you say")
    ]
    return f"asks={json.dumps(ask)}"
