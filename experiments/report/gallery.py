"""The instances of a page as data: every text stands there once, and an instance refers to it by its number."""

import math
from typing import Any

from ..experiment import Instance, Transcript
from .blocks import Instances


def packed(block: Instances) -> dict[str, Any]:
    """What the page's script shows the instances by.

    `texts` holds every text once. An instance is its facets, its score (null: undefined), its facts, and its
    conversations: a heading and turns, each of a label, a text, and whether it is the model's.
    """
    texts: dict[str, int] = {}

    def number(text: str) -> int:
        return texts.setdefault(text, len(texts))

    def turns(said: Transcript) -> list[list[int]]:
        told = [[number(one["role"]), number(one["content"]), 0] for one in said["messages"]]
        told.append([number("assistant, read here"), number(f"{said['prefill']}…"), 1])
        if said["options"]:
            told.append([number("options that were read"), number(", ".join(said["options"])), 0])
        for name, drawn in (("thought", said["thoughts"]), ("sampled answer", said["answers"])):
            told += [[number(f"{name} {one['draw']}, {one['status']}"), number(one["text"]), 1] for one in drawn]
        return told

    def row(one: Instance) -> list[Any]:
        score = None if math.isnan(one.score) else float(f"{one.score:.6g}")
        spoken = [[number(heading), turns(said)] for heading, said in one.conversations]
        return [[number(facet) for facet in one.facets], score, number(one.facts), spoken]

    rows = [row(one) for one in block.gallery.instances]
    return {"facets": list(block.gallery.facets), "texts": list(texts), "rows": rows}
