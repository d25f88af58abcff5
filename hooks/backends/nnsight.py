"""nnsight: the same passes traced, the residual stream read and set where the trace comes by it.

The model is wrapped bare. nnsight's wrapper for transformers models turns text into batches, which is not wanted
here, and changes the tokenizer to do so.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..model.blocks import body, module_at
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
        self.traced = traced
        self._names = {module: name for name, module in model.named_modules()}
        self._body = traced.get(self._names[body(model)])

    def forward(self, inputs: Mapping[str, Any], taps: Mapping[Point, Tap]) -> "torch.Tensor":
        """See `Backend.forward`. The trace ends before the head."""
        import nnsight

        places = [(module_at(self.model, point), tap) for point, tap in taps.items()]
        envoys = [(self.traced.get(self._names[place.module]), place.before, tap) for place, tap in places]
        with self.traced.trace(**{"use_cache": False, **inputs}) as tracer:
            for envoy, before, tap in envoys:
                _visit(envoy, before, tap)
            hidden = nnsight.save(self._body.output.last_hidden_state)
            tracer.stop()  # pyright: ignore[reportAttributeAccessIssue]
        return hidden  # pyright: ignore[reportPossiblyUnboundVariable]


def wrap(model: "PreTrainedModel") -> "NNsight":
    """A model as nnsight traces it."""
    from nnsight import NNsight

    return NNsight(model)


def _visit(module: Any, before: bool, tap: Tap) -> None:
    """Wait until the trace comes to a module, and let the tap see its input or its output."""
    if before:
        if (changed := tap(module.input)) is not None:
            module.input = changed
        return
    output = module.output
    inside = isinstance(output, tuple)
    if (changed := tap(output[0] if inside else output)) is not None:
        module.output = (changed, *output[1:]) if inside else changed
