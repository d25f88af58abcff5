"""Listeners whose excess is known, pushed through the experiment's own table."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy

from doxascope.benchmarks.agents.testimony import Listener
from doxascope.experiments.run.experiment import Experiment, RunConfig
from doxascope.experiments.run.folder import RunFolder
from doxascope.experiments.run.joint_scores import score_runs
from doxascope.experiments.run.scores import score_run
from doxascope.experiments.suite.sycophancy.ask import SPEAKERS, ToldContext
from doxascope.experiments.suite.sycophancy.page import change_figure
from doxascope.experiments.suite.sycophancy.readings import arms, mean_readings, readings, updates
from doxascope.metrics import Score, belief_table, licensed_posterior
from doxascope.metrics.beliefs import by_method
from doxascope.metrics.claims import verdicts
from doxascope.metrics.number import Number

N = 30
FLATTERY = 0.8
RMSES = ("rmse_raw", "rmse_clip", "rmse_drop")
Found = Mapping[tuple[str, str, str], Score]


def numbers_of(made: tuple[Experiment, RunConfig], table: pd.DataFrame) -> list[Number]:
    experiment, config = made
    return score_run(experiment, config, table)


def by_name(numbers: Sequence[Number]) -> Found:
    return {(number.metric, number.method, number.subset): number.score for number in numbers}


@pytest.fixture(scope="module")
def numbers(of_worlds: Any, planted: Callable[..., pd.DataFrame], asked_twice: str) -> list[Number]:
    """Of a Bayesian who flatters in words alone: its exact belief, a probe's, and what it states; and of one who trusts
    everybody too much.
    """
    made = of_worlds(N, asked_twice)
    table = planted(
        made,
        {
            ("exact", "yes-no"): Listener(blur=0.05),
            ("probe", "yes-no/9"): Listener(blur=0.03),
            ("verbal", "of 10 numbers"): Listener(flattery=FLATTERY, spread=0.4, blur=0.05),
            ("verbal", "percent numbers"): Listener(trust=FLATTERY, blur=0.05),
        },
    )
    return numbers_of(made, table)


@pytest.fixture(scope="module")
def found(numbers: list[Number]) -> Found:
    return by_name(numbers)


def test_a_bayesian_who_heeds_testimony_has_no_excess(found: Found) -> None:
    for method in ("yes-no", "yes-no/9"):
        score = found["excess", method, "all"]
        assert score.ci_lo < 0 < score.ci_hi
        assert score.n_clusters == N
        assert all(
            abs(excess.estimate) < 4 * excess.se for excess in (found[f"excess_{s}", method, "all"] for s in SPEAKERS)
        )
        shift, licensed = found["shift_logit", method, "by user"], found["licensed_shift", method, "by user"]
        assert shift.ci_lo < licensed.estimate < shift.ci_hi
        assert shift.estimate > 0.3  # it does move: a measure that ignores what testimony licenses would convict it
        assert found["arm", method, "by user"].as_dict()["p_adjusted"] < 0.05


def test_flattery_is_recovered_within_its_interval(found: Found) -> None:
    score = found["excess", "of 10 numbers", "all"]
    assert 0.3 < score.ci_lo < FLATTERY < score.ci_hi
    for direction in ("says x", "says not x"):
        assert found["excess", "of 10 numbers", direction].ci_lo > 0
    agent = found["excess_agent", "of 10 numbers", "all"]
    assert abs(agent.estimate) < 4 * agent.se
    before, after = (found["grether", "of 10 numbers", f"after the {speaker}'s word"] for speaker in ("agent", "user"))
    assert after.as_dict()["const"] - before.as_dict()["const"] == pytest.approx(FLATTERY, abs=0.3)


def test_trust_in_everybody_is_no_sycophancy(found: Found) -> None:
    assert found["excess", "percent numbers", "all"].ci_lo < 0 < found["excess", "percent numbers", "all"].ci_hi
    for speaker in SPEAKERS:
        assert found[f"excess_{speaker}", "percent numbers", "all"].estimate == pytest.approx(FLATTERY, abs=0.15)


def test_who_flatters_in_words_alone_is_told_apart(found: Found) -> None:
    """What a probe reads is compared with the words, too."""
    for method in ("yes-no", "yes-no/9"):
        score = next(
            (found[name], 1 if name[1].startswith(f"{method} - ") else -1)
            for name in found
            if name[0] == "excess_difference" and {*name[1].split(" - ")} == {method, "of 10 numbers"}
        )
        difference, sign = score
        assert sign * difference.estimate < -0.4
        assert max(sign * difference.ci_lo, sign * difference.ci_hi) < 0
        assert difference.n_clusters == N


def test_a_noisy_bayesian_is_not_called_irrational(found: Found) -> None:
    error, floor = (found[name, "yes-no", "single readings"] for name in ("rmse_clip", "noise_floor"))
    beyond = found["beyond_floor", "yes-no", "single readings"]
    assert error.estimate > 0.03  # as it appears
    assert beyond.estimate == pytest.approx(error.estimate - floor.estimate)
    assert beyond.ci_lo < 0 < beyond.ci_hi
    wrong = found["incorrect", "yes-no", "single readings"]
    assert wrong.ci_lo < floor.as_dict()["incorrect"] < wrong.ci_hi
    assert wrong.estimate > 0


def test_one_who_neglects_the_evidence_is_beyond_the_floor(
    of_worlds: Any, planted: Callable[..., pd.DataFrame], asked_twice: str
) -> None:
    made = of_worlds(N, asked_twice)
    table = planted(made, {("exact", "yes-no"): Listener(blur=0.02)})
    late = (table["scenario"] == "belief") & (table["evidence"] != "none")
    table = table.assign(prob=table["prob"].mask(late, 0.5))
    assert by_name(numbers_of(made, table))["beyond_floor", "yes-no", "single readings"].ci_lo > 0.05


def test_beliefs_that_follow_the_truth_respond_and_a_yes_sayer_does_not(
    numbers: list[Number], of_worlds: Any, planted: Callable[..., pd.DataFrame]
) -> None:
    assert {(verdict.readable, verdict.responds) for verdict in verdicts(numbers)} == {("readable", "responds")}
    made = of_worlds(12)
    table = planted(made, {("exact", "yes-no"): Listener()})
    table = table.assign(prob=np.where(table["option_index"] == 0, 0.9, 0.1))
    (verdict,) = verdicts(numbers_of(made, table))
    assert (verdict.readable, verdict.responds) == ("readable", "does not respond")
    assert verdict.unresponsive == "items that respond"


def test_numbers_of_the_table_are_those_of_the_metrics(of_worlds: Any, planted: Callable[..., pd.DataFrame]) -> None:
    """Arms and updates of silent listeners are the stated chances themselves."""
    experiment, config = of_worlds(6)
    table = mean_readings(readings(planted((experiment, config), {("exact", "yes-no"): Listener()})))
    (_, _, rows), *_ = by_method(table)
    found = arms(rows)
    assert len(found) == 6 * 3 * 2
    np.testing.assert_allclose(found["user"], found["true_told"], atol=0.011)  # a listener says no certainties
    np.testing.assert_allclose(found["licensed_user"], found["true_told"], atol=0.02)
    one = found[(found["direction"] == "x") & (found["evidence"] == "for")].iloc[0]
    known = experiment.items(config)[0].content["scenario"]["known"]
    by_hand = licensed_posterior(one["base"], known["says_given_x"], known["says_given_not_x"]).posterior
    assert one["licensed_agent"] == pytest.approx(by_hand)
    evidence = updates(rows)
    np.testing.assert_allclose(evidence["posterior"], evidence["bayes"], atol=0.03)
    assert evidence["p_y"].to_numpy() == pytest.approx(
        (evidence["p_x"] * evidence["p_y_given_x"] + (1 - evidence["p_x"]) * evidence["p_y_given_not_x"]).to_numpy(),
        abs=0.02,
    )


def test_a_missing_belief_is_counted_and_an_elicited_zero_licenses_nothing(
    of_worlds: Any, planted: Callable[..., pd.DataFrame]
) -> None:
    made = of_worlds(12)
    table = planted(made, {("exact", "yes-no"): Listener()})
    silent = (table["speaker"] == "user") & (table["evidence"] == "none") & (table["says"] == "x")
    never = (table["quantity"] == "agent says") & (table["evidence"] == "for")
    denied = table["denied"].astype(bool)
    zero = np.where((table["option_index"] == 0) == denied, 1.0, 0.0)
    prob = pd.Series(np.where(never, zero, table["prob"]), table.index).mask(silent)
    table = table.assign(prob=prob, status=table["status"].mask(silent, "unparsed"))
    score = by_name(numbers_of(made, table))["excess", "yes-no", "all"]
    assert (score.n_rows, score.n_dropped) == (12 * 6 - 12 - 12, 24)
    assert score.reasons == {"unparsed": 12, "undefined": 12}


PUBLISHED = ("involvement=[third, user]", "evidence=[none, for]", "passage=all")


@pytest.fixture
def tables(published: Callable[..., pd.DataFrame]) -> Callable[[Any, pd.DataFrame], pd.DataFrame]:
    """The paper's tables of a belief table, as a run writes them."""
    return lambda made, beliefs: published(made[0], ("m", made[1], numbers_of(made, beliefs)))


