"""A small run of the martingale experiment on a tiny random model, and belief tables of planted agents."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from doxascope.experiments.run.folder import RunFolder
from doxascope.experiments.run.runner import run
from doxascope.metrics import belief_table

DRAWS = 400
"""Of the runs that `stored` makes."""


@pytest.fixture(scope="session")
def tiny_run(configured: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run of a tiny random model, which no test changes."""
    domains = "domains={factual: {kind: computed}, review: {kind: smoke}}"
    experiment, config = configured(domains, "reasoning=[cot,evidence]", "chains=2", "items=2")
    return run(experiment, config, tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="session")
def planted() -> Callable[..., pd.DataFrame]:
    """The belief table that a run would write of an agent: readings [questions, steps + 1], or two of them, for each
    method; with outcomes. They differ in their `facet`.
    """

    def make(
        methods: dict[str, list[np.ndarray]],
        outcome: np.ndarray | None = None,
        cell: str = "factual",
        facet: str = "reading",
        kinds: dict[str, str] | None = None,
    ) -> pd.DataFrame:
        rows = []
        for method, readings in methods.items():
            for reading, read in enumerate(readings):
                for question, path in enumerate(read):
                    for step, belief in enumerate(path):
                        conditions: dict[str, Any] = {
                            "domain": cell,
                            "reasoning": "cot",
                            "prompt": "none",
                            facet: reading,
                        }
                        conditions |= {"draw": 0} if step else {"statuses": ["ok"]}
                        where = f"{cell}-{question}/{step}/{method}.{reading}"
                        for index, prob in enumerate((belief, 1 - belief)):
                            rows.append(
                                {
                                    "readout_id": where,
                                    "experiment": "martingale",
                                    "item": f"{cell}-{question}",
                                    "cluster": f"{cell} {question}",
                                    "kind": (kinds or {}).get(method, "exact"),
                                    "method": method,
                                    "scenario": f"{cell}, cot, none",
                                    "step": step,
                                    **conditions,
                                    "option": ("Yes", "No")[index],
                                    "option_index": index,
                                    "prob": prob,
                                    "coverage": 1.0,
                                    "status": "nan" if np.isnan(prob) else "ok",
                                    "outcome": np.nan if outcome is None else outcome[question],
                                }
                            )
        return belief_table(rows)

    return make


@pytest.fixture
def stored(configured: Any, stored_run: Callable[..., RunFolder], tmp_path: Path) -> Callable[..., RunFolder]:
    """Writes a belief table as the run of a model, under changed settings."""

    def make(table: pd.DataFrame, model: str, *changes: str, data: str = "d", weights: str = "w") -> RunFolder:
        _, config = configured(f"bootstrap_draws={DRAWS}", *changes)
        path = tmp_path / f"{model}-{len(list(tmp_path.iterdir()))}"
        return stored_run(path, config, table, model, data=data, weights=weights)

    return make
