"""The reference back end: plain transformers, its blocks tapped by hooks that are there for one pass."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..model.blocks import body, tapped
from ..model.points import Point, Tap
from .backend import Backend

if TYPE_CHECKING:
    import torch


class TransformersBackend(Backend):
    """Forward passes through a transformers model."""

    def forward(self, inputs: Mapping[str, Any], taps: Mapping[Point, Tap]) -> "torch.Tensor":
        """See `Backend.forward`."""
        with tapped(self.model, taps):
            return body(self.model)(**{"use_cache": False, **inputs}).last_hidden_state
