"""Every model that is shipped can be asked what every experiment asks: chat models, and base models in raw text."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from doxascope.benchmarks.full import small_run
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.known import SHIPPED
from doxascope.experiments.run.readouts import compile_questions
from doxascope.experiments.run.stated_beliefs import planned_numbers
from doxascope.hooks.model.spec import presets
from doxascope.hooks.verbal.number_distributions import planned_trees

SMALLEST = {"bscore": ("items=4",), "truth": ("items=5",)}


@pytest.mark.parametrize("experiment", [one.name for one in SHIPPED])
@pytest.mark.parametrize("preset", [name for name in presets() if "+" not in name])  # with an adapter as its base
def test_every_preset_can_be_asked_what_every_experiment_asks(
    preset: str, experiment: str, request: pytest.FixtureRequest, tmp_path: Any
) -> None:
    """All that is asked of an item is tokenised after its prompts, with the proofs that make each sum a probability."""
    lm = request.getfixturevalue({"smollm2-135m": "smollm", "gemma3-270m": "gemma"}[preset])
    (tmp_path / "q.csv").write_text("question,options\nIs the sky blue?,Yes|No|Perhaps\n")
    file = (f"questions.file={tmp_path / 'q.csv'}",) if experiment in ("ask", "steer") else ()
    forms = ("answers=[texts, letters, yes_no]",) if experiment == "ask" else ()
    asks, config = load_config(experiment, (*SMALLEST.get(experiment, ("items=1",)), *file, *forms), preset)
    item = asks.items(config)[0]
    asked = asks.planned(config, item)
    queries = compile_questions(lm.reader, asked)
    assert len(queries) == len(asked) > 0
    numbers = [
        *planned_numbers(config, asks.places(config, item), lm.reader),
        *asks.numbers(config, item, lm.reader).together,
    ]
    for together in numbers:
        list(planned_trees(lm.reader, together))


PAPERS = {
    "bscore-paper": ("b-score", ("Table 2", "Table 3", "Table T5", "Table T6")),
    "consistency-paper": ("belief-consistency", tuple(f"Table {n}" for n in range(1, 10))),
    "martingale-paper": ("martingale-score", ("Table 1", "Section 6.1")),
    "rationality-paper": ("rational-agents", (*(f"Table {n}" for n in range(1, 6)), "Figure 2")),
    "sycophancy-paper": ("sycophancy-bayesian", ("Table 1", "Table 2", "Figure 1")),
}
"""Preset -> its paper, and which of its tables it fills."""


@pytest.mark.parametrize("preset", PAPERS)
def test_a_papers_preset_ends_with_its_tables_on_page_and_terminal(
    preset: str, tiny_for: Callable[[str], Path], command_line: Callable[..., Any], tmp_path: Path
) -> None:
    paper, numbers = PAPERS[preset]
    small = ("-o", "bootstrap_draws=20", *(("-o", "items=2") if preset == "martingale-paper" else ()))
    told = command_line(*small_run(preset, tmp_path, str(tiny_for(preset))), *small, cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    page, shown = (folder / "report.html").read_text(), command_line("tables", str(folder), cwd=tmp_path)
    for number in numbers:
        assert f"<h3>{number} of {paper}</h3>" in page
        assert f"{number} ({paper}): " in shown.stdout
        assert f"{number} of {paper}" in " ".join(told.stdout.split())  # in whole, or named beside --full
