"""The reliability diagram: how often the likeliest option is right, by how probable it is."""

from collections.abc import Sequence
from typing import Any

from ...metrics import CalibrationError
from ..experiment import Figure
from ..report.plotting import DOT, INK, MARK, REFERENCE, panel_figure
from ..scoring.number import Number
from ..tables.samples import ALL


def reliability_figure(numbers: Sequence[Number]) -> list[Figure]:
    """One panel for each method whose questions have a truth."""
    found = [
        (one.method, one.score)
        for one in numbers
        if isinstance(one.score, CalibrationError) and one.score.bins and one.subset == ALL
    ]
    if not found:
        return []
    caption = (
        "Each dot holds as many questions as any other: the mean probability of the likeliest option against the share "
        "in which it is the true one. On the dashed line a model is calibrated; of a calibrated model the dots lie in "
        "the band (95%, wider where clusters make questions alike)."
    )
    key = {"questions": DOT, "calibrated": REFERENCE, "band of a calibrated model": {"facecolor": INK, "alpha": 0.12}}
    return [panel_figure("Is it right as often as it is sure?", found, _draw, caption, key=key)]


def _draw(axes: Any, error: CalibrationError) -> None:
    places = [one.confidence for one in error.bins]
    axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
    if len(places) > 1:
        lo, hi = [one.lo for one in error.bins], [one.hi for one in error.bins]
        axes.fill_between(places, lo, hi, color=INK, alpha=0.12, linewidth=0)
    else:
        axes.vlines(places, error.bins[0].lo, error.bins[0].hi, color=INK, alpha=0.12, linewidth=6)
    axes.scatter(places, [one.frequency for one in error.bins], s=14, color=MARK, linewidths=0)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_xticks([0, 0.5, 1])
    axes.set_yticks([0, 0.5, 1])
    axes.set_xlabel("probability")
    axes.set_ylabel("share right")
