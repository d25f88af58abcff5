"""Options before and after one was rejected, in one row or in a row per context."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....hooks.errors import UserError
from ....metrics import counts_to_probabilities
from ..cells import Array, complete, refuse_row
from ..rows import take
from ..samples import Options, Sample
from .form import CONTEXTS, OTHER, Data, Form, named, side_by_side, suffixes

TEMPLATE, MENTIONED = "template", "mentioned"
"""The column that names the form of the question, and the prefix of the masses after a reply that decides nothing."""


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
    found = masses(path, data, names, "count_")
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
    rejected = indices(path, "rejected", data["rejected"][after], names, after)
    template = take(data.get(TEMPLATE), after)
    return options(found[before], found[after], rejected, take(clusters, after), template=template)


def option_names(data: Data, *prefixes: str) -> list[str]:
    """The options whose columns have these prefixes."""
    return [name for name in suffixes(list(data), *prefixes) if name != OTHER]


def masses(path: Any, data: Data, names: Sequence[str], prefix: str) -> Array:
    """[n, options + 1] counts or probabilities, the last column on no option. UserError if neither."""
    found = side_by_side(data, prefix, names)
    found = np.column_stack([found, data.get(prefix + OTHER, np.zeros(len(found)))])
    if counted(found) and (broken := np.isfinite(found) & (found % 1 != 0)).any():
        row, column = (int(i) for i in np.argwhere(broken)[0])
        raise UserError(
            f"{path}: row {row + 1}, {prefix}{[*names, OTHER][column]}: {found[row, column]:g} is not a whole "
            "number; give counts, or probabilities that sum to at most 1 in every row"
        )
    return found


def counted(found: Array) -> bool:
    """Whether masses [n, k] are counts: probabilities sum to at most one."""
    return bool((np.nan_to_num(found).sum(axis=1) > 1 + 1e-9).any())


def indices(path: Any, column: str, labels: Array, names: Sequence[str], rows: Array) -> Array:
    """Index of the option that each label names; `rows` say where the labels stand."""
    known = {name: i for i, name in enumerate(names)}
    for label, row in zip(labels, rows, strict=True):
        if str(label).lower() not in known:
            raise UserError(f"{path}: row {row + 1}, {column}: {label!r} is no option; options: {', '.join(names)}")
    return np.array([known[str(label).lower()] for label in labels])


def options(prior: Array, posterior: Array, rejected: Array, clusters: Array | None, **rest: Any) -> Options:
    """Instances from masses [n, k + 1], counts or probabilities, the last column on no option."""
    both = (prior, posterior)
    shares = [counts_to_probabilities(x)[:, :-1] if counted(x) else x[:, :-1] for x in both]
    sizes: dict[str, Any] = {}
    if all(counted(x) for x in both):
        kept = [x[:, :-1].sum(axis=1) - x[np.arange(len(x)), rejected] for x in both]
        sizes = {"n_prior": kept[0], "n_posterior": kept[1]}
    return Options(prior=shares[0], posterior=shares[1], rejected=rejected, clusters=clusters, **sizes, **rest)


LONG = Form(
    "options, one row per context",
    "item, context (prior or posterior), rejected, count_<option> for each of two or more [, count_other, template]",
    named({**dict.fromkeys(("item", "context", "rejected"), "label"), "count_*": "mass"}, {TEMPLATE: "label"}),
    _in_a_row_per_context,
    cluster=("cluster", "item"),
)
WIDE = Form(
    "options",
    "prior_<option> and posterior_<option> for each of two or more, rejected [, prior_other, posterior_other, "
    "template, mentioned_<option>]",
    named(
        {"prior_*": "mass", "posterior_*": "mass", "rejected": "label"}, {TEMPLATE: "label", f"{MENTIONED}_*": "mass"}
    ),
    _in_one_row,
)
