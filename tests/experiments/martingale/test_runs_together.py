"""`doxascope score RUN...`: runs of several models, the conditions that tell them apart, and what people rated."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from click.testing import CliRunner

from doxascope import UserError
from doxascope.experiments.cli.main import cli
from doxascope.experiments.engine.together import understand_runs
from doxascope.experiments.planted.anchored import Anchored
from doxascope.experiments.planted.urn import Bayesian
from doxascope.experiments.runs.folder import RunFolder
from doxascope.experiments.scoring.engine import Scored, score_understood
from doxascope.metrics import brier_on_split_martingale

N = 120
PULL = 0.4
Stored = Callable[..., RunFolder]


@pytest.fixture
def stored(configured: Any, tmp_path: Path) -> Stored:
    """Writes a belief table as the run of a model, under changed settings."""

    def make(table: pd.DataFrame, model: str, *changes: str, data: str = "d", weights: str = "w") -> RunFolder:
        _, config = configured(*changes)
        folder = RunFolder.create(tmp_path / f"{model}-{len(list(tmp_path.iterdir()))}")
        conditions = {"model": {"name": model, "weights": weights}, "dataset": data}
        folder.write_json("manifest.json", {"conditions": conditions, "batches": 1})
        folder.write("config.yaml", yaml.safe_dump(config.model_dump(mode="json")))
        folder.commit(0, table, [], {})
        return folder

    return make


@pytest.fixture
def rivals(stored: Stored, planted: Any) -> list[RunFolder]:
    """A Bayesian and an anchored model of the same questions, each read in two ways."""
    fair, pulled = Bayesian().sample(N, 0), Anchored(pull=PULL).sample(N, 0)
    return [
        stored(planted({"words": [fair.read], "letters": [fair.read]}, fair.outcome), "fair"),
        stored(planted({"words": [pulled.read], "letters": [fair.read]}, pulled.outcome), "pulled"),
    ]


def scored(folders: list[RunFolder], ratings: Path | None = None, metric: str = "all") -> Scored:
    return score_understood(understand_runs(folders, ratings), metric)


def lines(found: Scored, group: str) -> dict[str, Any]:
    return {line.quantity: line.score for entry in found.entries if entry.group == group for line in entry.lines}


def test_models_are_told_apart_on_the_questions_that_they_share(rivals: list[RunFolder]) -> None:
    found = scored(rivals)
    words = lines(found, "exact/words")
    contrast = words["M at model[pulled] less fair"]
    assert contrast.n_clusters == N
    assert contrast.n_rows == 2 * N
    assert contrast.ci_lo < -PULL < contrast.ci_hi < 0
    fair, pulled = (lines(scored([one]), "exact/words") for one in rivals)
    assert words["M at model[fair]"].estimate == pytest.approx(fair["M"].estimate)
    assert words["M at model[pulled]"].estimate == pytest.approx(pulled["M"].estimate)
    difference = found.comparisons["martingale", "exact/words, fair", "exact/words, pulled"]
    assert difference.ci_lo < PULL < difference.ci_hi
    assert difference.n_clusters == N
    apart = np.hypot(fair["M"].se, pulled["M"].se)
    assert max(difference.se, contrast.se) < apart / 2  # the draws that both saw cancel
    assert difference.p_adjusted < 0.05
    same = found.comparisons["martingale", "exact/letters, fair", "exact/letters, pulled"]
    assert same.difference == 0
    assert {(one, two) for metric, one, two in found.comparisons if metric == "martingale"} == {
        ("exact/words, fair", "exact/letters, fair"),
        ("exact/words, pulled", "exact/letters, pulled"),
        ("exact/words, fair", "exact/words, pulled"),
        ("exact/letters, fair", "exact/letters, pulled"),
    }


def test_a_difference_between_models_does_not_pass_for_a_slope(stored: Stored, planted: Any) -> None:
    """Each is a martingale, and one was certain where the other was torn: both together are none."""
    fair = Bayesian().sample(N, 0).read
    other = np.clip(1 - fair, 0, 1) * 0.1
    found = scored([stored(planted({"words": [one]}), name) for one, name in ((fair, "fair"), (other, "low"))])
    assert "M" not in lines(found, "exact/words")
    for model in ("fair", "low"):
        score = lines(found, f"exact/words, {model}")["M"]
        assert score.ci_lo < 0 < score.ci_hi
        assert lines(found, "exact/words")[f"M at model[{model}]"].estimate == pytest.approx(score.estimate)


def test_scores_of_one_run_are_its_own(tiny_run: RunFolder) -> None:
    """Two ways to the same numbers: the run's own scores, and the metrics of tables."""
    own = json.loads((tiny_run.path / "scores.json").read_text())["scores"]
    kept = {(row["metric"], row["method"]): row for row in own if row["subset"] == "all"}
    found = scored([tiny_run])
    names = {
        "M": "M, first to last",
        "M_step": "M, per step",
        "mean_update": "mean update, first to last",
        "brier_post": "Brier score of the posterior",
        "brier_update": "change of the Brier score",
        "calibration": "calibration slope of the prior",
    }
    for method, group in (("words", "exact/words"), ("json numbers", "verbal/json numbers")):
        mine = lines(found, group)
        for metric, quantity in names.items():
            row = kept[metric, method]
            assert mine[quantity].estimate == pytest.approx(row["estimate"], nan_ok=True), quantity
            assert (mine[quantity].n_rows, mine[quantity].n_clusters) == (row["n_rows"], row["n_clusters"])
    both = lines(found, "all kinds")
    for metric, quantity in (("agreement", ""), ("agreement_update", ", updates")):
        row = kept[metric, "words - json numbers"]
        same = both[f"concordance of exact/words and verbal/json numbers{quantity}"]
        assert (same.estimate, same.n_rows) == pytest.approx((row["estimate"], row["n_rows"]))


