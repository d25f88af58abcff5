"""What the negative control comes to: no slope and no drift, if the pipeline is sound (METRICS A9)."""

from collections.abc import Iterator

import numpy as np

from ...metrics import coherence_claim, drift_covariance, martingale_iv, martingale_within, tost
from ..runs.scores import resampling
from ..scoring.number import Number
from ..tables.belief_parts import BeliefTable
from .config import MartingaleConfig
from .doob import END, METHOD, START
from .table import array, labels, tables

REACH, MOST_SE = 0.05, 0.03
"""Within what the control must be equivalent to zero, a slope or the root of drift², and how well the slope must be
known.
"""


def control_numbers(config: MartingaleConfig, beliefs: BeliefTable) -> Iterator[Number]:
    """The plain slope, which shows what noise of the prior does, the slope by split readings, and the drift from
    disjoint halves, both with their equivalence to zero. None if no control was run.
    """
    table = tables(beliefs).control
    if table.empty:
        return
    key = ["domain", "prompt", "item", "cluster", "draw"]
    wide = table.pivot(index=[*key, "step"], columns="reading", values="prob").reset_index()
    wide = wide.rename(columns={0: "first", 1: "second"}).sort_values([*key, "step"], ignore_index=True)
    wide["mean"] = (wide["first"] + wide["second"]) / 2
    before = wide.groupby(key, sort=False)[["first", "second", "mean"]].shift(1)
    later = (wide["step"] > START).to_numpy()
    post, prior, groups = array(wide[later], "mean"), before[later], labels(wide[later])
    begun, ended = wide[wide["step"] == START], wide[wide["step"] == END]
    updates = begun.merge(ended, on=key, suffixes=("", "_end"))
    questions = updates.groupby(["domain", "prompt", "item"], sort=False)
    halves = [
        [array(own[own["draw"] % 2 == half], "mean_end") - array(own[own["draw"] % 2 == half], name)
         for _, own in questions]
        for half, name in enumerate(("first", "second"))
    ]  # fmt: skip
    owners = questions["cluster"].first().to_numpy()
    how = resampling(config)
    fitted = how.interval
    cell = labels(wide[later], "domain") + ", " + labels(wide[later], "prompt")
    slope = martingale_within(array(prior, "mean"), post, groups, cell, level=config.level)
    iv = martingale_iv(array(prior, "first"), array(prior, "second"), post, groups, **fitted)
    drift = drift_covariance(halves[0], halves[1], owners, prior=questions["mean"].mean().to_numpy(), **fitted)
    squares = np.array([first.mean() * second.mean() if len(first) and len(second) else np.nan
                        for first, second in zip(*halves, strict=True)])  # fmt: skip
    for metric, quantity, score, equivalence in (
        ("control_slope", "M of the control", slope, None),
        (
            "control_iv",
            "M of the control, by split readings",
            iv,
            tost(iv.M_iv, iv.se, iv.n_clusters - 1, -REACH, REACH),
        ),
        (
            "control_drift2",
            "mean square drift of the control",
            drift,
            coherence_claim(squares, owners, REACH**2, bounded_below=False, **how.test),
        ),
    ):
        yield Number(
            metric=metric,
            method=METHOD,
            kind="verbal",
            score=score,
            quantity=quantity,
            equivalence=equivalence,
            code="A9",
        )
