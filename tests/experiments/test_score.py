"""`doxascope score`: every plain form by an example that a hand can check, every mistake, and public data."""

import csv
import gzip
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from doxascope.experiments.scoring import reading
from doxascope.experiments.scoring.cells import load
from doxascope.experiments.scoring.output import as_data, as_html, as_text, prepare, write
from doxascope.experiments.scoring.score_table import Scored, score_table
from doxascope.hooks.errors import UserError
from doxascope.metrics import (
    bayes_error,
    belief_consistency,
    calibration_slope,
    martingale_score,
    paired_difference,
    reliability_icc,
)

DATA = Path(os.environ.get("DOXASCOPE_DATA", Path(__file__).parents[2] / "../shared/data"))

Write = Callable[..., Path]


@pytest.fixture
def table(tmp_path: Path) -> Write:
    """Writes a CSV from its lines and names it."""

    def make(*lines: str, name: str = "t.csv", encoding: str = "utf-8") -> Path:
        path = tmp_path / name
        path.write_text("\n".join(lines) + "\n", encoding=encoding)
        return path

    return make


def estimates(scored: Scored, kind: str = "") -> dict[str, Any]:
    return {line.quantity: line.score for e in scored.entries if e.group == kind for line in e.lines}


def beside(scored: Scored, quantity: str) -> Mapping[str, str]:
    return next(line.beside for e in scored.entries for line in e.lines if line.quantity == quantity)


# --- the plain forms ---------------------------------------------------------------------------------------------

PAIRS = ("prior,posterior,outcome,question", "0.2,0.3,0,a", "0.4,0.4,1,a", "0.6,0.7,1,b", "0.8,0.6,1,c", "0.5,,1,d")


def test_pairs(table: Write) -> None:
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


def test_without_a_cluster_each_row_is_its_own_and_the_interval_is_hc3(table: Write) -> None:
    rows = ["0.1,0.2", "0.3,0.2", "0.5,0.6", "0.7,0.7", "0.9,0.8"]
    scored = score_table(table("prior,posterior", *rows), "martingale")
    expected = martingale_score([0.1, 0.3, 0.5, 0.7, 0.9], [0.2, 0.2, 0.6, 0.7, 0.8], se="HC3")
    assert estimates(scored)["M"].as_dict() == expected.as_dict()
    assert "each row its own cluster" in scored.understood.line


@pytest.mark.parametrize("form", ["wide", "long"])
def test_trajectories(table: Write, form: str) -> None:
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


def test_trajectories_of_a_question_share_its_cluster(table: Write) -> None:
    lines = [f"q{q},{t},{s},{0.3 + 0.1 * q + 0.05 * s * (1 + t)}" for q in range(3) for t in range(2) for s in range(3)]
    scored = score_table(table("question,trajectory,step,belief", *lines), "martingale")
    score = estimates(scored)["M, per step"]
    assert (score.n_rows, score.n_clusters) == (12, 3)


def test_trajectories_of_two_steps_are_scored_once(table: Write) -> None:
    scored = score_table(table("b_0,b_1", "0.2,0.3", "0.4,0.4", "0.6,0.7", "0.8,0.6"), "martingale")
    assert list(estimates(scored)) == ["M", "mean update"]
    assert estimates(scored)["M"].estimate == pytest.approx(-0.4)
    assert "each trajectory its own cluster" in scored.understood.line


def test_bayes_readings(table: Write) -> None:
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


def test_bayes_readings_with_the_second_likelihood(table: Write) -> None:
    # A Bayesian: P(Y) = .5 * .8 + .5 * .2 = .5, posterior .8; then weights of one. P(Y) is stated .1 too high.
    rows = []
    for x, like, other in ((0.5, 0.8, 0.2), (0.3, 0.6, 0.5), (0.2, 0.9, 0.1), (0.7, 0.4, 0.3), (0.6, 0.3, 0.7)):
        p_y = x * like + (1 - x) * other
        rows.append(f"{x},{p_y + 0.1},{like},{other},{x * like / p_y}")
    found = estimates(score_table(table("p_x,p_y,p_y_given_x,p_y_given_not_x,posterior", *rows)))
    assert found["RMSE to Bayes (coherent P(Y))"].estimate == pytest.approx(0, abs=1e-12)
    assert found["stated P(Y) less total probability"].estimate == pytest.approx(0.1)
    assert found["weight of the evidence"].estimate == pytest.approx(1)


