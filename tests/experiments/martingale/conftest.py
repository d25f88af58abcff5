"""A small run of the martingale experiment on a tiny random model, and belief tables of planted agents."""

import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from doxascope.experiments.engine.config import load_config
from doxascope.experiments.engine.runner import run
from doxascope.experiments.experiment import Experiment
from doxascope.experiments.martingale import MartingaleConfig
from doxascope.experiments.runs.folder import RunFolder
from doxascope.hooks.model.spec import resolve_model
from doxascope.hooks.verbal.formats import FORMATS
from doxascope.metrics import belief_table

SMALL = (
    "items=3",
    "bootstrap_draws=50",
    "generation.max_new_tokens=24",
    "debate.max_new_tokens=8",
    "debate.turns=2",
    "stated.judges={}",
)


@pytest.fixture(scope="session")
def configured(save_llama: Callable[..., Path], tiny_folder: Path) -> Callable[..., Any]:
    """The experiment, and its configuration for a tiny model with changes."""
    from transformers import AutoTokenizer

    speller = AutoTokenizer.from_pretrained(tiny_folder)
    shipped = [Path(str(files("doxascope") / "configs" / "martingale.yaml")).read_text()]
    texts = shipped + [one.instruction for one in FORMATS.values()]
    tokenizer = speller.train_new_from_iterator(texts, 1500, show_progress=False)  # else it would spell every prompt
    tokenizer.chat_template = speller.chat_template
    folder = save_llama(tokenizer, "tiny-reader", max_position_embeddings=4096)

    def make(*changes: str) -> tuple[Experiment, MartingaleConfig]:
        experiment, config = load_config("martingale", [*SMALL, *changes])
        assert isinstance(config, MartingaleConfig)
        return experiment, config.model_copy(update={"model": resolve_model(str(folder))})

    return make


@pytest.fixture(scope="session")
def tiny_run(configured: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run of a tiny random model, which no test changes."""
    domains = "domains={factual: {kind: computed}, review: {kind: smoke}}"
    experiment, config = configured(domains, "reasoning=[cot,evidence]", "chains=2", "items=2")
    return run(experiment, config, tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="session")
def planted() -> Callable[..., pd.DataFrame]:
    """The belief table that a run would write of an agent: readings [questions, steps + 1], or two of them, for each
    method; with outcomes.
    """

    def make(
        methods: dict[str, list[np.ndarray]], outcome: np.ndarray | None = None, cell: str = "factual"
    ) -> pd.DataFrame:
        rows = []
        for method, readings in methods.items():
            for reading, read in enumerate(readings):
                for question, path in enumerate(read):
                    for step, belief in enumerate(path):
                        variant = {"domain": cell, "reasoning": "cot", "prompt": "none", "reading": reading}
                        variant |= {"draw": 0} if step else {"statuses": ["ok"]}
                        where = f"{cell}-{question}/{step}/{method}.{reading}"
                        for index, prob in enumerate((belief, 1 - belief)):
                            rows.append(
                                {
                                    "readout_id": where,
                                    "experiment": "martingale",
                                    "item": f"{cell}-{question}",
                                    "cluster": f"{cell} {question}",
                                    "kind": "exact",
                                    "method": method,
                                    "scenario": f"{cell}, cot, none",
                                    "step": step,
                                    "variant": json.dumps(variant),
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
