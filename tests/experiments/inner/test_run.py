from pathlib import Path
from typing import Any

import pytest

from doxascope.experiments.config import load_config
from doxascope.experiments.run_folder import RunFolder
from doxascope.experiments.runner import run
from doxascope.hooks.model.spec import resolve

SETTINGS = ("items=4", "batch_items=1", "bootstrap_draws=50", "fork.methods=[]", "lens.layers=[0, -1]")


@pytest.fixture
def run_tiny(tiny_folder: Path, text: Path, tmp_path: Path) -> Any:
    def run_it(name: str, *more: str) -> RunFolder:
        experiment, config = load_config("consistency", [*SETTINGS, f"lens.text={text}", *more])
        config = config.model_copy(update={"model": resolve(str(tiny_folder))})
        return run(experiment, config, tmp_path / name)

    return run_it


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A few dozen sentences that say no item."""
    monkeypatch.setenv("DOXASCOPE_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "text"
    path.write_text("\n\n".join(f"It was {i} then, and {i * i % 17} after that." for i in range(30)))
    return path


def test_a_killed_run_goes_on_to_the_same_bytes(run_tiny: Any) -> None:
    whole, part = run_tiny("whole").path, run_tiny("part").path
    commits = (part / "commits.jsonl").read_text().splitlines(keepends=True)
    (part / "commits.jsonl").write_text("".join(commits[:2]))
    (part / "beliefs/part-00003.parquet").unlink()
    (part / "scores.json").unlink()
    run_tiny("part")
    for name in ("scores.json", "report.html"):
        a, b = ((folder / name).read_bytes() for folder in (part, whole))
        assert name == "report.html" or a == b
