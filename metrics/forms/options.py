"""Masses on options: before and after one was rejected, and how often each was the answer."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from ...base.errors import UserError
from .. import counts_to_probabilities
from ..contract import Array
from ..tables.cells import SLACK, complete, refuse_row
from ..tables.sample_rows import GLUE, joined, take
from ..tables.samples import Answers, Frequencies, Options, Readouts, Sample
from .form import CONTEXTS, OTHER, Columns, Data, Form, named, side_by_side, suffixes

MOST_PLACES = 9
"""Decimals below which a file is taken to have rounded its probabilities."""
TEMPLATE, MENTIONED, REJECTED = "template", "mentioned", "rejected"
"""The column that names the form of the question, the prefix of the masses after a reply that decides nothing, and the
column that names the option which was ruled out.
"""


def _in_one_row(path: Any, data: Data, clusters: Array | None) -> Sample:
    names = option_names(data, "prior_", "posterior_")
    prior, posterior = (masses(path, data, names, f"{context}_") for context in CONTEXTS)
    rejected = indices(path, "rejected", data["rejected"], names, np.arange(len(prior)))
    rest: dict[str, Any] = {TEMPLATE: data.get(TEMPLATE)}
    if all(f"{MENTIONED}_{name}" in data for name in names):
        spared = masses(path, data, names, f"{MENTIONED}_")
        rest[MENTIONED] = (counts_to_probabilities(spared) if counted(spared) else spared)[:, :-1]
    return options(prior, posterior, rejected, clusters, **rest)


def _in_a_row_per_context(path: Any, data: Data, clusters: Array | None) -> Sample:
    names = option_names(data, "count_")
    mass = masses(path, data, names, "count_")
    before, after, rejected = _instances(path, data, names)
    template = take(data.get(TEMPLATE), after)
    same = [] if template is None else [template]
    named = pd.Series(joined(data["item"][after], data["rejected"][after], *same))
    keys = joined(named.to_numpy(), named.groupby(named).cumcount().to_numpy())
    return options(mass[before], mass[after], rejected, take(clusters, after), template=template, keys=keys)


def _instances(path: Any, data: Data, names: Sequence[str]) -> tuple[Array, Array, Array]:
    """[n] row of each posterior's prior, its own row, and the index of the option that was rejected."""
    item, context = complete(path, "item", data["item"]), complete(path, "context", data["context"])
    unknown = ~np.isin(context.astype(str), CONTEXTS)
    refuse_row(path, unknown, lambda at: f", context: {context[at]!r}; give 'prior' or 'posterior'")
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
    return before, after, indices(path, "rejected", data["rejected"][after], names, after)


def option_names(data: Data, *prefixes: str) -> list[str]:
    """The options whose columns have these prefixes."""
    return [name for name in suffixes(list(data), *prefixes) if name != OTHER]


def masses(path: Any, data: Data, names: Sequence[str], prefix: str) -> Array:
    """[n, options + 1] counts or probabilities, the last column on no option. UserError if neither.

    A row of probabilities that exceeds 1 by no more than the rounding of its cells can make is scaled to 1.
    """
    mass = side_by_side(data, prefix, names)
    mass = np.column_stack([mass, data.get(prefix + OTHER, np.zeros(len(mass)))])
    totals = np.nan_to_num(mass).sum(axis=1)
    above = totals > 1 + _rounding(mass) + SLACK
    if not above.any():
        return mass / np.maximum(totals, 1.0)[:, None]
    if (broken := np.isfinite(mass) & (mass % 1 != 0)).any():
        row, column = (int(i) for i in np.argwhere(broken)[0])
        most = int(np.argmax(above))
        raise UserError(
            f"{path}: row {most + 1}: {prefix}* sum to {totals[most]:.6g}, and row {row + 1}, "
            f"{prefix}{[*names, OTHER][column]}: {mass[row, column]:g} is not a whole number; give counts, or "
            "probabilities that sum to at most 1 in every row"
        )
    return mass


def _rounding(mass: Array) -> Array:
    """[n] by how much rounding masses [n, k] to their decimals can raise a sum: half a unit for each that is not 0."""
    known = mass[np.isfinite(mass)]
    units = (10.0**-places for places in range(MOST_PLACES))
    unit = next((x for x in units if np.allclose(known / x, np.round(known / x), rtol=0, atol=1e-6)), 0.0)
    return (np.nan_to_num(mass) > 0).sum(axis=1) * unit / 2 * (unit < 1)


