"""`doxascope compare`: kinds of belief of one run, and runs, of planted agents whose difference is known."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from doxascope import UserError
from doxascope import compare as compare_by_name
from doxascope.benchmarks.agents import Anchored, Bayesian
from doxascope.experiments.compare import Comparison, compare
from doxascope.experiments.compare.collection import COLUMNS
from doxascope.experiments.compare.page import page
from doxascope.experiments.compare.power import needed
from doxascope.experiments.report.document import TableBlock
from doxascope.experiments.report.html import to_html
from doxascope.experiments.report.record import to_json
from doxascope.experiments.report.terminal import to_text
from doxascope.experiments.run.folder import RunFolder
from doxascope.metrics.claims import BEHAVIOUR

N = 120
PULL = 0.4
Stored = Callable[..., RunFolder]
STATED = {"numbers": "verbal"}
PLAN = "registered={metric: M, method: words, n: 30}"


@pytest.fixture
def gated(planted: Any) -> Callable[..., pd.DataFrame]:
    """A planted table, with the urns of the gate, whose posterior every method knows, or not."""

    def make(methods: dict[str, list[np.ndarray]], *rest: Any, knows: bool = True, **more: Any) -> pd.DataFrame:
        urns = np.random.default_rng(0).uniform(0.1, 0.9, (10, 3))
        told = planted({name: [urns if knows else 0 * urns + 0.5] for name in methods}, cell="gate", **more)
        places = zip(told["item"].str.removeprefix("gate-").astype(int), told["step"], strict=True)
        truth = [urns[place] for place in places]
        return pd.concat([planted(methods, *rest, **more), told.assign(truth=truth)], ignore_index=True)

    return make


@pytest.fixture
def two_kinds(stored: Stored, gated: Any) -> Callable[[float], RunFolder]:
    """A run whose stated beliefs are pulled by so much more than its exact ones, each read twice."""

    def make(pull: float) -> RunFolder:
        rng = np.random.default_rng(1)
        exact, stated = Anchored(pull=0.1).sample(N, 0), Anchored(pull=0.1 + pull).sample(N, 0)
        read = [
            [np.clip(one + 0.02 * rng.standard_normal(one.shape), 0, 1) for _ in (0, 1)]
            for one in (exact.read, stated.read)
        ]
        return stored(gated(dict(zip(("words", "numbers"), read, strict=True)), exact.outcome, kinds=STATED), "m")

    return make


def of_metric(found: Comparison, metric: str) -> Any:
    (record,) = [one for one in (*found.confirmed, *found.explored) if one.pair.metric == metric]
    return record


def test_kinds_of_a_run_differ_by_what_was_planted(two_kinds: Callable[[float], RunFolder]) -> None:
    found = compare(two_kinds(PULL).path)
    record = of_metric(found, "M")
    assert found.family == ["M"]
    assert record.pair.names == ("words", "numbers")
    assert record.finding == "differ"
    assert record.score.ci_lo < PULL < record.score.ci_hi
    assert record.score.n_clusters == N
    assert 0 < record.score.mde < PULL
    others = {record.pair.metric for record in found.explored}
    assert {"brier_post", "dutch_book_swaps"} <= others
    swaps = of_metric(found, "dutch_book_swaps").score  # of two readings with noise of .02 each
    assert swaps.first == pytest.approx(100 * 0.02 * np.sqrt(2) * np.sqrt(2 / np.pi), rel=0.2)
    matrix = found.groups[0].matrix
    assert matrix is not None
    assert all(0.9 < score.reliability < 1 for score in matrix.reliabilities)


def test_kinds_that_are_alike_are_the_same_within_a_margin_and_only_then(
    two_kinds: Callable[[float], RunFolder],
) -> None:
    folder = two_kinds(0.0).path
    record = of_metric(compare(folder, margins={"M": 0.2}), "M")
    assert record.finding == "the same within the margin"
    assert of_metric(compare(folder, margins={"M": 0.001}), "M").finding == "undecided"


def test_runs_are_paired_on_what_both_have_and_the_rest_is_counted(stored: Stored, gated: Any) -> None:
    fair, pulled = Bayesian().sample(N, 0), Anchored(pull=PULL).sample(N, 0)
    longer = stored(gated({"words": [fair.read]}, fair.outcome), "fair")
    shorter = stored(gated({"words": [pulled.read[: N - 20]]}, pulled.outcome), "pulled")
    found = compare(longer.path, shorter.path, metrics=["M", "brier_post"])
    record = of_metric(found, "M")
    assert [record.pair.metric for record in found.confirmed] == ["M", "brier_post"]
    assert record.score.family_size == 2
    assert (record.score.n_rows, record.score.n_only_first, record.score.n_only_second) == (N - 20, 20, 0)
    assert record.score.ci_lo < PULL < record.score.ci_hi
    assert "20 rows are only in the first, 0 only in the second" in to_html(page(found, {}))
    again = of_metric(compare_by_name(str(longer.path), str(shorter.path), metrics=["M"]), "M")
    assert again.score.difference == record.score.difference
    assert ("model.name", ["fair", "pulled"]) in found.groups[0].differs


def test_the_item_that_makes_a_difference_is_named(stored: Stored, gated: Any) -> None:
    fair = Bayesian().sample(N, 0)
    other = fair.read.copy()
    other[17, 1] = 1 - other[17, 1]
    runs = [stored(gated({"words": [read]}, fair.outcome), name) for name, read in (("a", fair.read), ("b", other))]
    record = of_metric(compare(*(run.path for run in runs), metrics=["brier_post"]), "brier_post")
    first, *rest = record.drivers
    assert first.cluster == "factual 17"
    assert first.moves == pytest.approx(record.score.difference, rel=0.05)
    assert all(record.moves == pytest.approx(0, abs=abs(first.moves) / 50) for record in rest)


def test_what_cannot_be_compared_is_refused_in_a_line(stored: Stored, gated: Any, tmp_path: Path) -> None:
    fair = Bayesian().sample(30, 0)
    table = gated({"words": [fair.read]}, fair.outcome)
    first = stored(table, "fair")

    def refused(*paths: Path, **more: Any) -> str:
        with pytest.raises(UserError) as told:
            compare(*paths, **more)
        return str(told.value)

    assert "holds one kind of belief" in refused(first.path)
    assert "has no item of the same name and content" in refused(first.path, stored(table, "other", data="e").path)
    link = first.path.parent / "link"
    link.symlink_to(first.path)
    for again in (first.path, first.path / ".." / first.path.name, link):
        assert "is given twice" in refused(first.path, again)
    old = stored(table, "old")
    old.write_manifest(old.manifest | {"conditions": {**old.manifest["conditions"], "doxascope": "0.0.1"}})
    assert "was read by another version (doxascope None, not 0.0.1" in refused(old.path, first.path)
    part = stored(table, "part")
    part.write_manifest(part.manifest | {"batches": 3})
    assert "2 batches are still to be read" in refused(first.path, part.path)
    named = stored(gated({"letters": [fair.read]}), "named")
    assert "has no kind and method of belief in common" in refused(first.path, named.path)
    other = stored(table, "other")
    assert "'brie' is no number that can be compared here" in refused(first.path, other.path, metrics=["brie"])
    (tmp_path / "t.csv").write_text("item,belief,outcome\na,0.4,1\nb,0.2,0\n")
    assert "give each its counterpart" in refused(first.path, tmp_path / "t.csv")


def test_what_cannot_be_read_is_shown_and_enters_no_family_but_for_what_it_does(stored: Stored, gated: Any) -> None:
    fair, pulled = Bayesian().sample(N, 0), Anchored(pull=PULL).sample(N, 0)
    knows = stored(gated({"words": [fair.read]}, fair.outcome), "fair")
    table = gated({"words": [pulled.read]}, pulled.outcome)
    mute = stored(table.assign(coverage=np.where(table["prob"].isna(), table["coverage"], 0.1)), "mute")
    found = compare(knows.path, mute.path)
    why = "in each pair a side cannot be read as a belief, or is not shown to be."
    assert f"There is no finding on M: {why}" in to_html(page(found, {}))
    assert {record.pair.metric for record in (*found.confirmed, *found.explored)} <= BEHAVIOUR
    record = next(record for record in found.struck if record.pair.metric == "M")
    assert record.finding == "unreadable"
    assert (record.finding, record.struck) == tuple(found.table().set_index("metric").loc["M", ["finding", "why"]])
    assert (
        record.struck
        == "exact/words, mute cannot be read: most of the probability is on answers that are none of the options: "
        "median coverage 0.100"
    )
    assert np.isnan([record.score.p, record.score.p_adjusted]).all()
    whole = page(found, {})
    told = to_html(whole)
    assert "<s>" in told
    assert "unreadable" in told
    titled = (block for block in whole.blocks if block.title.startswith("Each number by itself"))
    (each,) = (block for block in titled if isinstance(block, TableBlock))
    struck = {row[0].value for row in each.rows if any(cell.struck for cell in row[1:])}
    assert "M" in struck
    assert struck.isdisjoint(BEHAVIOUR)
    assert {row[0].value for row in each.rows} & BEHAVIOUR


@pytest.mark.parametrize("n", [4, N])
def test_the_options_of_few_items_that_are_hardly_ever_said_are_struck_out_as_the_run_says_it(
    stored: Stored, gated: Any, n: int
) -> None:
    """No interval of a share of four lies below one half, so that the run, and the comparison, say `not shown`."""
    fair, pulled = Bayesian().sample(n, 0), Anchored(pull=PULL).sample(n, 0)
    runs = []
    for name, agent in (("fair", fair), ("pulled", pulled)):
        table = gated({"words": [agent.read]}, agent.outcome)
        table = table[~table["item"].str.startswith("gate-") | table["item"].isin([f"gate-{i}" for i in range(n)])]
        runs.append(stored(table.assign(coverage=np.where(table["prob"].isna(), table["coverage"], 0.003)), name))
    found = compare(*(run.path for run in runs))
    struck = {record.pair.metric: record for record in found.struck}
    assert {record.pair.metric for record in (*found.confirmed, *found.explored)} <= BEHAVIOUR
    assert "sufficiency" not in BEHAVIOUR
    few = ("struck out", "is not shown to be readable (")
    finding, words = few if n == 4 else ("unreadable", "cannot be read: most of the probability")
    assert struck["M"].finding == finding
    assert np.isnan([struck["M"].score.p, struck["M"].score.p_adjusted]).all()
    assert words in struck["M"].struck
    assert all(finding in str(write(page(found, {}))) for write in (to_text, to_html, to_json))


def test_what_a_sweep_keeps_beside_its_runs_is_left_out_and_said_and_no_damaged_run(
    stored: Stored, gated: Any, tmp_path: Path
) -> None:
    fair, pulled = Bayesian().sample(N, 0), Anchored(pull=PULL).sample(N, 0)
    runs = [stored(gated({"words": [agent.read]}, agent.outcome), name) for name, agent in (("a", fair), ("b", pulled))]
    study = tmp_path / "study"
    study.mkdir()
    for run in runs:
        shutil.copytree(run.path, study / run.path.name)
    (study / "sweep" / "jobs").mkdir(parents=True)
    (study / "plan.yaml").write_text("experiments: [martingale]")
    (study / "collected.csv").write_text(f"{','.join(COLUMNS)}\n{','.join(COLUMNS)}\n")
    found = compare(*sorted(study.glob("*")), metrics=["M"])
    assert len(found.groups[0].sides) == 2
    line = "Left out, since they are no runs: collected.csv, plan.yaml and sweep."
    for text in (to_html(page(found, {})), to_text(page(found, {})), str(to_json(page(found, {})))):
        assert line in text
    (study / "damaged").mkdir()
    (study / "damaged" / "commits.jsonl").write_text("")
    with pytest.raises(UserError, match=r"damaged: is a run without manifest\.json"):
        compare(*sorted(study.glob("*")))


def test_pairs_without_a_common_item_are_left_out_and_counted(stored: Stored, gated: Any) -> None:
    """As of two models by two seeds, each of which drew items of its own."""
    fair = Bayesian().sample(N, 0)
    table = gated({"words": [fair.read]}, fair.outcome)
    runs = [stored(table, f"{model}{seed}", data=seed) for seed in ("d", "e") for model in ("a", "b")]
    found = compare(*(run.path for run in runs), metrics=["M"])
    assert [[name[-2:] for name in record.pair.names] for record in found.confirmed] == [["ad", "bd"], ["ae", "be"]]
    numbers = {record.pair.metric for record in (*found.confirmed, *found.explored)}
    assert found.groups[0].unpaired == 4 * len(numbers)
    assert "collect</code> pools seeds" in to_html(page(found, {}))


def test_who_does_not_respond_is_compared_and_may_lose_but_not_win(stored: Stored, gated: Any) -> None:
    fair, pulled = Bayesian().sample(N, 0), Anchored(pull=PULL).sample(N, 0)
    for better, worse, finding in ((True, False, "differ"), (False, True, "no win")):
        one = stored(gated({"words": [fair.read]}, fair.outcome, knows=better), f"fair{better}")
        two = stored(gated({"words": [pulled.read]}, pulled.outcome, knows=worse), f"pulled{better}")
        found = compare(one.path, two.path, metrics=["M"])
        (record,) = found.confirmed
        assert found.struck == []
        assert record.score.p_adjusted < 0.05
        assert record.finding == finding
        idle = f"words, {'pulled' if better else 'fair'}{better}"
        assert record.named == f"“{idle}” does not respond, and may lose here but not win"
        assert record.named in to_html(page(found, {}))


def test_prompts_are_compared_though_they_cannot_be_scored_together(stored: Stored, gated: Any) -> None:
    fair = Bayesian().sample(30, 0)
    table = gated({"words": [fair.read]}, fair.outcome)
    rounded = gated({"words": [fair.read * (1 - 1e-7)]}, fair.outcome)
    first, *others = [
        stored(table, "fair", "items=9", PLAN),
        *(stored(rounded, "fair", "wording.opening=Well. Is it so?", plan) for plan in (PLAN, "registered=null")),
    ]
    found, unplanned = (compare(first.path, other.path) for other in others)
    assert found.named_by == "registered before the runs"
    assert unplanned.named_by == "the headline of their experiment"
    assert any(name == "settings.wording.opening" for name, _ in found.groups[0].differs)
    same = of_metric(found, "brier_post")
    assert (same.score.difference, same.finding, same.drivers) == (0, "the same read-outs", [])
    assert found.groups[0].differs[-1][0] == "settings.items"


def test_the_page_and_the_files_say_the_same_each_time(
    two_kinds: Callable[[float], RunFolder], command_line: Callable[..., Any], tmp_path: Path
) -> None:
    folder = str(two_kinds(PULL).path)
    told = [command_line("compare", folder, "--metric", "M", "--out", out, cwd=tmp_path) for out in ("one", "two")]
    assert told[0].returncode == 0, told[0].stderr
    for name in ("report.json", "report.html"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert re.search(r"words has \S+ and numbers \S+: differ\.", (tmp_path / "one" / "report.html").read_text())
    data = json.loads((tmp_path / "one" / "report.json").read_text())
    (table,) = (block for block in data["blocks"] if block.get("title") == "Do they differ?")
    assert "named in the command" in table["caption"]
    (row,) = table["rows"]
    assert "differ" in [cell["value"] for cell in row]
    (score,) = (cell["score"] for cell in row if "score" in cell)
    assert (score["metric"], score["details"]["mde"] > 0) == ("M_difference", True)
    assert json.loads(json.dumps(to_json(page(compare(Path(folder), metrics=["M"]), {"metric": "M"})))) == data
    wrong = command_line("compare", folder, "--margin", "M=0", cwd=tmp_path)
    assert (wrong.returncode, "give a number above 0" in wrong.stderr) == (2, True)


def test_a_pilot_says_how_many_clusters_find_an_effect(
    stored: Stored, gated: Any, command_line: Callable[..., Any], tmp_path: Path
) -> None:
    """By the standard error of the pilot: ((1.96 + 0.84) SE / effect)^2 as many."""
    fair = Bayesian().sample(N, 0)
    pilot = stored(gated({"words": [fair.read]}, fair.outcome), "fair")
    (brier,) = needed([pilot.path], {"brier_post": 0.02})
    se = np.std((fair.read[:, -1] - fair.outcome) ** 2, ddof=1) / np.sqrt(N)
    assert brier.clusters == pytest.approx(N * (2.8 * se / 0.02) ** 2, rel=0.12)
    assert brier.power < 0.8
    told = command_line(
        "plan", str(pilot.config), "--power", str(pilot.path), "--effect", "brier_post=0.02", cwd=tmp_path
    )
    assert told.returncode == 0, told.stderr
    assert f"{brier.clusters} clusters find 0.02 with 80% power" in told.stdout
    assert '"metric": "brier_post", "method": "words"' in told.stdout
    alone = command_line("plan", str(pilot.config), "--effect", "M=0.1", cwd=tmp_path)
    assert (alone.returncode, "--power and --effect go together" in alone.stderr) == (2, True)
