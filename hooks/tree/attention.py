"""The attention masks of a pack, and attention where most of a mask says no.

Masks are additive and in the model's dtype (a bool mask is silently wrong under eager). A pack begins with its longest
path: there it is plain causal attention, much faster than the same under a mask, and only the branches need one.
Histories in one cache do not see each other: each attends to its own columns alone.
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...base.errors import UserError
from ..model.blocks import upload
from .flex import attend_by_blocks, block_mask, flex_works
from .token_tree import Ints, Pack

if TYPE_CHECKING:
    import torch
    from torch.nn.attention.flex_attention import BlockMask
    from transformers import PretrainedConfig, PreTrainedModel

log = logging.getLogger("doxascope")

KERNEL, BLOCKS = "sdpa_trunk", "flex_tree"
"""As transformers and the manifest call them: dense masks, and the mask of a pack as blocks."""
_MARK, _GROUPS, _BLOCKS = "doxascope_trunk", "doxascope_groups", "doxascope_blocks"
_PIECES = "doxascope_pieces"


def use_tree_attention(model: "PreTrainedModel", *, blocks: bool = False) -> None:
    """Let a model with the `sdpa` kernel attend by trunk and branches wherever a mask is marked, or by blocks wherever
    it is of them; else, as for a model with another kernel, nothing changes.

    A model that caps the logits of its attention attends by `eager`: the `sdpa` kernel leaves the cap out, and some
    versions of transformers (5.19 among them) let such models choose it.

    `blocks`: lay its packs out for them. Where flex attention fails, masks are dense, and that is said.
    """
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    capped = getattr(model.config.get_text_config(), "attn_logit_softcapping", None)
    if capped and model.config._attn_implementation == "sdpa":
        log.warning("its attention caps logits, which the 'sdpa' kernel does not; it is computed by 'eager'")
        model.set_attn_implementation("eager")
    if model.config._attn_implementation == "sdpa" and model._can_set_attn_implementation():
        kernel = BLOCKS if blocks and flex_works(model) else KERNEL
        AttentionInterface.register(kernel, _attend)
        AttentionMaskInterface.register(kernel, sdpa_mask)
        model.set_attn_implementation(kernel)


def attends_by_blocks(model: "PreTrainedModel") -> bool:
    """Whether a model's packs are laid out for blocks."""
    return model.config._attn_implementation == BLOCKS


def takes_joined(model: "PreTrainedModel") -> bool:
    """Whether the pieces of a joined pack attend each by itself: other kernels know nothing of the marks of a mask."""
    return model.config._attn_implementation in (KERNEL, BLOCKS)


def mark_trunk(mask: "torch.Tensor", trunk: int) -> "torch.Tensor":
    """Say that the first `trunk` tokens of a mask [1, 1, T, T] see each other causally, and nothing else."""
    setattr(mask, _MARK, trunk)
    return mask


def mark_blocks(blocks: "BlockMask", dtype: "torch.dtype", device: "torch.device") -> "torch.Tensor":
    """The mask [1, 1, T, T] that these are of, as architectures hand masks on."""
    return _stand_in(_BLOCKS, blocks, blocks.seq_lengths, dtype, device)


def mark_pieces(masks: "Sequence[tuple[int, torch.Tensor]]", length: int) -> "torch.Tensor":
    """The mask [1, 1, T, T] of a joined pack of `length` tokens, each piece under its own from its start."""
    return _stand_in(_PIECES, masks, (length, length), masks[0][1].dtype, masks[0][1].device)


def _stand_in(
    mark: str, content: Any, shape: tuple[int, ...], dtype: "torch.dtype", device: "torch.device"
) -> "torch.Tensor":
    """A mask of one NaN, spread: whoever reads its numbers instead of what it is marked with reads nothing."""
    import torch

    mask = torch.full((1, 1, 1, 1), torch.nan, dtype=dtype, device=device).expand(1, 1, *shape)
    setattr(mask, mark, content)
    return mask


def mark_groups(mask: "torch.Tensor", groups: "Sequence[tuple[Ints, Ints]]") -> "torch.Tensor":
    """Say of a mask [1, 1, T, columns] that the rows of each group, which together are all, see its columns alone."""
    import torch

    marked = []
    for rows, columns in groups:
        place, seen = (torch.from_numpy(indices).to(mask.device) for indices in (rows, columns))
        marked.append((place, seen, mask[:, :, place][..., seen]))
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
    """As `sdpa`: [B, heads, T, d] -> [B, T, heads, d]; a mask that lost its mark is used as it is."""
    import torch
    from transformers.integrations.sdpa_attention import sdpa_attention_forward as sdpa

    if (blocks := getattr(attention_mask, _BLOCKS, None)) is not None:
        return attend_by_blocks(query, key, value, blocks, more.get("scaling")), None
    if (pieces := getattr(attention_mask, _PIECES, None)) is not None:
        attended = torch.zeros_like(query.transpose(1, 2))
        for begin, mask in pieces:
            here = slice(begin, begin + mask.shape[-1])
            piece = (query[:, :, here], key[:, :, here], value[:, :, here], mask)
            attended[:, here] = _attend(module, *piece, **more)[0]
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
            piece = (query[:, :, rows], key[:, :, columns], value[:, :, columns], mask)
            attended[:, rows] = sdpa(module, *piece, **more)[0]
        return attended, None
    first, rest = slice(None, trunk), slice(trunk, None)
    causal: dict[str, Any] = {**more, "is_causal": True}
    parts = [sdpa(module, query[:, :, first], key[:, :, first], value[:, :, first], None, **causal)[0]]
    if trunk < query.shape[2]:
        parts.append(sdpa(module, query[:, :, rest], key, value, attention_mask[:, :, rest], **more)[0])
    return torch.cat(parts, dim=1), None


