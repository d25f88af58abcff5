"""Random inputs, mutated from good ones: every one ends in a number or in one line, soon and in bounded memory.

`DOXASCOPE_FUZZ=10000` tries so many of each kind, other ones at every call (`make fuzz`); else a few, always the same.
"""

import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from doxascope import UserError
from doxascope.experiments.engine.config import load_config
from doxascope.experiments.runs.folder import RunFolder
from doxascope.experiments.runs.manifest import digest
from doxascope.experiments.scoring.engine import score_understood
from doxascope.experiments.scoring.number import Resampling
from doxascope.experiments.tables.understand import understand
from doxascope.hooks.files import digest_of
from doxascope.hooks.model.spec import DAY
from doxascope.hooks.prompts.template import ChatTemplate
from doxascope.hooks.store.commits import append_commit, read_commits

ASKED = int(os.environ.get("DOXASCOPE_FUZZ", "0"))
SECONDS, MEGABYTES = 20, 2048

Fuzz = Callable[[Callable[..., None]], Callable[..., None]]


def fuzz(few: int) -> Fuzz:
    return settings(
        max_examples=ASKED or few,
        derandomize=not ASKED,
        deadline=None,
        database=None,
        suppress_health_check=[*HealthCheck.__members__.values()],
    )


def require_one_line(error: UserError) -> None:
    assert len(str(error).splitlines()) == 1, str(error)


@contextmanager
def bounded() -> Iterator[None]:
    """An input may be refused, in one line; nothing else may come of it but a result."""
    began, held = time.monotonic(), peak()
    try:
        yield
    except UserError as error:
        require_one_line(error)
    assert time.monotonic() - began < SECONDS
    assert peak() - held < MEGABYTES


