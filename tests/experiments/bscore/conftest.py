"""A small configuration of the B-score experiment, for agents and for a tiny random model."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from doxascope.experiments.bscore import BScoreConfig
from doxascope.experiments.engine.config import load_config
from doxascope.experiments.experiment import Experiment
from doxascope.hooks.model.spec import resolve_model

SMALL = ("items=4", "runs=2", "turns=4", "bootstrap_draws=50", "per_question=true")


@pytest.fixture(scope="session")
def bscore(save_llama: Callable[..., Path], tiny_folder: Path) -> Callable[..., Any]:
    """The experiment, and its configuration for a tiny model with changes."""
    from transformers import AutoTokenizer

    speller = AutoTokenizer.from_pretrained(tiny_folder)
    texts = ["Choose one of: My answer is: How sure are you of your answer? Reply with one number from 0.00"] * 3
    tokenizer = speller.train_new_from_iterator(texts, 600, show_progress=False)
    tokenizer.chat_template = speller.chat_template
    folder = save_llama(tokenizer, "tiny-answerer", max_position_embeddings=2048)

    def make(*changes: str) -> tuple[Experiment, BScoreConfig]:
        experiment, config = load_config("bscore", [*SMALL, *changes])
        assert isinstance(config, BScoreConfig)
        return experiment, config.model_copy(update={"model": resolve_model(str(folder))})

    return make
