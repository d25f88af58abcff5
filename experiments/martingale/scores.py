"""The numbers that only this experiment has: distance from a known posterior, how trajectories ended, the control."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from ...metrics import Score, cluster_mean, evidence_responding, evidence_slope, martingale_within
from ..runs.scores import gate, resampling
from ..scoring.number import Number
from ..tables.belief_parts import BeliefTable
from ..tables.updates import STEPWISE
from .config import MartingaleConfig
from .control import control_numbers
from .table import array, by_method, cell_names, labels, once, pairs, readings, subsets, trajectory_statuses

TRAJECTORIES = "trajectories"
"""What stands in place of a method where the trajectories themselves are counted."""
STATUSES = {
    "truncated": "trajectories cut off at the limit",
    "unsplit": "trajectories of one step for want of a place to split",
    "empty": "trajectories without a step",
}


def own_scores(config: MartingaleConfig, beliefs: BeliefTable) -> Iterator[Number]:
    """Of each method and subset where the true posterior is known, the mean distance from it, and its own slope on the
    same draws, which is chance alone; its gate; the share of trajectories of each status but `ok`; and the control.
    """
    fitted = resampling(config).interval

    def mean(rows: pd.DataFrame, values: "pd.Series[float]") -> Score:
        return cluster_mean(values.to_numpy(dtype=np.float64), labels(rows), **fitted)

    urns = readings(beliefs, of_gate=True)
    for kind, method, rows in by_method(readings(beliefs)):
        yield _gate(config, kind, method, rows, urns)
        for subset, (own, steps) in subsets(rows, pairs(rows, STEPWISE)):
            known, shown = own.dropna(subset=["truth"]), steps.dropna(subset=["true_prior"])
            if known.empty:
                continue
            named: dict[str, Any] = {"method": method, "kind": kind, "subset": subset}
            error = mean(known, (known["belief"] - known["truth"]).abs())
            yield Number(metric="truth_error", quantity="distance from the true posterior", score=error, **named)
            slope = martingale_within(
                array(shown, "true_prior"),
                array(shown, "true_post"),
                labels(shown),
                cell_names(shown),
                level=config.level,
            )
            yield Number(metric="M_truth", quantity="M of the true posterior, per step", score=slope, **named)
    for subset, (rows,) in subsets(trajectory_statuses(beliefs)):
        for status, quantity in STATUSES.items():
            share = mean(rows, (rows["status"] == status).astype(np.float64))
            yield Number(metric=status, method=TRAJECTORIES, subset=subset, score=share, quantity=quantity)
    yield from control_numbers(config, beliefs)


def _gate(config: MartingaleConfig, kind: str, method: str, rows: pd.DataFrame, shown: pd.DataFrame) -> Number:
    """Is the answer given often enough, and does it follow evidence whose posterior is known? (METRICS W4)"""
    each = once(rows)["coverage"]
    answered: dict[str, Any] = {"coverage": {"": each}} if kind == "exact" else {"parse_rate": {"": float(each.mean())}}
    own = shown[(shown["kind"] == kind) & (shown["method"] == method)]
    shows = array(own, "belief"), array(own, "truth"), labels(own)
    answered |= {"evidence": evidence_slope(*shows, **resampling(config).interval)}
    answered |= {"responding": evidence_responding(*shows)}
    return gate(config, method, kind, min_parse=1 - config.most_unparsed, **answered)
