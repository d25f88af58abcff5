"""Figures of a probe's page stand where the layers are, and sentences say no more than the numbers."""

import csv
import io
import re

import numpy as np
import pytest

from doxascope.experiments.probing.page import head_maps, learnt, recalled
from doxascope.probes.evidence.crossfit import recall_at
from doxascope.probes.features import ReadAt
from doxascope.probes.sweep import Sweep


def heads_at(layers: list[int], r2: float, band: float = 0.2) -> Sweep:
    """A sweep of three heads a layer, whose R2 is 0.01 lower with each place."""
    points = tuple(ReadAt("head_out", layer, "statement", head) for layer in layers for head in range(3))
    found, none = r2 - 0.01 * np.arange(len(points), dtype=np.float64), np.zeros((len(points), 1))
    return Sweep(points, found, none, none[:, 0], band, 0.95, 0.0, 1.0, points[:1], none, 0)


@pytest.mark.parametrize("layers", [[15], [3, 6, 9], [0, 1, 7]])
def test_a_map_of_heads_has_the_layers_that_were_captured(layers: list[int]) -> None:
    found = heads_at(layers, 0.21)
    figure = head_maps(found)
    assert figure is not None
    rows = [row for row in csv.DictReader(io.StringIO(figure.data)) if row["mark"] == "cell"]
    cells = {(float(row["x"]) + 0.5, float(row["y"]) + 0.5): float(row["value"]) for row in rows}
    assert cells == pytest.approx(
        {(at.layer, at.head): r2 for at, r2 in zip(found.points, found.r2, strict=True)}, abs=1e-6
    )
    framed = [row for row in csv.DictReader(io.StringIO(figure.data)) if row["mark"] == "point"]
    assert [(float(row["x"]), float(row["y"])) for row in framed] == [(layers[0], 0)]  # the one above the band
    shown = re.findall(r">(\d[\d.]*)</text>", figure.svg)
    assert all(tick.isdigit() and int(tick) <= max(*layers, 2) for tick in shown)
    assert str(layers[0]) in shown or len(layers) > 1


def test_no_head_above_0_is_no_map() -> None:
    assert head_maps(heads_at([15], 0.0)) is None


@pytest.mark.parametrize(
    ("r2", "said"),
    [
        ([0.1, 0.2, 0.3], "R2 still rises"),
        ([0.1, 0.3, 0.2], "R2 does not rise"),
        ([-0.466, -0.100, -0.035, -0.078], "R2 is not above 0"),
        ([-0.4, -0.2, -0.1], "R2 is not above 0"),
        ([0.2], "R2 does not rise"),
        ([], "R2 is not above 0"),
    ],
)
def test_a_learning_curve_rises_only_where_its_last_step_does(r2: list[float], said: str) -> None:
    assert learnt(r2).startswith(said)


def test_a_recall_is_shown_where_there_are_negatives_for_one_false_alarm() -> None:
    negative = np.arange(200.0)
    assert recalled(recall_at(np.array([250.0, 150.0, 50.0, 300.0]), negative, 0.01)) == "0.500"
    assert recalled(recall_at(np.array([250.0]), negative[:5], 0.01)) == "too few negatives (5)"
