"""What only an open model shows: masses on yes and no, forks, patches, inner layers, other askers."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from ...base.errors import UserError
from .. import belief_from_logprobs
from ..contract import Array
from ..tables.cells import complete, refuse_row
from ..tables.samples import Sample, YesNo
from ..tables.whitebox_samples import Askers, Forks, Layers, Patches, Queries
from .form import Columns, Data, Form, P, at_least_two, fields_of, named, side_by_side, suffixes
from .options import indices

MASS_SLACK = 1e-5
"""How far float32 may put a sum of probabilities above one."""
FACES = ("logp", "logp_negated")
"""Prefixes of the columns of a question, and of its negation."""
ITEMS = ("cluster", "item", "question")


def _forms(columns: Sequence[str], face: str, answer: str) -> list[str]:
    """Columns of the surface forms of an answer."""
    return [c for c in columns if re.fullmatch(f"{face}_{answer}(_.+)?", c)]


def _yes_no_columns(there: Sequence[str]) -> Columns:
    """Each answer in at least one form; the negation's, if it is asked at all."""
    answers = ("yes", "no")
    faces = [face for face in FACES if face == FACES[0] or any(_forms(there, face, answer) for answer in answers)]
    wanted = [c for face in faces for answer in answers for c in _forms(there, face, answer) or [f"{face}_{answer}"]]
    return dict.fromkeys(wanted, "logp"), {"outcome": "outcome"}


def _yes_no(path: Any, data: Data, clusters: Array | None) -> Sample:
    def read(face: str) -> Any:
        yes, no = (np.column_stack([data[c] for c in _forms(list(data), face, answer)]) for answer in ("yes", "no"))
        with np.errstate(invalid="ignore"):
            mass = np.exp(np.logaddexp.reduce(np.hstack([yes, no]), axis=1))
        over = f": the probabilities of {face}_... sum to {{:.3g}}; forms overlap"
        refuse_row(path, mass > 1 + MASS_SLACK, lambda at: over.format(mass[at]))
        return belief_from_logprobs(yes, no)

    asked = read(FACES[0])
    turned = read(FACES[1]).belief if _forms(list(data), FACES[1], "yes") else None
    return YesNo(
        belief=asked.belief, mass=asked.option_mass, negated=turned, outcome=data.get("outcome"), clusters=clusters
    )


def _forks(path: Any, data: Data, clusters: Array | None) -> Sample:
    names = suffixes(list(data), "yes_")
    q, r = (side_by_side(data, prefix, names) for prefix in ("yes_", "reveal_"))
    return Forks(q=q, r=r, clusters=clusters)


def _patches(path: Any, data: Data, clusters: Array | None) -> Sample:
    if ("cell" in data) != ("pair" in data):
        given, lacking = ("cell", "pair") if "cell" in data else ("pair", "cell")
        raise UserError(f"{path}: has column {given!r} and no {lacking!r}; a map of cells needs both")
    for name in {"cell", "pair"} & data.keys():
        complete(path, name, data[name])
    if "cell" in data:
        table = pd.DataFrame({name: data[name] for name in ("pair", "cell", "base", "donor")})
        twice = table.duplicated(["pair", "cell"]).to_numpy()
        refuse_row(path, twice, lambda at: f": pair {data['pair'][at]!r} has cell {data['cell'][at]!r} twice")
        for name in ("base", "donor"):
            changes = table.groupby("pair")[name].nunique(dropna=False) > 1
            if changes.any():
                raise UserError(f"{path}: {name} differs within pair {changes.idxmax()!r}; all its cells share one")
    return Patches(clusters=clusters, **data)


def _layer_columns(there: Sequence[str]) -> Columns:
    names = at_least_two(suffixes(there, "inner_", "exact_"))
    prefixes = {"inner_": "logp", "exact_": "logp"} | ({"word_": "label"} if suffixes(there, "word_") else {})
    wanted = {f"{prefix}{name}": role for prefix, role in prefixes.items() for name in names}
    return wanted | {"item": "label", "rejected": "label"}, {}


def _layers(path: Any, data: Data, clusters: Array | None) -> Sample:
    names = suffixes(list(data), "inner_")
    inner, exact = (side_by_side(data, prefix, names) for prefix in ("inner_", "exact_"))
    words = np.tile(np.array(names, dtype=object), (len(inner), 1))
    if "word_" + names[0] in data:
        words = np.column_stack([complete(path, f"word_{name}", data[f"word_{name}"]) for name in names])
    later = np.flatnonzero(~pd.isna(data["rejected"]))
    rejected = np.full(len(inner), -1)
    rejected[later] = indices(path, "rejected", data["rejected"][later], names, later)
    return Layers(inner=inner, exact=exact, words=words, rejected=rejected, clusters=clusters)


YES_NO = Form(
    "log-probabilities of yes and no",
    "logp_yes, logp_no, of several surface forms logp_yes_<form>, ... [, logp_negated_yes, logp_negated_no, outcome]",
    _yes_no_columns,
    _yes_no,
)
FORKS = Form(
    "forks",
    "yes_<option> and reveal_<option> for each of two or more",
    named({"yes_*": P, "reveal_*": P}),
    _forks,
    cluster=ITEMS,
)
PATCHES = Form(
    "patches",
    "base, patched, donor [, patched_reverse; or pair and cell]",
    named(
        dict.fromkeys(("base", "patched", "donor"), "real"),
        {"patched_reverse": "real", "cell": "label", "pair": "label"},
    ),
    _patches,
    cluster=(*ITEMS, "pair"),
)
LAYERS = Form(
    "inner read-outs",
    "item, rejected (nothing before the rejection), inner_<option> and exact_<option> for each of two or more "
    "[, word_<option>]",
    _layer_columns,
    _layers,
    cluster=("item",),
)
ASKERS = Form(
    "shifts by asker",
    "shift_user, shift_third",
    named({"shift_user": "real", "shift_third": "real"}),
    fields_of(Askers),
    cluster=("cluster", "scenario", "question", "item"),
)
QUERIES = Form(
    "passive and queried", "passive, queried", named({"passive": P, "queried": P}), fields_of(Queries), cluster=ITEMS
)
