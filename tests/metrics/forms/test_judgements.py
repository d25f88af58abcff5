"""`doxascope score`: judges, verification, predictions and truths, by examples that a hand can check."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from doxascope.base.errors import UserError
from doxascope.metrics import (
    isotonic_calibration,
    judge_agreement,
    logloss_improvement,
    quantile_bins,
    stratified_permutation,
    verification_held_out,
)
from doxascope.metrics.scoring.engine import score_table

Write = Callable[..., Path]
Estimates = Callable[..., dict[str, Any]]
Beside = Callable[..., Mapping[str, str]]


def test_judges(table: Write, estimates: Estimates, beside: Beside) -> None:
    # b says .1 more than a throughout: concordance 2 v / (2 v + .01) with v = .05, the variance of .2 .4 .6 .8.
    lines = ("q,0,0.2,0.3,0.8", "q,1,0.4,0.5,0.6", "r,0,0.6,0.7,0.4", "r,1,0.8,0.9,0.2")
    scored = score_table(table("question,step,judge_a,judge_b,judge_c", *lines))
    found, note = estimates(scored), beside(scored, "concordance of a and b")
    assert found["concordance of a and b"].estimate == pytest.approx(0.1 / 0.11)
    assert (note["mean difference"], note["correlation"], note["within questions"]) == ("-0.100", "1.000", "1.000")
    assert found["concordance of a and c"].estimate == pytest.approx(-1)
    # The updates: .2 and .2 of a and b, -.2 and -.2 of c; none of them varies.
    update = found["concordance of a and b, updates"]
    assert (update.status, update.n_rows, update.n_clusters) == ("zero_variance", 2, 2)
    assert len(found) == 6


def test_judges_without_questions_have_no_agreement_within_them(table: Write, beside: Beside) -> None:
    scored = score_table(table("judge_x,judge_y", "0.1,0.2", "0.4,0.3", "0.35,0.5", "0.9,"))
    expected = judge_agreement([0.1, 0.4, 0.35], [0.2, 0.3, 0.5])
    note = beside(scored, "concordance of x and y")
    assert "within questions" not in note
    assert note["by ranks"] == f"{expected.spearman:.3f}"
    assert [(one.score.estimate, one.score.n_dropped) for one in scored.numbers] == [(expected.ccc, 1)]


RECORDS = (
    "question,category,answer,truth,k,single,multi",
    "p,easy,A,A,4,1.0,1.0",
    "q,easy,B,A,4,0.6,0.2",
    "r,hard,A,A,4,0.9,0.8",
    "s,hard,B,A,4,0.7,0.1",
    "t,random,C,,4,0.2,0.4",
)


def test_verification(table: Write, estimates: Estimates, beside: Beside) -> None:
    # Accepting all is right on one of two easy, one of two hard, and on the random one, which is rare enough.
    scored = score_table(table(*RECORDS))
    found, note = estimates(scored), beside(scored, "accuracy, accepting by b")
    assert note["of accepting all, of rejecting all"] == "0.667, 0.333"
    # b is .0 .4 .1 .6 -.2: a threshold of .1 decides all of them.
    assert note["tuned on the same answers, at 0.10,"] == "1.000"
    assert found["AUROC of accepting by b"].estimate == 1
    assert found["AUROC of accepting by single"].n_clusters == 5
    rows = [
        {"category": c, "answer": a, "truth": "A", "k": 4, "single": s, "multi": m, "b": s - m}
        for c, a, s, m in (
            ("easy", "A", 1.0, 1.0), ("easy", "B", 0.6, 0.2), ("hard", "A", 0.9, 0.8), ("hard", "B", 0.7, 0.1),
            ("random", "C", 0.2, 0.4),
        )
    ]  # fmt: skip
    for rule in ("single", "multi", "b", "single+b", "multi+b"):
        expected = verification_held_out(rows, rule, questions=list("pqrst"))
        assert found[f"accuracy, accepting by {rule}"].estimate == pytest.approx(expected.macro)
        assert f"accuracy, accepting by {rule}, without category random" in found
    assert not any("conf" in quantity for quantity in found)


def test_two_predictions(table: Write, estimates: Estimates, beside: Beside) -> None:
    # Losses log 2 and log 2 against log 2 and log 4/3... of what was: .5 .5, then .5 .75.
    scored = score_table(table("p1,p2,outcome", "0.5,0.5,1", "0.5,0.25,0", "0.5,0.9,"))
    score = estimates(scored)["gain in log-loss, nats"]
    assert score.estimate == pytest.approx((np.log(2) - np.log(4 / 3)) / 2)
    assert dict(score.reasons) == {"no outcome": 1}
    assert beside(scored, "gain in log-loss, nats")["of the frequencies alone"] == f"{np.log(2):.4f}"


@pytest.mark.parametrize("k", [2, 3, 4])
def test_two_predictions_of_classes(table: Write, k: int, estimates: Estimates) -> None:
    first, second = np.full((2, k), 1 / k), np.array([np.r_[0.5, np.full(k - 1, 0.5 / (k - 1))]] * 2)
    names = "abcd"[:k]
    columns = {f"{m}_{name}": x[:, i] for m, x in (("p1", first), ("p2", second)) for i, name in enumerate(names)}
    score = estimates(score_table(table(**columns, truth=["a", "b"])))["gain in log-loss, nats"]
    assert score.estimate == pytest.approx(logloss_improvement(first, second, [0, 1]).nats)
    assert score.estimate == pytest.approx(np.log(k) + (np.log(0.5) + np.log(0.5 / (k - 1))) / 2)


def test_beliefs_against_the_truth(table: Write, estimates: Estimates, beside: Beside) -> None:
    lines = ("x,Brier,0.5,0.8,1", "y,Brier,0.2,0.1,0", "x,log,0.8,0.8,1", "y,log,,0.1,0")
    scored = score_table(table("context,prompt,belief,p_star,outcome", *lines))
    found = estimates(scored)
    assert found["RMSE to the truth, Brier"].estimate == pytest.approx(np.sqrt((0.09 + 0.01) / 2))
    assert beside(scored, "RMSE to the truth, Brier")["bias"] == "-0.100"
    said = beside(scored, "RMSE to the truth, Brier")["Brier score, and of the truth itself"]
    assert said == f"{(0.25 + 0.04) / 2:.3f}, {(0.04 + 0.01) / 2:.3f}"
    assert found["RMSE to the truth, log"].estimate == 0
    assert found["RMSE to the truth, log"].n_dropped == 1
    # One column less, and the score alone is left.
    alone = score_table(table("context,belief,p_star", "x,0.5,0.8", "y,0.2,0.1"))
    assert estimates(alone)["RMSE to the truth"].estimate == pytest.approx(np.sqrt(0.05))
    assert list(estimates(alone)) == ["RMSE to the truth"]
    assert "clusters: context (2)" in alone.understood.line
    assert alone.skipped["brier"] == "needs column 'outcome'"


def test_decisions_have_their_truth_too(table: Write, estimates: Estimates) -> None:
    path = table("belief,action,outcome,p_star", "0.5,1,1,0.8", "0.2,0,0,0.1")
    assert estimates(score_table(path))["RMSE to the truth"].estimate == pytest.approx(np.sqrt(0.05))


def test_k_of_n(table: Write, estimates: Estimates, beside: Beside) -> None:
    # 3/10 and 1/2; 5 of 4, 1 of 0 and a missing k are nothing.
    scored = score_table(table("k,n,outcome", "3,10,0", "2,4,1", "5,4,1", "1,0,1", ",4,0"))
    found = estimates(scored)
    assert found["mean of k / n"].estimate == pytest.approx(0.4)
    assert (found["mean of k / n"].n_rows, found["mean of k / n"].n_dropped) == (2, 3)
    assert found["Brier score"].estimate == pytest.approx((0.09 + 0.25) / 2)
    noise = (0.21 / 9 + 0.25 / 3) / 2
    assert beside(scored, "mean of k / n")["SD of one belief by luck of the draw"] == f"{np.sqrt(noise):.3f}"


def test_the_noise_of_k_of_n_is_that_of_the_draw(table: Write, beside: Beside) -> None:
    rng = np.random.default_rng(0)
    p = rng.beta(4, 4, 20_000)  # variance 1/36, and mean p (1 - p) of 2/9
    found = beside(score_table(table(k=rng.binomial(8, p), n=np.full(20_000, 8))), "mean of k / n")
    assert float(found["SD of one belief by luck of the draw"]) == pytest.approx(np.sqrt(2 / 9 / 8), rel=0.02)
    share = "share of the spread that luck does not make"
    assert float(found[share]) == pytest.approx(0.5, abs=0.03)  # 1/36 of 1/36 + 2/72
    assert "reliability" not in found  # the name of another quantity (F5)
    alike = beside(score_table(table("k,n", "1,2", "1,2", "11,20", "9,20")), "mean of k / n")
    assert alike[share] == "not estimable"  # luck alone would make more, by 60 times


def test_a_recalibrated_belief(table: Write, estimates: Estimates, beside: Beside) -> None:
    rng = np.random.default_rng(2)
    p = rng.uniform(size=200)
    outcome, action = (rng.uniform(size=200) < p).astype(int), (rng.uniform(size=200) < p).astype(int)
    scored = score_table(table(belief=p, action=action, outcome=outcome), "decision-isotonic")
    mapped = isotonic_calibration(p, outcome, np.arange(200))
    expected = stratified_permutation(action, outcome, quantile_bins(mapped, 200 // 15))
    quantity = "information beyond the recalibrated belief, nats"
    assert estimates(scored)[quantity].estimate == pytest.approx(expected.debiased)
    levels = beside(scored, quantity)["levels that it leaves of the beliefs"]
    assert levels == f"{len(np.unique(mapped))} of 200"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("judge_a|0.5", "which lacks 'judge_b'"),
        ("judge_a,judge_b,step|0.5,0.5,0", "which lacks 'trajectory'"),
        ("judge_a,judge_b|0.5,7", "row 1, judge_b: '7' is not in [0, 1]"),
        ("question,step,judge_a,judge_b|q,0,0.5,0.5|q,0,0.5,0.5", "question 'q' has step 0 twice"),
        ("category,answer,truth|easy,A,A", "which lacks 'single'"),
        ("category,answer,truth,b|easy,A,A,1.5", "row 1, b: '1.5' is no difference of two probabilities"),
        ("category,answer,truth,single|random,A,,0.5", "row 1, k: is missing; category 'random' needs the number"),
        (
            "category,answer,truth,single|easy,A,,1|easy,A,,1",
            "truth: is missing in every row; an answer is",
        ),
        ("category,answer,truth,single|,A,A,1", "row 1, category: is missing"),
        ("p1,p2|0.5,0.5", "which lacks 'outcome'"),
        ("p1_a,p1_b,p2_a,p2_b,truth|0.5,0.4,0.5,0.5,a", "row 1: p1_<class> sums to 0.9, not 1"),
        ("p1_a,p1_b,p2_a,p2_b,truth|0.5,0.5,0.5,0.5,c", "row 1, truth: 'c' is no option; options: a, b"),
        ("belief,p_star|0.5,1.2", "row 1, p_star: '1.2' is not in [0, 1]"),
        ("k,n|three,4", "row 1, k: 'three' is not a number"),
    ],
)
def test_a_mistake_is_one_line_that_says_where(table: Write, text: str, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)) as caught:
        score_table(table(*text.split("|")))
    assert "\n" not in str(caught.value)
