"""What the negative control comes to: no slope and no drift, if the pipeline is sound (METRICS A9)."""

import pandas as pd

from ...metrics import Score, drift_covariance, martingale_iv, martingale_score, tost
from ..experiment import Cell
from .config import MartingaleConfig
from .doob import END, METHOD, START
from .table import array, labels, marked

REACH, MOST_SE = 0.05, 0.03
"""Within what the control must be equivalent to zero, a slope or the root of drift², and how well the slope must be
known.
"""


def control_cells(config: MartingaleConfig, beliefs: pd.DataFrame) -> list[Cell]:
    """Slope by split readings with its equivalence test, the plain slope that shows what noise of the prior does, and
    the drift from disjoint halves with its equivalence test. None if no control was run.
    """
    table = marked(beliefs)
    table = table[table["control"].notna()]
    if table.empty:
        return []
    key = ["domain", "prompt", "item", "cluster", "draw"]
    wide = table.pivot(index=[*key, "step"], columns="reading", values="prob").reset_index()
    wide = wide.rename(columns={0: "first", 1: "second"}).sort_values([*key, "step"], ignore_index=True)
    wide["mean"] = (wide["first"] + wide["second"]) / 2
    before = wide.groupby(key, sort=False)[["first", "second", "mean"]].shift(1)
    later = (wide["step"] > START).to_numpy()
    post, prior, groups = array(wide[later], "mean"), before[later], labels(wide[later])
    fitted = {"draws": config.bootstrap_draws, "seed": config.seed, "level": config.level}
    iv = martingale_iv(array(prior, "first"), array(prior, "second"), post, groups, **fitted)
    found: dict[str, Score] = {
        "control_slope": martingale_score(array(prior, "mean"), post, groups, **fitted),
        "control_iv": iv,
        "control_iv_tost": tost(iv.M_iv, iv.se, iv.n_clusters - 1, -REACH, REACH),
    }
    begun, ended = wide[wide["step"] == START], wide[wide["step"] == END]
    updates = begun.merge(ended, on=key, suffixes=("", "_end"))
    halves = [
        [array(own[own["draw"] % 2 == half], "mean_end") - array(own[own["draw"] % 2 == half], name)
         for _, own in updates.groupby("cluster", sort=False)]
        for half, name in enumerate(("first", "second"))
    ]  # fmt: skip
    drift = drift_covariance(*halves, **fitted)
    found |= {
        "control_drift2": drift,
        "control_drift2_tost": tost(drift.drift2, drift.se, drift.n_questions - 1, -(REACH**2), REACH**2),
    }
    return [Cell(metric, METHOD, "all", score, "verbal") for metric, score in found.items()]
