"""All layouts, by name."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from .forked import Forked, Paired, Stepped
from .layout import Layout, Packed, Padded

if TYPE_CHECKING:
    from transformers import PreTrainedModel

LAYOUTS: Mapping[str, Callable[["PreTrainedModel"], Layout]] = {
    "packed": Packed,
    "forked": Forked,
    "paired": Paired,
    "stepped": Stepped,
    "padded": Padded,
}
"""Tried in this order."""
CACHED = ("forked", "paired", "stepped")
"""Those that go on from a cache."""
