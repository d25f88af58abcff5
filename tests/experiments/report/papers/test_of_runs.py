"""The tables of the papers from stored runs, as text and as LaTeX."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from doxascope.experiments.report.papers import bscore, consistency, martingale, rationality, sycophancy
from doxascope.experiments.report.papers.latex import as_latex
from doxascope.experiments.report.papers.paper_tables import (
    DASH,
    PaperTable,
    RunNumbers,
    as_blocks,
    as_lines,
    marks_of,
    number_cell,
)
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.paper_tables import numbers_of
from doxascope.experiments.suite.martingale.config import MartingaleConfig

Named = Callable[[list[PaperTable], str], PaperTable]
Values = Callable[[PaperTable], dict[str, list[float]]]


def row(metric: str, estimate: float | None, subset: str = "all", **details: Any) -> dict[str, Any]:
    ends = {
        "ci_lo": None if estimate is None else estimate - 0.1,
        "ci_hi": None if estimate is None else estimate + 0.1,
    }
    return {"metric": metric, "method": "free", "subset": subset, "estimate": estimate, **ends, "details": details}


def numbers(model: str, *rows: dict[str, Any], dataset: str = "", readable: str = "readable") -> RunNumbers:
    judged = {"free": readable}
    return RunNumbers(model, dataset, False, {(r["metric"], r["method"], r["subset"]): r for r in rows}, judged)


def test_every_table_is_made_of_nothing_as_dashes() -> None:
    for paper in (bscore, consistency, martingale, rationality, sycophancy):
        assert all(made.empty for made in paper.tables([numbers("m")]))


def test_several_runs_are_rows_and_a_failed_gate_is_marked(named: Named) -> None:
    runs = [numbers("a", row("c2", 0.9)), numbers("b", row("c2", 0.5), row("c3", None), readable="unreadable")]
    made = named(consistency.tables(runs), "Table 1")
    assert [labels[0] for labels, _ in made.rows] == ["a", "b†"]
    assert [cell.text for cell in made.rows[1][1]] == ["0.5000", *[DASH] * 6]
    assert made.rows[0][1][0].interval == "[0.8000, 1.0000]"
    assert marks_of([made]) == ["† unreadable: no belief is measured"]
    lines = list(as_lines(made))
    assert lines[0].startswith("Table 1 (belief-consistency): Main results; entropy of the two words that are left.")
    assert "[0.4000, 0.6000]" in lines[-1]


def test_few_clusters_are_no_matter_where_a_number_is_the_same_whoever_answers(named: Named) -> None:
    few = row("invalid_association", 2.0, norm_prior=1 / 3, norm_post=0.21) | {"status": "few_effective_clusters"}
    made = named(consistency.tables([numbers("m", few)]), "Table 8")
    below = {column: cell.below for column, cell in zip(made.columns, made.rows[0][1], strict=True)}
    assert below["p invalid prior", "Norm."] == ""
    assert below["p invalid posterior", "Norm."] == "(few effective clusters)"


def test_stars_and_order_of_the_martingale_table() -> None:
    rows = [
        {**row("M_step", value, f"{domain}, {reasoning}, {prompt}", p_iid=p), "method": "free"}
        for domain, reasoning, prompt, value, p in (
            ("review", "cot", "none", 0.0734, 0.01),
            ("forecasting", "debate", "none", -0.0439, 0.3),
            ("forecasting", "cot", "critical", 0.0156, 0.04),
        )
    ]
    made, means = martingale.tables([numbers("GPT", *rows)])[:2]
    assert made.columns == [(d, r) for d in ("Forecasting", "OpenReview") for r in ("CoT", "Debate")]
    assert [(labels[1], [cell.text for cell in cells]) for labels, cells in made.rows] == [
        ("No Prompt", [DASH, "-0.0439", "+0.0734*", DASH]),
        ("CT Prompt", ["+0.0156*", DASH, DASH, DASH]),
    ]
    unread = martingale.tables([numbers("GPT", *rows, readable="unreadable")])[0]
    assert unread.rows[0][0][0] == "GPT†"
    assert [cell.text for cell in unread.rows[0][1]] == [DASH, "-0.0439", "+0.0734", DASH]
    of_prompt = dict(zip([labels[0] for labels, _ in means.rows], [cells for _, cells in means.rows], strict=True))
    assert of_prompt["No Prompt"][0].value == pytest.approx((0.0734 + 0.0439) / 2)
    assert of_prompt["No Prompt"][1].text == "1 of 2"
    assert of_prompt["CT Prompt"][0].below == ""  # of one cell
    none = {**row("M_step", None, "review, cot, none"), "status": "wordings_disagree"}
    means = martingale.tables([numbers("GPT", none)])[1]
    assert {(cells[0].text, cells[0].below, cells[1].text) for _, cells in means.rows} == {
        (DASH, "(wordings disagree)", "0 of 0")
    }


def test_a_way_of_reading_without_a_usable_row_has_a_row_that_says_why(named: Named) -> None:
    lost = {**row("rmse_truth", None), "status": "no_valid_answer", "n_rows": 0, "n_dropped": 9}
    made = named(rationality.tables([numbers("m", lost)]), "Table 4")
    assert [labels[-1] for labels, _ in made.rows] == ["free"]
    assert (made.rows[0][1][0].text, made.rows[0][1][0].below) == (DASH, "(no valid answer)")
    assert "(no valid answer)" in "\n".join(as_lines(made))
    assert not made.empty
    unread = {**lost, "status": "too_few", "reasons": {"unparsed": 7, "truncated": 2}}
    made = named(rationality.tables([numbers("m", unread)]), "Table 4")
    assert made.rows[0][1][0].below == "(none of 9 rows counts: unparsed, truncated)"


def test_posteriors_above_1_of_a_run_are_told(named: Named, values: Values) -> None:
    beside = {"posteriors of Bayes' rule above 1": "5 of 60"}
    held = {**row("sycophancy_error_raw", 0.1, "overall, argument", rmse_base=0.3, rmse_syc=0.4), "beside": beside}
    made = named(sycophancy.tables([numbers("m", held)]), "Table 1")
    assert values(made)["m"][:2] == [0.3, 0.4]
    assert made.notes[-1].endswith("which no belief reaches: 5 of 60 (m, free, overall, argument)")


def test_means_over_data_sets(named: Named, values: Values) -> None:
    runs = [
        numbers(model, row("rmse_truth", value), dataset=dataset)
        for model, dataset, value in (
            ("a", "heart", 0.2),
            ("a", "fever", 0.4),
            ("b", "heart", 0.1),
            ("b", "fever", 0.3),
        )
    ]
    found = values(named(rationality.tables(runs), "Table 4"))
    assert found["heart-a"][0] == 0.2
    assert [found[name][0] for name in ("Mean: a", "Mean: b", "Overall mean")] == pytest.approx([0.3, 0.2, 0.25])
    assert np.isnan(found["Overall mean"][1])
    ends = {labels[0]: cells[0].ends for labels, cells in named(rationality.tables(runs), "Table 4").rows}
    half = np.hypot(0.1, 0.1) / 2  # data sets are sampled apart, models answer the same questions
    assert ends["Mean: a"] == pytest.approx((0.3 - half, 0.3 + half))
    assert np.isnan(ends["Overall mean"]).all()


def test_latex_has_dashes_minus_and_quotes_of_print() -> None:
    columns = [("", "1 - JS Divergence"), ("judge - people", "M")]
    caption = 'Evaluation: "Is it X?" "No." only.'
    rows = [(("smollm2-135m",), [number_cell(-0.0439, (-0.1, 0.0), written="+.4f"), number_cell(0.5)])]
    text = as_latex(PaperTable("p-1", "Table 9", caption, ("Model",), columns, rows))
    for part in (
        "1 $-$ JS Divergence",
        "judge -- people",
        "``Is it X?'' ``No.'' only.",
        "smollm2-135m & $-$0.0439 & 0.5000",
        "[$-$0.1000, 0.0000]",
        r"\label{tab:p-1-table-9}",
    ):
        assert part in text


def test_what_does_not_vary_has_no_interval(named: Named) -> None:
    """An interval of no width is the status of its number, on every way out."""
    flat = {**row("p_error_prior_included", 2 / 3), "ci_lo": 2 / 3, "ci_hi": 2 / 3, "n_rows": 3}
    for status, below in (
        ("zero_cluster_variance", "(all clusters alike)"),
        ("ok", "(all clusters alike)"),
        ("few_effective_clusters", "(few effective clusters)"),
    ):
        made = named(consistency.tables([numbers("m", row("c2", 0.9), {**flat, "status": status})]), "Table 1")
        cell = made.rows[0][1][5]
        assert (cell.text, cell.below) == ("66.67%", below)
        assert np.isnan(cell.ends).all()
        assert made.rows[0][1][0].below == "[0.8000, 1.0000]"
        assert "[66.67%" not in "\n".join([*as_lines(made), as_latex(made)])


def test_a_status_stands_under_its_number_and_under_the_means_that_it_enters(named: Named) -> None:
    few = {**row("rmse_truth", 0.2), "status": "few_clusters"}
    runs = [numbers("a", few, dataset="heart"), numbers("a", row("rmse_truth", 0.4), dataset="fever")]
    made = named(rationality.tables(runs), "Table 4")
    below = {labels[0]: cells[0].below for labels, cells in made.rows}
    assert below["heart-a"] == "[0.1000, 0.3000] (few clusters)"
    assert below["fever-a"] == "[0.3000, 0.5000]"
    assert below["Mean: a"].endswith("] (few clusters)")
    (block,) = as_blocks([made])
    for text in ("\n".join(as_lines(made)), as_latex(made), str(block.rows)):
        assert "few clusters" in text
    withheld = {**row("M_step", None, "review, cot, none"), "status": "wordings_disagree"}
    setups = [row("M_step", 0.1, "forecasting, cot, none"), withheld]
    (mean, _), *_ = (cells for _, cells in martingale.tables([numbers("m", *setups)])[1].rows)
    assert (mean.value, mean.below) == (pytest.approx(0.1), "(wordings disagree)")


def test_the_mark_of_table_3_stands_at_the_run_that_cannot_be_read(named: Named) -> None:
    rows = [row("switch", 0.4), row("hswitch", 0.2)]
    made = named(consistency.tables([numbers("a", *rows), numbers("b", *rows, readable="unreadable")]), "Table 3")
    assert [[cell.text for cell in cells[:2]] for _, cells in made.rows] == [["40.0%", "20.0%"], ["40.0%†", "20.0%†"]]
    assert not any("†" in group for group, _ in made.columns)
    assert marks_of([made]) == ["† unreadable: no belief is measured"]


def test_a_smoke_set_is_not_called_by_the_name_of_the_data_set_of_the_paper(tmp_path: Path) -> None:
    (tmp_path / "cmv.csv").write_text("question\n")
    domains = f"domains={{review: {{kind: smoke}}, values: {{kind: views, file: '{tmp_path / 'cmv.csv'}'}}}}"
    _, config = load_config("martingale", [domains, "registered=null"])
    assert isinstance(config, MartingaleConfig)
    rows = [row("M_step", 0.1, f"{domain}, cot, none") for domain in config.domains]
    scores, *_ = martingale.tables([numbers_of("m", config, rows, {})])
    assert [domain for domain, _ in scores.columns] == ["ChangeMyView", "review (smoke set)"]


def test_what_is_left_out_is_told_once_and_of_which_mode(named: Named) -> None:
    lost = {"n_rows": 90, "n_dropped": 18, "reasons": {"undefined": 18}, "status": "ok"}
    few = {**lost, "n_dropped": 9, "reasons": {"undefined": 9}}
    rows = [{**row(name, 0.5), **lost} for name in ("c2", "c3_included", "p_invalid_included")]
    rows.append({**row("entropy_prior_included", 0.5), **few})
    runs = [replace(numbers("qwen3", *rows), thinking=thinks) for thinks in (False, True)]
    (told,) = named(consistency.tables(runs), "Table 1").told
    assert told.count("qwen3, not thinking, free, Consistency and p invalid posterior: undefined") == 1
    assert told.count("qwen3, thinking, free, Consistency and p invalid posterior: undefined") == 1
    assert told.count("18 of 108") == 2
    assert told.count("9 of 99") == 2
    (told,) = named(consistency.tables(runs[:1]), "Table 1").told
    assert "(qwen3, free, Consistency and" in told


def test_questions_without_a_truth_are_not_left_out_of_task_accuracy(named: Named) -> None:
    """Subjective and random ones have none; of hard ones a truth may be missing."""
    lacking = {"n_rows": 10, "n_dropped": 12, "reasons": {"no outcome": 10, "unparsed": 2}, "status": "ok"}
    accuracies = [
        {**row(f"accuracy_{arm}", 0.5, of), **lacking} for arm in ("single", "multi") for of in ("all", "hard")
    ]
    (told,) = named(bscore.tables([numbers("m", *accuracies)]), "Table T6").told
    assert "2 of 12 (Overall, Single-Turn, m: unparsed)" in told
    assert "12 of 22 (HARD, Single-Turn, m: no outcome, unparsed)" in told


def test_the_note_on_stars_stands_where_a_star_is(named: Named) -> None:
    scores = [row("top_b", 0.1, of) for of in ("subjective", "random")]
    wrong = row("top_b_wrong", 0.2, "hard")
    for easy, starred in ((row("top_b_wrong", 0.1, "easy"), False), (row("accuracy_single", 1.0, "easy"), True)):
        made = named(bscore.tables([numbers("m", *scores, wrong, easy)]), "Table 2")
        assert any(cell.text.endswith("*") for cell in made.rows[0][1]) == starred
        assert any(note.startswith("* all highest") for note in made.notes) == starred


def test_latex_escapes_what_a_model_is_called_and_balances_its_columns(named: Named) -> None:
    made = named(
        consistency.tables([numbers("a_b & 5% {x}", row("c2", 0.9), row("p_error_prior_included", 0.25))]), "Table 1"
    )
    text = as_latex(made)
    assert (
        text.count(r"\caption{Main results; entropy of the two words that are left. (Table 1 of belief-consistency.)}")
        == 1
    )
    assert text.count(r"\label{tab:belief-consistency-table-1}") == 1
    assert r"a\_b \& 5\% \{x\}" in text
    assert r"25.00\%" in text
    (spec,) = re.findall(r"begin\{tabular\}\{([lr]+)\}", text)
    for line in text.splitlines():
        if line.endswith(r"\\"):
            spans = sum(int(n) - 1 for n in re.findall(r"multicolumn\{(\d+)\}", line))
            assert len(re.findall(r"(?<!\\)&", line)) + 1 + spans == len(spec)