def test_cases(table: Write) -> None:
    # Implied: .25 * .2 + .75 * .6 = .5, .5 * .4 + .5 * .4 = .4, weights 2 and 2 the same .3.
    lines = ("p,cond_a,weight_a,cond_b,weight_b", "0.6,0.2,0.25,0.6,0.75", "0.3,0.4,0.5,0.4,0.5", "0.3,0.2,2,0.4,2")
    scored = score_table(table(*lines))
    found = estimates(scored)
    assert found["p less the implied p"].estimate == pytest.approx((0.1 - 0.1 + 0) / 3)
    assert found["size of the difference"].estimate == pytest.approx(0.2 / 3)
    assert found["median of difference / p"].estimate == pytest.approx(0.1 / 0.6)
    assert found["median of difference / p"].status == "too_few"
    share = next(score for name, score in found.items() if name.startswith("share outside its cases"))
    assert share.estimate == pytest.approx(1 / 3)


@pytest.mark.parametrize("form", ["wide", "long"])
def test_options(table: Write, form: str) -> None:
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
    assert "corrected for it" in beside(scored, "consistency")


def test_options_may_be_probabilities(table: Write) -> None:
    lines = ("prior_a,prior_b,prior_c,posterior_a,posterior_b,posterior_c,rejected", "0.3,0.1,0.5,0.6,0.2,0.1,C")
    scored = score_table(table(*lines), "consistency")
    assert estimates(scored)["consistency"].estimate == pytest.approx(1)
    assert estimates(scored)["consistency"].status == "one_cluster"
    assert "corrected for it" not in beside(scored, "consistency")


def test_forecasts(table: Write) -> None:
    found = estimates(score_table(table("belief,outcome", "0.2,0", "0.6,1", "0.9,1", "0.4,")))
    assert found["Brier score"].estimate == pytest.approx((0.04 + 0.16 + 0.01) / 3)
    assert dict(found["Brier score"].reasons) == {"no outcome": 1}


def test_replicates_give_the_noise_floor(table: Write) -> None:
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


# --- the belief table --------------------------------------------------------------------------------------------


def beliefs(n: int = 12) -> pd.DataFrame:
    """Two kinds of belief of the same items: exact ones that hold still, verbal ones that halve."""
    rng = np.random.default_rng(1)
    rows = []
    for i, prior in enumerate(rng.uniform(0.1, 0.9, n)):
        for kind, post in (("exact", min(1.0, prior + rng.normal(0, 0.01))), ("verbal", prior / 2)):
            for step, belief in enumerate((prior, post)):
                for k, (option, prob) in enumerate((("yes", belief), ("no", 1 - belief))):
                    rows.append(
                        {"readout_id": f"{i}/{kind}/{step}", "item": f"i{i}", "kind": kind, "method": "free",
                         "step": step, "option": option, "option_index": k, "prob": prob, "outcome": float(k == i % 2)}
                    )  # fmt: skip
    return pd.DataFrame(rows)


def test_a_belief_table_has_a_score_per_kind_and_their_paired_differences(tmp_path: Path) -> None:
    frame = beliefs()
    path = tmp_path / "beliefs.parquet"
    frame.sample(frac=1, random_state=0).to_parquet(path)
    scored = score_table(path)
    assert estimates(scored, "verbal/free")["M"].estimate == pytest.approx(-0.5)
    yes = frame[frame["option"] == "yes"].pivot(index=["kind", "item"], columns="step", values="prob")
    one, two = yes.loc["exact"], yes.loc["verbal"]
    (name,) = [key for key in scored.comparisons if key[0] == "martingale"]
    sign = 1 if name[1] == "exact/free" else -1
    expected = paired_difference(
        (one[0], one[1]), (two[0], two[1]), lambda b, q: np.polyfit(b, q - b, 1)[0], one.index.to_numpy()
    )
    difference = scored.comparisons[name]
    assert sign * difference.difference == pytest.approx(expected.difference)
    assert difference.family_size == len(scored.comparisons) == 3
    assert difference.p_adjusted >= difference.p
    assert difference.n_clusters == 12


