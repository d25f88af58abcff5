"""Every model that is shipped can be asked what every experiment asks: chat models, and base models in raw text."""

from typing import Any

import pytest

from doxascope.experiments.run.config import SHIPPED, load_config
from doxascope.experiments.run.readouts import compile_questions
from doxascope.experiments.run.stated_beliefs import planned_numbers
from doxascope.hooks.model.spec import presets

SMALLEST = {"bscore": ("items=4",), "truth": ("items=5",)}


@pytest.mark.parametrize("experiment", [one.name for one in SHIPPED])
@pytest.mark.parametrize("preset", presets())
def test_every_preset_can_be_asked_what_every_experiment_asks(
    preset: str, experiment: str, request: pytest.FixtureRequest, tmp_path: Any
) -> None:
    """All that is asked of an item is tokenised after its prompts, with the proofs that make each sum a probability."""
    lm = request.getfixturevalue({"smollm2-135m": "smollm", "gemma3-270m": "gemma"}[preset])
    (tmp_path / "q.csv").write_text("question,options\nIs the sky blue?,Yes|No|Perhaps\n")
    file = (f"questions.file={tmp_path / 'q.csv'}", "answers=[texts, letters, yes_no]") if experiment == "ask" else ()
    asks, config = load_config(experiment, (*SMALLEST.get(experiment, ("items=1",)), *file), preset)
    item = asks.items(config)[0]
    asked = asks.planned(config, item)
    queries = compile_questions(lm.reader, asked)
    assert len(queries) == len(asked) > 0
    list(planned_numbers(config, asks.places(config, item), lm.reader))
