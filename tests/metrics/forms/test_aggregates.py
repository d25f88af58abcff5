"""Tables of cells: published aggregates are summed up as their papers do, tested, and compared by level."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.stats import norm

from doxascope.base.errors import UserError
from doxascope.metrics import random_effects_pool
from doxascope.metrics.forms.recognition import understand
from doxascope.metrics.scoring.engine import ScoredTable, score_table
from doxascope.metrics.tables.samples import ALL, Cells

Write = Callable[..., Path]
PUBLISHED = Path(__file__).parent / "published"
"""Figures of the Tables 1 of martingale-score (6 models, 3 prompts, 3 domains, 2 ways) and of belief-consistency."""


def numbers(scored: ScoredTable) -> dict[tuple[str, str, str], Any]:
    return {(number.metric, number.method, number.run or number.subset): number for number in scored.numbers}


def test_the_published_martingale_scores_come_out_as_the_papers_summary() -> None:
    path = PUBLISHED / "martingale-table-1.csv"
    frame = pd.read_csv(path)
    assert len(frame) == 108
    found = numbers(score_table(path, by=["domain", "reasoning"]))
    for (domain, reasoning), own in frame.groupby(["domain", "reasoning"]):
        name = f"domain={domain}, reasoning={reasoning}"
        assert found["cells_mean", "M", name].score.estimate == pytest.approx(own["M"].mean())
        assert found["cells_mean", "M", name].score.n_clusters == 6
        if (own["M"] < 0).any():
            assert found["cells_mean_abs", "M", name].score.estimate == pytest.approx(own["M"].abs().mean())
    size = frame["M"].abs().groupby([frame["domain"], frame["reasoning"]]).mean()
    # what the text says of Table 1, whose cells are rounded: mean |M| of CoT, and how many are positive
    told = {"ChangeMyView": 0.103, "Forecasting": 0.037, "OpenReview": 0.086}
    assert {domain: size[domain, "CoT"] for domain in told} == pytest.approx(told, abs=0.002)
    by_way = numbers(score_table(path, by=["reasoning"]))
    assert by_way["cells_mean", "M", "reasoning=CoT"].beside["above 0"] == "51 of 54"
    by_prompt = numbers(score_table(path, by=["prompt"]))
    sizes = {p: by_prompt["cells_mean_abs", "M", f"prompt={p} Prompt"] for p in ("PC", "No", "CT")}
    assert [number.score.estimate for number in sizes.values()] == pytest.approx([0.082, 0.075, 0.072], abs=0.004)
    for name, one in sizes.items():
        values = frame.loc[frame["prompt"] == f"{name} Prompt", "M"].abs()
        half = norm.ppf(0.975) * values.std() / len(values) ** 0.5
        assert one.beside["cells alone, as published"] == f"{values.mean():.4f} ± {half:.4f}"
    assert by_prompt["cells_mean", "M", ALL].beside["marked as significant"] == f"{frame['significant'].sum()} of 108"


def test_levels_are_compared_at_the_same_other_levels() -> None:
    path = PUBLISHED / "martingale-table-1.csv"
    frame = pd.read_csv(path)
    scored = score_table(path)
    assert "by model (6), prompt (3), domain (3), reasoning (2)" in scored.understood.line
    found = {number.method: number.score for number in scored.differences}
    one, two = (
        frame[frame["domain"] == name].set_index(["model", "prompt", "reasoning"])["M"]
        for name in ("Forecasting", "OpenReview")
    )
    difference = found["M, domain=Forecasting - M, domain=OpenReview"]
    assert difference.estimate == pytest.approx((one - two).mean())
    assert (difference.n_rows, difference.n_clusters) == (36, 6)
    assert difference.estimate < 0


def test_two_modes_of_a_model_are_told_apart(table: Write) -> None:
    """A column `think` is a condition of cells, as in raw data and by its longer name."""
    frame = pd.read_csv(PUBLISHED / "consistency-table-1.csv")
    read = understand(table(**frame.rename(columns={"thinking": "think"})))
    assert "not used" not in read.line
    for level, own in frame.groupby("thinking"):
        (sample,) = [
            sample for sample in read.samples if sample.run == f"think={level}" and sample.method == "2 classes"
        ]
        assert isinstance(sample, Cells)
        assert sorted(sample.value) == sorted(own["value_2 classes"])
        assert {"model", "think"} <= {*sample.factors}


def test_the_published_consistencies_by_model_and_thinking() -> None:
    path = PUBLISHED / "consistency-table-1.csv"
    frame = pd.read_csv(path)
    assert len(frame) == 36
    found = numbers(score_table(path, by=["thinking"]))
    for column in frame.columns[2:]:
        name = column.removeprefix("value_")
        assert found["cells_mean", name, ALL].score.estimate == pytest.approx(frame[column].mean())
        for level, own in frame.groupby("thinking"):
            got = found["cells_mean", name, f"thinking={level}"].score
            assert got.estimate == pytest.approx(own[column].mean())
    # the paper's best: 2 classes of Qwen2.5-Coder 14B, 3 classes of Qwen3 32B with thinking
    assert frame.nlargest(1, "value_2 classes").iloc[0]["model"] == "Qwen2.5-Coder 14B"
    best = frame.nlargest(1, "value_3 classes").iloc[0]
    assert (best["model"], best["thinking"]) == ("Qwen3 32B", "on")
    assert found["cells_mean", "3 classes", ALL].beside["from, to"].endswith(f"{best['value_3 classes']:.4f}")


def test_errors_of_cells_pool_them_and_a_brier_score_is_regressed_with_controls(table: Write) -> None:
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        [(m, d, rng.normal(0.1, 0.05), rng.uniform(0.01, 0.05)) for m in "abcdef" for d in ("law", "med", "art")],
        columns=["model", "domain", "M", "SE"],
    )
    frame["brier"] = 0.2 + 0.3 * frame["M"].abs() + 0.05 * (frame["domain"] == "med") + rng.normal(0, 0.01, len(frame))
    found = numbers(score_table(table(**frame)))
    pooled = random_effects_pool(frame["M"], frame["SE"])
    assert found["cells_pooled", "M", ALL].score.estimate == pytest.approx(pooled.pooled)
    p = 2 * norm.sf((frame["M"] / frame["SE"]).abs())
    told = found["cells_mean", "M", ALL].beside["with p below 0.05 by their errors, after Holm"]
    assert told.startswith(f"{(p < 0.05).sum()}, ")
    for held in ([], ["domain"], ["domain", "model"]):
        design = pd.concat([frame["M"].abs(), *(pd.get_dummies(frame[x], drop_first=True) for x in held)], axis=1)
        fit = sm.OLS(frame["brier"], sm.add_constant(design.astype(float))).fit()
        got = found["brier_on_abs_M", "M", f"given {', '.join(held)}" if held else ALL].score
        assert (got.estimate, got.p, got.r2) == pytest.approx((fit.params["M"], fit.pvalues["M"], fit.rsquared))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("model,M,SE", "a,0.1,-0.2"), "row 1, se: '-0.2' is negative"),
        (("model,M", "a,"), "m: has no number"),
        (("model,M", ",0.1"), "row 1, model: is missing"),
        (("M,SE", "0.1,0.2"), "lacks 'model'"),
    ],
)
def test_a_mistake_in_a_table_of_cells_is_one_line(table: Write, lines: tuple[str, ...], message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        score_table(table(*lines))
