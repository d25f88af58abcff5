"""The belief table: one row per read-out and option, for every kind of belief.

Experiments produce it, metrics consume it, and beliefs from anywhere can be brought in the same form.
"""

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .contract import RANGE_SLACK

KINDS = ("exact", "lens", "probe", "verbal", "judge", "acted")
INNER_KINDS = ("lens", "probe")
"""The kinds that are read from inner layers. All others are what the model says, or what is said of it."""
STATUSES = ("ok", "low_coverage", "unparsed", "refused", "truncated", "ambiguous", "out_of_range", "unreadable", "nan")
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
    "estimate": "str",
    "judge": "str",
    "layer": "Int32",
    "scenario": "str",
    "step": "int32",
    "option": "str",
    "option_index": "int32",
    "logp": "float64",
    "prob": "float64",
    "stated": "float64",
    "coverage": "float64",
    "status": "str",
    "outcome": "float64",
    "competitor": "str",
    "competitor_logp": "float64",
    "forced_logp": "float64",
}
"""Column -> pandas dtype, of the columns that every table has. Every other column is a condition under which a row was
read: text, integer, float, truth value, or a list of these, missing where a row has none.

`of` is the `readout_id` from which a read-out is derived (at another temperature, of an inner layer, of sampled
answers), empty for one that was asked for; `method` is the read-out form as it is printed; `estimate` is how answers
became a number (`sampled`, `expected`, `greedy`, `numbers`), empty for an exact distribution over the options; `judge`
is who read it, if not the model; `logp` is natural and not normalised; `prob` is normalised over the options;
`stated` is what was said of one of several options, whatever they sum to; `coverage` is the options' total
probability; `competitor` is the likeliest next token that starts no option, with its log-probability (exact and lens
kinds, else empty); `forced_logp` is what the model gave to the turns that were prefilled."""
LATER = ("of", "estimate", "judge", "stated")
"""Columns that tables of earlier versions lack: empty there."""
BLANK: Mapping[str, Any] = {"str": "", "int32": 0, "Int32": pd.NA, "float64": np.nan}


