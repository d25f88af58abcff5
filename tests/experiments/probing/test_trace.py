"""A belief along a text: each part as it is read alone, in one tree, on a page that obeys no text."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from doxascope import UserError
from doxascope.experiments.probing.trace import Traced, of_source, page, trace
from doxascope.experiments.report.html import to_html
from doxascope.experiments.report.record import from_json, to_json
from doxascope.experiments.report.terminal import to_text
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.runner import run
from doxascope.probes.estimators import LinearReadout
from doxascope.probes.probe import Probe, ProbeMeta

OPTIONS = ("apple", "stone")


def told(text: str, question: str = "which word") -> Traced:
    return Traced("t.txt", [{"role": "user", "content": text}], question, OPTIONS)


def test_every_part_is_read_as_it_is_alone(tiny: Any) -> None:
    talk = [
        {"role": "system", "content": "apple"},
        {"role": "user", "content": "stone river. did you?"},
        {"role": "assistant", "content": "apple. river stone!"},
    ]
    found = trace(tiny, Traced("t", talk, "which word", OPTIONS))  # type: ignore
    system, user, assistant = talk
    asked = {"role": "user", "content": "which word"}
    alone = [
        [system, asked],
        [system, {**user, "content": "stone river.\n\nwhich word"}],
        [system, {**user, "content": "stone river. did you?\n\nwhich word"}],
        [system, user, {**assistant, "content": "apple."}, asked],
        [system, user, assistant, asked],
    ]
    assert found.table["text"].tolist() == ["", "stone river.", " did you?", "apple.", " river stone!"]
    assert found.table["role"].tolist() == ["", "user", "user", "assistant", "assistant"]
    for row, conversation in zip(found.beliefs, alone, strict=True):
        assert row == pytest.approx(tiny.beliefs(conversation, OPTIONS).beliefs["prob"].to_numpy(), abs=1e-6)
    shares = found.beliefs
    assert found.table["entropy"].to_numpy() == pytest.approx(-(shares * np.log2(shares)).sum(axis=1))


def test_one_tree_costs_about_one_pass(tiny: Any) -> None:
    """Fifty sentences: what has gone before is computed once, and after each part the question alone."""
    found = trace(tiny, told("stone river did you choose. " * 50))
    assert len(found.table) == 51
    whole = len(tiny.tokenizer("stone river did you choose. " * 50)["input_ids"])
    after = len(tiny.tokenizer("which word")["input_ids"]) + 60
    assert found.tokens < whole + 51 * after < 51 * whole / 2


def test_every_token_is_a_part_and_parts_make_the_text(tiny: Any) -> None:
    text = "\n stone river.\n\ndid you choose? "
    for every in ("sentence", "token"):
        found = trace(tiny, told(text), every)
        assert "".join(found.table["text"]) == text
        assert all(part.strip() for part in found.table["text"][1:])
    assert len(found.table) > 6


def test_a_text_without_words_is_refused(tiny: Any) -> None:
    with pytest.raises(UserError, match="holds no text"):
        trace(tiny, told(" \n "))


def test_a_page_shows_hostile_text_and_obeys_none(tiny: Any) -> None:
    evil = '<script>alert(1)</script>. "><img src=x onerror=alert(1)>. \x1b[2J</p>.'
    options = ("apple", '"><img src=x onerror=alert(2)>')
    document = page({evil: trace(tiny, Traced(evil, [{"role": "user", "content": evil}], evil, options))})
    html = to_html(document)
    assert "<script>alert" not in html
    assert "<img" not in html
    assert "&lt;script&gt;alert(1)" in html
    assert "\x1b" not in html + to_text(document, full=True) + json.dumps(to_json(document), ensure_ascii=False)
    assert from_json(to_json(document)).blocks[0].kind == "coloured"


def test_a_probe_reads_before_the_question(tiny: Any) -> None:
    direction = np.random.default_rng(0).normal(size=tiny.model.config.hidden_size)
    meta = {"name": "p", "estimator": "imported", "target": "x", "site": "resid_post", "layer": 1, "position": "end"}
    probe = Probe(LinearReadout.from_direction(direction, 0.1), ProbeMeta(**meta, dtype="float32", model={}))  # type: ignore
    found = trace(tiny, told("stone. river which word. apple."), probe=probe)
    read = tiny.beliefs(
        [[{"role": "user", "content": "stone.\n\nwhich word"}]],
        OPTIONS,
        capture={"layers": [1], "positions": {"here": {"at": "before", "message": 0, "text": "which word"}}},
    )
    expected = probe.beliefs(read.residuals[:, 0])[0, 0]
    assert found.table["probe"][1] == pytest.approx(expected, abs=1e-6)
    assert "reads before the question" in to_html(page({"tiny": found}, probe))
    other = Probe(probe.readout, probe.meta.model_copy(update={"model": {"d_model": 7}}))
    with pytest.raises(UserError, match="d_model"):
        trace(tiny, told("stone."), probe=other)


def test_the_command_follows_a_text_and_a_run(
    tiny_folder: Path, tmp_path: Path, command_line: Callable[..., Any]
) -> None:
    small = ["items=5", "stated.numbers=[]", "bootstrap_draws=50"]
    folder = run(*load_config("truth", small, str(tiny_folder)), tmp_path / "runs").path
    (tmp_path / "letter.txt").write_text("stone river. did you choose?")
    given = ("trace", "letter.txt", "--question", "which word", "--option", "apple", "--option", "stone")
    done = command_line(*given, "-m", str(tiny_folder), "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    table = pd.read_csv(tmp_path / "out" / "trace.csv")
    assert table[["p_apple", "p_stone"]].sum(axis=1).to_numpy() == pytest.approx(1)
    assert (tmp_path / "out" / "figures").is_dir()
    refused = command_line("trace", str(folder), cwd=tmp_path)
    assert refused.returncode == 2
    readout = refused.stderr.split("such as ")[1].strip()
    done = command_line("trace", str(folder), "--readout", readout, "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {"p_Yes", "p_No"} <= {*pd.read_csv(tmp_path / "run" / "trace.csv").columns}
    traced = of_source(folder, readout, None, ())
    assert traced.question == traced.messages[-1]["content"]
    assert command_line("trace", "letter.txt", cwd=tmp_path).returncode == 2


def test_two_models_stand_side_by_side(
    tiny_folder: Path,
    save_llama: Callable[..., Path],
    make_tokenizer: Callable[..., Any],
    tmp_path: Path,
    command_line: Callable[..., Any],
) -> None:
    other = save_llama(make_tokenizer(("apple stone river which word did you choose",) * 3), "wider", hidden_size=48)
    (tmp_path / "letter.txt").write_text("stone river. did you choose?")
    given = ("trace", "letter.txt", "--question", "which word", "--option", "apple", "--option", "stone")
    done = command_line(*given, "-m", str(tiny_folder), "--beside", str(other), "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    table = pd.read_csv(tmp_path / "out" / "trace.csv")
    assert table["model"].tolist() == [tiny_folder.name] * 3 + [other.name] * 3
    for name, folder in ((tiny_folder.name, tiny_folder), (other.name, other)):
        alone = command_line(*given, "-m", str(folder), "--out", name, cwd=tmp_path)
        assert alone.returncode == 0, alone.stderr
        mine, single = table[table["model"] == name], pd.read_csv(tmp_path / name / "trace.csv")
        assert mine["p_apple"].tolist() == single["p_apple"].tolist()
    html = (tmp_path / "out" / "report.html").read_text()
    assert f"Text, {tiny_folder.name}" in html
    assert f"Text, {other.name}" in html
    twice = command_line(*given, "-m", str(other), "--beside", str(other), cwd=tmp_path)
    assert twice.returncode == 2
    assert "named twice" in twice.stderr


def test_a_real_model_takes_in_what_it_reads(smollm: Any) -> None:
    """A capital that is told makes the belief in it rise; what is said of another thing afterwards hardly moves it."""
    text = "My sister has moved. She lives in Oslo now. She likes the snow."
    question = "In which city does she live? Answer with the city alone."
    found = trace(smollm, Traced("t", [{"role": "user", "content": text}], question, ("Oslo", "Rome")))
    before, _, after, last = found.beliefs[:, 0]
    assert after > max(before, 0.9)
    assert last > 0.9
    whole = smollm.beliefs(f"{text}\n\n{question}", ["Oslo", "Rome"]).beliefs["prob"].to_numpy()
    assert found.beliefs[-1] == pytest.approx(whole, abs=1e-4)
