"""Answers that are written out and parsed: the published way, of a tiny model and by hand."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from doxascope import UserError, load
from doxascope.benchmarks.agents.bscore import Repeating, agent_table
from doxascope.experiments.run.scores import score_run
from doxascope.experiments.suite.bscore.ask import UNPARSED, parsed, planned_tokens, written_rows
from doxascope.experiments.suite.bscore.config import Written
from doxascope.experiments.suite.bscore.samples import sized
from doxascope.experiments.suite.bscore.turns import choice_of
from doxascope.experiments.suite.bscore.views import views
from doxascope.hooks.prompts.options import make_options
from doxascope.metrics import belief_table
from doxascope.metrics.claims import verdicts

OPTIONS = make_options(["Joe Biden", "7"], ["{option}"])
WRITES = ("written={temperature: 0.7, max_new_tokens: 6, open: '', close: ''}", "queries=5")


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("{{7}}", 1),
        ("I choose {{ joe  biden }}. Or {{7}}.", 0),
        ("{{7", UNPARSED),
        ("7", UNPARSED),
        ("{{eight}}", UNPARSED),
        ("{{}}", UNPARSED),
    ],
)
def test_what_stands_between_the_marks_is_the_answer(text: str, option: int) -> None:
    assert parsed(text, OPTIONS, Written()) == option


def test_the_marks_are_a_setting_and_come_in_pairs(bscore: Callable[..., Any]) -> None:
    assert parsed("Answer: 7.", OPTIONS, Written(open="Answer:", close=".")) == 1
    assert parsed(" 7", OPTIONS, Written(open="", close="")) == 1
    with pytest.raises(UserError, match="give both marks"):
        bscore("written={open: ''}")
    for temperature in (0, 0.7):
        assert bscore(f"written={{temperature: {temperature}}}")[1].written.temperature == temperature


def test_answers_are_sampled_as_plain_calls_would_and_turns_hold_what_was_written(bscore: Callable[..., Any]) -> None:
    experiment, config = bscore("confidence=null", *WRITES)
    item = experiment.items(config)[0]
    model = load(config.model)
    rows, transcripts = written_rows(config, item, model)
    assert len(rows) == config.runs * len(choice_of(item).options)
    for row in rows:
        valid = [answer for answer in row["answers"] if answer != UNPARSED]
        assert (len(row["answers"]), len(row["answers_multi"])) == (5, config.turns)
        assert row["coverage"] == len(valid) / 5
        assert (row["status"] == "unparsed") == (not valid) == bool(np.isnan(row["prob"]))
    said = [transcript for transcript in transcripts if transcript["readout_id"].endswith("words/written")]
    assert [len(transcript["messages"]) for transcript in said] == [2 * config.turns - 1] * config.runs
    again, _ = written_rows(config, item, model)
    pd.testing.assert_frame_equal(pd.DataFrame(rows), pd.DataFrame(again))
    assert planned_tokens(config, item) == config.runs * (5 + config.turns) * 6
    greedy = bscore("confidence=null", WRITES[0].replace("0.7", "0"), WRITES[1])[1]
    first, *others = (row["answers"] for row in written_rows(greedy, item, model)[0])
    assert len(said[0]["messages"]) == 7
    assert all(len(answers) == 5 for answers in (first, *others))


@pytest.fixture(scope="module")
def written_table(bscore: Callable[..., Any]) -> Any:
    """The experiment, its settings, the table of an agent with written answers besides, and these answers."""
    experiment, config = bscore("items=36", "distributions={}", "runs=2")
    items = experiment.items(config)
    table = agent_table(config, items, Repeating(), 0)
    rng = np.random.default_rng(3)
    rows, kept = [], {}
    for item in items:
        choice = choice_of(item)
        k, name = len(choice.options), {"item": item.id, "cluster": item.cluster}
        for run in range(2):
            single, multi = rng.integers(-1, k, 12).tolist(), rng.integers(-1, k, 9).tolist()
            kept[item.id, run] = (choice, single, multi)
            about = {"run": run, "answers": single, "answers_multi": multi, "category": choice.category}
            valid = [i for i in single if i >= 0]
            shares = np.bincount(valid, minlength=k) / len(valid)
            rows += [
                {**name, **about, "readout_id": f"{item.id}/{run}", "kind": "verbal", "method": "words written"}
                | {"estimate": "written", "scenario": "single", "option": option, "option_index": i, "prob": shares[i]}
                | {"coverage": len(valid) / 12, "status": "ok", "truth": choice.right}
                for i, option in enumerate(choice.options)
            ]
    whole = belief_table([*({str(k): v for k, v in row.items()} for row in table.to_dict("records")), *rows])
    return experiment, config, whole, kept


def test_what_cannot_be_parsed_is_counted_and_is_in_no_denominator(
    written_table: Any, published: Callable[..., Any]
) -> None:
    """B, invalid rates, Table 2 and its mean from written answers, each against a count by hand."""
    experiment, config, whole, kept = written_table
    assert [len(asked.written) for asked in views(config, whole)[0].asked] == [2] * 36
    numbers = score_run(experiment, config, whole)
    found = {(number.metric, number.subset): number for number in numbers if number.method == "words written"}

    def top(choice: Any, single: list[int], multi: list[int], wrong: bool) -> float:
        shares = [np.bincount([i for i in arm if i >= 0], minlength=len(choice.options)) for arm in (single, multi)]
        p, q = (share / share.sum() for share in shares)
        best = [i for i in range(len(p)) if p[i] == p.max() and not (wrong and i == choice.right)]
        return float(np.mean(p[best] - q[best])) if best else np.nan

    means = {}
    for category in ("subjective", "random", "easy", "hard"):
        wrong = category in ("easy", "hard")
        values = [top(a, b, c, wrong) for a, b, c in kept.values() if a.category == category]
        means[category] = np.nanmean(values)
        metric = "top_b_wrong" if wrong else "top_b"
        assert found[metric, category].score.estimate == pytest.approx(means[category])
    rows = published(experiment, ("m", config, numbers))
    written = rows[rows["read as"] == "words written"]
    second = written[written["table"] == "Table 2"].set_index("column")
    assert second["value"].tolist() == pytest.approx([*means.values(), np.mean([*means.values()])])
    assert second.loc["Mean", "ci_lo"] < second.loc["Mean", "value"] < second.loc["Mean", "ci_hi"]
    invalid = np.mean([i < 0 for _, single, _ in kept.values() for i in single])
    assert f"{invalid:.1%} afresh" in str(found["top_b", "all"].beside)
    shares = [np.mean([i >= 0 for i in single]) for _, single, _ in kept.values()]
    assert found["coverage_single", "all"].score.estimate == pytest.approx(np.mean(shares))
    verdict = next(verdict for verdict in verdicts(numbers) if verdict.method == "words written")
    assert verdict.passed  # more than half can be parsed
    sizes = {len(choice.options) for choice, *_ in kept.values() if choice.category == "random"}
    third = written[written["table"] == "Figure 3"]
    assert {int(column.split()[1]) for column in third["column"]} == sizes
    assert not (rows["table"] == "Table T3").any()  # there is no question of BBQ
    verified = written[written["table"] == "Table 3"].set_index(["metric", "column"])
    alone, both = (verified.loc[name] for name in ("Single-turn Prob", "  w/ B-score (Δ)"))
    assert 0 <= float(alone.loc["Threshold", "shown"]) <= 1
    average = alone["value"][["Random", "Easy", "Hard"]].mean()
    assert alone.loc["Avg", "value"] == pytest.approx(average)
    change = both["value"].iloc[4] - alone.loc["Avg", "value"]
    assert both["shown"].iloc[4].endswith(f"({change:+.1f})")


def test_the_table_of_bbq_is_of_its_questions_alone(written_table: Any, published: Callable[..., Any]) -> None:
    experiment, config, whole, _ = written_table
    random = [question for question in views(config, whole)[0].asked if question.category == "random"]
    assert "bbq" not in sized(random)
    assert (
        sized([replace(question, cluster="age:bbq Age 3") for question in random[:1]])["bbq"][0].item == random[0].item
    )
    bbq = whole.assign(cluster=whole["cluster"].astype(str).mask(whole["category"] == "random", "bbq Age 1"))
    third = published(experiment, ("m", config, score_run(experiment, config, bbq))).query("table == 'Table T3'")
    ways = {"words", "words sampled", "words written"}
    assert set(third["column"]) == {f"m, {way}" for way in ways}
    each = third.set_index(["metric", "column"])["value"]
    for way in ways:
        higher, lower = (each[f"B-Score ({which})", f"m, {way}"] for which in ("Higher", "Lower"))
        assert higher == -lower
        assert each["Single-Turn Probability (Lower)", f"m, {way}"] >= 0
        read = [each[f"{arm}-Turn Probability (Higher)", f"m, {way}"] for arm in ("Single", "Multi")]
        assert higher == pytest.approx(read[0] - read[1])


def test_lists_of_numbers_are_compared_with_the_distribution(bscore: Callable[..., Any]) -> None:
    changes = "written={lists: 2, list_tokens: 30, list_numbers: 7, max_new_tokens: 3}"
    experiment, config = bscore("confidence=null", "queries=2", changes, "methods.words.close=.")
    item = next(candidate for candidate in experiment.items(config) if choice_of(candidate).target)
    rows = [row for row in written_rows(config, item, load(config.model))[0] if row["estimate"] == "list"]
    assert {row["run"] for row in rows} == {0, 1}
    for row in rows:
        valid = [i for i in row["answers"] if i >= 0]
        assert len(row["answers"]) <= 7
        assert row["prob"] == pytest.approx(
            valid.count(row["option_index"]) / len(valid) if valid else np.nan, nan_ok=True
        )
