"""Attention by trunk and branches: what it computes is in `test_architectures.py`; here, where it is done."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from doxascope import load
from doxascope.hooks.generation.histories import CachedHistories
from doxascope.hooks.tree.attention import KERNEL, mark_groups, mark_trunk
from doxascope.hooks.tree.layouts import Packed
from doxascope.hooks.tree.token_tree import TokenTree, cut_into_packs

LLAMA: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
WINDOW = 8


def masks_and_pass(model: Any, trunk: int) -> tuple[Any, Callable[[Any], torch.Tensor]]:
    """The mask of a path of `trunk` tokens with two branches, and the pass under a mask."""
    tree, words = TokenTree(), list(range(3, 3 + trunk))
    ends = [tree.add([*words[:-3], 1, 2])[-1], tree.add(words)[-1], tree.add([*words[:2], 2, 2])[-1]]
    (one,) = cut_into_packs(tree, ends, budget=100)
    (batch,) = Packed(model).batches(one)
    inputs = dict(batch.inputs)

    def run(mask: Any) -> torch.Tensor:
        with torch.inference_mode():
            return model(**(inputs | {"attention_mask": mask})).logits[0]

    return inputs["attention_mask"], run


def test_a_marked_trunk_is_read_causally_whatever_the_mask_says_of_it(
    save_architecture: Callable[..., Path], noise: Callable[[Any], float]
) -> None:
    lm = load(str(save_architecture("llama", LLAMA)))
    assert lm.identity.kernel == KERNEL
    mask, run = masks_and_pass(lm.model, 10)
    whole = run(mask)
    torch.testing.assert_close(run(mask.clone()), whole, rtol=0, atol=noise(whole))  # a clone is not marked
    blank = mask.clone()
    blank[:, :, :10, :10] = 0
    assert (run(blank)[:10] - whole[:10]).abs().max() > 1e-3
    torch.testing.assert_close(run(mark_trunk(blank, 10)), whole, rtol=0, atol=noise(whole))


def test_groups_of_rows_see_their_own_columns_alone_whatever_the_mask_says_of_others(
    save_architecture: Callable[..., Path], noise: Callable[[Any], float]
) -> None:
    model = load(str(save_architecture("llama", LLAMA))).model
    tree = TokenTree()
    ends = [tree.add(list(range(first, first + 6)))[-1] for first in (3, 13)]
    (one,) = cut_into_packs(tree, ends, budget=100)
    (batch,) = Packed(model).batches(one)
    inputs = dict(batch.inputs)

    def run(mask: Any) -> torch.Tensor:
        with torch.inference_mode():
            return model(**(inputs | {"attention_mask": mask})).logits[0]

    mask = inputs["attention_mask"].clone()
    whole, blank = run(mask), mask.clone()
    blank[:, :, :6, 6:] = blank[:, :, 6:, :6] = 0
    assert (run(blank) - whole).abs().max() > 1e-3
    groups = [(rows, rows) for rows in (np.arange(6), np.arange(6, 12))]
    torch.testing.assert_close(run(mark_groups(blank, groups)), whole, rtol=0, atol=noise(whole))


def test_histories_in_one_cache_are_read_as_each_alone(
    save_architecture: Callable[..., Path], noise: Callable[[Any], float]
) -> None:
    """Long enough that each attends by itself; the third goes on from the first, too."""
    model = load(str(save_architecture("llama", LLAMA))).model
    begun = [[5, 6, 7], [8, 9, 5]]
    paths = [begun[0] + [4 + i % 9 for i in range(20)], begun[1] + [3] * 18, begun[0] + [12] * 17]
    together = CachedHistories(model)
    held = [together.extend(None, ids) for ids in begun]
    together.compute(held)
    leaves = [together.extend(None, ids) for ids in paths]
    together.compute(leaves)
    for ids, leaf in zip(paths, leaves, strict=True):
        alone = CachedHistories(model)
        whole = alone.extend(None, ids)
        alone.compute([whole])
        assert leaf.hidden is not None
        torch.testing.assert_close(leaf.hidden, whole.hidden, rtol=0, atol=noise(whole.hidden))


@pytest.mark.parametrize(("trunk", "marked"), [(WINDOW, WINDOW), (WINDOW + 1, 0)])
def test_a_trunk_that_a_window_cuts_is_not_marked(
    save_architecture: Callable[..., Path], trunk: int, marked: int, noise: Callable[[Any], float]
) -> None:
    settings = LLAMA | {"head_dim": 8, "layer_types": ["sliding_attention", "full_attention"], "sliding_window": WINDOW}
    model: Any = load(str(save_architecture("gemma3_text", settings))).model
    mask, run = masks_and_pass(model, trunk)
    assert [one.doxascope_trunk for one in (mask["full_attention"], mask["sliding_attention"])] == [trunk, marked]
    unmarked = {kind: one.clone() for kind, one in mask.items()}
    whole = run(mask)
    torch.testing.assert_close(run(unmarked), whole, rtol=0, atol=noise(whole))


def test_another_kernel_is_left_as_it_is(save_architecture: Callable[..., Path]) -> None:
    assert load(str(save_architecture("llama", LLAMA)), kernel="eager").identity.kernel == "eager"
