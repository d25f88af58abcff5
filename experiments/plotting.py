"""One look for all figures: small panels in a row, as SVG that is the same bytes for the same data."""

import io
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

INK = "#22262b"
PANEL_INCHES = 2.6
STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "doxascope",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.edgecolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "xtick.color": INK,
    "ytick.color": INK,
}

T = TypeVar("T")


def figure_of_panels(panels: Sequence[tuple[str, T]], draw: Callable[[Any, T], None]) -> Any:
    """A matplotlib figure with one titled panel for each (title, data), drawn by `draw(axes, data)`."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(PANEL_INCHES * len(panels), PANEL_INCHES), layout="constrained")
        for i, (title, data) in enumerate(panels):
            axes = figure.add_subplot(1, len(panels), i + 1)
            draw(axes, data)
            axes.set_title(title, loc="left")
    return figure


def to_svg(figure: Any) -> str:
    """The figure as an `<svg>` element."""
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]
