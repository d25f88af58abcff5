"""Agents who act on what they state, and those who do not, are told apart through the experiment's own table."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit

from doxascope.benchmarks.agents.decisions import Deciding
from doxascope.experiments.run.addons.inner_readouts import ADJUSTED, scored_beside
from doxascope.experiments.run.experiment import Item
from doxascope.experiments.run.folder import RunFolder
from doxascope.experiments.run.joint_scores import score_runs
from doxascope.experiments.run.scores import score_run
from doxascope.experiments.suite.rationality.ask import acted_rows
from doxascope.experiments.suite.rationality.page import VIOLATION, choice_figure, latent_figure
from doxascope.experiments.suite.rationality.samples import Actions, actions, detailed, methods, repeated
from doxascope.experiments.suite.rationality.scores import _bootstrapped, forest_ratio
from doxascope.metrics import ClusterMean, belief_table
from doxascope.metrics.claims import verdicts
from doxascope.metrics.number import Number

N = 120
Planted = Callable[..., pd.DataFrame]
Found = Mapping[tuple[str, str, str], Number]


@pytest.fixture(scope="module")
def found(configured: Any, planted: Planted) -> Callable[..., Found]:
    """(metric, method, subset) -> number of an agent's table."""
    experiment, config = configured("bootstrap_draws=100", "iterations=3")

    def score(agent: Deciding, seed: int = 0, **more: Any) -> Found:
        one = agent.sample(N, seed)
        extra = {name: make(one) for name, make in more.pop("methods", {}).items()}
        numbers = score_run(experiment, config, planted(one, extra, **more))
        return {(number.metric, number.method, number.subset): number for number in numbers}

    return score


def value(found: Found, metric: str, method: str = "words", subset: str = "all") -> Any:
    return found[metric, method, subset].score


def test_a_rational_agent_passes_every_headline_test(found: Callable[..., Found]) -> None:
    sound = found(Deciding(), methods={"held": lambda one: one.held[:, None]})
    assert value(sound, "sufficiency").estimate > 0.99
    assert value(sound, "cyclic").estimate < 1e-6
    assert value(sound, "menu_shift", "menu").estimate == pytest.approx(0, abs=1e-9)  # logistic shocks have IIA
    assert value(sound, "response").ci_lo > 0.5
    assert value(sound, "reliability").estimate == pytest.approx(1)
    assert value(sound, "weighting").ci_lo <= 1 <= value(sound, "weighting").ci_hi
    assert value(sound, "gcm_exact").status == "nothing_left"
    assert value(sound, "knows_more").status == "nothing_left"  # no choice is left that the belief does not explain
    for target in ("action", "truth"):
        assert value(sound, f"latent_{target}", "held beyond words").status == "nothing_left"  # it states what it holds
    for pair in ("Yes against No", "Yes against Defer", "Defer against No"):
        assert value(sound, "discordant_pair", subset=pair).estimate == 0
    assert value(sound, "cmi").p > 0.01


def test_an_agent_who_hides_knowledge_acts_on_more_of_the_truth_than_it_states(found: Callable[..., Found]) -> None:
    hiding = found(Deciding(hides=True), methods={"held": lambda one: one.held[:, None]})
    assert value(hiding, "sufficiency").ci_hi < 0.9
    assert value(hiding, "gcm_exact").p < 0.001
    assert value(hiding, "knows_more").p <= 0.01
    assert value(hiding, "knows_more").ci_lo > 0.3
    assert value(hiding, "reliability").estimate == pytest.approx(1)
    for target in ("action", "truth"):
        beyond = value(hiding, f"latent_{target}", "held beyond words")
        assert beyond.p < 0.01
        assert beyond.ci_lo > 0.3
    assert value(hiding, "latent_action", "words beyond held").status == "nothing_left"
    assert value(hiding, "gcm_exact", "held").status == "nothing_left"


