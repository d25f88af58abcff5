"""`doxascope score RUN...`: runs of several models, the conditions that tell them apart, and what people rated."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from doxascope import UserError
from doxascope.benchmarks.agents import Anchored, Bayesian
from doxascope.experiments.cli.main import cli
from doxascope.experiments.report.lead import Lead
from doxascope.experiments.report.score_files import page_of
from doxascope.experiments.report.terminal import to_text
from doxascope.experiments.run.folder import RunFolder
from doxascope.experiments.run.joint_scores import score_runs
from doxascope.metrics import Resampling, brier_on_split_martingale
from doxascope.metrics.scoring.engine import ScoredTable

N = 120
PULL = 0.4
DRAWS = 400
Stored = Callable[..., RunFolder]


@pytest.fixture
def rivals(stored: Stored, planted: Any) -> list[RunFolder]:
    """A Bayesian and an anchored model of the same questions, each read in two ways."""
    fair, pulled = Bayesian().sample(N, 0), Anchored(pull=PULL).sample(N, 0)
    return [
        stored(planted({"words": [fair.read], "letters": [fair.read]}, fair.outcome), "fair"),
        stored(planted({"words": [pulled.read], "letters": [fair.read]}, pulled.outcome), "pulled"),
    ]


def lines(found: ScoredTable, name: str) -> dict[tuple[str, str], Any]:
    """(metric, subset) -> score, of one kind of belief."""
    return {(number.metric, number.subset): number.score for number in found.numbers if number.name == name}


def differences(found: ScoredTable) -> dict[str, Any]:
    """Methods and runs -> the difference of M."""
    return {number.method: number.score for number in found.differences if number.metric == "M_difference"}


def test_a_number_has_one_margin_that_of_the_plan(stored: Stored, planted: Any) -> None:
    fair, pulled = Bayesian().sample(N, 0), Anchored(pull=PULL).sample(N, 0)
    plan = f"registered={{metric: M, method: words, coherent: 0, margin: 0.3, n: {N}}}"
    runs = [
        stored(planted({"words": [agent.read]}, agent.outcome), name, plan)
        for name, agent in (("fair", fair), ("pulled", pulled))
    ]
    found = score_runs(runs)
    claims = [number.equivalence for number in found.numbers if (number.metric, number.subset) == ("M", "all")]
    claims += [number.equivalence for number in found.differences if number.metric == "M_difference"]
    assert [claim.params["hi"] for claim in claims if claim] == [0.3] * 3
    assert "words: asks" in to_text(page_of(found, {}))  # in the legend
    assert [verdict.coherent.margin for verdict in Lead.of_table(found).verdicts if verdict.coherent] == [0.3] * 2


def test_models_are_told_apart_on_the_questions_that_they_share(rivals: list[RunFolder]) -> None:
    found = score_runs(rivals)
    alone = score_runs(rivals[:1])
    assert alone.registered is not None
    assert (alone.registered.metric, found.registered) == ("M", None)
    words = lines(found, "exact/words")
    contrast = words["M_contrast", "model[pulled]"]
    assert contrast.n_clusters == N
    assert contrast.n_rows == 2 * N
    assert contrast.ci_lo < -PULL < contrast.ci_hi < 0
    fair, pulled = (lines(score_runs([one]), "exact/words") for one in rivals)
    assert words["M_at", "model[fair]"].estimate == pytest.approx(fair["M", "all"].estimate)
    assert words["M_at", "model[pulled]"].estimate == pytest.approx(pulled["M", "all"].estimate)
    difference = differences(found)["words, fair - words, pulled"]
    assert difference.ci_lo < PULL < difference.ci_hi
    assert difference.n_clusters == N
    apart = np.hypot(fair["M", "all"].se, pulled["M", "all"].se)
    assert max(difference.se, contrast.se) < apart / 2  # the draws that both saw cancel
    assert difference.p_adjusted < 0.05
    assert differences(found)["letters, fair - letters, pulled"].difference == pytest.approx(0, abs=1e-12)
    assert differences(found).keys() == {
        "words, fair - letters, fair",
        "words, pulled - letters, pulled",
        "words, fair - words, pulled",
        "letters, fair - letters, pulled",
    }


def test_a_difference_between_models_does_not_pass_for_a_slope(stored: Stored, planted: Any) -> None:
    """Each is a martingale, and one was certain where the other was torn: both together are none."""
    fair = Bayesian().sample(N, 0).read
    other = np.clip(1 - fair, 0, 1) * 0.1
    found = score_runs([stored(planted({"words": [one]}), name) for one, name in ((fair, "fair"), (other, "low"))])
    assert ("M", "all") not in lines(found, "exact/words")
    for model in ("fair", "low"):
        score = lines(found, f"exact/words, {model}")["M", "all"]
        assert score.ci_lo < 0 < score.ci_hi
        assert lines(found, "exact/words")["M_at", f"model[{model}]"].estimate == pytest.approx(score.estimate)


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
    found = lines(score_runs(runs, metric="brier-on-martingale"), "exact/words")
    order = sorted(range(N), key=str)  # which question is in which half goes by their order
    prior, post = np.concatenate([read[order] for read, *_ in columns]).T
    outcome = np.concatenate([outcome[order] for _, outcome, *_ in columns])
    cell = np.repeat([cell for *_, cell, _ in columns], N)
    question = [f"{name} {i}" for *_, name in columns for i in order]
    expected = brier_on_split_martingale(prior, post, outcome, question, cell, how=Resampling(draws=DRAWS))
    score = found["brier_on_M", "all"]
    assert score.as_dict()["n_cells"] == 6
    assert (score.estimate, score.ci_lo, score.n_clusters) == pytest.approx((expected.coef, expected.ci_lo, 3 * N))


def test_cells_are_pooled_where_they_share_no_question(stored: Stored, planted: Any) -> None:
    """Models share theirs, domains do not."""
    runs = []
    for model in ("fair", "pulled"):
        cells = [planted({"words": [Anchored(pull=0.3).sample(N, i).read]}, cell=name) for i, name in enumerate("abc")]
        runs.append(stored(pd.concat(cells, ignore_index=True), model))
    score = lines(score_runs(runs, metric="martingale-pooled"), "exact/words")["M_pooled", "all"]
    assert score.ci_lo < -0.3 < score.ci_hi < 0
    one = runs[0].beliefs()
    runs = [stored(one[one["cluster"].astype(str).str.startswith("a ")], model) for model in ("fair", "pulled")]
    score = lines(score_runs(runs, metric="martingale-pooled"), "exact/words")["M_pooled", "all"]
    assert score.status == "shared_clusters"


def test_a_condition_is_a_factor_where_one_model_had_it_both_ways(stored: Stored, planted: Any) -> None:
    table, cold = planted({"words": [Bayesian().sample(N, 0).read]}), "generation.temperature=0.5"
    pulled = planted({"words": [Anchored(pull=PULL).sample(N, 0).read]})
    other = planted({"words": [Anchored(pull=0.1).sample(N, 1).read]})
    runs = [stored(table, "fair"), stored(pulled, "fair", cold), stored(other, "other")]
    found = lines(score_runs(runs, metric="martingale-factors"), "exact/words")
    contrast = found["M_contrast", "generation.temperature[1.0]"]
    assert contrast.ci_lo < PULL < contrast.ci_hi
    assert ("M_contrast", "model[other]") in found
    together = [stored(table, "fair"), stored(pulled, "fair", cold, "generation.top_p=0.9")]
    found = lines(score_runs(together, metric="martingale-factors"), "exact/words")
    assert ("M_contrast", "generation.temperature and generation.top_p[1.0, 1.0]") in found
    with pytest.raises(UserError, match=r"generation.temperature differs between models and within none"):
        score_runs([stored(table, "fair"), stored(table, "other", cold)])


def test_models_of_one_name_are_told_apart(stored: Stored, planted: Any) -> None:
    table = planted({"words": [Bayesian().sample(N, 0).read]})
    found = score_runs([stored(table, "fair", weights="a"), stored(table, "fair", weights="b")])
    assert "fair (weights a); fair (weights b)" in found.understood.line


def test_questions_of_one_name_and_other_content_are_not_paired(stored: Stored, planted: Any) -> None:
    table = planted({"words": [Bayesian().sample(N, 0).read]})
    found = score_runs([stored(table, "fair"), stored(table, "other", data="e")])
    assert differences(found)["words, fair - words, other"].n_rows == 0


def test_what_is_not_comparable_is_refused(stored: Stored, planted: Any) -> None:
    table = planted({"words": [Bayesian().sample(20, 0).read]})
    first = stored(table, "fair")

    def refused(other: RunFolder) -> str:
        with pytest.raises(UserError) as told:
            score_runs([first, other])
        return str(told.value)

    assert "has another wording.opening" in refused(stored(table, "other", "wording.opening=Well."))
    worded = "methods={words: {ask: 'Is it {first}, or {second}?'}}"
    assert "has another methods.words.ask" in refused(stored(table, "other", worded))
    asked = "stated.judges={smollm2-135m: {prompt: '{steps}'}}"
    judged = stored(table, "fair", "stated.judges={smollm2-135m: {}}")
    with pytest.raises(UserError, match=r"has another stated\.judges\.smollm2-135m\.prompt"):
        score_runs([judged, stored(table, "other", asked)])
    assert "is a second run of fair under the same conditions" in refused(stored(table, "fair"))
    part = stored(table, "other")
    part.write_manifest(part.manifest | {"batches": 3})
    assert "2 batches are still to be read" in refused(part)
    start = planted({"words": [np.full((5, 1), 0.4)]})
    with pytest.raises(UserError, match="no trajectory has a step"):
        score_runs([stored(start, "fair")])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{run}", "--cluster", "x"], "--cluster, --replicates, --by and --map are for tables"),
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
    assert "martingale, 2 runs (fair; pulled); 120 items, clusters: 120" in " ".join(done.output.split())
    kept = json.loads((out / "scores.json").read_text())
    assert kept["settings"] == {"metric": "all", "seed": 1}
    compared = {row["method"] for row in kept["scores"] if row["metric"] == "M_difference"}
    assert "words, fair - words, pulled" in compared
    assert "exact/words, pulled" in (out / "report.html").read_text()


def test_models_that_are_a_sample_have_a_number_over_them_with_what_they_differ_by(
    stored: Stored, planted: Any
) -> None:
    pulls = (0.0, 0.1, 0.3, 0.4)
    tables = [planted({"words": [Anchored(pull=pull).sample(N, 0).read]}) for pull in pulls]

    def together(target: str) -> ScoredTable:
        plan = f"registered={{metric: M, method: words, n: {N}, target: {target}}}"
        runs = [stored(table, f"{target[-4:]}{i}", plan) for i, table in enumerate(tables)]
        return score_runs(runs)

    models = together("items and models")
    found = {(number.metric, number.run): number for number in models.numbers if number.subset == "all"}
    over = found["M_over_models", ""].score
    slopes = [number.score.estimate for (metric, _), number in found.items() if metric == "M"]
    assert len(slopes) == len(pulls)
    assert over.estimate == pytest.approx(np.mean(slopes))
    assert over.se**2 > np.var(slopes, ddof=1) / len(pulls) * 0.99
    assert models.registered is not None
    assert models.registered.among(models.numbers) is found["M_over_models", ""]
    text = Lead.of_table(models).primary[2]
    assert any("Inference is to items and to models like these" in line for line in text)
    items = together("items")
    assert items.registered is None
    assert not [number for number in items.numbers if number.metric.endswith("_over_models")]
