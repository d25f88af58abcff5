"""The diagnosis of a machine, seen from the command line, and what it says of what is broken."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from doxascope.hooks.checks.doctor import folders, readings
from doxascope.hooks.checks.installation import _found


def test_what_is_installed_reads_and_is_said(command_line: Callable[..., Any], tmp_path: Path) -> None:
    done = command_line("doctor", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["usable"]
    found = {(finding["section"], finding["name"]): finding for finding in told["findings"]}
    for kernel in ("sdpa", "eager"):
        assert found["reading", f"cpu {kernel}"]["state"] == "ok", found
    for name in ("torch", "pandas"):
        assert found["libraries", name]["state"] == "ok"
    assert all(finding["advice"] for finding in told["findings"] if finding["state"] == "missing")
    assert {name for section, name in found if section == "reading"} >= {"cpu sdpa", "cpu eager"}
    assert not list(tmp_path.iterdir())  # to look leaves nothing


def test_a_device_that_is_not_there_fails_and_is_no_exception() -> None:
    found = list(readings(["cuda:77"]))
    assert {finding.state for finding in found} == {"fails"}
    assert len(found) >= 2


@pytest.mark.parametrize(
    ("asked", "state"), [("numpy>=1", "ok"), ("numpy>=999", "fails"), ("no-such-library", "missing")]
)
def test_versions_are_compared(asked: str, state: str) -> None:
    needed, extra = _found(Requirement(asked), ""), _found(Requirement(asked), "ray")
    assert (needed.state, needed.needed, extra.needed) == (state, state != "ok", False)
    assert (extra.advice == 'pip install "doxascope[ray]"') == (state != "ok")


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs, cache, _ = folders(tmp_path / "not" / "there")
    assert runs.state == cache.state == "ok"
    monkeypatch.setenv("DOXASCOPE_CACHE", "/proc/cache")
    _, cache, _ = folders(tmp_path)
    assert (cache.state, cache.advice) == ("fails", "set DOXASCOPE_CACHE to another folder")