def test_choices_between_tickets_tell_the_belief_that_is_acted_on(configured: Any, planted: Planted) -> None:
    """Of one who states less than it knows, and has a taste for the ticket that is named first."""
    stakes = (2, 5, 20, 35, 50, 65, 80, 95, 98)
    experiment, config = configured("bootstrap_draws=100", "iterations=3", f"stakes={[*stakes]}")
    one = Deciding(hides=True).sample(N, 0)
    acted: list[dict[str, Any]] = []
    for i, (held, truth) in enumerate(zip(one.held, one.p_star, strict=True)):
        item = Item(f"x{i:04}", f"x{i:04}", {"p_star": truth})
        where = {"experiment": "rationality", "item": item.id, "cluster": item.id, "kind": "exact", "status": "ok"}
        rows = []
        for percent in stakes:
            for reading, taste in enumerate((0.8, -0.8)):
                likes = 3 * (logit(held) - logit(percent / 100)) + taste
                bet = where | {"scenario": "ticket", "percent": percent, "reading": reading, "coverage": 0.9}
                rows += [
                    bet | {"option_index": k, "logp": np.log(0.9 * expit(z))} for k, z in enumerate((likes, -likes))
                ]
        acted += [row | {"outcome": one.outcome[i]} for row in acted_rows(config, item, rows)]
    told = belief_table(acted)
    said = told[(told["option_index"] == 0)].set_index("item")["prob"]
    inside = (one.held > 0.02) & (one.held < 0.98)
    assert np.array_equal(np.isfinite(said.to_numpy()), inside)
    assert (
        np.abs(said.to_numpy() - one.held)[inside].max() < 0.03
    )  # a straight line between chances that are 15 points apart
    assert set(told.loc[told["prob"].isna(), "status"]) == {"out_of_range"}
    table = pd.concat([planted(one), told], ignore_index=True)
    numbers = {(number.metric, number.kind, number.method, number.subset): number.score
               for number in score_run(experiment, config, table)}  # fmt: skip
    acts, says = (numbers["sufficiency", *read, "all"] for read in (("acted", "tickets"), ("exact", "words")))
    assert acts.estimate > 0.97
    assert acts.n_dropped == (~inside).sum()
    assert says.ci_hi < 0.9
    hidden = numbers["latent_action", "", "tickets beyond words", "all"]
    assert hidden.p < 0.01
    assert hidden.ci_lo > 0.3


def test_a_layer_holds_what_the_agent_hides(configured: Any, planted: Planted) -> None:
    """As a run scores the layers that pass their gates, beside what is said."""
    experiment, config = configured("bootstrap_draws=100")
    one = Deciding(hides=True).sample(N, 0)
    table = planted(one, {"words/raw@9": one.held[:, None]})
    inner = table["method"] == "words/raw@9"
    lines = table[table["scenario"] == "line 1"].assign(kind="probe", method="tree/probe")
    said, held = table[~inner], pd.concat([table[inner].assign(kind="lens"), lines])
    found = {(number.metric, number.method): number for number in scored_beside(experiment, config, said, held)}
    assert found["sufficiency", "words/raw@9"].score.estimate > 0.99
    assert found["knows_more", "words/raw@9"].score.status == "nothing_left"
    assert found["sufficiency_difference", "words - words/raw@9"].score.ci_hi < 0
    for target in ("action", "truth"):
        beyond = found[f"latent_{target}", "words/raw@9 beyond words"]
        assert beyond.score.ci_lo > 0.3
        assert float(beyond.beside[ADJUSTED].split()[0]) >= beyond.score.p
    assert found["latent_action", "words beyond words/raw@9"].score.status == "nothing_left"
    assert not {number for _, number in found if number == "words"}
    assert scored_beside(experiment, config, said, held[:0]) == []


def test_an_agent_who_acts_on_a_distorted_belief_knows_no_more_of_the_truth(found: Callable[..., Found]) -> None:
    distorted = found(Deciding(distortion=1.5))
    assert value(distorted, "sufficiency").ci_hi < 0.9
    assert value(distorted, "cyclic").estimate > 0.05
    assert abs(value(distorted, "gcm_exact").estimate) < 3.3  # two-sided p above 0.001
    assert value(distorted, "knows_more").p > 0.01
    assert value(distorted, "reliability").estimate == pytest.approx(1)


def test_a_weighting_is_found_at_its_exponent_and_is_no_other_fault(found: Callable[..., Found]) -> None:
    weighting = found(Deciding(gamma=0.5))
    score = value(weighting, "weighting")
    assert score.estimate == pytest.approx(0.5, abs=0.15)
    assert score.ci_hi < 1
    assert value(weighting, "sufficiency").estimate > 0.99
    assert value(weighting, "cyclic").estimate < 1e-6


