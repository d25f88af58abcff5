"""One look for all figures: small panels in rows, as SVG that is the same bytes for the same data, whole or panel by
panel; as PDF, and what is drawn as CSV.

Figures are drawn on nothing, in the colour of the text around them, so that a page may be light or dark.
"""

import contextlib
import csv
import hashlib
import io
import re
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from ...base.text import visible
from .findings import Figure

INK = "#22262b"
"""What is drawn in it takes the colour of the text around it, so that a page may be light or dark."""
DECIMALS = 2
"""Of coordinates, in points."""
FONT = "'DejaVu Sans', sans-serif"
SPACES = ' xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
"""What a file needs and a page does not."""
HEADER = f'<svg{SPACES} style="font-family:{FONT}"'
Box = tuple[float, float, float, float]
"""Left, top, width, height, in points."""


def raw_svg(figure: Any) -> str:
    """As matplotlib writes it, without what differs from day to day."""
    buffer = io.StringIO()
    with _any_glyphs():
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = visible(buffer.getvalue()).replace(INK, "currentColor")
    return text[text.index("<svg") :]


def pdf(figure: Any) -> bytes:
    """The same bytes for the same figure."""
    buffer = io.BytesIO()
    with _any_glyphs():
        figure.savefig(buffer, format="pdf", metadata={"CreationDate": None, "Creator": None, "Producer": None})
    return buffer.getvalue()


