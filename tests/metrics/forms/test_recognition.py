"""`doxascope score`: answers, decisions, prizes, testimony and replicates, by examples that a hand can check."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from doxascope.base.errors import UserError
from doxascope.metrics import (
    coherent_posterior,
    prize_independence,
    quantile_bins,
    reliability_icc,
    stratified_permutation,
    sycophancy_error,
)
from doxascope.metrics.scoring.engine import score_table

Write = Callable[..., Path]
Estimates = Callable[..., dict[str, Any]]
Beside = Callable[..., Mapping[str, str]]


ANSWERS = (
    "question,single_a,single_b,single_c,single_d,multi_a,multi_b,multi_c,multi_d,multi_other,truth",
    "q,6,2,1,1,2,4,2,2,0,b",
    "r,1,1,8,0,0,0,5,0,5,c",
)


def test_answers(table: Write, estimates: Estimates, beside: Beside) -> None:
    # q: a is likeliest, .6 - .2 = .4, and wrong. r: c is likeliest, .8 - 1 = -.2, and right.
    found = estimates(scored := score_table(table(*ANSWERS)))
    assert found["B of the likeliest option"].estimate == pytest.approx(0.1)
    wrong = found["B of the likeliest option where it is wrong"]
    assert (wrong.estimate, wrong.n_rows) == (pytest.approx(0.4), 1)
    # Sum of P_single |B|: .6 .4 + .2 .2 + .1 .1 + .1 .1 = .3, and .1 .1 + .1 .1 + .8 .2 = .18.
    assert found["mean |B| over the answers"].estimate == pytest.approx(0.24)
    assert [found[f"B of {x}"].estimate for x in "abcd"] == pytest.approx([0.25, -0.05, -0.15, -0.05])
    assert found["accuracy afresh"].estimate == pytest.approx(0.5)
    assert found["accuracy in conversation"].estimate == pytest.approx(1)
    assert beside(scored, "B of the likeliest option")["invalid answers"] == "0.0% afresh, 25.0% in conversation"


def test_runs_of_a_question_are_put_together(table: Write, estimates: Estimates) -> None:
    runs = table("question,single_a,single_b,multi_a,multi_b", "q,3,1,1,3", "q,1,1,1,1", "r,2,0,1,1")
    found = estimates(score_table(runs))
    # q: 4 of 6 afresh, 2 of 6 in conversation; r: 1 and one half.
    assert found["B of a"].estimate == pytest.approx((1 / 3 + 1 / 2) / 2)
    assert found["B of a"].n_clusters == 2


def test_choosing_on_the_same_answers_is_biased_and_choosing_on_a_half_is_not(
    table: Write, estimates: Estimates, beside: Beside
) -> None:
    rng = np.random.default_rng(0)
    single, multi = (rng.multinomial(30, [0.25] * 4, size=400) for _ in range(2))
    arms = {f"{arm}_{o}": x[:, i] for arm, x in (("single", single), ("multi", multi)) for i, o in enumerate("abcd")}
    scored = score_table(table(**arms), "b-score")
    found = estimates(scored)
    naive = found["B of the likeliest option"]
    expected = float(beside(scored, "B of the likeliest option")["of equally likely options without any bias"])
    assert naive.estimate == pytest.approx(expected, abs=4 * naive.se)
    assert naive.ci_lo > 0
    half = found["the same, chosen on other answers"]
    assert abs(half.estimate) < 4 * half.se


def test_answers_as_probabilities_have_no_luck_of_the_draw(table: Write, estimates: Estimates) -> None:
    found = estimates(score_table(table("single_x,single_y,multi_x,multi_y", "0.7,0.3,0.5,0.5", "0.6,0.4,0.6,0.4")))
    assert found["B of the likeliest option"].estimate == pytest.approx(0.1)
    assert not any("other answers" in quantity for quantity in found)


def test_where_no_answer_is_valid_there_is_no_score(table: Write, estimates: Estimates) -> None:
    found = estimates(score_table(table("single_a,single_b,multi_a,multi_b", "3,1,0,0", "2,2,2,2")))
    assert (found["B of a"].n_rows, found["B of a"].n_dropped) == (1, 1)
    assert found["B of a"].estimate == 0


def decisions(n: int = 150) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    p_star = rng.uniform(size=n)
    belief = np.clip(p_star + rng.normal(0, 0.2, n), 0, 1)
    outcome = (rng.uniform(size=n) < p_star).astype(int)
    return {"context": np.arange(n), "belief": belief, "action": outcome, "outcome": outcome, "p_star": p_star}


def test_decisions(table: Write, estimates: Estimates, beside: Beside) -> None:
    data = decisions()
    found = estimates(scored := score_table(table(**data, action_prob=data["p_star"])))
    strata = quantile_bins(data["belief"], 10)
    expected = stratified_permutation(data["action"], data["outcome"], strata)
    score = found["information beyond the belief, nats"]
    assert (score.estimate, score.p) == pytest.approx((expected.debiased, expected.p))
    assert score.p < 0.01  # the action is the outcome itself
    assert found["covariance of action and outcome, z"].estimate > 3
    # The policy is the truth and the belief a noisy reading of it: most of it, not all.
    assert 0.5 < found["share of the policy that the belief explains"].estimate < 1
    exact = found["information beyond the belief, exact, nats"].estimate
    assert 0 < exact < score.estimate
    brier = np.mean((data["belief"] - data["outcome"]) ** 2)
    assert found["Brier score"].estimate == pytest.approx(brier)
    assert beside(scored, "information beyond the belief, nats")["neighbourhoods of the belief"] == "10"


def test_an_action_that_follows_the_belief_rises_and_one_against_it_does_not(
    table: Write, estimates: Estimates
) -> None:
    data = decisions()
    for action, against in ((data["belief"] > 0.5, False), (data["belief"] < 0.5, True)):
        score = estimates(score_table(table(**(data | {"action": action.astype(int)})), "decision-order"))
        assert (score["deviance from a rising curve"].estimate > 1) == against
        assert (score["deviance from a rising curve"].p < 0.01) == against


def test_repetitions_of_a_context_are_no_evidence(table: Write, estimates: Estimates, beside: Beside) -> None:
    data = {name: np.asarray(values) for name, values in decisions(60).items()}
    once = score_table(table(**data), "decision")
    five = score_table(table(**{name: np.repeat(values, 5) for name, values in data.items()}), "decision")
    quantity = "information beyond the belief, nats"
    assert estimates(five)[quantity].p == estimates(once)[quantity].p
    assert beside(five, quantity)["rows used"] == "the first of each of 60 contexts"


def test_prizes(table: Write, estimates: Estimates) -> None:
    lines = ("context,p_base,p_alt", "x,0.2,0.3", "y,0.5,0.8", "x,0.3,0.3", "y,0.7,0.6", "z,0.9,0.7", "z,0.7,0.7")
    score = estimates(score_table(table(*lines)))["mean square effect of the prize"]
    expected = prize_independence([[0.2, 0.3], [0.5, 0.7], [0.9, 0.7]], [[0.3, 0.3], [0.8, 0.6], [0.7, 0.7]])
    assert score.estimate == pytest.approx(expected.debiased_ms)
    assert score.n_clusters == 3
    assert estimates(score_table(table("context,p_base,p_alt", "x,0.2,0.3", "y,0.5,0.8")))[
        "mean square effect of the prize"
    ].status == "no_replicates"  # fmt: skip


def test_testimony(table: Write, estimates: Estimates, beside: Beside) -> None:
    # P* = .5 * .8 / .5 = .8, and .2 * .9 / .6 = .3.
    lines = ("base,syc,p_x,p_y,p_y_given_x,outcome", "0.7,0.8,0.5,0.5,0.8,1", "0.3,0.5,0.2,0.6,0.9,0")
    found = estimates(scored := score_table(table(*lines)))
    assert found["shift of the belief"].estimate == pytest.approx(0.15)
    logits = [np.log(0.8 / 0.2 / (0.7 / 0.3)), np.log(1 / (0.3 / 0.7))]
    assert found["shift of log-odds"].estimate == pytest.approx(np.mean(logits))
    expected = sycophancy_error([0.7, 0.3], [0.8, 0.5], [0.8, 0.3]).sycophancy_error
    assert found["change of the RMSE to Bayes"].estimate == pytest.approx(expected)
    assert expected == pytest.approx(np.sqrt(0.02) - np.sqrt(0.005))
    assert found["correlation of the two changes"].estimate == pytest.approx(1)
    assert float(beside(scored, "shift of log-odds")["mean relative change, the paper's"]) == pytest.approx(0.405, 0.01)
    same = estimates(score_table(table("base,syc,bayes", "0.7,0.8,0.8", "0.3,0.5,0.3")))
    assert same["change of the RMSE to Bayes"].estimate == pytest.approx(expected)


def test_testimony_with_its_licence(table: Write, estimates: Estimates) -> None:
    # Odds of the user 4, 1, 9 where 2, 1, 3 are licensed; of the agent as licensed.
    lines = ("user,licensed_user,agent,licensed_agent", "0.8,0.66666666,0.5,0.5", "0.5,0.5,0.2,0.2", "0.9,0.75,0.3,0.3")
    found = estimates(score_table(table(*lines)))
    assert found["user's excess minus the agent's, nats"].estimate == pytest.approx(np.log([2, 1, 3]).mean())
    assert found["beyond what the user's word licenses, nats"].estimate == pytest.approx(np.log([2, 1, 3]).mean())
    assert found["beyond what the agent's word licenses, nats"].estimate == pytest.approx(0)


def test_testimony_without_a_target_has_its_shift_alone(table: Write, estimates: Estimates) -> None:
    scored = score_table(table("base,syc", "0.7,0.8", "0.3,0.5"))
    means = ["mean belief without testimony", "mean belief with testimony"]
    assert list(estimates(scored)) == [*means, "shift of log-odds", "shift of the belief"]
    assert scored.skipped["sycophancy-error"].startswith("needs column 'bayes', or p_x")


def test_replicates_of_bayes_readings_give_the_floor_of_a_perfect_bayesian(
    table: Write, estimates: Estimates, beside: Beside
) -> None:
    rng = np.random.default_rng(2)
    p_x, like, other = rng.uniform(0.1, 0.9, (3, 150))
    coherent = coherent_posterior(p_x, like, other)
    truth = {"p_x": p_x, "p_y_given_x": like, "p_y": coherent.py, "posterior": coherent.posterior}
    read = {name: np.clip(np.repeat(x, 3) + rng.normal(0, 0.05, 450), 0, 1) for name, x in truth.items()}
    path = table(item=np.repeat(np.arange(150), 3), run=np.tile(np.arange(3), 150), **read)
    scored = score_table(path, replicates="run")
    found = estimates(scored)
    floor = float(beside(scored, "RMSE to Bayes (clip)")["of a perfect Bayesian read with this noise"])
    assert found["RMSE to Bayes (clip)"].estimate == pytest.approx(floor, rel=0.15)
    wrong = beside(scored, "updates in the wrong direction")["of a perfect Bayesian read with this noise"]
    seen = found["updates in the wrong direction"].estimate
    assert float(wrong.rstrip("%")) / 100 == pytest.approx(seen, abs=0.05)
    in_order = np.argsort(np.arange(150).astype(str))  # items are sorted as texts
    expected = reliability_icc(read["p_y"].reshape(150, 3)[in_order]).icc1
    assert found["reliability of one reading of p_y"].estimate == pytest.approx(expected)
    assert found["RMSE to Bayes (clip)"].n_clusters == 150


def test_replicates_of_cases_give_the_floor_of_a_coherent_agent(
    table: Write, estimates: Estimates, beside: Beside
) -> None:
    rng = np.random.default_rng(3)
    low, high, weight = rng.uniform(0.2, 0.8, (3, 200))
    p = weight * low + (1 - weight) * high
    columns = {"cond_1": low, "cond_2": high, "weight_1": weight, "weight_2": 1 - weight}
    path = table(
        item=np.repeat(np.arange(200), 4),
        run=np.tile(np.arange(4), 200),
        p=np.repeat(p, 4) + rng.normal(0, 0.03, 800),
        **{name: np.repeat(x, 4) for name, x in columns.items()},
    )
    scored = score_table(path, replicates="run")
    floor = float(beside(scored, "size of the difference")["of a coherent agent read with this noise"])
    assert floor == pytest.approx(0.03 * np.sqrt(2 / np.pi), rel=0.1)
    assert estimates(scored)["size of the difference"].estimate == pytest.approx(floor, rel=0.1)


def test_an_item_that_was_read_once_tells_nothing_of_the_noise(
    table: Write, estimates: Estimates, beside: Beside
) -> None:
    path = table("item,run,p,cond_1,weight_1", "a,0,0.5,0.4,1", "b,0,0.2,0.3,1")
    scored = score_table(path, replicates="run")
    assert "of a coherent agent read with this noise" not in beside(scored, "size of the difference")
    assert estimates(scored)["reliability of one reading of p"].status == "one_reading"


def test_replicates_of_forecasts_give_their_reliability(table: Write, estimates: Estimates) -> None:
    path = table("item,run,belief,outcome", "a,0,0.2,0", "a,1,0.4,0", "b,0,0.8,1", "b,1,0.8,1")
    score = estimates(score_table(path, "reliability", replicates="run"))["reliability of one reading of belief"]
    assert score.estimate == pytest.approx(reliability_icc([[0.2, 0.4], [0.8, 0.8]]).icc1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("single_a,single_b,multi_a|1,2,3", "which lacks 'multi_b'"),
        ("single_a,single_b,multi_a,multi_b|1,2,3,-4", "row 1, multi_b: '-4' is negative"),
        ("single_a,single_b,multi_a,multi_b|1,2,3,1.5", "multi_b: 1.5 is not a whole number"),
        (
            "free_a,free_b,free_c,closed_a,closed_b,closed_c|1,2,3,.4036,.25,.3464|1,2,3,.25,.25,.5003",
            "row 2: closed_* sum to 1.0003, and row 1, closed_a: 0.4036 is not a whole number",
        ),
        ("single_a,single_b,multi_a,multi_b,truth|1,2,3,4,c", "row 1, truth: 'c' is no option; options: a, b"),
        (
            "question,single_a,single_b,multi_a,multi_b,truth|q,1,2,3,4,a|q,1,2,3,4,b",
            "row 2: truth differs within question 'q'",
        ),
        ("belief,action,outcome|0.5,,1", "row 1, action: is missing"),
        ("belief,action,outcome|0.5,go,0.5", "row 1, outcome: '0.5' is not an outcome"),
        ("context,p_base|x,0.5", "nearest is 'prizes, one row per repetition'"),
        ("context,p_base,p_alt|,0.5,0.5", "row 1, context: is missing"),
        ("base,syc,p_x|0.5,0.5,0.5", "has column 'p_x' and no 'p_y_given_x'"),
        ("base,syc|0.5,2", "row 1, syc: '2' is not in [0, 1]"),
    ],
)
def test_a_mistake_is_one_line_that_says_where(table: Write, text: str, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)) as caught:
        score_table(table(*text.split("|")))
    assert "\n" not in str(caught.value)


def test_a_note_of_what_rounds_to_zero_has_no_sign(table: Write, beside: Beside) -> None:
    scored = score_table(table("prior,posterior,outcome", "0.5,0.5001,1", "0.4,0.3999,0", "0.6,0.6002,1"))
    assert beside(scored, "change of the Brier score")["and of 2 mean((posterior - prior)(prior - outcome))"] == "0.000"


@pytest.mark.parametrize("places", [2, 4, 6])
def test_probabilities_that_were_rounded_are_still_probabilities(
    table: Write, estimates: Estimates, places: int
) -> None:
    """Rows of rounded shares sum to a little more than 1, and the numbers are those of the shares but for that."""
    rng = np.random.default_rng(4)
    shares = rng.dirichlet([2, 2, 2], 60)
    rounded = shares.round(places)
    assert rounded.sum(axis=1).max() > 1 + 0.9 * 10.0**-places
    free = rng.integers(5, 40, (60, 3))

    def agreement(closed: np.ndarray[Any, Any]) -> float:
        columns = {
            f"{way}_{x}": own[:, i] for way, own in (("free", free), ("closed", closed)) for i, x in enumerate("abc")
        }
        (score, *_) = estimates(score_table(table(**columns))).values()
        return score.estimate

    assert agreement(rounded) == pytest.approx(agreement(shares), abs=10.0**-places)


def test_replicates_where_rows_are_no_readings(table: Write) -> None:
    path = table("b_0,b_1,item,run", "0.1,0.2,a,0")
    with pytest.raises(UserError, match="--replicates is for 'Bayes readings', 'cases', 'pairs', 'forecasts'"):
        score_table(path, replicates="run")
