"""Answers to accept or reject by a score."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from ....hooks.errors import UserError
from ..cells import Array, complete
from ..samples import Records, Sample
from .form import Data, Form, P

SCORES = {"single": P, "multi": P, "conf": P, "b": "difference"}
ROLES = {**dict.fromkeys(("category", "answer", "truth"), "label"), **SCORES, "k": "mass"}


def _missing(columns: Sequence[str]) -> list[str]:
    lacking = [name for name in ("category", "answer", "truth") if name not in columns]
    return lacking if set(SCORES) & set(columns) else [*lacking, "single"]


def _build(path: Any, data: Data, clusters: Array | None) -> Sample:
    category = complete(path, "category", data["category"])
    random = category == "random"
    options = data.get("k", np.full(len(random), np.nan))
    for name, lacks in (("k", random & ~(options >= 1)), ("truth", ~random & pd.isna(data["truth"]))):
        if lacks.any():
            at = int(np.argmax(lacks))
            what = "the number of options" if name == "k" else "what is right"
            raise UserError(f"{path}: row {at + 1}, {name}: is missing; category {category[at]!r} needs {what}")
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
    lambda columns: {name: role for name, role in ROLES.items() if name in columns},
    _missing,
    _build,
    cluster=("cluster", "question"),
)
