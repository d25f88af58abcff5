"""The kinds of figure that reports are made of, as functions of data: charts of marks over two axes, matrices, numbers
with their intervals row by row, values spread out row by row, and shares of a whole.
"""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...metrics import Score
from ...metrics.number import Number
from .findings import Figure
from .marks import FREE, Axis, Mark, cells, unit
from .plotting import DASHED, INK, MARK, RIGHT, SIDE, Key, panel_figure


class Panel(NamedTuple):
    """A pair of axes of a chart."""

    title: str
    marks: Sequence[Mark]
    """In the order in which they are drawn."""
    x: Axis | None = None
    """None: that of the chart."""
    y: Axis | None = None


def chart(
    title: str,
    panels: Sequence[Panel | tuple[str, Sequence[Mark]]],
    caption: str,
    *,
    x: Axis = FREE,
    y: Axis = FREE,
    further: Key | None = None,
    **layout: Any,
) -> Figure:
    """Marks over two axes, panel by panel: curves, scatters, histograms, reliability diagrams and heat maps.

    Args:
        x: of every panel that has none of its own.
        y: the same.
        further: of the key, beside the marks that have names.
        layout: as for `figure_of_panels`.
    """
    every = [panel if isinstance(panel, Panel) else Panel(*panel) for panel in panels]
    key = {mark.name: mark.key for panel in every for mark in reversed(panel.marks) if mark.name} | dict(further or {})

    def draw(axes: Any, panel: Panel) -> None:
        for mark in panel.marks:
            mark.draw(axes)
        (panel.x or x).apply(axes, "x")
        (panel.y or y).apply(axes, "y")

    return panel_figure(title, [(panel.title, panel) for panel in every], draw, caption, key=key or None, **layout)


def matrix(
    title: str, panels: Sequence[tuple[str, Mapping[tuple[int, int], str]]], names: Sequence[str], caption: str,
    across: str = "",
) -> Figure:  # fmt: skip
    """What every two names have to do with each other: a panel is its title, and (row, column) -> number as text."""
    places, shown = range(len(names)), [name.replace(" ", "\n") for name in names]
    axis = Axis(across, ticks=places, names=shown, size=6)
    marks = [(panel, [_square(len(names), texts)]) for panel, texts in panels]
    return chart(title, marks, caption, x=axis, y=replace(axis, label=""))


def _square(n: int, texts: Mapping[tuple[int, int], str]) -> Mark:
    written = [[texts.get((row, column), "") for column in range(n)] for row in range(n)]
    values = [[abs(float(text.rstrip("*"))) if text.strip("–") else np.nan for text in row] for row in written]
    return cells(values, top=1.6, written=written)


# Numbers with their intervals row by row: the figure that every experiment has.

SMALLEST_MARGIN = 0.005
"""Beside the outermost ends of intervals; smaller differences are nothing to look at."""
FARTHEST = 5.0
"""Times the distance of the estimates, or 1: where intervals reach four times as far, the axis ends there, and they end
in arrows.
"""
LINE = 0.36
"""Inches of a line of a figure."""
LABEL = 0.16
"""Inches of each further line of a label."""
LETTERS = 14
"""Of a label, for each inch of a panel."""
LEAD_INCHES = 3.5
"""Of the one figure that a page begins with: drawn as wide as the page allows, it is legible on a telephone."""
FACET_INCHES = 2.7
"""Of each panel where there are several."""

BESIDE: Any = {"color": INK, "marker": "|", "markersize": 14, "markeredgewidth": 1.6, "linestyle": "none"}
"""A second number of a row."""
MARKED: Any = {"color": MARK, "marker": "o", "markersize": 3, "linestyle": "none"}
SHADES = (1.0, 0.6, 0.4, 0.2, 0.08, 0.0)
"""Opacity of shares of a whole, from the first."""

Scores = Mapping[tuple[str, str, str], Score]
"""(metric, method, subset) -> score."""


def scores_of(numbers: Sequence[Number]) -> Scores:
    """Of all of a run."""
    return {(number.metric, number.method, number.subset): number.score for number in numbers}


