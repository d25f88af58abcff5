"""What the raw lens does to a real model, and what the gates make of it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from doxascope.experiments.run.addons.inner_readouts import EXACT
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.folder import RunFolder
from doxascope.hooks.lens.plan import Document, words_mentioned

PAGES = Path(__file__).parents[4] / "docs"
MIDDLE, LAST = 14, 29


def generic(words: set[str]) -> str:
    """Paragraphs of our own pages that say none of the words, as many as a translator needs: four tokens to a
    dimension, of four letters or fewer."""
    paragraphs = [part for page in sorted(PAGES.glob("*.md")) for part in page.read_text().split("\n\n")]
    kept = [part for part in paragraphs if len(part) > 200 and not words_mentioned([Document(part, (), ())], words)]
    enough = int(np.searchsorted(np.cumsum([len(part) for part in kept]), 4 * 4 * 576 * 1.2)) + 1
    return "\n\n".join(kept[:enough])


@pytest.mark.full
def test_the_gates_reject_the_middle_layer_whose_raw_lens_is_consistent(
    run_tiny: Callable[..., RunFolder], text: Path, smollm_folder: Path, noise: Callable[[Any], float]
) -> None:
    settings = ("items=4", f"lens.layers=[{MIDDLE}, {LAST}]", "bootstrap_draws=200")
    experiment, config = load_config("consistency", settings)
    text.write_text(generic({word for item in experiment.items(config) for word in item.content["words"]}))
    folder = run_tiny("run", *settings, model=smollm_folder)
    rows = json.loads((folder.path / "scores.json").read_text())["scores"]
    found = {(row["subset"], row["metric"]): row for row in rows}
    middle, gate = found[f"raw@{MIDDLE}", "c2"], found[f"raw@{MIDDLE}", "readout_gate"]
    assert middle["estimate"] > 0.99
    assert middle["status"] == gate["status"] == "gate_failed"
    assert "coverage" in gate["details"]["failures"]
    assert gate["details"]["coverage"] < 1e-3
    last, exact = found[f"raw@{LAST}", "c2"], found[EXACT, "c2"]
    assert last["estimate"] == pytest.approx(exact["estimate"], abs=noise(exact["estimate"]))
    assert "partial_corr" not in found[f"raw@{LAST}", "readout_gate"]["details"]["failures"]