def counted(mass: Array) -> bool:
    """Whether masses [n, k] are counts: probabilities sum to at most one."""
    return bool((np.nan_to_num(mass).sum(axis=1) > 1 + SLACK).any())


def indices(path: Any, column: str, labels: Array, names: Sequence[str], rows: Array) -> Array:
    """Index of the option that each label names; `rows` say where the labels stand."""
    known = {name: i for i, name in enumerate(names)}
    for label, row in zip(labels, rows, strict=True):
        if str(label).lower() not in known:
            raise UserError(f"{path}: row {row + 1}, {column}: {label!r} is no option; options: {', '.join(names)}")
    return np.array([known[str(label).lower()] for label in labels])


def known_indices(path: Any, column: str, labels: Array, names: Sequence[str], rows: Array) -> Array:
    """[n] index of the option that each label names, NaN where there is none; errors as of `indices`."""
    known = np.array([label is not None for label in labels], dtype=bool)
    index = np.full(len(labels), np.nan)
    index[known] = indices(path, column, labels[known], names, np.asarray(rows)[known])
    return index


def options(prior: Array, posterior: Array, rejected: Array, clusters: Array | None, **rest: Any) -> Options:
    """Instances from masses [n, k + 1], counts or probabilities, the last column on no option."""
    both = (prior, posterior)
    shares = [counts_to_probabilities(x)[:, :-1] if counted(x) else x[:, :-1] for x in both]
    sizes: dict[str, Any] = {}
    if all(counted(x) for x in both):
        kept = [x[:, :-1].sum(axis=1) - x[np.arange(len(x)), rejected] for x in both]
        sizes = {"n_prior": kept[0], "n_posterior": kept[1]}
    return Options(prior=shares[0], posterior=shares[1], rejected=rejected, clusters=clusters, **sizes, **rest)


REJECTION_ROWS = Form(
    "options, one row per context",
    "item, context (prior or posterior), rejected, count_<option> for each of two or more [, count_other, template]",
    named({**dict.fromkeys(("item", "context", "rejected"), "label"), "count_*": "mass"}, {TEMPLATE: "label"}),
    _in_a_row_per_context,
    cluster=("cluster", "item"),
    names=("item",),
    shares=True,
    totals=(TEMPLATE, "ranks"),
)
REJECTION_COLUMNS = Form(
    "options",
    "prior_<option> and posterior_<option> for each of two or more, rejected [, prior_other, posterior_other, "
    "template, mentioned_<option>]",
    named(
        {"prior_*": "mass", "posterior_*": "mass", "rejected": "label"}, {TEMPLATE: "label", f"{MENTIONED}_*": "mass"}
    ),
    _in_one_row,
)


# How often each option was the answer: alone, or by two ways of asking.

WAYS = ("free", "closed")
WHOLE = "agreement on all {} options: no column rejected says which of them remain"


def _count_columns(there: Sequence[str]) -> Columns:
    """With a context the form of options is meant, which has items and what was rejected as well."""
    more = dict.fromkeys(("item", "rejected"), "label") if "context" in there else {}
    return named({"count_*": "mass", **more})(there)


def _counts(path: Any, data: Data, clusters: Array | None) -> Sample:
    names = option_names(data, "count_")
    mass = masses(path, data, names, "count_")
    sampled = counted(mass)
    return Frequencies(
        options=tuple(names),
        shares=counts_to_probabilities(mass) if sampled else mass,
        n_answers=mass[:, :-1].sum(axis=1) if sampled else None,
        clusters=clusters,
    )


def _ways(path: Any, data: Data, clusters: Array | None) -> Sample:
    names = option_names(data, "free_", "closed_")
    mass = {way: masses(path, data, names, f"{way}_") for way in WAYS}
    answers = {f"n_{way}" for way, x in mass.items() if counted(x)}
    kept = {way: x[:, :-1] for way, x in mass.items()}
    context, note, included = data.get("context"), "", None
    if REJECTED in data:
        if lacking := [name for name in ("item", "context") if name not in data]:
            raise UserError(f"{path}: has a column {REJECTED!r} and no {lacking[0]!r}; give {READOUTS.wants}")
        if len(names) < 3:
            raise UserError(f"{path}: {REJECTED}: of {len(names)} options one remains; give three, or no such column")
        before, after, rejected = _instances(path, data, names)
        rows, remain = np.concatenate([before, after]), np.tile(_others(len(names))[rejected], (2, 1))
        kept = {way: np.take_along_axis(x[rows], remain, axis=1) for way, x in kept.items()}
        context, clusters = np.repeat(CONTEXTS, len(after)), take(clusters, rows)
        ratio = np.all([x.sum(axis=1) > 0 for x in kept.values()], axis=0).reshape(2, -1).all(axis=0)
        included = np.tile(ratio, 2) if len(names) == 3 else None
    elif context is not None and {*CONTEXTS} & {*context}:
        included = np.ones(len(context), dtype=bool) if len(names) == 2 else None
        note = "" if len(names) == 2 else WHOLE.format(len(names))
    sizes: dict[str, Any] = {f"n_{way}": x.sum(axis=1) for way, x in kept.items() if f"n_{way}" in answers}
    shares: dict[str, Any] = {way: counts_to_probabilities(x) for way, x in kept.items()}
    return Readouts(**shares, context=context, included=included, clusters=clusters, note=note, **sizes)