def _attend_by_heads(
    query: "torch.Tensor", key: "torch.Tensor", value: "torch.Tensor", mask: "torch.Tensor", scale: float | None
) -> "torch.Tensor":
    """Of one new token a row, [B, heads, 1, d] -> [B, 1, heads, d]; heads that share a key are its queries."""
    from torch.nn.functional import scaled_dot_product_attention

    shared = query.squeeze(2).unflatten(1, (key.shape[1], -1))
    attended = scaled_dot_product_attention(shared, key, value, mask, scale=scale)
    return attended.flatten(1, 2).unsqueeze(1)


FULL, SLIDING = "full_attention", "sliding_attention"


def attention_layers(config: "PretrainedConfig") -> set[str]:
    """The kinds of attention layers that a model has.

    Raises UserError for a kind that a packed tree cannot serve (linear, chunked, recurrent, ...).
    """
    text = config.get_text_config()
    default = [SLIDING if getattr(text, "sliding_window", None) else FULL]
    kinds = set(getattr(text, "layer_types", None) or default)
    if foreign := kinds - {FULL, SLIDING}:
        raise UserError(
            f"model type {text.model_type!r}: its {sorted(foreign)[0]!r} layers do not take the mask of a token tree"
        )
    return kinds


def pack_masks(pack: Pack, config: "PretrainedConfig", dtype: "torch.dtype", device: "torch.device") -> Any:
    """The mask [1, 1, T, T] of a pack, or a dict of them by layer type for a model that mixes types.

    A plain mask would bypass a sliding window, so those layers see only ancestors less than a window above. A mask is
    marked where the pack begins with a path that no window cuts.
    """

    text = config.get_text_config()
    kinds = attention_layers(config)
    if pack.pieces:
        masks_of = [(begin, pack_masks(piece, config, dtype, device)) for begin, piece in pack.pieces]
        joined = {
            kind: mark_pieces([(at, mask[kind] if len(kinds) > 1 else mask) for at, mask in masks_of], len(pack))
            for kind in kinds
        }
        return joined if len(joined) > 1 else next(iter(joined.values()))
    hidden = hidden_from(pack.ends, device)
    masks = {}
    if FULL in kinds:
        masks[FULL] = mark_trunk(additive_mask(hidden, dtype), pack.trunk)
    if SLIDING in kinds:
        # A token's position is its depth, and an ancestor's distance along the path the difference of two depths.
        position = upload(pack.positions.astype(np.int32), device)
        hidden |= position[:, None] - position >= text.sliding_window
        masks[SLIDING] = mark_trunk(
            additive_mask(hidden, dtype), pack.trunk if pack.trunk <= text.sliding_window else 0
        )
    return masks if len(masks) > 1 else next(iter(masks.values()))


def piece_masks(
    pack: Pack, rows: Ints, columns: Ints, config: "PretrainedConfig", dtype: "torch.dtype", device: "torch.device"
) -> Any:
    """The same [1, 1, rows, columns] for some tokens of a pack over all in a cache with them, by their indices."""
    row, column, end, position = (
        upload(numbers.astype(np.int32), device) for numbers in (rows, columns, pack.ends[columns], pack.positions)
    )
    hidden = (row[:, None] < column) | (row[:, None] >= end)
    masks, kinds = {}, attention_layers(config)
    if FULL in kinds:
        masks[FULL] = additive_mask(hidden, dtype)
    if SLIDING in kinds:
        hidden |= position[row][:, None] - position[column] >= config.get_text_config().sliding_window
        masks[SLIDING] = additive_mask(hidden, dtype)
    return masks if len(masks) > 1 else next(iter(masks.values()))


def block_masks(pack: Pack, config: "PretrainedConfig", dtype: "torch.dtype", device: "torch.device") -> Any:
    """The same for a pack of whole blocks, as blocks."""
    window = getattr(config.get_text_config(), "sliding_window", None)
    masks = {}
    for kind in sorted(attention_layers(config)):
        blocks = block_mask(pack.ends, pack.positions, window if kind == SLIDING else None, device)
        masks[kind] = mark_blocks(blocks, dtype, device)
    return masks if len(masks) > 1 else next(iter(masks.values()))


def hidden_from(ends: Ints, device: "torch.device") -> "torch.Tensor":
    """[T, T] whether token i does not see token j (see `Pack.visible`). Small integers compare fastest."""
    import torch

    # Depth first, the descendants of j stand right behind it: i sees j if and only if j <= i < ends[j].
    small = np.int16 if len(ends) < 2**15 else np.int32
    end, place = ends.astype(small), np.arange(len(ends), dtype=small)
    if device.type == "cpu":  # numpy takes a fifth of the time
        hidden = place[:, None] < place
        return torch.from_numpy(np.logical_or(hidden, place[:, None] >= end, out=hidden))
    here, until = upload(place, device), upload(end, device)
    return (here[:, None] < here).logical_or_(here[:, None] >= until)


def additive_mask(hidden: "torch.Tensor", dtype: "torch.dtype") -> "torch.Tensor":
    """[1, 1, T, columns]: the lowest number where a token does not see a column [T, columns], else 0."""
    import torch

    return hidden.to(dtype).mul_(torch.finfo(dtype).min)[None, None]
