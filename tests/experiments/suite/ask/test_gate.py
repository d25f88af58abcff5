"""The gate of `ask`: what it says is what the options hold, and not the places where they stand."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

from doxascope import load
from doxascope.experiments.compare import compare
from doxascope.experiments.compare.page import page
from doxascope.experiments.materials.choices.forms import rotated
from doxascope.experiments.report.terminal import to_text
from doxascope.metrics import readable
from doxascope.metrics.claims import verdicts
from doxascope.metrics.contract import Resampling
from doxascope.metrics.decision.forecast_metrics import by_place, option_order_lines
from doxascope.metrics.tables.samples import Multiclass

ROWS = [
    {"id": f"q{i}", "question": f"What comes after {i}?", "options": [f"{i + 1}0", f"{i + 1}", "none"], "truth": i % 3}
    for i in range(4)
]


def planted(place: float, taste: float, n: int = 40, k: int = 4) -> Multiclass:
    """Beliefs in every rotation by an agent whose log-odds are SD `taste` by option and SD `place` by place."""
    rng = np.random.default_rng(0)
    orders = np.array(rotated(k, "latin"))
    tastes, where = taste * rng.standard_normal((n, k)), place * rng.standard_normal(k)
    return read([softmax(options + where[np.argsort(orders, axis=1)], axis=1) for options in tastes])


def read(by_order: list[Any]) -> Multiclass:
    """Beliefs [orders, k] of each question."""
    belief = np.array([beliefs.mean(axis=0) for beliefs in by_order])
    n, k = belief.shape
    return Multiclass(belief=belief, sizes=np.full(n, k), truth=np.full(n, np.nan), by_order=by_order)


def mixed(first: float, sure: float, n: int = 100) -> Multiclass:
    """Nine in ten questions have `first` on whatever stands first, and the others `sure` on one option."""
    at_first = np.argsort(rotated(4, "latin"), axis=1) == 0
    by_place = np.where(at_first, first, (1 - first) / 3)
    by_content = np.tile([sure, *[(1 - sure) / 3] * 3], (4, 1))
    return read([by_content if i % 10 == 0 else by_place for i in range(n)])


def judged(sample: Multiclass, **settings: Any) -> str:
    return readable(coverage={"options": [0.9] * 5}, order=by_place(sample, Resampling()), **settings).state


def test_who_answers_by_place_fails_and_who_answers_by_content_passes() -> None:
    assert judged(planted(place=2, taste=0.1)) == "unreadable"
    assert judged(planted(place=0.1, taste=2)) == "readable"
    assert judged(planted(place=0, taste=1), max_order=0) == "not shown"


def test_few_sure_questions_do_not_hide_many_that_are_answered_by_place() -> None:
    """Of the variance, which the sure questions make, the order has about a quarter."""
    sample = mixed(first=0.4, sure=1.0)
    (share,) = (line.score for line in option_order_lines(sample, Resampling()) if line.metric == "order_share")
    assert share.estimate == pytest.approx(0.2647, abs=1e-4)
    assert share.ci_hi < 0.5
    found = by_place(sample, Resampling())
    assert (found.mean, found.n_rows) == (0.9, 100)
    assert judged(sample) == "unreadable"


def test_to_be_undecided_is_a_belief_and_to_be_undecided_by_place_alone_is_not() -> None:
    """Near 1/k no order moves a belief far, whatever makes up the little by which options differ."""
    assert judged(mixed(first=0.28, sure=1.0)) == "readable"
    assert judged(mixed(first=0.28, sure=0.28)) == "readable"
    assert judged(planted(place=0.05, taste=0.001)) == "readable"
    assert judged(mixed(first=0.35, sure=1.0)) == "unreadable"


def test_what_was_read_in_one_order_is_not_counted() -> None:
    sample = mixed(first=0.4, sure=1.0)
    assert sample.by_order is not None
    alone = read([beliefs[:1] if i % 2 else beliefs for i, beliefs in enumerate(sample.by_order)])
    assert (by_place(alone, Resampling()).n_rows, by_place(alone, Resampling()).n_dropped) == (50, 50)


def test_an_interval_that_is_not_known_shows_nothing() -> None:
    for n in (1, 2, 9):
        assert judged(planted(place=0.01, taste=9, n=n)) == "not shown"
    assert judged(planted(place=0.01, taste=9, n=10)) == "readable"


def test_orders_are_judged_where_they_were_rotated(tiny_for: Callable[[str], Path]) -> None:
    with load(str(tiny_for("ask"))) as lm:
        plain: Any = lm.ask(ROWS, "letters", orders="none", max_by_place=0.3)
        found: Any = lm.ask(ROWS, "letters", orders="latin", max_by_place=0.3)
    (without,), (verdict,) = verdicts(plain.numbers), verdicts(found.numbers)
    assert [condition.name for condition in without.conditions] == ["coverage"]
    assert without.withheld["order of the options"] == "one order was asked, by `orders`"
    assert without.readable != "readable"  # what was not tested is not affirmed
    assert "not tested" in without.sentence
    assert "order of the options" not in verdict.withheld
    assert [condition.name for condition in verdict.conditions] == ["coverage", "order of the options"]
    (share,) = (number.score for number in found.numbers if number.metric == "by_place")
    condition = verdict.conditions[1]
    assert (condition.value, condition.ci_hi, condition.threshold) == pytest.approx((share.estimate, share.ci_hi, 0.3))


def test_what_a_guess_would_have_and_what_cannot_be_measured_are_told(
    tiny_for: Callable[[str], Path], command_line: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    said = command_line("run", "ask", "q.jsonl", "-m", str(tiny_for("ask")), "-o", "answers=[letters]", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    (run,) = (tmp_path / "runs").iterdir()
    page = (run / "report.html").read_text()
    few = "With fewer than 10 questions of different content nothing is called readable"
    for told in ("chance: 0.667", "cannot be measured with 4 questions", few):
        assert told in " ".join(said.stdout.split())
        assert told in page
    lines = said.stdout.splitlines()
    at = next(i for i, line in enumerate(lines) if "calibration error:" in line)  # its meaning stands below the table
    assert "cannot be measured with 4 questions" in lines[at + 1]  # below the number that it is about
    assert "chance: 33.3%" in said.stdout
    assert "chance: 33.3%" in page  # as the number that it is to be read against
    assert "Dashed: 0.333, chance" in page
    assert "by place" in said.stdout


def test_what_answers_are_worth_is_compared_whatever_can_be_read(
    tiny_for: Callable[[str], Path], command_line: Callable[..., Any], tmp_path: Path
) -> None:
    """Fewer orders make no measurement easier: one order reads `not tested`. What is done is compared in any case."""
    rows = [{**ROWS[i % 4], "id": f"q{i}", "question": f"What is {i}?", "truth": i % 3} for i in range(24)]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    told = ("run", "ask", "q.jsonl", "-m", str(tiny_for("ask")), "-o", "answers=[letters]", "-o", "bootstrap_draws=99")
    runs = []
    for orders in ("none", "latin"):
        said = command_line(*told, "-o", f"orders={orders}", "--out", orders, cwd=tmp_path)
        assert said.returncode == 0, said.stderr
        assert ("order of the options not tested" in " ".join(said.stdout.split())) == (orders == "none")
        runs.append(next((tmp_path / orders).iterdir()))
    found = compare(*runs)
    assert all(name in found.groups[0].failed for name in {finding.pair.one.name for finding in found.explored})
    kept = {finding.pair.metric for finding in (*found.confirmed, *found.explored)}
    assert kept == {"accuracy", "brier_multiclass", "calibration_top", "log_loss"}
    assert found.struck == []


def test_runs_are_named_by_what_was_read_and_stand_as_they_were_given(
    tiny_for: Callable[[str], Path], command_line: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row | {"topic": "sums"}) + "\n" for row in ROWS))
    told = ("-m", str(tiny_for("ask")), "-o", "answers=[letters]", "-o", "orders=none")
    runs = []
    for name, changes in (("plain", ["by=topic"]), ("curt", ["system=Be curt."])):
        own = [part for change in changes for part in ("-o", change)]
        said = command_line("run", "ask", "q.jsonl", *told, *own, "--out", name, cwd=tmp_path)
        assert said.returncode == 0, said.stderr
        runs.append(next((tmp_path / name).iterdir()))
    for given in (runs, runs[::-1]):
        found = compare(*given, metrics=["accuracy", "log_loss"])
        assert [side.path for side in found.groups[0].sides] == given
        named = [side.label.rpartition(", ")[2] for side in found.groups[0].sides]
        assert named == [{"plain": "system none", "curt": "system Be curt."}[run.parent.name] for run in given]
        assert to_text(page(found, {}), 400).index(given[0].name) < to_text(page(found, {}), 400).index(given[1].name)