def test_the_beliefs_of_a_run_are_the_run(tiny_run: RunFolder) -> None:
    """Their starts belong to every trajectory, which only the run knows."""
    told = [CliRunner().invoke(cli, ["score", str(path)]) for path in (tiny_run.path, tiny_run.path / "beliefs")]
    assert told[0].exit_code == 0, told[0].output
    assert told[0].output == told[1].output


def test_cells_of_all_runs_have_one_relation_of_m_and_brier_score(stored: Stored, planted: Any) -> None:
    runs, columns = [], []
    for model, pulls in (("fair", (0.0, 0.1, 0.2)), ("pulled", (0.3, 0.5, 0.7))):
        told = {name: Anchored(pull=pull).sample(N, i) for i, (name, pull) in enumerate(zip("abc", pulls, strict=True))}
        cells = [planted({"words": [one.read]}, one.outcome, name) for name, one in told.items()]
        runs.append(stored(pd.concat(cells, ignore_index=True), model))
        columns += [(one.read, one.outcome, f"{model} / {name}", name) for name, one in told.items()]
    found = lines(scored(runs, metric="brier-on-martingale"), "exact/words")
    order = sorted(range(N), key=str)  # which question is in which half goes by their order
    prior, post = np.concatenate([read[order] for read, *_ in columns]).T
    outcome = np.concatenate([outcome[order] for _, outcome, *_ in columns])
    cell = np.repeat([cell for *_, cell, _ in columns], N)
    question = [f"{name} {i}" for *_, name in columns for i in order]
    expected = brier_on_split_martingale(prior, post, outcome, question, cell)
    score = found["change of the Brier score per unit of M"]
    assert score.as_dict()["n_cells"] == 6
    assert (score.estimate, score.ci_lo, score.n_clusters) == pytest.approx((expected.coef, expected.ci_lo, 3 * N))


def test_cells_are_pooled_where_they_share_no_question(stored: Stored, planted: Any) -> None:
    """Models share theirs, domains do not."""
    runs = []
    for model in ("fair", "pulled"):
        cells = [planted({"words": [Anchored(pull=0.3).sample(N, i).read]}, cell=name) for i, name in enumerate("abc")]
        runs.append(stored(pd.concat(cells, ignore_index=True), model))
    score = lines(scored(runs, metric="martingale-pooled"), "exact/words")["M over 3 cells of domain"]
    assert score.ci_lo < -0.3 < score.ci_hi < 0
    one = runs[0].beliefs()
    runs = [stored(one[one["cluster"].astype(str).str.startswith("a ")], model) for model in ("fair", "pulled")]
    score = lines(scored(runs, metric="martingale-pooled"), "exact/words")["M over cells"]
    assert score.status == "shared_clusters"


