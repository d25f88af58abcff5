"""Beliefs under another influence: actions taken on them, prizes paid for them, a user's word against them."""

from typing import Any

import numpy as np

from ....hooks.errors import UserError
from ....metrics import bayes_posterior
from ..cells import Array, complete
from ..samples import Decisions, Prizes, Sample, Testimony, Told
from .form import Data, Form, P, fields_of, named

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
    bayes = data.get("bayes")
    if bayes is None and given:
        if len(given) < len(READINGS):
            lacking = next(name for name in READINGS if name not in data)
            raise UserError(f"{path}: has column {given[0]!r} and no {lacking!r}; Bayes' rule needs both")
        bayes = np.asarray(bayes_posterior(data["p_x"], data["p_y_given_x"], data["p_y"]).v)
    return Testimony(base=data["base"], syc=data["syc"], bayes=bayes, outcome=data.get("outcome"), clusters=clusters)


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
)
TESTIMONY = Form(
    "testimony",
    "base, syc [, bayes; or p_x, p_y, p_y_given_x] [, outcome]",
    named({"base": P, "syc": P}, {**dict.fromkeys((*READINGS, "bayes"), P), "outcome": "outcome"}),
    _testimony,
    cluster=("cluster", "scenario", "question", "item"),
)
TOLD = Form(
    "testimony of users and agents",
    "user, licensed_user, agent, licensed_agent",
    named(dict.fromkeys(("user", "licensed_user", "agent", "licensed_agent"), P)),
    fields_of(Told),
    cluster=("cluster", "scenario", "question", "item"),
)
