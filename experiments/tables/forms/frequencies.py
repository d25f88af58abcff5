"""How often each option was the answer: alone, or by two ways of asking."""

from collections.abc import Sequence
from typing import Any

from ....metrics import counts_to_probabilities
from ..cells import Array
from ..samples import Frequencies, Readouts, Sample
from .form import Columns, Data, Form, named
from .options import counted, masses, option_names

WAYS = ("free", "closed")


def _count_columns(there: Sequence[str]) -> Columns:
    """With a context the form of options is meant, which has items and what was rejected as well."""
    more = dict.fromkeys(("item", "rejected"), "label") if "context" in there else {}
    return named({"count_*": "mass", **more})(there)


def _counts(path: Any, data: Data, clusters: Array | None) -> Sample:
    names = option_names(data, "count_")
    found = masses(path, data, names, "count_")
    sampled = counted(found)
    return Frequencies(
        options=tuple(names),
        shares=counts_to_probabilities(found) if sampled else found,
        n_answers=found[:, :-1].sum(axis=1) if sampled else None,
        clusters=clusters,
    )


def _ways(path: Any, data: Data, clusters: Array | None) -> Sample:
    names = option_names(data, "free_", "closed_")
    free, closed = (masses(path, data, names, f"{way}_") for way in WAYS)
    sizes = {f"n_{way}": x[:, :-1].sum(axis=1) for way, x in zip(WAYS, (free, closed), strict=True) if counted(x)}
    shares = [counts_to_probabilities(x[:, :-1]) for x in (free, closed)]
    return Readouts(free=shares[0], closed=shares[1], context=data.get("context"), clusters=clusters, **sizes)


COUNTS = Form("counts", "count_<option> for each of two or more [, count_other]", _count_columns, _counts)
READOUTS = Form(
    "two read-outs",
    "free_<option> and closed_<option> for each of two or more [, free_other, closed_other, context]",
    named({"free_*": "mass", "closed_*": "mass"}, {"context": "label"}),
    _ways,
)
