"""Scores with their intervals, side by side: the figure that every experiment has."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...metrics import Score
from ..experiment import Figure
from .plotting import INK, MARK, panel_figure

SMALLEST_MARGIN = 0.005
"""Beside the outermost ends of intervals; smaller differences are nothing to look at."""

Scores = Mapping[tuple[str, str, str], Score]
"""(metric, method, subset) -> score."""


def score_figure(
    title: str,
    scores: Scores,
    methods: Sequence[str],
    wanted: Sequence[tuple[str, str, str]],
    axis: str,
    caption: str,
    *,
    reference: float | None = None,
) -> Figure:
    """Estimates with their intervals, a panel for each method.

    Args:
        title: of the figure.
        scores: all of the run.
        methods: one panel each.
        wanted: (label, metric, subset) of each line, from above; those without a score are left out.
        axis: what the numbers are.
        caption: what is to be seen.
        reference: where to draw a dashed line.
    """
    panels = [
        (method, [(label, s) for label, metric, subset in wanted if (s := scores.get((metric, method, subset)))])
        for method in methods
    ]
    ends = [x for _, rows in panels for _, s in rows for x in (s.estimate, s.ci_lo, s.ci_hi)]
    ends = [x for x in (*ends, reference) if x is not None and np.isfinite(x)] or [0.0, 1.0]
    margin = max(0.05 * (max(ends) - min(ends)), SMALLEST_MARGIN)

    def draw(axes: Any, rows: Sequence[tuple[str, Score]]) -> None:
        for height, (label, score) in enumerate(rows):
            axes.plot([score.ci_lo, score.ci_hi], [-height] * 2, color=MARK, linewidth=1.4)
            axes.plot(score.estimate, -height, "o", color=MARK, markersize=4)
            axes.text(0.0, 0.2 - height, label, transform=axes.get_yaxis_transform(), fontsize=8)
        if reference is not None:
            axes.axvline(reference, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
        axes.set_xlim(min(ends) - margin, max(ends) + margin)
        axes.set_yticks([])
        axes.set_ylim(0.6 - max(1, len(rows)), 0.6)
        axes.ticklabel_format(axis="x", useOffset=False)
        axes.locator_params(axis="x", nbins=4)
        axes.set_xlabel(axis)

    return panel_figure(title, panels, draw, caption)
