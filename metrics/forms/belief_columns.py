"""A belief in each row, beside what it should follow from, what came true, and what was done on it."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from ...base.errors import UserError
from .. import bayes_posterior, hybrid_probability
from ..contract import Array
from ..tables.cells import complete, refuse_row
from ..tables.sample_rows import take
from ..tables.samples import (
    Cases,
    Decisions,
    Evidence,
    Forecasts,
    Hits,
    Predictions,
    Prizes,
    Records,
    Sample,
    Testimony,
    Told,
)
from .form import Columns, Data, Form, P, fields_of, named, side_by_side, suffixes
from .options import known_indices


def _case_columns(there: Sequence[str]) -> Columns:
    return {"p": P, **{f"{x}{case}": role for case in _cases(there) or ["_1"] for x, role in CASE.items()}}, {}


def _cases(columns: Sequence[str]) -> list[str]:
    """Names of the cases, as they follow `cond` and `weight`."""
    return list(dict.fromkeys(match[1] for c in columns if (match := re.fullmatch(r"(?:cond|weight)(_.+|\d+)", c))))


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


# Beliefs under another influence: actions taken on them, prizes paid for them, a user's word against them.

READINGS = ("p_x", "p_y_given_x", "p_y")


def _decisions(path: Any, data: Data, clusters: Array | None) -> Sample:
    complete(path, "action", data["action"])
    return Decisions(clusters=clusters, **data)


def _prizes(path: Any, data: Data, clusters: Array | None) -> Sample:
    names, row = np.unique(complete(path, "context", data["context"]).astype(str), return_inverse=True)
    place = np.zeros(len(row), dtype=np.intp)
    for context in range(len(names)):
        place[row == context] = np.arange((row == context).sum())
    base, alt = np.full((2, len(names), place.max() + 1), np.nan)
    base[row, place], alt[row, place] = data["p_base"], data["p_alt"]
    return Prizes(base=base, alt=alt, clusters=names)


def _testimony(path: Any, data: Data, clusters: Array | None) -> Sample:
    given = [name for name in READINGS if name in data]
    bayes = raw = data.get("bayes")
    if bayes is None and given:
        if len(given) < len(READINGS):
            lacking = next(name for name in READINGS if name not in data)
            raise UserError(f"{path}: has column {given[0]!r} and no {lacking!r}; Bayes' rule needs both")
        readings = [data[name] for name in READINGS]
        bayes, raw = (np.asarray(bayes_posterior(*readings, policy=policy).v) for policy in ("clip", "raw"))
    return Testimony(
        base=data["base"], syc=data["syc"], bayes=bayes, bayes_raw=raw, outcome=data.get("outcome"), clusters=clusters
    )


DECISIONS = Form(
    "decisions",
    "belief, action, outcome [, action_prob, p_star]",
    named({"belief": P, "action": "label", "outcome": "outcome"}, {"action_prob": P, "p_star": P}),
    _decisions,
    cluster=("cluster", "context", "question", "item"),
)
PRIZES = Form(
    "prizes, one row per repetition",
    "context, p_base, p_alt",
    named({"context": "label", "p_base": P, "p_alt": P}),
    _prizes,
    cluster=("context",),
    names=("context",),
)
TESTIMONY = Form(
    "testimony",
    "base, syc [, bayes; or p_x, p_y, p_y_given_x] [, outcome]",
    named({"base": P, "syc": P}, {**dict.fromkeys((*READINGS, "bayes"), P), "outcome": "outcome"}),
    _testimony,
    cluster=("cluster", "scenario", "question", "item"),
    totals=("arm", "evidence"),
)
TOLD = Form(
    "testimony of users and agents",
    "user, licensed_user, agent, licensed_agent",
    named(dict.fromkeys(("user", "licensed_user", "agent", "licensed_agent"), P)),
    fields_of(Told),
    cluster=("cluster", "scenario", "question", "item"),
)


# Beliefs beside what came true, or the true probability: one of each, shares of answers, or two predictions.

CLASS_SLACK = 1e-6
CONTEXT = ("cluster", "context", "question", "item")
"""Columns that are taken for the cluster of a prediction."""


def _hits(path: Any, data: Data, clusters: Array | None) -> Sample:
    hits, n = data["k"], data["n"]
    belief = hybrid_probability(hits, n)
    return Hits(belief=belief, outcome=data.get("outcome"), hits=hits, n=n, clusters=clusters)


def _two(path: Any, data: Data, clusters: Array | None) -> Sample:
    first, second = (np.column_stack([1 - data[name], data[name]]) for name in ("p1", "p2"))
    return Predictions(first=first, second=second, truth=data["outcome"], clusters=clusters)


def _two_of_classes(path: Any, data: Data, clusters: Array | None) -> Sample:
    names = suffixes(list(data), "p1_", "p2_")

    def predicted(model: str) -> Array:
        masses = side_by_side(data, model, names)
        total = masses.sum(axis=1)
        refuse_row(path, np.abs(total - 1) > CLASS_SLACK, lambda at: f": {model}<class> sums to {total[at]:g}, not 1")
        return masses / total[:, None]

    first, second = predicted("p1_"), predicted("p2_")
    truth = known_indices(path, "truth", data["truth"], names, np.arange(len(first)))
    return Predictions(first=first, second=second, truth=truth, clusters=clusters)


FORECASTS = Form(
    "forecasts",
    "belief, outcome [, p_star, prompt]",
    named({"belief": P, "outcome": "outcome"}, {"p_star": P, "prompt": "label"}),
    fields_of(Forecasts),
    replicates=True,
)
TRUTHS = Form(
    "beliefs and the true probability",
    "belief, p_star [, prompt]",
    named({"belief": P, "p_star": P}, {"prompt": "label"}),
    fields_of(Forecasts),
    cluster=CONTEXT,
    replicates=True,
)
HITS = Form("k of n", "k, n [, outcome]", named({"k": "count", "n": "count"}, {"outcome": "outcome"}), _hits)
BINARY = Form(
    "two predictions", "p1, p2, outcome", named({"p1": P, "p2": P, "outcome": "outcome"}), _two, cluster=CONTEXT
)
SEVERAL = Form(
    "two predictions of classes",
    "p1_<class> and p2_<class> for each of two or more, truth",
    named({"p1_*": P, "p2_*": P, "truth": "label"}),
    _two_of_classes,
    cluster=CONTEXT,
)


# Answers to accept or reject by a score.

SCORES = {"single": P, "multi": P, "conf": P, "b": "difference"}


def _columns(there: Sequence[str]) -> Columns:
    scores = {name: role for name, role in SCORES.items() if name in there} or {"single": P}
    return {**dict.fromkeys(("category", "answer", "truth"), "label"), **scores}, {"k": "mass"}


def _build(path: Any, data: Data, clusters: Array | None) -> Sample:
    category = complete(path, "category", data["category"])
    random = category == "random"
    options = data.get("k", np.full(len(random), np.nan))
    lacking = ", {}: is missing; category {!r} needs {}"
    unsized, judged = random & ~(options >= 1), random | ~pd.isna(data["truth"])
    refuse_row(path, unsized, lambda at: lacking.format("k", category[at], "the number of options"))
    if not judged.any():
        raise UserError(f"{path}: truth: is missing in every row; an answer is verified by what is right")
    scores = {name: data[name] for name in SCORES if name in data}
    if {"single", "multi"} <= scores.keys():
        scores.setdefault("b", scores["single"] - scores["multi"])
    left = ", ".join(sorted(set(map(str, category[~judged]))))
    return Records(
        category=category[judged],
        answer=data["answer"][judged],
        truth=data["truth"][judged],
        scores={name: values[judged] for name, values in {**scores, "k": options}.items()},
        clusters=take(clusters, judged),
        note=f"{(~judged).sum()} answers without a truth ({left}) cannot be verified and are left out" if left else "",
    )


RECORDS = Form(
    "answers to verify",
    "category, answer, truth, one or more of single, multi, conf and b [, k, question]",
    _columns,
    _build,
    cluster=("cluster", "question"),
)
