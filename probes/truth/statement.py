"""A statement that is true or false, and what it shares with others."""

from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from ...hooks.errors import UserError


@dataclass(frozen=True)
class Statement:
    """One of a truth set."""

    text: str
    true: bool
    group: str
    """Statements that share content share it: a fact, its negation, its falsified version."""
    domain: str
    negated: bool = False
    template: str = ""
    pair: str = ""
    """What a statement and its negation share; empty: it has none."""


def statement_rows(statements: Iterable[Statement]) -> pd.DataFrame:
    """Rows of a probe data set: readout_id, group, text, role and the conditions, with the column `truth`.

    Raises UserError for no statement, one without text, or one text that is both true and false.
    """
    every = list(statements)
    if not every:
        raise UserError("truth set: holds no statement")
    seen: dict[str, bool] = {}
    for one in every:
        if not one.text.strip():
            raise UserError("truth set: a statement has no text")
        if seen.setdefault(one.text, one.true) != one.true:
            raise UserError(f"truth set: {one.text!r} is labelled true and false; correct one label")
    table = pd.DataFrame([vars(one) for one in every]).drop_duplicates("text").reset_index(drop=True)
    kind = table["negated"].map({False: "affirmed", True: "negated"})
    named = [f"{domain}-{i:05d}" for i, domain in enumerate(table["domain"])]
    return table.assign(
        readout_id=named, truth=table["true"].astype(float), role=table["template"] + "/" + kind, polarity=kind
    ).drop(columns="true")
