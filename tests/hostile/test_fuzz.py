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
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from doxascope import UserError
from doxascope.base.files import digest_of, json_digest
from doxascope.experiments.probing.settings import load_job
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.folder import RunFolder
from doxascope.hooks.model.spec import DAY
from doxascope.hooks.prompts.template import ChatTemplate
from doxascope.hooks.store.commits import append_commit, read_commits
from doxascope.metrics.contract import Resampling
from doxascope.metrics.forms.recognition import understand
from doxascope.metrics.scoring.engine import score_understood
from doxascope.probes import Probe
from doxascope.probes.detectors import load_detector
from doxascope.probes.estimators import LinearReadout
from doxascope.probes.probe import ARRAYS as PROBE_ARRAYS
from doxascope.probes.probe import ProbeMeta

ASKED = int(os.environ.get("DOXASCOPE_FUZZ", "0"))
SECONDS, MEGABYTES = 20, 2048

Fuzz = Callable[[Callable[..., None]], Callable[..., None]]


def fuzz(few: int) -> Fuzz:
    return settings(
        max_examples=ASKED or few,
        derandomize=not ASKED,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),  # pyright: ignore[reportArgumentType]
    )


def require_one_line(error: UserError) -> None:
    assert len(str(error).splitlines()) == 1, str(error)


@contextmanager
def bounded() -> Iterator[None]:
    """An input may be refused, in one line; nothing else may come of it but a result."""
    began, held = time.process_time(), peak()  # not by the clock: the machine may do other things
    try:
        yield
    except UserError as error:
        require_one_line(error)
    assert time.process_time() - began < SECONDS
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
    return [(one.metric, one.method, one.subset, repr(one.score.as_dict())) for one in found.all]


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
    *("sources", "runs", "turns", "cuts", "confidence", "distributions", "tasks", "names", "asks", "yes", "world"),
    *("wording.agent", "wording.state", "world.of", "reveal", "pool", "prompts", "said", "answers", "statements"),
    *("statements.files", "registered", "registered.margin", "temperatures", "batch_items", "where", "rivals", "name"),
    *("study.depth", "study.folds", "study.penalties", "study.thresholds", "positions", "option", "probe", "targets"),
)
EXPERIMENTS = ("ask", "consistency", "martingale", "locate", "bscore", "sycophancy", "rationality", "truth")


@fuzz(60)
@given(st.sampled_from((*EXPERIMENTS, "probe")), st.sampled_from(KEYS), VALUES)
def test_any_setting_is_taken_or_refused(name: str, key: str, value: Any) -> None:
    override = f"{key}={yaml.safe_dump(value, default_flow_style=True).removesuffix('...').strip()}"
    with bounded():
        load_job("probe", (), [override]) if name == "probe" else load_config(name, [override])


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


@fuzz(60)
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
        assert before == after or json.loads(path.read_bytes())["digest"] == json_digest(after[0])


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


@st.composite
def altered(draw: st.DrawFn, value: Any) -> Any:
    """A value of JSON, one thing in it replaced by anything."""
    if isinstance(value, dict | list) and value and draw(st.integers(0, 5)):
        copy = value.copy()
        key = draw(st.sampled_from(sorted(copy) if isinstance(copy, dict) else range(len(copy))))
        copy[key] = draw(altered(copy[key]))
        return copy
    return draw(VALUES)


BIF = """network n { }
variable a { type discrete [ 2 ] { yes, no }; }
variable b { type discrete [ 3 ] { x, y, z }; }
probability ( a ) { table 0.25, 0.75; }
probability ( b | a ) { (yes) 0.2, 0.3, 0.5; (no) 0.1, 0.1, 0.8; }
"""
WORLD = "target: {variable: a, state: 'yes'}\nevent: e\nvariables:\n" + "".join(
    f"  {name}: {{noun: n, states: {{'yes': is, 'no': is not}}, parents: [{above}], table: {table}}}\n"
    for name, above, table in (("a", "", "[[0.3, 0.7]]"), ("b", "a", "[[0.2, 0.8], [0.9, 0.1]]"))
)
CHOICE = {"question": "q", "options": ["a", "b"], "category": "easy", "truth": "a"}
SCENARIO = {"background": "b", "x": "it is", "not_x": "it is not", "for": "y", "outcome": 1}
MORALS = {key: "t" for key in ("ID", "norm", "situation", "intention", "moral_action", "immoral_action")}
DUE = {"forecast_due_date": "2024-07-21"}
ASKED_OF = {"id": "m", "source": "s", "question": "q", "background": "b", "url": "u"}
SETTLED = {"id": "m", "source": "s", "resolution_date": "2024-08-01", "resolved_to": 1.0, "resolved": True}
ANSWERS = {f"ans{i}": text for i, text in enumerate(("a", "b", "unknown"))}
TALK = [{"text": "hello", "id": name} for name in ("m1", "m2", "m1")]
MOODS = {name: {"outcomes": {"satisfaction": "Undecided"}} for name in ("m1", "m2")}
TURNS = '"[{""role"": ""user"", ""content"": ""so?""}, {""role"": ""assistant"", ""content"": ""It is.""}]"'


