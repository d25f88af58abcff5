"""Agents with a known slope, pushed through the experiment's own table, are recovered."""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy
import statsmodels.api as sm

from doxascope import UserError
from doxascope.benchmarks.agents import Anchored, Bayesian, PriorNoise
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.experiment import Experiment, RunConfig
from doxascope.experiments.run.scores import score_run
from doxascope.experiments.suite.martingale.page import figures
from doxascope.experiments.suite.martingale.readings import readings
from doxascope.metrics import Score
from doxascope.metrics.number import Number
from doxascope.metrics.tables.belief_parts import BeliefParts

N = 400
Planted = Callable[..., pd.DataFrame]
Found = Mapping[tuple[str, str, str], Score]
"""(metric, method, subset) -> score."""


def numbers_of(made: tuple[Experiment, RunConfig], table: pd.DataFrame) -> list[Number]:
    experiment, config = made
    return score_run(experiment, config, table)


def by_name(numbers: Sequence[Number]) -> Found:
    return {(number.metric, number.method, number.subset): number.score for number in numbers}


@pytest.fixture(scope="module")
def numbers(configured: Any, planted: Planted) -> list[Number]:
    """Of a Bayesian, an anchored one, and a Bayesian who is read with noise, twice."""
    made = configured("bootstrap_draws=300")
    sound = Bayesian().sample(N, 0)
    noisy = PriorNoise()
    silent = noisy.of.sample(N, 2)
    table = planted(
        {
            "sound": [sound.read, sound.read],
            "noisy": [noisy.reading(silent.belief, 3), noisy.reading(silent.belief, 4)],
            "anchored": [Anchored(pull=0.3).sample(N, 1).read] * 2,
        },
        sound.outcome,
    )
    said = table["method"] != "anchored"
    table = table.assign(kind=table["kind"].astype(str).mask(said, "verbal"))
    return numbers_of(made, table)


@pytest.fixture(scope="module")
def found(numbers: list[Number]) -> Found:
    return by_name(numbers)


def test_a_bayesian_has_no_slope_no_drift_and_is_calibrated(found: Found) -> None:
    for metric in ("M", "M_step", "M_balanced", "M_iv", "mean_update"):
        score = found[metric, "sound", "factual, cot, none"]
        assert score.ci_lo < 0 < score.ci_hi
        assert score.n_clusters == N
    assert found["tests_step", "sound", "all"].p > 0.05
    calibration = found["calibration", "sound", "all"]
    assert calibration.ci_lo < 1 < calibration.ci_hi
    assert found["brier_post", "sound", "all"].estimate < found["brier_prior", "sound", "all"].estimate < 0.25
    assert found["brier_update", "sound", "all"].estimate < 0


def test_a_wording_that_shifts_and_scrambles_beliefs_is_told_from_the_belief(configured: Any, planted: Planted) -> None:
    rng = np.random.default_rng(7)
    belief, wordings = rng.uniform(0.3, 0.7, (N, 2)), 5
    shift, noise = rng.normal(0, 0.05, wordings), 0.1
    read = [np.clip(belief + one + rng.normal(0, noise, belief.shape), 0, 1) for one in shift]
    table = planted({"words": read}, facet="wording")
    (number,) = [
        one
        for one in numbers_of(configured("bootstrap_draws=300"), table)
        if (one.metric, one.subset) == ("reliability_wording", "all")
    ]
    share = belief.var() / (belief.var() + noise**2)
    assert number.score.ci_lo < share < number.score.ci_hi
    assert "5" in number.beside["wordings"]


def test_an_anchored_agent_is_found_at_its_pull(found: Found, numbers: list[Number]) -> None:
    score = found["M", "anchored", "all"]
    assert score.ci_lo < Anchored(pull=0.3).slope < score.ci_hi < -0.1
    assert found["tests_step", "anchored", "all"].p < 0.02
    near = {number.key[:2]: number.value("equivalence") for number in numbers if number.subset == "all"}
    assert near["M", "anchored"] > 0.5