def peak() -> float:
    """Megabytes that the process held at its highest, of whatever tests ran in it before."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


ATOMS = (
    *("", "nan", "NA", "none", "inf", "-inf", "1e999", "-1", "2", "0", "1", "0.5", "1.0", "0.1_5", "true", "x" * 5000),
    *("=1+1", "\x1b[2J", "\u202e", "9" * 400, "1e-400", "0x1", " 0.3 ", "\ufeff0.1", "½", "a,b", '"', "\n", "null"),
)
TABLES = (
    "prior,posterior,item,outcome",
    "trajectory,step,belief,outcome",
    "b_0,b_1,b_2,outcome",
    "readout_id,item,kind,method,scenario,option,prob",
    "prior_a,prior_b,posterior_a,posterior_b,rejected",
    "k,n,outcome",
    "p,cond_1,weight_1,cond_2,weight_2",
    "belief,outcome,p_star",
    "p_x,p_y,p_y_given_x,posterior",
    "judge_a,judge_b,question",
    "question,chain,prior,posterior,half",
    "p1_a,p1_b,p2_a,p2_b,truth",
    "count_a,count_b,count_other",
    "prior,posterior,factor_a,factor_b",
    "single_a,single_b,multi_a,multi_b,question",
)
NUMBERS = st.sampled_from(["0.1", "0.2", "0.5", "0.9", "0", "1"])
WORDS = st.sampled_from(["a", "b", "c", "prior", "posterior", "exact", "yes", "no", "free", "1", "2"])
CELLS = st.one_of(NUMBERS, NUMBERS, NUMBERS, WORDS, st.sampled_from(ATOMS), st.text(max_size=5))


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[list[str]]]:
    header: list[str] = str(draw(st.sampled_from(TABLES))).split(",")
    usual = [WORDS if any(x in c for x in ("item", "id", "kind", "option", "quest")) else NUMBERS for c in header]
    strange = draw(st.integers(0, 3))
    rows = [[draw(cell) for cell in usual] for _ in range(draw(st.integers(0, 8)))]
    for _ in range(strange if rows else 0):
        rows[draw(st.integers(0, len(rows) - 1))][draw(st.integers(0, len(header) - 1))] = draw(CELLS)
    return header, rows


def numbers_of(path: Path) -> Any:
    """What a table is scored as; None if it is refused."""
    try:
        found = score_understood(understand(path), Resampling(0, 20, 0.9))
    except UserError as error:
        require_one_line(error)
        return None
    return [(one.metric, one.method, one.subset, repr(one.score)) for one in found.all]


@fuzz(60)
@given(tables())
def test_a_table_says_the_same_as_csv_and_as_parquet_or_is_refused(table: tuple[list[str], list[list[str]]]) -> None:
    header, rows = table
    with bounded(), tempfile.TemporaryDirectory() as folder:
        frame = pd.DataFrame(rows, columns=header, dtype=str)
        frame.to_csv(Path(folder, "table.csv"), index=False)
        frame.to_parquet(Path(folder, "table.parquet"), index=False)
        lines = [json.dumps(dict(zip(header, row, strict=True))) + "\n" for row in rows]
        Path(folder, "table.jsonl").write_text("".join(lines))
        found = [numbers_of(Path(folder, f"table.{kind}")) for kind in ("csv", "parquet", "jsonl")]
    assert found[0] == found[1] == found[2]


@fuzz(60)
@given(tables(), st.binary(min_size=1, max_size=4), st.integers(0, 10**6), st.sampled_from(["csv", "jsonl", "parquet"]))
def test_a_damaged_table_is_a_table_or_a_line(
    table: tuple[list[str], list[list[str]]], noise: bytes, place: int, kind: str
) -> None:
    header, rows = table
    with bounded(), tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"table.{kind}")
        frame = pd.DataFrame(rows, columns=header, dtype=str)
        if kind == "csv":
            frame.to_csv(path, index=False)
        elif kind == "jsonl":
            frame.to_json(path, orient="records", lines=True)
        else:
            frame.to_parquet(path, index=False)
        data = path.read_bytes()
        at = place % (len(data) + 1)
        path.write_bytes(data[:at] + noise + data[at + len(noise) :])
        numbers_of(path)


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.just(10**30)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=6,
)
KEYS = (
    *("items", "seed", "methods", "entities", "entities.file", "wording", "fork", "sampled.draws", "temperatures"),
    *("model", "model.name", "model.dtype", "model.threads", "model.date", "model.packaged", "model.path", "capture"),
    *("lens", "stated", "thoughts", "sampling", "level", "orders", "terminators", "domains", "reasoning", "chains"),
)


@fuzz(60)
@given(st.sampled_from(["consistency", "martingale", "locate"]), st.sampled_from(KEYS), VALUES)
def test_any_setting_is_taken_or_refused(name: str, key: str, value: Any) -> None:
    with bounded():
        load_config(name, [f"{key}={yaml.safe_dump(value, default_flow_style=True).removesuffix('...').strip()}"])


@fuzz(60)
@given(st.text(alphabet="abc:-{}[]&*!|>#'\"% \n\t,0", max_size=60))
def test_any_text_is_a_settings_file_or_a_line(text: str) -> None:
    with bounded(), tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "mine.yaml")
        path.write_text("experiment: consistency\n" + text)
        load_config(str(path))


PIECES = st.sampled_from(
    (
        *("{{ ", " }}", "{% ", " %}", "messages", "m", "for m in messages", "endfor", "if", "endif", "set x = ", "x"),
        *("'a'", " * ", " ** ", " ~ ", " + ", " | ", "10**9", "99999", "range(99999)", "join", "center(10**8)"),
        *("strftime_now('%d')", "namespace(x=1)", "macro f(n)", "endmacro", "f(3)", "[0]", ".content", "loop.index"),
        *("for i in range(99999)", "set x", "endset", "replace('a', 'aaaa')", "raise_exception('no')", "m['content']"),
    )
)


@fuzz(150)
@given(st.lists(PIECES, max_size=14))
def test_any_template_is_rendered_alike_or_refused(pieces: list[str]) -> None:
    hello = [{"role": "user", "content": "Hello"}]
    with bounded():
        template = ChatTemplate(" ".join(pieces), DAY)
        assert template.render(hello) == template.render(hello)


@fuzz(60)
@given(st.binary(max_size=30), st.integers(0, 10**6), st.sampled_from(["manifest.json", "commits.jsonl"]))
def test_a_damaged_record_is_never_read_as_another(noise: bytes, place: int, name: str) -> None:
    with bounded(), tempfile.TemporaryDirectory() as folder:
        run = RunFolder(Path(folder))
        for number in range(3):
            append_commit(run.path / "commits.jsonl", number, {"files": {"x": digest_of(b"x")}})
        run.write_manifest({"status": "complete", "batches": 3})
        before = (run.manifest, list(run.commits()))
        path = run.path / name
        data = path.read_bytes()
        at = place % (len(data) + 1)
        path.write_bytes(data[:at] + noise + data[at + len(noise) :])
        after = (run.manifest, list(run.commits()))  # refused, or the same
        assert before == after or json.loads(path.read_bytes())["digest"] == digest(after[0])


@fuzz(60)
@given(st.lists(st.dictionaries(st.text(max_size=5), VALUES, max_size=3), max_size=4))
def test_whatever_is_committed_is_read_back(notes: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "commits.jsonl")
        path.touch()
        for number, note in enumerate(notes):
            append_commit(path, number, {"note": note})
        assert repr([one["note"] for one in read_commits(path).values()]) == repr(
            [json.loads(json.dumps(note)) for note in notes]
        )


@pytest.fixture(scope="module")
def checkpoint(save_speller: Callable[..., Path]) -> Path:
    return save_speller("abc")


@fuzz(25)
@given(data=st.data())
def test_a_damaged_checkpoint_is_a_model_or_a_line(checkpoint: Path, data: st.DataObject) -> None:
    import shutil

    from doxascope import load

    name = data.draw(st.sampled_from(["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"]))
    with bounded(), tempfile.TemporaryDirectory() as place:
        folder = Path(shutil.copytree(checkpoint, Path(place, "model")))
        whole = (folder / name).read_bytes()
        header = 8 + int.from_bytes(whole[:8], "little") if name.endswith("safetensors") else len(whole)
        at = data.draw(st.integers(0, header - 1))
        noise = data.draw(st.binary(min_size=1, max_size=3))
        (folder / name).write_bytes(whole[:at] + noise + whole[at + len(noise) :])
        with load(str(folder), template="none") as lm:
            lm.beliefs("abc", ["a", "b"])
