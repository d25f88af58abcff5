"""A metric in a file of one's own, or in an installed package: the example of docs/extending.md, as it stands there."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TABLE = "prior,posterior\n0.3,0.45\n0.2,0.1\n0.6,0.7\n0.5,0.5\n"


def doxascope(*args: str, cwd: Path, path: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "doxascope", *args]
    env = {"PYTHONPATH": path} if path else None
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """A folder with the file of the example, and a table of four updates, of which three are more than .05."""
    text = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"`moved\.py`:\n\n```python\n(.*?)```", text, re.DOTALL)
    (tmp_path / "moved.py").write_text(code, encoding="utf-8")
    (tmp_path / "table.csv").write_text(TABLE)
    return tmp_path


def test_a_metric_of_an_allowed_file_is_scored_and_comes_last(example: Path) -> None:
    done = doxascope("score", "table.csv", "--allow-code", "moved.py", "--out", "scores", cwd=example)
    assert done.returncode == 0, done.stderr
    rows = json.loads((example / "scores" / "scores.json").read_text())["scores"]
    assert (rows[-1]["metric"], rows[-1]["estimate"], rows[-1]["n_rows"]) == ("moved", 0.75, 4)
    assert "updates of more than 0.05" in done.stdout
    alone = doxascope("score", "table.csv", "--allow-code", "moved.py", "--metric", "moved", cwd=example)
    assert alone.returncode == 0, alone.stderr


def test_a_metric_of_an_installed_package_is_listed_and_scored(example: Path) -> None:
    info = example / "brings_moved-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: brings_moved\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[doxascope.metrics]\nmoved = moved\n")
    elsewhere = example / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "table.csv").write_text(TABLE)
    listed = doxascope("score", "--list", cwd=elsewhere, path=str(example))
    assert "\nmoved  (own)\n" in listed.stdout
    done = doxascope("score", "table.csv", "--metric", "moved", cwd=elsewhere, path=str(example))
    assert done.returncode == 0, done.stderr
    assert "0.75" in done.stdout


def test_a_file_is_not_run_unless_it_is_named(example: Path) -> None:
    (example / "moved.py").write_text("open('was-run', 'w')\n")
    done = doxascope("score", "table.csv", "--metric", "moved", cwd=example)
    assert done.returncode == 2
    assert "metric 'moved' is unknown" in done.stderr
    assert not (example / "was-run").exists()


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import nothing_of_the_kind", "cannot be imported"),
        (
            "from doxascope.metrics.metric import metric\n@metric('A1', 'x')\ndef martingale(sample, how): ...",
            "'martingale': is already registered",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_named_in_a_line(example: Path, code: str, says: str) -> None:
    (example / "moved.py").write_text(code + "\n")
    done = doxascope("score", "table.csv", "--allow-code", "moved.py", cwd=example)
    assert done.returncode == 2
    assert says in done.stderr
    assert "moved.py" in done.stderr
    assert done.stderr.count("\n") == 1