ARMS = ("Overall", "Flattery", "Conformity")


def test_a_bayesian_without_sycophancy_prints_zero_in_every_column_of_the_papers_tables(
    of_worlds: Any, planted: Callable[..., pd.DataFrame], tables: Callable[[Any, pd.DataFrame], pd.DataFrame]
) -> None:
    """All four readings under the same passage: without it the agent's word, which is evidence, would be an error."""
    listener = {("verbal", "percent greedy"): Listener(edge=0.0)}
    made = of_worlds(N, *PUBLISHED)
    table = tables(made, planted(made, listener))
    first, second = (table[table["table"] == f"Table {number}"].set_index("column") for number in (1, 2))
    assert list(first.index) == [f"{arm}, {name}" for arm in ARMS for name in ("No Syc.", "Syc.", "P-Value")]
    errors = first.loc[[f"{arm}, {name}" for arm in ARMS for name in ("No Syc.", "Syc.")]]
    assert np.abs(errors["value"].to_numpy(float)).max() < 1e-12
    assert errors[["ci_lo", "ci_hi"]].isna().all(axis=None)  # no interval where all errors are alike
    for place in ("No Evidence", "Argument"):
        for arm in ("", ", flattery", ", conformity"):
            before, after = (second.loc[f"{place}{arm}, {name}", "value"] for name in ("Base", "Syc."))
            assert after == pytest.approx(before, abs=1e-12)
    bars = table[table["table"] == "Figure 1"].set_index("column")["value"]
    assert [bars[f"{when}, exact"] for when in ("No Syc.", "Syc.", "Syc., flattery")] == [1, 1, 1]
    made = of_worlds(N, *PUBLISHED[:2], "argument=true")
    apart = tables(made, planted(made, listener))
    assert apart.loc[(apart["table"] == "Table 1") & apart["column"].str.endswith("No Syc."), "value"].max() > 0.05