def test_noise_of_the_report_shows_in_its_reliability(found: Callable[..., Found]) -> None:
    noisy = found(Deciding(noise=1.5))
    reliability = value(noisy, "reliability")
    assert reliability.ci_hi < 0.9
    assert value(noisy, "sufficiency").ci_hi < 0.95
    assert value(noisy, "gcm_exact").estimate > 2  # noise breaks sufficiency for a truthful agent, too


def test_a_prompt_that_moves_the_belief_is_found_at_what_it_moves(found: Callable[..., Found]) -> None:
    paid = found(Deciding(), prompts={"squared": 0.0, "absolute": 0.02})
    assert value(paid, "prize_effect", subset="prompt squared").estimate == 0
    assert value(paid, "prize_effect", subset="prompt absolute").as_dict()["mean_shift"] == pytest.approx(
        0.02, abs=0.002
    )


def test_a_random_policy_passes_independence_and_fails_sufficiency(found: Callable[..., Found]) -> None:
    """Remark 1 of the paper: independence alone does not make an agent rational."""
    rng = np.random.default_rng(1)
    told = found(Deciding(), methods={"random": lambda one: rng.random((N, 1))})
    assert value(told, "sufficiency", "random").ci_hi < 0.3
    assert value(told, "response", "random").ci_lo < 0.2


def test_two_models_of_the_same_contexts_are_compared_in_pairs(
    configured: Any, planted: Planted, stored_run: Callable[..., RunFolder], tmp_path: Path
) -> None:
    """One states all that it knows, the other a part: the difference of their sufficiency is found."""
    _, config = configured("bootstrap_draws=100", "iterations=3")
    folders = [
        stored_run(tmp_path / name, config, planted(agent.sample(N, 0)), name, weights=name)
        for name, agent in (("frank", Deciding()), ("hiding", Deciding(hides=True)))
    ]
    found = {number.metric: number.score for number in score_runs(folders, metric="sufficiency").differences}
    difference = found["sufficiency_difference"]
    assert difference.n_clusters == N
    assert difference.ci_lo > 0.1


@pytest.mark.parametrize(("of_cases", "ratio"), [(0.4, 0.0), (0.8, 1.0)])
def test_a_forest_of_a_constant_truth_violates_nothing_and_of_cases_that_differ_all_they_do(
    configured: Any, of_cases: float, ratio: float
) -> None:
    _, config = configured()
    n = 20
    items = np.array([f"x{i}" for i in range(n)])
    constant, blank = np.full(n, 0.4), np.zeros((n, 3))
    acts = Actions(
        items, constant, constant, constant, blank, blank[:, :2], blank, {}, [{"a": str(i % 3)} for i in range(n)]
    )
    rows = [
        {"scenario": scenario, "option_index": 0, "item": item, "case": case, "truth": of_cases, **auxiliary}
        for item in items
        for scenario, case, auxiliary in (
            ("auxiliary", np.nan, {"covariate": "z", "shares": [0.3, 0.7]}),
            ("case", 0, {"covariate": None, "shares": None}),
            ("case", 1, {"covariate": None, "shares": None}),
        )
    ]
    found = forest_ratio(config, pd.DataFrame(rows), acts)
    assert found is not None
    assert found.estimate == pytest.approx(ratio)


