"""The mask of a tree as blocks: the same tokens are seen, and the same is read."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention.flex_attention import create_mask

from doxascope import load
from doxascope.hooks.tree import flex
from doxascope.hooks.tree.attention import BLOCKS, KERNEL, use_tree_attention
from doxascope.hooks.tree.layouts import Packed
from doxascope.hooks.tree.token_tree import Pack, TokenTree, cut_into_packs

WINDOW = 100
SHAPE: dict[str, Any] = {
    "hidden_size": 48,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "initializer_range": 0.3,
}
MIXED = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": WINDOW}
MODELS: dict[str, dict[str, Any]] = {
    "llama": SHAPE | {"num_attention_heads": 4, "num_key_value_heads": 2},
    "mistral": SHAPE | {"sliding_window": WINDOW},
    "gemma3_text": SHAPE | MIXED,
    "gpt2": {"n_embd": 48, "n_layer": 2, "n_head": 3, "initializer_range": 0.3},
}


@pytest.fixture
def uncompiled() -> Iterator[None]:
    with torch.compiler.set_stance("force_eager"):
        yield


def grown(seed: int, branches: int) -> Pack:
    """A pack of a path of 200 tokens from which random branches go off, and branches from those."""
    draw, tree = np.random.default_rng(seed), TokenTree()
    ends = [tree.add(draw.integers(3, 60, 200).tolist())[-1]]
    for _ in range(branches):
        ids = draw.integers(3, 60, draw.integers(1, 120)).tolist()
        ends.append(tree.add(ids, below=int(draw.integers(-1, len(tree))))[-1])
    (pack,) = cut_into_packs(tree, ends, budget=10_000)
    return pack


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 12), st.sampled_from([None, 7, WINDOW, 1000]))
def test_blocks_show_what_the_mask_shows(seed: int, branches: int, window: int | None) -> None:
    pack = flex.padded(grown(seed, branches))
    n = len(pack)
    assert n % flex.BLOCK == 0
    mask: Any = flex.block_mask(pack.ends, pack.positions, window, torch.device("cpu"))
    near = pack.positions[:, None] - pack.positions < (window or n)
    visible = torch.from_numpy(pack.visible() & near)
    assert torch.equal(create_mask(mask.mask_mod, 1, 1, n, n, device="cpu")[0, 0], visible)
    tiles = visible.view(n // flex.BLOCK, flex.BLOCK, n // flex.BLOCK, flex.BLOCK).transpose(1, 2).flatten(2)
    full = torch.zeros(tiles.shape[:2], dtype=torch.bool)
    some = full.clone()
    for row in range(len(full)):
        full[row, mask.full_kv_indices[0, 0, row, : mask.full_kv_num_blocks[0, 0, row]].long()] = True
        some[row, mask.kv_indices[0, 0, row, : mask.kv_num_blocks[0, 0, row]].long()] = True
    assert not (full & some).any()
    assert (full <= tiles.all(dim=2)).all(), "a whole block is not masked"
    assert (tiles.any(dim=2) <= full | some).all(), "what a block shows is computed"
    if window is None:
        assert torch.equal(full, tiles.all(dim=2) & ~torch.eye(len(full), dtype=torch.bool))
        assert torch.equal(full | some, tiles.any(dim=2))


def test_batches_are_padded_by_an_eighth_at_most_to_few_lengths() -> None:
    lengths = [flex.whole_blocks(n) for n in range(1, 16385)]
    assert all(n <= length < n + max(flex.BLOCK, n / 8 + 1) for n, length in enumerate(lengths, 1))
    assert all(length % flex.BLOCK == 0 for length in lengths)
    assert len(set(lengths)) <= 41


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.usefixtures("uncompiled")
def test_blocks_and_dense_masks_read_the_same(
    save_architecture: Callable[..., Path], name: str, noise: Callable[[Any], float]
) -> None:
    folder, pack, found = save_architecture(name, MODELS[name]), grown(1, 12), []
    for blocks in (False, True):
        model: Any = load(str(folder)).model
        use_tree_attention(model, blocks=blocks)
        assert model.config._attn_implementation == (BLOCKS if blocks else KERNEL)
        (batch,) = Packed(model).batches(pack)
        with torch.inference_mode():
            found.append(model.base_model(**batch.inputs, use_cache=False).last_hidden_state[0][batch.home])
    torch.testing.assert_close(found[1], found[0], rtol=0, atol=noise(found[0]))


@pytest.mark.usefixtures("uncompiled")
def test_a_model_is_read_by_blocks_where_it_is_asked_for(save_architecture: Callable[..., Path]) -> None:
    folder = str(save_architecture("gemma3_text", MODELS["gemma3_text"]))
    flexed, dense = load(folder, kernel="flex"), load(folder, kernel="sdpa")
    assert (flexed.identity.kernel.split(",")[0], dense.identity.kernel) == (BLOCKS, KERNEL)  # on a GPU: fused blocks
    one, other = (lm.beliefs("Is it?", ["yes", "no"]).beliefs["logp"].to_numpy() for lm in (flexed, dense))
    np.testing.assert_allclose(one, other, atol=1e-5)


def test_where_flex_fails_masks_are_dense_and_it_is_said(
    save_architecture: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> Any:
        raise RuntimeError("no compiler")

    monkeypatch.setattr(flex, "_compiled", broken)
    lm = load(str(save_architecture("llama", MODELS["llama"])), kernel="flex")
    assert lm.identity.kernel == KERNEL
    assert "flex attention fails here (no compiler): dense masks are used" in caplog.text
