"""The pictures of the map: spans by layers, and each span's profile over the layers."""

from collections.abc import Mapping
from itertools import cycle
from typing import Any

import numpy as np

from ..experiment import Figure
from ..report.plotting import INK, MARK, STYLE, course, drawn, panel_figure
from .samples import Map

AWAY = "#c2603f"
"""Of a cell that moves the answer away from the source's."""
CELL_INCHES = (0.52, 0.34)
LEFT_INCHES, TOP_INCHES, BELOW_INCHES = 1.35, 0.15, 0.5
STRONGEST = 0.75
"""Opacity of a transfer of 1 or more, so that the number in it can be read."""

MARKERS = {"x": "×", "+": "+", "^": "△", "s": "□"}
"""Of controls, and how they are written."""


def map_figure(cells: Map) -> Figure:
    """Spans by layers: the transfer of each cell as a colour and a number."""
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    spans, layers = _axes(cells)
    width, height = CELL_INCHES
    size = (LEFT_INCHES + width * len(layers) + 0.1, TOP_INCHES + height * len(spans) + BELOW_INCHES)
    with mpl.rc_context(STYLE):
        figure = Canvas(figsize=size)
        box = (LEFT_INCHES, BELOW_INCHES, width * len(layers), height * len(spans))
        draw_map(figure.add_axes((box[0] / size[0], box[1] / size[1], box[2] / size[0], box[3] / size[1])), cells)
    return drawn(
        "Where is the change carried?",
        figure,
        "Transfer: share of the change in log-odds from base to source that comes along when one span's rows are "
        "patched at one layer, both directions averaged. 1: the cell carries all of it; 0: nothing. Spans in their "
        "order in the prompt. Framed and bold: the band over all cells (max-T) leaves out 0, and what is moved is "
        "above numerical error; a framed .00 is little, not nothing.",
    )


def draw_map(axes: Any, cells: Map) -> None:
    """The cells, one unit each."""
    from matplotlib.patches import Rectangle

    spans, layers = _axes(cells)
    for place, cell in cells.items():
        x, y = layers.index(place.layer), spans.index(place.span)
        strength = 0 if np.isnan(cell.transfer) else STRONGEST * min(1.0, abs(cell.transfer))
        colour = MARK if cell.transfer >= 0 else AWAY
        axes.add_patch(Rectangle((x, y), 1, 1, facecolor=colour, alpha=strength, linewidth=0))
        weight = "bold" if cell.off_zero else "normal"
        axes.text(x + 0.5, y + 0.5, _number(cell.transfer), ha="center", va="center", fontsize=8, weight=weight)
        if cell.off_zero:
            axes.add_patch(Rectangle((x + 0.04, y + 0.05), 0.92, 0.9, fill=False, edgecolor=INK, linewidth=0.8))
    axes.set_xlim(0, len(layers))
    axes.set_ylim(len(spans), 0)
    axes.set_xticks(np.arange(len(layers)) + 0.5, ["emb." if n < 0 else str(n) for n in layers])
    axes.set_yticks(np.arange(len(spans)) + 0.5, spans)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("after block (emb.: before the first)")


def profile_figure(cells: Map, controls: Mapping[str, Map]) -> Figure:
    """A panel for each span: transfer over layers with its band, and the controls by their names."""
    spans, _ = _axes(cells)
    scores = [score for own in (cells, *controls.values()) for score in own.values()]
    shown = [x for s in scores for x in (s.transfer, s.band_lo, s.band_hi) if np.isfinite(x)]
    low, high = min([0.0, *shown]), max([1.0, *shown])
    margin = 0.05 * (high - low)

    def draw(axes: Any, span: str) -> None:
        own = {place.layer: score for place, score in cells.items() if place.span == span}
        ends = ([getattr(score, name) for score in own.values()] for name in ("band_lo", "band_hi"))
        axes.fill_between(list(own), *ends, color=MARK, alpha=0.25, linewidth=0)
        course(axes, list(own), [s.transfer for s in own.values()], color=MARK, markersize=2.5, linewidth=1.2)
        for marker, control in zip(cycle(MARKERS), controls.values(), strict=False):
            there = {place.layer: score.transfer for place, score in control.items() if place.span == span}
            axes.plot(list(there), list(there.values()), marker, color=INK, markersize=5)
        for reference in (0, 1):
            axes.axhline(reference, color=INK, linewidth=0.6, linestyle=(0, (4, 3)))
        axes.set_ylim(low - margin, high + margin)
        axes.set_xlabel("after block")
        axes.set_ylabel("transfer")

    key: dict[str, Any] = {"source": {"color": MARK, "marker": "o", "markersize": 2.5, "linewidth": 1.2}}
    for marker, name in zip(cycle(MARKERS), controls, strict=False):
        key[name] = {"color": INK, "marker": marker, "markersize": 5, "linestyle": "none"}
    key["band of all cells"] = {"facecolor": MARK, "alpha": 0.25}
    names = ", ".join(f"{sign} {name}" for sign, name in zip(cycle(MARKERS.values()), controls, strict=False))
    return panel_figure(
        "How does each span's share go over the layers?",
        [(span, span) for span in spans],
        draw,
        "Transfer with the band that holds for all cells of the map at once; -1 is before the first block. Controls: "
        f"{names or 'none'}.",
        columns=4,
        key=key,
    )


def _axes(cells: Map) -> tuple[list[str], list[int]]:
    """The spans in their order, and the layers."""
    return list(dict.fromkeys(place.span for place in cells)), sorted({place.layer for place in cells})


def _number(transfer: float) -> str:
    """Two decimals, without the zero before them and without the sign of a zero."""
    written = f"{transfer:.2f}".replace("-0.00", "0.00")
    return "–" if np.isnan(transfer) else written.replace("0.", ".", 1) if abs(transfer) < 0.995 else written
