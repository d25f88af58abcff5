"""What every page keeps: it can be read without eyes, on a telephone, without a network, and as files."""

import csv
import json
import os
import re
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from doxascope.base.files import OutputFolder
from doxascope.base.text import UNSEEN, visible
from doxascope.experiments.compare import compare
from doxascope.experiments.compare.page import page
from doxascope.experiments.report import html
from doxascope.experiments.report.document import Cell, Picture, Prose, Report, TableBlock, Top
from doxascope.experiments.report.figures import MARKED, forest
from doxascope.experiments.report.html import _marked, to_html
from doxascope.experiments.report.plotting import figure_of_panels, panel_figure
from doxascope.experiments.report.score_files import prepare, write
from doxascope.experiments.run.config import load_config, stored_config
from doxascope.experiments.run.folder import RunFolder
from doxascope.experiments.run.pages import INDEX, index_page
from doxascope.experiments.run.runner import report, run
from doxascope.metrics import cluster_mean
from doxascope.metrics.scoring.engine import score_table

BEGINS = {"svg": ["title", "desc"], "details": ["summary"], "fieldset": ["legend"]}
"""What has to come first in an element."""
KINDS = ("score", "compare", "run", "index")
WIDTHS, HEIGHT = (390, 1280), 844
SETTINGS = ("items=3", "bootstrap_draws=50", "methods={letters: {labels: [A, B, C], forms: ['{option}']}}")


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory, tiny_folder: Path) -> dict[str, Path]:
    """Kind of page -> its file: of a table, of two tables, of a tiny run, and of a folder of runs."""
    out = tmp_path_factory.mktemp("pages")
    tables = [_table(out / f"{name}.csv", seed) for seed, name in enumerate(("mine", "theirs"))]
    write(prepare(out / "score"), score_table(tables[0]), {"seed": 0})
    (out / "compare").mkdir()
    html.write(OutputFolder(out / "compare"), page(compare(*tables), {}))
    experiment, config = load_config("consistency", SETTINGS, str(tiny_folder))
    folder = run(experiment, config, out / "runs")
    RunFolder(out / "runs").write(INDEX, to_html(index_page(out / "runs")))
    found = {name: out / name / "report.html" for name in ("score", "compare")}
    return found | {"run": folder.path / "report.html", "index": out / "runs" / INDEX}


def _table(path: Path, seed: int) -> Path:
    prior, posterior = np.random.default_rng(seed).random((2, 40))
    rows = [f"a question of a long name {i},{p:.3f},{prior[i]:.3f},{i % 2}" for i, p in enumerate(posterior)]
    path.write_text("\n".join(["question,prior,posterior,outcome", *rows]) + "\n")
    return path


@pytest.fixture(scope="module")
def pages(places: dict[str, Path]) -> dict[str, str]:
    return {name: path.read_text(encoding="utf-8") for name, path in places.items()}


