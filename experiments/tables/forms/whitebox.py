"""What only an open model shows: masses on yes and no, forks, patches, inner layers, other askers."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from ....hooks.errors import UserError
from ....metrics import belief_from_logprobs
from ..cells import Array, complete
from ..samples import Askers, Forks, Layers, Patches, Queries, Sample, YesNo
from .form import Data, Form, P, fixed, suffixes
from .options import at_least_two, indices

MASS_SLACK = 1e-5
"""How far float32 may put a sum of probabilities above one."""
FACES = ("logp", "logp_negated")
"""Prefixes of the columns of a question, and of its negation."""
ITEMS = ("cluster", "item", "question")


def _forms(columns: Sequence[str], face: str, answer: str) -> list[str]:
    """Columns of the surface forms of an answer."""
    return [c for c in columns if re.fullmatch(f"{face}_{answer}(_.+)?", c)]


def _yes_no_roles(columns: Sequence[str]) -> dict[str, str]:
    named = [c for face in FACES for answer in ("yes", "no") for c in _forms(columns, face, answer)]
    return {**dict.fromkeys(named, "logp"), **({"outcome": "outcome"} if "outcome" in columns else {})}


def _yes_no_missing(columns: Sequence[str]) -> list[str]:
    asked = [face for face in FACES if any(_forms(columns, face, answer) for answer in ("yes", "no"))]
    wanted = dict.fromkeys([FACES[0], *asked])
    return [f"{face}_{answer}" for face in wanted for answer in ("yes", "no") if not _forms(columns, face, answer)]


def _yes_no(path: Any, data: Data, clusters: Array | None) -> Sample:
    def read(face: str) -> Any:
        yes, no = (np.column_stack([data[c] for c in _forms(list(data), face, answer)]) for answer in ("yes", "no"))
        with np.errstate(invalid="ignore"):
            mass = np.exp(np.logaddexp.reduce(np.hstack([yes, no]), axis=1))
        if (over := mass > 1 + MASS_SLACK).any():
            at = int(np.argmax(over))
            raise UserError(
                f"{path}: row {at + 1}: the probabilities of {face}_... sum to {mass[at]:.3g}; forms overlap"
            )
        return belief_from_logprobs(yes, no)

    asked = read(FACES[0])
    turned = read(FACES[1]).belief if _forms(list(data), FACES[1], "yes") else None
    return YesNo(
        belief=asked.belief, mass=asked.option_mass, negated=turned, outcome=data.get("outcome"), clusters=clusters
    )


def _options(columns: Sequence[str], *prefixes: str) -> list[str]:
    return list(dict.fromkeys(name for prefix in prefixes for name in suffixes(columns, prefix)))


def _fork_roles(columns: Sequence[str]) -> dict[str, str]:
    wanted = {f"{prefix}{name}": P for prefix in ("yes_", "reveal_") for name in _options(columns, "yes_", "reveal_")}
    return {name: role for name, role in wanted.items() if name in columns}


def _fork_missing(columns: Sequence[str]) -> list[str]:
    names = at_least_two(_options(columns, "yes_", "reveal_"))
    return [c for c in (f"{prefix}{name}" for name in names for prefix in ("yes_", "reveal_")) if c not in columns]


def _forks(path: Any, data: Data, clusters: Array | None) -> Sample:
    names = _options(list(data), "yes_")
    q, r = (np.column_stack([data[f"{prefix}{name}"] for name in names]) for prefix in ("yes_", "reveal_"))
    return Forks(q=q, r=r, clusters=clusters)


def _patches(path: Any, data: Data, clusters: Array | None) -> Sample:
    if ("cell" in data) != ("pair" in data):
        given, lacking = ("cell", "pair") if "cell" in data else ("pair", "cell")
        raise UserError(f"{path}: has column {given!r} and no {lacking!r}; a map of cells needs both")
    for name in {"cell", "pair"} & data.keys():
        complete(path, name, data[name])
    if "cell" in data:
        table = pd.DataFrame({name: data[name] for name in ("pair", "cell", "base", "donor")})
        if (twice := table.duplicated(["pair", "cell"])).any():
            at = int(np.argmax(twice))
            raise UserError(f"{path}: row {at + 1}: pair {table['pair'][at]!r} has cell {table['cell'][at]!r} twice")
        for name in ("base", "donor"):
            changes = table.groupby("pair")[name].nunique(dropna=False) > 1
            if changes.any():
                raise UserError(f"{path}: {name} differs within pair {changes.idxmax()!r}; all its cells share one")
    return Patches(clusters=clusters, **data)


def _layer_roles(columns: Sequence[str]) -> dict[str, str]:
    names = _options(columns, "inner_", "exact_")
    wanted = {f"{prefix}{name}": "logp" for prefix in ("inner_", "exact_") for name in names}
    wanted |= {f"word_{name}": "label" for name in names} | {"item": "label", "rejected": "label"}
    return {name: role for name, role in wanted.items() if name in columns}


def _layer_missing(columns: Sequence[str]) -> list[str]:
    names = at_least_two(_options(columns, "inner_", "exact_"))
    prefixes = ("inner_", "exact_", *(["word_"] if suffixes(columns, "word_") else []))
    return [c for c in [*(f"{x}{name}" for name in names for x in prefixes), "item", "rejected"] if c not in columns]


def _layers(path: Any, data: Data, clusters: Array | None) -> Sample:
    names = _options(list(data), "inner_")
    inner, exact = (np.column_stack([data[f"{prefix}{name}"] for name in names]) for prefix in ("inner_", "exact_"))
    words = np.tile(np.array(names, dtype=object), (len(inner), 1))
    if "word_" + names[0] in data:
        words = np.column_stack([complete(path, f"word_{name}", data[f"word_{name}"]) for name in names])
    later = np.flatnonzero(~pd.isna(data["rejected"]))
    rejected = np.full(len(inner), -1)
    rejected[later] = indices(path, "rejected", data["rejected"][later], names, later)
    return Layers(inner=inner, exact=exact, words=words, rejected=rejected, clusters=clusters)


def _askers(path: Any, data: Data, clusters: Array | None) -> Sample:
    return Askers(clusters=clusters, **data)


def _queries(path: Any, data: Data, clusters: Array | None) -> Sample:
    return Queries(clusters=clusters, **data)


YES_NO = Form(
    "log-probabilities of yes and no",
    "logp_yes, logp_no, of several surface forms logp_yes_<form>, ... [, logp_negated_yes, logp_negated_no, outcome]",
    _yes_no_roles,
    _yes_no_missing,
    _yes_no,
)
FORKS = Form(
    "forks",
    "yes_<option> and reveal_<option> for each of two or more",
    _fork_roles,
    _fork_missing,
    _forks,
    cluster=ITEMS,
)
PATCHES = Form(
    "patches",
    "base, patched, donor [, patched_reverse; or pair and cell]",
    build=_patches,
    cluster=(*ITEMS, "pair"),
    **fixed(
        dict.fromkeys(("base", "patched", "donor"), "real"),
        {"patched_reverse": "real", "cell": "label", "pair": "label"},
    ),
)
LAYERS = Form(
    "inner read-outs",
    "item, rejected (nothing before the rejection), inner_<option> and exact_<option> for each of two or more "
    "[, word_<option>]",
    _layer_roles,
    _layer_missing,
    _layers,
    cluster=("item",),
)
ASKERS = Form(
    "shifts by asker",
    "shift_user, shift_third",
    build=_askers,
    cluster=("cluster", "scenario", "question", "item"),
    **fixed({"shift_user": "real", "shift_third": "real"}, {}),
)
QUERIES = Form(
    "passive and queried", "passive, queried", build=_queries, cluster=ITEMS, **fixed({"passive": P, "queried": P}, {})
)