Row = tuple[str, Score, bool]
"""A number of a forest: its label, it, and whether it fails its gate and is drawn hollow."""


def forest(
    title: str, rows: Sequence[Row], axis: str, caption: str, *, reference: float | None = None
) -> Figure | None:
    """Numbers of one kind under each other; None if all are undefined."""
    rows = [row for row in rows if np.isfinite(row[1].estimate)]
    if not rows:
        return None
    rows, height = _laid_out(rows, LEAD_INCHES)
    return panel_figure(
        title, [("", rows)], _rows_drawn(rows, axis, reference), caption, side=(LEAD_INCHES, height), left=RIGHT
    )


def _laid_out(rows: Sequence[Row], width: float) -> tuple[list[Row], float]:
    """Rows whose labels fit a panel of so many inches, and the height that they take."""
    laid = [(textwrap.fill(label, int(LETTERS * width)), score, hollow) for label, score, hollow in rows]
    return laid, LINE * max(2, len(laid)) + LABEL * sum(label.count("\n") for label, *_ in laid)


def forests(title: str, panels: Sequence[tuple[str, Sequence[Row], float | None]], caption: str) -> Figure:
    """The same of several kinds of numbers, a panel each on a scale of its own: (title, rows, dashed line or none)."""
    width = FACET_INCHES
    laid = [(name, *_laid_out(rows, width), reference) for name, rows, reference in panels]
    side, panels = (width, max(height for *_, height, _ in laid)), [(name, rows, at) for name, rows, _, at in laid]
    drawn = [(name, (rows, _rows_drawn(rows, "", reference))) for name, rows, reference in panels]
    return panel_figure(title, drawn, lambda axes, own: own[1](axes, own[0]), caption, side=side, left=RIGHT, columns=2)


def score_figure(
    title: str,
    scores: Scores,
    methods: Sequence[str],
    wanted: Sequence[tuple[str, str, str]],
    axis: str,
    caption: str,
    *,
    reference: float | None = None,
    beside: tuple[str, str] | None = None,
) -> Figure:
    """The same of several methods, a panel each on one scale.

    Args:
        wanted: (label, metric, subset) of each line, from above; lines, and methods, without a number are left out.
        beside: name and metric of a second number of each line, drawn as an upright bar.
    """
    panels: list[tuple[str, list[Row]]] = []
    bars: dict[int, float] = {}
    for method in methods:
        found = [(label, scores.get((metric, method, subset)), subset) for label, metric, subset in wanted]
        rows = [(label, score, False) for label, score, _ in found if score and np.isfinite(score.estimate)]
        panels += [(method, rows)] if rows else []
        if beside:
            bars |= {id(score): scores[beside[1], method, subset].estimate for _, score, subset in found if score}
    panels = panels or [(method, []) for method in methods]
    key = {"number": MARKED, beside[0]: BESIDE} if beside else None
    draw = _rows_drawn([row for _, rows in panels for row in rows], axis, reference, bars)
    return panel_figure(
        title, panels, draw, caption, side=(SIDE, max([3, *(len(r) for _, r in panels)]) * LINE), key=key
    )


