"""One road: what `run` writes of a run is what `score` says of it, number by number, in every experiment."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from doxascope import load
from doxascope.base.errors import UserError
from doxascope.experiments.report.cells import as_row
from doxascope.experiments.report.record import read
from doxascope.experiments.report.terminal import to_text
from doxascope.experiments.run.config import experiments, load_config, stored_config
from doxascope.experiments.run.folder import RunFolder
from doxascope.experiments.run.joint_scores import score_runs
from doxascope.experiments.run.known import SHIPPED, summary_of_shipped
from doxascope.experiments.run.plan import Plan, make_plan
from doxascope.experiments.run.runner import report, run
from doxascope.experiments.run.stated_beliefs import ANSWER_TOKENS
from doxascope.hooks.verbal.number_formats import UNIT
from doxascope.hooks.verbal.stated_beliefs import ask_number

SMALL = {
    "consistency": (
        *("items=2", "orders=latin", "sampled.draws=4", "rejections=2", "bootstrap_draws=50"),
        "methods={free: {forms: ['{option}', '{Option}']}, "
        "letters: {reveal: 'A) {a} B) {b} C) {c}', labels: [A, B, C], forms: ['{option}']}}",
    ),
    "locate": ("items=3", "bootstrap_draws=50"),
    "bscore": ("items=4", "runs=2", "turns=3", "bootstrap_draws=50"),
    "sycophancy": ("items=2", "tasks={worlds: {kind: computed}}", "bootstrap_draws=50"),
    "rationality": ("items=4", "pool=60", "resamples=5", "bootstrap_draws=50"),
    "truth": ("items=6", "bootstrap_draws=50"),
    "ask": ("questions.kind=yaml", "questions.file={}/questions.yaml", "bootstrap_draws=50"),
    "steer": (
        *("questions.kind=yaml", "questions.file={}/questions.yaml", "direction.statements={}/statements.csv"),
        *("layers=[1]", "bootstrap_draws=50"),
    ),
}
QUESTIONS = [
    {"question": f"Is {n} even?", "options": ["Yes", "No"], "truth": "Yes", "category": "easy"} for n in range(12)
]
LIGHT = ("items=4", "orders=one", "sampled.draws=0", "rejections=1", "fork.methods=[]")
"""What makes a run of consistency lighter still, where another is beside it."""
NAMES = ("metric", "method", "kind", "subset")


@pytest.fixture(scope="module")
def finished(
    tmp_path_factory: pytest.TempPathFactory, tiny_for: Callable[[str], Path], configured: Callable[..., Any]
) -> Callable[..., RunFolder]:
    """A run of an experiment on a tiny model."""
    made: dict[tuple[str, ...], RunFolder] = {}
    place = tmp_path_factory.mktemp("questions")
    (place / "questions.yaml").write_text(yaml.safe_dump(QUESTIONS))
    statements = "".join(
        f"{n} is {'even' if (n + label) % 2 else 'odd'}.,{label}\n" for n in range(4) for label in (0, 1)
    )
    (place / "statements.csv").write_text("statement,label\n" + statements)

    def make(name: str, *changes: str) -> RunFolder:
        if (name, *changes) not in made:
            if name == "martingale":
                experiment, config = configured(*changes)
            else:
                small = [setting.replace("{}", str(place)) for setting in SMALL[name]]
                experiment, config = load_config(name, [*small, *changes], str(tiny_for(name)))
            made[name, *changes] = run(experiment, config, tmp_path_factory.mktemp("runs"))
        return made[name, *changes]

    return make


def test_what_ls_reads_out_of_the_source_is_what_the_classes_say() -> None:
    known = experiments()
    assert {point.name: summary_of_shipped(point.name) for point in SHIPPED} == {
        point.name: known[point.name].summary for point in SHIPPED
    }


@pytest.mark.parametrize("name", experiments())
def test_run_and_score_give_the_same_numbers(finished: Callable[..., RunFolder], name: str) -> None:
    folder = finished(name)
    stored = json.loads((folder.path / "scores.json").read_text())["scores"]
    told = [as_row(number) for number in score_runs([folder]).all]
    by_name = {tuple(row[key] for key in NAMES): row for row in told}
    assert len(by_name) == len(told) > 0
    assert {tuple(row[key] for key in NAMES) for row in stored} == by_name.keys()
    for row in stored:
        other = by_name[tuple(row[key] for key in NAMES)]
        for field in ("estimate", "se", "ci_lo", "ci_hi", "p", "n_rows", "n_clusters", "n_dropped", "status"):
            assert row[field] == other[field], (row["metric"], row["subset"], field)


def test_runs_of_an_experiment_are_scored_together_on_the_items_that_both_have(
    finished: Callable[..., RunFolder],
) -> None:
    one, two = finished("consistency", *LIGHT), finished("consistency", *LIGHT, "items=6", "model.dtype=bfloat16")
    scored = score_runs([one, two])
    paired = [number for number in scored.differences if number.method.startswith("free, ")]
    (between,) = [number for number in paired if number.method.count("free, ") == 2]
    alone: dict[str, Any] = {
        number.run: number.score
        for number in scored.numbers
        if (number.metric, number.method, number.subset) == ("c2", "free", "all")
    }
    assert len(alone) == 2
    assert between.score.n_rows == min(score.n_rows + score.n_dropped for score in alone.values())  # of four triples
    assert math.isfinite(between.score.p_adjusted)  # type: ignore


def test_runs_in_other_words_are_refused(finished: Callable[..., RunFolder]) -> None:
    other = finished("consistency", *LIGHT, "methods.free.forms=['{option}']")
    with pytest.raises(UserError, match=r"methods\.free\.forms"):
        score_runs([finished("consistency", *LIGHT), other])


def test_runs_of_two_experiments_are_refused(finished: Callable[..., RunFolder]) -> None:
    with pytest.raises(UserError, match="is a run of locate"):
        score_runs([finished("consistency"), finished("locate")])


def test_a_run_says_which_tests_it_is_too_large_for(
    finished: Callable[..., RunFolder], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "alone.csv").write_text(  # without negations
        "statement,label\n" + "".join(f"{n} is even.,{1 - n % 2}\n" for n in range(6))
    )
    alone = finished("truth", f"statements={{files: [{tmp_path}/alone.csv]}}")
    assert "not_scored" not in json.loads((alone.path / "scores.json").read_text())
    folder = Path(shutil.copytree(finished("martingale").path, tmp_path / "run"))
    monkeypatch.setattr("doxascope.metrics.scoring.engine.SLOW_ROWS", 1)
    report(RunFolder(folder), *stored_config(folder / "config.yaml"))
    scores = json.loads((folder / "scores.json").read_text())
    assert "martingale-tests" not in {row["family"] for row in scores["scores"]}
    assert list(scores["not_scored"]) == ["martingale-tests", "dutch-book-swaps"]
    for told in (to_text(read(folder / "report.json")), (folder / "report.html").read_text()):
        assert "martingale-tests is slow" in told


def test_a_plan_counts_the_stated_beliefs(configured: Callable[..., Any]) -> None:
    def planned(stated: str) -> Plan:
        return make_plan(*configured("items=2", "reasoning=[cot]", f"stated={stated}"))

    experiment, config = configured("items=2", "reasoning=[cot]", "stated={}")  # six items, all of which a plan builds
    places = [experiment.places(config, item) for item in experiment.items(config)]
    silent, said, run = planned("{}"), planned("{greedy: [json], sampled: [integer], draws: 6}"), 0
    assert said.tokens_sampled - silent.tokens_sampled == (1 + 6) * ANSWER_TOKENS * sum(map(len, places))
    with load(config.model) as lm:
        for dialogue in places:
            asked = [
                ask_number(lm.reader, place.name, place.context, UNIT.worded(*place.options)) for place in dialogue
            ]
            run += lm.read([number.query(lm.reader) for number in asked], budget=config.budget).cost.tokens_run
    assert planned("{numbers: [unit]}").tokens_run - silent.tokens_run == run


@pytest.mark.parametrize("name", ["locate", "truth"])
def test_a_plan_counts_every_read_out_of_a_run(finished: Callable[..., RunFolder], name: str) -> None:
    folder = finished(name)
    planned = make_plan(*stored_config(folder.config))
    assert planned.items == len((folder.path / "items.jsonl").read_text().splitlines())
    assert planned.readouts == folder.beliefs()["readout_id"].nunique()
    if name == "locate":  # all of it is exact, and what is patched goes through the model again
        assert planned.tokens_run == folder.manifest["totals"]["tokens_run"]
