"""No group is in two folds."""

import numpy as np
import pytest

from doxascope import UserError
from doxascope.probes.groups import grouped_folds


def test_groups_stay_whole_and_folds_are_of_one_size() -> None:
    groups = np.repeat(np.arange(97), np.random.default_rng(0).integers(1, 9, 97))
    folds = grouped_folds(groups, 5, seed=3)
    assert all(len(set(folds[groups == g])) == 1 for g in range(97))
    sizes = np.bincount(folds)
    assert sizes.max() - sizes.min() <= 8
    np.testing.assert_array_equal(folds, grouped_folds(groups, 5, seed=3))
    assert (folds != grouped_folds(groups, 5, seed=4)).any()
    np.testing.assert_array_equal(np.unique(folds), np.arange(5))


@pytest.mark.parametrize(("groups", "folds", "message"), [(4, 5, "5 of 4 groups"), (9, 2, "at least 3")])
def test_too_few_groups_or_folds_are_refused(groups: int, folds: int, message: str) -> None:
    with pytest.raises(UserError, match=message):
        grouped_folds(np.arange(groups), folds, seed=0)
