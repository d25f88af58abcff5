"""The items of a run: each is known by its id, and its texts can be written down."""

import json

from ...hooks.documents import repeated
from ...hooks.errors import UserError, in_one_line
from ..experiment import Experiment, Item, RunConfig


def items_of(experiment: Experiment, config: RunConfig) -> list[Item]:
    """What is sampled. Raises UserError for no items, two of one id, or a text that is no Unicode or has zero bytes."""
    items = experiment.items(config)
    if not items:
        raise UserError(f"{experiment.name}: has no items")
    if (name := repeated(item.id for item in items)) is not None:
        raise UserError(f"items: two are called {name!r}; give each an id of its own")
    for item in items:
        with in_one_line(f"item {item.id!r}"):
            text = json.dumps([item.id, item.cluster, dict(item.content)], ensure_ascii=False)
            text.encode()
            if "\\u0000" in text:
                raise ValueError("it holds a zero byte")
    return items
