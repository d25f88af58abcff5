"""What the continuous integration leaves out is known by name, and what fails in it is seen."""

import sys
from pathlib import Path

import pytest

from doxascope.benchmarks import full
from doxascope.benchmarks.full import ROOT, SIZES, Step, main, steps


def test_every_shipped_experiment_is_run(tmp_path: Path) -> None:
    shipped = {file.stem for file in (ROOT / "configs").glob("*.yaml") if not file.stem.startswith(full.JOBS)}
    run = {step.name for step in steps(tmp_path) if step.group == "presets"}
    assert run == set(SIZES) == shipped


def test_a_step_that_fails_is_told_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def short(place: Path) -> list[Step]:
        python = (sys.executable, "-c")
        return [
            Step("first", "wrong", (*python, "print('so far | good'); raise SystemExit(3)")),
            Step("second", "right", (*python, "import os; print(os.environ['SIZE'])"), (("SIZE", "small"),)),
        ]

    monkeypatch.setattr(full, "steps", short)
    monkeypatch.setattr("sys.argv", ["full.py", "--out", str(tmp_path)])
    assert main() == 1
    (record,) = tmp_path.glob("full-*.md")
    rows = record.read_text().splitlines()[-2:]
    assert ["exit code 3" in rows[0], "so far \\| good" in rows[0]] == [True, True]
    assert rows[1].startswith("| second | right | ")
    assert rows[1].endswith("| ok | small |")
    monkeypatch.setattr("sys.argv", ["full.py", "--out", str(tmp_path), "--only", "second"])
    assert main() == 0
    monkeypatch.setattr("sys.argv", ["full.py", "--only", "third"])
    with pytest.raises(SystemExit):
        main()
    assert "there is no 'third'" in capsys.readouterr().err
