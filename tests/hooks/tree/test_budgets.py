"""How many tokens are run and held at once."""

from typing import Any

import pytest
from transformers import LlamaConfig

from doxascope.hooks.tree.memory import CPU_PACK, LARGEST, budgets_within

GIB = 2**30
EIGHT_B = LlamaConfig(
    hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8
)


@pytest.mark.parametrize(("free", "pack"), [(64 * GIB, LARGEST), (8 * GIB, 4096), (1, CPU_PACK)])
def test_packs_grow_with_memory_in_powers_of_two(free: float, pack: int) -> None:
    assert budgets_within(free, EIGHT_B, 2).pack == pack


def test_what_is_held_fits_into_half_of_the_memory() -> None:
    """Keys and values of an 8B model take 128 KiB a token in bfloat16."""
    held = budgets_within(64 * GIB, EIGHT_B, 2).held
    assert 16 * GIB < held * 2 * 32 * 8 * 128 * 2 <= 32 * GIB


def test_a_cpu_has_the_budget_of_one_item(tiny: Any) -> None:
    if tiny.model.device.type == "cuda":
        pytest.skip("the models are on a GPU")
    assert tiny.budgets.pack == CPU_PACK


def test_on_a_cpu_so_many_texts_are_held_as_four_gigabytes_take(tiny: Any) -> None:
    config = tiny.model.config
    token = 4 * 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim
    if tiny.model.device.type == "cuda":
        pytest.skip("the models are on a GPU")
    assert 2 * GIB < tiny.budgets.held * token <= 4 * GIB