@contextlib.contextmanager
def _any_glyphs() -> Iterator[None]:
    """No warning of glyphs that the font lacks: SVG holds text, which who reads it has fonts for; PDF draws a box."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph .* missing from", UserWarning)
        yield


def small(raw: str) -> str:
    """The same drawing in fewer bytes: coordinates to a hundredth of a point, no names that nothing refers to."""
    size = re.search(r'width="([\d.]+)pt" height="([\d.]+)pt"', raw)
    assert size is not None
    return _element(_content(raw), (0.0, 0.0, float(size[1]), float(size[2])))


def panels(raw: str, boxes: Sequence[Box]) -> list[str]:
    """A drawing for each pair of axes, cut out by its box; together they are the whole, and belong on one page."""
    content = _content(raw)
    starts = [match.start() for match in re.finditer(r"<!axes>", content)]
    ends = [*starts[1:], content.index("<!end>")]
    after = content[ends[-1] :]
    parts = [content[start:end] for start, end in zip(starts, ends, strict=True)]
    parts[0] = content[: starts[0]] + parts[0] + after
    return [_element(part, box) for part, box in zip(parts, boxes, strict=True)]


def _element(content: str, box: Box) -> str:
    x, y, width, height = (_number(value) for value in box)
    inner = re.sub("<!(axes|end)>", "", content)
    return f'{HEADER} width="{width}pt" height="{height}pt" viewBox="{x} {y} {width} {height}">{inner}</svg>'


def _content(raw: str) -> str:
    """What stands within the element, with a mark before each pair of axes and behind the last."""
    inner = raw[raw.index(">") + 1 : raw.rindex("</svg>")]
    inner = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", inner, flags=re.DOTALL)
    inner = re.sub(r'^  <g id="axes_\d+">', "<!axes>\\g<0>", inner, flags=re.MULTILINE)
    inner = re.sub(r"^ </g>$", "<!end>\\g<0>", inner, count=1, flags=re.MULTILINE)
    inner = re.sub(r">\s+<", "><", inner).strip()
    inner = re.sub(r"<[a-z][^>]*>", lambda tag: _short(tag[0]), inner)
    inner = re.sub(r'(<g[^>]*)>((?:<use [^>]*? style="([^"]*)"/>)(?:<use [^>]*? style="\3"/>)+)</g>', _hoisted, inner)
    return _renamed(inner)


def _short(tag: str) -> str:
    tag = re.sub(r"-?\d+\.\d{3,}", lambda found: _number(float(found[0])), " ".join(tag.split()))
    tag = re.sub(r' transform="rotate\(-?0 [^"]*"', "", tag).replace(": ", ":").replace("; ", ";")
    return tag.replace(f"font-family:{FONT};", "")


def _number(value: float) -> str:
    text = f"{value:.{DECIMALS}f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _hoisted(group: re.Match[str]) -> str:
    """Marks of one style, which is said once."""
    style = f' style="{group[3]}"'
    return f"{group[1]}{style}>{group[2].replace(style, '')}</g>"


def _renamed(content: str) -> str:
    """Short names that no other drawing of a page has, for what is referred to; groups without a name dissolve."""
    used = dict.fromkeys(match for tag in re.findall(r"<[a-z][^>]*>", content) for match in REFERENCE.findall(tag))
    mark = hashlib.sha256(content.encode()).hexdigest()[:6]
    names = {name: f"d{mark}-{i}" for i, (_, name) in enumerate(used)}

    def renamed(tag: str) -> str:
        tag = re.sub(r' id="([^"]*)"', lambda match: f' id="{names[match[1]]}"' if match[1] in names else "", tag)
        return REFERENCE.sub(lambda match: match[1] + names[match[2]], tag)

    content = re.sub(r"<[a-z][^>]*>", lambda tag: renamed(tag[0]), content)
    return re.sub(r"<defs></defs>|<g></g>", "", content)


REFERENCE = re.compile(r"(url\(#|href=\"#)([^)\"]+)")
COLUMNS = ("panel", "mark", "series", "x", "y", "x2", "y2", "value")


def data(figure: Any) -> str:
    """What is drawn, as CSV: a row for each point, end of a line, bar, cell of an image and label, in the units of its
    axes. Of a bar and of a band `x2` and `y2` are the other end; of a cell `value` is what its colour says.
    """
    written = io.StringIO()
    rows = csv.writer(written, lineterminator="\n")
    rows.writerow(COLUMNS)
    for axes in figure.axes:
        rows.writerows((axes.get_title("left").replace("\n", " "), *row) for row in _drawn(axes))
    return visible(written.getvalue())


def _drawn(axes: Any) -> Iterator[tuple[Any, ...]]:
    for artist in axes.lines:
        mark = "point" if artist.get_linestyle() == "None" else "line"
        yield from _points(
            mark, artist, zip(np.atleast_1d(artist.get_xdata()), np.atleast_1d(artist.get_ydata()), strict=True)
        )
    for artist in axes.collections:
        yield from _collected(artist)
    for artist in axes.patches:
        if hasattr(artist, "get_width"):
            (x, y), wide, high = artist.get_xy(), artist.get_width(), artist.get_height()
            yield ("bar", _name(artist), *map(_told, (x, y, x + wide, y + high)), "")
        else:
            yield from _points("line", artist, artist.get_path().vertices)
    for image in axes.images:
        yield from _cells(image)
    for artist in axes.texts:
        yield ("label", artist.get_text().replace("\n", " "), *map(_told, artist.get_position()), "", "", "")


def _points(mark: str, artist: Any, places: Any) -> Iterator[tuple[Any, ...]]:
    yield from ((mark, _name(artist), _told(x), _told(y), "", "", "") for x, y in places)


def _collected(artist: Any) -> Iterator[tuple[Any, ...]]:
    """Dots by their places; bands and lines by their corners."""
    from matplotlib.collections import PathCollection

    if isinstance(artist, PathCollection):
        yield from _points("point", artist, np.ma.filled(np.ma.asarray(artist.get_offsets(), dtype=float), np.nan))
    else:
        for path in artist.get_paths():
            yield from _points("band", artist, path.vertices)


def _cells(image: Any) -> Iterator[tuple[Any, ...]]:
    grid = np.ma.filled(np.ma.asarray(image.get_array(), dtype=float), np.nan)
    left, right, bottom, top = image.get_extent()
    upward = image.origin == "lower"
    width, height = (right - left) / grid.shape[1], (top - bottom) / grid.shape[0] * (1 if upward else -1)
    for (i, j), value in np.ndenumerate(grid):
        if np.isfinite(value):
            x, y = left + j * width, (bottom if upward else top) + i * height
            yield ("cell", "", *map(_told, (x, y, x + width, y + height, value)))


def _name(artist: Any) -> str:
    label = str(artist.get_label())
    return "" if label.startswith("_") else label


def _told(value: Any) -> str:
    return f"{float(value):.8g}" if np.isfinite(value) else ""


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
    "axes.titley": 1.0,  # where it is anyway, but matplotlib would look for what stands above the axes
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
        columns: most panels beside each other.
        side: width and height of the axes, in inches.
        left: inches that are left free for what stands left of the axes.
        key: label -> how its mark is drawn.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    titles = [textwrap.wrap(title, int(TITLE_LETTERS * side[0] / SIDE)) or [""] for title, _ in titled]
    below, above = BELOW, ABOVE * max(map(len, titles))
    n = len(titled) + (key is not None)
    columns = min(columns, n)
    high = below + side[1] + above
    height = high * -(-n // columns)
    boxes: list[Box] = []
    with mpl.rc_context(STYLE):
        figure = Canvas(figsize=(columns * (left + side[0] + RIGHT), height))
        share = (side[0] / figure.get_figwidth(), side[1] / height)
        every = [figure.add_axes((0, 0, *share), label=str(i)) for i in range(n)]
        for axes, (_, data), title in zip(every, titled, titles, strict=False):
            draw(axes, data)
            axes.set_title("\n".join(title), loc="left")
        over_left, over_right = _overhang(every[: len(titled)])
        left = max(left, over_left)
        wide = left + side[0] + max(RIGHT, over_right)
        width = wide * columns
        figure.set_figwidth(width)
        for i, axes in enumerate(every):
            x, y = wide * (i % columns), high * (i // columns)
            axes.set_position(((x + left) / width, 1 - (y + high - below) / height, side[0] / width, side[1] / height))
            tall = high
            if key is not None and i == len(titled):
                tall = min(high, above + (_draw_key(axes, key) + UNDER_KEY) / 72)
            boxes.append((72 * x, 72 * y, 72 * wide, 72 * tall))
    return figure, boxes


def _overhang(every: Sequence[Any]) -> tuple[float, float]:
    """How far labels of the horizontal axes stand out beside them, left and right, in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    over = [(0.0, 0.0)]
    for axes in every:
        renderer, box = FigureCanvasAgg(axes.figure).get_renderer(), axes.get_window_extent()
        lo, hi = sorted(axes.get_xlim())
        for label in axes.get_xticklabels():
            if label.get_visible() and label.get_text() and lo <= label.get_position()[0] <= hi:
                seen = label.get_window_extent(renderer)
                over.append((box.x0 - seen.x0, seen.x1 - box.x1))
    lefts, rights = zip(*over, strict=True)
    return max(lefts) / every[0].figure.dpi, max(rights) / every[0].figure.dpi


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
    """A matplotlib figure as a page and files have it; panels with boxes stand side by side where there is room."""
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        raw = raw_svg(figure)
        return Figure(title, small(raw), caption, tuple(panels(raw, boxes)) if boxes else (), pdf(figure), data(figure))
