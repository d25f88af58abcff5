"""A planted direction is found where it is, and noise is not."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import pytest

from doxascope import UserError
from doxascope.base.parallel import spread_over
from doxascope.metrics import Resampling
from doxascope.probes.dataset import ProbeData, make_target
from doxascope.probes.features import ArrayFeatures, ReadAt
from doxascope.probes.groups import grouped_folds
from doxascope.probes.sweep import AtPoint, Sweep, at_depth, sweep


def swept(data: ProbeData, draws: int = 99) -> Sweep:
    return sweep(data, grouped_folds(data.groups, 5, 0), how=Resampling(0, draws), penalties=(1.0, 100.0))


def test_a_planted_direction_is_found_at_its_layer(planted: Callable[..., ProbeData]) -> None:
    found = swept(planted({2: 1.0}))
    assert found.points[int(found.r2.argmax())].layer == 2
    assert {at.layer for at in found.selected} == {2}
    assert found.r2[2] > found.band > found.r2[[0, 1, 3]].max()
    assert found.p_max[2] == found.selected_p == 0.01
    assert found.p_max[[0, 1, 3]].min() > 0.05
    data = planted({2: 1.0})
    given: dict[str, Any] = {"how": Resampling(0, 99), "penalties": (1.0, 100.0)}
    folds = grouped_folds(data.groups, 5, 0)
    kept: dict[ReadAt, AtPoint] = {}
    with ThreadPoolExecutor(3) as pool:
        together = sweep(data, folds, **given, done=kept.__setitem__, spread=pool.map)
    np.testing.assert_array_equal(together.null_r2, found.null_r2)
    assert list(kept) == list(data.points)
    again: list[ReadAt] = []
    known = {at: one for at, one in kept.items() if at.layer != 2}
    rest = sweep(data, folds, **given, known=known, done=lambda at, _: again.append(at))
    assert [at.layer for at in again] == [2]
    np.testing.assert_array_equal(rest.null_r2, found.null_r2)


def test_points_that_ray_computes_are_those_of_one_process(planted: Callable[..., ProbeData]) -> None:
    pytest.importorskip("ray")
    data = planted({2: 1.0})
    folds = grouped_folds(data.groups, 5, 0)
    with spread_over(2, "ray", local=ThreadPoolExecutor) as spread:
        found = sweep(data, folds, how=Resampling(0, 99), penalties=(1.0, 100.0), spread=spread)
    np.testing.assert_allclose(found.null_r2, swept(data).null_r2, atol=1e-12)


def test_the_best_of_many_noise_layers_is_no_finding_more_often_than_it_says() -> None:
    """Twenty layers of noise, chosen from within each fold: 40 data sets at a level of a tenth. Eleven or more below it
    happen once in a thousand times if the level holds; the best layer's own p would be below it in most."""
    rejected = naive = 0
    groups = np.repeat(np.arange(20), 2)
    for seed in range(40):
        rng = np.random.default_rng(seed)
        y = np.repeat(rng.random(20), 2)
        arrays = {ReadAt("resid_post", layer, "end"): rng.normal(size=(40, 3)) for layer in range(20)}
        rows = {"readout_id": [str(i) for i in range(40)], "group": groups}
        data = ProbeData(pd.DataFrame(rows), make_target("y", y), ArrayFeatures(arrays), tuple(arrays))
        found = swept(data, draws=49)
        rejected += found.selected_p <= 0.1
        naive += found.p_at(found.points[int(found.r2.argmax())]) <= 0.1
        assert found.p_max.min() >= 0.02
    assert rejected <= 10
    assert naive > 25


def test_the_registered_layer_is_a_depth_of_the_model_whatever_was_captured() -> None:
    every, some, early = (
        [ReadAt("resid_post", one, "end") for one in own] for own in (range(30), range(0, 30, 6), (0, 2))
    )
    assert [at_depth(every, depth, 30) for depth in (0.0, 0.6, 1.0)] == [0, 17, 29]
    assert [at_depth(some, depth, 30) for depth in (0.0, 0.6, 1.0)] == [0, 18, 24]
    assert at_depth(early, 0.6, 30) == 2


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, 1, 1], "all 3 rows have 1"),
        ([0.5, 0.5], "all 2 rows"),
        ([0, 2], "not a probability"),
        ([0, np.nan], "row 1"),
    ],
)
def test_targets_that_cannot_be_learnt_are_refused(values: list[float], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_target("truth", values)
