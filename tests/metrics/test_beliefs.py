"""The belief table: what it fills in, and what it refuses."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from doxascope.metrics import COLUMNS, belief_table, check_belief_table
from doxascope.metrics.beliefs import condition_columns, condition_keys, conditions, distinct_conditions
from doxascope.metrics.tables.belief_parts import as_beliefs, read_part

ESTIMATED = ("estimate", "judge")

ROW: dict[str, Any] = {"readout_id": "r", "item": "i", "kind": "exact", "option": "yes", "prob": 0.4, "status": "ok"}


def test_columns_that_rows_leave_out_are_empty_and_typed() -> None:
    table = belief_table([ROW, ROW | {"option": "no", "option_index": 1, "prob": 0.6}])
    assert list(table.columns) == list(COLUMNS)
    assert table["prob"].tolist() == [0.4, 0.6]
    assert table["layer"].isna().all()
    assert (table[["estimate", "judge"]] == "").all(axis=None)
    assert np.isnan(table[["logp", "coverage", "outcome"]]).all(axis=None)
    assert belief_table([]).empty


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "guess"}, "row 0, kind 'guess'; allowed"),
        ({"status": "fine"}, "row 0, status 'fine'; allowed"),
        ({"prob": 1.1}, r"row 0, prob .*1\.1.*; allowed: \[0, 1\] or NaN"),
        ({"status": "refused"}, "a failed read-out carries no number"),
    ],
)
def test_a_row_that_breaks_the_contract_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        belief_table([ROW | change])


def test_a_failed_read_out_has_its_row_and_no_number() -> None:
    table = belief_table([ROW | {"prob": np.nan, "status": "refused"}])
    assert check_belief_table(table) is table
    assert table["prob"].isna().all()


def test_a_table_of_before_the_column_of_gets_an_empty_one() -> None:
    table = check_belief_table(belief_table([ROW]).drop(columns="of"))
    assert set(table["of"]) == {""}


def test_a_read_out_has_one_row_per_option_and_every_column() -> None:
    table = belief_table([ROW])
    with pytest.raises(ValueError, match="row 1, readout_id 'r'; allowed: one row per read-out and option"):
        check_belief_table(pd.concat([table, table], ignore_index=True))
    with pytest.raises(ValueError, match="column 'prob' is missing"):
        check_belief_table(table.drop(columns="prob"))


def test_conditions_have_columns_of_their_types() -> None:
    told: list[dict[str, Any]] = [
        {"turn": 1, "truth": 0.5, "denied": True, "topic": "a", "order": [2, 0], "more": {"author": "x"}, "odd": 1},
        {"turn": None, "truth": 1, "denied": None, "order": (), "more": {"author": None}, "odd": "one"},
    ]
    table = belief_table(ROW | {"readout_id": str(i), "prob": 1.0, "never": None} | row for i, row in enumerate(told))
    assert condition_columns(table) == ["turn", "truth", "denied", "topic", "order", "more.author", "odd"]
    kinds = ["Int64", "float64", "boolean", "str", "object", "str", "str"]
    assert [str(table[name].dtype) for name in condition_columns(table)] == kinds
    assert table["order"].tolist() == [(2, 0), ()]
    assert table["odd"].tolist() == ["1", "one"]
    codes, each = distinct_conditions(table, without=("odd", "order"))
    assert codes.tolist() == [0, 1]
    assert each == [{"turn": 1, "truth": 0.5, "denied": True, "topic": "a", "more.author": "x"}, {"truth": 1.0}]
    assert len({*condition_keys(table)}) == 2
    assert len({*condition_keys(table, condition_columns(table))}) == 1
    plain = pd.DataFrame(conditions(table, ["turn", "denied", "absent"]))
    assert plain["turn"].tolist()[0] == 1.0
    assert plain.isna().to_numpy().tolist() == [[False, False, True], [True, True, True]]


def test_a_table_of_an_earlier_version_has_the_same_columns() -> None:
    old = belief_table([ROW | {"readout_id": name, "prob": 1.0} for name in "abcd"]).drop(columns=["of", *ESTIMATED])
    old = old.assign(
        kind=["exact", "verbal", "judge", "exact"],
        method=["free", "unit sampled", "judge big sampled", "free sampled"],
        variant=[
            '{"named": [0, 1], "rejected": 2, "hidden": null}',
            '{"draws": 4, "of": "free"}',
            "",
            '{"more": {"k": 1}}',
        ],
    )
    table = check_belief_table(old)
    assert condition_columns(table) == ["named", "rejected", "draws", "of_method", "more.k"]
    assert table["estimate"].tolist() == ["", "sampled", "", ""]
    assert table["judge"].tolist() == ["", "", "big sampled", ""]
    assert table["of"].tolist() == [""] * 4
    assert table["named"].tolist()[0] == "0, 1"
    assert table["rejected"].tolist()[0] == 2
    with pytest.raises(ValueError, match=r"variant '.' is not JSON"):
        check_belief_table(old.assign(variant="{"))


def test_parts_of_both_versions_are_one_table(tmp_path: Path) -> None:
    new = belief_table([ROW | {"readout_id": "a", "prob": 1.0, "rejected": 1, "names": ["x"], "said": 3}])
    later = belief_table([ROW | {"readout_id": "b", "prob": 1.0, "names": [], "said": "three"}])
    old = new.drop(columns=[*ESTIMATED, *condition_columns(new)]).assign(readout_id="c", variant='{"rejected": 0}')
    parts = []
    for name, part in (("new", new), ("later", later), ("old", old)):
        part.to_parquet(tmp_path / name)
        parts.append(read_part((tmp_path / name).read_bytes()))
    table = as_beliefs(parts)
    assert table["readout_id"].tolist() == ["a", "b", "c"]
    assert table["rejected"].isna().tolist() == [False, True, False]
    assert [*table["rejected"].dropna()] == [1, 0]
    assert as_beliefs(parts[:2])["names"].tolist() == [("x",), ()]
    assert as_beliefs(parts[:2])["said"].tolist() == ["3", "three"]


def test_texts_of_conditions_are_objects_and_numbers_stay_numbers() -> None:
    table = pd.DataFrame({"word": pd.Series(["x", None], dtype="string"), "number": [1.0, 2.0]})
    found = conditions(table, ["word", "number", "other"])
    assert [values.dtype for values in found.values()] == [object, float, float]
    assert found["word"][0] == "x"
    assert [found["word"].isna().tolist(), found["other"].isna().tolist()] == [[False, True], [True, True]]
