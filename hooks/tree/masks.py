"""The attention masks of a pack, additive and in the model's dtype (a bool mask is silently wrong under eager)."""

from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import UserError
from ..model.upload import upload
from .attention import mark_blocks, mark_pieces, mark_trunk
from .flex import block_mask
from .tree import Ints, Pack

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig

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
        own = [(begin, _by_kind(pack_masks(piece, config, dtype, device), kinds)) for begin, piece in pack.pieces]
        joined = {kind: mark_pieces([(begin, masks[kind]) for begin, masks in own], len(pack)) for kind in kinds}
        return joined if len(joined) > 1 else next(iter(joined.values()))
    hidden = hidden_from(pack.ends, device)
    masks = {}
    if FULL in kinds:
        masks[FULL] = mark_trunk(additive_mask(hidden, dtype), pack.trunk)
    if SLIDING in kinds:
        position = upload(pack.positions.astype(np.int32), device)
        hidden |= position[:, None] - position >= text.sliding_window
        masks[SLIDING] = mark_trunk(
            additive_mask(hidden, dtype), pack.trunk if pack.trunk <= text.sliding_window else 0
        )
    return masks if len(masks) > 1 else next(iter(masks.values()))


def block_masks(pack: Pack, config: "PretrainedConfig", dtype: "torch.dtype", device: "torch.device") -> Any:
    """The same for a pack of whole blocks, as blocks."""
    window = getattr(config.get_text_config(), "sliding_window", None)
    masks = {}
    for kind in sorted(attention_layers(config)):
        blocks = block_mask(pack.ends, pack.positions, window if kind == SLIDING else None, device)
        masks[kind] = mark_blocks(blocks, dtype, device)
    return masks if len(masks) > 1 else next(iter(masks.values()))


def _by_kind(masks: Any, kinds: set[str]) -> dict[str, Any]:
    return masks if isinstance(masks, dict) else dict.fromkeys(kinds, masks)


def hidden_from(ends: Ints, device: "torch.device") -> "torch.Tensor":
    """[T, T] whether token i does not see token j (see `Pack.visible`). Small integers compare fastest."""
    import torch

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
