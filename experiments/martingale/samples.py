"""The belief table of a run as samples, from which the engine makes its numbers (METRICS A)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ...hooks.errors import UserError
from ..tables.belief_parts import BeliefTable
from ..tables.cells import Array
from ..tables.rows import joined
from ..tables.samples import ALL, Elicited, Sample
from ..tables.updates import STEPWISE, WHOLE, Chains, Judgements, Pairs, Updates
from .config import MartingaleConfig
from .table import CELL, array, by_method, cell_names, facet_columns, labels, once, pairs, readings, subsets

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
        for subset, (own, steps, ends) in subsets(rows, pairs(rows, STEPWISE), pairs(rows, WHOLE)):
            named: dict[str, Any] = {"kind": kind, "method": method, "subset": subset}
            yield _updates(config, steps, ends, named)
            yield _elicited(own, named)
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
    found = Updates(
        views={STEPWISE: _pairs(steps, [*PLACE, "step"]), WHOLE: _pairs(ends, PLACE)},
        clusters=labels(ends),
        factors={name: own for name, own in levels.items() if len({*own}) > 1} or None,
        levels=levels,
        baselines={"reasoning": config.reasoning[0], "prompt": next(iter(config.prompts))},
        **named,
    )
    reasoning = set() if named["subset"] == ALL or not config.tests_drift else {*ends["reasoning"]}
    if reasoning == {"cot"}:
        return Chains(question=labels(ends, "item"), **vars(found))
    if reasoning == {"thought"} and named["method"] == next(iter(config.methods)):
        update = array(ends, "first") - array(ends, "prior_first")
        return Chains(question=labels(ends, "item"), update=update, **vars(found))
    return found


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
    own = once(rows)
    return Elicited(
        belief=array(own, "belief"),
        coverage=array(own, "coverage"),
        readings=_levels(own, "reading"),
        wordings=_levels(own, "wording"),
        clusters=labels(own),
        keys=joined(*(labels(own, name) for name in [*PLACE, "step"])),
        **named,
    )


def _levels(rows: pd.DataFrame, facet: str, of: str = "") -> Array | None:
    """[n, levels] the readings at each level of a facet, where there are several."""
    found = rows[facet_columns(rows, facet, of)].to_numpy(dtype=np.float64)
    found = found[:, np.isfinite(found).any(axis=0)]
    return found if found.shape[1] > 1 else None


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
