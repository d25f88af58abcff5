import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from doxascope.experiments.config import load_config
from doxascope.experiments.runner import run
from doxascope.hooks.spec import resolve
from doxascope.hooks.transformers_backend import TransformersBackend


def test_a_run_that_ran_out_of_memory_says_so_and_reads_the_same(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment, config = load_config("consistency", ["items=2", "bootstrap_draws=50"])
    config = config.model_copy(update={"model": resolve(str(tiny_folder))})
    free = run(experiment, config, tmp_path / "free")

    whole = TransformersBackend.run

    def short(self: TransformersBackend, pack: Any, *, capture: bool = False) -> Any:
        if len(pack) > 600:
            raise torch.OutOfMemoryError
        return whole(self, pack, capture=capture)

    monkeypatch.setattr(TransformersBackend, "run", short)
    tight = run(experiment, config, tmp_path / "tight")
    before, after = (json.loads((f.path / "manifest.json").read_text())["totals"] for f in (free, tight))
    assert (before["halvings"], before["smallest_budget"]) == (0, config.token_budget)
    assert after["halvings"] > 0
    assert after["smallest_budget"] < config.token_budget
    assert after["packs"] > before["packs"]
    np.testing.assert_allclose(free.beliefs()["logp"], tight.beliefs()["logp"], atol=1e-4)
