"""Changes to rows of the residual stream within a forward pass: what steering and patching need.

An edit names nodes of the token tree. Their descendants see what it did; every other branch reads as it would alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..model.blocks import Point, Tap

if TYPE_CHECKING:
    import torch

Change = Callable[["torch.Tensor", "torch.Tensor"], "torch.Tensor"]
"""From rows [n, d_model], and [n] which of the edit's nodes each of them is, to the rows that go on."""


@dataclass(frozen=True)
class Edit:
    """A change of the rows at one point. Edits of one point are made in their order, before it is captured."""

    point: Point
    nodes: tuple[int, ...]
    """Of the tree. A node that a pack does not hold is left out."""
    change: Change


def replace_rows(values: "torch.Tensor") -> Change:
    """Put `values` in place: [nodes, d_model], in the order of the edit's nodes.

    >>> import torch
    >>> replace_rows(torch.tensor([[1.0, 2.0]]))(torch.zeros(1, 2), torch.tensor([0])).tolist()
    [[1.0, 2.0]]
    """
    return lambda rows, which: _of(values, which).to(rows)


def add_vector(vector: "torch.Tensor") -> Change:
    """Add `vector`, [d_model], or a vector for each node of the edit, [nodes, d_model].

    >>> import torch
    >>> add_vector(torch.tensor([1.0, 0.0]))(torch.zeros(2, 2), torch.tensor([0, 1])).tolist()
    [[1.0, 0.0], [1.0, 0.0]]
    """
    return lambda rows, which: rows + _of(vector, which).to(rows)


def project_out(direction: "torch.Tensor") -> Change:
    """Remove the component along `direction`, [d_model] or for each node of the edit [nodes, d_model], of any length
    but 0. It is computed in float32.

    >>> import torch
    >>> project_out(torch.tensor([2.0, 0.0]))(torch.tensor([[3.0, 4.0]]), torch.tensor([0])).tolist()
    [[0.0, 4.0]]
    """
    wide = direction.double() / direction.double().abs().amax(dim=-1, keepdim=True)  # squares stay within range
    unit = (wide / wide.norm(dim=-1, keepdim=True)).float()

    def change(rows: "torch.Tensor", which: "torch.Tensor") -> "torch.Tensor":
        along, wide = _of(unit, which).to(rows.device), rows.float()
        return wide - (wide * along).sum(dim=-1, keepdim=True) * along

    return change


def set_coordinates(read: "torch.Tensor", write: "torch.Tensor", values: "torch.Tensor") -> Change:
    """Make rows hold `values` along `read`, by moving them along `write`: row + (values - row @ read.T) @ write. It is
    computed in float32.

    Args:
        read: [k, d_model].
        write: [k, d_model], such that read @ write.T is the identity.
        values: [k], or for each node of the edit [nodes, k].

    >>> import torch
    >>> one = torch.tensor([[1.0, 0.0]])
    >>> set_coordinates(one, one, torch.tensor([7.0]))(torch.tensor([[3.0, 4.0]]), torch.tensor([0])).tolist()
    [[7.0, 4.0]]
    """

    def change(rows: "torch.Tensor", which: "torch.Tensor") -> "torch.Tensor":
        wide = rows.float()
        wanted = _of(values, which).to(wide)
        return wide + (wanted - wide @ read.to(wide).T) @ write.to(wide)

    return change


def _of(values: "torch.Tensor", which: "torch.Tensor") -> "torch.Tensor":
    """Of [nodes, d_model] those that are asked for; [d_model] is that of every node."""
    return values if values.ndim == 1 else values[which.to(values.device)]


def edit_taps(edits: Sequence[Edit]) -> dict[Point, Tap]:
    """Makes edits in a pass over one row of tokens [1, T, width] whose places are nodes, of those within it."""
    import torch

    def tap(here: Sequence[Edit]) -> Tap:
        def change(hidden: torch.Tensor) -> torch.Tensor:
            stream = hidden[0].clone()
            for edit in here:
                nodes = torch.tensor(edit.nodes, device=stream.device)
                which = (nodes < len(stream)).nonzero()[:, 0]
                stream[nodes[which]] = edit.change(stream[nodes[which]], which).to(stream)
            return stream[None]

        return change

    return {point: tap([edit for edit in edits if edit.point == point]) for point in {edit.point for edit in edits}}
