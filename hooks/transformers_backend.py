"""The reference back end: plain transformers, one forward pass per pack."""

from typing import TYPE_CHECKING

from .backend import PackOutput
from .blocks import body, input_device, stacked, tapped
from .masks import attention_layers, pack_masks
from .tree import Pack

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


class TransformersBackend:
    """Packed forward passes through a transformers model.

    Raises UserError at once for a model whose attention cannot take the mask of a tree.
    """

    def __init__(self, model: "PreTrainedModel") -> None:
        attention_layers(model.config)
        self.model = model

    def run(self, pack: Pack, *, capture: bool = False) -> PackOutput:
        """See `Backend.run`."""
        import torch

        model, device = self.model, input_device(self.model)
        rows = torch.from_numpy(pack.rows).to(device)

        def pick(hidden: "torch.Tensor") -> "torch.Tensor":
            return hidden[0, rows.to(hidden.device)]

        with torch.inference_mode(), tapped(model, pick if capture else None) as taken:
            output = body(model)(
                input_ids=torch.from_numpy(pack.tokens)[None].to(device),
                position_ids=torch.from_numpy(pack.positions)[None].to(device),
                attention_mask=pack_masks(pack, model.config, model.dtype, device),
                use_cache=False,
            )
            hidden = pick(output.last_hidden_state)
            residuals = stacked(taken, hidden.device) if capture else None
        return PackOutput(hidden, residuals, tokens_run=len(pack))
