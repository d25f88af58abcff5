"""Answers to accept or reject by a score."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..cells import Array, complete, refuse_row
from ..samples import Records, Sample
from .form import Columns, Data, Form, P

SCORES = {"single": P, "multi": P, "conf": P, "b": "difference"}


def _columns(there: Sequence[str]) -> Columns:
    scores = {name: role for name, role in SCORES.items() if name in there} or {"single": P}
    return {**dict.fromkeys(("category", "answer", "truth"), "label"), **scores}, {"k": "mass"}


def _build(path: Any, data: Data, clusters: Array | None) -> Sample:
    category = complete(path, "category", data["category"])
    random = category == "random"
    options = data.get("k", np.full(len(random), np.nan))
    lacking = ", {}: is missing; category {!r} needs {}"
    unsized, unknown = random & ~(options >= 1), ~random & pd.isna(data["truth"])
    refuse_row(path, unsized, lambda at: lacking.format("k", category[at], "the number of options"))
    refuse_row(path, unknown, lambda at: lacking.format("truth", category[at], "what is right"))
    scores = {name: data[name] for name in SCORES if name in data}
    if {"single", "multi"} <= scores.keys():
        scores.setdefault("b", scores["single"] - scores["multi"])
    return Records(
        category=category,
        answer=data["answer"],
        truth=data["truth"],
        scores={**scores, "k": options},
        clusters=clusters,
    )


RECORDS = Form(
    "answers to verify",
    "category, answer, truth, one or more of single, multi, conf and b [, k, question]",
    _columns,
    _build,
    cluster=("cluster", "question"),
)