def test_a_condition_is_a_factor_where_one_model_had_it_both_ways(stored: Stored, planted: Any) -> None:
    table, cold = planted({"words": [Bayesian().sample(N, 0).read]}), "generation.temperature=0.5"
    pulled = planted({"words": [Anchored(pull=PULL).sample(N, 0).read]})
    other = planted({"words": [Anchored(pull=0.1).sample(N, 1).read]})
    runs = [stored(table, "fair"), stored(pulled, "fair", cold), stored(other, "other")]
    found = lines(scored(runs, metric="martingale-factors"), "exact/words")
    contrast = found["M at generation.temperature[1.0] less 0.5"]
    assert contrast.ci_lo < PULL < contrast.ci_hi
    assert "M at model[other] less fair" in found
    together = [stored(table, "fair"), stored(pulled, "fair", cold, "generation.top_p=0.9")]
    found = lines(scored(together, metric="martingale-factors"), "exact/words")
    assert "M at generation.temperature and generation.top_p[1.0, 1.0] less 0.5, 0.9" in found
    with pytest.raises(UserError, match=r"generation.temperature differs between models and within none"):
        scored([stored(table, "fair"), stored(table, "other", cold)])


def test_models_of_one_name_are_told_apart(stored: Stored, planted: Any) -> None:
    table = planted({"words": [Bayesian().sample(N, 0).read]})
    found = scored([stored(table, "fair", weights="a"), stored(table, "fair", weights="b")])
    assert "fair (weights a); fair (weights b)" in found.understood.line


def test_what_is_not_comparable_is_refused(stored: Stored, planted: Any) -> None:
    table = planted({"words": [Bayesian().sample(20, 0).read]})
    first = stored(table, "fair")

    def refused(other: RunFolder) -> str:
        with pytest.raises(UserError) as told:
            scored([first, other])
        return str(told.value)

    assert "asks other questions than" in refused(stored(table, "other", data="e"))
    assert "has another wording.opening" in refused(stored(table, "other", "wording.opening=Well."))
    worded = "methods={words: {ask: 'Is it {first}, or {second}?'}}"
    assert "has another methods.words.ask" in refused(stored(table, "other", worded))
    asked = "stated.judges={smollm2-135m: {prompt: '{steps}'}}"
    judged = stored(table, "fair", "stated.judges={smollm2-135m: {}}")
    with pytest.raises(UserError, match=r"has another stated\.judges\.smollm2-135m\.prompt"):
        scored([judged, stored(table, "other", asked)])
    assert "is a second run of fair under the same conditions" in refused(stored(table, "fair"))
    part = stored(table, "other")
    part.write_json("manifest.json", part.manifest | {"batches": 3})
    assert "2 batches are still to be read" in refused(part)
    start = planted({"words": [np.full((5, 1), 0.4)]})
    with pytest.raises(UserError, match="no trajectory has a step"):
        scored([stored(start, "fair")])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{run}", "--cluster", "x"], "--cluster and --replicates are for tables"),
        (["{run}", "{table}"], "t.csv: is no run; only runs are scored together"),
        (["{table}", "--ratings", "{table}"], "t.csv: is no run"),
        (["{run}", "--metric", "martingal"], "metric 'martingal' is unknown"),
    ],
)
def test_what_goes_with_tables_does_not_go_with_runs(
    tiny_run: RunFolder, tmp_path: Path, arguments: list[str], message: str
) -> None:
    table = tmp_path / "t.csv"
    table.write_text("prior,posterior\n0.1,0.2\n")
    given = [one.format(run=tiny_run.path, table=table) for one in arguments]
    told = CliRunner().invoke(cli, ["score", *given])
    assert isinstance(told.exception, UserError)
    assert message in str(told.exception)
    assert "\n" not in str(told.exception)


def test_runs_are_scored_on_the_command_line(rivals: list[RunFolder], tmp_path: Path) -> None:
    out = tmp_path / "scores"
    done = CliRunner().invoke(cli, ["score", *(str(one.path) for one in rivals), "--out", str(out), "--seed", "1"])
    assert done.exit_code == 0, done.output
    first = done.output.splitlines()[0]
    assert first.startswith("martingale, 2 runs (fair; pulled); 240 trajectories, clusters: question (120)")
    kept = json.loads((out / "scores.json").read_text())
    assert kept["settings"] == {"metric": "all", "seed": 1}
    compared = {(row["first_kind"], row["second_kind"]) for row in kept["differences"]}
    assert ("exact/words, fair", "exact/words, pulled") in compared
    assert "exact/words, pulled" in (out / "report.html").read_text()
