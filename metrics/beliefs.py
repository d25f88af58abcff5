"""The belief table: one row per read-out and option, for every kind of belief.

Experiments produce it, metrics consume it, and beliefs from anywhere can be brought in the same form.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from .validation import RANGE_SLACK

KINDS = ("exact", "lens", "probe", "verbal", "judge")
INNER_KINDS = ("lens", "probe")
"""The kinds that are read from inner layers. All others are what the model says, or what is said of it."""
STATUSES = (
    "ok",
    "low_coverage",
    "unparsed",
    "refused",
    "truncated",
    "ambiguous",
    "out_of_range",
    "unreadable",
    "nan",
)
VALUED = ("ok", "low_coverage")
"""The statuses under which a row carries a number. Under every other one `prob` is NaN."""
SUM_SLACK = 1e-6
"""How far the probabilities of a read-out may be from summing to one."""

COLUMNS: Mapping[str, str] = {
    "readout_id": "str",
    "of": "str",
    "experiment": "str",
    "item": "str",
    "cluster": "str",
    "kind": "str",
    "method": "str",
    "layer": "Int32",
    "scenario": "str",
    "step": "int32",
    "variant": "str",
    "option": "str",
    "option_index": "int32",
    "logp": "float64",
    "prob": "float64",
    "coverage": "float64",
    "status": "str",
    "outcome": "float64",
    "competitor": "str",
    "competitor_logp": "float64",
    "forced_logp": "float64",
}
"""Column -> pandas dtype. `of` is the `readout_id` from which a read-out is derived (at another temperature, of an
inner layer, of sampled answers), empty for one that was asked for; `logp` is natural and not normalised; `prob` is
normalised over the options; `coverage` is the options' total probability; `variant` is JSON; `competitor` is the
likeliest next token that starts no option, with its log-probability (exact and lens kinds, else empty); `forced_logp`
is what the model gave to the turns that were prefilled."""


def belief_table(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Build a checked table from rows; a column that a row leaves out is empty.

    >>> read = {"readout_id": "q1", "kind": "exact", "status": "ok"}
    >>> options = [{"option": "yes", "option_index": 0, "prob": 0.7}, {"option": "no", "option_index": 1, "prob": 0.3}]
    >>> belief_table(read | option for option in options)["prob"].tolist()
    [0.7, 0.3]
    """
    blank: Mapping[str, Any] = {"str": "", "int32": 0, "Int32": pd.NA, "float64": np.nan}
    rows = list(rows)
    if unknown := {name for row in rows for name in row} - COLUMNS.keys():
        raise ValueError(f"belief table: no column {min(unknown)!r}")
    columns = {
        name: pd.Series([row.get(name, blank[dtype]) for row in rows], dtype=pd.api.types.pandas_dtype(dtype))
        for name, dtype in COLUMNS.items()
    }
    return check_belief_table(pd.DataFrame(columns))


def check_belief_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return `table`, or raise ValueError saying which row breaks the contract and how. One without `of`, as earlier
    versions wrote it, is returned with that column, empty.

    >>> check_belief_table(belief_table([]).drop(columns="prob"))
    Traceback (most recent call last):
        ...
    ValueError: belief table: column 'prob' is missing
    """
    table = table if "of" in table.columns else table.assign(of="")
    absent = [name for name in COLUMNS if name not in table.columns]
    if absent:
        raise ValueError(f"belief table: column {absent[0]!r} is missing")
    _refuse(table, ~table["kind"].isin(KINDS), "kind", KINDS)
    _refuse(table, ~table["status"].isin(STATUSES), "status", STATUSES)
    prob = table["prob"].to_numpy(dtype=np.float64)
    _refuse(table, (prob < -RANGE_SLACK) | (prob > 1 + RANGE_SLACK), "prob", "[0, 1] or NaN")
    failed = ~table["status"].isin(VALUED).to_numpy(dtype=bool)
    _refuse(table, failed & np.isfinite(prob), "prob", "NaN: a failed read-out carries no number")
    _refuse(table, ~failed & ~np.isfinite(prob), "prob", "a number: by its status the read-out has one")
    coverage, logp = (table[name].to_numpy(dtype=np.float64) for name in ("coverage", "logp"))
    _refuse(table, (coverage < 0) | (coverage > 1 + SUM_SLACK), "coverage", "[0, 1] or NaN")
    _refuse(table, logp > SUM_SLACK, "logp", "at most 0, or NaN")
    _refuse(table, np.isinf(table["outcome"].to_numpy(dtype=np.float64)), "outcome", "a finite number or NaN")
    twice = table.duplicated(["readout_id", "option_index"])
    _refuse(table, twice, "readout_id", "one row per read-out and option")
    _refuse_other_sums(table, prob)
    return table


def _refuse_other_sums(table: pd.DataFrame, prob: Any) -> None:
    """Raise ValueError for a read-out of several options whose probabilities do not sum to 1."""
    readout, names = pd.factorize(table["readout_id"])
    total, options = np.bincount(readout, prob), np.bincount(readout)
    off = (options > 1) & (np.abs(total - 1) > SUM_SLACK)
    if off.any():
        at = int(np.argmax(off))
        raise ValueError(f"belief table: readout_id {str(names[at])!r}: prob sums to {total[at]:g}, not 1")


def _refuse(table: pd.DataFrame, wrong: Any, column: str, allowed: object) -> None:
    wrong = np.asarray(wrong, dtype=bool)
    if wrong.any():
        row = int(np.argmax(wrong))
        value = table[column].iloc[row]
        raise ValueError(f"belief table: row {row}, {column} {value!r}; allowed: {allowed}")
