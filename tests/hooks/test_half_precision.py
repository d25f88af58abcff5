"""bfloat16 weights with a float32 head: how far from float32, and whether it is still one model."""

from typing import Any

import numpy as np
import pytest

from doxascope import load


@pytest.fixture(scope="module")
def half() -> Any:
    return load("smollm2-135m", dtype="bfloat16")


def test_bfloat16_stays_within_tenths_of_a_nat_of_float32(smollm: Any, half: Any) -> None:
    assert half.identity.path == "packed"
    assert str(half.head.weight.dtype) == "torch.float32"
    asked = [[{"role": "user", "content": f"Is {word} a fruit?"}] for word in ("apple", "stone", "pear", "rain")]
    exact, rough = (lm.beliefs(asked, ["Yes", "No"]).beliefs for lm in (smollm, half))
    gap = np.abs(exact["logp"] - rough["logp"]).max()
    assert 1e-3 < gap < 0.4
    assert np.abs(exact["prob"] - rough["prob"]).max() < 0.1
