"""Every number of a run, from its belief table alone (METRICS A)."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from ...hooks.errors import UserError
from ...metrics import (
    Reliability,
    Score,
    brier,
    brier_on_split_martingale,
    brier_update,
    calibration_slope,
    cluster_mean,
    disattenuated_slope,
    drift_variance,
    factor_regression,
    judge_agreement,
    martingale_iv,
    martingale_moments,
    martingale_score,
    martingale_slope,
    martingale_tests,
    paired_difference_moments,
    paired_family,
    reliability_icc,
    tost,
)
from ...metrics.inference.equivalence import MARGINS
from ...metrics.inference.intervals import t_interval
from ...metrics.martingale.split import MIN_CELLS
from ..experiment import Cell
from .config import MartingaleConfig
from .control import control_cells
from .table import (
    CELL,
    STEPWISE,
    TRAJECTORY,
    WHOLE,
    array,
    by_method,
    cell_names,
    labels,
    pairs,
    readings,
    trajectory_statuses,
)

ALL = "all"
TRAJECTORIES = "trajectories"
"""Stands for a method in what is told of the trajectories themselves."""


def scores(config: MartingaleConfig, beliefs: pd.DataFrame) -> list[Cell]:
    """METRICS A1 to A11 per kind and cell, what kinds differ by, and where the slope differs.

    Raises UserError if no trajectory has a step.
    """
    table = readings(beliefs)
    if table.empty:
        raise UserError("no trajectory has a step, so no belief could move; raise generation.max_new_tokens")
    cells: list[Cell] = []
    for kind, method, rows in by_method(table):
        ends, steps = pairs(rows, WHOLE), pairs(rows, STEPWISE)
        for subset, (own, whole, single) in _subsets(rows, ends, steps):
            found = {
                **_slopes(config, kind, whole, single),
                **_about_readings(config, kind, own),
                **_against_outcomes(config, whole),
                **_against_truth(config, own, single),
            }
            cells += [Cell(metric, method, subset, score, kind) for metric, score in found.items()]
        cells += [Cell("brier_on_M", method, ALL, score, kind) for score in _brier_on_slopes(config, ends)]
        cells += [Cell("drift2", method, name, score, kind) for name, score in _drift(config, ends)]
        cells += [Cell(metric, method, name, score, kind) for metric, name, score in _factors(config, steps)]
    return cells + _between(config, table) + _endings(config, beliefs) + control_cells(config, beliefs)


def _subsets(*tables: pd.DataFrame) -> Iterator[tuple[str, tuple[pd.DataFrame, ...]]]:
    """All cells together, then each; a cell of each of the tables."""
    yield ALL, tables
    names = [cell_names(table) for table in tables]
    for cell in names[0].unique():
        yield str(cell), tuple(table[name == cell] for table, name in zip(tables, names, strict=True))


def _slopes(config: MartingaleConfig, kind: str, ends: pd.DataFrame, steps: pd.DataFrame) -> dict[str, Score]:
    """A1 to A5: first to last, `M`; per step with rows and with questions weighing the same; the tests; and, where a
    prior was read twice, the slope free of what only one of the readings has, and corrected for their reliability.
    """
    whole = martingale_score(array(ends, "prior"), array(ends, "post"), labels(ends), **_sampling(config))
    step = array(steps, "prior"), array(steps, "post"), labels(steps)
    reach = MARGINS["martingale"]
    found: dict[str, Score] = {
        "M": whole,
        "M_step": martingale_score(*step, **_sampling(config)),
        "M_balanced": martingale_score(*step, weights=_balanced(steps), **_sampling(config)),
        "tests": martingale_tests(*step, draws=config.bootstrap_draws, seed=config.seed),
        "tost": tost(whole.M, whole.se, whole.n_clusters - 1, -reach, reach),
        "mean_update": _mean(config, ends, ends["update"]),
    }
    if steps["prior_1"].notna().any():
        two = array(steps, "prior_0"), array(steps, "prior_1")
        found["M_iv"] = martingale_iv(*two, step[1], step[2], **_sampling(config))
        if kind != "exact":  # of two orders the difference is no noise
            found["M_corrected"] = _corrected(config, found["M_step"], reliability_icc(np.column_stack(two), step[2]))
    return found


def _corrected(config: MartingaleConfig, step: Score, reliability: Reliability) -> Score:
    """The slope per step, had the mean of two readings of the prior no noise; its interval takes the reliability of
    that mean for known.
    """
    found = disattenuated_slope(step.estimate, reliability.icc_mean, se=step.se)
    lo, hi = t_interval(found.beta1, found.se, step.n_clusters - 1, config.level)
    counted = {name: getattr(step, name) for name in ("n_rows", "n_clusters", "n_dropped", "reasons")}
    how = {"ci_lo": lo, "ci_hi": hi, "ci_method": f"{step.ci_method}, reliability as known"}
    return replace(found, **counted, **(how | {"status": step.status} if found.status == "ok" else {}))


def _balanced(steps: pd.DataFrame) -> np.ndarray:
    """1 / pairs of the question that are whole."""
    whole = steps["update"].notna()
    size = whole.groupby(labels(steps)).transform("sum")
    return 1 / np.maximum(size.to_numpy(dtype=np.float64), 1)


def _about_readings(config: MartingaleConfig, kind: str, rows: pd.DataFrame) -> dict[str, Score]:
    """How sure the readings are, each counted once: the start is every trajectory's."""
    own = rows[(rows["step"] > 0) | ~rows.duplicated([*CELL, "item", "step"])]
    missing = own["belief"].isna().astype(np.float64)
    found: dict[str, Score] = {
        "coverage": _mean(config, own, own["coverage"]),
        "unparsed": _mean(config, own, missing),
    }
    if own["reading_1"].notna().any():
        both = np.column_stack([array(own, "reading_0"), array(own, "reading_1")])
        found["reliability"] = reliability_icc(both, labels(own), **_sampling(config))
        if kind == "exact":
            found["bias"] = _mean(config, own, own["reading_0"] - own["reading_1"])
    return found