def test_a_rejection_in_the_variant_makes_a_belief_table_one_of_options(tmp_path: Path) -> None:
    rows = []
    for i in range(3):
        for scenario, variant, probs in (
            ("prior", "", (0.3, 0.1, 0.6)),
            ("posterior", json.dumps({"rejected": 2}), (0.6, 0.2, 0.2)),
            ("posterior", json.dumps({"rejected": 1}), (0.1, 0.8, 0.1)),
        ):
            rows += [
                {"readout_id": f"{i}/{variant}", "item": f"t{i}", "kind": "exact", "method": "free",
                 "scenario": scenario, "variant": variant, "option": o, "option_index": k, "prob": p}
                for k, (o, p) in enumerate(zip("abc", probs, strict=True))
            ]  # fmt: skip
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    found = estimates(score_table(path), "exact/free")
    kept = belief_consistency([0.3, 0.1, 0.6], [0.1, 0.8, 0.1], 1).c2
    assert found["consistency"].estimate == pytest.approx((1 + kept) / 2)
    assert (found["consistency"].n_rows, found["consistency"].n_clusters) == (6, 3)


def test_a_read_out_that_failed_is_dropped_under_its_status(tmp_path: Path) -> None:
    frame = beliefs()
    frame["status"] = "ok"
    lost = frame["readout_id"] == "3/verbal/1"
    frame.loc[lost, ["prob", "status"]] = [np.nan, "refused"]
    frame["scenario"] = np.where(frame["step"] == 0, "prior", "posterior")
    path = tmp_path / "beliefs.csv"
    frame.to_csv(path, index=False)
    scored = score_table(path, "martingale")
    assert dict(estimates(scored, "verbal/free")["M"].reasons) == {"refused": 1}
    assert scored.comparisons["martingale", "exact/free", "verbal/free"].n_rows == 11
    assert "read-outs: 1 refused" in scored.understood.line


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "guess"}, "row 2, kind: 'guess' is unknown; one of exact, lens, probe, verbal, judge"),
        ({"prob": 1.5}, "row 2, prob: '1.5' is not in [0, 1]"),
        ({"prob": 0.5}, "prob sums to"),
        ({"option": "yes"}, "has option 'yes' twice"),
        ({"kind": "probe"}, "mixes several values of 'kind'"),
        ({"item": None}, "row 2, item: is missing"),
        ({"item": "i1"}, "mixes several values of 'item'"),
    ],
)
def test_a_belief_table_that_breaks_its_contract(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    frame = beliefs(3)
    for column, value in change.items():
        frame.loc[1, column] = value
    path = tmp_path / "t.csv"
    frame.to_csv(path, index=False)
    with pytest.raises(UserError, match=re.escape(message)):
        score_table(path)


def test_an_item_lies_in_one_cluster(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    frame = beliefs(3)
    frame.assign(cluster=np.where(frame["kind"] == "exact", "a", "b")).to_csv(path, index=False)
    with pytest.raises(UserError, match="item 'i0' lies in several clusters"):
        score_table(path)


# --- mistakes ----------------------------------------------------------------------------------------------------

MISTAKES = [
    ("prior,posterior|0.2,1.3", "row 1, posterior: '1.3' is not in [0, 1]"),
    ("prior,posterior|20,30|40,55", "divide percentages by 100"),
    ("prior,posterior|0.2,0.3|-0.1,0.3", "row 2, prior: '-0.1' is not in [0, 1]"),
    ("prior,posterior|0.2,0.3|inf,0.3", "row 2, prior: 'inf' is not in [0, 1]"),
    ("prior,posterior|0.2,0.3|likely,0.3", "row 2, prior: 'likely' is not a number"),
    ("prior,posterior|0.2,0.3|0.4", "row 2 has 1 fields, the header 2"),
    ("prior,posterior|0.2,0.3,0.4", "row 1 has 3 fields, the header 2"),
    ("prior,posterior", "has columns but no rows"),
    ("prior;posterior|0.2;0.3", "not separated by commas"),
    ("prior,prior,posterior|0.2,0.2,0.3", "has two columns 'prior'"),
    ("prior,posterior,outcome|0.2,0.3,0.5", "row 1, outcome: '0.5' is not an outcome"),
    ("prior,posterior,cluster|0.2,0.3,a|0.2,0.3,", "row 2, cluster: is missing"),
    (
        "prior,posteriors|0.2,0.3",
        "nearest is 'pairs' (prior, posterior [, outcome]), which lacks 'posterior'; is it 'po",
    ),
    ("p_x,p_y,posterior|0.1,0.1,0.1", "which lacks 'p_y_given_x'"),
    ("b_0,b_2|0.1,0.1", "which lacks 'b_1'"),
    ("apples,pears|1,2", "fit no metric"),
    ("p,cond_1,weight_1,cond_2|0.1,0.1,1,0.1", "which lacks 'weight_2'"),
    ("p,cond_1,weight_1|0.1,0.1,-1", "row 1, weight_1: '-1' is negative or infinite"),
    ("prior,posterior,kind|0.2,0.3,exact|0.2,0.3,verbal", "mixes the kinds exact, verbal"),
    ("question,step,belief|a,0,0.1|a,0,0.2", "question 'a' has step 0 twice"),
    ("question,step,belief,cluster|a,0,0.1,x|a,1,0.2,y", "cluster differs along question 'a'"),
    (
        "prior_a,prior_b,prior_c,posterior_a,posterior_b,posterior_c,rejected|1,2,-3,1,2,3,c",
        "prior_c: '-3' is negative",
    ),
    ("prior_a,prior_b,prior_c,posterior_a,posterior_b,posterior_c,rejected|1,2,3,1,2,3,d", "'d' is no option"),
    ("prior_a,prior_b,prior_c,posterior_a,posterior_b,posterior_c,rejected|1,2,.5,1,2,3,c", "not a whole number"),
    ("prior_a,prior_b,posterior_a,posterior_b,rejected|1,2,1,2,b", "has 2 options (a, b); consistency is defined for"),
    ("item,context,rejected,count_a,count_b,count_c|s,posterior,a,1,2,3", "row 1: item 's' has no prior"),
    ("item,context,rejected,count_a,count_b,count_c|s,before,a,1,2,3", "row 1, context: 'before'; give 'prior'"),
]


@pytest.mark.parametrize(("text", "message"), MISTAKES)
def test_a_mistake_in_the_table_is_one_line_that_says_where(table: Write, text: str, message: str) -> None:
    path = table(*text.split("|"))
    with pytest.raises(UserError, match=re.escape(message)) as caught:
        score_table(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_mistakes_in_the_arguments(table: Write, tmp_path: Path) -> None:
    path = table(*PAIRS)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"metric": "martngale"}, "did you mean 'martingale'?"),
        ({"metric": "lie"}, "is 'pairs', and lie wants p, cond_1"),
        ({"metric": "martingale-replicates"}, "needs replicate readings"),
        ({"cluster": "questions"}, "has no column 'questions'; is it 'question'?"),
        ({"replicates": "question"}, "needs a column 'item'"),
    ]
    for arguments, message in wrong:
        with pytest.raises(UserError, match=re.escape(message)):
            score_table(path, **arguments)
    with pytest.raises(UserError, match="brier needs column 'outcome'"):
        score_table(table("prior,posterior", "0.1,0.2"), "brier")
    for name, message in (("none.csv", "no such file"), ("t.xlsx", "unknown extension '.xlsx'")):
        (tmp_path / "t.xlsx").write_bytes(b"PK")
        with pytest.raises(UserError, match=message):
            score_table(tmp_path / name)


