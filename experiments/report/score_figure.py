"""Scores with their intervals, side by side: the figure that every experiment has."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np

from ...metrics import Score
from ..experiment import Figure
from .plotting import DASHED, INK, MARK, SIDE, panel_figure

SMALLEST_MARGIN = 0.005
"""Beside the outermost ends of intervals; smaller differences are nothing to look at."""
LINE = 0.36
"""Inches of a line of a figure."""
LABEL = 0.16
"""Inches of each further line of a label."""
LETTERS = 14
"""Of a label, for each inch of a panel."""
LEAD_INCHES = 2.6
"""Of the one figure that a page begins with: it fits on a telephone."""

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
        wanted: (label, metric, subset) of each line, from above; those without a number are left out.
        axis: what the numbers are.
        caption: what is to be seen.
        reference: where to draw a dashed line.
    """
    panels = [
        (method, [(label, s) for label, metric, subset in wanted if _known(s := scores.get((metric, method, subset)))])
        for method in methods
    ]
    named = [(method, [(label, score, False) for label, score in rows]) for method, rows in panels]
    tall = max([3, *(len(rows) for _, rows in named)])
    return panel_figure(
        title, named, _drawer([row for _, rows in named for row in rows], axis, reference), caption,
        side=(SIDE, tall * LINE),
    )  # fmt: skip


def _known(score: Score | None) -> TypeGuard[Score]:
    return score is not None and bool(np.isfinite(score.estimate))


def forest(
    title: str,
    rows: Sequence[tuple[str, Score, bool]],
    axis: str,
    caption: str,
    *,
    reference: float | None = None,
) -> Figure | None:
    """Numbers of one kind under each other; None if all are undefined.

    Args:
        title: of the figure.
        rows: (label, score, whether it fails its gate and is drawn hollow) from above.
        axis: what the numbers are.
        caption: what is to be seen.
        reference: where to draw a dashed line.
    """
    known = [row for row in rows if np.isfinite(row[1].estimate)]
    if not known:
        return None
    known = [(_wrapped(label, LEAD_INCHES), score, hollow) for label, score, hollow in known]
    side = (LEAD_INCHES, LINE * max(2, len(known)) + LABEL * sum(label.count("\n") for label, *_ in known))
    return panel_figure(title, [("", known)], _drawer(known, axis, reference), caption, side=side)


def forests(title: str, panels: Sequence[tuple[str, Sequence[tuple[str, Score, bool]], float]], caption: str) -> Figure:
    """The same of several kinds of numbers, a panel each on a scale of its own: (title, rows, dashed line)."""
    tall = max([2, *(len(rows) for _, rows, _ in panels)])

    def draw(axes: Any, panel: tuple[Sequence[tuple[str, Score, bool]], float]) -> None:
        rows, reference = panel
        _drawer(rows, "", reference)(axes, rows)

    named = [(name, (rows, reference)) for name, rows, reference in panels]
    return panel_figure(title, named, draw, caption, side=(LEAD_INCHES - 0.6, LINE * tall), columns=2)


def _wrapped(label: str, inches: float) -> str:
    """A label in lines that fit into a panel."""
    return textwrap.fill(label, int(LETTERS * inches))


def _drawer(
    every: Sequence[tuple[str, Score, bool]], axis: str, reference: float | None
) -> Callable[[Any, Sequence[tuple[str, Score, bool]]], None]:
    """Draws a panel on the scale of all."""
    ends = [x for _, s, _ in every for x in (s.estimate, s.ci_lo, s.ci_hi)]
    ends = [x for x in (*ends, reference) if x is not None and np.isfinite(x)] or [0.0, 1.0]
    margin = max(0.05 * (max(ends) - min(ends)), SMALLEST_MARGIN)

    def draw(axes: Any, rows: Sequence[tuple[str, Score, bool]]) -> None:
        height = 0.0
        for label, score, hollow in rows:
            height += label.count("\n") * LABEL / LINE
            if reference is not None:  # beside the interval alone: a line through a label would hide it
                axes.plot([reference] * 2, [-height - 0.3, 0.14 - height], color=INK, linewidth=0.8, linestyle=DASHED)
            axes.plot([score.ci_lo, score.ci_hi], [-height] * 2, color=MARK, linewidth=0.7 if hollow else 1.4)
            fill = "none" if hollow else "full"
            axes.plot(score.estimate, -height, "o", color=MARK, markersize=4, fillstyle=fill)
            axes.text(0.0, 0.2 - height, label, transform=axes.get_yaxis_transform(), fontsize=8)
            height += 1
        axes.set_xlim(min(ends) - margin, max(ends) + margin)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.set_ylim(0.6 - max(1.0, height), 0.6)
        axes.ticklabel_format(axis="x", useOffset=False)
        axes.locator_params(axis="x", nbins=4)
        axes.set_xlabel(axis)

    return draw
