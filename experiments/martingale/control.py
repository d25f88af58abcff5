"""What the negative control comes to: no slope and no drift, if the pipeline is sound (METRICS A9)."""

from collections.abc import Iterator

import pandas as pd

from ...metrics import drift_covariance, martingale_iv, martingale_score, tost
from ..runs.scores import resampling
from ..scoring.number import Number
from .config import MartingaleConfig
from .doob import END, METHOD, START
from .table import array, labels, marked

REACH, MOST_SE = 0.05, 0.03
"""Within what the control must be equivalent to zero, a slope or the root of drift², and how well the slope must be
known.
"""


def control_numbers(config: MartingaleConfig, beliefs: pd.DataFrame) -> Iterator[Number]:
    """The plain slope, which shows what noise of the prior does, the slope by split readings, and the drift from
    disjoint halves, both with their equivalence to zero. None if no control was run.
    """
    table = marked(beliefs)
    table = table[table["control"].notna()]
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
    halves = [
        [array(own[own["draw"] % 2 == half], "mean_end") - array(own[own["draw"] % 2 == half], name)
         for _, own in updates.groupby("cluster", sort=False)]
        for half, name in enumerate(("first", "second"))
    ]  # fmt: skip
    fitted = resampling(config).interval
    slope = martingale_score(array(prior, "mean"), post, groups, se="CR1", **fitted)
    iv = martingale_iv(array(prior, "first"), array(prior, "second"), post, groups, **fitted)
    drift = drift_covariance(*halves, **fitted)
    for metric, quantity, score, reach in (
        ("control_slope", "M of the control", slope, None),
        ("control_iv", "M of the control, by split readings", iv, REACH),
        ("control_drift2", "mean square drift of the control", drift, REACH**2),
    ):
        yield Number(
            metric=metric,
            method=METHOD,
            kind="verbal",
            score=score,
            quantity=quantity,
            equivalence=tost(score.estimate, score.se, score.n_clusters - 1, -reach, reach) if reach else None,
            code="A9",
        )