def test_one_cluster_has_a_number_and_no_interval(table: Write) -> None:
    score = estimates(score_table(table("prior,posterior,cluster", "0.1,0.2,a", "0.5,0.4,a", "0.8,0.9,a")))["M"]
    assert score.status == "one_cluster"
    assert np.isfinite(score.estimate)
    assert np.isnan([score.ci_lo, score.p]).all()


# --- files -------------------------------------------------------------------------------------------------------


def test_encodings(table: Write) -> None:
    rows = ("prior,posterior,question", "0.2,0.3,Köln", "0.5,0.4,Łódź", "0.7,0.7,Köln")
    plain = estimates(score_table(table(*rows)))["M"]
    for encoding in ("utf-8-sig", "utf-16", "utf-32"):
        assert estimates(score_table(table(*rows, encoding=encoding)))["M"] == plain
    with pytest.raises(UserError, match="another encoding than UTF-8 \\(byte 0xf6\\); save it as UTF-8"):
        score_table(table("prior,posterior,question", "0.2,0.3,Köln", encoding="latin-1"))
    with pytest.raises(UserError, match="zero bytes"):
        score_table(table(*rows, encoding="utf-16-le"))


def test_the_three_formats_and_any_chunk_size_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"prior": rng.uniform(size=50), "posterior": rng.uniform(size=50), "long": "x" * 200_000})
    frame["cluster"] = np.arange(50) // 2
    frame.loc[7, "prior"] = np.nan
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_json(tmp_path / "t.jsonl", orient="records", lines=True, double_precision=15)
    whole = estimates(score_table(tmp_path / "t.parquet"))["M"]
    assert whole.n_dropped == 1
    monkeypatch.setattr(reading, "CHUNK", 7)
    for name in ("t.csv", "t.parquet", "t.jsonl"):
        score = estimates(score_table(tmp_path / name))["M"]
        assert pytest.approx(whole.M) == score.M
        assert (score.n_rows, score.n_clusters) == (49, 25)


