"""One document, three renderings: what is written once reaches the page, the terminal and the JSON."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from doxascope import UserError
from doxascope.base.text import UNSEEN, visible
from doxascope.base.version import __version__
from doxascope.experiments.report.cells import score_cell, scored_table
from doxascope.experiments.report.document import (
    Block,
    Cell,
    Coloured,
    Entries,
    Entry,
    Folded,
    Instances,
    Picture,
    Primary,
    Prose,
    Report,
    Stamp,
    TableBlock,
    Top,
    grid,
)
from doxascope.experiments.report.findings import Figure
from doxascope.experiments.report.html import to_html
from doxascope.experiments.report.record import from_json, read, to_json
from doxascope.experiments.report.terminal import to_text
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.folder import RunFolder
from doxascope.experiments.run.runner import report, run
from doxascope.experiments.suite.consistency import page as consistency
from doxascope.metrics import cluster_mean
from doxascope.metrics.number import Number

SETTINGS = ("items=3", "bootstrap_draws=50", "methods={letters: {labels: [A, B, C], forms: ['{option}']}}")
HOSTILE = "<script>alert(1)</script>\x1b[2J\u202e\x9f\ud800`</svg>`"
ASCII = st.text("abcdefgh ", min_size=1, max_size=30).map(str.strip).filter(bool)


def every_kind(text: str) -> list[Block]:
    """A block of each kind, in which `text` is wherever a text may be."""
    figure = Figure(text, "<svg></svg>", text, data=text)
    rows = [[[0], None, 0, [[0, [[0, 0, 1]]]]]]
    return [
        Prose(title=f"Prose {text}", text=text),
        Stamp(title="Stamp", says=text, lines=[(text, text)], note=text),
        Primary(label=text, value=text, lines=[text]),
        grid("Table", [text, (text, text)], [[text, Cell(text, [text], code=True)]], text, notes=[(text, text)]),
        Picture(title="Picture", figure=figure),
        Instances(title="Instances", caption=text, score=text, facets=[text], texts=[text], rows=rows),
        Folded(title="Folded", texts=[(text, text)]),
        Coloured(title="Coloured", first=text, parts=[(text, 0.7, text)]),
        Entries(title="Entries", entries=[Entry(text, "place/report.html", [text], "")]),
    ]


def document(blocks: list[Block], text: str = "a text") -> Report:
    return Report(text, text, Top(said=text, verdict=Stamp(says=text)), blocks, text)


def renderings(whole: Report) -> dict[str, str]:
    """What each renderer makes, with its own escapes undone."""
    return {
        "html": unescape(to_html(whole)),
        "terminal": " ".join(to_text(whole, full=True).split()),
        "json": json.dumps(to_json(whole), ensure_ascii=False),
    }


def test_there_is_a_rendering_of_every_kind_of_block() -> None:
    assert {type(block) for block in every_kind("")} == set(Block.__subclasses__())


@pytest.mark.parametrize("place", range(len(Block.__subclasses__())))
def test_a_change_of_a_block_reaches_page_terminal_and_json(place: int) -> None:
    before, after = (renderings(document([every_kind(word)[place]])) for word in ("xylophone", "zither"))
    for kind, text in after.items():
        assert "xylophone" in before[kind]
        assert "zither" not in before[kind]
        assert "zither" in text
        assert "xylophone" not in text


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory: pytest.TempPathFactory, tiny_folder: Path) -> tuple[RunFolder, Any, Any]:
    experiment, config = load_config("consistency", SETTINGS, str(tiny_folder))
    return run(experiment, config, tmp_path_factory.mktemp("runs")), experiment, config


def told(folder: RunFolder) -> dict[str, str]:
    """The page of a run, its report in the terminal, and its JSON."""
    page, record = ((folder.path / f"report.{end}").read_text() for end in ("html", "json"))
    return {"html": page, "terminal": " ".join(to_text(read(folder.path / "report.json")).split()), "json": record}


def test_one_change_of_a_heading_reaches_page_terminal_and_json(
    whole_run: tuple[RunFolder, Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not any("gain by another name" in text for text in told(whole_run[0]).values())
    renamed = replace(consistency.GAIN, title="gain by another name")
    with monkeypatch.context() as patch:
        patch.setattr(consistency, "COLUMNS", (renamed, *consistency.COLUMNS[1:]))
        report(*whole_run)
        assert all("gain by another name" in text for text in told(whole_run[0]).values())
    report(*whole_run)


def test_the_document_of_a_run_comes_back_from_its_json(whole_run: tuple[RunFolder, Any, Any]) -> None:
    """Page and terminal are made of it again; only drawings are not in it, which lie beside it as files, and links to
    these.
    """
    folder = whole_run[0].path
    stored = json.loads((folder / "report.json").read_text(), parse_constant=pytest.fail)
    again = read(folder / "report.json")
    assert json.loads(json.dumps(to_json(again))) == stored
    assert to_text(from_json(to_json(again)), full=True) == to_text(again, full=True)
    drawn = re.compile(r'(<div class="panels"[^>]*>).*?(</div><figcaption>)', re.DOTALL)
    link = re.compile(r' <a href="figures/[^>]* download>\w+</a>')
    written = link.sub("", (folder / "report.html").read_text())
    page, made = (drawn.sub(r"\1\2", text) for text in (written, to_html(again)))
    assert "<figcaption>" in page
    assert made == page
    assert {path.stem for path in (folder / "figures").glob("*.svg")} == set(again.pictures)


def test_every_number_of_a_table_stands_in_the_json_to_all_digits(whole_run: tuple[RunFolder, Any, Any]) -> None:
    folder = whole_run[0].path
    scores = json.loads((folder / "scores.json").read_text())["scores"]
    by_name = {(row["metric"], row["method"], row["subset"], row["kind"]): row for row in scores}
    stored = read(folder / "report.json")
    cells = [cell for block in stored.blocks if isinstance(block, TableBlock) for row in block.rows for cell in row]
    exact = [cell.score for cell in cells if cell.score]
    assert len(exact) > 5
    for row in exact:
        assert by_name[row["metric"], row["method"], row["subset"], row["kind"]] == row


def test_hostile_text_is_escaped_by_every_renderer() -> None:
    whole = document(every_kind(HOSTILE), HOSTILE)
    page, text, record = to_html(whole), to_text(whole, full=True), json.dumps(to_json(whole), ensure_ascii=False)
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\x1b[2J\\u202e\\x9f" in page
    shown = re.sub(r'<script type="application/json".*?</script>', "", page, flags=re.DOTALL)  # a script reads it
    assert not UNSEEN.search(shown)
    assert not UNSEEN.search(text)
    assert visible(HOSTILE) in text
    assert not UNSEEN.search(record)
    record.encode()
    assert to_json(from_json(to_json(whole))) == to_json(whole)


def test_a_terminal_is_told_the_lead_and_what_is_short_and_the_names_of_the_rest() -> None:
    short = grid("First", ["", "n"], [["a row", "17"]], short=True)
    whole = document([short, Prose(title="Second", text="what is long")])
    text = to_text(whole)
    assert "a row  17" in text
    assert "what is long" not in text
    assert text.endswith("--full prints also: Second")
    assert "what is long" in to_text(whole, full=True)
    assert "--full" not in to_text(whole, full=True)


@given(st.integers(2, 5).flatmap(lambda k: st.lists(st.lists(ASCII, min_size=k, max_size=k), min_size=2, max_size=5)))
def test_a_table_keeps_to_the_width_and_loses_no_cell(rows: list[list[str]]) -> None:
    head, *body = rows
    whole = document([grid("", head, body)])
    for width in (40, 200):
        text = to_text(whole, width, full=True)
        assert max(map(len, text.splitlines())) <= width
        assert all(" ".join(cell.split()) in " ".join(text.split()) for row in body for cell in row)


def test_small_print_of_a_cell_stands_in_a_terminal_in_one_pair_of_brackets() -> None:
    rows = [["a", Cell("–", ["(never after)"], known=False), Cell("1", ["left alone"], known=True)]]
    shown = to_text(document([grid("T", ["", "x", "y"], rows, "C", short=True)]))
    assert "– (never after)" in shown
    assert "1 (left alone)" in shown


def test_one_change_of_version_is_told_beside_the_tables(
    whole_run: tuple[RunFolder, Any, Any], command_line: Any, tmp_path: Path
) -> None:
    """Scores without the version that wrote them, or with another, may lack what a table holds today."""
    copy = Path(shutil.copytree(whole_run[0].path, tmp_path / "run"))
    stored = json.loads((copy / "scores.json").read_text())
    expected = {__version__: 0, "0.0.1": 1, None: 1}
    for version, n in expected.items():
        data = {**stored, "doxascope": version} if version else {k: x for k, x in stored.items() if k != "doxascope"}
        (copy / "scores.json").write_text(json.dumps(data))
        done = command_line("tables", "run", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        line = "run: scored by an earlier version of doxascope: `doxascope report run` scores it anew"
        assert done.stdout.splitlines().count(line) == n


def test_a_scored_table_says_why_a_number_is_not_there() -> None:
    known = Number(metric="a", method="m", score=cluster_mean(np.linspace(0.1, 0.3, 12), range(12)))
    unknown = replace(known, metric="b", score=cluster_mean([np.nan] * 3, range(3)))
    why = unknown.score.status.replace("_", " ")
    whole = document([scored_table([known, unknown], lambda _: (), title="Numbers")])
    assert f"1 row without a number: {why}" in to_text(replace(whole, blocks=[replace(whole.blocks[0], short=True)]))
    assert f"1 row without a number: {why}" in to_html(whole)
    first, second = (row[1]["score"] for row in to_json(whole)["blocks"][0]["rows"])
    assert (first["estimate"], first["ci_lo"]) == (known.score.estimate, known.score.ci_lo)
    assert (second["estimate"], second["status"]) == (None, unknown.score.status)
    assert score_cell(known).score == first


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data.pop("top"),
        lambda data: data["blocks"].append({"kind": "unheard of"}),
        lambda data: data["blocks"].append({"kind": "table", "head": [["a", ""]], "rows": [[]]}),
        lambda data: data["blocks"].append({"kind": "prose"}),
    ],
)
def test_a_damaged_report_is_refused_in_a_line(damage: Callable[[Any], Any], tmp_path: Path) -> None:
    data = to_json(document(every_kind("a text")))
    damage(data)
    (tmp_path / "report.json").write_text(json.dumps(data))
    with pytest.raises(UserError, match=r"report\.json: holds no report") as refused:
        read(tmp_path / "report.json")
    assert "\n" not in str(refused.value)


def test_a_notebook_shows_a_figure_as_an_image_in_which_no_script_runs() -> None:
    shown = Figure("t", '<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"></svg>')._repr_html_()
    assert shown.startswith("<img ")
    assert "onload" not in shown
