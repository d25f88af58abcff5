"""Beliefs that should follow from one another: Bayes' rule, cases; and forecasts with their outcomes."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....metrics import hybrid_probability
from ..cells import Array
from ..samples import Cases, Evidence, Forecasts, Hits, Sample
from .form import Data, Form, P, fixed


def _evidence(path: Any, data: Data, clusters: Array | None) -> Sample:
    return Evidence(clusters=clusters, **data)


def _forecasts(path: Any, data: Data, clusters: Array | None) -> Sample:
    return Forecasts(clusters=clusters, **data)


def _hits(path: Any, data: Data, clusters: Array | None) -> Sample:
    hits, n = data["k"], data["n"]
    belief = hybrid_probability(hits, n)
    return Hits(belief=belief, outcome=data.get("outcome"), hits=hits, n=n, clusters=clusters)


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


BAYES = Form(
    "Bayes readings",
    "p_x, p_y, p_y_given_x, posterior [, p_y_given_not_x]",
    build=_evidence,
    replicates=True,
    **fixed({"p_x": P, "p_y": P, "p_y_given_x": P, "posterior": P}, {"p_y_given_not_x": P}),
)
CASES = Form(
    "cases", "p, cond_1, weight_1, cond_2, weight_2, ...", _cases_roles, _cases_missing, _build_cases, replicates=True
)
FORECASTS = Form(
    "forecasts",
    "belief, outcome [, p_star, prompt]",
    build=_forecasts,
    replicates=True,
    **fixed({"belief": P, "outcome": "outcome"}, {"p_star": P, "prompt": "label"}),
)
TRUTHS = Form(
    "beliefs and the true probability",
    "belief, p_star [, prompt]",
    build=_forecasts,
    cluster=("cluster", "context", "question", "item"),
    replicates=True,
    **fixed({"belief": P, "p_star": P}, {"prompt": "label"}),
)
HITS = Form(
    "k of n",
    "k, n [, outcome]",
    build=_hits,
    **fixed({"k": "real", "n": "real"}, {"outcome": "outcome"}),
)
