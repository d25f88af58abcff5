"""An experiment in a file of one's own: the example of docs/extending.md, as it stands there."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ("metrics", "hooks", "experiments", "configs")


def doxascope(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "doxascope", *args]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """A folder with the two files of the example."""
    text = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    for name, kind in (("negation.py", "python"), ("negation.yaml", "yaml")):
        (code,) = re.findall(rf"`{re.escape(name)}`:\n\n```{kind}\n(.*?)```", text, re.DOTALL) or [""]
        (tmp_path / name).write_text(code, encoding="utf-8")
    return tmp_path


def sources() -> dict[str, str]:
    return {str(file): file.read_text(encoding="utf-8") for folder in PACKAGE for file in (ROOT / folder).rglob("*.py")}


def test_the_example_runs_from_a_folder_outside_the_package(example: Path, tiny_folder: Path) -> None:
    before = sources()
    assert len((example / "negation.py").read_text().splitlines()) < 60
    small = ("-m", str(tiny_folder), "-o", "bootstrap_draws=50")
    done = doxascope("run", "negation.yaml", "--allow-code", "negation.py", *small, "--verify", "1", cwd=example)
    assert done.returncode == 0, done.stderr
    (folder,) = (example / "runs").iterdir()
    scores = json.loads((folder / "scores.json").read_text())["scores"]
    bias = {row["method"]: row["estimate"] for row in scores if row["metric"] == "framing_bias"}
    assert bias.keys() == {"plain", "careful"}
    assert any(row["metric"] == "framing_bias_difference" for row in scores)
    assert "framing bias" in (folder / "report.html").read_text()
    told = doxascope("score", str(folder), "--allow-code", str(example / "negation.py"), cwd=example)
    assert told.returncode == 0, told.stderr
    assert "framing bias" in told.stdout
    assert sources() == before


@pytest.mark.parametrize("command", [("run", "negation.yaml"), ("plan", "negation.yaml")])
def test_a_file_is_not_run_unless_it_is_named(example: Path, command: tuple[str, ...]) -> None:
    (example / "negation.py").write_text("open('was-run', 'w')\n")
    done = doxascope(*command, cwd=example)
    assert done.returncode == 2
    assert "--allow-code" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (example / "was-run").exists()


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import nothing_of_the_kind", "cannot be imported"),
        ("class Negation: pass", "is no subclass of doxascope.Experiment"),
        ("from doxascope import Experiment\nclass Negation(Experiment):\n    name = 'x'", "lacks 'findings'"),
    ],
)
def test_a_file_that_holds_no_experiment_is_named_in_a_line(example: Path, code: str, says: str) -> None:
    (example / "negation.py").write_text(code + "\n")
    done = doxascope("run", "negation.yaml", "--allow-code", "negation.py", cwd=example)
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