def world_of(path: Path) -> object:
    from doxascope.experiments.materials.worlds.source import WorldSource, contexts

    bare = path.suffix != ".yaml"
    return contexts(WorldSource(of=str(path), target="a=yes" if bare else None, support=1), 2, reveal=(1, 1), pool=20)


def asked_of(path: Path) -> object:
    from doxascope.experiments.materials.choices.tables import AskedSource

    return AskedSource(file=str(path)).questions()


def loaders() -> dict[str, tuple[str, Any, Callable[[Path], object]]]:
    """Name -> a file's name, what a good one holds, and what reads it."""
    from doxascope.experiments.materials.choices import sources as choices
    from doxascope.experiments.materials.choices.sources import load_plain
    from doxascope.experiments.materials.evidence_tables import load_table
    from doxascope.experiments.materials.questions import load_forecastbench, load_openreview, load_views
    from doxascope.experiments.materials.scenarios import published_sets as published
    from doxascope.experiments.materials.scenarios.scenario import load_scenarios, read_evidence
    from doxascope.experiments.materials.worlds.source import quite_contexts
    from doxascope.experiments.probing.detector import material
    from doxascope.experiments.probing.verification import claims_of
    from doxascope.probes.statements import csv_statements

    csqa = {"question": "q", "choices": {"label": ["A", "B"], "text": ["x", "y"]}, "answerKey": "A"}
    bbq: dict[str, Any] = {"context": "c", "question": "q", "context_condition": "ambig", **ANSWERS}
    bbq |= {"answer_info": {name: ["", text] for name, text in ANSWERS.items()}}
    casino = {"dialogue_id": 1, "chat_logs": TALK, "participant_info": MOODS}
    asked = {"question": "q", "choices": {"label": ["A", "B"], "text": ["x", "y"]}, "answer": "B", "examples": [CHOICE]}

    def forecasts(path: Path) -> object:
        return load_forecastbench(path, path)

    fortune = partial(published.load_fortune_dial, x="x", not_x="y")
    quite: dict[str, Any] = {"numeric_premises": [{"content": "p"}]}
    quite |= {"evidence_query_pairs": [{"id": i, "evidences": ["e"], "query": "q", "answer": 0.5} for i in (1, 2)]}
    return {
        "bif": ("n.bif", BIF, world_of),
        "words": ("w.yaml", WORLD, world_of),
        "people": ("p.csv", "a,b\nyes,1\nno,2\nyes,2\nno,1\n", world_of),
        "quite": ("q.json", quite, lambda path: quite_contexts(path, 1)),
        "csqa": ("c.jsonl", csqa, choices.load_csqa),
        "mmlu": ("m.jsonl", {"question": "q", "choices": ["a", "b"], "answer": 1}, choices.load_mmlu),
        "bbq": ("b.jsonl", bbq, choices.load_bbq),
        "hle": ("h.jsonl", {"question": "q\nA. one\nB. two", "answer": "B"}, choices.load_hle),
        "truthful": ("t.csv", "Question,Best Answer,Incorrect Answers\nq,a,b; c\n", choices.load_truthfulqa),
        "paper": ("p.json", [{**CHOICE, "task": "t", "prompt": "q [a, b]"}], choices.load_paper),
        "own": ("o.yaml", [CHOICE], load_plain),
        "asked": ("a.jsonl", asked, asked_of),
        "asked by columns": ("a.csv", "question,a,b,answer\nq,x,y,b\n", asked_of),
        "views": ("v.jsonl", {"title": "CMV: t", "id": "1", "selftext": "s"}, load_views),
        "due": ("f.json", {**DUE, "questions": [ASKED_OF]}, forecasts),
        "settled": ("f.json", DUE | {"questions": [ASKED_OF], "resolutions": [SETTLED]}, forecasts),
        "reviews": ("r.csv", "title,abstract,decision,review1\nt,a,accept,r\n", load_openreview),
        "questions": ("q.csv", "question,option_yes,option_no,outcome\nq,Yes,No,0.5\n", load_table),
        "casino": ("c.json", [casino], published.load_casino),
        "morals": ("m.jsonl", MORALS, published.load_moral_stories),
        "fortune": ("f.jsonl", {"input": "a || b", "target": "Yes"}, fortune),
        "scenarios": ("s.yaml", [SCENARIO], load_scenarios),
        "evidence": ("e.yaml", [{"id": "a", "for": "y", "reviewed": True}], read_evidence),
        "labelled": ("l.csv", "text,label,cluster,held,instructed\nIt is.,1,a,0.2,0\nIt is not.,0,a,,0\n", material),
        "claims": ("c.csv", "claim,facet,text,believed,expected\nc,d,so?,Yes,held\nc,e,no?,No,denied\n", claims_of),
        "talks": ("t.csv", f"messages,label,cluster\n{TURNS},1,a\n", material),
        "statements": ("s.csv", "statement,label\nIt is.,1\nIt is not.,0\n", lambda path: csv_statements([path])),
    }


