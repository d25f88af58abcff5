"""Beliefs that move: pairs, trajectories in rows or in columns, and what several judges read of them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ...base.errors import UserError
from .. import trajectory_pairs
from ..contract import Array
from ..tables.cells import SLACK, complete, refuse_row
from ..tables.sample_rows import STEPWISE, WHOLE, Chains, Judgements, Pairs, Updates, cells, joined, label_text, take
from ..tables.samples import Sample
from .form import KEY, Columns, Data, Form, P, named, side_by_side, suffixes


def _views(data: Data, clusters: Array | None, cell: Array | None = None) -> dict[str, Pairs]:
    outcome = data.get("outcome")
    return {"": Pairs(prior=data["prior"], posterior=data["posterior"], outcome=outcome, clusters=clusters, cell=cell)}


def _pairs(path: Any, data: Data, clusters: Array | None) -> Sample:
    factors = _factors(path, data)
    cell = cells(factors) if factors else None
    return Updates(views=_views(data, clusters, cell), clusters=clusters, factors=factors or None)


def _factors(path: Any, data: Data) -> dict[str, Array]:
    """Factor -> [n] level of each row. Raises UserError for one that is missing, or for too many."""
    factors = {
        name: complete(path, f"{FACTOR}{name}", data[f"{FACTOR}{name}"]) for name in suffixes(list(data), FACTOR)
    }
    for name, labels in factors.items():
        if (n := len(set(labels))) > MOST_LEVELS:
            raise UserError(
                f"{path}: {FACTOR}{name}: has {n:,} levels, more than {MOST_LEVELS}; drop it, or group them"
            )
    return factors


FACTOR = "factor_"
"""The prefix of columns whose levels may have slopes of their own."""


MOST_LEVELS = 200
"""Of a factor: a regression has a slope for each of them."""


def _chains(path: Any, data: Data, clusters: Array | None) -> Sample:
    label = joined(*(complete(path, name, data[name]) for name in ("question", "chain")))
    twice = pd.Series(label).duplicated().to_numpy()
    refuse_row(path, twice, lambda at: f": question {label_text(label[at])} has this chain twice")
    half = data.get("half")
    if half is not None and (n := len(set(complete(path, "half", half)))) != 2:
        raise UserError(f"{path}: half: has {n} values; name the two readings of the prior")
    reading = data["question"] if half is None else joined(data["question"], half)
    prior = pd.Series(data["prior"])
    off = ((prior - prior.groupby(reading).transform("first")).abs() > SLACK).to_numpy()
    fault = (
        ", prior: differs within question {}; give the exact belief before its chains, or two readings told apart by a "
        "column 'half'; of steps rename the column 'chain'"
    )
    refuse_row(path, off, lambda at: fault.format(label_text(reading[at])))
    views = _views(data, clusters)
    views[""] = replace(views[""], keys=label)
    return Chains(views=views, clusters=clusters, question=data["question"], half=half)


def trajectories(
    chains: Sequence[Array],
    groups: Array,
    outcome: Array | None,
    keys: Array | None = None,
    factors: Mapping[str, Array] | None = None,
) -> Updates:
    """Updates step by step and from first to last, by `groups` [trajectories]; `factors` have a level of each."""
    views, levels = {}, {}
    cell = cells(factors) if factors else None
    owner = np.arange(len(chains))
    both = (("per_step", STEPWISE), ("first_last", WHOLE))
    short = max(map(len, chains)) <= 2  # then the two are the same
    for mode, name in (("first_last", ""),) if short else both:
        pairs = trajectory_pairs(chains, mode, owner)
        number = np.concatenate([*(np.arange(k) for k in np.bincount(pairs.group, minlength=len(chains)))])
        views[name] = Pairs(
            prior=pairs.prior,
            posterior=pairs.post,
            outcome=take(outcome, pairs.group),
            clusters=groups[pairs.group],
            keys=None if keys is None else joined(keys[pairs.group], number),
            cell=take(cell, pairs.group),
            n_broken=pairs.n_dropped,
        )
        levels = {factor: values[pairs.group] for factor, values in (factors or {}).items()}
    return Updates(views=views, clusters=groups, factors=levels or None)


def in_order(path: Any, data: Data) -> tuple[Array, Array, Array]:
    """Rows of trajectories in the order of their steps, [n] whose each then is, [n - 1] whether the next is the same.

    Raises UserError if a trajectory has a step twice.
    """
    names = [name for name in ("question", "trajectory") if name in data]
    label = joined(*(complete(path, column, data[column]) for column in names))  # numbered anew in each question
    order = np.lexsort((data["step"], label.astype(str)))
    label, step = label[order], data["step"][order]
    same = label[1:] == label[:-1]
    if (twice := same & (step[1:] == step[:-1])).any():
        at = int(np.argmax(twice))
        raise UserError(
            f"{path}: {names[-1]} {label_text(label[at])} has step {step[at]:g} twice; name the trajectories apart"
        )
    refuse_gap(path, names[-1], label, step, same)
    return order, label, same


def refuse_gap(path: Any, name: str, label: Array, step: Array, same: Array) -> None:
    """Raise UserError for a trajectory without a row for a step that lies between its own and that others have: what is
    not known must be said, or a change of two steps would pass for one.
    """
    steps, number = np.unique(step, return_inverse=True)
    if (gap := same & (np.diff(number) > 1)).any():
        at = int(np.argmax(gap))
        raise UserError(
            f"{path}: {name} {label_text(label[at])} has no row for step {steps[number[at] + 1]:g}, which others have; "
            "give it one, without a belief if it is not known"
        )


def _long_trajectories(path: Any, data: Data, clusters: Array | None) -> Sample:
    order, label, same = in_order(path, data)
    starts = np.flatnonzero(np.r_[True, ~same])
    groups, outcome = (label if clusters is None else clusters[order]), take(data.get("outcome"), order)
    factors = {name: values[order] for name, values in _factors(path, data).items()}
    levels = {f"{FACTOR}{name}": values for name, values in factors.items()}
    for column, values in (("cluster", groups), ("outcome", outcome), *levels.items()):
        if values is not None and (changed := same & ~_equal(values)).any():
            at = label[int(np.argmax(changed))]
            name = "trajectory" if "trajectory" in data else "question"
            raise UserError(f"{path}: {column} differs along {name} {label_text(at)}; a trajectory has one")
    beliefs, levels = np.split(data["belief"][order], starts[1:]), {name: x[starts] for name, x in factors.items()}
    return trajectories(beliefs, groups[starts], take(outcome, starts), label[starts], levels)


def _equal(values: Array) -> Array:
    """[n - 1] whether each value equals the next; NaN equals NaN."""
    before, after = values[:-1], values[1:]
    return (before == after) | np.asarray(pd.isna(before) & pd.isna(after))


def _steps(columns: Sequence[str]) -> list[str]:
    return sorted((c for c in columns if re.fullmatch(r"b_\d+", c)), key=lambda c: int(c[2:]))


def _wide_columns(there: Sequence[str]) -> Columns:
    last = max([1, *(int(c[2:]) for c in _steps(there))])
    return {f"b_{t}": P for t in range(last + 1)}, {"outcome": "outcome", **_factor_columns(there)}


def _factor_columns(there: Sequence[str]) -> dict[str, str]:
    return {f"{FACTOR}{name}": "label" for name in suffixes(there, FACTOR)}


def _long_columns(there: Sequence[str]) -> Columns:
    names = [name for name in ("trajectory", "question") if name in there] or ["trajectory"]
    also = {"outcome": "outcome", **_factor_columns(there)}
    return {**dict.fromkeys(names, "label"), "step": "number", "belief": P}, also


def _wide_trajectories(path: Any, data: Data, clusters: Array | None) -> Sample:
    table = np.column_stack([data[name] for name in _steps(list(data))])
    last = np.isfinite(table).cumsum(axis=1).argmax(axis=1) + 1  # a shorter row ends early; gaps inside stay
    chains = [row[:n] for row, n in zip(table, last, strict=True)]
    groups = np.arange(len(table)) if clusters is None else clusters
    return trajectories(chains, groups, data.get("outcome"), data.get(KEY), _factors(path, data))


TRAJECTORY_ROWS = Form(
    "trajectories, one row per step",
    "trajectory or question, step, belief [, outcome, factor_<name>, ...]",
    _long_columns,
    _long_trajectories,
    cluster=("cluster", "question"),
    names=("trajectory", "question"),
    factors=True,
)
TRAJECTORY_COLUMNS = Form(
    "trajectories", "b_0, b_1, ... [, outcome, factor_<name>, ...]", _wide_columns, _wide_trajectories, factors=True
)
CHAINS = Form(
    "chains of the model's own",
    "question, chain, prior, posterior [, half, outcome]",
    named({"question": "label", "chain": "label", "prior": P, "posterior": P}, {"half": "label", "outcome": "outcome"}),
    _chains,
    cluster=("question",),
    names=("question",),
)
PAIRS = Form(
    "pairs",
    "prior, posterior [, outcome, factor_<name>, ...]",
    named({"prior": P, "posterior": P}, {"outcome": "outcome", f"{FACTOR}*": "label"}),
    _pairs,
    replicates=True,
    factors=True,
)


# What several judges read from the same texts.


def _columns(there: Sequence[str]) -> Columns:
    alone = "step" in there and not {"question", "trajectory"} & set(there)
    lacking = {"trajectory": "label"} if alone else {}
    return named({"judge_*": P, **lacking}, {"question": "label", "trajectory": "label", "step": "number"})(there)


def _build(path: Any, data: Data, clusters: Array | None) -> Sample:
    names = suffixes(list(data), "judge_")
    readings = side_by_side(data, "judge_", names)
    changes, change_clusters = None, None
    if "step" in data:
        order, label, same = in_order(path, data)
        changes = np.diff(readings[order], axis=0)[same]
        change_clusters = (label if clusters is None else clusters[order])[1:][same]
    return Judgements(
        judges=tuple(names), readings=readings, changes=changes, change_clusters=change_clusters, clusters=clusters
    )


JUDGES = Form(
    "judges",
    "judge_<name> for each of two or more [, question, trajectory, step]",
    _columns,
    _build,
    cluster=("cluster", "question"),
    names=("trajectory", "question"),
)
