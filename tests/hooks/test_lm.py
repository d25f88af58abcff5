from pathlib import Path
from typing import Any

import numpy as np
import pytest

from doxascope import UserError, load


def test_the_face_of_the_library(tiny_folder: Path) -> None:
    with load(str(tiny_folder)) as lm:
        beliefs, residuals = lm.beliefs(
            [[{"role": "user", "content": f"Is {word} a fruit?"}] for word in ("apple", "stone")],
            options=["yes", "no"],
            capture="last",
        )
    assert beliefs["option"].tolist() == ["yes", "no", "yes", "no"]
    assert beliefs.groupby("readout_id")["prob"].sum().tolist() == pytest.approx([1, 1])
    np.testing.assert_allclose(np.exp(beliefs["logp"]), beliefs["prob"] * beliefs["coverage"])
    assert residuals is not None
    assert residuals.shape == (2, 3, 32)


def test_what_was_not_asked_for_is_not_there(tiny: Any) -> None:
    assert tiny.beliefs("Is it?", options=["yes", "no"]).residuals is None
    with pytest.raises(UserError, match="capture 'first'"):
        tiny.beliefs("Is it?", options=["yes", "no"], capture="first")


def test_low_coverage_is_flagged_and_kept(tiny: Any) -> None:
    table = tiny.beliefs("Is it?", options=["yes", "no"]).beliefs
    assert (table["coverage"] < 0.5).all()
    assert set(table["status"]) == {"low_coverage"}
    assert table["prob"].notna().all()


def test_a_conversation_read_alone_or_among_others_is_the_same_belief(smollm: Any, noise: Any) -> None:
    asked = [[{"role": "user", "content": f"Is {word} a fruit?"}] for word in ("apple", "stone", "pear")]
    together = smollm.beliefs(asked, options=["yes", "no"]).beliefs
    alone = np.concatenate([smollm.beliefs(one, options=["yes", "no"]).beliefs["logp"] for one in asked])
    np.testing.assert_allclose(together["logp"], alone, atol=noise(alone))


def test_identity_tells_models_apart_and_settings_too(tiny_folder: Path) -> None:
    one, same, other = load(str(tiny_folder)), load(str(tiny_folder)), load(str(tiny_folder), dtype="bfloat16")
    assert one.identity == same.identity
    assert other.identity.dtype == "bfloat16"
    same.model.model.layers[0].mlp.up_proj.weight.data *= 1.01
    del same.identity
    assert one.identity.weights != same.identity.weights


def test_half_precision_keeps_logits_in_float32(tiny_folder: Path) -> None:
    exact, half = load(str(tiny_folder)), load(str(tiny_folder), dtype="bfloat16")
    hidden = half.head.weight[:1].to(half.model.dtype)
    assert str(half.head.log_probs(hidden).dtype) == "torch.float32"
    gap = [lm.beliefs("Is it?", options=["yes", "no"]).beliefs["logp"] for lm in (exact, half)]
    np.testing.assert_allclose(gap[0], gap[1], atol=0.5)
    assert not np.allclose(gap[0], gap[1], atol=1e-6)
