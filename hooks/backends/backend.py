"""What a back end is: one library's forward pass through a model, with taps on the residual stream.

That one function is all that differs between libraries. How a pack is laid out, which rows are read, captured and
edited is written here, once.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...base.errors import UserError
from ..edits.changes import Edit
from ..model.blocks import Point, Site, Tap, blocks, download, forward_order, input_device, upload
from ..tree.layouts import NOWHERE, Batch, Layout, Packed
from ..tree.token_tree import Ints, Pack, TokenTree, cut_into_packs

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class Capture:
    """What to take from the residual stream while a pack is run: every site at every layer, of these tokens."""

    sites: tuple[Site, ...]
    layers: tuple[int, ...]
    rows: Ints
    """[C] indices within the pack."""
    lengths: Ints
    """[C] how many tokens, up the path from each row, are averaged; 1: the row itself."""


@dataclass(frozen=True)
class PackOutput:
    """What running a pack gives."""

    hidden: "torch.Tensor"
    """[R, d_model] after the final norm, at the pack's rows: what the unembedding takes."""
    fetch: "Callable[[], Mapping[Site, torch.Tensor]]" = dict
    """Waits for what was captured: site -> [C, layers, width] on the CPU, in the model's dtype."""
    streams: "torch.Tensor" = field(kw_only=True)
    """[R, layers, d_model] after the blocks that a lens reads, at the pack's rows, where `hidden` is."""
    tokens_run: int = field(kw_only=True)
    """Tokens that went through the model for it, padding and repeated ones included."""


class Backend(ABC):
    """Runs packs on one model instance, which is its own."""

    def __init__(self, model: "PreTrainedModel", layout: Callable[["PreTrainedModel"], Layout] = Packed) -> None:
        self.model, self.layout = model, layout(model)

    @abstractmethod
    def forward(self, inputs: Mapping[str, Any], taps: Mapping[Point, Tap]) -> "torch.Tensor":
        """One pass, each tap called once, in order: [B, T, d_model] after the final norm. Leaves no hook behind."""

    def cut(self, tree: TokenTree, read: Iterable[int], budget: int) -> list[Pack]:
        """Packs of at most `budget` tokens a pass; a path has more where no pass goes on from another."""
        return cut_into_packs(tree, read, budget, continues=self.layout.continues)

    def run(
        self, pack: Pack, *, capture: Capture | None = None, edits: Sequence[Edit] = (), lens_layers: Sequence[int] = ()
    ) -> PackOutput:
        """Compute the tokens of `pack`.

        Args:
            capture: what to take from the residual stream, for the CPU.
            edits: what to change in it.
            lens_layers: whose outputs to hand on at the pack's rows.

        Raises UserError for a point that the model has not, or that its forward pass never comes by.
        """
        import torch

        hidden: torch.Tensor | None = None
        streams = torch.empty(0)
        spans = _Spans(pack, capture) if capture else None
        given: list[_Given] = []
        tokens_run = 0
        with torch.inference_mode():
            for batch in self.layout.batches(pack):
                visit = _Visit(self.model, pack, batch, spans, edits, lens_layers)
                last = self.forward(batch.inputs, visit.taps)
                visit.check()
                if hidden is None:
                    hidden = last.new_empty(len(pack.rows), last.shape[-1])
                    streams = last.new_empty(len(pack.rows), len(lens_layers), last.shape[-1])
                rows = upload(visit.reads, last.device)
                hidden[rows] = _cells(last, visit.cells)
                for i, layer in enumerate(lens_layers):
                    streams[rows, i] = visit.streams[Point(layer, "resid_post")].to(streams)
                tokens_run += len(batch.tokens)
                given += visit.given()
        assert hidden is not None
        fetch = partial(spans.put, given) if spans else dict
        return PackOutput(hidden, fetch, streams=streams, tokens_run=tokens_run)


class _Spans:
    """What a capture takes of a pack, whichever batches run it: the tokens that each row is the mean of."""

    def __init__(self, pack: Pack, capture: Capture) -> None:
        self.capture = capture
        self.single = bool((capture.lengths == 1).all())
        self.dtype: torch.dtype | None = None
        """Of the residual stream, once it was seen."""
        rows, tokens = [], []
        for row, (token, length) in enumerate(zip(capture.rows.tolist(), capture.lengths.tolist(), strict=True)):
            path = [token]
            for _ in range(length - 1):
                path.append(int(pack.parents[path[-1]]))
            rows += [row] * length
            tokens += path[::-1]
        self.rows, self.tokens = np.array(rows, dtype=np.int64), np.array(tokens, dtype=np.int64)

    def put(self, given: "Sequence[_Given]") -> "dict[Site, torch.Tensor]":
        """[C, layers, width] of each site, from what all batches gave."""
        import torch

        residuals: dict[Site, torch.Tensor] = {}
        for site, places, copied in given:
            rows = copied()
            if site not in residuals:
                residuals[site] = rows.new_zeros(len(self.capture.rows), *rows.shape[1:])
            residuals[site][torch.from_numpy(places)] += rows
        if self.single:
            return residuals
        lengths = torch.from_numpy(self.capture.lengths)[:, None, None]
        return {site: (sums / lengths).to(self.dtype) for site, sums in residuals.items()}

    def picker(self, batch: Batch, device: "torch.device") -> "tuple[Ints, Callable[[torch.Tensor], torch.Tensor]]":
        """Which rows a batch has a share in, and what takes it from the stream: [n, width], of one token or a sum."""
        import torch

        here = batch.home[self.tokens] != NOWHERE
        distinct, shares = np.unique(self.rows[here], return_counts=True)
        cells, lengths = upload(batch.home[self.tokens[here]], device), upload(shares, device)

        def pick(hidden: "torch.Tensor") -> "torch.Tensor":
            self.dtype, rows = hidden.dtype, _cells(hidden, cells)
            if self.single:
                return rows
            return torch.segment_reduce(rows.float(), "sum", lengths=lengths.to(rows.device))  # type: ignore

        return distinct, pick


