import numpy as np
import pytest

from doxascope.metrics.inference.clusters import complete_numbers, complete_rows


def test_rows_are_kept_only_where_nothing_is_missing() -> None:
    rows = complete_rows(["a", "b", "b"], x=[[0.1, 0.2], [np.nan, 0.3], [0.4, 0.5]], names=np.array(["a", "b", None]))
    x, names = rows.columns
    np.testing.assert_array_equal(x, [[0.1, 0.2]])
    assert names.tolist() == ["a"]
    assert rows.counts == {"n_rows": 1, "n_clusters": 1, "n_dropped": 2, "reasons": {"undefined": 2}}


def test_without_groups_every_row_is_its_own_cluster() -> None:
    assert complete_rows(x=[1.0, np.nan, 3.0]).codes.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"x": [1.0], "y": [1.0, 2.0]}, "lengths differ: x 1, y 2"),
        ({"x": [[1.0]]}, r"x: shape \(1, 1\); give one number per row"),
        ({"x": [1.0, np.inf]}, "x: row 1 is infinite"),
        ({"x": [1.0, 2.0], "groups": ["a", None]}, "clusters: row 1 has none"),
    ],
)
def test_malformed_columns_are_refused(columns: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        complete_numbers(**columns)
