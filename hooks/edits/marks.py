"""From interventions to the tokens that they touch.

Each token of a query bears a mark: what is done to it. Two tokens are one node of the tree only if their marks are
equal, and those of all tokens before them: so that branches share what is the same in both, and nothing else.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ..model.points import Point
from .changes import Change, Edit

if TYPE_CHECKING:
    import torch

    from .interventions import Intervention


class Bound:
    """An intervention on one model: equal to no other, so that each has nodes of its own."""

    def __init__(self, what: "Intervention", points: Mapping[Point, int], digest: str) -> None:
        self.what, self.points, self.digest = what, points, digest
        """`points`: point -> the place of its layer among those of the intervention."""
        self.values = what.vector.by_token_and_layer() if what.vector else None

    def change(self, point: Point, rows: list[int]) -> Change:
        """What is done at a point to nodes that stand for these rows of its vector."""
        return self.what.change(None if self.values is None else self._at(self.values, point, rows))

    def _at(self, values: "torch.Tensor", point: Point, rows: list[int]) -> "torch.Tensor":
        layer = values[:, self.points[point] if values.shape[1] > 1 else 0]
        return layer[rows] if len(layer) > 1 else layer[0]


class Touch(NamedTuple):
    """What one intervention does to one token."""

    order: int
    """The intervention's place in its branch."""
    bound: Bound
    row: int
    """Of the vector, where it has one for each token."""


Mark = tuple[Touch, ...]


class Marks(NamedTuple):
    """What is done to the tokens of a query."""

    prompt: tuple[Mark | None, ...]
    """[T]; None: nothing."""
    answer: Mark | None
    """To each token after the prompt."""


def marked_edits(marks: Iterable[tuple[int, Any]]) -> list[Edit]:
    """The edits of nodes with their marks, in the order in which each branch has them."""
    found: dict[tuple[int, Bound], dict[int, int]] = {}
    for node, mark in marks:
        for touch in mark or ():
            found.setdefault((touch.order, touch.bound), {})[node] = touch.row
    return [
        Edit(point, tuple(rows), bound.change(point, list(rows.values())))
        for (_, bound), rows in sorted(found.items(), key=lambda one: one[0][0])
        for point in bound.points
    ]


def marks_digest(marks: Iterable[Any]) -> str:
    """What tells what was done to some tokens; empty for nothing."""
    told = [
        f"{place}:{touch.order}:{touch.bound.digest}:{touch.row}"
        for place, mark in enumerate(marks)
        for touch in mark or ()
    ]
    return " ".join(told)
