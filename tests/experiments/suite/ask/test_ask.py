"""Asking a table of questions: the same numbers as plain forward passes, from a notebook and from the command line."""

import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from doxascope import Ablate, Position, UserError, load
from doxascope.experiments.materials.choices.forms import rotated
from doxascope.experiments.materials.choices.sources import LETTERS
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.folder import RunFolder
from doxascope.experiments.suite.ask.ask import askable_places, called
from doxascope.hooks.prompts.options import make_options

ROWS: list[dict[str, Any]] = [
    {
        "id": "whale",
        "question": "What is a whale?",
        "options": ["fish", "mammal", "bird"],
        "truth": "mammal",
        "hard": 2,
    },
    {"id": "sky", "question": "What colour is the sky?", "options": ["blue", "green."], "truth": "blue", "hard": 1},
    {"id": "sum", "question": "What is two plus two?", "options": ["three", "four", "five", "six"], "hard": 3},
]


@pytest.fixture(scope="module")
def lm(tiny_for: Callable[[str], Path]) -> Any:
    return load(str(tiny_for("ask")))


def by_plain_passes(lm: Any, text: str, prefill: str, said: list[list[str]]) -> np.ndarray:
    """The probability of each option: of each of its forms and what closes it, one ordinary forward pass."""
    prompt = lm.tokenizer.apply_chat_template(
        [{"role": "user", "content": text}], add_generation_prompt=True, tokenize=False
    )
    before = lm.tokenizer(prompt + prefill, add_special_tokens=False)["input_ids"]
    found = []
    for forms in said:
        total = 0.0
        for form in forms:
            ids = lm.tokenizer(prompt + prefill + form, add_special_tokens=False)["input_ids"]
            assert ids[: len(before)] == before
            with torch.inference_mode():
                logp = lm.model(input_ids=torch.tensor([ids], device=lm.model.device)).logits[0].log_softmax(-1)
            steps = sum(float(logp[i - 1, ids[i]]) for i in range(len(before), len(ids)))
            total += np.exp(steps) * float(logp[-1].exp()[lm.reader.terminators.ids].sum())
        found.append(total)
    return np.array(found)


@pytest.mark.parametrize("method", ["texts", "letters"])
def test_beliefs_are_those_of_a_loop_of_plain_forward_passes(lm: Any, method: str) -> None:
    found = lm.ask(ROWS, method, orders="latin")
    form = found.config.methods[method]
    for row in ROWS:
        options = row["options"]
        shares, masses = [], []
        for order in rotated(len(options), "latin"):
            listed = [options[i] for i in order]
            if method == "letters":
                shown = "\n".join(f"{letter}) {option}" for letter, option in zip(LETTERS, listed, strict=False))
                text = f"{row['question']}\n{shown}\nReply with the letter of your answer."
                said = [[f" {LETTERS[order.index(i)]}", f" ({LETTERS[order.index(i)]}"] for i in range(len(options))]
            else:
                text = f"{row['question']}\nChoose one of: {', '.join(listed)}."
                plain = [option.rstrip(".") for option in options]
                said = [[f"{lead}{word}" for lead in (" ", ' "') for word in (o, o.capitalize())] for o in plain]
            mass = by_plain_passes(lm, text, form.prefill, said)
            shares.append(mass / mass.sum())
            masses.append(mass.sum())
        own = found.options[found.options["id"] == row["id"]]
        np.testing.assert_allclose(own["prob"], np.mean(shares, axis=0), rtol=1e-3)
        coverage = found.table.set_index("id").loc[row["id"], "coverage"]
        assert coverage == pytest.approx(np.mean(masses), rel=1e-3)


def test_the_table_joins_with_the_user_s_own_and_has_no_empty_columns(lm: Any) -> None:
    found = lm.ask(pd.DataFrame(ROWS), ["texts", "letters"])
    joined = pd.DataFrame(ROWS).merge(found.table, on="id", suffixes=("", "_asked"))
    assert len(joined) == 2 * len(ROWS)
    assert (joined["hard"] == joined["hard_asked"]).all()
    assert not found.table.isna().all().any()
    assert "topic" not in found.table
    assert np.isnan(found.table.set_index(["id", "method"]).loc[("sum", "texts"), "correct"])
    assert len(repr(found)) < 200
    assert "3 questions" in repr(found)


