"""Inner read-outs: the final norm and the head on residuals of inner layers, raw or brought to the last layer."""

from typing import TYPE_CHECKING, NamedTuple

import torch

from ..errors import UserError
from ..model.blocks import blocks, final_norm
from .translator import Translator

if TYPE_CHECKING:
    from transformers import PreTrainedModel

RAW, TRANSLATED, JACOBIAN = "raw", "translated", "jacobian"


class View(NamedTuple):
    """One inner read-out."""

    layer: int
    lens: str
    """`raw`: as if the layer were the last. `translated`: after a translator. `jacobian`: after the mean Jacobian."""


class Lens:
    """The inner read-outs of a model.

    Args:
        model: whose final norm is applied anew to each residual.
        translator: of the layers to read; they are read raw, too.
        jacobian: of the same layers, as a third way.
    """

    def __init__(self, model: "PreTrainedModel", translator: Translator, jacobian: Translator | None = None) -> None:
        last = len(blocks(model)) - 1
        if unknown := [layer for layer in translator.layers if not 0 <= layer <= last]:
            raise UserError(f"translator: is of layer {unknown[0]}; the model has layers 0 to {last}")
        self.layers, self.norm = translator.layers, final_norm(model)
        self.device = next(self.norm.parameters()).device
        maps = {TRANSLATED: translator} | ({JACOBIAN: jacobian} if jacobian else {})
        self.maps = {name: one.to(self.device) for name, one in maps.items()}
        self.views = [View(layer, lens) for lens in (RAW, *maps) for layer in self.layers]

    def hidden(self, streams: torch.Tensor) -> torch.Tensor:
        """[views, R, d_model] after the final norm, from [R, layers, d_model] after the blocks."""
        here = streams.to(self.device)
        with torch.inference_mode():
            every = torch.cat([here, *(one(here).to(here) for one in self.maps.values())], dim=1)
            return self.norm(every.transpose(0, 1))
