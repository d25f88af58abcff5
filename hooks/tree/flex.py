"""The mask of a pack as blocks for flex attention, which a GPU works through without ever holding a [T, T] mask.

In depth-first order the tokens that see token k are k <= q < ends[k]: the mask is one integer per token.
"""

import logging
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..model.blocks import attention_heads, upload
from .token_tree import BLOCK, Ints, Pack, TokenTree, cut_into_packs, join

if TYPE_CHECKING:
    import torch
    from torch.nn.attention.flex_attention import BlockMask
    from transformers import PreTrainedModel

log = logging.getLogger("doxascope")

LENGTHS = 64
"""Lengths of batches for which it may be compiled, each with a window and without."""
CLOSE = {"float32": 1e-4, "bfloat16": 0.05, "float16": 0.01}
"""How far blocks may be from the dense mask on standard normal queries, keys and values."""


def block_mask(ends: Ints, positions: Ints, window: int | None, device: "torch.device") -> "BlockMask":
    """The mask of a batch of [T] tokens, T a multiple of BLOCK, in one row.

    Args:
        ends: where the descendants of each end (see `Pack`).
        window: of ancestors, only those less than so many tokens above are seen; None: all.
    """
    from torch.nn.attention.flex_attention import BlockMask

    end, position = upload(ends, device), upload(positions, device)
    last_unseen = position - (window or 0)  # a tensor: a number would be compiled anew when it changes

    def ancestor(batch: Any, head: Any, query: Any, key: Any) -> Any:
        return (key <= query) & (query < end[key])

    def near(batch: Any, head: Any, query: Any, key: Any) -> Any:
        return (key <= query) & (query < end[key]) & (position[key] > last_unseen[query])

    some, every = _blocks(ends, positions, window)
    partial, full = ([upload(numbers, device)[None, None] for numbers in _listed(of)] for of in (some & ~every, every))
    mask_mod = ancestor if window is None else near
    return BlockMask.from_kv_blocks(*partial, *full, BLOCK_SIZE=BLOCK, mask_mod=mask_mod)


def _blocks(ends: Ints, positions: Ints, window: int | None) -> tuple[np.ndarray, np.ndarray]:
    """[query blocks, key blocks]: where some query may see a key, and where every query sees every key.

    The tokens that see one key are an interval that begins at it, so a block of keys is seen from its own block on up
    to the last of their ends, and seen whole after it up to the first.
    """
    end, position = ends.reshape(-1, BLOCK), positions.reshape(-1, BLOCK)
    first = np.arange(len(end))[:, None] * BLOCK
    key = np.arange(len(end))
    some = (key * BLOCK <= first) & (first < end.max(axis=1))
    every = (key * BLOCK < first) & (first + BLOCK <= end.min(axis=1))
    if window is not None:
        some &= position.min(axis=1)[:, None] - position.max(axis=1) < window
        every &= position.max(axis=1)[:, None] - position.min(axis=1) < window
    return some, every


def _listed(blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """As BlockMask wants it: [Q] how many key blocks each has, and [Q, K] which, those first."""
    order = np.argsort(~blocks, axis=1, kind="stable").astype(np.int32)
    return blocks.sum(axis=1).astype(np.int32), order


def attend_by_blocks(
    query: "torch.Tensor", key: "torch.Tensor", value: "torch.Tensor", mask: "BlockMask", scale: float | None
) -> "torch.Tensor":
    """Attention [1, heads, T, d] -> [1, T, heads, d] under a mask of blocks, compiled once for each length."""
    groups = query.shape[1] // key.shape[1]
    if query.shape[1] & (query.shape[1] - 1):  # the kernel shares keys among heads only where those are a power of two
        key, value = (shared.repeat_interleave(groups, dim=1) for shared in (key, value))
    attended = _compiled()(query, key, value, block_mask=mask, scale=scale, enable_gqa=key.shape != query.shape)
    return attended.transpose(1, 2).contiguous()


@cache
def _compiled() -> Any:
    import torch
    from torch.nn.attention.flex_attention import flex_attention

    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, 2 * LENGTHS)  # type: ignore
    return torch.compile(flex_attention, dynamic=False)


def whole_blocks(n: int) -> int:
    """The length to which a batch of `n` tokens is padded: at most an eighth more, so that few lengths are compiled.

    >>> [whole_blocks(n) for n in (1, 600, 1025, 4000)]
    [128, 640, 1152, 4096]
    """
    step = max(BLOCK, 2 ** max(0, (n - 1).bit_length() - 4))
    return -(-n // step) * step


def flex_works(model: "PreTrainedModel") -> bool:
    """Whether flex attention, on a model's device and for heads of its shape, gives what the dense mask gives. If not,
    it is said why.
    """
    import torch

    pack = padded(_trial())
    visible = torch.from_numpy(pack.visible()).to(model.device)
    mask = block_mask(pack.ends, pack.positions, None, model.device)
    draw, gaps = torch.Generator().manual_seed(0), []
    try:
        for heads, kv_heads, width in sorted(set(attention_heads(model.config))):
            query, key, value = (
                torch.randn(1, n, len(pack), width, generator=draw).to(model.device, model.dtype)
                for n in (heads, kv_heads, kv_heads)
            )
            with torch.inference_mode():
                blocks = attend_by_blocks(query, key, value, mask, None).transpose(1, 2).float()
                dense = torch.nn.functional.scaled_dot_product_attention(query, key, value, visible, enable_gqa=True)
            gaps.append((blocks - dense.float()).abs().max())
        gap = float(torch.stack(gaps).max())
    except Exception as error:  # compilers fail in any way
        log.warning("flex attention fails here (%s): dense masks are used", str(error).splitlines()[0] or type(error))
        return False
    if not gap <= CLOSE[str(model.dtype).removeprefix("torch.")]:
        log.warning("flex attention is off by %.2g here: dense masks are used", gap)
        return False
    return True


def padded(pack: Pack) -> Pack:
    """A pack of whole blocks."""
    length = whole_blocks(len(pack))
    return pack if length == len(pack) else join([pack], length)


def _trial() -> Pack:
    """A path of 300 tokens with two branches of 100."""
    tree = TokenTree()
    trunk = tree.add(range(300))
    ends = [trunk[-1], *(tree.add([token] * 100, below=trunk[at])[-1] for token, at in ((301, 100), (302, 200)))]
    (pack,) = cut_into_packs(tree, ends, budget=1000)
    return pack