@pytest.mark.parametrize("column", ["id", "QID", "prob"])
def test_a_run_s_answers_join_by_the_user_s_column(
    tiny_for: Callable[[str], Path], command_line: Callable[..., Any], tmp_path: Path, column: str
) -> None:
    own = pd.DataFrame(ROWS).drop(columns="id").assign(**{column: [7, 8, 9]})
    own.to_json(tmp_path / "q.jsonl", orient="records", lines=True)
    named = ("-o", "questions.columns={id: prob}") if column == "prob" else ()
    settings = (*named, "-o", "answers=[letters]", "-o", "orders=none")
    said = command_line("run", "ask", "q.jsonl", "-m", str(tiny_for("ask")), *settings, cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    (run,) = (tmp_path / "runs").glob("ask-*")
    answers = pd.read_csv(run / "answers.csv")
    packed = re.search(r'id="instances-data">(.*?)</script>', (run / "report.html").read_text(), re.DOTALL)
    assert packed is not None
    data = json.loads(packed[1])
    shown = [data["texts"][facts] for _, _, facts, _ in data["rows"]]
    for row in ROWS:  # beside every option and what was read of it stands the question, before anything is unfolded
        (facts,) = [line for line in shown if row["question"] in line]
        assert all(option in facts for option in row["options"])
        (answer,) = answers[answers["truth"] == row["truth"]].to_dict("records") if "truth" in row else [None]
        assert answer is None or f"{row['truth']} (true): {answer['truth_prob']:.3f}" in facts
    theirs = "own_prob" if column == "prob" else column
    joined = own.merge(answers, left_on=column, right_on=theirs, suffixes=("", "_asked"))
    assert (joined["hard"] == joined["hard_asked"]).tolist() == [True] * 3


def test_ids_keep_their_type_and_a_frame_without_them_has_its_index(lm: Any) -> None:
    own = pd.DataFrame(ROWS).drop(columns="id")
    assert lm.ask(own.assign(id=[7, 8, 9]), orders="none").table["id"].tolist() == [7, 8, 9]
    own.index = [40, 50, 60]
    joined = own.join(lm.ask(own, orders="none").table.set_index("id").add_suffix("_asked"))
    assert (joined["hard"] == joined["hard_asked"]).all()


def test_scores_are_those_of_the_table(lm: Any) -> None:
    found = lm.ask(ROWS, "letters")
    scores = found.scores().set_index(["metric", "subset"])["estimate"]
    assert scores["accuracy", "all"] == pytest.approx(found.table["correct"].mean())
    assert scores["log_loss", "all"] == pytest.approx(-np.log(found.table["truth_prob"]).mean())
    assert scores["brier_multiclass", "all"] == pytest.approx(found.table["brier"].mean())
    assert scores["order_effect", "all"] == pytest.approx(found.table["order_effect"].mean())
    assert scores["coverage", "all"] == pytest.approx(found.table["coverage"].mean())
    assert {"calibration_error", "calibration_top", "confidence", "order_share", "gate"} <= {
        name for name, _ in scores.index
    }


def test_options_that_are_proposed_one_by_one_share_p_of_yes(lm: Any) -> None:
    found = lm.ask(ROWS, "yes_no")
    for row in ROWS:
        texts = [f"{row['question']}\nIs this the right answer: {o}? Reply with yes or no." for o in row["options"]]
        beliefs, _ = lm.beliefs(texts, ["Yes", "No"])
        yes = beliefs[beliefs["option"] == "Yes"]["prob"].to_numpy()
        own = found.options[found.options["id"] == row["id"]]["prob"]
        np.testing.assert_allclose(own, yes / yes.sum(), rtol=1e-3)
    truths = found.beliefs[found.beliefs["option"] == "Yes"].groupby("item")["outcome"].sum(min_count=1)
    assert truths.to_dict() == pytest.approx({"whale": 1, "sky": 1, "sum": np.nan}, nan_ok=True)


def test_options_that_cannot_be_told_apart_have_no_number_and_stop_nothing(lm: Any) -> None:
    rows = [*ROWS, {"id": "odd", "question": "Which?", "options": ["one", "one, two"], "truth": "one"}]
    found = lm.ask(rows, ["texts", "letters"]).table.set_index(["id", "method"])
    assert found.loc[("odd", "texts"), "status"] == "unreadable"
    assert np.isnan(found.loc[("odd", "texts"), "prob"])
    assert found["prob"].notna().sum() == 7


ODD = [
    {"id": "odd", "question": "Which?", "options": ["one", "one, two", "one."], "truth": "one"},
    {"id": "token", "question": "What is <|im_end|>?", "options": ["fish", "bird"], "truth": "fish"},
]


def test_what_cannot_be_asked_stops_no_run_wherever_it_stands(
    lm: Any,
    tiny_for: Callable[[str], Path],
    command_line: Callable[..., Any],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    special = str(lm.tokenizer.all_special_tokens[-1])
    odd = [ODD[0], {**ODD[1], "question": f"What is {special}?"}]
    rows = [{name: row.get(name) for name in ODD[0]} for row in (*odd, *ROWS)]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    fit = "fit={items: 3, methods: [texts], candidates: [{forms: ['{option}', 'It is {option}']}]}"
    for more in (["--verify", "3"], ["-o", "items=2", "-o", fit]):
        told = ("-m", str(tiny_for("ask")), "-o", "answers=[texts]", "-o", "bootstrap_draws=50", *more)
        said = command_line("run", "ask", str(tmp_path / "q.jsonl"), *told, f"--out=out{more[0]}", cwd=tmp_path)
        assert said.returncode == 0, said.stderr
    (run,) = (tmp_path / "out--verify").iterdir()
    answers = pd.read_csv(run / "answers.csv").set_index("id")
    planned = command_line("plan", "ask", "q.jsonl", "-m", str(tiny_for("ask")), "-o", "answers=[texts]", cwd=tmp_path)
    assert (planned.returncode, "5 items (questions" in planned.stdout) == (0, True), planned.stderr
    assert f", {2 + 3 + 4} read-outs" in planned.stdout  # each question in as many orders as it has options
    assert all(f"left out, of item {name}: " in caplog.text for name in ("odd", "token"))
    assert {*answers.index[answers["status"] == "unreadable"]} == {"odd", "token"}
    assert {*answers.index[answers["prob"].notna()]} == {"whale", "sky", "sum"}
    assert {readout.split("/")[0] for readout in RunFolder(run).manifest["verification"]["readouts"]} <= {
        "whale",
        "sky",
        "sum",
    }


def test_what_is_left_out_is_named_by_its_id_and_the_user_s_own_texts(
    lm: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of an empty slice, too
        found = lm.ask(ODD[:1], "texts")
        assert found.help() == []
        assert found.table["status"].tolist() == ["unreadable"]
    assert "question odd under texts: options 'one' and 'one.' are the same" in caplog.text


def test_the_user_s_columns_stand_beside_ours_of_the_same_name(lm: Any) -> None:
    row = {**ROWS[0], "prob": 0.9, "method": "mine", "own_method": "other"}
    found = lm.ask([row], "texts", orders="none").table.iloc[0]
    assert (found["own_prob"], found["own_own_method"], found["own_method"]) == (0.9, "mine", "other")
    assert found["method"] == "texts"
    named = lm.ask([{**ROWS[0], "prob": "n1"}], "texts", orders="none", columns={"id": "prob"}).table.iloc[0]
    assert (named["own_prob"], named["own_id"]) == ("n1", "whale")
    assert 0 < named["prob"] <= 1


def test_scores_are_by_a_column_that_the_questions_have_under_the_name_that_it_has_there(lm: Any) -> None:
    rows = [row | {"Category": "animal" if row["id"] == "whale" else "other"} for row in ROWS]
    for by in ("category", "topic", "hard"):
        subsets = {*lm.ask(rows, "letters", by=by).scores()["subset"]}
        assert subsets - {"all"} == {f"{by}: {value}" for value in ((1, 2, 3) if by == "hard" else ("animal", "other"))}
    with pytest.raises(UserError, match="by: no question has a column 'colour'; known: hard, topic"):
        lm.ask(rows, "letters", by="colour").scores()


def test_an_edit_that_does_not_find_its_place_is_told_of_every_question(lm: Any) -> None:
    edit = Ablate(layers=[0], at=Position(text="whale"))
    with pytest.raises(UserError, match=r"edits: cannot be made in 2 of 3 questions \('sky', 'sum'\)"):
        lm.ask(ROWS, "texts", edits=edit)


def test_answers_under_edits_are_scored_in_one_order_too(lm: Any) -> None:
    asked = lm.ask(ROWS, "texts", orders="none", edits={"with none": [Ablate(layers=[0], at="last")]})
    scores = asked.scores()
    assert {*scores["method"]} == {"texts", "texts with none", "texts - texts with none"}


def test_solved_questions_and_a_system_prompt_go_before_the_question(lm: Any) -> None:
    shot = {"question": "What is a cod?", "options": ["fish", "bird"], "truth": "fish"}
    row = {**ROWS[1], "options": ["blue", "green"], "system": "Be right.", "examples": [shot]}
    found = lm.ask([row], "letters", orders="none")
    listed = "{}\nA) {}\nB) {}\nReply with the letter of your answer."
    talk = [
        {"role": "system", "content": "Be right."},
        {"role": "user", "content": listed.format("What is a cod?", "fish", "bird")},
        {"role": "assistant", "content": "My answer is: A"},
        {"role": "user", "content": listed.format(row["question"], "blue", "green")},
    ]
    options = make_options(["blue", "green"], [" {option}", " ({option}"], ["A", "B"])
    (reading,), *_ = lm.read([lm.reader.query("q", talk, options, "My answer is:")])
    np.testing.assert_allclose(found.options["prob"], reading.prob, rtol=1e-4)


def test_the_residual_stream_comes_from_the_same_passes(lm: Any) -> None:
    found = lm.ask(ROWS[:1], "texts", orders="none", capture="last")
    text = f"{ROWS[0]['question']}\nChoose one of: {', '.join(ROWS[0]['options'])}."
    ids = lm.reader.chat.render([{"role": "user", "content": text}], "My answer is:").ids
    with torch.inference_mode():
        states = lm.model(torch.tensor([ids], device=lm.model.device), output_hidden_states=True).hidden_states
    kept = found.captured.residuals["resid_post"][0]
    np.testing.assert_allclose(kept[0], states[1][0, -1].cpu(), atol=1e-4)  # the last layer's is normalised there
    assert kept.shape == (2, 32)
    assert "capture" not in found.table


def test_a_beginning_is_found_on_other_questions_by_coverage_alone(lm: Any) -> None:
    tried = [{"prefill": "Answer:", "forms": [" {option}"]}, {"forms": ["{option}", "I choose {option}"]}]
    (fitted,) = lm.fit_forms(ROWS[:2], "texts", candidates=tried)
    coverage = [
        lm.ask(ROWS[:2], "texts", orders="none", forms=()).table["coverage"].mean(),
        *(
            lm.ask(
                ROWS[:2],
                orders="none",
                methods={"texts": {**lm.ask(ROWS[:1]).config.methods["texts"].model_dump(), "prefill": "", **form}},
            )
            .table["coverage"]
            .mean()
            for form in tried
        ),
    ]
    assert list(fitted.coverage.values()) == pytest.approx(coverage, rel=1e-3)
    assert fitted.coverage[called(fitted.chosen)] == max(fitted.coverage.values())
    after = lm.ask(ROWS[2:], "texts", orders="none", forms=fitted)
    assert after.config.methods["texts"].forms == fitted.chosen.forms
    renamed = {**ROWS[0], "id": "other", "options": ROWS[0]["options"][::-1]}
    with pytest.raises(UserError, match="were fitted on question other; fit them on questions that are not scored"):
        lm.ask([renamed], "texts", forms=fitted)


def test_what_is_no_setting_of_ask_is_refused_in_a_line(lm: Any) -> None:
    for changes, told in (
        ({"answers": "text"}, "'text' is no method; did you mean 'texts'"),
        ({"order": "latin"}, "'order' is no setting; did you mean 'orders'"),
        ({"orders": "some"}, "orders"),
    ):
        with pytest.raises(UserError) as error:
            lm.ask(ROWS, **changes)
        assert told in str(error.value)
    with pytest.raises(UserError, match="give a file, a data frame, or a list of mappings"):
        lm.ask(["Is the sky green?"])


@pytest.mark.parametrize("file", ["csqa/dev_rand_split.jsonl", "mmlu/mmlu_dev.jsonl.gz"])
def test_benchmarks_run_from_the_command_line_alone(
    file: str,
    public: Callable[[str], Path],
    tiny_for: Callable[[str], Path],
    command_line: Callable[..., Any],
    tmp_path: Path,
) -> None:
    said = command_line("run", "ask", str(public(file)), "-m", str(tiny_for("ask")), "-o", "items=4", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert "calibration error" in said.stdout
    (run,) = (tmp_path / "runs").iterdir()
    told = json.loads((run / "scores.json").read_text())["scores"]
    scores = {(score["metric"], score["method"]): score for score in told}
    answers = pd.read_csv(run / "answers.csv")
    for method in ("texts", "letters"):
        own = answers[answers["method"] == method]
        assert len(own) == 4
        assert scores["accuracy", method]["estimate"] == pytest.approx(own["correct"].mean())
        assert scores["calibration_error", method]["status"] == "too_few"
        assert scores["calibration_error", method]["estimate"] is None
    assert "accuracy" in (run / "report.html").read_text()


def test_a_run_registers_the_forms_that_it_fitted_on_questions_that_it_does_not_score(
    tiny_for: Callable[[str], Path], command_line: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "q.jsonl").write_text("".join(json.dumps({**row, "truth": row.get("truth")}) + "\n" for row in ROWS))
    fit = "fit={items: 2, methods: [texts], candidates: [{forms: ['{option}', 'It is {option}']}]}"
    told = ("-m", str(tiny_for("ask")), "-o", "items=1", "-o", "answers=[texts]", "-o", fit)
    for _ in range(2):  # the second goes on with the first
        assert command_line("run", "ask", "q.jsonl", *told, cwd=tmp_path).returncode == 0
    (run,) = (tmp_path / "runs").iterdir()
    record = RunFolder(run).manifest["conditions"]["fitted_forms"]["texts"]
    assert len(record["coverage"]) == 2
    other = command_line("run", "truth", "q.jsonl", cwd=tmp_path)
    assert (other.returncode, "truth takes no file after its name" in other.stderr) == (2, True)
    many = command_line("run", "ask", "q.jsonl", *told[:-1], fit.replace("2", "3"), cwd=tmp_path)
    assert many.returncode == 2
    assert "fit.items: 3 questions besides the 1" in many.stderr


def test_a_question_that_a_format_cannot_ask_is_left_out_of_what_is_stated_and_the_others_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    words = ["one", "two", "three", "four", "five"]
    asked = [{"question": f"Which of {k}?", "options": words[:k], "category": "easy"} for k in (2, 3, 4, 5)]
    (tmp_path / "q.yaml").write_text(json.dumps(asked))
    changes = [f"questions.file={tmp_path / 'q.yaml'}", "questions.kind=yaml", "stated={numbers: [ranking]}"]
    loaded: Any = load_config("ask", changes)
    experiment, config = loaded
    places = {item.id: askable_places(config, item) for item in experiment.items(config)}
    (left_out,) = [name for name, found in places.items() if not found]
    assert len(places) == 4
    assert (
        f"what is stated of question {left_out}: format 'ranking': ranks at most 4 options, and here are 5"
        in caplog.text
    )