class _Given(NamedTuple):
    """What a batch gives of a site."""

    site: Site
    places: Ints
    """Of its rows among those that are captured."""
    copied: "Callable[[], torch.Tensor]"
    """Waits for [n, layers, width] on the CPU."""


class _Visit:
    """The taps of one batch, and what they took."""

    def __init__(
        self,
        model: "PreTrainedModel",
        pack: Pack,
        batch: Batch,
        spans: _Spans | None,
        edits: Sequence[Edit],
        lens_layers: Sequence[int],
    ) -> None:
        self.spans, device = spans, input_device(model)
        self.reads = batch.here(pack.rows)
        self.cells = upload(batch.home[pack.rows[self.reads]], device)
        self.streams: dict[Point, torch.Tensor] = {}
        self.taken: dict[Point, torch.Tensor] = {}
        self.passed: set[Point] = set()
        self.mine, pick = spans.picker(batch, device) if spans else (np.empty(0, dtype=np.int64), None)
        taken = spans.capture if spans and len(self.mine) else None
        wanted = {Point(layer, site) for site in taken.sites for layer in taken.layers} if taken else set()
        lens = {Point(layer, "resid_post") for layer in lens_layers}
        points = sorted(wanted | lens | {edit.point for edit in edits}, key=forward_order)
        if points and not 0 <= points[0].layer <= points[-1].layer < (n := len(blocks(model))):
            raise UserError(f"layers {points[0].layer} to {points[-1].layer}: the model has layers 0 to {n - 1}")
        shape = batch.inputs["input_ids"].shape
        changes = {
            point: [_changer(pack, batch, edit, device) for edit in edits if edit.point == point] for point in points
        }

        def tap(point: Point) -> Tap:
            def visit(hidden: "torch.Tensor") -> "torch.Tensor | None":
                self.passed.add(point)
                if hidden.ndim != 3 or hidden.shape[:2] != shape:
                    raise UserError(
                        f"{point}: {type(model).__name__} keeps several streams there, {list(hidden.shape)} for "
                        f"{list(shape)} tokens; they can be neither captured nor edited, choose another site"
                    )
                before = hidden
                for change in changes[point]:
                    hidden = change(hidden)
                if pick and point in wanted:
                    self.taken[point] = pick(hidden)
                if point in lens:
                    self.streams[point] = _cells(hidden, self.cells)
                return None if hidden is before else hidden

            return visit

        self.taps = {point: tap(point) for point in points}

    def check(self) -> None:
        """Raise if a point was never come by: a hook that stays silent must not pass for a value."""
        if silent := [str(point) for point in self.taps if point not in self.passed]:
            raise UserError(f"{silent[0]}: the forward pass never comes by it; choose another site or back end")

    def given(self) -> "Iterator[_Given]":
        """What this batch took of each site, on its way to the CPU."""
        import torch

        if self.spans is None or not len(self.mine):
            return
        for site in self.spans.capture.sites:
            first, *rest = (self.taken[Point(layer, site)] for layer in self.spans.capture.layers)
            # One copy for all layers. Under a device map each block's rows are where the block is.
            rows = torch.stack([first, *(vectors.to(first.device) for vectors in rest)], dim=1)
            yield _Given(site, self.mine, download(rows))


def _cells(hidden: "torch.Tensor", cells: "torch.Tensor") -> "torch.Tensor":
    """[n, d_model] of [B, T, d_model]."""
    return hidden.flatten(0, 1)[cells.to(hidden.device)]


def _changer(pack: Pack, batch: Batch, edit: Edit, device: "torch.device") -> "Callable[[torch.Tensor], torch.Tensor]":
    """Makes an edit in every copy of its nodes."""
    number = {node: i for i, node in enumerate(edit.nodes)}
    here = np.where(batch.tokens >= 0, pack.members[batch.tokens], NOWHERE)
    which = np.array([number.get(node, -1) for node in here.tolist()])
    cells, nodes = (upload(numbers, device) for numbers in (np.flatnonzero(which >= 0), which[which >= 0]))

    def change(hidden: "torch.Tensor") -> "torch.Tensor":
        stream = hidden.flatten(0, 1).clone()
        at = cells.to(stream.device)
        stream[at] = edit.change(stream[at], nodes.to(stream.device)).to(stream)
        return stream.view_as(hidden)

    return change
