"""nnsight: the same passes traced, the residual stream read and set where the trace comes by it.

The model is wrapped bare. nnsight's wrapper for transformers models turns text into batches, which is not wanted
here, and changes the tokenizer to do so.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..model.blocks import blocks, body
from ..model.points import Point, Tap
from ..tree.layout import Layout, Packed
from .backend import Backend

if TYPE_CHECKING:
    import torch
    from nnsight import NNsight
    from transformers import PreTrainedModel


class NnsightBackend(Backend):
    """Forward passes traced by nnsight."""

    def __init__(self, traced: "NNsight", layout: Callable[["PreTrainedModel"], Layout] = Packed) -> None:
        model: PreTrainedModel = traced._module  # pyright: ignore[reportAssignmentType]
        super().__init__(model, layout)
        names = {module: name for name, module in model.named_modules()}
        self.traced = traced
        self._body = traced.get(names[body(model)])
        self._blocks = [traced.get(names[block]) for block in blocks(model)]

    def forward(self, inputs: Mapping[str, Any], taps: Mapping[Point, Tap]) -> "torch.Tensor":
        """See `Backend.forward`. The trace ends before the head."""
        import nnsight

        with self.traced.trace(**inputs, use_cache=False) as tracer:
            for point, tap in taps.items():
                _visit(self._blocks[point.layer], point, tap)
            hidden = nnsight.save(self._body.output.last_hidden_state)
            tracer.stop()  # pyright: ignore[reportAttributeAccessIssue]
        return hidden  # pyright: ignore[reportPossiblyUnboundVariable]


def wrap(model: "PreTrainedModel") -> "NNsight":
    """A model as nnsight traces it."""
    from nnsight import NNsight

    return NNsight(model)


def _visit(block: Any, point: Point, tap: Tap) -> None:
    """Wait until the trace comes to `point`, and let the tap see it."""
    if point.site == "resid_pre":
        if (changed := tap(block.input)) is not None:
            block.input = changed
        return
    output = block.output
    inside = isinstance(output, tuple)
    if (changed := tap(output[0] if inside else output)) is not None:
        block.output = (changed, *output[1:]) if inside else changed
