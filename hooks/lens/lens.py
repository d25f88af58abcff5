"""Inner read-outs: the final norm and the head on residuals of inner layers, raw or translated."""

from typing import TYPE_CHECKING, NamedTuple

import torch

from ..errors import UserError
from ..model.blocks import blocks, final_norm
from .translator import Translator

if TYPE_CHECKING:
    from transformers import PreTrainedModel

RAW, TRANSLATED = "raw", "translated"


class View(NamedTuple):
    """One inner read-out."""

    layer: int
    lens: str
    """`raw`: as if the layer were the last. `translated`: after a translator."""


class Lens:
    """The inner read-outs of a model.

    Args:
        model: whose final norm is applied anew to each residual.
        translator: of the layers to read; they are read raw, too.
    """

    def __init__(self, model: "PreTrainedModel", translator: Translator) -> None:
        last = len(blocks(model)) - 1
        if unknown := [layer for layer in translator.layers if not 0 <= layer <= last]:
            raise UserError(f"translator: is of layer {unknown[0]}; the model has layers 0 to {last}")
        self.layers, self.norm = translator.layers, final_norm(model)
        self.device = next(self.norm.parameters()).device
        self.translator = translator.to(self.device)
        self.views = [View(layer, lens) for lens in (RAW, TRANSLATED) for layer in self.layers]

    def hidden(self, streams: torch.Tensor) -> torch.Tensor:
        """[views, R, d_model] after the final norm, from [R, layers, d_model] after the blocks."""
        here = streams.to(self.device)
        with torch.inference_mode():
            both = torch.cat([here, self.translator(here).to(here)], dim=1)
            return self.norm(both.transpose(0, 1))
