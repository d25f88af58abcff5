"""Interchange: rows of the residual stream of one context, put in place of those of another (METRICS W2)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..model.points import Point
from .edits import Edit, replace

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Swap:
    """What is put into a prompt."""

    tokens: tuple[int, ...]
    """[n] of the prompt, from 0: where."""
    rows: "Mapping[Point, torch.Tensor]"
    """Point -> [n, d_model]: what takes the place of these tokens' rows there."""


def swap_edits(swaps: Iterable[tuple[Sequence[int], Swap]]) -> list[Edit]:
    """The edits that make swaps, one for each point.

    Args:
        swaps: (nodes of the prompt, what is put into it); no two prompts may share a swapped node.
    """
    import torch

    nodes: dict[Point, list[int]] = {}
    rows: dict[Point, list[torch.Tensor]] = {}
    for prompt, swap in swaps:
        for point, values in swap.rows.items():
            nodes.setdefault(point, []).extend(prompt[token] for token in swap.tokens)
            rows.setdefault(point, []).append(values)
    return [Edit(point, tuple(nodes[point]), replace(torch.cat(rows[point]))) for point in nodes]
