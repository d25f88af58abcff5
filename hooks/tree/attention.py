"""Attention where most of a mask says no. A pack begins with its longest path: there it is plain causal attention, much
faster than the same under a mask, and only the branches need one. Histories in one cache do not see each other: each
attends to its own columns alone.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .flex import attend_by_blocks, flex_works
from .tree import Ints

if TYPE_CHECKING:
    import torch
    from torch.nn.attention.flex_attention import BlockMask
    from transformers import PreTrainedModel

KERNEL, BLOCKS = "sdpa_trunk", "flex_tree"
"""As transformers and the manifest call them: dense masks, and the mask of a pack as blocks."""
_MARK, _GROUPS, _BLOCKS = "doxascope_trunk", "doxascope_groups", "doxascope_blocks"
_PIECES = "doxascope_pieces"


def use_tree_attention(model: "PreTrainedModel", *, blocks: bool = False) -> None:
    """Let a model with the `sdpa` kernel attend by trunk and branches wherever a mask is marked, or by blocks wherever
    it is of them; else, as for a model with another kernel, nothing changes.

    `blocks`: lay its packs out for them. Where flex attention fails, masks are dense, and that is said.
    """
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    if model.config._attn_implementation == "sdpa" and model._can_set_attn_implementation():
        kernel = BLOCKS if blocks and flex_works(model) else KERNEL
        AttentionInterface.register(kernel, _attend)
        AttentionMaskInterface.register(kernel, sdpa_mask)
        model.set_attn_implementation(kernel)


def attends_by_blocks(model: "PreTrainedModel") -> bool:
    """Whether a model's packs are laid out for blocks."""
    return model.config._attn_implementation == BLOCKS


def mark_trunk(mask: "torch.Tensor", trunk: int) -> "torch.Tensor":
    """Say that the first `trunk` tokens of a mask [1, 1, T, T] see each other causally, and nothing else."""
    setattr(mask, _MARK, trunk)
    return mask


def mark_blocks(blocks: "BlockMask", dtype: "torch.dtype", device: "torch.device") -> "torch.Tensor":
    """The mask [1, 1, T, T] that these are of, as architectures hand masks on. Its numbers are NaN, and one: whoever
    reads them instead of the blocks reads nothing.
    """
    import torch

    mask = torch.full((1, 1, 1, 1), torch.nan, dtype=dtype, device=device).expand(1, 1, *blocks.seq_lengths)
    setattr(mask, _BLOCKS, blocks)
    return mask


def mark_pieces(masks: "Sequence[tuple[int, torch.Tensor]]", length: int) -> "torch.Tensor":
    """The mask [1, 1, T, T] of a joined pack, of `length` tokens, each of whose pieces attends by itself under its own
    mask from where it begins. Its numbers are NaN, as those of blocks.
    """
    import torch

    own = masks[0][1]
    mask = torch.full((1, 1, 1, 1), torch.nan, dtype=own.dtype, device=own.device).expand(1, 1, length, length)
    setattr(mask, _PIECES, masks)
    return mask


def mark_groups(mask: "torch.Tensor", groups: "Sequence[tuple[Ints, Ints]]") -> "torch.Tensor":
    """Say of a mask [1, 1, T, columns] that the rows of each group, which together are all, see its columns alone."""
    import torch

    marked = []
    for rows, columns in groups:
        own, seen = (torch.from_numpy(one).to(mask.device) for one in (rows, columns))
        marked.append((own, seen, mask[:, :, own][..., seen]))
    setattr(mask, _GROUPS, marked)
    return mask


def _attend(
    module: "torch.nn.Module",
    query: "torch.Tensor",
    key: "torch.Tensor",
    value: "torch.Tensor",
    attention_mask: "torch.Tensor | None",
    **more: Any,
) -> "tuple[torch.Tensor, None]":
    """As `sdpa`: [B, heads, T, d] -> [B, T, heads, d]. A mask that lost its mark, as by a move between devices, is used
    as it is.
    """
    import torch
    from transformers.integrations.sdpa_attention import sdpa_attention_forward as sdpa

    if (blocks := getattr(attention_mask, _BLOCKS, None)) is not None:
        return attend_by_blocks(query, key, value, blocks, more.get("scaling")), None
    if (pieces := getattr(attention_mask, _PIECES, None)) is not None:
        attended = torch.zeros_like(query.transpose(1, 2))
        for begin, mask in pieces:
            here = slice(begin, begin + mask.shape[-1])
            own = (query[:, :, here], key[:, :, here], value[:, :, here], mask)
            attended[:, here] = _attend(module, *own, **more)[0]
        return attended, None
    trunk, groups = getattr(attention_mask, _MARK, 0), getattr(attention_mask, _GROUPS, ())
    biased = more.get("position_bias") is not None
    if attention_mask is not None and not biased and query.shape[2] == 1 < query.shape[1] // key.shape[1]:
        return _attend_by_heads(query, key, value, attention_mask, more.get("scaling")), None
    if attention_mask is None or biased or not (trunk or groups):
        return sdpa(module, query, key, value, attention_mask, **more)
    if groups:
        attended = query.new_empty(query.transpose(1, 2).shape)
        for rows, columns, mask in groups:
            own = (query[:, :, rows], key[:, :, columns], value[:, :, columns], mask)
            attended[:, rows] = sdpa(module, *own, **more)[0]
        return attended, None
    first, rest = slice(None, trunk), slice(trunk, None)
    causal = {**more, "is_causal": True}
    parts = [sdpa(module, query[:, :, first], key[:, :, first], value[:, :, first], None, **causal)[0]]
    if trunk < query.shape[2]:
        parts.append(sdpa(module, query[:, :, rest], key, value, attention_mask[:, :, rest], **more)[0])
    return torch.cat(parts, dim=1), None


def _attend_by_heads(
    query: "torch.Tensor", key: "torch.Tensor", value: "torch.Tensor", mask: "torch.Tensor", scale: float | None
) -> "torch.Tensor":
    """Of one new token in each row, [B, heads, 1, d] -> [B, 1, heads, d]: the heads that share a key are its queries,
    so that no key or value is copied for them.
    """
    from torch.nn.functional import scaled_dot_product_attention

    shared = query.squeeze(2).unflatten(1, (key.shape[1], -1))
    attended = scaled_dot_product_attention(shared, key, value, mask, scale=scale)
    return attended.flatten(1, 2).unsqueeze(1)
