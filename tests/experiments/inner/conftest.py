"""Small runs that read inner layers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from doxascope.experiments.engine.config import load_config
from doxascope.experiments.engine.runner import run
from doxascope.experiments.runs.folder import RunFolder
from doxascope.hooks.model.spec import resolve_model

ASK = '"Which one? A) {a} B) {b} C) {c}"'
LETTERS = f'methods={{letters: {{reveal: {ASK}, labels: [A, B, C], forms: ["{{option}}", "({{option}}"]}}}}'
SETTINGS = ("items=4", "batch_items=1", "bootstrap_draws=50", "fork.methods=[]", "lens.layers=all", LETTERS)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("DOXASCOPE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "lens"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A few sentences that say no item, enough for a tiny model."""
    path = tmp_path / "text"
    path.write_text("\n\n".join(f"It was {i} then, and {i * i % 17} after that." for i in range(30)))
    return path


@pytest.fixture
def run_tiny(tiny_folder: Path, text: Path, tmp_path: Path) -> Callable[..., RunFolder]:
    """Runs consistency on a tiny model, the letters alone."""

    def run_it(name: str, *more: str, model: Path | str = tiny_folder) -> RunFolder:
        experiment, config = load_config("consistency", [*SETTINGS, f"lens.text={text}", *more])
        config: Any = config.model_copy(update={"model": resolve_model(str(model))})
        return run(experiment, config, tmp_path / name)

    return run_it
