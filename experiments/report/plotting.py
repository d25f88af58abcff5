"""One look for all figures: small panels in rows, as SVG that is the same bytes for the same data.

Figures are drawn on nothing, in the colour of the text around them, so that a page may be light or dark.
"""

import io
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..experiment import Figure

INK = "#22262b"
MARK = "#3f88b5"
PANEL_INCHES = 2.6
AXES_INCHES = (0.6, 0.5, 1.85)
"""Of a panel: what is left free at the left and below, and the side of the axes."""
MOST_COLUMNS = 5
STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "doxascope",
    "font.family": "sans-serif",
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

T = TypeVar("T")


def figure_of_panels(
    panels: Sequence[tuple[str, T]], draw: Callable[[Any, T], None], *, columns: int = MOST_COLUMNS
) -> Any:
    """A matplotlib figure with one titled panel for each (title, data), drawn by `draw(axes, data)`."""
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    columns = min(columns, len(panels))
    width, height = PANEL_INCHES * columns, PANEL_INCHES * -(-len(panels) // columns)
    left, below, side = AXES_INCHES
    with mpl.rc_context(STYLE):
        figure = Canvas(figsize=(width, height))
        for i, (title, data) in enumerate(panels):
            x, y = left + PANEL_INCHES * (i % columns), height - PANEL_INCHES * (i // columns + 1) + below
            axes = figure.add_axes((x / width, y / height, side / width, side / height))
            draw(axes, data)
            axes.set_title(title, loc="left")
    return figure


def panel_figure(
    title: str,
    panels: Sequence[tuple[str, T]],
    draw: Callable[[Any, T], None],
    caption: str,
    *,
    columns: int = MOST_COLUMNS,
) -> Figure:
    """The same for a report."""
    return Figure(title, to_svg(figure_of_panels(panels, draw, columns=columns)), caption)


def to_svg(figure: Any) -> str:
    """The figure as an `<svg>` element."""
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue().replace(INK, "currentColor")
    return text[text.index("<svg") :]