def _others(k: int) -> Array:
    """[k, k - 1] the options besides each."""
    return np.array([np.delete(np.arange(k), at) for at in range(k)])


COUNTS = Form("counts", "count_<option> for each of two or more [, count_other]", _count_columns, _counts)
READOUTS = Form(
    "two read-outs",
    "free_<option> and closed_<option> for each of two or more [, free_other, closed_other, context; with item, "
    "rejected]",
    named({"free_*": "mass", "closed_*": "mass"}, dict.fromkeys(("context", "item", REJECTED), "label")),
    _ways,
    names=("item",),
    shares=True,
)


# How often each option was the answer: asked afresh, and within conversations.

ARMS = ("single_", "multi_")


def _build(path: Any, data: Data, clusters: Array | None) -> Sample:
    """Rows of one question are its runs and are put together. An option whose cells are empty in both arms in all rows
    of a question that offers two others was not offered there.
    """
    names = option_names(data, *ARMS)
    arms = [masses(path, data, names, arm) for arm in ARMS]
    n = len(arms[0])
    labels = complete(path, "question", data["question"]) if "question" in data else np.arange(n)
    first, row = np.unique(labels.astype(str), return_index=True, return_inverse=True)[1:]
    for name, column in (("cluster", clusters), ("truth", data.get("truth"))):
        if column is not None:
            differs = column != column[first][row]
            refuse_row(
                path, differs, lambda at, name=name: f": {name} differs within question {labels[at]!r}; it has one"
            )
    truth = None
    if "truth" in data:
        truth = known_indices(path, "truth", data["truth"][first], names, first)
    offered = np.zeros((len(first), len(names)), dtype=bool)
    for arm in arms:
        np.logical_or.at(offered, row, ~np.isnan(arm[:, :-1]))
    offered[offered.sum(axis=1) < 2] = True  # nothing to choose from: answers that are missing
    if truth is not None:
        known = np.flatnonzero(~np.isnan(truth))
        lost = known[~offered[known, truth[known].astype(int)]]
        if len(lost):
            at = first[lost[0]]
            raise UserError(
                f"{path}: question {str(labels[at]).partition(GLUE)[0]!r}, truth: {data['truth'][at]!r} is empty in "
                "all rows, so it was not offered; give counts, 0 if nobody said it"
            )
    left_out = np.column_stack([~offered, np.zeros(len(first), dtype=bool)])[row]
    pooled = []
    for arm in arms:  # runs of one question: answers add up, probabilities are averaged
        total = np.zeros((len(first), arm.shape[1]))
        np.add.at(total, row, np.where(left_out, 0.0, arm))
        pooled.append(total if counted(arm) else total / np.bincount(row)[:, None])
    shares = [x[:, :-1] / np.where((s := x[:, :-1].sum(axis=1, keepdims=True)) > 0, s, np.nan) for x in pooled]
    invalid = [float(counts_to_probabilities(np.nansum(x, axis=0))[-1]) for x in pooled]
    return Answers(
        options=tuple(names),
        single=shares[0],
        multi=shares[1],
        counts=pooled[0][:, :-1] if counted(arms[0]) else None,
        invalid=(invalid[0], invalid[1]),
        truth=truth,
        offered=None if offered.all() else offered,
        clusters=take(clusters, first),
        keys=labels[first] if "question" in data else None,
    )


ANSWERS = Form(
    "answers",
    "single_<option> and multi_<option> for each of two or more [, single_other, multi_other, question, truth]",
    named({"single_*": "mass", "multi_*": "mass"}, {"question": "label", "truth": "label"}),
    _build,
    cluster=("cluster", "question"),
    names=("question",),
)
