"""Beliefs that should follow from one another: by Bayes' rule, or as the mean over cases."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..cells import Array
from ..samples import Cases, Evidence, Sample
from .form import Columns, Data, Form, P, fields_of, named, side_by_side


def _case_columns(there: Sequence[str]) -> Columns:
    return {"p": P, **{f"{x}{case}": role for case in _cases(there) or ["_1"] for x, role in CASE.items()}}, {}


def _cases(columns: Sequence[str]) -> list[str]:
    """Names of the cases, as they follow `cond` and `weight`."""
    return list(dict.fromkeys(found[1] for c in columns if (found := re.fullmatch(r"(?:cond|weight)(_.+|\d+)", c))))


def _build_cases(path: Any, data: Data, clusters: Array | None) -> Sample:
    conditional, weights = (side_by_side(data, kind, _cases(list(data))) for kind in CASE)
    total = weights.sum(axis=1)
    off = np.abs(total - 1) > SUM_SLACK
    span = f"{total[off].min():.3g} to {total[off].max():.3g}" if off.any() else ""
    note = f"weights of {off.sum()} rows sum to {span}, not 1: they are divided by their sum" if span else ""
    return Cases(note=note, p=data["p"], conditional=conditional, weights=weights, clusters=clusters)


SUM_SLACK = 1e-6
CASE = {"cond": P, "weight": "mass"}
BAYES = Form(
    "Bayes readings",
    "p_x, p_y, p_y_given_x, posterior [, p_y_given_not_x]",
    named(dict.fromkeys(("p_x", "p_y", "p_y_given_x", "posterior"), P), {"p_y_given_not_x": P}),
    fields_of(Evidence),
    replicates=True,
)
CASES = Form("cases", "p, cond_1, weight_1, cond_2, weight_2, ...", _case_columns, _build_cases, replicates=True)
