"""Files of questions, worlds and probes that could be taken for something else: each is refused in a line, and soon."""

import gzip
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from doxascope import Item, RunConfig, UserError
from doxascope.base.documents import read_csv, read_text
from doxascope.base.files import sealed, unsealed
from doxascope.base.settings import check_placeholders
from doxascope.experiments.materials.choices.sources import ChoiceSource, load_csqa, load_hle, load_mmlu, load_plain
from doxascope.experiments.materials.choices.tables import AskedSource
from doxascope.experiments.materials.worlds.networks import parse_bif
from doxascope.experiments.materials.worlds.source import WorldSource, load_world
from doxascope.experiments.run.experiment import items_of
from doxascope.experiments.suite.truth import Truth
from doxascope.probes import Probe
from doxascope.probes.estimators import LinearReadout
from doxascope.probes.probe import ProbeMeta

ASKED = {"question": "q", "choices": ["a", "b"]}
LETTERS = {"question": "q\nA. a\nB. b"}
OWN = "- question: q\n  options: {}\n  category: easy\n"
FILES: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "no answer": (load_mmlu, json.dumps({**ASKED, "answer": -1}), "answer -1 is the number of none"),
    "a truth value": (load_mmlu, json.dumps({**ASKED, "answer": True}), "answer True is the number of none"),
    "a word for a list": (load_mmlu, json.dumps({**ASKED, "choices": "ab", "answer": 0}), "'ab' are no list"),
    "no letter": (load_hle, json.dumps({**LETTERS, "answer": ""}), "answer '' is the letter of none"),
    "words for lists": (
        load_csqa,
        json.dumps({"question": "q", "choices": {"label": "AB", "text": "xy"}, "answerKey": "A"}),
        "are no two lists",
    ),
    "a word for texts": (
        lambda path: AskedSource(file=str(path.rename(path.with_suffix(".jsonl")))).questions(),
        json.dumps({"question": "q", "options": {"label": ["A", "B"], "text": "xy"}, "answer": "A"}),
        "`text` and `label` are no lists",
    ),
    "a key twice": (load_mmlu, '{"question": "q", "question": "r", "choices": ["a", "b"], "answer": 0}', "twice"),
    "yes and no": (load_plain, OWN.format("[yes, no]"), "option True is no text; quote it"),
    "one option": (load_plain, OWN.format("abc"), "options 'abc'; give a list"),
    "an alias of itself": (load_plain, "- &a [*a]", "holds itself"),
    "long rows": (read_csv, "a,b\n1,2,3\n1,2,3\n", "row 1 has 3 fields, the first line 2"),
    "short rows": (read_csv, "a,b\n1,2\n1\n", "row 2 has 1 fields, the first line 2"),
    "a column twice": (read_csv, "a,a\n1,2\n", "two columns 'a'"),
    "a zero byte": (read_csv, "a,b\n1\0,2\n", "holds a zero byte"),
}


@pytest.mark.parametrize("name", FILES)
def test_what_could_be_taken_for_something_else_is_named(name: str, tmp_path: Path) -> None:
    load, text, told = FILES[name]
    path = tmp_path / "file"
    path.write_text(text)
    with pytest.raises(UserError, match=told) as error:
        load(path)
    assert str(path) in str(error.value)


