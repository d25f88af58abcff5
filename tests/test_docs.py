"""The codes by which docstrings, metrics and pages name a quantity are explained on one page."""

import ast
import inspect
import re
import runpy
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from doxascope import metrics

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "metrics" / "definitions.md"
SOURCES = ("base", "metrics", "hooks", "probes", "experiments", "configs", "tests", "benchmarks")

NUMBERED = r"[A-GW][0-9]{1,2}[a-z]?\b"
ANY = rf"(?:{NUMBERED}|0\.[0-9]|[A-IW]\b)"
COMMA = r",\s+(?:and\s+)?|\s+and\s+"
RANGE = r"\s+to\s+|-"
LISTED = re.compile(rf"\b{NUMBERED}(?:(?:{COMMA}|{RANGE}){NUMBERED})*")


def cited(text: str) -> set[str]:
    """Codes that follow METRICS, with all that a range such as `B8 to B12` holds."""
    lists = re.findall(rf"METRICS\s+({ANY}(?:(?:{COMMA}|{RANGE}){ANY})*)", text)
    return {code for found in lists for code in expanded(found)}


def expanded(codes: str) -> Iterator[str]:
    """Each code of a list with ranges."""
    for part in re.split(COMMA, codes):
        first, *last = re.split(RANGE, part)
        yield first
        if last:
            assert first[0] == last[0][0], f"a range of two families: {part}"
            yield from (f"{first[0]}{number}" for number in range(int(first[1:]), int(last[0][1:]) + 1))


def strings(files: Iterable[Path]) -> Iterator[str]:
    """Docstrings and other text of Python files."""
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


@pytest.fixture(scope="module")
def defined() -> list[str]:
    return re.findall(rf"^##+ ({ANY}|0) ", PAGE.read_text(), flags=re.MULTILINE)


def test_a_list_of_codes_is_read_with_its_ranges() -> None:
    assert cited("(METRICS A1 to A3)") == {"A1", "A2", "A3"}
    assert cited("METRICS B2, B3 and B8 to\n    B10 per method") == {"B2", "B3", "B8", "B9", "B10"}
    assert cited("(METRICS G1, W1-W3, W5) METRICS A, on the (METRICS 0.1, 0.5)") == {
        *("G1", "W1", "W2", "W3", "W5", "A", "0.1", "0.5"),
    }
    assert cited("METRICS = (drift,)") == set()


def test_every_code_has_one_definition(defined: list[str]) -> None:
    assert len(defined) == len(set(defined))


def test_every_code_that_the_source_cites_is_defined(defined: list[str]) -> None:
    files = [file for folder in SOURCES for kind in ("py", "yaml") for file in (ROOT / folder).rglob(f"*.{kind}")]
    used = {file.relative_to(ROOT): cited(file.read_text()) for file in files if file != Path(__file__)}
    assert sum(map(len, used.values())) > 100
    assert {f"{file}: {code}" for file, codes in used.items() for code in codes if code not in defined} == set()


def test_every_code_that_is_cited_by_itself_is_defined(defined: list[str]) -> None:
    """On a page, in a docstring, or in what `doxascope score --list` prints of a metric."""
    pages = [file.read_text() for file in (ROOT / "docs").rglob("*.md")]
    files = [file for folder in ("metrics", "experiments") for file in (ROOT / folder).rglob("*.py")]
    lists = [found for text in (*pages, *strings(files)) for found in LISTED.findall(text)]
    assert len(lists) > 100
    assert {code for found in lists for code in expanded(found)} - set(defined) == set()


def test_every_function_has_its_place_on_the_page() -> None:
    page = PAGE.read_text()
    functions = [name for name in metrics.__all__ if inspect.isfunction(getattr(metrics, name))]
    assert [name for name in functions if f"`{name}`" not in page] == []


def test_every_link_within_the_pages_leads_somewhere() -> None:
    for file in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", file.read_text()):
            path, _, anchor = target.partition("#")
            page = (file.parent / path).resolve() if path else file
            assert page.exists(), f"{file}: {target}"
            assert not anchor or anchor in anchors(page.read_text()), f"{file}: {target}"


def test_the_index_leads_to_every_page() -> None:
    index = ROOT / "docs" / "README.md"
    targets = re.findall(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)", index.read_text())
    linked = {(index.parent / target).resolve() for target in targets}
    assert {file for file in (ROOT / "docs").rglob("*.md")} - {index} - linked == set()


def anchors(page: str) -> set[str]:
    """What headings are linked by: lower case, hyphens for spaces, no other punctuation."""
    headings = re.findall(r"^#+ (.+)$", page, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_file_for_agents_is_made_from_the_index() -> None:
    module = runpy.run_path(str(ROOT / "benchmarks" / "llms_txt.py"))
    assert module["FILE"].read_text() == module["llms_txt"](), "python benchmarks/llms_txt.py writes it anew"
    named = module["LINK"].findall(module["FILE"].read_text())
    assert len(named) > 40
    assert [place for _, place in named if not (ROOT / place).exists()] == []


def test_no_page_says_what_the_glossary_calls_old() -> None:
    """In prose: names of columns and settings, which are code, stay."""
    glossary = (ROOT / "docs" / "glossary.md").read_text()
    kept, table = glossary.split("## Old terms")
    old = [row.split("|")[1].strip() for row in table.splitlines() if row.startswith("| ")][1:]
    assert len(old) >= 8
    assert not [term for term in old if re.search(rf"^\| {term} \|", kept, flags=re.MULTILINE)]
    said: dict[str, list[str]] = {}
    for file in [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]:
        if file.name == "glossary.md":
            continue
        prose = re.sub(r"```.*?```|`[^`]*`", "", file.read_text(), flags=re.DOTALL)
        prose = re.sub(r"\s+", " ", re.sub(r"\]\([^)]*\)", "]", prose)).lower()
        said[file.name] = [term for term in old if re.search(rf"\b{re.escape(term)}", prose)]
    assert {name: terms for name, terms in said.items() if terms} == {}


def test_every_term_of_the_glossary_is_met_on_a_page() -> None:
    pages = " ".join(
        file.read_text() for file in (ROOT / "docs").rglob("*.md") if file.name not in ("glossary.md", "calibration.md")
    )
    table = (ROOT / "docs" / "glossary.md").read_text().partition("## The papers")[0]
    terms = [row.split("|")[1].strip() for row in table.splitlines() if re.match(r"\| [a-z]", row)]
    plain = re.sub(r"\s+", " ", pages).lower()
    unmet = [term for term in terms if term not in ("term", "old") and term not in plain]
    assert unmet == []
