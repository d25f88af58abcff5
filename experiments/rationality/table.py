"""From the belief table to what is believed and done in each context."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...metrics.validation import Floats
from .asking import AUXILIARY, BELIEF, CASE, LINE_1, LINE_2, MENU
from .config import STANDARD, RationalityConfig

DETAILS = ("prompt", "truth", "case", "reading", "line", "menu", "evidence", "sd", "excess", "covariate", "shares")
YES, NO = 0, 1
"""Of the options of the table."""


@dataclass(frozen=True)
class Actions:
    """Exact choices, a row for each context in the order of `items`."""

    items: np.ndarray
    """[n] names."""
    truth: Floats
    """[n] the true chance."""
    outcome: Floats
    """[n] what came true."""
    forced: Floats
    """[n] P(yes) if a decision must be made."""
    tree: Floats
    """[n, 3] P(no), P(defer), P(yes)."""
    two: Floats
    """[n, 2] P(yes), P(no) from the menu of both."""
    three: Floats
    """[n, 3] P(yes), P(no), P(defer) from that of three."""
    coverage: Mapping[str, Floats]
    """Form of decision -> [n] probability that the answer is one of its options."""
    evidence: Sequence[Mapping[str, str]]
    """[n] what was revealed."""


@dataclass(frozen=True)
class MethodBeliefs:
    """What one method reads, a row for each context."""

    kind: str
    method: str
    readings: Mapping[str, Floats]
    """Prompt -> [n, readings]."""
    coverage: Floats
    """[n] under the standard prompt."""
    status: np.ndarray
    """[n] under the standard prompt, that of a reading without a number if there is one."""
    cases: Floats
    """[n, m] belief given each state of the further covariate; m of the most states, NaN where there are fewer."""
    spread: Floats
    """[n] SD of an exact number distribution."""
    excess: Floats
    """[n] by how much the numbers of several lines add up to more than 1."""

    @property
    def belief(self) -> Floats:
        """[n] under the standard prompt."""
        return mean_of(self.readings[STANDARD])


def mean_of(readings: Floats) -> Floats:
    """[n] the mean of the readings [n, r] that have a number; NaN where none has."""
    known = np.isfinite(readings)
    total = np.where(known, readings, 0.0).sum(axis=1)
    return np.where(known.any(axis=1), total / np.maximum(known.sum(axis=1), 1), np.nan)


def detailed(beliefs: pd.DataFrame) -> pd.DataFrame:
    """The rows with what their variants say, each a column."""
    table = beliefs.reset_index(drop=True)
    for name in ("kind", "method", "item", "scenario", "status"):
        table[name] = table[name].astype(str)
    texts = table["variant"].astype(str)
    known = {text: json.loads(text) for text in texts.unique()}
    details = pd.DataFrame([known[text] for text in texts]).reindex(columns=list(DETAILS))
    return pd.concat([table, details], axis=1)


def actions(config: RationalityConfig, table: pd.DataFrame) -> Actions:
    """The exact choices.

    P(defer) is P(no) on the first line; a decision after it is given anyway, and the forced choice mixes both branches.
    """
    lines = table[table["scenario"].isin((LINE_1, LINE_2))]
    first = lines[(lines["scenario"] == LINE_1) & (lines["option_index"] == YES)]
    known = first[first["evidence"].notna()].drop_duplicates("item").set_index("item")
    items = known.index.to_numpy()
    able = _wide(first, items)
    after = {
        answer: _wide(lines[(lines["line"] == f"{LINE_2}, {answer}") & (lines["option_index"] == YES)], items)
        for answer in config.answers
    }
    yes, no = (after[answer] for answer in config.answers)
    tree = np.stack([able * (1 - yes), 1 - able, able * yes], axis=2)
    forced = able * yes + (1 - able) * no
    coverage = {"lines": _covered(lines, items)}
    menus = {}
    for size in (2, 3):
        rows = table[(table["scenario"] == MENU) & (table["menu"] == size)]
        by_option = [_wide(rows[rows["option_index"] == i], items) for i in range(size)]
        menus[size] = np.stack(by_option, axis=2).mean(axis=1)
        coverage[f"menu of {size}"] = _covered(rows, items)
    return Actions(
        items=items,
        truth=known["truth"].to_numpy(dtype=np.float64),
        outcome=known["outcome"].to_numpy(dtype=np.float64),
        forced=forced.mean(axis=1),
        tree=tree.mean(axis=1),
        two=menus[2],
        three=menus[3],
        coverage=coverage,
        evidence=known["evidence"].tolist(),
    )


def methods(table: pd.DataFrame, items: np.ndarray) -> Iterator[MethodBeliefs]:
    """Every method that reads a belief in the target, in the order of the table."""
    own = table[table["scenario"].isin((BELIEF, CASE)) & (table["option_index"] == YES)]
    for (kind, method), rows in own.groupby(["kind", "method"], sort=False):
        told = rows[rows["scenario"] == BELIEF]
        plain = told[told["prompt"] == STANDARD]
        cases = rows[rows["scenario"] == CASE]
        numbers = sorted(cases["case"].dropna().unique())
        yield MethodBeliefs(
            kind=str(kind),
            method=str(method),
            readings={str(prompt): _wide(some, items) for prompt, some in told.groupby("prompt", sort=False)},
            coverage=mean_of(_wide(plain, items, "coverage")),
            status=plain.groupby("item", sort=False)["status"].agg(_worst).reindex(items).to_numpy(),
            cases=np.column_stack([mean_of(_wide(cases[cases["case"] == i], items)) for i in numbers])
            if numbers
            else np.full((len(items), 0), np.nan),
            spread=_of_item(plain, items, "sd"),
            excess=_of_item(plain, items, "excess"),
        )


def weights(table: pd.DataFrame, items: np.ndarray) -> dict[str, Floats]:
    """Kind -> [n, m] what the model gives to each state of the further covariate, 0 for states that it has not."""
    found = {}
    for kind, rows in table[table["scenario"] == AUXILIARY].groupby("kind", sort=False):
        per = [_wide(rows[rows["option_index"] == i], items) for i in sorted(rows["option_index"].unique())]
        some = np.column_stack([mean_of(one) for one in per])
        found[str(kind)] = np.where(np.isnan(some) & np.isfinite(some).any(axis=1, keepdims=True), 0.0, some)
    return found


def _wide(rows: pd.DataFrame, items: np.ndarray, value: str = "prob") -> Floats:
    """[n, readings] of a column; what is not read several times is one reading."""
    if rows.empty:
        return np.full((len(items), 1), np.nan)
    place = rows["reading"].astype(float).fillna(0.0)
    wide = rows.assign(place=place).pivot(index="item", columns="place", values=value)
    return wide.sort_index(axis=1).reindex(items).to_numpy(dtype=np.float64)


def _covered(rows: pd.DataFrame, items: np.ndarray) -> Floats:
    """[n] mean over the read-outs of a context."""
    readouts = rows.drop_duplicates("readout_id")
    return readouts.groupby("item", sort=False)["coverage"].mean().reindex(items).to_numpy(dtype=np.float64)


def _of_item(rows: pd.DataFrame, items: np.ndarray, name: str) -> Floats:
    values = rows.assign(value=pd.to_numeric(rows[name], errors="coerce"))
    return values.groupby("item", sort=False)["value"].mean().reindex(items).to_numpy(dtype=np.float64)


def _worst(statuses: "pd.Series[Any]") -> str:
    """That of a reading without a number, if there is one."""
    return next((one for one in statuses if one not in ("ok", "low_coverage")), max(statuses, key=len))