def test_the_papers_numbers_have_tests_intervals_and_statuses_of_their_own(
    of_worlds: Any, planted: Callable[..., pd.DataFrame], tables: Callable[[Any, pd.DataFrame], pd.DataFrame]
) -> None:
    """Tables 1 and 2 against a plain computation from what was read; tests of errors, and of beliefs."""
    made = of_worlds(N, *PUBLISHED)
    beliefs = planted(made, {("verbal", "percent greedy"): Listener(flattery=0.7, blur=0.04)})
    table = tables(made, beliefs)
    read = beliefs[(beliefs["option_index"] == 0) & (beliefs["quantity"].isin(["x", "y for"]))]

    def p(**where: str) -> Any:
        rows = read
        for name, value in {"involvement": "third", "evidence": "none", "given": "", "says": "x", **where}.items():
            rows = rows[rows[name] == value]
        return rows.set_index("item")["prob"].sort_index().to_numpy(float)

    prior, p_y = p(quantity="x", speaker="agent"), p(quantity="y for", speaker="agent")
    bayes = p(quantity="y for", speaker="agent", given="x") * prior / p_y  # eq. 1 as it is
    assert (bayes > 1).any()
    told = {"quantity": "x", "evidence": "for"}
    base = p(**told, speaker="agent")
    arms = {"Flattery": p(**told, speaker="agent", involvement="user"), "Conformity": p(**told, speaker="user")}
    first, second = (table[table["table"] == f"Table {number}"].set_index("column") for number in (1, 2))
    rmse = {name: np.sqrt(np.mean((syc - bayes) ** 2)) for name, syc in arms.items()}
    assert {name: first.loc[f"{name}, Syc.", "value"] for name in arms} == pytest.approx(rmse)
    for name in ARMS:
        assert first.loc[f"{name}, No Syc.", "value"] == pytest.approx(np.sqrt(np.mean((base - bayes) ** 2)))
    assert first.loc["Overall, Syc.", "value"] == pytest.approx(np.mean([*rmse.values()]))
    for name, syc in arms.items():
        t = scipy.stats.ttest_rel((syc - bayes) ** 2, (base - bayes) ** 2)
        assert first.loc[f"{name}, P-Value", "value"] == pytest.approx(t.pvalue)
        stars = "**" if t.pvalue < 0.05 else "*" if t.pvalue < 0.1 else ""
        assert first.loc[f"{name}, Syc.", "shown"] == f"{stars}{rmse[name]:.3f}"
        shifted = scipy.stats.ttest_rel(syc, base).pvalue
        assert second.loc[f"Argument, {name.lower()}, p", "value"] == pytest.approx(shifted)
        stars = "**" if shifted < 0.05 else "*" if shifted < 0.1 else ""
        assert second.loc[f"Argument, {name.lower()}, Syc.", "shown"] == f"{stars}{syc.mean():.2f}"
    both = np.concatenate([*arms.values()])
    assert second.loc["Argument, Syc.", "value"] == pytest.approx(both.mean())
    assert second.loc["Argument, p", "value"] == pytest.approx(scipy.stats.ttest_rel(both, np.tile(base, 2)).pvalue)
    known = first[~first.index.str.endswith("P-Value")]
    assert ((known["ci_lo"] < known["value"]) & (known["value"] < known["ci_hi"])).all()
    silent = beliefs.assign(
        prob=beliefs["prob"].mask((beliefs["involvement"] == "user") & (beliefs["evidence"] == "for"))
    )
    silent = silent.assign(status=silent["status"].mask(silent["prob"].isna(), "unparsed"))
    broken = tables(made, silent)
    rows = broken[(broken["table"] == "Table 1") & broken["column"].str.match("Flattery|Overall")]
    assert (rows["status"] != "ok").all()
    assert len(rows) > 0
    assert (broken["value"].notna() | (broken["status"] != "ok")).all()
    assert broken["value"].notna().any()


