"""Small runs that read inner layers."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.folder import RunFolder
from doxascope.experiments.run.runner import run
from doxascope.hooks.model.spec import resolve_model

ASK = '"Which one? A) {a} B) {b} C) {c}"'
LETTERS = f'methods={{letters: {{reveal: {ASK}, labels: [A, B, C], forms: ["{{option}}", "({{option}}"]}}}}'
SETTINGS = ("items=4", "batch_items=1", "bootstrap_draws=50", "fork.methods=[]", "lens.layers=all", LETTERS)


@pytest.fixture(scope="package")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty folder; the cache is in it, for all tests of this folder."""
    path = tmp_path_factory.mktemp("inner")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOXASCOPE_CACHE", str(path / "cache"))
        yield path


@pytest.fixture(scope="package")
def shared_text(home: Path) -> Path:
    """A few sentences that say no item, enough for a tiny model."""
    path = home / "text"
    path.write_text("\n\n".join(f"It was {i} then, and {i * i % 17} after that." for i in range(30)))
    return path


@pytest.fixture(scope="package")
def run_shared(tiny_folder: Path, shared_text: Path, home: Path) -> Callable[..., RunFolder]:
    """Runs consistency on a tiny model, the letters alone."""
    return _runner(tiny_folder, shared_text, home)


@pytest.fixture(scope="package")
def whole(run_shared: Callable[..., RunFolder]) -> RunFolder:
    """Such a run. What changes it copies it first."""
    return run_shared("whole", "lens.jacobian=20")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("DOXASCOPE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "lens"


@pytest.fixture
def text(tmp_path: Path, shared_text: Path) -> Path:
    """A copy of the sentences, to be changed."""
    path = tmp_path / "text"
    path.write_text(shared_text.read_text())
    return path


@pytest.fixture
def run_tiny(tiny_folder: Path, text: Path, tmp_path: Path, cache: Path) -> Callable[..., RunFolder]:
    """The same as `run_shared` in a folder, with a text and a cache of its own."""
    return _runner(tiny_folder, text, tmp_path)


def _runner(folder: Path, text: Path, home: Path) -> Callable[..., RunFolder]:
    def run_it(name: str, *more: str, model: Path | str = folder) -> RunFolder:
        experiment, config = load_config("consistency", [*SETTINGS, f"lens.text={text}", *more])
        config: Any = config.model_copy(update={"model": resolve_model(str(model))})
        return run(experiment, config, home / name)

    return run_it