def test_noise_pulls_the_slope_down_and_split_readings_undo_it(found: Found) -> None:
    plain, split = found["M_step", "noisy", "all"], found["M_iv", "noisy", "all"]
    reliability = found["reliability", "noisy", "all"]
    assert plain.ci_hi < 0  # the mean of two readings still has half of their noise
    assert split.ci_lo < 0 < split.ci_hi
    assert split.n_rows == N
    assert reliability.n_rows == 2 * N
    assert reliability.estimate == pytest.approx(PriorNoise().reliability, abs=0.08)


def test_what_noise_of_known_reliability_takes_is_given_back(found: Found) -> None:
    plain, corrected = found["M_step", "noisy", "all"], found["M_corrected", "noisy", "all"]
    assert plain.ci_hi < 0
    assert corrected.ci_lo < 0 < corrected.ci_hi
    assert (corrected.n_rows, corrected.n_clusters) == (N, N)
    reliability = (1 + plain.estimate) / (1 + corrected.estimate)
    assert corrected.as_dict()["reliability"] == pytest.approx(reliability)
    halved = PriorNoise().half_width ** 2 / 3 / 2  # the mean of two readings is scored
    assert reliability == pytest.approx(Bayesian().variance(0) / (Bayesian().variance(0) + halved), abs=0.05)
    assert found["M_corrected", "sound", "all"].estimate == pytest.approx(found["M_step", "sound", "all"].estimate)
    assert ("M_corrected", "anchored", "all") not in found  # exact: two orders of the options are no replicates


def test_equal_priors_have_no_reliability_to_correct_by(configured: Any, planted: Planted) -> None:
    made = configured()
    read = Bayesian().sample(20, 0).read.copy()
    read[:, 0] = 0.5
    table = planted({"said": [read, read]}).assign(kind="verbal")
    score = by_name(numbers_of(made, table))["M_corrected", "said", "all"]
    assert (score.status, np.isnan(score.estimate)) == ("zero_variance_prior", True)


@pytest.mark.parametrize("most", [0.0, 0.8])
def test_cells_that_are_pulled_to_the_middle_forecast_worse(configured: Any, planted: Planted, most: float) -> None:
    """M below zero by the pull, and a Brier score that grows with it."""
    made = configured("bootstrap_draws=100")
    cells = [Anchored(pull=pull).sample(120, i) for i, pull in enumerate(np.linspace(0, most, 16))]
    tables = [planted({"words": [one.read]}, one.outcome, f"cell {i}") for i, one in enumerate(cells)]
    score = by_name(numbers_of(made, pd.concat(tables, ignore_index=True)))["brier_on_M", "words", "all"]
    assert score.as_dict()["n_cells"] == 16
    assert score.n_clusters == 16 * 120
    assert (score.ci_hi < 0) == (most > 0)
    assert score.ci_lo < 0
    few = by_name(numbers_of(made, pd.concat(tables[:4], ignore_index=True)))["brier_on_M", "words", "all"]
    assert (few.status, np.isnan(few.estimate)) == ("too_few", True)


def test_methods_are_compared_on_the_same_questions(found: Found) -> None:
    score = found["M_difference", "sound - anchored", "all"]
    assert score.ci_lo < 0.3 < score.ci_hi
    assert score.as_dict()["p_adjusted"] < 0.05
    assert score.as_dict()["family_size"] == 3
    same = found["agreement", "", "sound - anchored"]
    assert abs(same.estimate) < 0.2


def test_a_step_without_a_belief_is_never_bridged(configured: Any, planted: Planted) -> None:
    made = configured()
    read = Bayesian(steps=2).sample(30, 0).read.copy()
    read[:6, 1] = np.nan
    found = by_name(numbers_of(made, planted({"words": [read, read]})))
    step, whole = (found[metric, "words", "all"] for metric in ("M_step", "M"))
    assert (step.n_rows, step.n_dropped, step.reasons) == (60 - 12, 12, {"nan": 12})
    assert (whole.n_rows, whole.n_dropped) == (30, 0)
    assert found["unparsed", "words", "all"].estimate == pytest.approx(6 / 90)
    one = read.copy()
    one[:3, 2] = np.nan
    assert by_name(numbers_of(made, planted({"words": [read, one]})))["M", "words", "all"].n_dropped == 3


