"""How many tokens a model works on at once, by the memory of the device that it is on.

A GPU wants long packs, and as many histories at once as it can hold; a CPU is fastest with packs of one item. What is
chosen depends on the model's shape and the device's size alone, never on what happens to be free: the same card reads
the same packs, to the bit.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .model.blocks import input_device

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig, PreTrainedModel

LARGEST = 16384
"""Tokens of a pack on a GPU, at most: an 8B model read 1.05 times as fast in such packs as in packs of 4,096
(`benchmarks/results/gpu-20261122T1658.md`); longer ones were not tried."""
PACK_SHARE, HELD_SHARE = 1 / 8, 1 / 2
"""Of the memory that the weights leave: for the activations of a pack, and for keys and values that are held."""


@dataclass(frozen=True)
class Budgets:
    """What a model works on at once."""

    pack: int
    """Most tokens of one forward pass."""
    held: int
    """Most tokens whose keys and values are held while texts are sampled."""
    on_cpu: bool = False


CPU_PACK = 1024
"""On a CPU packs of one item are fastest: the dense mask grows with the square."""
CPU_HELD_BYTES = 4 * 2**30
"""Of keys and values on a CPU, at most; they take memory as texts grow."""
LEAST_HELD = 4096
"""Tokens, however small the device is."""


def budgets_of(model: "PreTrainedModel") -> Budgets:
    """The budgets of a model where it is. Under a device map the smallest device decides."""
    import torch

    places = {parameter.device for parameter in model.parameters()}
    config = model.config.get_text_config()
    if input_device(model).type != "cuda":
        return Budgets(CPU_PACK, _held(CPU_HELD_BYTES, config, model.dtype), on_cpu=True)
    weights = sum(parameter.nbytes for parameter in model.parameters()) / len(places)
    total = min(torch.cuda.get_device_properties(place).total_memory for place in places if place.type == "cuda")
    return budgets_within(total - weights, config, model.dtype)


def budgets_within(free: float, config: "PretrainedConfig", dtype: "torch.dtype") -> Budgets:
    """The budgets in so many bytes, in powers of two; never below one item and a few texts."""
    d = config.hidden_size
    active = dtype.itemsize * (8 * d + 3 * (getattr(config, "intermediate_size", None) or 4 * d))
    pack = min(LARGEST, max(CPU_PACK, _power_of_two(PACK_SHARE * free / active)))
    return Budgets(pack, _held(HELD_SHARE * free, config, dtype))


def _held(memory: float, config: "PretrainedConfig", dtype: "torch.dtype") -> int:
    """Tokens whose keys and values fit into so many bytes."""
    heads = getattr(config, "num_attention_heads", None) or 1  # what has no attention keeps less than this
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    width = (getattr(config, "num_key_value_heads", None) or heads) * size
    return max(LEAST_HELD, _power_of_two(memory / (dtype.itemsize * 2 * width * config.num_hidden_layers)))


def _power_of_two(number: float) -> int:
    return 1 << max(0, int(number).bit_length() - 1)
