"""The scripts and the notebooks of `examples/` run from beginning to end, on a tiny model."""

import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
NOTEBOOKS = EXAMPLES / "notebooks"


@pytest.fixture(scope="module")
def small(save_llama: Callable[..., Path], make_tokenizer: Callable[..., Any]) -> Path:
    """A tiny model whose tokenizer knows the words of the examples."""
    texts = tuple(file.read_text() for file in sorted(EXAMPLES.rglob("*")) if file.suffix in (".py", ".ipynb"))
    return save_llama(make_tokenizer(texts), "example", max_position_embeddings=2048)


def script(name: str) -> Callable[..., Any]:
    return runpy.run_path(str(EXAMPLES / name))["main"]


def test_ask_and_calibrate(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scores = script("ask_and_calibrate.py")(str(small))
    assert {"accuracy", "calibration_error", "gate"} <= set(scores["metric"])
    said = capsys.readouterr().out  # a random model says anything but an option
    assert "unreadable (most of the probability is on answers that are none of the options" in said


def test_capture_probe_steer(small: Path) -> None:
    table = script("capture_probe_steer.py")(str(small))
    assert table.index.tolist() == ["free", "free more", "free less", "free random", "free without"]
    assert np.isfinite(table).all(axis=None)
    assert table["prob"].nunique() == 5


def test_own_experiment(small: Path, tmp_path: Path) -> None:
    folder = script("own_experiment.py")(str(small), str(tmp_path))
    scores = json.loads((folder / "scores.json").read_text())["scores"]
    assert any(one["metric"] == "framing_bias" for one in scores)


def test_every_cell_of_the_first_notebook_runs(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    notebook = json.loads((NOTEBOOKS / "first_hour.ipynb").read_text())
    names: dict[str, Any] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            source = "".join(cell["source"]).replace('MODEL = "smollm2-135m"', f"MODEL = {str(small)!r}")
            exec(compile(source, cell["id"], "exec"), names)
    assert names["patched"].beliefs["logp"].nunique() == 4
    assert names["patched"]._repr_html_().startswith("<table")
    assert (tmp_path / "first-hour" / "dataset" / "README.md").is_file()


@pytest.mark.full
@pytest.mark.parametrize("file", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda file: file.stem)
def test_a_notebook_runs_in_a_kernel_on_the_demos_model(file: Path, tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed: pip install nbclient ipykernel")
    client = pytest.importorskip("nbclient", reason="nbclient is not installed: pip install nbclient ipykernel")
    notebook = nbformat.read(file, as_version=4)
    resources = {"metadata": {"path": str(tmp_path)}}
    done = client.NotebookClient(notebook, timeout=1200, kernel_name="python3", resources=resources).execute()
    assert all(cell["execution_count"] for cell in done["cells"] if cell["cell_type"] == "code")


def test_notebooks_are_stored_without_outputs_and_bring_the_library_to_colab() -> None:
    for file in NOTEBOOKS.glob("*.ipynb"):
        cells = [cell for cell in json.loads(file.read_text())["cells"] if cell["cell_type"] == "code"]
        assert not any(cell["outputs"] for cell in cells)
        assert "pip" in "".join(cells[0]["source"])
