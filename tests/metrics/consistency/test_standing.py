"""Beliefs that should stand: retractions under a perturbation, and implanted beliefs by facet, as plain counts say."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from doxascope.metrics.scoring.engine import score_table

Write = Callable[..., Path]


def test_retractions_and_expansions_by_hand(table: Write) -> None:
    """Of four beliefs that were held one is given up, of three that were not two are taken up; one is missing."""
    frame = pd.DataFrame(
        {
            "belief": [0.9, 0.8, 0.7, 0.6, 0.4, 0.3, 0.2, 0.9],
            "perturbed": [0.8, 0.9, 0.6, 0.4, 0.6, 0.7, 0.1, np.nan],
        }
    )
    numbers = {number.metric: number.score for number in score_table(table(**frame)).numbers}
    assert numbers["retraction"].estimate == pytest.approx(1 / 4)
    assert numbers["expansion"].estimate == pytest.approx(2 / 3)
    assert numbers["perturbation_size"].estimate == pytest.approx(
        np.nanmean(np.abs(frame["belief"] - frame["perturbed"]))
    )
    assert (numbers["retraction"].n_rows, numbers["retraction"].n_dropped) == (4, 1)


def test_who_stands_retracts_nothing_and_who_turns_everything(table: Write) -> None:
    belief = np.random.default_rng(0).uniform(size=60)
    steady = {x.metric: x.score for x in score_table(table(belief=belief, perturbed=belief)).numbers}
    assert (steady["retraction"].estimate, steady["expansion"].estimate) == (0, 0)
    assert 0 < steady["retraction"].ci_hi < 0.2  # none of thirty is no proof
    turned = {x.metric: x.score for x in score_table(table(belief=belief, perturbed=1 - belief, name="t.csv")).numbers}
    assert (turned["retraction"].estimate, turned["expansion"].estimate) == (1, 1)


def test_a_deep_belief_is_held_in_every_facet_and_a_shallow_one_when_asked_directly(table: Write) -> None:
    rng = np.random.default_rng(1)
    rows = [
        (kind, f"c{claim}", facet, rng.uniform(0.55, 1) if kind == "deep" or facet == "direct" else rng.uniform(0, 0.9))
        for kind in ("deep", "shallow")
        for claim in range(20)
        for facet in ("direct", "generality", "robustness")
        for _ in range(4)
    ]
    frame = pd.DataFrame(rows, columns=["model", "claim", "facet", "belief"])
    found = {(x.run, x.metric, x.subset): x.score for x in score_table(table(**frame)).numbers}
    for model in ("deep", "shallow"):
        here = frame[frame["model"] == model]
        for facet, beliefs in here.groupby("facet")["belief"]:
            score = found[f"model={model}", "implanted_rate", str(facet)]
            assert score.estimate == pytest.approx((beliefs > 0.5).mean())
        rates = (here["belief"] > 0.5).groupby([here["claim"], here["facet"]]).mean().unstack()
        gap = found[f"model={model}", "implanted_gap", "generality"]
        assert gap.estimate == pytest.approx((rates["generality"] - rates["direct"]).mean())
        assert (gap.ci_hi < 0) == (model == "shallow")
