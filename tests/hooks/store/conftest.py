"""Small stores with known content."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from doxascope.hooks.store import ActivationWriter, Header


@pytest.fixture
def header() -> Header:
    return Header(
        sites=("resid_pre", "resid_post"),
        layers=(0, 3, 7),
        d_model=16,
        dtype="float32",
        conditions={"model": {"name": "ä 中", "template": "own"}, "versions": {"torch": "2.6"}},
    )


@pytest.fixture
def make_batch() -> Callable[..., tuple[pd.DataFrame, dict[str, Any]]]:
    """Rows and random residuals of batch `number`, `n` read-outs with two positions each."""

    def make(number: int, n: int = 20) -> tuple[pd.DataFrame, dict[str, Any]]:
        rows = pd.DataFrame(
            {
                "readout_id": [f"t{number}/é{i // 2}" for i in range(2 * n)],
                "position": ["question", "last"] * n,
                "token_index": np.arange(2 * n) + 5,
                "ids_hash": [f"{number:04}{i:04}" for i in range(2 * n)],
            }
        )
        draw = np.random.default_rng(number)
        return rows, {site: draw.standard_normal((2 * n, 3, 16)).astype("f4") for site in ("resid_pre", "resid_post")}

    return make


@pytest.fixture
def store(tmp_path: Path, header: Header, make_batch: Callable[..., Any]) -> Path:
    """A store of three batches, 40 rows each."""
    path = tmp_path / "store"
    with ActivationWriter.open(path, header) as writer:
        for number in range(3):
            writer.add(number, *make_batch(number))
    return path