def test_actions_are_predicted_on_repetitions_whose_contexts_no_fold_divides(
    configured: Any, planted: Planted, published: Callable[..., pd.DataFrame]
) -> None:
    """Five actions and, where they were sampled, five beliefs of each context, resampled together."""
    one = Deciding().sample(40, 0)
    said = np.clip(one.stated[:, :1] + 0.1 * np.random.default_rng(0).standard_normal((40, 5)), 0, 1)
    experiment, config = configured("bootstrap_draws=200", "iterations=3")
    table = planted(one, {"json sampled": said}, prompts={"squared": 0.0})
    silent = (table["method"] == "json sampled") & (table["item"] == "x0003") & (table["reading"] == 2)
    table = table.assign(prob=table["prob"].mask(silent), status=table["status"].mask(silent, "unparsed"))
    said[3, 2] = np.nan
    rows = detailed(table)
    acts = actions(config, rows)
    words, sampled = (repeated(config, method, acts) for method in methods(rows, acts.items))
    assert (len(words.of), len(sampled.of)) == (200, 199)
    np.testing.assert_allclose(sampled.belief, said[np.isfinite(said)])
    np.testing.assert_allclose(words.belief, one.stated.mean(axis=1)[words.of])
    numbers = score_run(experiment, config, table)
    gain = next(n.score for n in numbers if (n.metric, n.method) == ("logloss_gain", "words"))
    assert (gain.n_rows, gain.n_clusters) == (200, 40)
    assert gain.as_dict()["pct_ci"][0] < gain.as_dict()["pct"] < gain.as_dict()["pct_ci"][1]
    rows = published(experiment, ("m", config, numbers)).to_dict("records")
    paper = {(row["table"], row["column"], row["read as"]): row for row in rows}
    row = paper["Table 1", "CB: A ~ p v. A ~ (p, θ), % Impr", "words"]
    assert row["ci_lo"] < row["value"] < row["ci_hi"]
    assert ("Table 3", "π_0, Std", "words") not in paper  # which was read once
    off = np.concatenate([row[np.isfinite(row)] - np.nanmean(row) for row in said])
    assert paper["Table 3", "π_0, Std", "json sampled"]["value"] == pytest.approx(np.sqrt(np.sum(off**2) / 159))


@pytest.mark.parametrize(("fall", "marked"), [(0.0, False), (0.17, False), (0.6, True)])
def test_a_fall_of_choices_is_red_where_it_is_significant(
    configured: Any, planted: Planted, fall: float, marked: bool
) -> None:
    """Figure 1: shares of yes that rise with the belief but for the highest fifth, which falls by so much."""
    _, config = configured("seed=1")
    rows = detailed(planted(Deciding().sample(N, 0)))
    acts = actions(config, rows)
    (one,) = methods(rows, acts.items)
    place = np.argsort(np.argsort(one.belief)) / N
    yes = 0.1 + 0.8 * place - fall * (place >= 0.8)
    tree = np.column_stack([1 - yes, np.zeros(N), yes])
    figure = choice_figure(config, [one], replace(acts, tree=tree))
    assert (VIOLATION in figure.data) == marked
    assert "means of fifths" in figure.data


def test_a_star_stands_at_what_one_belief_knows_beyond_another() -> None:
    scores = {"a beyond b": ClusterMean(mean=0.4, p=1e-4), "b beyond a": ClusterMean(mean=-0.1, p=0.5)}
    numbers = [Number(metric="latent_action", method=name, score=score) for name, score in scores.items()]
    written = latent_figure(["a", "b"], numbers).data
    assert "+0.40*" in written
    assert "-0.10" in written
    assert "-0.10*" not in written


def test_repetitions_of_two_contexts_have_no_published_information(configured: Callable[..., Any]) -> None:
    """No interval of width zero: neighbours among copies of two contexts are no sample."""
    _, config = configured("resamples=50")
    rng = np.random.default_rng(0)
    for n, known in ((2, False), (30, True)):
        owners, belief = np.repeat(np.arange(n), 20), np.repeat(np.linspace(0.2, 0.8, n), 20)
        taken, outcome = (belief > 0.5).astype(int), rng.integers(0, 2, len(belief)).astype(float)
        score = _bootstrapped(config, taken, outcome, belief, owners)
        assert np.isfinite([score.cmi, score.ci_lo]).all() == known
        assert score.status == ("ok" if known else "too_few")


def test_without_cases_nothing_is_said_of_coherence(configured: Any, planted: Planted) -> None:
    """No belief is set against what it should be made of, so that a rational agent does not pass, either."""
    one = Deciding().sample(30, 5)
    belief = one.stated.mean(axis=1, keepdims=True)
    cases = (belief + 0.3 * np.minimum(belief, 1 - belief) * [-1, 1], np.full((30, 2), 0.5))
    for given in (None, cases):
        experiment, config = configured("iterations=1", *(["iterated=false"] if given is None else []))
        found = {v.method: v for v in verdicts(score_run(experiment, config, planted(one, cases=given)))}["words"]
        assert (found.states[2] == "not tested") == (given is None)
        assert ("coherence not tested" in found.sentence) == (given is None)