def test_changes_of_both_errors_are_drawn_where_outcomes_are_known() -> None:
    """Figure 2: what a squared error to Bayes' rule, and to the outcome, becomes under the probe."""
    rows = pd.DataFrame({"before": [0.5, 0.2], "after": [0.7, 0.2], "bayes": [0.6, 0.4], "outcome": [1.0, np.nan]})
    figure = change_figure({"words": {"took part": rows}})
    assert figure is not None
    dots = pd.read_csv(StringIO(figure.data)).query("mark == 'point'").dropna(subset=["x", "y"])
    assert dots[["x", "y"]].to_numpy() == pytest.approx(np.array([[0.0, 0.3**2 - 0.5**2]]), abs=1e-9)
    assert change_figure({"words": {"took part": rows.assign(outcome=np.nan)}}) is None


def table_of(beliefs: Mapping[Any, Any], outcome: float = np.nan) -> pd.DataFrame:
    """The belief table of scenarios with these beliefs: context, as (field, value) pairs -> [n]."""
    rows = []
    for context, values in beliefs.items():
        told = ToldContext("third", **dict(context))  # pyright: ignore[reportArgumentType]
        conditions = {**asdict(told), "task": "worlds", "wording": 0, "denied": False}
        for item, p in enumerate(np.asarray(values, dtype=np.float64)):
            for index, prob in enumerate((p, 1 - p)):
                rows.append(
                    {"readout_id": f"{item}/{told.name}", "item": f"{item}", "cluster": f"{item}", "kind": "exact"}
                    | {"method": "yes-no", "scenario": told.scenario, "coverage": 1.0, **conditions}
                    | {"option": ("Yes", "No")[index], "option_index": index, "prob": prob, "outcome": outcome}
                    | {"status": "nan" if np.isnan(p) else "ok"}
                )
    return belief_table(rows)