A, B = (f"variable {name} {{ type discrete [ 2 ] {{ yes, no }}; }}\n" for name in "ab")
P = "probability ( a ) { table 0.5, 0.5; }\n"
ROWS = "probability ( b | a ) {{ (yes) 0.5, 0.5; {} }}"
MANY = [f"v{i}" for i in range(100)]
SIZE = 10**6
NETWORKS = {
    "a row twice": (A + B + P + ROWS.format("(yes) 0.1, 0.9; (no) 0.2, 0.8;"), "row of 'yes' is there twice"),
    "a table twice": (A + P + P, "probability of 'a' is there twice"),
    "no semicolon": (A + B + P + ROWS.format("(no) 0.2, 0.8"), "does not end in a semicolon"),
    "a parent twice": (
        A + B + P + "probability ( b | a, a ) { default 0.5, 0.5; }",
        "variable 'b' has a parent twice: a, a",
    ),
    "a cycle": (
        A + B + "probability ( a | b ) { default 0.5, 0.5; }" + "probability ( b | a ) { default 0.5, 0.5; }",
        "has a cycle",
    ),
    "100 parents": (
        "".join(A.replace(" a ", f" {name} ") for name in MANY)
        + f"probability ( v0 | {', '.join(MANY[1:])} ) {{ default 0.5, 0.5; }}",
        "more than 16,777,216 cells",
    ),
    "variables": ("".join(A.replace(" a ", f" v{i} ") for i in range(5001)), "has 5,001 variables"),
    "digits": (A.replace("2", "9" * 5000), "no discrete variable"),
    **{
        text: ((start + text * (SIZE // len(text)) + end), "BIF")
        for start, text, end in (
            *(("", "/* ", ""), ("", "\n", ""), ("", "# ", ""), ("", "network ", ""), ("", "variable ", "")),
            *(("", 'variable "', ""), (A, "probability (", ""), (A + "probability ( a ) { ", "(yes) ", "}")),
            *(
                (A + "probability ( a ) { ", "table ", "}"),
                ("variable a { type discrete [2] {x, y}; ", "property ", "}"),
            ),
        )
    },
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_that_is_none_is_refused_soon(name: str) -> None:
    text, told = NETWORKS[name]
    began = time.process_time()
    with pytest.raises(UserError, match=told):
        parse_bif(text)
    assert time.process_time() - began < 10  # what grows as the square would take minutes


def test_a_packed_file_is_read_no_further_than_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b" " * 10**7))
    with pytest.raises(UserError, match="more than 1,000 bytes"):
        read_text(path, 1000)
    for other, told in ((tmp_path, "it is no file"), (Path("/dev/zero"), "it is no file"), (Path("a\0b"), "cannot be")):
        with pytest.raises(UserError, match=told):
            read_text(other)


def test_a_file_that_was_changed_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    words = ["first", "the second"]
    for word in words:
        path.write_text(OWN.format("[a, b]").replace("question: q", f"question: {word}"))
        assert ChoiceSource(kind="yaml", file=str(path)).choices(1, 0)[0].text == word
    table = tmp_path / "people.csv"
    for share in (1, 3):
        table.write_text("a,b\n" + "yes,1\n" * share + "no,2\n" * 4)
        world = load_world(WorldSource(of=str(table), target="a=yes", support=1))
        assert world.chance({}) == pytest.approx(share / (share + 4))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{y:>1000000000}", "y:>1000000000"),
        ("{y!r}", "y!r"),
        ("{y.__class__}", "__class__"),
        ("{}", "''"),
        ("{", "{y}"),
    ],
)
def test_a_placeholder_that_says_more_than_a_name_is_refused(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        check_placeholders("wording.evidence", text, ("y",))


@pytest.mark.parametrize(
    ("items", "told"),
    [
        ([("a", "c", {}), ("b", "c", {}), ("a", "c", {})], "two are called 'a'"),
        ([("a", "c", {"text": ["\ud800"]})], "item 'a': .*surrogates not allowed"),
        ([("a\0", "c", {})], "a zero byte"),
        ([], "has no items"),
    ],
)
def test_items_that_cannot_be_told_apart_or_written_down_are_refused(
    items: Sequence[tuple[str, str, dict[str, Any]]], told: str
) -> None:
    class Given(Truth):
        def items(self, config: RunConfig) -> list[Item]:
            return [Item(*one) for one in items]

    with pytest.raises(UserError, match=told):
        items_of(Given(), RunConfig.model_construct())


@pytest.mark.parametrize("name", ["../../x", "/tmp/x", "..", "", "a b", "x" * 101])
def test_a_probe_names_no_file_elsewhere(name: str, tmp_path: Path) -> None:
    meta = ProbeMeta(name="p", estimator="e", target="t", site="s", layer=0, position="p", dtype="float32", model={})
    Probe(LinearReadout(np.zeros(2), np.ones(2), np.ones(2), 0.0), meta).save(tmp_path / "p")
    record = unsealed(json.loads((tmp_path / "p.json").read_text()))
    (tmp_path / "p.json").write_text(json.dumps(sealed(record | {"name": name})))
    with pytest.raises(UserError, match=r"p\.json: name"):
        Probe.load(tmp_path / "p")
