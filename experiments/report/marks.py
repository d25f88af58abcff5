"""What charts are made of: axes, and marks over them (dots, lines, bands, bars, cells), as functions of data. A mark
with a name stands in the key of its figure.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...metrics.contract import Floats
from .plotting import DASHED, INK, MARK, Key

AWAY = "#c2603f"
"""Of what goes the other way."""
STRONGEST = 0.75
"""Opacity of a coloured cell, so that what is written in it can be read."""
PALE = 0.4
"""Opacity of a mark of which there are many."""
BAND = 0.2
"""Opacity of a band."""
DOT = 9
"""Area of a dot, in square points."""


@dataclass(frozen=True)
class Axis:
    """An axis of a panel."""

    label: str = ""
    limits: tuple[float | None, float | None] | None = None
    """None: as the data ask."""
    ticks: Sequence[float] | None = None
    names: Sequence[str] | None = None
    """Of the ticks."""
    size: float | None = None
    """Of these names, in points."""
    most: int | None = None
    """Most ticks."""
    whole: bool = False
    """Whether ticks stand on whole numbers alone."""

    def apply(self, axes: Any, which: str) -> None:
        """To a pair of axes of matplotlib, `which` is x or y."""
        if self.limits is not None:
            getattr(axes, f"set_{which}lim")(*self.limits)
        if self.ticks is not None:
            style = {} if self.size is None else {"fontsize": self.size}
            getattr(axes, f"set_{which}ticks")(self.ticks, self.names, **(style if self.names is not None else {}))
        elif self.whole:
            axes.locator_params(axis=which, nbins=5, integer=True, min_n_ticks=1)
        elif self.most is not None:
            axes.locator_params(axis=which, nbins=self.most)
        if self.label:
            getattr(axes, f"set_{which}label")(self.label)


FREE = Axis()
"""As the data ask."""


def unit(label: str) -> Axis:
    """An axis of probabilities."""
    return Axis(label, (0, 1), (0, 0.5, 1))


def around(label: str, values: Floats) -> Axis:
    """An axis that holds the values, and is never shorter than .02: rounding must not look like a curve."""
    if not len(values):
        return Axis(label, most=3)
    middle, reach = (values.min() + values.max()) / 2, max(float(np.ptp(values)), 0.02) / 2
    return Axis(label, (middle - 1.1 * reach, middle + 1.1 * reach), most=3)


class Mark(NamedTuple):
    """What is drawn into a panel."""

    draw: Callable[[Any], object]
    name: str
    key: Mapping[str, Any]
    """How the key shows it."""


def _named(name: str) -> dict[str, str]:
    """The label of what is drawn, which its data have, too."""
    return {"label": name} if name else {}


def points(
    x: ArrayLike,
    y: ArrayLike,
    name: str = "",
    *,
    size: float = DOT,
    color: str = MARK,
    alpha: float | None = None,
    marker: str = "o",
    hollow: bool = False,
) -> Mark:
    """Dots, or other signs."""
    fill: dict[str, Any] = {"color": color, "linewidths": 1 if marker in "x+" else 0}
    fill = {"facecolors": "none", "edgecolors": color, "linewidths": 1} if hollow else fill
    style = {"color": color, "marker": marker, "markersize": min(size, 36) ** 0.5, "linestyle": "none"}
    style |= {"fillstyle": "none"} if hollow else {}
    return Mark(
        lambda axes: axes.scatter(x, y, s=size, marker=marker, alpha=alpha, **fill, **_named(name)), name, style
    )


def line(
    x: ArrayLike,
    y: ArrayLike,
    name: str = "",
    *,
    color: str = MARK,
    width: float = 1.2,
    style: Any = "-",
    alpha: float | None = None,
    dots: float = 0,
) -> Mark:
    """A line; with `dots` of so many points, which are joined where there are at least three: two make no course."""
    marker = {"marker": "o", "markersize": dots} if dots else {}
    drawn = {"color": color, "linewidth": width, "alpha": alpha, **marker}
    joined = "none" if dots and np.size(x) < 3 else style
    key = {"color": color, "linewidth": width, "linestyle": style, **marker}
    return Mark(lambda axes: axes.plot(x, y, linestyle=joined, **drawn, **_named(name)), name, key)


def diagonal(name: str = "") -> Mark:
    """Where both are the same."""
    return line([0, 1], [0, 1], name, color=INK, width=0.8, style=DASHED)


def rule(at: float, name: str = "", *, of: str = "y", width: float = 0.8, style: Any = DASHED) -> Mark:
    """A line across the panel at a value of x or y."""
    key = {"color": INK, "linewidth": width, "linestyle": style}
    return Mark(lambda axes: (axes.axhline if of == "y" else axes.axvline)(at, **key, **_named(name)), name, key)


def ranges(
    x: ArrayLike, lo: ArrayLike, hi: ArrayLike, name: str = "", *,
    color: str = MARK, width: float = 1, alpha: float | None = None, flat: bool = False,
) -> Mark:  # fmt: skip
    """An upright line from `lo` to `hi` at each x; `flat`: a level one at each value of y."""
    drawn = {"color": color, "alpha": alpha, "linewidth": width}
    lines = "hlines" if flat else "vlines"
    return Mark(lambda axes: getattr(axes, lines)(x, lo, hi, **drawn, **_named(name)), name, drawn)


def band(
    x: Sequence[float], lo: ArrayLike, hi: ArrayLike, name: str = "", *, color: str = MARK, alpha: float = BAND
) -> Mark:
    """The area from `lo` to `hi` along x; a bar where there is one x."""
    style = {"color": color, "alpha": alpha}

    def draw(axes: Any) -> None:
        if len(x) > 1:
            axes.fill_between(x, lo, hi, linewidth=0, **style, **_named(name))
        else:
            axes.vlines(x, lo, hi, linewidth=6, **style, **_named(name))

    return Mark(draw, name, {"facecolor": color, "alpha": alpha})


def span(lo: float, hi: float, name: str = "", *, alpha: float = 0.12) -> Mark:
    """The area from one value of y to another, across the panel."""
    drawn = {"color": INK, "alpha": alpha, "linewidth": 0}
    return Mark(lambda axes: axes.axhspan(lo, hi, **drawn, **_named(name)), name, {"facecolor": INK, "alpha": alpha})


def bars(x: ArrayLike, heights: ArrayLike, name: str = "") -> Mark:
    """Upright bars, an x each."""
    drawn = {"color": INK, "alpha": 0.15, "width": 0.9}
    return Mark(lambda axes: axes.bar(x, heights, **drawn, **_named(name)), name, {"facecolor": INK, "alpha": 0.15})


def histogram(values: ArrayLike, edges: ArrayLike, name: str, *, style: Any) -> Mark:
    """Shares of the values between edges: an outline in the style of a line."""
    known = np.asarray(values, dtype=np.float64)
    known = known[np.isfinite(known)]
    drawn: dict[str, Any] = {
        "weights": np.full(len(known), 1 / max(1, len(known))),
        "histtype": "step",
        "linestyle": style,
    }
    key = {"color": MARK, "linestyle": style, "linewidth": 1}
    return Mark(lambda axes: axes.hist(known, edges, color=MARK, **drawn, **_named(name)), name, key)


def cells(
    values: ArrayLike,
    *,
    at: tuple[float, float] = (0, 0),
    top: float = 1.0,
    signed: bool = False,
    upward: bool = False,
    written: Sequence[Sequence[str]] = (),
    framed: ArrayLike = (),
    size: float = 7,
) -> Mark:
    """Cells [rows, columns] of one unit each, the stronger the higher above 0; NaN is left white.

    Args:
        at: column and row in whose middle the first cell stands.
        top: size of the strongest.
        signed: whether cells below 0 have a colour of their own; else they are white, and others grey.
        upward: whether the first row is the lowest.
        written: [rows, columns] what stands in each.
        framed: [rows, columns] whether it has a frame, and what is written in it is bold.
        size: of what is written, in points.
    """
    grid = np.asarray(values, dtype=np.float64)
    (rows, columns), (x, y) = grid.shape, (at[0] - 0.5, at[1] - 0.5)
    frames = np.zeros(grid.shape, dtype=bool) if np.size(framed) == 0 else np.asarray(framed)

    def draw(axes: Any) -> None:
        from matplotlib.colors import LinearSegmentedColormap, to_rgba
        from matplotlib.patches import Rectangle

        strong = [to_rgba(AWAY, STRONGEST), to_rgba(AWAY, 0), to_rgba(MARK, 0), to_rgba(MARK, STRONGEST)]
        two = LinearSegmentedColormap.from_list("", list(zip((0, 0.5, 0.5, 1), strong, strict=True)))
        shades = {"cmap": two, "vmin": -top} if signed else {"cmap": "Greys", "vmin": 0}
        extent = (x, x + columns, *((y, y + rows) if upward else (y + rows, y)))
        axes.imshow(grid, vmax=top, aspect="auto", origin="lower" if upward else "upper", extent=extent, **shades)
        axes.set(xlim=extent[:2], ylim=extent[2:])
        for (i, j), frame in np.ndenumerate(frames):
            weight = "bold" if frame else "normal"
            if len(written):
                axes.text(at[0] + j, at[1] + i, written[i][j], ha="center", va="center", fontsize=size, weight=weight)
            if frame:
                corner = (x + j + 0.04, y + i + 0.05)
                axes.add_patch(Rectangle(corner, 0.92, 0.9, fill=False, edgecolor=INK, linewidth=0.8))

    return Mark(draw, "", {})


def note(x: float, y: float, text: str) -> Mark:
    """A remark."""
    return Mark(lambda axes: axes.text(x, y, text, ha="center", va="center"), "", {})


def density(x: ArrayLike, y: ArrayLike) -> Mark:
    """How many pairs lie in each of 20 x 20 squares of the unit square; stronger is more, and none draws nothing."""
    both = np.column_stack([np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)])
    both = both[np.isfinite(both).all(axis=1)]
    edges = np.linspace(0, 1, 21)
    counts, _, _ = np.histogram2d(both[:, 0], both[:, 1], bins=(edges, edges))

    def draw(axes: Any) -> None:
        from matplotlib.colors import LinearSegmentedColormap, to_rgba

        strength = LinearSegmentedColormap.from_list("", [to_rgba(MARK, 0.15), to_rgba(MARK, 1.0)])
        shown = np.where(counts > 0, counts, np.nan).T
        axes.imshow(shown, origin="lower", extent=(0, 1, 0, 1), cmap=strength, vmin=0)

    return Mark(draw, "", {})


DENSITY_KEY: Key = {
    "few instances": {"facecolor": MARK, "alpha": 0.15},
    "most instances": {"facecolor": MARK},
}
"""Of squares, each panel on a scale of its own."""
