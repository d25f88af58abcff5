"""One look for all figures: small panels in rows, as SVG that is the same bytes for the same data.

Figures are drawn on nothing, in the colour of the text around them, so that a page may be light or dark.
"""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from .findings import Figure
from .svg import INK, Box, data, panels, pdf, raw_svg, small

MARK = "#3f88b5"
SIDE = 1.85
LEFT, RIGHT, BELOW, ABOVE = 0.8, 0.15, 0.5, 0.2
"""Of a panel, in inches: the side of the axes, and what is left free around them; above, for each line of a title."""
TITLE_LETTERS = 26
"""Of a line of a title, as wide as a panel of the usual side."""
MOST_COLUMNS = 5
KEY_LETTERS, UNDER_KEY = 24, 10.0
"""Of a line of the key; and what is left free below it, in points."""
STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "doxascope",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.facecolor": "none",
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "legend.frameon": False,
    "text.color": INK,
    "text.parse_math": False,  # a name with dollars in it is no formula
    "xtick.color": INK,
    "ytick.color": INK,
}

DASHED: Any = (0, (4, 3))
"""Of a reference line."""

T = TypeVar("T")
Key = Mapping[str, Mapping[str, Any]]
"""Of a figure: label -> how its mark is drawn, a line by the arguments of `Line2D`, an area by its `facecolor`."""


def figure_of_panels(
    titled: Sequence[tuple[str, T]],
    draw: Callable[[Any, T], None],
    *,
    columns: int = MOST_COLUMNS,
    side: tuple[float, float] = (SIDE, SIDE),
    left: float = LEFT,
    key: Key | None = None,
) -> tuple[Any, list[Box]]:
    """A matplotlib figure with one titled panel for each (title, data), drawn by `draw(axes, data)`, and the box of
    each panel. A key stands in a panel of its own, behind the others, which is no higher than it needs.

    Args:
        titled: title and data of each panel.
        draw: draws the data into a pair of axes.
        columns: most panels beside each other.
        side: width and height of the axes, in inches.
        left: inches that are left free for what stands left of the axes.
        key: label -> how its mark is drawn.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    titles = [textwrap.wrap(title, int(TITLE_LETTERS * side[0] / SIDE)) or [""] for title, _ in titled]
    below, above = BELOW, ABOVE * max(map(len, titles))
    wide, high = left + side[0] + RIGHT, below + side[1] + above
    n = len(titled) + (key is not None)
    columns = min(columns, n)
    width, height = wide * columns, high * -(-n // columns)
    boxes: list[Box] = []
    with mpl.rc_context(STYLE):
        figure = Canvas(figsize=(width, height))
        for i in range(n):
            x, y = wide * (i % columns), high * (i // columns)
            at = ((x + left) / width, 1 - (y + high - below) / height, side[0] / width, side[1] / height)
            axes = figure.add_axes(at)
            tall = high
            if i < len(titled):
                draw(axes, titled[i][1])
                axes.set_title("\n".join(titles[i]), loc="left")
            elif key is not None:
                tall = min(high, above + (_draw_key(axes, key) + UNDER_KEY) / 72)
            boxes.append((72 * x, 72 * y, 72 * wide, 72 * tall))
    return figure, boxes


def _draw_key(axes: Any, key: Key) -> float:
    """What the marks of the other panels are; returns its height in points."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    marks = [(Patch if "facecolor" in style else lambda **s: Line2D([], [], **s))(**style) for style in key.values()]
    axes.set_axis_off()
    labels = [textwrap.fill(label, KEY_LETTERS) for label in key]
    legend = axes.legend(marks, labels, loc="upper left", fontsize=8, borderpad=0)
    return float(72 * legend.get_window_extent(FigureCanvasAgg(axes.figure).get_renderer()).height / axes.figure.dpi)


def panel_figure(
    title: str, titled: Sequence[tuple[str, T]], draw: Callable[[Any, T], None], caption: str, **layout: Any
) -> Figure:
    """The same for a report; `layout` as for `figure_of_panels`."""
    figure, boxes = figure_of_panels(titled, draw, **layout)
    return drawn(title, figure, caption, boxes)


def drawn(title: str, figure: Any, caption: str, boxes: Sequence[Box] = ()) -> Figure:
    """A matplotlib figure as it is on a page and in files; its panels, if they have boxes, stand side by side where a
    page has room.
    """
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        raw = raw_svg(figure)
        return Figure(title, small(raw), caption, tuple(panels(raw, boxes)) if boxes else (), pdf(figure), data(figure))
