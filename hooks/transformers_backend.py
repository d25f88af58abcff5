"""The reference back end: plain transformers, with forward hooks that are removed whatever happens."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .backend import PackOutput
from .errors import UserError
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

        model = self.model
        rows = torch.from_numpy(pack.rows).to(model.device)
        with torch.inference_mode(), self._tap(rows, capture) as residuals:
            output = model.base_model(
                input_ids=torch.from_numpy(pack.tokens)[None].to(model.device),
                position_ids=torch.from_numpy(pack.positions)[None].to(model.device),
                attention_mask=pack_masks(pack, model.config, model.dtype, model.device),
                use_cache=False,
            )
            hidden = output.last_hidden_state[0, rows]
        return PackOutput(hidden, torch.stack(residuals, dim=1) if capture else None)

    @contextmanager
    def _tap(self, rows: "torch.Tensor", capture: bool) -> Iterator[list["torch.Tensor"]]:
        """Collect each block's output at `rows` into the list that is handed out."""
        taken: list[torch.Tensor] = []

        def take(module: object, args: object, output: "torch.Tensor | tuple[torch.Tensor, ...]") -> None:
            hidden = output if not isinstance(output, tuple) else output[0]
            taken.append(hidden[0, rows])

        handles = [block.register_forward_hook(take) for block in self._blocks()] if capture else []
        try:
            yield taken
        finally:
            for handle in handles:
                handle.remove()

    def _blocks(self) -> list["torch.nn.Module"]:
        """The transformer blocks, in order."""
        base = self.model.base_model
        for name in ("layers", "h"):
            if blocks := getattr(base, name, None):
                return list(blocks)
        raise UserError(f"{type(self.model).__name__}: its blocks are under no known name; residuals cannot be read")