SPLICES = st.sampled_from(
    (
        *("", "{", "}", "(", ")", ";", '"', "\n", ",", "nan", "9" * 5000, "\0", "/*", "//", "[" * 9999, "| a"),
        *("variable", "probability ( b ) {", "default 1, 0;", "table", "include x", "&a [*a]", "\u2028", "-1", "1e999"),
        *("a: b", "- - -", "\r", "\ufeff", "x" * 200_000, "\\ud800"),
    )
)


@fuzz(150)
@given(data=st.data())
def test_any_file_of_questions_is_read_or_refused(data: st.DataObject) -> None:
    name, good, load = data.draw(st.sampled_from([*loaders().values()]))
    if not isinstance(good, str):
        good = json.dumps(data.draw(altered(good)))
    if isinstance(good, str) and (not name.endswith("l") or data.draw(st.booleans())):
        at = data.draw(st.integers(0, len(good)))
        good = good[:at] + data.draw(SPLICES) + good[at + data.draw(st.integers(0, 9)) :]
    with bounded(), tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(good.encode("utf-8", "surrogatepass"))
        load(path)


ARRAYS = st.one_of(
    st.sampled_from([np.zeros(0), np.zeros((2, 0)), np.full((2, 3), np.nan), np.array(["a", "a"]), np.array({1: 2})]),
    st.sampled_from([np.zeros((1, 2, 3)), np.array(1.0), np.ones((2, 3), complex), np.array([0, 9]), np.ones(10**6)]),
    st.builds(lambda n, d: np.ones((n, d)), st.integers(0, 3), st.integers(0, 4)),
)


@fuzz(50)
@given(st.dictionaries(st.sampled_from(PROBE_ARRAYS), ARRAYS, max_size=2), st.data())
def test_a_probe_of_a_stranger_reads_or_is_refused(arrays: dict[str, Any], data: st.DataObject) -> None:
    readout = LinearReadout(np.zeros(3), np.ones(3), np.ones(3), 0.0)
    meta = ProbeMeta(
        name="p", estimator="ridge", target="t", site="s", layer=1, position="p", dtype="float32", model={}
    )
    with bounded(), tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "p")
        Probe(readout, meta, (readout,), {"a": 0, "b": 0}).save(path)
        with np.load(path.with_suffix(".npz")) as stored:
            kept = {**stored} | arrays
        np.savez(path.with_suffix(".npz"), **kept)
        record = json.loads(path.with_suffix(".json").read_text())
        record["numbers"] = digest_of(path.with_suffix(".npz").read_bytes())[:16]
        if data.draw(st.booleans()):
            record = data.draw(altered(record))
        path.with_suffix(".json").write_text(json.dumps(record))
        probe = Probe.load(path)
        width = len(probe.readout.weights)
        assert np.isfinite(probe.logit(np.ones((2, width)), ["a", "c"])).all()
        assert Path(probe.meta.name).name == probe.meta.name


OF_DETECTOR = st.dictionaries(st.sampled_from(["direction", "bias", "layer", "threshold", "x"]), ARRAYS, max_size=2)


@fuzz(60)
@given(OF_DETECTOR, st.sampled_from(["npz", "safetensors", "pt"]), st.data())
def test_a_detector_of_a_stranger_is_of_finite_numbers(
    arrays: dict[str, Any], ending: str, data: st.DataObject
) -> None:
    given: Any = {"direction": np.ones((2, 3)), "layer": np.array([0.0, 1.0]), "threshold": np.array([0.5])} | arrays
    plain = {name: each for name, each in given.items() if each.dtype.kind in "iuf"}
    with bounded(), tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"d.{ending}")
        if ending == "safetensors":
            save_file(plain, path)
        elif ending == "pt":
            about = {"probe_architecture": data.draw(st.sampled_from(["dim", "lr", 1])), "layer": 1}
            state = {name: torch.tensor(each) for name, each in plain.items()}
            torch.save({"state_dict": state, "hyperparams": data.draw(altered(about))}, path)
        else:
            np.savez(path, **given)
        if noise := data.draw(st.binary(max_size=3)):
            whole = path.read_bytes()
            at = data.draw(st.integers(0, len(whole) - 1))
            path.write_bytes(whole[:at] + noise + whole[at + len(noise) :])
        detector = load_detector(path)
        placed = detector.placed(len(detector.directions), range(len(detector.directions)), 0.0)
        assert np.isfinite(placed.score(np.ones((2, *detector.directions.shape)))).all()


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