def test_only_the_wanted_columns_are_kept(tmp_path: Path) -> None:
    import tracemalloc

    path = tmp_path / "t.csv"
    with path.open("w") as file:
        file.write("prior,posterior,prompt\n")
        file.writelines(f"0.{i % 9 + 1},0.5,{'words ' * 200}\n" for i in range(20_000))
    tracemalloc.start()
    assert len(load(reading.open_table(path), {"prior": "probability"})["prior"]) == 20_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < path.stat().st_size / 5


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (['{"prior": 0.1, "posterior": 0.2}', '{"prior": 0.1}'], "row 2 has no key 'posterior'"),
        (
            ['{"prior": 0.1, "posterior": 0.2}', '{"prior": 0.1, "posterior": 0, "x": 1}'],
            "row 2 is the first with key 'x'",
        ),
        (['{"prior": 0.1, "posterior": 0.2}', "{prior"], "row 2 is not JSON"),
        (["[0.1, 0.2]"], "row 1 is not an object"),
        (['{"prior": [0.1], "posterior": 0.2}'], "row 1, prior: '[0.1]' is not a number"),
        ([""], "is empty"),
    ],
)
def test_mistakes_in_json_lines(table: Write, lines: Sequence[str], message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        score_table(table(*lines, name="t.jsonl"))


def test_a_file_that_is_no_parquet(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(b"not at all")
    with pytest.raises(UserError, match="not valid Parquet"):
        score_table(tmp_path / "t.parquet")


# --- output ------------------------------------------------------------------------------------------------------


def test_json_has_null_for_nan_and_the_page_escapes_the_table(table: Write, tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    scored = score_table(table(f"prior,posterior,{evil}", "0.2,0.3,x", "0.2,0.4,x", name="t&<b>.csv"))
    write(prepare(tmp_path / "out"), scored, {"seed": 0})
    stored = json.loads((tmp_path / "out" / "scores.json").read_text(), parse_constant=pytest.fail)
    assert stored == json.loads(json.dumps(as_data(scored, {"seed": 0}), allow_nan=False))
    slope = stored["scores"][0]
    assert (slope["quantity"], slope["estimate"], slope["status"]) == ("M", None, "zero_variance_prior")
    page = (tmp_path / "out" / "report.html").read_text()
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "t&amp;&lt;b&gt;.csv" in page
    assert "src=" not in page
    assert "http" not in page.replace("http-equiv", "")
    write(prepare(tmp_path / "out"), scored, {"seed": 0})  # its own folder may be written again


def test_a_foreign_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(UserError, match=re.escape("holds 'thesis.tex'")):
        prepare(tmp_path)
    run = tmp_path / "run"
    run.mkdir()
    (run / "scores.json").write_text('{"experiment": "consistency"}')
    with pytest.raises(UserError, match=re.escape("holds 'scores.json'")):
        prepare(run)


def test_what_is_printed_carries_its_denominators_and_methods(table: Write) -> None:
    text = as_text(score_table(table(*PAIRS)))
    assert "1 (1 undefined)" in text
    assert "not shown to be within ±0.02 (TOST p" in text
    assert "smallest |M| found with 80% power" in text
    assert "CR1 over 3 clusters" in text
    assert as_html(score_table(table(*PAIRS)), {}).count("CR1 over 3 clusters") >= 1


def doxascope(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "doxascope", *args]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


def test_the_command_line(table: Write, tmp_path: Path) -> None:
    table(*PAIRS)
    done = doxascope("score", "t.csv", "--out", "o", "--seed", "3", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "pairs (prior, posterior, outcome), 5 rows" in done.stdout
    assert json.loads((tmp_path / "o/scores.json").read_text())["settings"]["seed"] == 3
    table("prior,posterior", "0.2,1.3")
    failed = doxascope("score", "t.csv", cwd=tmp_path)
    assert failed.returncode == 2
    assert failed.stderr.splitlines() == ["doxascope: t.csv: row 1, posterior: '1.3' is not in [0, 1]"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["prior,posterior", "0.2,1.3"], "row 1, posterior: '1.3' is not in [0, 1]"),
        (["prior,posterior", "0.2"], "row 1 has 1 fields, the header 2"),
        (["single_a,single_b,multi_a,multi_b", "1,2,3,-1"], "row 1, multi_b: '-1' is negative or infinite"),
        (["prior,posterior", "inf,0.2"], "row 1, prior: 'inf' is not in [0, 1]"),
        (["prior,posterior"], "has columns but no rows"),
        (["prior,outcome", "0.2,1"], "nearest is 'pairs' (prior, posterior [, outcome]), which lacks 'posterior'"),
        (["prior,posterior,kind", "0.2,0.3,exact", "0.2,0.3,lens"], "mixes the kinds exact, lens"),
        (
            ["readout_id,item,kind,method,option,prob", "r,i,exact,m,yes,0.5", "r,i,exact,m,yes,0.5"],
            "row 2: readout_id 'r' has option 'yes' twice",
        ),
        (["prior,posterior,city", "0.2,0.3,Köln"], "another encoding than UTF-8 (byte 0xf6)"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(tmp_path: Path, lines: Sequence[str], message: str) -> None:
    (tmp_path / "t.csv").write_bytes("\n".join(lines).encode("latin-1"))
    failed = doxascope("score", "t.csv", "--out", "o", cwd=tmp_path)
    assert (failed.returncode, failed.stdout) == (2, "")
    (line,) = failed.stderr.splitlines()
    assert line.startswith("doxascope: t.csv: ")
    assert message in line
    assert not (tmp_path / "o" / "scores.json").exists()


def test_scoring_never_imports_torch(table: Write, tmp_path: Path) -> None:
    path = table(*PAIRS)
    code = (
        "import sys\n"
        f"sys.argv = ['doxascope', 'score', {str(path)!r}, '--out', {str(tmp_path / 'o')!r}]\n"
        "from doxascope.experiments.cli import main\n"
        "try: main()\n"
        "finally: print('imported', {'torch', 'transformers'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "report.html" in done.stdout
    assert done.stdout.endswith("imported set()\n")


# --- public data, where it lies beside the checkout --------------------------------------------------------------


def public(name: str) -> Path:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{name} is not beside the checkout (DOXASCOPE_DATA names the folder)")
    return path


def test_market_prices_against_resolutions(tmp_path: Path) -> None:
    questions = json.loads(public("forecastbench/2024-07-21-human.json").read_text())["questions"]
    with gzip.open(public("forecastbench/2024-07-21_resolution_set.json.gz")) as file:
        resolutions = json.load(file)["resolutions"]
    markets = ("manifold", "metaculus", "infer", "polymarket")
    price = {q["id"]: q["freeze_datetime_value"] for q in questions if q["source"] in markets}
    rows = [
        (r["id"], price[r["id"]], r["resolved_to"], r["resolved_to"] if r["resolved"] else "")
        for r in resolutions
        if isinstance(r["id"], str) and r["id"] in price
    ]
    with (tmp_path / "t.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("question", "prior", "posterior", "outcome"), *rows])
    found = estimates(score_table(tmp_path / "t.csv"))
    values = np.array([(float(b), float(q), float(y) if y != "" else np.nan) for _, b, q, y in rows])
    known = np.isfinite(values[:, 2])
    assert found["M"].n_rows == len(rows) > 50
    assert found["M"].estimate == pytest.approx(np.polyfit(values[:, 0], values[:, 1] - values[:, 0], 1)[0])
    brier = np.mean((values[known, 0] - values[known, 2]) ** 2)
    assert found["Brier score of the prior"].estimate == pytest.approx(brier)
    assert brier < 0.25  # markets know something
    # What is resolved became the truth, so its M is the calibration slope less one (METRICS A10).
    slope = calibration_slope(values[known, 0], values[known, 2]).slope
    assert found["calibration slope of the prior"].estimate == pytest.approx(slope)
    resolved = martingale_score(values[known, 0], values[known, 1])
    assert pytest.approx(slope - 1) == resolved.M


def test_relative_frequencies_obey_bayes_and_total_probability(tmp_path: Path) -> None:
    survey = pd.read_csv(public("brfss2015/diabetes_binary_5050split_BRFSS2015.csv.gz"))
    x, y = survey["diabetes_binary"] == 1, survey["high_blood_pressure"] == 1
    bayes, cases = [], []
    for age, rows in survey.groupby("age"):
        ill, pressure = x[rows.index], y[rows.index]
        bayes.append(
            (age, ill.mean(), pressure.mean(), pressure[ill].mean(), pressure[~ill].mean(), ill[pressure].mean())
        )
        cases.append((ill.mean(), ill[pressure].mean(), pressure.mean(), ill[~pressure].mean(), (~pressure).mean()))
    names = ["cluster", "p_x", "p_y", "p_y_given_x", "p_y_given_not_x", "posterior"]
    pd.DataFrame(bayes, columns=names).to_csv(tmp_path / "bayes.csv", index=False)
    pd.DataFrame(cases, columns=["p", "cond_1", "weight_1", "cond_2", "weight_2"]).to_parquet(tmp_path / "lie.parquet")
    found = estimates(score_table(tmp_path / "bayes.csv"))
    for quantity in ("RMSE to Bayes (clip)", "RMSE to Bayes (coherent P(Y))", "updates in the wrong direction"):
        assert found[quantity].estimate == pytest.approx(0, abs=1e-9)
    assert found["weight of the evidence"].estimate == pytest.approx(1)
    assert found["RMSE to Bayes (clip)"].n_clusters == 13
    found = estimates(score_table(tmp_path / "lie.parquet"))
    assert found["size of the difference"].estimate == pytest.approx(0, abs=1e-12)
    # A reader who takes the overall share for every age is far off, and the score says how far.
    frame = pd.DataFrame(bayes, columns=names).assign(posterior=x.mean())
    frame.to_csv(tmp_path / "flat.csv", index=False)
    expected = bayes_error(frame["posterior"], frame["p_x"] * frame["p_y_given_x"] / frame["p_y"]).rmse
    assert estimates(score_table(tmp_path / "flat.csv"))["RMSE to Bayes (clip)"].estimate == pytest.approx(expected)
