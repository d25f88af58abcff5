"""The tables of b-score from an author's raw data, against a plain re-computation."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from doxascope.base.errors import UserError
from doxascope.experiments.report.papers.latex import as_latex
from doxascope.experiments.report.papers.of_levels import tables_of_levels
from doxascope.experiments.report.papers.paper_tables import (
    PaperTable,
    as_lines,
)
from doxascope.metrics.scoring.engine import score_table

Write = Callable[..., Path]
Named = Callable[[list[PaperTable], str], PaperTable]
Values = Callable[[PaperTable], dict[str, list[float]]]


def test_counted_answers_make_table_2(printed: Callable[..., list[PaperTable]], named: Named, values: Values) -> None:
    rng = np.random.default_rng(2)
    rows = []
    for model in ("steady", "biased"):
        for category in ("subjective", "random", "easy", "hard"):
            for q in range(6):
                single = rng.multinomial(30, [0.6, 0.3, 0.1])
                multi = single if model == "steady" else rng.multinomial(30, [1 / 3] * 3)
                truth = {"easy": "abc"[int(single.argmax())], "hard": "c"}.get(category, "")
                rows.append((model, category, f"{category}{q}", *single, *multi, truth))
    options = [f"{arm}_{option}" for arm in ("single", "multi") for option in "abc"]
    frame = pd.DataFrame(rows, columns=["model", "category", "question", *options, "truth"])
    made = named(printed(frame, "model", "category"), "Table 2")
    assert [name for _, name in made.columns] == ["Subjective", "Random", "Easy", "Hard", "Mean"]
    found = values(made)
    assert found["steady"] == pytest.approx([0.0] * 5)  # what it says afresh it says again
    cells = {labels[0]: [cell.text for cell in cells] for labels, cells in made.rows}
    assert cells["biased"][2] == "+0.00*"  # every easy answer is right
    expected = []
    for category in ("subjective", "random", "hard"):
        own = frame[(frame["model"] == "biased") & (frame["category"] == category)]
        single, multi = (own[[f"{arm}_{x}" for x in "abc"]].to_numpy() / 30 for arm in ("single", "multi"))
        scores = []
        for s, m in zip(single, multi, strict=True):
            top = s == s.max()
            if category == "hard" and top[2]:
                continue
            scores.append((s - m)[top].mean())
        expected.append(np.mean(scores))
    assert found["biased"] == pytest.approx([*expected[:2], 0.0, expected[2], (sum(expected)) / 4])


def test_questions_of_2_4_and_10_options_are_scored_by_what_they_offer(
    printed: Callable[..., list[PaperTable]], table: Write, named: Named, values: Values
) -> None:
    """The paper's mix in one file; what a question does not offer is empty. A hole in one arm is a missing answer."""
    rng = np.random.default_rng(12)
    digits = [str(i) for i in range(10)]
    rows: list[dict[str, Any]] = []
    for topic, k in (("number", 10), ("politics", 2), ("math", 4), ("race", 4)):
        for category in ("subjective", "random", "hard"):
            for _ in range(2):
                law = np.full(k, 0.5 / (k - 1))
                law[1] = 0.5
                counts = [rng.multinomial(30, chances) for chances in (law, np.full(k, 1 / k))]
                cells = {
                    f"{a}_{x}": n for a, ns in zip(("single", "multi"), counts, strict=True) for x, n in enumerate(ns)
                }
                other = {"single_other": 0, "multi_other": 10}
                truth = {"truth": "0"} if category == "hard" else {}
                rows.append(
                    {"model": "m", "category": category, "question": f"{topic} {category}", **cells, **other, **truth}
                )
    frame = pd.DataFrame(rows)
    columns = [[f"{arm}_{x}" for x in digits] for arm in ("single", "multi")]

    def expected(category: str) -> float:
        scores = []
        for _, own in frame[frame["category"] == category].groupby("question"):
            single, multi = (own[names].sum(min_count=1).dropna().to_numpy() for names in columns)
            single, multi = single / single.sum(), multi / multi.sum()
            top = np.isclose(single, single.max())
            top[0] &= category != "hard"
            if top.any():
                scores.append((single - multi)[top].mean())
        return float(np.mean(scores))

    made = named(printed(frame, "model", "category"), "Table 2")
    assert values(made)["m"][:2] == pytest.approx([expected("subjective"), expected("random")])
    assert values(made)["m"][3] == pytest.approx(expected("hard"))
    assert not any(note.startswith("Rows left out") for note in made.told)
    assert "Answers that are no option: 0.0% afresh, 25.0% in conversation (m)" in made.notes
    frame.loc[frame["question"] == "math random", "multi_2"] = np.nan
    holed = named(printed(frame, "model", "category"), "Table 2")
    (told,) = [note for note in holed.told if note.startswith("Rows left out")]
    assert "1 of 4 (m, Random: undefined)" in told
    assert told in "\n".join(as_lines(holed))
    assert r"\par Rows left out" in as_latex(holed)
    frame = frame[frame["question"] != "math random"].assign(truth="7")
    with pytest.raises(UserError, match="question 'math hard', truth: '7' is empty in all rows"):
        score_table(table(**frame, name="not_offered.csv"), by=("model", "category"))


def test_raw_data_make_their_tables_alone(
    table: Write, command_line: Callable[..., Any], tmp_path: Path, named: Named
) -> None:
    """`doxascope tables` of a row per answer, under an author's names: text and LaTeX are those of its scores."""
    rng = np.random.default_rng(15)
    rows = [
        (model, category, f"{category} {q}", setting, rng.choice(["red", "blue"]))
        for model in ("a", "b")
        for category in ("subjective", "random")
        for q in range(3)
        for setting in ("single-turn", "multi-turn")
        for _ in range(6)
    ]
    path = table(**pd.DataFrame(rows, columns=["model", "category", "question_id", "setting", "response"]))
    known = named(tables_of_levels(score_table(path, by=["model", "category"])), "Table 2")
    done = command_line("tables", str(path), "--by", "model,category", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("\n".join(as_lines(known)))
    assert "response taken for answer" in done.stdout
    assert (
        as_latex(known) in command_line("tables", str(path), "--by", "model,category", "--latex", cwd=tmp_path).stdout
    )
    plain = table("prior,posterior", "0.1,0.2", "0.3,0.1", name="plain.csv")
    for given, told in (
        ([str(plain)], "fills no table of a paper; say by --by what its rows are"),
        ([str(path), str(plain)], "is no run; give the folders of runs, or one table"),
    ):
        refused = command_line("tables", *given, cwd=tmp_path)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert told in refused.stderr
