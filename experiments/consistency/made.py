"""What numbers and pages are made of: small tables of the beliefs of some items, which nothing but these enters."""

from typing import Any

import pandas as pd
from pandas import CategoricalDtype

from ..tables.belief_parts import BeliefParts, BeliefTable, Made, in_parts
from .dialogue import FORK, PRIOR
from .dialogue import SECOND as TWICE
from .forks import fork_table
from .instances import WORDS, at_one, conditions, instances_of
from .second import second_table

INSTANCES, READOUTS, PRIORS, FORKS, SECOND = "instances", "readouts", "priors", "forks", "second"
SHARES = tuple(f"share_{place + 1}" for place in range(3))
"""Columns with the shares of the three words by their places."""
TEXTS = ("item", "cluster", "kind", "method", "estimate", "template", "place", "order", "why", "scenario", *WORDS)
"""Columns of which many rows have the same text."""


def made_of(beliefs: BeliefTable) -> Made:
    """The tables of a run, or of any belief table."""
    return in_parts(beliefs).once(_made)


def _made(beliefs: BeliefParts) -> Made:
    return beliefs.made(tables)


def tables(beliefs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """By name: the instances at every temperature; and at temperature 1 all read-outs, priors by the place of the word,
    forks, and second rejections, if there are any.
    """
    told = at_one(beliefs)
    found = {INSTANCES: instances_of(beliefs), READOUTS: _readouts(told), PRIORS: _priors(told)}
    if (told["scenario"] == FORK).any():
        found[FORKS] = fork_table(told)
    if (told["scenario"] == TWICE).any():
        found[SECOND] = second_table(told)
    return {name: _stored(table) for name, table in found.items()}


def _readouts(beliefs: pd.DataFrame) -> pd.DataFrame:
    """A row per read-out of words."""
    rows = conditions(beliefs[beliefs["scenario"] != FORK], "method", "scenario", "cluster", "coverage")
    thoughts = {name: rows[name].astype(float) for name in ("unclosed", "thoughts")}
    return rows[["method", "scenario", "cluster", "coverage"]].assign(**thoughts)


def _priors(beliefs: pd.DataFrame) -> pd.DataFrame:
    own = beliefs[beliefs["scenario"] == PRIOR]
    shares = own.pivot(index="readout_id", columns="option_index", values="prob")
    rows = own.loc[~own["readout_id"].duplicated(), ["readout_id", "method", "cluster"]]
    by_place = shares.loc[rows["readout_id"]]
    return rows[["method", "cluster"]].assign(**{name: by_place[place].to_numpy() for place, name in enumerate(SHARES)})


def _stored(table: pd.DataFrame) -> pd.DataFrame:
    """With categories in the order in which texts come, which does not depend on the parts, and names of read-outs as
    texts, since each has its own.
    """
    columns: dict[str, Any] = {}
    for name, values in table.items():
        category = isinstance(values.dtype, CategoricalDtype)
        if name in TEXTS and not category:
            columns[str(name)] = pd.Categorical(values, categories=values.dropna().unique())
        elif category and name not in TEXTS:
            columns[str(name)] = values.astype(str)
    return table.assign(**columns)