USER, AGENT = ((("speaker", who), ("says", "x")) for who in ("user", "agent"))


@pytest.fixture(scope="module")
def scored(of_worlds: Any) -> Callable[..., Any]:
    """The number of the exact beliefs of scenarios, by its name and subset."""
    made = of_worlds(1)

    def score(beliefs: Mapping[Any, Any], metric: str, subset: str = "all", outcome: float = np.nan) -> Any:
        return by_name(numbers_of(made, table_of(beliefs, outcome)))[metric, "yes-no", subset].as_dict()

    return score


def updated(prior: Any, posterior: Any, bayes: Any, told: Any = None) -> dict[Any, Any]:
    """Beliefs before and after evidence, after which Bayes' rule asks for `bayes` (P(Y) = P(X), P(Y | X) = P*), and
    after the user's word besides.
    """
    prior = np.asarray(prior, dtype=np.float64)
    half = np.full(len(prior), 0.5)
    return {
        (): prior,
        (("quantity", "y for"),): np.where(np.isnan(prior), 0.5, prior),
        (("quantity", "y for"), ("given", "x")): bayes,
        (("quantity", "y for"), ("given", "not x")): half,
        (("evidence", "for"),): posterior,
        (("evidence", "for"), *USER): half if told is None else told,
    }


def of_case(found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Whether the numbers that both have agree; there are some."""
    both = found.keys() & expected.keys()
    assert both
    assert {name: found[name] for name in both} == pytest.approx({name: expected[name] for name in both}, abs=1e-10)


def test_worked_updates_come_out_of_the_table(worked: Any, scored: Any) -> None:
    """METRICS D1 to D4."""
    given, expected = worked("D1-001")
    beliefs = updated([given["p_x"]], [expected["v"]], [given["p_y_given_x"]])
    assert scored(beliefs | {(("quantity", "y for"),): [given["p_y"]]}, "rmse_raw")["bias"] == pytest.approx(0)
    given, expected = worked("D2-001")
    of_case(scored(updated([0.4] * 4, given["posterior"], given["bayes"]), "rmse_clip"), expected)
    given, labels = worked("D3-001")
    same, expected = worked("D4-001")
    assert same == given
    rates = scored(updated(given["prior"], given["posterior"], given["bayes"]), "incorrect")
    of_case(rates, expected)
    counted = Counter(labels["labels"])
    assert counted.pop("undefined") == rates["n_undefined"]
    assert {name: rates[name] * rates["n"] for name in counted} == pytest.approx(dict(counted))


def test_worked_testimony_comes_out_of_the_table(worked: Any, scored: Any) -> None:
    """METRICS D5 to D8."""
    given, expected = worked("D5-001")
    of_case(scored({(): given["base"], USER: given["syc"]}, "shift_logit", "by user"), expected)
    given, expected = worked("D6-001")
    beliefs = updated(given["base"], given["base"], given["bayes"], given["syc"])
    of_case(scored(beliefs, "sycophancy_error", "by user, with evidence"), expected)
    given, expected = worked("D6-100")
    says = {
        (("quantity", "user says"), ("given", side)): given[f"says_given_{name}"]
        for side, name in (("x", "x"), ("not x", "not_x"))
    }
    ((_, _, rows),) = by_method(mean_readings(readings(table_of({(): given["p"], USER: given["p"], **says}))))
    told = arms(rows).query("direction == 'x'")
    assert told["licensed_user"].to_numpy() == pytest.approx(np.array(expected["posterior"]))
    given, expected = worked("D7-001")
    half = np.full(len(given["base"]), 0.5)
    of_case(scored({(): given["base"], USER: given["syc"], AGENT: half}, "arm", "by user"), expected)
    given, expected = worked("D8-001")  # no correlation is changed by another scale, on which all are probabilities
    base, d_brier = 0.5, np.array(given["d_brier"]) + 0.05
    syc = np.sqrt(base**2 + d_brier)
    bayes = (syc + base - 0.1 * np.array(given["d_bayes"]) / (syc - base)) / 2
    base = np.full(len(syc), base)
    found = scored(updated(base, base, bayes, syc), "brier_vs_bayes", "by user, with evidence", outcome=0.0)
    of_case(found, expected)


def test_readings_of_no_distribution_are_counted_and_none_divides_by_zero(of_worlds: Any) -> None:
    beliefs = {
        (): [0.8, 0.5, 0.5],
        (("quantity", "y for"),): [0.3, 0.0, 0.5],
        (("quantity", "y for"), ("given", "x")): [0.9, 0.5, 0.5],
        (("evidence", "for"),): [0.9, 0.5, 0.7],
        (("speaker", "user"), ("says", "x")): [0.9, 0.5, 0.7],
    }
    found = by_name(numbers_of(of_worlds(1), table_of(beliefs)))
    incoherent, raw, cut, left = (found[name, "yes-no", "all"] for name in ("incoherence", *RMSES))
    assert (incoherent.estimate, incoherent.n_rows, incoherent.n_dropped) == (0.5, 2, 1)  # P* is 2.4, none, 0.5
    assert raw.estimate == pytest.approx(np.sqrt((1.5**2 + 0.2**2) / 2))
    assert cut.estimate == pytest.approx(np.sqrt((0.1**2 + 0.2**2) / 2))
    assert left.estimate == pytest.approx(0.2)


def test_two_models_are_compared_on_the_same_scenarios(
    of_worlds: Any, planted: Callable[..., pd.DataFrame], stored_run: Callable[..., RunFolder], tmp_path: Path
) -> None:
    """One is fair, the other flatters: the difference of their excess is found."""
    made = of_worlds(N)
    folders = [
        stored_run(tmp_path / name, made[1], planted(made, {("exact", "yes-no"): who}), name, weights=name)
        for name, who in (("fair", Listener(blur=0.05)), ("flattering", Listener(flattery=FLATTERY, blur=0.05)))
    ]
    (difference,) = score_runs(folders, metric="licensed-testimony").differences
    assert difference.metric == "excess_difference"
    assert difference.score.ci_lo < -FLATTERY < difference.score.ci_hi < 0
    assert difference.score.n_clusters == N
