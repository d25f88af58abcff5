"""How many tokens a model works on at once, by the memory of its device; what does not fit is cut smaller and run
again.

A GPU wants long packs, and as many histories at once as it can hold; a CPU is fastest with packs of one item. What is
chosen depends on the model's shape and the device's size alone, never on what happens to be free: the same card reads
the same packs, to the bit.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...base.errors import UserError
from ..model.blocks import attention_heads, input_device
from ..model.shape import CHOSEN
from .token_tree import Pack, TokenTree

log = logging.getLogger("doxascope")

SMALLEST = 64
"""Tokens of a pass that goes on from others, below which it is the keys and values that do not fit."""


@dataclass(frozen=True)
class Cost:
    """What a batch of read-outs cost."""

    tokens_tree: int
    """Unique tokens of the tree."""
    tokens_run: int
    """Tokens that went through the model: on the packed path more than the tree's only where packs repeat
    ancestors, on the padded path every token of every path."""
    packs: int
    budget: int
    """Most tokens of a pack, as finally used."""
    halvings: int
    """How often memory ran out and the budget was halved."""


def sum_costs(costs: Sequence[Cost]) -> Cost:
    """The cost of several batches of read-outs."""
    return Cost(
        tokens_tree=sum(cost.tokens_tree for cost in costs),
        tokens_run=sum(cost.tokens_run for cost in costs),
        packs=sum(cost.packs for cost in costs),
        budget=min(cost.budget for cost in costs),
        halvings=sum(cost.halvings for cost in costs),
    )


def run_packs(
    tree: TokenTree,
    read: Iterable[int],
    budget: int,
    run: Callable[[Pack], int],
    cut: Callable[[TokenTree, Iterable[int], int], list[Pack]],
) -> Cost:
    """Give all packs of the nodes `read`, as they are `cut`, to `run`, which keeps what it reads and returns the tokens
    it took.

    When memory runs out, the budget is halved and all that is not read yet is packed anew. Raises UserError when a
    single path does not fit.
    """
    import torch

    todo = cut(tree, read, budget)
    tokens_run = done = halvings = 0
    while todo:
        try:
            tokens_run += run(todo[0])
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        else:
            done += 1
            todo = todo[1:]
            continue
        # Out here the error is gone, and with it the tensors that its traceback held.
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        budget, halvings = max(1, min(budget, len(todo[0])) // 2), halvings + 1
        log.warning("out of memory on a pack of %d tokens: going on with packs of %d", len(todo[0]), budget)
        first = todo[0]
        todo = cut(tree, [int(node) for pack in todo for node in pack.nodes], budget)
        if first.most <= SMALLEST if first.most else len(first.rows) == 1 and not todo[0].most:
            raise UserError(
                f"out of memory on a single path of {first.positions.max() + 1} tokens; shorten the prompt, or use a "
                "smaller dtype or a larger device"
            )
    return Cost(len(tree), tokens_run, done, budget, halvings)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error is a lack of memory, on a GPU or on the CPU."""
    import torch

    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "DefaultCPUAllocator" in str(error)


if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

LARGEST = 16384
"""Tokens of a pack on a GPU, at most: an 8B model read 1.05 times as fast in such packs as in packs of 4,096
(`benchmarks/results/gpu-20261122T1923.md`); longer ones were not tried."""
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
    invariant: bool = False
    """Whether items share passes there, by default, since none reads another bit for it."""


CPU_PACK = 1024
"""On a CPU packs of one item are fastest: the dense mask grows with the square."""
CPU_HELD_BYTES = 4 * 2**30
"""Of keys and values on a CPU, at most; they take memory as texts grow."""
LEAST_HELD = 4096
"""Tokens, however small the device is."""


def budgets_of(model: "PreTrainedModel") -> Budgets:
    """The budgets of a model where it is. Under a device map the smallest device decides."""
    places = {parameter.device for parameter in model.parameters()}
    config = model.config.get_text_config()
    if input_device(model).type != "cuda":
        return Budgets(CPU_PACK, _held(CPU_HELD_BYTES, config, model.dtype.itemsize), on_cpu=True)
    weights = sum(parameter.nbytes for parameter in model.parameters()) / len(places)
    total = min(memory_of(str(place)) for place in places if place.type == "cuda")
    return budgets_within(total - weights, config, model.dtype.itemsize)


def memory_of(device: str) -> float:
    """Bytes of a GPU."""
    import torch

    return float(torch.cuda.get_device_properties(device).total_memory)


def budgets_within(free: float, config: "PretrainedConfig", size: int) -> Budgets:
    """In so many bytes, of numbers of `size` bytes, in powers of two; never below one item and a few texts."""
    pack = min(LARGEST, max(CPU_PACK, _power_of_two(PACK_SHARE * free / working_bytes(config, size))))
    text = config.get_text_config()
    routes = any(getattr(part, name, None) for part in (text, getattr(text, "ffn_config", None)) for name in CHOSEN)
    # Int8 and fp8 take the scale, or the outliers, of activations over all tokens of a pass.
    scales = any(getattr(part, "quantization_config", None) is not None for part in (config, text))
    return Budgets(pack, _held(HELD_SHARE * free, config, size), invariant=not (routes or scales))


def working_bytes(config: "PretrainedConfig", size: int) -> float:
    """Of the activations of a token in a pass, in numbers of `size` bytes."""
    text = config.get_text_config()
    inner = getattr(text, "intermediate_size", None) or 4 * text.hidden_size
    return size * (8 * text.hidden_size + 3 * (max(inner) if isinstance(inner, list) else inner))


def _held(memory: float, config: "PretrainedConfig", size: int) -> int:
    """Tokens whose keys and values fit into so many bytes."""
    width = sum(heads.keys * heads.width for heads in attention_heads(config))
    return max(LEAST_HELD, _power_of_two(memory / (size * 2 * width)))


def _power_of_two(number: float) -> int:
    return 1 << max(0, int(number).bit_length() - 1)
