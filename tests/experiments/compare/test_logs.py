"""A run beside a log of another harness: the same questions pair, whatever methods and orders are called."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import doxascope
from doxascope import UserError
from doxascope.experiments.run.folder import RunFolder

OPTIONS = ("river", "apple", "stone")
ASKED = [f"{a} {b} which" for a in ("apple", "stone", "word") for b in ("river", "you", "did")]


@pytest.fixture(scope="module", params=[3, 2])
def run(tmp_path_factory: pytest.TempPathFactory, tiny_folder: Path, request: pytest.FixtureRequest) -> Path:
    """An `ask` run of nine questions, with three options or two, by two methods."""
    place, options = tmp_path_factory.mktemp("logs"), OPTIONS[: request.param]
    rows = [f"q{i},{text},{','.join(options)},{options[i % len(options)]}" for i, text in enumerate(ASKED)]
    names = [f"option_{i + 1}" for i in range(len(options))]
    (place / "questions.csv").write_text("\n".join([f"id,question,{','.join(names)},truth", *rows, ""]))
    settings = {"questions.file": str(place / "questions.csv"), "bootstrap_draws": 50}
    return doxascope.run("ask", str(tiny_folder), overrides=settings, out=place / "runs").path


def test_answers_are_in_the_order_of_the_questions_with_the_id_first(run: Path) -> None:
    answers = pd.read_csv(run / "answers.csv")
    assert answers.columns[0] == "id"
    assert list(dict.fromkeys(answers["id"])) == [f"q{i}" for i in range(len(ASKED))]
    assert answers.drop_duplicates("id", keep="first").index.tolist() == [*range(0, len(answers), 2)]


def test_a_run_from_python_says_what_was_planned_as_one_of_the_command_line_does(run: Path) -> None:
    assert {"counts", "together"} <= RunFolder.open(run).manifest["planned"].keys()


def log_of(run: Path, shift: float, document: str = "{}") -> Path:
    """A sample file as lm-eval writes it, options in another order, of the beliefs of a run's method `texts`; the
    log-likelihood of what is true is less by `shift`.
    """
    beliefs = pd.read_parquet(run / "beliefs")
    beliefs = beliefs[(beliefs["method"] == "texts") & (beliefs["kind"] == "exact")]
    held = beliefs.groupby(["item", "option"], observed=True)["prob"].mean()
    lines = []
    for i, text in enumerate(ASKED):
        options = [name for name in OPTIONS if (f"q{i}", name) in held.index]
        listed, right = options[::-1], options[i % len(options)]
        logps = [np.log(held[f"q{i}", name]) - shift * (name == right) for name in listed]
        asked = {f"gen_args_{k}": {"arg_0": text, "arg_1": f" {name}"} for k, name in enumerate(listed)}
        doc = {"question": document.format(text), "choices": list(listed)}
        answers = [[str(float(logp)), "False"] for logp in logps]
        target = listed.index(right)
        known = {"doc_id": i, "doc": doc, "target": str(target), "arguments": asked, "filtered_resps": answers}
        lines.append(json.dumps(known))
    path = run.parent / "samples_colours.jsonl"
    path.write_text("\n".join(lines))
    return path


def metric_of(run: Path) -> list[str]:
    """What both sides have."""
    return ["log_loss" if "option_3" in (run.parent.parent / "questions.csv").read_text() else "brier"]


def test_a_run_is_compared_with_a_log_of_its_questions(run: Path) -> None:
    log = log_of(run, 0.0)
    with pytest.raises(UserError, match=r"has the methods .*texts.*; say by --method"):
        doxascope.compare(run, log)
    same = doxascope.compare(run, log, methods=["texts"], metrics=metric_of(run))
    score, matrix = same.confirmed[0].score, same.groups[0].matrix
    assert (score.n_rows, score.n_only_first) == (len(ASKED), 0)
    assert score.difference == pytest.approx(0, abs=1e-12)
    assert matrix is not None
    assert matrix.correlations[0, 1].correlation == pytest.approx(1)  # options are laid side by side
    found = doxascope.compare(run, log_of(run, 1.0), methods=["texts"], metrics=metric_of(run))
    assert abs(found.confirmed[0].score.difference) > 1e-4


def test_a_question_is_known_by_its_prompt_too(run: Path) -> None:
    log = log_of(run, 0.5, "this, in {}")
    found = doxascope.compare(run, log, methods=["texts"], metrics=metric_of(run))
    assert found.confirmed[0].score.n_rows == len(ASKED)


def test_a_run_knows_its_questions_whatever_becomes_of_their_file(run: Path) -> None:
    log, questions = log_of(run, 0.0), run.parent.parent / "questions.csv"
    metric, kept = metric_of(run), questions.read_text()
    try:
        questions.unlink()
        found = doxascope.compare(run, log, methods=["texts"], metrics=metric)
    finally:
        questions.write_text(kept)
    score = found.confirmed[0].score
    assert (score.n_rows, score.n_only_first, score.n_only_second) == (len(ASKED), 0, 0)
    assert score.difference == pytest.approx(0, abs=1e-12)


def test_of_two_runs_that_have_both_methods_it_is_said_why_they_name_no_pair(run: Path, tmp_path: Path) -> None:
    other = shutil.copytree(run, tmp_path / "other")
    with pytest.raises(
        UserError, match="has texts and letters, all of them named by --method; of each run or table just"
    ):
        doxascope.compare(run, other, methods=["texts", "letters"])


def test_a_method_that_none_has_is_named(run: Path) -> None:
    with pytest.raises(UserError, match="--method text: nothing here has it; did you mean 'texts'"):
        doxascope.compare(run, log_of(run, 0.0), methods=["text"])
    with pytest.raises(UserError, match="--method: says what is compared between runs"):
        doxascope.compare(run, methods=["texts"])