def belief_table(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Build a checked table from rows; a column that a row leaves out is empty. What is no column of every table is a
    condition; a mapping is a condition for each of its keys, `<name>.<key>`.

    >>> read = {"readout_id": "q1", "kind": "exact", "status": "ok", "wording": 2}
    >>> options = [{"option": "yes", "option_index": 0, "prob": 0.7}, {"option": "no", "option_index": 1, "prob": 0.3}]
    >>> belief_table(read | option for option in options)[["prob", "wording"]].to_numpy().tolist()
    [[0.7, 2], [0.3, 2]]
    """
    rows = [_flat(row) for row in rows]
    columns = {
        name: pd.Series([row.get(name, BLANK[dtype]) for row in rows], dtype=pd.api.types.pandas_dtype(dtype))
        for name, dtype in COLUMNS.items()
    }
    return check_belief_table(pd.concat([pd.DataFrame(columns), _conditions(rows)], axis=1))


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """Without mappings in it."""
    cells: dict[str, Any] = {}
    for name, value in row.items():
        cells |= {f"{name}.{key}": cell for key, cell in value.items()} if isinstance(value, Mapping) else {name: value}
    return cells


def _conditions(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """The conditions of rows, each in a column of its type; what no row has is no column."""
    names = dict.fromkeys(name for row in rows for name in row if name not in COLUMNS)
    columns = {name: _typed([row.get(name) for row in rows]) for name in names}
    return pd.DataFrame(columns, index=range(len(rows))).dropna(axis="columns", how="all")


def _typed(values: Sequence[Any]) -> pd.Series:
    """A condition in the narrowest type that holds all values, text if none else does; lists are tuples."""
    values = [None if _missing(value) else value for value in values]
    known = [value for value in values if value is not None]
    for types, dtype in (
        ((bool, np.bool_), "boolean"),
        ((int, np.integer), "Int64"),
        ((int, float, np.number), "float64"),
    ):
        if all(isinstance(value, types) for value in known):
            missing = np.nan if dtype == "float64" else None
            return pd.Series([missing if value is None else value for value in values], dtype=dtype)
    if all(isinstance(value, list | tuple | np.ndarray) for value in known):
        return pd.Series([None if value is None else as_tuple(value) for value in values], dtype=object)
    return pd.Series([None if value is None else str(value) for value in values], dtype="str")


def _missing(value: object) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value))


def as_tuple(values: Any) -> Any:
    """A list, and the lists in it, as tuples, which can be compared and grouped by."""
    values = values.tolist() if isinstance(values, np.ndarray) else values
    return tuple(map(as_tuple, values)) if isinstance(values, list | tuple) else values


def check_belief_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return `table`, or raise ValueError saying which row breaks the contract and how. One of an earlier version is
    returned with the columns of this one.

    >>> check_belief_table(belief_table([]).drop(columns="prob"))
    Traceback (most recent call last):
        ...
    ValueError: belief table: column 'prob' is missing
    """
    table = of_any_version(table)
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


def by_method(table: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """(kind, method, rows) of each that a table holds, in its order."""
    for (kind, method), rows in table.groupby(["kind", "method"], sort=False):
        yield str(kind), str(method), rows


def read_exactly(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of exact beliefs that were asked for by themselves, none derived from another's read-out."""
    return table[(table["kind"] == "exact") & (table["of"].astype(str) == "")]


def labels(rows: pd.DataFrame, name: str = "cluster") -> Any:
    """[n] a column of names."""
    return rows[name].to_numpy()


def worst_status(statuses: Iterable[str]) -> str:
    """Of several readings, the status of the first without a number if there is one, else `low_coverage` if one is."""
    each = list(statuses)
    return next((status for status in each if status not in VALUED), max(each, key=len))


# The conditions of a table: its columns besides those of every table.


def condition_columns(table: pd.DataFrame) -> list[str]:
    """The names of the columns that hold conditions."""
    return [str(name) for name in table.columns if name not in COLUMNS]


def distinct_conditions(
    table: pd.DataFrame, without: Collection[str] = (), beside: Collection[str] = ()
) -> tuple[NDArray[Any], list[dict[str, Any]]]:
    """[n] the number of each row's conditions, and these by number: those that it has, by column.

    Args:
        table: a belief table.
        without: columns that are left out of account.
        beside: columns of every table that are taken besides.
    """
    names = [*beside, *(name for name in condition_columns(table) if name not in without)]
    if not names or table.empty:
        return np.zeros(len(table), dtype=np.intp), [{}]
    codes = table.groupby(names, sort=False, dropna=False, observed=True).ngroup()
    each = table.loc[~codes.duplicated(), names].to_dict("records")
    return codes.to_numpy(), [
        {str(name): value for name, value in row.items() if isinstance(value, tuple) or not pd.isna(value)}
        for row in each
    ]


def conditions(table: pd.DataFrame, names: Collection[str]) -> dict[str, Any]:
    """Name -> [n] conditions in numpy's types: texts are objects, NaN where a row has none, or the table no column."""
    columns: dict[str, Any] = {}
    for name in names:
        values = table[name] if name in table else pd.Series(np.nan, table.index)
        if isinstance(values.dtype, pd.Int64Dtype):
            values = values.astype(np.float64 if values.hasnans else np.int64)
        elif isinstance(values.dtype, pd.BooleanDtype) and not values.hasnans:
            values = values.astype(bool)
        elif values.dtype != np.float64:
            values = values.astype(object).where(values.notna(), np.nan)
        columns[name] = values
    return columns


def condition_keys(table: pd.DataFrame, without: Collection[str] = ()) -> NDArray[Any]:
    """[n] texts that are equal where all conditions, but for some columns, are."""
    codes, each = distinct_conditions(table, without)
    texts = [", ".join(f"{name} {value}" for name, value in sorted(context.items())) for context in each]
    return np.array(texts, dtype=object)[codes]


# Tables of earlier versions, which held the conditions as JSON in one column, and estimates in the names of methods.

VARIANT = "variant"
ESTIMATES = ("sampled", "expected", "greedy", "numbers")
RENAMED = {"of": "of_method"}


def of_any_version(table: pd.DataFrame) -> pd.DataFrame:
    """The table with a real column for each condition. Raises ValueError for a `variant` that is no JSON."""
    for name in LATER:
        table = table if name in table.columns else table.assign(**{name: BLANK[COLUMNS[name]]})
    if VARIANT not in table.columns:
        return table
    codes, texts = pd.factorize(table[VARIANT].astype(object), use_na_sentinel=False)
    entries = _conditions([_entries(text) for text in texts])
    texts_of: dict[str, Any] = {
        str(name): entries[name].astype("category") for name in entries.select_dtypes("str").columns
    }
    conditions = entries.assign(**texts_of).take(codes).set_index(table.index)
    method, kind = table["method"].astype(str), table["kind"].astype(str)
    suffix = method.str.rpartition(" ")[2].where(kind.eq("verbal") & method.str.contains(" "), "")
    who = method.str.partition(" ")[2].where(kind.eq("judge") & method.str.match("judge |rater "), "")
    table = table.drop(columns=VARIANT).assign(estimate=suffix.where(suffix.isin(ESTIMATES), ""), judge=who)
    return pd.concat([table, conditions.drop(columns=[name for name in conditions if name in table])], axis=1)


def _entries(text: object) -> dict[str, Any]:
    """What a `variant` says, if it is a mapping."""
    try:
        entries: Any = json.loads(text) if isinstance(text, str) and text else {}
    except (ValueError, RecursionError):
        raise ValueError(f"variant {text!r} is not JSON") from None
    if not isinstance(entries, dict):
        return {}
    if "named" in entries:
        entries["named"] = ", ".join(map(str, entries["named"]))
    return _flat({str(RENAMED.get(name, name)): value for name, value in entries.items()})