class _Reader(HTMLParser):
    """What a reader who does not see a page is told of it, and what is wrong with that."""

    VOID = frozenset({"meta", "input", "img", "br", "link", "hr"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.faults: list[str] = []
        self.ids: list[str] = []
        self.headings: list[int] = []
        self.links: set[str] = set()
        self.named: set[str] = set()
        self.found: Counter[str] = Counter()
        self.expected: list[str] = []
        """What has to come next within the innermost element."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        own = dict(attrs)
        self.found[tag] += 1
        if self.expected and tag != self.expected[0]:
            self.faults.append(f"<{tag}> where <{self.expected[0]}> is expected")
        self.expected = self.expected[1:]
        self.ids += [str(own["id"])] if "id" in own else []
        self.named |= {str(own[key]) for key in ("aria-labelledby", "aria-describedby") if key in own}
        if tag == "a":
            self.links.add(str(own.get("href", "")))
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append(int(tag[1]))
        self.expected = {"svg": ["title", "desc"], "details": ["summary"], "fieldset": ["legend"]}.get(
            tag, self.expected
        )
        wants = {"th": "scope", "img": "alt", "html": "lang", "svg": "role"}
        if tag in wants and not own.get(wants[tag]):
            self.faults.append(f"<{tag}> without {wants[tag]}")
        if tag in ("input", "select") and "label" not in self.open:
            self.faults.append(f"<{tag}> without a label")
        if tag == "nav" and not {"aria-label", "aria-labelledby"} & own.keys():
            self.faults.append("<nav> without a name")
        if own.get("role") == "region" and not own.get("aria-label"):
            self.faults.append("a region without a name")
        if tag == "table" and "tabindex" not in (self.attributes or {}):
            self.faults.append("a table that scrolls and takes no focus")
        self.attributes = own
        if tag not in self.VOID:
            self.open.append(tag)

    attributes: dict[str, str | None] | None = None

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            while self.open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("th", "title", "summary", "button") and not data.strip():
            self.faults.append(f"an empty <{self.open[-1]}>")

    @property
    def all_faults(self) -> list[str]:
        """With those of the page as a whole."""
        ids = Counter(self.ids)
        lost = {link for link in self.links if link.startswith("#")} - {f"#{name}" for name in ids}
        jumps = [f"h{one} before h{two}" for one, two in pairwise(self.headings) if two > one + 1]
        once = [f"{self.found[tag]} <{tag}>" for tag in ("main", "h1", "title") if not self.found[tag]]
        several = [f"{self.found[tag]} <{tag}>" for tag in ("main", "h1") if self.found[tag] > 1]
        twice = [f"id {name} twice" for name, n in ids.items() if n > 1]
        nameless = [f"no element {name}" for name in self.named - ids.keys()]
        first = [] if self.headings[:1] == [1] else ["the first heading is no h1"]
        return [*self.faults, *map(str, lost), *jumps, *once, *several, *twice, *nameless, *first]


def faults(page: str) -> list[str]:
    reader = _Reader()
    reader.feed(page)
    return reader.all_faults


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_can_be_read_without_eyes(pages: dict[str, str], kind: str) -> None:
    assert faults(pages[kind]) == []


def test_the_reading_without_eyes_finds_what_is_wrong() -> None:
    page = (
        '<html><title>t</title><body><main><h1>a</h1><h3>b</h3><a href="#gone">x</a><table><tr><th>c</th></tr></table>'
        '<svg><path/></svg><input><p id="a"></p><p id="a"></p></main></body></html>'
    )
    found = " ".join(faults(page))
    for said in ("<html> without lang", "h1 before h3", "#gone", "<th> without scope", "<svg> without role",
                 "<title> is expected", "<input> without a label", "id a twice", "takes no focus"):  # fmt: skip
        assert said in found


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_shows_some_sixty_numbers_at_most_and_says_where_the_others_are(
    pages: dict[str, str], numbers_shown: Callable[[str], Counter[str]], kind: str
) -> None:
    found = numbers_shown(pages[kind])
    assert 0 < found["shown"] <= 65
    assert kind == "index" or (found["folded"] and "Contents" in pages[kind])


def luminance(colour: str) -> float:
    """Relative, as WCAG 2.2 defines it."""
    full = "".join(letter * 2 for letter in colour) if len(colour) == 3 else colour
    parts = [int(full[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", [0, 1])
def test_text_stands_out_from_the_page_in_both_themes(pages: dict[str, str], theme: int) -> None:
    blocks = re.findall(r":root \{([^}]*)\}", pages["score"])
    colours = dict(re.findall(r"--(\w+): #([0-9a-f]+)", blocks[theme]))
    assert len(blocks) == 2
    for ink in ("ink", "soft", "mark", "alarm"):
        for paper in ("page", "wash"):
            high, low = sorted((luminance(colours[ink]), luminance(colours[paper])), reverse=True)
            assert (high + 0.05) / (low + 0.05) >= 4.5, (ink, paper)


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_asks_nothing_of_a_network(pages: dict[str, str], kind: str) -> None:
    text = pages[kind]
    links = re.findall(r"(?:href|src)=\"([^\"#][^\"]*)\"", text)
    assert not [link for link in links if re.match(r"[a-z]+:", link) and not link.startswith("data:image/")]
    assert not re.search(r"@import|url\((?!#)|<link|<iframe", text)


def test_an_index_says_what_each_report_leads_with(places: dict[str, Path], pages: dict[str, str]) -> None:
    lead = json.loads((places["run"].parent / "scores.json").read_text())["lead"]
    assert lead["verdict"] in pages["index"]
    assert f"({lead['registered']['metric']}) of {lead['registered']['method']}" in pages["index"]


@pytest.mark.parametrize("kind", ["score", "compare", "run"])
def test_figures_lie_beside_the_page_as_drawings_and_as_numbers(places: dict[str, Path], kind: str) -> None:
    folder = places[kind].parent / "figures"
    stems = {path.stem for path in folder.iterdir()}
    assert stems
    for stem in stems:
        assert (folder / f"{stem}.svg").read_text().startswith("<svg")
        assert (folder / f"{stem}.pdf").read_bytes().startswith(b"%PDF")
        rows = list(csv.DictReader((folder / f"{stem}.csv").open()))
        assert {row["mark"] for row in rows} <= {"point", "line", "band", "bar", "cell", "label"}
        assert all(np.isfinite(float(row["x"])) for row in rows if row["x"])
    assert any(stem.startswith("01-") for stem in stems)


def test_a_figure_holds_the_numbers_that_the_page_prints(places: dict[str, Path]) -> None:
    scores = json.loads((places["score"].parent / "scores.json").read_text())["scores"]
    (lead,) = (places["score"].parent / "figures").glob("01-*.csv")
    points = [float(row["x"]) for row in csv.DictReader(lead.open()) if row["mark"] == "point"]
    assert any(abs(points[0] - row["estimate"]) < 1e-7 for row in scores if row["estimate"] is not None)


def test_the_same_run_makes_the_same_page_and_figures_and_old_ones_go(places: dict[str, Path]) -> None:
    folder = RunFolder.open(places["run"].parent)
    before = {path.name: path.read_bytes() for path in (folder.path / "figures").iterdir()}
    page = places["run"].read_bytes()
    (folder.path / "figures" / "99-old.svg").write_text("<svg/>")
    (folder.path / "figures" / "mine.svg").write_text("<svg/>")
    report(folder, *stored_config(folder.config))
    assert places["run"].read_bytes() == page
    assert (folder.path / "figures" / "mine.svg").exists()
    (folder.path / "figures" / "mine.svg").unlink()
    assert {path.name: path.read_bytes() for path in (folder.path / "figures").iterdir()} == before


def test_what_was_said_stands_in_the_page_once(pages: dict[str, str]) -> None:
    found = re.search(r'<script type="application/json" id="instances-data">(.*?)</script>', pages["run"], re.DOTALL)
    assert found is not None
    data = json.loads(found[1])
    assert len(data["texts"]) == len(set(data["texts"]))
    assert data["rows"]
    for facets, _, facts, conversations in data["rows"]:
        assert all(data["texts"][i] for i in (*facets, facts))
        assert conversations


HARNESS = """<!doctype html><body><script>const pages = %s;</script><pre id="found"></pre><script>
(async () => {
  const found = {};
  for (const [name, text] of Object.entries(pages)) for (const width of %s) {
    const frame = document.createElement("iframe");
    frame.style = `width:${width}px;height:900px;border:0`;
    frame.srcdoc = text;
    await new Promise((done) => { frame.onload = done; document.body.append(frame); });
    const inner = frame.contentDocument;
    const lead = [...inner.querySelectorAll(".lead svg")].map((one) => one.getBoundingClientRect());
    const figure = lead.length ? [Math.max(...lead.map((one) => one.right)) - lead[0].left, lead[0].bottom] : null;
    for (const one of inner.querySelectorAll("details")) one.open = true;
    const root = inner.documentElement;
    const wide = [...inner.querySelectorAll("main *")].filter((one) => one.getBoundingClientRect().right > width + 1
      && !one.closest(".scroll, .panels, pre, nav"));
    const cut = [...inner.querySelectorAll(".scroll")].filter((one) => one.scrollWidth > one.clientWidth + 1);
    const own = { figure, wide: root.scrollWidth, cut: cut.map((one) => one.getAttribute("aria-label")),
      which: wide.slice(0, 5).map((one) => one.outerHTML.slice(0, 120)),
      tools: inner.querySelectorAll(".tools").length, tables: inner.querySelectorAll(".scroll > table").length,
      instances: inner.querySelectorAll("#instances > details").length, axe: [] };
    if (frame.contentWindow.axe) {
      const result = await frame.contentWindow.axe.run(inner);
      own.axe = result.violations.map((one) => `${one.id}: ${one.nodes[0].html}`);
    }
    found[`${name} ${width}`] = own;
    frame.remove();
  }
  document.querySelector("#found").textContent = JSON.stringify(found);
})();
</script></body>"""


@pytest.fixture(scope="module")
def browsed(pages: dict[str, str], browse: Callable[[str], str]) -> dict[str, Any]:
    """What a browser makes of each page at each width, everything unfolded."""
    axe = Path(os.environ["DOXASCOPE_AXE"]).read_text(encoding="utf-8") if "DOXASCOPE_AXE" in os.environ else ""
    policy = r'<meta http-equiv="Content-Security-Policy"[^>]*>'  # which lets axe not run
    script = f"<script>{axe}</script>"
    shown = {name: re.sub(policy, lambda _: script, text) for name, text in pages.items()} if axe else pages
    told = json.dumps(shown).replace("<", "\\u003c")
    found = re.search(r'<pre id="found">(.*?)</pre>', browse(HARNESS % (told, list(WIDTHS))), re.DOTALL)
    assert found is not None
    return json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_page_is_no_wider_than_its_window(browsed: dict[str, Any], kind: str, width: int) -> None:
    found = browsed[f"{kind} {width}"]
    assert found["wide"] <= width
    assert found["which"] == []
    assert found["tools"] == found["tables"]
    assert (found["instances"] > 0) == (kind == "run")


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_folds_into_seven_parts_at_most(pages: dict[str, str], kind: str) -> None:
    text = pages[kind]
    assert text.count('<details class="section"') - text.count("<!-- part gate -->") <= 7


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", ["score", "compare", "run"])
def test_the_figure_stands_in_the_first_screen_and_is_half_as_wide_as_the_page(
    browsed: dict[str, Any], kind: str, width: int
) -> None:
    wide, bottom = browsed[f"{kind} {width}"]["figure"]
    assert wide >= width / 2
    assert bottom <= HEIGHT


@pytest.mark.parametrize("kind", KINDS)
def test_on_a_telephone_no_number_is_cut_off(browsed: dict[str, Any], kind: str) -> None:
    """Tables of many columns, a comparison has nine, are shown row by row."""
    assert browsed[f"{kind} {WIDTHS[0]}"]["cut"] == []


@pytest.mark.skipif("DOXASCOPE_AXE" not in os.environ, reason="DOXASCOPE_AXE names no axe.min.js of axe-core")
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_axe_finds_no_violation(browsed: dict[str, Any], kind: str, width: int) -> None:
    assert browsed[f"{kind} {width}"]["axe"] == []


def test_a_label_longer_than_its_figure_is_wrapped_and_no_line_runs_through_it() -> None:
    score = cluster_mean(np.linspace(0.1, 0.3, 12), range(12))
    name = "smollm2-135m, system #e27d9a, n 200 - smollm2-135m, system none, n 200"
    found = forest("A figure", [(name, score, False), ("short", score, False)], "axis", "Caption.", reference=0)
    assert found is not None
    lines = [line for line in re.findall(r">([^<>]+)</t", found.svg) if line.strip() and line.strip() in name]
    assert len(lines) > 1
    assert " ".join(line.strip() for line in lines) == name


def test_an_interval_of_thousands_leaves_its_estimate_in_sight() -> None:
    wide = replace(cluster_mean(np.linspace(0.1, 0.3, 12), range(12)), ci_lo=-5000.0)
    near = replace(wide, ci_lo=-3.0)
    ticks = {}
    for name, score in (("wide", wide), ("near", near)):
        found = forest("A figure", [("a", score, False), ("b", near, False)], "axis", "Caption.", reference=0)
        assert found is not None
        numbers = re.findall(r">([−-]?[\d.]+)</t", found.svg)
        ticks[name] = [float(number.replace("−", "-")) for number in numbers]
        assert f",{score.ci_lo:g}," in found.data
    assert min(ticks["wide"]) > -10
    assert min(ticks["near"]) >= -3.5


def test_backticks_are_code_and_what_is_between_stays_escaped() -> None:
    assert _marked("in the orders `latin<b>` of") == "in the orders <code>latin&lt;b&gt;</code> of"
    assert not UNSEEN.search(_marked("`a\x07`"))


def test_every_mark_that_turns_the_direction_of_text_is_shown_as_what_it_is() -> None:
    """Reference: the classes and the names of Unicode's own table."""
    turning = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    every = [chr(i) for i in range(0x110000)]
    marks = [c for c in every if unicodedata.bidirectional(c) in turning]
    marks += [unicodedata.lookup(f"{name} MARK") for name in ("LEFT-TO-RIGHT", "RIGHT-TO-LEFT", "ARABIC LETTER")]
    assert len(marks) == 12
    assert all(visible(mark).isascii() for mark in marks)


def test_a_row_whose_cells_have_no_names_is_refused() -> None:
    with pytest.raises(ValueError, match="mine: 2 cells under 1 headings"):
        TableBlock(name="mine", head=[("a", "")], rows=[[Cell("1"), Cell("2")]])


@pytest.mark.parametrize("n", [1, 2, 4])
def test_a_key_is_as_high_as_its_lines_and_leaves_no_gap_below_them(n: int) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    key = {f"{i}: a label of so many words that it takes two lines": MARKED for i in range(n)}
    figure, boxes = figure_of_panels([("panel", 1.0)], lambda axes, y: axes.plot([0, 1], [y, y]), key=key)
    drawn = figure.axes[-1].get_legend().get_window_extent(FigureCanvasAgg(figure).get_renderer())
    _, y, _, height = boxes[-1]
    top, bottom = (72 * (figure.get_figheight() - end / figure.dpi) for end in (drawn.y1, drawn.y0))
    assert y <= top < bottom <= y + height
    assert y + height - bottom < 24  # points: two lines


def test_a_name_of_any_characters_is_drawn_without_a_warning_and_is_xml() -> None:
    name = "\u4e2d\u6587 \x1b[2J\x07"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one = panel_figure(name, [(name, 1.0)], lambda axes, y: axes.plot([0, 1], [y, y], label=name), name)
    assert "\u4e2d\u6587 \\x1b[2J\\x07" in "".join(ElementTree.fromstring(one.svg).itertext())
    assert not UNSEEN.search(one.svg + one.data)
    document = Report(name, name, Top(said=name, verdict=Prose(text=name)), (Picture(title=name, figure=one),))
    assert not UNSEEN.search(to_html(document))


def test_no_label_of_an_axis_is_cut_off() -> None:
    """A tick at the very end, whose label is wider than what is usually left free beside the axes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    def draw(axes: Any, end: float) -> None:
        axes.set_xlim(end, -end)
        axes.set_xticks([end, -end])

    figure, boxes = figure_of_panels([("one", -0.07525), ("two", -1.0)], draw, left=0.15)
    for axes, (x, _, width, _) in zip(figure.axes, boxes, strict=True):
        for label in axes.get_xticklabels():
            seen = label.get_window_extent(FigureCanvasAgg(figure).get_renderer())
            assert x - 0.1 <= 72 * seen.x0 / figure.dpi
            assert 72 * seen.x1 / figure.dpi <= x + width + 0.1
