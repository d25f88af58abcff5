"""The command line as a user meets it, with its exit codes; in a process of its own where that matters."""

import base64
import hashlib
import html
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from doxascope.base.files import locked, sealed, unsealed
from doxascope.experiments.run.folder import RunFolder

SMALL = ("-o", "batch_items=1", "-o", "bootstrap_draws=100")
MANY = 15
"""Items of which two kills leave some."""
ONE_METHOD = "methods={letters: {reveal: 'A) {a} B) {b} C) {c}', labels: [A, B, C], forms: ['{option}']}}"


Call = Callable[..., subprocess.CompletedProcess[str]]


def doxascope(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A process of its own."""
    command = [sys.executable, "-m", "doxascope", *args]
    return subprocess.run(command, cwd=cwd, env=os.environ, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def tiny_folder(tiny_for: Callable[[str], Path]) -> Path:
    """A tiny model that does not spell every prompt."""
    return tiny_for("*")


def run_tiny(call: Call, tiny_folder: Path, cwd: Path, *args: str) -> Path:
    done = call("run", "consistency", "-m", str(tiny_folder), *SMALL, *args, cwd=cwd)
    assert done.returncode == 0, done.stderr
    (folder,) = (cwd / "runs").iterdir()
    return folder


@pytest.mark.place
def test_a_run_leaves_everything_that_it_promises(
    tiny_folder: Path, tmp_path: Path, noise: Any, command_line: Call
) -> None:
    folder = run_tiny(doxascope, tiny_folder, tmp_path, "-o", "items=3", "--verify", "2")
    names = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    assert {
        "config.yaml",
        "manifest.json",
        "scores.json",
        "scores.parquet",
        "published.csv",
        "report.html",
        "report.json",
    } <= names
    assert {f"beliefs/part-0000{i}.parquet" for i in range(3)} <= names
    beliefs = pd.concat(pd.read_parquet(p) for p in sorted((folder / "beliefs").iterdir()))
    assert len(beliefs) == 3 * (111 * 3 + 12 * 2 + 3 * 3)  # dialogues, yes or no, reveals of a written choice
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["status"] == "complete"
    assert manifest["totals"]["readouts"] == 3 * (111 + 12 + 3)
    assert manifest["verification"]["largest_difference_nat"] < noise(beliefs["logp"])
    others = manifest["verification"]["other_tokenisations"]
    assert 0 < others["largest_share"] < 1
    assert 0 < others["read"] <= others["of"]
    stored = json.loads((folder / "scores.json").read_text())
    assert "not made by this run" not in (folder / "report.json").read_text()
    scores = stored["scores"]
    assert all(score["ci_method"] for score in scores if score["estimate"] is not None)
    assert {score["n_clusters"] for score in scores if score["metric"] == "c2" and score["subset"] == "all"} == {3}
    assert all(score["status"] != "ok" for score in scores if score["estimate"] is None)
    spoken = [json.loads(line) for line in (folder / "transcripts/part-00000.jsonl").read_text().splitlines()]
    assert {line["readout_id"] for line in spoken} == set(beliefs[beliefs["item"] == "t0000-012"]["readout_id"])

    printed = command_line("tables", str(folder), cwd=tmp_path)
    assert printed.returncode == 0, printed.stderr
    c2 = {score["method"]: score["estimate"] for score in scores if (score["metric"], score["subset"]) == ("c2", "all")}
    lines = printed.stdout.split("\n\n")[0].splitlines()
    assert lines[0] == "Table 1 (belief-consistency): Main results; entropy of the two words that are left."
    assert {f"{value:.4f}" in line for name, value in c2.items() for line in lines if name in line.split()} == {True}
    marks = {"readable": "", "unreadable": "†"}
    for verdict in stored["lead"]["verdicts"]:  # the mark of each row is that of its verdict
        name = f"{tiny_folder.name}{marks.get(verdict['readable'], '‡')}"
        assert [line.split()[0] for line in lines if verdict["method"] in line.split()] == [name]
    assert r"\begin{tabular}" in command_line("tables", str(folder), "--latex", cwd=tmp_path).stdout
    assert "Table 1 of belief-consistency" in (folder / "report.html").read_text()
    refused = command_line("tables", str(tmp_path), cwd=tmp_path)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)

    listed = command_line("ls", cwd=tmp_path).stdout
    assert "smollm2-135m" in listed
    assert re.search(rf"{folder.name} +complete, began", listed)
    record, kept = json.loads((folder / "manifest.json").read_text()), (folder / "manifest.json").read_bytes()
    (folder / "manifest.json").write_text(json.dumps(sealed(unsealed(record) | {"status": "running"})))
    assert re.search(rf"{folder.name} +unfinished, began", command_line("ls", cwd=tmp_path).stdout)
    with locked(folder / ".lock"):
        assert re.search(rf"{folder.name} +running, began", command_line("ls", cwd=tmp_path).stdout)
    (folder / "manifest.json").write_bytes(kept)
    before = {name: (folder / name).read_bytes() for name in ("scores.json", "published.csv", "report.html")}
    for name in before:
        (folder / name).unlink()
    again = command_line("report", str(folder), cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert {name: (folder / name).read_bytes() for name in before} == before


def test_the_report_loads_nothing_and_runs_nothing_but_its_script(
    tiny_folder: Path, tmp_path: Path, command_line: Call
) -> None:
    evil = "wording.reveal=<script>alert(1)</script>?"
    page = (run_tiny(command_line, tiny_folder, tmp_path, "-o", "items=2", "-o", evil) / "report.html").read_text()
    (script,) = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    (data,) = re.findall(r"<script type=\"application/json\"[^>]*>(.*?)</script>", page, flags=re.DOTALL)
    assert "\\u003cscript\\u003ealert(1)" in data
    assert page.count("<script") == 2
    allowed = re.findall(r"script-src ([^;\"]*)", html.unescape(page))
    assert allowed == [f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"]
    assert "alert" not in script
    assert "&lt;script&gt;alert(1)" in page
    assert "src=" not in page
    assert "@import" not in page
    assert "http" not in page.replace("http-equiv", "")


def test_killed_twice_and_resumed_gives_the_same_bytes(tiny_folder: Path, tmp_path: Path, command_line: Call) -> None:
    whole_place, broken = tmp_path / "whole", tmp_path / "broken"
    whole_place.mkdir()
    broken.mkdir()
    wanted = ("-o", f"items={MANY}", "-o", "fork.methods=[]", "-o", ONE_METHOD, "-o", "registered=null")
    whole = run_tiny(command_line, tiny_folder, whole_place, *wanted)
    command = [sys.executable, "-m", "doxascope", "run", "consistency", "-m", str(tiny_folder), *SMALL, *wanted]
    draw = random.Random(7)
    kills = 0
    while kills < 2:
        process = subprocess.Popen(command, cwd=broken, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        n_before = _commits(broken)
        while _commits(broken) <= n_before and process.poll() is None:
            time.sleep(0.005)
        time.sleep(draw.uniform(0, 0.15))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.wait()
        assert _commits(broken) < MANY, "the run ended before it could be killed"
    resumed = run_tiny(command_line, tiny_folder, broken, *wanted)
    assert resumed.name == whole.name
    assert (resumed / "scores.json").read_bytes() == (whole / "scores.json").read_bytes()
    assert len(RunFolder(resumed).sessions) == 3


def _commits(cwd: Path) -> int:
    return sum(len(file.read_text().splitlines()) for file in cwd.glob("runs/*/commits.jsonl"))


def test_ctrl_c_says_how_to_go_on(tiny_folder: Path, tmp_path: Path, command_line: Call) -> None:
    endless = ("-o", "items=200", "-o", "fork.methods=[]", "-o", ONE_METHOD, "-o", "registered=null")
    command = [sys.executable, "-m", "doxascope", "run", "consistency", "-m", str(tiny_folder), *SMALL, *endless]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    signal.signal(signal.SIGINT, before)
    while _commits(tmp_path) < 1:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command goes on from there" in stderr
    assert "Traceback" not in stderr
    (folder,) = (tmp_path / "runs").iterdir()
    partial = command_line("report", str(folder), cwd=tmp_path)
    assert partial.returncode == 0, partial.stderr
    assert "<b>Incomplete.</b>" in (folder / "report.html").read_text()
    assert "Incomplete." in partial.stdout
    assert re.search(r"Of \d+ of \d+ batches alone; go on with the run for the rest", " ".join(partial.stdout.split()))


def test_a_run_under_other_conditions_is_not_mixed_in(tiny_folder: Path, tmp_path: Path, command_line: Call) -> None:
    folder = run_tiny(command_line, tiny_folder, tmp_path, "-o", "items=1")
    manifest = RunFolder(folder).manifest
    manifest["conditions"]["packages"]["torch"] = "1.0"
    RunFolder(folder).write_manifest(manifest)
    again = command_line("run", "consistency", "-m", str(tiny_folder), *SMALL, "-o", "items=1", cwd=tmp_path)
    assert again.returncode == 2
    assert "packages.torch: 1.0 -> " in again.stderr


def test_plan_needs_no_forward_pass_and_says_what_a_run_would_take(
    tiny_folder: Path, tmp_path: Path, command_line: Call
) -> None:
    folder = run_tiny(command_line, tiny_folder, tmp_path, "-o", "items=4")
    totals = json.loads((folder / "manifest.json").read_text())["totals"]
    planned = command_line("plan", "consistency", "-m", str(tiny_folder), "-o", "items=4", cwd=tmp_path)
    assert planned.returncode == 0, planned.stderr
    assert f"4 items (ordered triples of words), {totals['readouts']} read-outs" in planned.stdout
    assert f"about {totals['tokens_run']:,} tokens" in planned.stdout
    assert "sampled" not in planned.stdout
    drawing = ("-o", "items=4", "-o", "sampled.draws=5", "-o", "sampling.max_new_tokens=7")
    sampled = command_line("plan", "consistency", "-m", str(tiny_folder), *drawing, cwd=tmp_path)
    assert (
        f"up to {4 * 37 * 5 * 7:,} tokens sampled" in sampled.stdout
    )  # a prior, 9 posteriors, 27 controls; one method


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("run", "consistancy"), "did you mean 'consistency'"),
        (("run", "consistency", "-m", "smollm-135"), "did you mean 'smollm2-135m'"),
        (("run", "consistency", "-o", "itmes=3"), "did you mean 'items'"),
        (("run", "consistency", "-o", "entities.file=none.txt"), "none.txt: cannot be read"),
        (("run", "consistency", "-m", "nobody/nothing"), "not to be had from the hub"),
        (("report", "nowhere"), "is not a doxascope run"),
        (("rum",), "No such command 'rum'"),
        (("ask", "mine.csv"), "run it as `doxascope run ask`"),
        (("run",), "Missing argument 'TARGET'"),
        (("certify", "nobody/nothing", "--out", "/nope/x.json"), "/nope/x.json: cannot be written"),
        (("probe", "causal", "."), ".: is a folder; give a YAML file"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    args: tuple[str, ...], message: str, tmp_path: Path, command_line: Call
) -> None:
    failed = command_line(*args, cwd=tmp_path)
    assert failed.returncode == 2
    assert message in failed.stderr
    assert len(failed.stderr.strip().splitlines()) == 1


def test_plan_says_what_a_claim_takes_before_the_data_are_there(tmp_path: Path, command_line: Call) -> None:
    planned = command_line("plan", "sycophancy-paper", cwd=tmp_path)
    assert planned.returncode == 2
    assert "cannot be read" in planned.stderr
    assert (
        "registered: excess of the user's word over an agent's, nats (excess) of yes-no (exact), within 0.1 of 0"
        in planned.stdout
    )
    assert "registered are 1500" in planned.stdout


@pytest.mark.place
def test_a_process_ends_as_the_command_line_says(tmp_path: Path) -> None:
    failed = doxascope("run", "consistency", "-m", "nobody/nothing", cwd=tmp_path)
    assert (failed.returncode, len(failed.stderr.strip().splitlines())) == (2, 1)
    assert "not to be had from the hub" in failed.stderr


def test_mistakes_in_the_prompts_are_found_before_the_first_pass(
    tiny_folder: Path, tmp_path: Path, command_line: Call
) -> None:
    for override, message in (
        ("methods={m: {prefill: 'It is ', forms: ['{option}']}}", "cannot follow the prompt"),
        ("methods={m: {labels: [A, B, a], forms: ['{option}']}}", "'A' and 'a' are the same"),
        ("methods={m: {forms: ['it']}}", "has no {option}"),
    ):
        failed = command_line("run", "consistency", "-m", str(tiny_folder), "-o", override, cwd=tmp_path)
        assert failed.returncode == 2, failed.stderr
        assert message in failed.stderr


def test_an_output_that_cannot_be_written_is_refused(tiny_folder: Path, tmp_path: Path, command_line: Call) -> None:
    (tmp_path / "file").write_text("")
    failed = command_line("run", "consistency", "-m", str(tiny_folder), "--out", "file/runs", cwd=tmp_path)
    assert failed.returncode == 2
    assert "cannot be written" in failed.stderr


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    failed = doxascope("--debug", "run", "consistancy", cwd=tmp_path)
    assert "Traceback" in failed.stderr


def test_plan_shows_an_item_and_the_tokens_of_a_read_out(tiny_folder: Path, tmp_path: Path, command_line: Call) -> None:
    plan = ("plan", "consistency", "-m", str(tiny_folder), "--item")
    item = command_line(*plan, "t0000-012", cwd=tmp_path)
    assert item.returncode == 0
    assert item.stdout.count("coverage") == 126
    one = command_line(*plan, "t0000-012/reject-1/free", cwd=tmp_path)
    assert one.stdout.count("coverage") == 1
    assert "prefilled turns" in one.stdout
    assert one.stdout.count("%  ") == 36
    wrong = command_line(
        "plan", "consistency", "-m", str(tiny_folder), "--item", "t0000-012/reject-1/fre", cwd=tmp_path
    )
    assert (wrong.returncode, len(wrong.stderr.strip().splitlines())) == (2, 1)
    assert "did you mean 't0000-012/reject-1/free'" in wrong.stderr


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("can't start new thread"),
        RuntimeError("DefaultCPUAllocator: can't allocate 8 bytes"),
    ],
    ids=str,
)
def test_a_machine_without_memory_is_one_line(
    error: Exception, command_line: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("doxascope.experiments.run.known.entry_points_of_experiments", full)
    done = command_line("ls", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("doxascope: not enough memory (")
    assert done.stderr.endswith("the same command goes on from there, once there is more\n")