def _against_outcomes(config: MartingaleConfig, ends: pd.DataFrame) -> dict[str, Score]:
    """A7 and A10, where outcomes are known. One that was settled between the options is none here."""
    known = ends[ends["outcome"].isin((0.0, 1.0))]
    if known.empty:
        return {}
    prior, post, y, groups = array(known, "prior"), array(known, "post"), array(known, "outcome"), labels(known)
    return {
        "brier_prior": brier(prior, y, groups, **_sampling(config)),
        "brier_post": brier(post, y, groups, **_sampling(config)),
        "brier_update": brier_update(prior, post, y, groups, **_sampling(config)),
        "calibration": calibration_slope(prior, y, groups, level=config.level),
    }


def _against_truth(config: MartingaleConfig, rows: pd.DataFrame, steps: pd.DataFrame) -> dict[str, Score]:
    """Where the true posterior is known: how far the belief is from it, and its own slope on the same draws."""
    if rows["truth"].isna().all():
        return {}
    known = rows.dropna(subset=["truth"])
    shown = steps.dropna(subset=["true_prior"])
    return {
        "truth_error": _mean(config, known, (known["belief"] - known["truth"]).abs()),
        "M_truth": martingale_score(array(shown, "true_prior"), array(shown, "true_post"), labels(shown)),
    }


def _brier_on_slopes(config: MartingaleConfig, ends: pd.DataFrame) -> Iterator[Score]:
    """A7 over the cells whose outcomes are known, if they are enough: M and Brier score of different questions."""
    known = ends[ends["outcome"].isin((0.0, 1.0))]
    cells = cell_names(known)
    if cells.nunique() >= MIN_CELLS:
        prior, post, outcome = (array(known, name) for name in ("prior", "post", "outcome"))
        yield brier_on_split_martingale(prior, post, outcome, labels(known), cells, **_sampling(config))