def test_without_any_step_there_is_nothing_to_score(configured: Any, planted: Planted) -> None:
    made = configured()
    start = np.full((5, 1), 0.4)
    with pytest.raises(UserError, match="no trajectory has a step"):
        numbers_of(made, planted({"words": [start, start]}))


def test_numbers_do_not_depend_on_the_parts_of_a_table(
    configured: Any, planted: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second half of the items lacks a reading that the first has, and a method."""
    agent = Bayesian(steps=2).sample(12, 0)
    read = agent.read.copy()
    read[6:] = np.nan
    table = planted({"words": [agent.read, read], "letters": [agent.read]}, agent.outcome)
    table = table.sort_values("item", kind="stable", ignore_index=True)
    late = table["item"].isin(table["item"].unique()[6:])
    table = table[~(late & (table["method"] == "letters"))]
    whole = numbers_of(configured("bootstrap_draws=20"), table)
    monkeypatch.setattr(f"{BeliefParts.__module__}.ROWS_AT_ONCE", 1)
    assert len(list(BeliefParts.of(table))) == 12
    by_parts = numbers_of(configured("bootstrap_draws=20"), table)
    assert [repr((one.key, one.score)) for one in by_parts] == [repr((one.key, one.score)) for one in whole]


def test_a_method_without_any_number_has_statuses_and_no_figure(configured: Any, planted: Planted) -> None:
    made = configured()
    silent = np.full((20, 2), np.nan)
    table = planted({"greedy": [silent]})
    numbers = numbers_of(made, table)
    assert by_name(numbers)["M", "greedy", "all"].status == "too_few"
    assert figures(readings(table), numbers, [], []) == []


def test_equal_priors_have_a_status_and_no_slope(configured: Any, planted: Planted) -> None:
    made = configured()
    read = Bayesian().sample(20, 0).read.copy()
    read[:, 0] = 0.5
    found = by_name(numbers_of(made, planted({"words": [read, read]})))
    assert found["M", "words", "all"].status == "zero_variance_prior"
    assert np.isnan(found["M", "words", "all"].estimate)
    assert np.isfinite(found["mean_update", "words", "all"].estimate)


@pytest.mark.parametrize("drift", [0.0, 0.12])
def test_drift_within_a_question_is_found_where_there_is_some(configured: Any, planted: Planted, drift: float) -> None:
    made = configured("chains=8")
    updates = Bayesian().chains(40, 8, 5, drift)
    start = np.full(40, 0.5)
    base = planted({"words": [np.column_stack([start, start + updates[:, 0]])] * 2})
    more = []
    for draw in range(1, 8):
        table = planted({"words": [np.column_stack([start, start + updates[:, draw]])] * 2})
        later = table[table["step"] == 1].copy()
        later["draw"] = draw
        later["readout_id"] += f"/{draw}"
        more.append(later)
    numbers = numbers_of(made, pd.concat([base, *more], ignore_index=True))
    (score,) = [number.score for number in numbers if number.metric == "drift2"]
    assert score.ci_lo < drift**2 < score.ci_hi
    assert score.as_dict()["n_chains"] == 320
    assert (score.p < 0.05) == (drift > 0)


def test_drift_is_not_tested_under_another_law_or_with_few_chains(configured: Any, planted: Planted) -> None:
    read = Bayesian().sample(20, 0).read
    for changes in (("chains=7",), ("chains=8", "generation.temperature=0.7"), ("chains=8", "generation.top_p=0.9")):
        numbers = numbers_of(configured(*changes), planted({"words": [read, read]}))
        assert "drift2" not in {number.metric for number in numbers}


def test_the_slope_is_told_apart_by_domain(configured: Any, planted: Planted) -> None:
    made = configured("bootstrap_draws=200")
    fair = planted({"words": [Bayesian().sample(200, 0).read] * 2})
    pulled = planted({"words": [Anchored(pull=0.4).sample(200, 1).read] * 2}, cell="values")
    found = by_name(numbers_of(made, pd.concat([fair, pulled], ignore_index=True)))
    own = found["M", "words", "factual, cot, none"]
    assert found["M_at", "words", "domain[factual]"].estimate == pytest.approx(own.estimate)
    contrast = found["M_contrast", "words", "domain[values]"]
    assert contrast.ci_lo < -0.4 < contrast.ci_hi < 0


def test_the_papers_setups_have_its_names_its_means_and_its_regressions(
    configured: Any, planted: Planted, published: Callable[..., pd.DataFrame]
) -> None:
    """Figure 4 and Figure 5 with controls against plain least squares over the setups of two models."""
    experiment, config = configured("bootstrap_draws=20")
    rng, runs = np.random.default_rng(0), []
    for model in ("small", "large"):
        parts = []
        for domain, prompt, pull in [
            (d, p, rng.uniform(0, 0.6)) for d in ("values", "review") for p in ("none", "critical")
        ]:
            sound = Anchored(pull=pull).sample(60, int(rng.integers(1000)))
            outcome = (rng.random(60) < 0.5).astype(float)
            part = planted({"words": [sound.read]}, outcome, cell=f"{domain}-{prompt}")
            parts.append(part.assign(domain=domain, prompt=prompt, scenario=f"{domain}, cot, {prompt}"))
        runs.append((model, config, score_run(experiment, config, pd.concat(parts, ignore_index=True))))
    found = published(experiment, *runs)
    first = found[found["table"] == "Table 1"].set_index(["model", "prompt", "column"])["value"]
    columns = ("values (smoke set), CoT", "review (smoke set), CoT")  # the shipped questions are not the paper's
    places = product(("small", "large"), ("No Prompt", "CT Prompt"), columns)
    assert set(first.index) == {*places}
    sizes = found[(found["table"] == "Section 6.1") & (found["column"] == "mean |M|")].set_index("setups")
    for prompt in ("No Prompt", "CT Prompt"):
        own = first.xs(prompt, level="prompt").abs()
        assert sizes.loc[prompt, "value"] == pytest.approx(own.mean())
        half = scipy.stats.norm.ppf(0.975) * own.std(ddof=1) / 2
        assert sizes.loc[prompt, "ci_hi"] == pytest.approx(own.mean() + half, abs=1e-6)
    each = found[found["table"] == "Figure 4"].pivot(
        index=["model", "prompt", "domain"], columns="column", values="value"
    )
    assert len(each) == 8
    x, y = each["|M|"].to_numpy(), each["Brier Score"].to_numpy()
    dummies = [pd.get_dummies(each.index.get_level_values(i)).to_numpy(float)[:, 0] for i in range(3)]
    slopes = found[found["table"] == "Figure 5"].pivot(index="controls", columns="column", values="value")
    assert set(slopes.index) == {"none", "domain", "domain, model", "domain, model, prompt"}
    for controls, held in (("none", []), ("domain", dummies[2:]), ("domain, model, prompt", dummies)):
        fit = sm.OLS(y, np.column_stack([np.ones(8), x, *held])).fit()
        expected = [fit.params[1], fit.bse[1], fit.pvalues[1], fit.rsquared]
        assert list(slopes.loc[controls, ["slope on |M|", "SE", "p", "R²"]]) == pytest.approx(expected)


def test_a_design_with_a_judge_asks_for_one(configured: Any) -> None:
    experiment, config = configured("requires_judge=true", "stated.judges={}")
    with pytest.raises(UserError, match=r"stated\.judges: none is named") as caught:
        experiment.settle(config, None)
    assert "\n" not in str(caught.value)
    assert load_config("martingale")[1].stated.judges == {}
    assert load_config("martingale-paper")[1].model_dump()["requires_judge"]
