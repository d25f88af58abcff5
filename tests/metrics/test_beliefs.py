"""The belief table: what it fills in, and what it refuses."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from doxascope.metrics import COLUMNS, belief_table, check_belief_table

ROW: dict[str, Any] = {"readout_id": "r", "item": "i", "kind": "exact", "option": "yes", "prob": 0.4, "status": "ok"}


def test_columns_that_rows_leave_out_are_empty_and_typed() -> None:
    table = belief_table([ROW, ROW | {"option": "no", "option_index": 1, "prob": 0.6}])
    assert list(table.columns) == list(COLUMNS)
    assert table["prob"].tolist() == [0.4, 0.6]
    assert table["layer"].isna().all()
    assert (table["variant"] == "").all()
    assert np.isnan(table[["logp", "coverage", "outcome"]]).all(axis=None)
    assert belief_table([]).empty


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "guess"}, "row 0, kind 'guess'; allowed"),
        ({"status": "fine"}, "row 0, status 'fine'; allowed"),
        ({"prob": 1.1}, r"row 0, prob .*1\.1.*; allowed: \[0, 1\] or NaN"),
        ({"status": "refused"}, "a failed read-out carries no number"),
        ({"believed": 1}, "no column 'believed'"),
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
