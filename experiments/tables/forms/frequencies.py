"""How often each option was the answer: alone, or by two ways of asking."""

from collections.abc import Sequence
from typing import Any

from ....metrics import counts_to_probabilities
from ..cells import Array
from ..samples import Frequencies, Readouts, Sample
from .form import Data, Form, suffixes
from .options import OTHER, at_least_two, counted, masses

WAYS = ("free", "closed")


def _count_roles(columns: Sequence[str]) -> dict[str, str]:
    return {f"count_{name}": "mass" for name in suffixes(columns, "count_")}


def _count_missing(columns: Sequence[str]) -> list[str]:
    names = at_least_two([name for name in suffixes(columns, "count_") if name != OTHER])
    lacking = [c for c in (f"count_{name}" for name in names) if c not in columns]
    return [*lacking, *(["rejected"] if "context" in columns else [])]  # then the options form is meant


def _counts(path: Any, data: Data, clusters: Array | None) -> Sample:
    names = [name for name in suffixes(list(data), "count_") if name != OTHER]
    found = masses(path, data, names, "count_")
    sampled = counted(found)
    return Frequencies(
        options=tuple(names),
        shares=counts_to_probabilities(found) if sampled else found,
        n_answers=found[:, :-1].sum(axis=1) if sampled else None,
        clusters=clusters,
    )


def _both(columns: Sequence[str]) -> list[str]:
    found = [name for way in WAYS for name in suffixes(columns, f"{way}_")]
    return [name for name in dict.fromkeys(found) if name != OTHER]


def _both_roles(columns: Sequence[str]) -> dict[str, str]:
    wanted = {f"{way}_{name}": "mass" for way in WAYS for name in [*_both(columns), OTHER]} | {"context": "label"}
    return {name: role for name, role in wanted.items() if name in columns}


def _both_missing(columns: Sequence[str]) -> list[str]:
    return [c for c in (f"{way}_{name}" for name in at_least_two(_both(columns)) for way in WAYS) if c not in columns]


def _ways(path: Any, data: Data, clusters: Array | None) -> Sample:
    free, closed = (masses(path, data, _both(list(data)), f"{way}_") for way in WAYS)
    sizes = {f"n_{way}": x[:, :-1].sum(axis=1) for way, x in zip(WAYS, (free, closed), strict=True) if counted(x)}
    shares = [counts_to_probabilities(x[:, :-1]) for x in (free, closed)]
    return Readouts(free=shares[0], closed=shares[1], context=data.get("context"), clusters=clusters, **sizes)


COUNTS = Form("counts", "count_<option> for each of two or more [, count_other]", _count_roles, _count_missing, _counts)
READOUTS = Form(
    "two read-outs",
    "free_<option> and closed_<option> for each of two or more [, free_other, closed_other, context]",
    _both_roles,
    _both_missing,
    _ways,
)
