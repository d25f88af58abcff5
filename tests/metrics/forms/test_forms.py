"""`doxascope score`: the first plain forms, by examples that a hand can check."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from doxascope.metrics import belief_consistency, martingale_score, reliability_icc
from doxascope.metrics.scoring.engine import score_table

Write = Callable[..., Path]
Estimates = Callable[..., dict[str, Any]]
Beside = Callable[..., Mapping[str, str]]
PAIRS = ("prior,posterior,outcome,question", "0.2,0.3,0,a", "0.4,0.4,1,a", "0.6,0.7,1,b", "0.8,0.6,1,c", "0.5,,1,d")


def test_pairs(table: Write, estimates: Estimates, beside: Beside) -> None:
    # Priors .2 .4 .6 .8 (mean .5), updates .1 0 .1 -.2 (mean 0): slope -.08 / .2, by hand.
    scored = score_table(table(*PAIRS))
    found = estimates(scored)
    assert found["M"].estimate == pytest.approx(-0.4)
    assert found["mean update"].estimate == pytest.approx(0)
    assert (found["M"].n_rows, found["M"].n_clusters, dict(found["M"].reasons)) == (4, 3, {"undefined": 1})
    # Squared errors .04 .36 .16 .04 .25 before, .09 .36 .09 .16 after.
    assert found["Brier score of the prior"].estimate == pytest.approx(0.85 / 5)
    assert found["Brier score of the posterior"].estimate == pytest.approx(0.70 / 4)
    assert found["change of the Brier score"].estimate == pytest.approx((0.70 - 0.60) / 4)
    assert scored.understood.line == ("t.csv: pairs (prior, posterior, outcome), 5 rows, clusters: question (4)")
    assert "had the undefined ones scored 0, or 1" in beside(scored, "Brier score of the posterior")


def test_without_a_cluster_each_row_is_its_own(table: Write, estimates: Estimates) -> None:
    rows = ["0.1,0.2", "0.3,0.2", "0.5,0.6", "0.7,0.7", "0.9,0.8"]
    scored = score_table(table("prior,posterior", *rows), "martingale")
    expected = martingale_score([0.1, 0.3, 0.5, 0.7, 0.9], [0.2, 0.2, 0.6, 0.7, 0.8], se="CR3")
    np.testing.assert_equal(estimates(scored)["M"].as_dict(), expected.as_dict())
    assert "each row its own cluster" in scored.understood.line


@pytest.mark.parametrize("name", ["triple", "question", "item"])
@pytest.mark.parametrize("header", ["prior,posterior", "base,syc,outcome", "single_a,single_b,multi_a,multi_b"])
def test_what_was_sampled_is_known_by_its_usual_names(table: Write, name: str, header: str) -> None:
    """Of every table of rows: else three rows of a triple pass for three triples."""
    cells = {"prior,posterior": "0.{},0.4", "base,syc,outcome": "0.{},0.4,1"}.get(header, "{},2,1,3")
    rows = [f"{cells.format(1 + i)},t{i // 3}" for i in range(8)]
    scored = score_table(table(f"{header},{name}", *rows))
    assert f"clusters: {name} (3)" in scored.understood.line
    assert {one.score.n_clusters for one in scored.numbers} <= {0, 1, 2, 3}


@pytest.mark.parametrize("header", ["prior,posterior", "base,syc,outcome", "single_a,single_b,multi_a,multi_b"])
def test_a_triple_holds_several_items(table: Write, header: str) -> None:
    cells = {"prior,posterior": "0.{},0.4", "base,syc,outcome": "0.{},0.4,1"}.get(header, "{},2,1,3")
    rows = [f"{cells.format(1 + i)},i{i},t{i // 3}" for i in range(8)]
    assert "clusters: triple (3)" in score_table(table(f"{header},item,triple", *rows)).understood.line
    named = [f"{row},{i % 2}" for i, row in enumerate(rows)]
    assert "clusters: cluster (2)" in score_table(table(f"{header},item,triple,cluster", *named)).understood.line


def test_another_column_is_asked_for_and_one_of_levels_is_no_cluster(table: Write) -> None:
    rows = [f"0.{1 + i},0.4,t{i // 4}" for i in range(8)]
    line = score_table(table("prior,posterior,topic", *rows), "martingale").understood.line
    assert "if rows that share a topic belong together, name it: --cluster topic; not used: topic" in line
    found = score_table(table("prior,posterior,triple", *rows), "martingale", by=["triple"]).understood.line
    assert "each row its own cluster" in found
    assert "--cluster" not in found


@pytest.mark.parametrize("form", ["wide", "long"])
def test_trajectories(table: Write, form: str, estimates: Estimates) -> None:
    # Per step: (.2, .4) (.4, .3) (.6, .7); first to last: (.2, .3) (.6, .7). The third breaks in the middle.
    wide = ("b_0,b_1,b_2,question", "0.2,0.4,0.3,a", "0.6,0.7,,b", "0.5,,0.5,c")
    long = (
        "question,step,belief", "a,1,0.4", "a,0,0.2", "a,2,0.3", "b,0,0.6", "b,1,0.7", "c,0,0.5", "c,1,", "c,2,0.5",
    )  # fmt: skip
    found = estimates(score_table(table(*(wide if form == "wide" else long))))
    # Priors .2 .4 .6, updates .2 -.1 .1: slope of three points = (.1 - .2) / .4.
    assert found["M, per step"].estimate == pytest.approx(-0.25)
    assert dict(found["M, per step"].reasons) == {"missing step": 2}
    assert (found["M, per step"].n_rows, found["M, per step"].n_clusters) == (3, 2)
    # Weights 1/2 1/2 1: weighted means .45 and .075.
    b, d, w = np.array([0.2, 0.4, 0.6]), np.array([0.2, -0.1, 0.1]), np.array([0.5, 0.5, 1])
    expected = (w * (b - 0.45) * (d - 0.075)).sum() / (w * (b - 0.45) ** 2).sum()
    assert found["M, questions weigh the same"].estimate == pytest.approx(expected)
    assert found["mean update, first to last"].estimate == pytest.approx((0.1 + 0.1 + 0.0) / 3)


def test_trajectories_of_a_question_share_its_cluster(table: Write, estimates: Estimates) -> None:
    lines = [f"q{q},{t},{s},{0.3 + 0.1 * q + 0.05 * s * (1 + t)}" for q in range(3) for t in range(2) for s in range(3)]
    scored = score_table(table("question,trajectory,step,belief", *lines), "martingale")
    score = estimates(scored)["M, per step"]
    assert (score.n_rows, score.n_clusters) == (12, 3)


def test_trajectories_of_two_steps_are_scored_once(table: Write, estimates: Estimates) -> None:
    scored = score_table(table("b_0,b_1", "0.2,0.3", "0.4,0.4", "0.6,0.7", "0.8,0.6"), "martingale")
    assert list(estimates(scored)) == ["M", "mean update"]
    assert estimates(scored)["M"].estimate == pytest.approx(-0.4)
    assert "each trajectory its own cluster" in scored.understood.line


def test_bayes_readings(table: Write, estimates: Estimates, beside: Beside) -> None:
    # P* = .5 * .8 / .5 = .8 and .2 * .9 / .1 = 1.8, which is incoherent: 1 when clipped.
    scored = score_table(table("p_x,p_y,p_y_given_x,posterior", "0.5,0.5,0.8,0.7", "0.2,0.1,0.9,0.8"))
    found = estimates(scored)
    assert found["RMSE to Bayes (clip)"].estimate == pytest.approx(np.sqrt((0.1**2 + 0.2**2) / 2))
    assert found["RMSE to Bayes (raw)"].estimate == pytest.approx(np.sqrt((0.1**2 + 1.0**2) / 2))
    assert found["RMSE to Bayes (drop)"].estimate == pytest.approx(0.1)
    assert found["RMSE to Bayes (drop)"].n_dropped == 1
    assert found["updates in the wrong direction"].estimate == 0
    assert beside(scored, "RMSE to Bayes (clip)")["posteriors above 1, so readings of no distribution"] == "50.0%"
    assert beside(scored, "updates in the wrong direction")["under"].startswith("100.0%")
    assert scored.skipped["grether"] == "needs column 'p_y_given_not_x'"


def test_wrong_directions_are_told_by_how_far_bayes_moves(table: Write, beside: Beside) -> None:
    # Bayes moves by .1, .1, .3 and .3 (P* = .6, .6, .8, .8); the first posterior falls.
    rows = ("0.5,0.5,0.6,0.3", "0.5,0.5,0.6,0.7", "0.5,0.5,0.8,0.7", "0.5,0.5,0.8,0.6", "0.5,0.5,0.8,0.2")
    scored = score_table(table("p_x,p_y,p_y_given_x,posterior", *rows[:4]))
    note = beside(scored, "updates in the wrong direction")
    assert note["wrong where Bayes moves by 0.20 or less, by more"] == "50.0%, 0.0%"
    worse = beside(score_table(table("p_x,p_y,p_y_given_x,posterior", *rows)), "updates in the wrong direction")
    assert "wrong where Bayes moves by 0.30 or less, by more" not in worse  # no reading lies above the middle


def test_bayes_readings_with_the_second_likelihood(table: Write, estimates: Estimates) -> None:
    # A Bayesian: P(Y) = .5 * .8 + .5 * .2 = .5, posterior .8; then weights of one. P(Y) is stated .1 too high.
    rows = []
    for x, like, other in ((0.5, 0.8, 0.2), (0.3, 0.6, 0.5), (0.2, 0.9, 0.1), (0.7, 0.4, 0.3), (0.6, 0.3, 0.7)):
        p_y = x * like + (1 - x) * other
        rows.append(f"{x},{p_y + 0.1},{like},{other},{x * like / p_y}")
    found = estimates(score_table(table("p_x,p_y,p_y_given_x,p_y_given_not_x,posterior", *rows)))
    assert found["RMSE to Bayes (coherent P(Y))"].estimate == pytest.approx(0, abs=1e-12)
    assert found["P(Y) minus P(Y) by total probability"].estimate == pytest.approx(0.1)
    assert found["weight of the evidence"].estimate == pytest.approx(1)


def test_cases(table: Write, estimates: Estimates) -> None:
    # Implied: .25 * .2 + .75 * .6 = .5, .5 * .4 + .5 * .4 = .4, weights 2 and 2 the same .3.
    lines = ("p,cond_a,weight_a,cond_b,weight_b", "0.6,0.2,0.25,0.6,0.75", "0.3,0.4,0.5,0.4,0.5", "0.3,0.2,2,0.4,2")
    scored = score_table(table(*lines))
    found = estimates(scored)
    assert found["belief minus the belief that its cases imply"].estimate == pytest.approx((0.1 - 0.1 + 0) / 3)
    assert found["size of the difference"].estimate == pytest.approx(0.2 / 3)
    assert found["median of difference / p"].estimate == pytest.approx(0.1 / 0.6)
    assert found["median of difference / p"].status == "too_few"
    share = next(score for name, score in found.items() if name.startswith("share outside its cases"))
    assert share.estimate == pytest.approx(1 / 3)


@pytest.mark.parametrize("form", ["wide", "long"])
def test_options(table: Write, form: str, estimates: Estimates, beside: Beside) -> None:
    # c is ruled out: 30:10 becomes 60:20, the same ratio. Then b: 30:60 becomes 10:10.
    wide = (
        "item,prior_a,prior_b,prior_c,prior_other,posterior_a,posterior_b,posterior_c,posterior_other,rejected",
        "s,30,10,60,0,60,20,20,0,c",
        "t,30,10,60,0,10,80,10,0,b",
    )
    long = (
        "item,context,rejected,count_a,count_b,count_c",
        "t,posterior,b,10,80,10", "s,prior,,30,10,60", "s,posterior,c,60,20,20", "t,prior,,30,10,60",
    )  # fmt: skip
    scored = score_table(table(*(wide if form == "wide" else long)))
    found = estimates(scored)
    kept = belief_consistency([0.3, 0.1, 0.6], [0.1, 0.8, 0.1], 1).c2
    assert found["consistency"].estimate == pytest.approx((1 + kept) / 2)
    assert found["share of the rejected option"].estimate == pytest.approx((0.2 + 0.8) / 2)
    assert found["consistency"].n_clusters == 2
    assert "clusters: item (2)" in scored.understood.line
    assert found["consistency, the divergence of sampling taken off"].estimate > found["consistency"].estimate


def test_options_may_be_probabilities(table: Write, estimates: Estimates, beside: Beside) -> None:
    lines = ("prior_a,prior_b,prior_c,posterior_a,posterior_b,posterior_c,rejected", "0.3,0.1,0.5,0.6,0.2,0.1,C")
    scored = score_table(table(*lines), "consistency")
    assert estimates(scored)["consistency"].estimate == pytest.approx(1)
    assert estimates(scored)["consistency"].status == "one_cluster"
    assert "consistency, the divergence of sampling taken off" not in estimates(scored)


def test_forecasts(table: Write, estimates: Estimates) -> None:
    found = estimates(score_table(table("belief,outcome", "0.2,0", "0.6,1", "0.9,1", "0.4,")))
    assert found["Brier score"].estimate == pytest.approx((0.04 + 0.16 + 0.01) / 3)
    assert dict(found["Brier score"].reasons) == {"no outcome": 1}


def test_replicates_give_the_noise_floor(table: Write, estimates: Estimates, beside: Beside) -> None:
    rng = np.random.default_rng(0)
    truth = rng.uniform(0.2, 0.8, 200)
    readings = np.clip(truth[:, None] + rng.normal(0, 0.1, (200, 2)), 0, 1)
    later = np.clip(truth[:, None] + rng.normal(0, 0.1, (200, 2)), 0, 1)
    lines = [f"i{i},{r},{readings[i, r]},{later[i, r]}" for i in range(200) for r in range(2)]
    scored = score_table(table("item,run,prior,posterior", *lines), replicates="run")
    found, note = estimates(scored), beside(scored, "reliability of one reading of the prior")
    icc = reliability_icc(readings[np.argsort([f"i{i}" for i in range(200)])]).icc1
    assert found["reliability of one reading of the prior"].estimate == pytest.approx(icc)
    assert found["M"].n_clusters == 200
    assert float(note["M of a perfect updater read with this noise"]) == pytest.approx(icc - 1, abs=1e-3)
    assert found["M"].estimate == pytest.approx(icc - 1, abs=0.06)  # the truth does not move: all of M is noise
    assert found["M by split readings"].ci_lo < 0 < found["M by split readings"].ci_hi
