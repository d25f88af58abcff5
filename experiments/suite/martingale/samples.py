"""The belief table as samples (METRICS A), and the numbers that only this experiment has: distance from a known
posterior, how trajectories ended, and the negative control (METRICS A9).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ....base.errors import UserError
from ....metrics import (
    coherence_claim,
    drift_covariance,
    evidence_responding,
    evidence_slope,
    martingale_iv,
    martingale_within,
    tost,
)
from ....metrics.beliefs import by_method, labels
from ....metrics.consistency.competence import RESPONDING
from ....metrics.contract import Array
from ....metrics.number import Number
from ....metrics.tables.belief_parts import BeliefTable
from ....metrics.tables.sample_rows import STEPWISE, WHOLE, Chains, Judgements, Pairs, Updates, joined
from ....metrics.tables.samples import ALL, Elicited, Sample
from ...run.scores import NumberMaker, gate, resampling
from .config import MartingaleConfig
from .readings import (
    CELL,
    array,
    cell_names,
    facet_columns,
    once,
    pairs,
    readings,
    subsets,
    tables,
    trajectory_statuses,
)
from .trajectories import CONTROL_END, CONTROL_START, METHOD

PLACE = ["item", "reasoning", "prompt", "draw"]
"""Names a trajectory within a run and a method."""


def samples(config: MartingaleConfig, beliefs: BeliefTable) -> Iterator[Sample]:
    """Of each method, over all cells and in each: its updates, and its readings by themselves. Of several methods also
    what each read at the same places.

    Raises UserError if no trajectory has a step.
    """
    table = readings(beliefs)
    if table.empty:
        raise UserError("no trajectory has a step, so no belief could move; raise generation.max_new_tokens")
    for kind, method, rows in by_method(table):
        for subset, (of_subset, steps, ends) in subsets(rows, pairs(rows, STEPWISE), pairs(rows, WHOLE)):
            named: dict[str, Any] = {"kind": kind, "method": method, "subset": subset}
            yield _updates(config, steps, ends, named)
            yield _elicited(of_subset, named)
    alone = table.groupby("method")["kind"].transform("nunique") == 1
    judged = table.assign(method=table["method"].where(alone, table["kind"] + "/" + table["method"]))
    if judged["method"].nunique() > 1:
        yield _judgements(judged)


def _updates(config: MartingaleConfig, steps: pd.DataFrame, ends: pd.DataFrame, named: Mapping[str, Any]) -> Updates:
    """As chains where drift within a question is tested: in a cell whose steps follow the model's own distribution.

    A chain of thought comes before any question for the belief. A thought comes after one, so only that one's own
    reading is tested: of the first method, in the first wording and order.
    """
    levels = {name: labels(ends, name) for name in CELL}
    sample = Updates(
        views={STEPWISE: _pairs(steps, [*PLACE, "step"]), WHOLE: _pairs(ends, PLACE)},
        clusters=labels(ends),
        factors={name: values for name, values in levels.items() if len({*values}) > 1} or None,
        levels=levels,
        baselines={"reasoning": config.reasoning[0], "prompt": next(iter(config.prompts))},
        **named,
    )
    reasoning = set() if named["subset"] == ALL or not config.tests_drift else {*ends["reasoning"]}
    if reasoning == {"cot"}:
        return Chains(question=labels(ends, "item"), **vars(sample))
    if reasoning == {"thought"} and named["method"] == next(iter(config.methods)):
        update = array(ends, "first") - array(ends, "prior_first")
        return Chains(question=labels(ends, "item"), update=update, **vars(sample))
    return sample


def _pairs(rows: pd.DataFrame, place: Sequence[str]) -> Pairs:
    outcome = rows["outcome"].where(rows["outcome"].isin((0.0, 1.0))).to_numpy(dtype=np.float64)
    return Pairs(
        prior=array(rows, "prior"),
        posterior=array(rows, "post"),
        outcome=outcome if np.isfinite(outcome).any() else None,
        readings=_levels(rows, "reading", "prior_"),
        wordings=_levels(rows, "wording", "prior_"),
        cell=labels(rows.assign(cell=cell_names(rows)), "cell"),
        clusters=labels(rows),
        keys=joined(*(labels(rows, name) for name in place)),
        why=np.where(rows["prior"].isna(), rows["prior_status"], rows["status"]),
    )


def _elicited(rows: pd.DataFrame, named: Mapping[str, Any]) -> Elicited:
    """The readings by themselves."""
    each = once(rows)
    return Elicited(
        belief=array(each, "belief"),
        coverage=array(each, "coverage"),
        readings=_levels(each, "reading"),
        wordings=_levels(each, "wording"),
        clusters=labels(each),
        keys=joined(*(labels(each, name) for name in [*PLACE, "step"])),
        **named,
    )


def _levels(rows: pd.DataFrame, facet: str, of: str = "") -> Array | None:
    """[n, levels] the readings at each level of a facet, where there are several."""
    levels = rows[facet_columns(rows, facet, of)].to_numpy(dtype=np.float64)
    levels = levels[:, np.isfinite(levels).any(axis=0)]
    return levels if levels.shape[1] > 1 else None


def _judgements(table: pd.DataFrame) -> Judgements:
    """What the methods read at the same places, and the updates between these."""
    methods, place = list(table["method"].unique()), [*CELL, "item", "draw", "step", "cluster"]
    beliefs = table.pivot(index=place, columns="method", values="belief")[methods]
    changes = pairs(table, STEPWISE).pivot(index=place, columns="method", values="update")[methods]
    return Judgements(
        judges=tuple(methods),
        readings=beliefs.to_numpy(dtype=np.float64),
        clusters=beliefs.index.get_level_values("cluster").to_numpy(),
        changes=changes.to_numpy(dtype=np.float64),
        change_clusters=changes.index.get_level_values("cluster").to_numpy(),
    )


# What the negative control comes to: no slope and no drift, if the pipeline is sound (METRICS A9).

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
    later = (wide["step"] > CONTROL_START).to_numpy()
    post, prior, groups = array(wide[later], "mean"), before[later], labels(wide[later])
    begun, ended = wide[wide["step"] == CONTROL_START], wide[wide["step"] == CONTROL_END]
    updates = begun.merge(ended, on=key, suffixes=("", "_end"))
    questions = updates.groupby(["domain", "prompt", "item"], sort=False)
    halves = [
        [
            array(rows, "mean_end") - array(rows, name)
            for rows in (each[each["draw"] % 2 == half] for _, each in questions)
        ]
        for half, name in enumerate(("first", "second"))
    ]
    owners = questions["cluster"].first().to_numpy()
    how = resampling(config)
    cell = labels(wide[later], "domain") + ", " + labels(wide[later], "prompt")
    slope = martingale_within(array(prior, "mean"), post, groups, cell, how=resampling(config))
    iv = martingale_iv(array(prior, "first"), array(prior, "second"), post, groups, how=how)
    drift = drift_covariance(halves[0], halves[1], owners, prior=questions["mean"].mean().to_numpy(), how=how)
    squares = np.array([first.mean() * second.mean() if len(first) and len(second) else np.nan
                        for first, second in zip(*halves, strict=True)])  # fmt: skip
    make = NumberMaker(config, METHOD, "verbal")
    no_slope = tost(iv.M_iv, iv.se, iv.n_clusters - 1, -REACH, REACH)
    no_drift = coherence_claim(squares, owners, REACH**2, bounded_below=False, how=how)
    for metric, quantity, score, equivalence in (
        ("control_slope", "M of the control", slope, None),
        ("control_iv", "M of the control, by split readings", iv, no_slope),
        ("control_drift2", "mean square drift of the control", drift, no_drift),
    ):
        yield make.number(metric, score, quantity=quantity, equivalence=equivalence, code="A9")


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
    urns = readings(beliefs, of_gate=True)
    masses = tables(beliefs).masses
    for kind, method, rows in by_method(readings(beliefs)):
        read = masses[(masses["kind"] == kind) & (masses["method"] == method)]
        yield from _gate(config, kind, method, read, urns)
        for subset, (of_subset, steps) in subsets(rows, pairs(rows, STEPWISE)):
            known, shown = of_subset.dropna(subset=["truth"]), steps.dropna(subset=["true_prior"])
            if known.empty:
                continue
            make = NumberMaker(config, method, kind)
            error = np.abs(array(known, "belief") - array(known, "truth"))
            yield make.mean("truth_error", error, labels(known), subset, "distance from the true posterior")
            truths = array(shown, "true_prior"), array(shown, "true_post"), labels(shown), cell_names(shown)
            slope = martingale_within(*truths, how=make.how)
            yield make.number("M_truth", slope, subset, "M of the true posterior, per step")
    for subset, (rows,) in subsets(trajectory_statuses(beliefs)):
        for status, quantity in STATUSES.items():
            share = (rows["status"] == status).to_numpy(dtype=np.float64)
            yield NumberMaker(config, TRAJECTORIES).mean(status, share, labels(rows), subset, quantity)
    yield from control_numbers(config, beliefs)


def _gate(
    config: MartingaleConfig, kind: str, method: str, read: pd.DataFrame, shown: pd.DataFrame
) -> Iterator[Number]:
    """Is the answer given often enough in what was `read`, and does it follow evidence whose posterior is known?
    (METRICS W4)
    """
    name = "coverage" if kind == "exact" else "parse_rate"
    answered: dict[str, Any] = {name: {"": array(read, "coverage")}, "read_groups": {"": labels(read)}}
    of_urns = shown[(shown["kind"] == kind) & (shown["method"] == method)]
    shows = array(of_urns, "belief"), array(of_urns, "truth"), labels(of_urns)
    if len(of_urns):
        answered["responding"] = evidence_responding(*shows)
        slope = evidence_slope(*shows, how=resampling(config))
        quantity = "slope on the known posterior of urns"
        yield NumberMaker(config, method, kind).number("urn_slope", slope, quantity=quantity, code="W4")
    else:
        answered["untested"] = {RESPONDING: "no game whose true posterior is known (draws from an urn) was shown"}
    yield gate(config, method, kind, min_parse=1 - config.most_unparsed, **answered)