def _rows_drawn(
    every: Sequence[Row], axis: str, reference: float | None, bars: Mapping[int, float] | None = None
) -> Callable[[Any, Sequence[Row]], None]:
    """Draws a panel on the scale of all."""
    ends = [x for _, score, _ in every for x in (score.estimate, score.ci_lo, score.ci_hi)]
    ends = [x for x in (*ends, reference, *(bars or {}).values()) if x is not None and np.isfinite(x)] or [0.0, 1.0]
    inner = [x for x in (reference, *(score.estimate for _, score, _ in every)) if x is not None and np.isfinite(x)]
    if inner and max(ends) - min(ends) > 4 * (reach := FARTHEST * max(max(inner) - min(inner), 1.0)):
        least, most = min(inner) - reach, max(inner) + reach
        ends = [max(min(ends), least), min(max(ends), most)]
    margin = max(0.05 * (max(ends) - min(ends)), SMALLEST_MARGIN)

    def draw(axes: Any, rows: Sequence[Row]) -> None:
        height = 0.0
        for label, score, hollow in rows:
            height += label.count("\n") * LABEL / LINE
            if reference is not None:  # beside the interval alone: a line through a label would hide it
                axes.plot([reference] * 2, [-height - 0.3, 0.14 - height], color=INK, linewidth=0.8, linestyle=DASHED)
            axes.plot([score.ci_lo, score.ci_hi], [-height] * 2, color=MARK, linewidth=0.7 if hollow else 1.4)
            for end, beyond in ((min(ends), "<"), (max(ends), ">")):
                if score.ci_lo < end if beyond == "<" else score.ci_hi > end:
                    axes.plot(end, -height, beyond, color=MARK, markersize=4)
            fill = "none" if hollow else "full"
            axes.plot(score.estimate, -height, "o", color=MARK, markersize=4, fillstyle=fill)
            if bars:
                axes.plot(bars[id(score)], -height, **BESIDE)
            axes.text(0.0, 0.26 - height, label, transform=axes.get_yaxis_transform(), fontsize=8)
            height += 1
        axes.ticklabel_format(axis="x", useOffset=False)
        Axis(axis, (min(ends) - margin, max(ends) + margin), most=4).apply(axes, "x")
        _by_row(axes, 0.6 - max(1.0, height), 0.6)

    return draw


def _by_row(axes: Any, lowest: float, highest: float) -> None:
    axes.set_ylim(lowest, highest)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)


QUANTILES = 200
"""Dots in which values are drawn, however many there are."""


def spreads(
    title: str,
    panels: Sequence[tuple[str, Mapping[str, ArrayLike]]],
    caption: str,
    x: Axis,
    *,
    reference: float | None = None,
) -> Figure:
    """Values row by row, sorted, with their median: (title, label -> values) of each panel."""
    tall = max(len(rows) for _, rows in panels)

    def draw(axes: Any, rows: Mapping[str, ArrayLike]) -> None:
        if reference is not None:
            axes.axvline(reference, color=INK, linewidth=0.8, linestyle=DASHED)
        for row, (label, values) in enumerate(rows.items()):
            known = np.asarray(values, dtype=np.float64)
            known = known[np.isfinite(known)]
            n = min(len(known), QUANTILES)
            dots = np.quantile(known, np.linspace(0, 1, n)) if n else known
            axes.scatter(dots, np.linspace(-0.3, 0.3, n) - row, s=3, color=MARK, linewidths=0)
            axes.plot([np.median(known) if n else np.nan] * 2, [-row - 0.4, 0.4 - row], color=INK, linewidth=1.2)
            axes.text(0.0, 0.42 - row, label, transform=axes.get_yaxis_transform(), va="bottom", fontsize=8)
        x.apply(axes, "x")
        _by_row(axes, 0.4 - tall, 0.8)

    return panel_figure(title, panels, draw, caption, side=(SIDE, max(SIDE, 0.6 * tall)))


def shares(
    title: str, panels: Sequence[tuple[str, Mapping[str, Mapping[str, float]]]], caption: str, label: str
) -> Figure:
    """Shares of a whole, row by row from dark to pale: (title, row -> name of a share -> share) of each panel."""
    names = list(dict.fromkeys(name for _, rows in panels for parts in rows.values() for name in parts))
    strength = dict(zip(names, SHADES, strict=False))

    def draw(axes: Any, rows: Mapping[str, Mapping[str, float]]) -> None:
        from matplotlib.colors import to_rgba

        for row, (name, parts) in enumerate(rows.items()):
            left = 0.0
            for part, share in parts.items():
                shade = to_rgba(MARK, strength[part])
                axes.barh(-row, share, 0.34, left, color=shade, edgecolor=INK, linewidth=0.5)
                left += share
            axes.text(0.0, 0.26 - row, name, fontsize=8)
        unit(label).apply(axes, "x")
        _by_row(axes, 0.5 - max(1, len(rows)), 0.7)

    key = {name: {"facecolor": MARK, "alpha": alpha} for name, alpha in strength.items()}
    return panel_figure(title, panels, draw, caption, key=key)
