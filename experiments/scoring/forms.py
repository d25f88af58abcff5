"""The plain wide forms that a table may have: by which columns each is known, and what it becomes."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...hooks.errors import UserError
from ...metrics import counts_to_probabilities, trajectory_pairs
from .cells import Array, complete
from .samples import Cases, Evidence, Forecasts, Options, Pairs, Sample, Updates, joined, shown, take

Data = dict[str, Array]
CLUSTERS = ("cluster", "question", "item")
"""Columns that are taken for the cluster when none is named, in this order."""
CONTEXTS = ("prior", "posterior")


@dataclass(frozen=True)
class Form:
    """A shape of table."""

    name: str
    wants: str
    """Its columns, as the user is told them."""
    roles: Callable[[Sequence[str]], dict[str, str]]
    """Columns of a table -> those that this form would use, with their roles; also if others are missing."""
    missing: Callable[[Sequence[str]], list[str]]
    """Columns of a table -> those that it lacks for this form."""
    build: Callable[[Any, Data, Array | None], Sample]
    """File, its columns, clusters -> what is scored. Raises UserError."""
    cluster: tuple[str, ...] = CLUSTERS


def fixed(required: Mapping[str, str], optional: Mapping[str, str]) -> dict[str, Any]:
    """`roles` and `missing` of a form whose columns have fixed names."""
    both = {**required, **optional}
    return {
        "roles": lambda columns: {name: role for name, role in both.items() if name in columns},
        "missing": lambda columns: [name for name in required if name not in columns],
    }


def _pairs(path: Any, data: Data, clusters: Array | None) -> Sample:
    outcome = data.get("outcome")
    return Updates(
        views={"": Pairs(prior=data["prior"], posterior=data["posterior"], outcome=outcome, clusters=clusters)},
        clusters=clusters,
    )


def _forecasts(path: Any, data: Data, clusters: Array | None) -> Sample:
    return Forecasts(belief=data["belief"], outcome=data["outcome"], clusters=clusters)


def _evidence(path: Any, data: Data, clusters: Array | None) -> Sample:
    return Evidence(clusters=clusters, **data)


def trajectories(chains: Sequence[Array], groups: Array, outcome: Array | None, keys: Array | None = None) -> Updates:
    """Updates of trajectories, step by step and from first to last, clustered by `groups` [trajectories]."""
    views = {}
    owner = np.arange(len(chains))
    both = (("per_step", "per step"), ("first_last", "first to last"))
    short = max(map(len, chains)) <= 2  # then the two are the same
    for mode, name in (("first_last", ""),) if short else both:
        found = trajectory_pairs(chains, mode, owner)
        number = np.concatenate([*(np.arange(k) for k in np.bincount(found.group, minlength=len(chains)))])
        views[name] = Pairs(
            prior=found.prior,
            posterior=found.post,
            outcome=take(outcome, found.group),
            clusters=groups[found.group],
            keys=None if keys is None else joined(keys[found.group], number),
            n_broken=found.n_dropped,
        )
    return Updates(views=views, clusters=groups)


def _long_trajectories(path: Any, data: Data, clusters: Array | None) -> Sample:
    names = [name for name in ("question", "trajectory") if name in data]
    name, step = names[-1], data["step"]
    label = joined(*(complete(path, column, data[column]) for column in names))  # numbered anew in each question
    order = np.lexsort((step, label.astype(str)))
    label, step, belief = label[order], step[order], data["belief"][order]
    same = label[1:] == label[:-1]
    if (twice := same & (step[1:] == step[:-1])).any():
        at = int(np.argmax(twice))
        raise UserError(f"{path}: {name} {shown(label[at])} has step {step[at]:g} twice; name the trajectories apart")
    starts = np.flatnonzero(np.r_[True, ~same])
    groups, outcome = (label if clusters is None else clusters[order]), take(data.get("outcome"), order)
    for column, values in (("cluster", groups), ("outcome", outcome)):
        if values is not None and (changed := same & ~_equal(values)).any():
            at = label[int(np.argmax(changed))]
            raise UserError(f"{path}: {column} differs along {name} {shown(at)}; a trajectory has one")
    return trajectories(np.split(belief, starts[1:]), groups[starts], take(outcome, starts))


def _equal(values: Array) -> Array:
    """[n - 1] whether each value equals the next; NaN equals NaN."""
    one, two = values[:-1], values[1:]
    return (one == two) | np.asarray(pd.isna(one) & pd.isna(two))


def _steps(columns: Sequence[str]) -> list[str]:
    return sorted((c for c in columns if re.fullmatch(r"b_\d+", c)), key=lambda c: int(c[2:]))


def _steps_missing(columns: Sequence[str]) -> list[str]:
    found = _steps(columns)
    last = max([1, *(int(c[2:]) for c in found)])
    return [f"b_{t}" for t in range(last + 1) if f"b_{t}" not in columns]


def _wide_trajectories(path: Any, data: Data, clusters: Array | None) -> Sample:
    table = np.column_stack([data[name] for name in _steps(list(data))])
    last = np.isfinite(table).cumsum(axis=1).argmax(axis=1) + 1  # a shorter row ends early; gaps inside stay
    chains = [row[:n] for row, n in zip(table, last, strict=True)]
    groups = np.arange(len(table)) if clusters is None else clusters
    return trajectories(chains, groups, data.get("outcome"))


def _suffixes(columns: Sequence[str], prefix: str) -> list[str]:
    return [c.removeprefix(prefix) for c in columns if c.startswith(prefix) and c != prefix]


def _cases(columns: Sequence[str]) -> list[str]:
    """Names of the cases, as they follow `cond` and `weight`."""
    return list(dict.fromkeys(found[1] for c in columns if (found := re.fullmatch(r"(?:cond|weight)(_.+|\d+)", c))))


def _cases_roles(columns: Sequence[str]) -> dict[str, str]:
    wanted = {"p": "probability"}
    for case in _cases(columns):
        wanted |= {f"cond{case}": "probability", f"weight{case}": "mass"}
    return {name: role for name, role in wanted.items() if name in columns}


def _cases_missing(columns: Sequence[str]) -> list[str]:
    cases = _cases(columns) or ["_1"]
    return [c for c in ["p", *(f"{kind}{case}" for case in cases for kind in ("cond", "weight"))] if c not in columns]


def _build_cases(path: Any, data: Data, clusters: Array | None) -> Sample:
    cases = _cases(list(data))
    conditional, weights = (np.column_stack([data[f"{kind}{c}"] for c in cases]) for kind in ("cond", "weight"))
    return Cases(p=data["p"], conditional=conditional, weights=weights, clusters=clusters)


OTHER = "other"
"""The column suffix of answers that name no option."""


def _options(columns: Sequence[str]) -> list[str]:
    both = [*_suffixes(columns, "prior_"), *_suffixes(columns, "posterior_")]
    return [name for name in dict.fromkeys(both) if name != OTHER]


def _wide_options_roles(columns: Sequence[str]) -> dict[str, str]:
    names = [*_options(columns), OTHER]
    wanted = {f"{context}_{name}": "mass" for context in CONTEXTS for name in names} | {"rejected": "label"}
    return {name: role for name, role in wanted.items() if name in columns}


def _wide_options_missing(columns: Sequence[str]) -> list[str]:
    names = _options(columns) or ["a"]
    return [c for c in [*(f"{x}_{name}" for name in names for x in CONTEXTS), "rejected"] if c not in columns]


def _build_wide_options(path: Any, data: Data, clusters: Array | None) -> Sample:
    names = _options(list(data))
    prior, posterior = (_masses(path, data, names, f"{context}_") for context in CONTEXTS)
    rejected = _rejected(path, data["rejected"], names, np.arange(len(prior)))
    return options(prior, posterior, rejected, clusters)


def _long_options_roles(columns: Sequence[str]) -> dict[str, str]:
    counts = {f"count_{name}": "mass" for name in _suffixes(columns, "count_")}
    wanted = {"item": "label", "context": "label", "rejected": "label", **counts}
    return {name: role for name, role in wanted.items() if name in columns}


def _long_options_missing(columns: Sequence[str]) -> list[str]:
    counts = [] if _suffixes(columns, "count_") else ["count_a"]
    return [c for c in ("item", "context", "rejected", *counts) if c not in columns]


def _build_long_options(path: Any, data: Data, clusters: Array | None) -> Sample:
    names = [name for name in _suffixes(list(data), "count_") if name != OTHER]
    masses = _masses(path, data, names, "count_")
    item, context = complete(path, "item", data["item"]), complete(path, "context", data["context"])
    if (unknown := ~np.isin(context.astype(str), CONTEXTS)).any():
        at = int(np.argmax(unknown))
        raise UserError(f"{path}: row {at + 1}, context: {context[at]!r}; give 'prior' or 'posterior'")
    prior_of: dict[str, int] = {}
    for row in np.flatnonzero(context == "prior"):
        if prior_of.setdefault(item[row], int(row)) != row:
            raise UserError(f"{path}: row {row + 1}: item {item[row]!r} has a second prior; name the items apart")
    after = np.flatnonzero(context == "posterior")
    orphans = [row for row in after if item[row] not in prior_of]
    if orphans or not len(after):
        where = f"row {orphans[0] + 1}: item {item[orphans[0]]!r} has no prior" if orphans else "has no posterior"
        raise UserError(f"{path}: {where}; give each item a row with context 'prior' and others with 'posterior'")
    before = np.array([prior_of[item[row]] for row in after])
    rejected = _rejected(path, data["rejected"][after], names, after)
    return options(masses[before], masses[after], rejected, take(clusters, after))


def _masses(path: Any, data: Data, names: Sequence[str], prefix: str) -> Array:
    """[n, options + 1] counts or probabilities, the last column on no option."""
    if len(names) != 3:
        raise UserError(f"{path}: has {len(names)} options ({', '.join(names)}); consistency is defined for three")
    columns = [f"{prefix}{name}" for name in names]
    masses = np.column_stack([data[name] for name in columns])
    n = len(masses)
    other = data.get(f"{prefix}{OTHER}")
    masses = np.column_stack([masses, np.zeros(n) if other is None else other])
    if (np.nan_to_num(masses).sum(axis=1) <= 1 + 1e-9).all():
        return masses
    if (broken := np.isfinite(masses) & (masses % 1 != 0)).any():
        row, column = (int(i) for i in np.argwhere(broken)[0])
        raise UserError(
            f"{path}: row {row + 1}, {[*columns, prefix + OTHER][column]}: {masses[row, column]:g} is not a whole "
            "number; give counts, or probabilities that sum to at most 1 in every row"
        )
    return masses


def _rejected(path: Any, labels: Array, names: Sequence[str], rows: Array) -> Array:
    known = {name: i for i, name in enumerate(names)}
    found = []
    for label, row in zip(labels, rows, strict=True):
        if str(label).lower() not in known:
            raise UserError(f"{path}: row {row + 1}, rejected: {label!r} is no option; options: {', '.join(names)}")
        found.append(known[str(label).lower()])
    return np.array(found)


def options(prior: Array, posterior: Array, rejected: Array, clusters: Array | None, **rest: Any) -> Options:
    """Instances from masses [n, 4], counts or probabilities, the last column on no option."""
    totals = []
    for masses in (prior, posterior):
        counted = (np.nan_to_num(masses).sum(axis=1) > 1 + 1e-9).any()
        kept = np.take_along_axis(masses[:, :3], KEPT[rejected], axis=1).sum(axis=1)
        totals.append((counted, kept))
    probabilities = [
        counts_to_probabilities(masses)[:, :3] if counted else masses[:, :3]
        for masses, (counted, _) in zip((prior, posterior), totals, strict=True)
    ]
    sizes: dict[str, Any] = {}
    if all(counted for counted, _ in totals):
        sizes = {"n_prior": totals[0][1], "n_posterior": totals[1][1]}
    return Options(
        prior=probabilities[0], posterior=probabilities[1], rejected=rejected, clusters=clusters, **sizes, **rest
    )


KEPT = np.array([[1, 2], [0, 2], [0, 1]])
"""Rejected option -> the two that remain."""

P = "probability"
FORMS = (
    Form(
        "Bayes readings",
        "p_x, p_y, p_y_given_x, posterior [, p_y_given_not_x]",
        build=_evidence,
        **fixed({"p_x": P, "p_y": P, "p_y_given_x": P, "posterior": P}, {"p_y_given_not_x": P}),
    ),
    Form("cases", "p, cond_1, weight_1, cond_2, weight_2, ...", _cases_roles, _cases_missing, _build_cases),
    Form(
        "options, one row per context",
        "item, context (prior or posterior), rejected, count_<option> for each of three [, count_other]",
        _long_options_roles,
        _long_options_missing,
        _build_long_options,
        cluster=("cluster", "item"),
    ),
    Form(
        "options",
        "prior_<option> and posterior_<option> for each of three, rejected [, prior_other, posterior_other]",
        _wide_options_roles,
        _wide_options_missing,
        _build_wide_options,
    ),
    Form(
        "trajectories, one row per step",
        "trajectory or question, step, belief [, outcome]",
        lambda columns: {
            name: role
            for name, role in {
                "trajectory": "label",
                "question": "label",
                "step": "number",
                "belief": P,
                "outcome": "outcome",
            }.items()
            if name in columns
        },
        lambda columns: [
            *([] if {"trajectory", "question"} & set(columns) else ["trajectory"]),
            *(name for name in ("step", "belief") if name not in columns),
        ],
        _long_trajectories,
        cluster=("cluster", "question"),
    ),
    Form(
        "trajectories",
        "b_0, b_1, ... [, outcome]",
        lambda columns: {
            **dict.fromkeys(_steps(columns), P),
            **({"outcome": "outcome"} if "outcome" in columns else {}),
        },
        _steps_missing,
        _wide_trajectories,
    ),
    Form(
        "pairs",
        "prior, posterior [, outcome]",
        build=_pairs,
        **fixed({"prior": P, "posterior": P}, {"outcome": "outcome"}),
    ),
    Form("forecasts", "belief, outcome", build=_forecasts, **fixed({"belief": P, "outcome": "outcome"}, {})),
)
"""The plain forms, the more particular ones first; a table has the first that lacks nothing."""
