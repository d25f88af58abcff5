"""What a table and features of a user may say of the rows of a run, and what they may not."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from doxascope import UserError
from doxascope.probes.dataset import OF_THE_RUN, ProbeData, join_targets, make_target
from doxascope.probes.features import ArrayFeatures, ReadAt

ROWS = pd.DataFrame(
    {"readout_id": list("abcd"), "cluster": ["x", "x", "y", "z"], "group": ["x", "x", "y", "z"], "store": 0}
)


def table(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"readout_id": list("abcd"), "target": list("0101"), **columns})


def test_groups_may_join_clusters_and_not_split_them() -> None:
    joined = join_targets(ROWS, table(group=["1", "1", "1", "2"]), "mine.csv")
    assert joined["group"].tolist() == ["1", "1", "1", "2"]
    assert joined["cluster"].tolist() == ["x", "x", "y", "z"]
    with pytest.raises(UserError, match=r"mine\.csv: cluster 'x' of the run lies in the groups '1' and '2'"):
        join_targets(ROWS, table(group=["1", "2", "3", "4"]), "mine.csv")
    with pytest.raises(UserError, match=r"mine\.csv: 'c' has no group; give each row one"):
        join_targets(ROWS, table(group=["1", "1", "", "2"]), "mine.csv")


@pytest.mark.parametrize("name", OF_THE_RUN)
def test_what_a_run_alone_can_tell_is_not_told_by_a_table(name: str) -> None:
    with pytest.raises(UserError, match=f"column '{name}' is the run's own"):
        join_targets(ROWS, table(**{name: list("0123")}), "mine.csv")


@pytest.mark.parametrize("shape", [(3, 2), (4,), (4, 2, 1)])
def test_features_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    at = ReadAt("resid_post", 0, "statement")
    data = ProbeData(ROWS, make_target("truth", [0, 1, 0, 1]), ArrayFeatures({at: np.zeros(shape)}), (at,))
    with pytest.raises(UserError, match=r"have shape .* give \[rows, d\], of 4 rows"):
        data.read(at)