def _drift(config: MartingaleConfig, ends: pd.DataFrame) -> Iterator[tuple[str, Score]]:
    """(cell, A9) where the law is the model's own; of none if there are too few, or sampled otherwise.

    A chain of thought comes before any question for the belief. A thought comes after one, so only that one's own
    reading is tested: of the first method, in the first order.
    """
    thought = ends["reasoning"] == "thought"
    updates = ends["update"].mask(thought, ends["reading_0"] - ends["prior_0"])
    own = (ends["reasoning"] == "cot") | (thought & (ends["method"] == next(iter(config.methods))))
    drawn = ends.assign(update=updates)[own]
    if config.tests_drift:
        for name, rows in drawn.groupby(cell_names(drawn), sort=False):
            by_question = [array(one, "update") for _, one in rows.groupby("item", sort=False)]
            yield str(name), drift_variance(by_question, **_sampling(config))


def _factors(config: MartingaleConfig, steps: pd.DataFrame) -> Iterator[tuple[str, str, Score]]:
    """(metric, `factor[level]`, A6): the slope per step at each level, and what it differs by from the first."""
    first = {
        "domain": next(iter(steps["domain"])) if len(steps) else "",
        "reasoning": config.reasoning[0],
        "prompt": next(iter(config.prompts)),
    }
    factors = {name: labels(steps, name) for name in CELL if steps[name].nunique() > 1}
    baselines = {name: first[name] if first[name] in factors[name] else factors[name][0] for name in factors}
    if factors:
        found = factor_regression(
            array(steps, "update"),
            array(steps, "prior"),
            factors,
            baselines,
            labels(steps),
            **_sampling(config),
        )
        yield from (("M_at", name, term) for name, term in found.marginal.items())
        contrasts = {name: term for name, term in found.terms.items() if name.startswith("b:")}
        yield from (("M_contrast", name.removeprefix("b:"), term) for name, term in contrasts.items())


def _between(config: MartingaleConfig, table: pd.DataFrame) -> list[Cell]:
    """What two kinds make of the same steps: agreement on beliefs and updates (A8), and the difference of their slopes
    from first to last, p adjusted over all pairs.
    """
    every = {method: rows for _, method, rows in by_method(table)}
    steps = {method: pairs(rows, STEPWISE) for method, rows in every.items()}
    ends = {method: pairs(rows, WHOLE) for method, rows in every.items()}
    cells: list[Cell] = []
    compared = {}
    for one, two in combinations(every, 2):
        pair = f"{one} - {two}"
        for metric, column, rows in (("agreement", "belief", every), ("agreement_update", "update", steps)):
            both = _matched(rows[one], rows[two])
            found = judge_agreement(
                array(both, column), array(both, f"{column}_other"), labels(both), **_sampling(config)
            )
            cells.append(Cell(metric, pair, ALL, found))
        both = _matched(ends[one], ends[two])
        compared[pair] = paired_difference_moments(
            martingale_moments(array(both, "prior"), array(both, "post")),
            martingale_moments(array(both, "prior_other"), array(both, "post_other")),
            martingale_slope,
            labels(both),
            **_sampling(config),
        )
    return cells + [Cell("M_difference", pair, ALL, score) for pair, score in paired_family(compared).items()]


def _matched(mine: pd.DataFrame, theirs: pd.DataFrame) -> pd.DataFrame:
    """Rows of two methods about the same place; the columns of the second end in `_other`."""
    place = [*(name for name in TRAJECTORY if name not in ("kind", "method")), "step"]
    return mine.merge(theirs, on=place, suffixes=("", "_other"), validate="one_to_one")


def _sampling(config: MartingaleConfig) -> dict[str, Any]:
    """The settings of whatever is resampled."""
    return {"draws": config.bootstrap_draws, "seed": config.seed, "level": config.level}


def _endings(config: MartingaleConfig, beliefs: pd.DataFrame) -> list[Cell]:
    """The share of trajectories of each status but `ok`, per cell."""
    table = trajectory_statuses(beliefs)
    return [
        Cell(status, TRAJECTORIES, subset, _mean(config, rows, (rows["status"] == status).astype(np.float64)))
        for subset, (rows,) in _subsets(table)
        for status in ("truncated", "unsplit", "empty")
    ]


def _mean(config: MartingaleConfig, rows: pd.DataFrame, values: pd.Series) -> Score:
    return cluster_mean(values.to_numpy(dtype=np.float64), labels(rows), **_sampling(config))
