"""`doxascope score` on public data, where it lies beside the checkout."""

import csv
import gzip
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import mutual_info_score

from doxascope.metrics import bayes_error, calibration_slope, martingale_score, quantile_bins
from doxascope.metrics.scoring.engine import score_table

Estimates = Callable[..., dict[str, Any]]
Beside = Callable[..., Mapping[str, str]]
DATA = Path(os.environ.get("DOXASCOPE_DATA", Path(__file__).parents[3] / "../shared/data"))


def public(name: str) -> Path:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{name} is not beside the checkout (DOXASCOPE_DATA names the folder)")
    return path


def test_market_prices_against_resolutions(tmp_path: Path, estimates: Estimates) -> None:
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


def test_relative_frequencies_obey_bayes_and_total_probability(tmp_path: Path, estimates: Estimates) -> None:
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


def test_an_act_that_knows_more_than_the_belief(tmp_path: Path, estimates: Estimates, beside: Beside) -> None:
    # The belief is the share of the ill of one's age; the pressure also depends on the illness itself.
    survey = pd.read_csv(public("brfss2015/diabetes_binary_5050split_BRFSS2015.csv.gz")).sample(2000, random_state=0)
    ill, pressure, age = (survey[name] for name in ("diabetes_binary", "high_blood_pressure", "age"))
    frame = pd.DataFrame({"belief": ill.groupby(age).transform("mean"), "action": pressure, "outcome": ill})
    frame.to_csv(tmp_path / "t.csv", index=False)
    scored = score_table(tmp_path / "t.csv", "decision")
    quantity = "information beyond the belief, nats"
    strata = frame.groupby(quantile_bins(frame["belief"], len(frame) // 15))
    parts = [(len(rows), mutual_info_score(rows["action"], rows["outcome"])) for _, rows in strata]
    plugin = sum(n * nats for n, nats in parts) / len(frame)
    said = beside(scored, quantity)["before its mean under permutation is taken off"]
    assert float(said.split(" minus ")[0]) == pytest.approx(plugin, abs=1e-4)
    score = estimates(scored)[quantity]
    assert 0 < score.estimate < plugin
    assert score.p < 0.01
