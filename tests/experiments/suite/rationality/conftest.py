"""A small run of the rationality experiment on a tiny random model, and belief tables of planted agents."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from doxascope.benchmarks.agents.decisions import Decided
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.experiment import Experiment
from doxascope.experiments.run.folder import RunFolder
from doxascope.experiments.run.runner import run
from doxascope.experiments.suite.rationality import RationalityConfig
from doxascope.metrics import belief_table

SMALL = (
    "items=4",
    "pool=60",
    "bootstrap_draws=50",
    "iterations=2",
    "prompts={standard: '', squared: It is paid by squared error.}",
)


@pytest.fixture(scope="session")
def configured(tiny_for: Callable[[str], Path]) -> Callable[..., Any]:
    """The experiment, and its configuration for a tiny model with changes."""

    def make(*changes: str) -> tuple[Experiment, RationalityConfig]:
        experiment, config = load_config("rationality", [*SMALL, *changes], str(tiny_for("rationality")))
        assert isinstance(config, RationalityConfig)
        return experiment, config

    return make


@pytest.fixture(scope="session")
def tiny_run(configured: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run of a tiny random model, which no test changes."""
    experiment, config = configured()
    return run(experiment, config, tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="session")
def planted() -> Callable[..., pd.DataFrame]:
    """The belief table that a run would write of what an agent decided; `methods` are further beliefs [n, readings]
    by name, or by name and prompt; `prompts` move all beliefs by so much; `cases` are beliefs [n, m] given each state
    of a covariate, and what the agent gives to the states.
    """

    def make(
        one: Decided,
        methods: Mapping[str, np.ndarray | Mapping[str, np.ndarray]] | None = None,
        prompts: Mapping[str, float] | None = None,
        cases: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> pd.DataFrame:
        rows: list[dict[str, Any]] = []
        every = {"words": one.stated, **(methods or {})}
        for i, truth in enumerate(one.p_star):
            item = f"x{i:04}"

            def add(
                method: str,
                scenario: str,
                name: str,
                probs: list[float],
                item: str = item,
                i: int = i,
                **conditions: Any,
            ) -> None:
                total = sum(probs)
                for index, prob in enumerate(probs):
                    rows.append(
                        {
                            "readout_id": f"{item}/{name}",
                            "experiment": "rationality",
                            "item": item,
                            "cluster": item,
                            "kind": "exact",
                            "method": method,
                            "estimate": "sampled" if method.endswith(" sampled") else "",
                            "scenario": scenario,
                            **conditions,
                            "option": str(index),
                            "option_index": index,
                            "prob": prob / total,
                            "coverage": 1.0,
                            "status": "ok",
                            "outcome": one.outcome[i],
                        }
                    )

            for method, readings in every.items():
                moves = {"standard": 0.0, **(prompts or {})}
                for prompt in readings if isinstance(readings, Mapping) else moves:
                    own = readings[prompt] if isinstance(readings, Mapping) else readings
                    moved = moves.get(prompt, 0.0)
                    for k, p in enumerate(own[i]):
                        p = float(np.clip(p + moved, 0, 1))  # noqa: PLW2901
                        name = f"{prompt}/{method}.{k}"
                        add(method, "belief", name, [p, 1 - p], prompt=prompt, reading=k, truth=truth)
            if cases is not None:
                for j, p in enumerate(cases[0][i]):
                    add("words", "case", f"case-{j}/words.0", [p, 1 - p], case=j, reading=0)
                add("options", "auxiliary", "auxiliary.0", list(map(float, cases[1][i])), reading=0)
            no, defer, yes = map(float, one.tree[i])
            said = yes / (yes + no)
            add("tree", "line 1", "line 1.0", [1 - defer, defer], reading=0, line="line 1", truth=truth, evidence={})
            for answer in ("Yes", "No"):
                line = f"line 2, {answer}"
                add("tree", "line 2", f"{line}.0", [said, 1 - said], reading=0, line=line)
            add("menu", "menu", "menu-2.0", list(map(float, one.two[i])), reading=0, menu=2)
            add("menu", "menu", "menu-3.0", [yes, no, defer], reading=0, menu=3)
        return belief_table(rows)

    return make
