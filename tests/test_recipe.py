"""The recipe for steering does what it says: its code and its commands run in their order, on a tiny model."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

PAGE = Path(__file__).parents[1] / "docs" / "recipe-steering.md"
SMALL = ("plan.random=3", "plan.doses=[1.0, 2.0]", "plan.surgery=[]", "plan.erase=false", "neutral=2", "contexts=4")
SMALLER = tuple(part for one in SMALL for part in ("-o", one))


def test_the_recipe_runs_as_it_stands(
    tiny_folder: Path, tmp_path: Path, command_line: Callable[..., Any], monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text(encoding="utf-8").partition("## By steps")[2]
    (table,) = re.findall(r"```csv\n(.*?)```", page, re.DOTALL)
    Path("mine.csv").write_text(table)
    *steps, last = (
        code.replace("smollm2-135m", str(tiny_folder)) for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    )
    room: dict[str, Any] = {}
    for code in steps:
        exec(compile(code, PAGE.name, "exec"), room)
    exact, said = room["exact"], room["said"]
    n = table.count("\n") - 1
    assert exact.shape == said.shape == (n, len(room["BRANCHES"]))
    assert ((exact > 0) & (exact < 1) & (said > 0) & (said < 1)).all()
    for fold in range(n // 2):
        assert room["true"][room["fold_of"] == fold].tolist() in ([True, False], [False, True])
    plain = room["yes"]["prob"].to_numpy()
    np.testing.assert_allclose(exact[:, 0], plain, atol=1e-5)  # of every fold the unedited branch is the same belief
    assert (np.abs(exact[:, 1:5] - exact[:, :1]).max(axis=0) > 1e-6).all()  # and every push moves it
    assert room["effects"][0].mean == pytest.approx(np.mean(exact[:, 1] - exact[:, 2]) / 2)
    for line in re.findall(r"^doxascope .*$", page, re.MULTILINE):
        there = re.sub(r"(runs|probes)/[\w.-]+", lambda name: str(next(Path(name[1]).iterdir())), line)
        given = shlex.split(there)[1:]
        more = {"run": ("-m", str(tiny_folder)), "causal": SMALLER}.get(given[given[0] == "probe"], ())
        done = command_line(*given, *more, cwd=tmp_path)
        if "causal" in given:  # of a model that is not trained there is nothing to read
            assert (done.returncode, "reads nothing" in done.stderr) == (2, True), done.stderr
        else:
            assert done.returncode == 0, done.stderr
    (folder,) = Path("probes").glob("probe-*")
    exec(compile(last.replace("probes/probe-5e6f7a8b", str(folder)), PAGE.name, "exec"), room)
    assert len(room["held_out"]) == n
    assert {f"mine: {one.lower()}" for one in room["mine"]["statement"]} == room["held_out"].keys()
    assert np.linalg.norm(room["scaled"]) == pytest.approx(np.linalg.norm(room["mean_difference"]))
