"""What a run captures of the residual stream (sites, layers, positions, as its configuration says), and what was
captured over the packs of a tree. A token that several read-outs share is computed and kept once.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pydantic import Field

from ...base.errors import UserError
from ...base.settings import Settings, parse
from ..edits.interventions import marks_digest
from ..model.blocks import Layers, Site, layer_numbers
from ..prompts.places import LAST, PLAIN, Position, Positions, ResolvedPosition, plain_position
from ..tree.token_tree import Pack, TokenTree
from .backend import Capture, PackOutput


class CapturePlan(Settings):
    """What to capture in the passes that read beliefs.

    >>> CapturePlan(layers=(0.5, -1)).layer_numbers(n_layers=31)
    (15, 30)
    """

    sites: tuple[Site, ...] = Field(default=("resid_post",), min_length=1)
    """`resid_pre`, `resid_post`: the residual stream before and after a block; `attn_out`, `mlp_out`: what its parts
    give; `head_out`: the outputs of its heads, side by side."""
    layers: Layers = "all"
    positions: dict[str, Position] | None = None
    """Name -> where. None: what the experiment declares for each question."""

    def layer_numbers(self, n_layers: int) -> tuple[int, ...]:
        """See `layer_numbers`."""
        return layer_numbers(self.layers, n_layers, "capture.layers")

    def places(self) -> Positions:
        """Its positions; the prompt's last token where it names none."""
        return {"last": LAST} if self.positions is None else self.positions


Capturing = CapturePlan | Mapping[str, Any] | str
"""A plan; its settings as a mapping; `last`, `before_answer` or `prompt` (each token): there, after each block."""


def as_plan(capture: Capturing | None) -> CapturePlan | None:
    """The plan that is meant. Raises UserError for what means none.

    >>> as_plan("prompt").positions
    {'prompt': Position(at='each', message=None, text=None, occurrence=None)}
    """
    if capture is None or isinstance(capture, CapturePlan):
        return capture
    if isinstance(capture, Mapping):
        return parse(CapturePlan, dict(capture), "capture")
    if not isinstance(capture, str) or (position := plain_position(capture)) is None:
        raise UserError(f"capture {capture!r}: give {', '.join(map(repr, PLAIN))}, or a CapturePlan")
    return CapturePlan(positions={capture: position})


if TYPE_CHECKING:
    import torch

ROWS = ("readout_id", "position", "token_index", "ids_hash")


@dataclass(frozen=True, repr=False)
class Captured:
    """The residual streams of a batch of read-outs."""

    rows: pd.DataFrame
    """[rows] `readout_id`, `position` (its name), `token_index` (in the prompt; of a mean, its last) and `ids_hash` (of
    the prompt's ids up to that token, and of what edits do to them): what the residuals are a function of, besides the
    model."""
    layers: tuple[int, ...]
    residuals: "dict[Site, torch.Tensor]"
    """Site -> [rows, layers, d_model] on the CPU, in the model's dtype; empty if there are no rows."""

    def padded(self, position: str, site: Site = "resid_post") -> "tuple[torch.Tensor, torch.Tensor]":
        """The tokens of a position that means several, read-out by read-out: values [read-outs, most tokens, layers,
        width], and the mask [read-outs, most tokens] of those that are there; the others are zero.

        Raises UserError for a position or a site that was not captured.
        """
        import torch

        chosen = self.rows[self.rows["position"] == position]
        if chosen.empty or site not in self.residuals:
            raise UserError(f"{site} at {position!r}: was not captured")
        readouts = chosen.groupby("readout_id", sort=False)
        number, place, rows = (
            torch.tensor(numbers.tolist()) for numbers in (readouts.ngroup(), readouts.cumcount(), chosen.index)
        )
        values = self.residuals[site][rows]
        mask = torch.zeros(int(number.max()) + 1, int(place.max()) + 1, dtype=torch.bool)
        mask[number, place] = True
        padded = values.new_zeros(*mask.shape, *values.shape[1:])
        padded[number, place] = values
        return padded, mask

    def __repr__(self) -> str:
        names = ", ".join(self.rows["position"].unique())
        sites = ", ".join(self.residuals)
        return f"Captured({len(self.rows)} rows at {names}; {sites}; {len(self.layers)} layers; .rows, .residuals)"


def join_captures(captured: Sequence[Captured]) -> Captured:
    """What several trees gave, of the same layers and sites, one after the other."""
    import torch

    rows = pd.concat([batch.rows for batch in captured], ignore_index=True)
    some = [batch for batch in captured if len(batch.rows)]
    sites = some[0].residuals if some else {}
    return Captured(
        rows, captured[0].layers, {site: torch.cat([batch.residuals[site] for batch in some]) for site in sites}
    )


class Collector:
    """Requests the rows to capture in each pack, and collects them."""

    def __init__(self, tree: TokenTree, sites: tuple[Site, ...], layers: tuple[int, ...]) -> None:
        self.tree, self.sites, self.layers = tree, sites, layers
        self.rows: list[tuple[str, str, int, str]] = []
        self._slots: dict[tuple[int, int], int] = {}
        self._slot_of_row: list[int] = []
        self._missing: dict[int, list[tuple[int, int]]] = {}
        self._residuals: dict[Site, torch.Tensor] = {}
        self._latest: tuple[list[int], Callable[[], Mapping[Site, torch.Tensor]]] = [], dict

    def add_places(self, readout_id: str, prompt: Sequence[int], places: Sequence[ResolvedPosition]) -> None:
        """Ask for places of a prompt, whose nodes are `prompt`."""
        for place in places:
            key = node, length = prompt[place.token], place.length
            if key not in self._slots:
                self._slots[key] = len(self._slots)
                self._missing.setdefault(node, []).append((length, self._slots[key]))
            self._slot_of_row.append(self._slots[key])
            nodes = prompt[: place.token + 1]
            done = marks_digest(self.tree.marks.get(ancestor) for ancestor in nodes)
            digest = ids_hash([self.tree.tokens[ancestor] for ancestor in nodes], done)
            self.rows.append((readout_id, place.position, place.token, digest))

    def request(self, pack: Pack) -> Capture | None:
        """What to capture in a pack: all that it holds and no pack before it has given."""
        wanted = [
            (row, length) for row, node in enumerate(pack.members.tolist()) for length, _ in self._missing.get(node, ())
        ]
        if not wanted:
            return None
        rows, lengths = np.array(wanted, dtype=np.int64).T
        return Capture(self.sites, self.layers, rows, lengths)

    def collect(self, pack: Pack, output: PackOutput) -> None:
        """Take what a pack gives. It is waited for when the next has given, so that a GPU goes on meanwhile."""
        slots = [slot for node in pack.members.tolist() for _, slot in self._missing.pop(node, ())]
        self._settle()
        self._latest = slots, output.fetch

    def _settle(self) -> None:
        """Put what the latest pack gave where it belongs."""
        import torch

        slots, fetch = self._latest
        for site, residuals in fetch().items():
            if site not in self._residuals:
                self._residuals[site] = torch.empty(len(self._slots), *residuals.shape[1:], dtype=residuals.dtype)
            self._residuals[site][slots] = residuals
        self._latest = [], dict

    def results(self, counts: Sequence[int]) -> list[Captured]:
        """Everything, row by row, in parts of so many rows."""
        import torch

        self._settle()
        batches, start = [], 0
        for count in counts:
            slots, rows = self._slot_of_row[start : start + count], self.rows[start : start + count]
            start += count
            residuals: dict[Site, torch.Tensor] = {}
            for site, kept in self._residuals.items() if slots else ():
                residuals[site] = kept if slots == list(range(len(kept))) else kept[slots]
            batches.append(Captured(pd.DataFrame(rows, columns=list(ROWS)), self.layers, residuals))
        return batches


def ids_hash(ids: Sequence[int], edits: str = "") -> str:
    """A short hash of token ids, and of what was done to them."""
    return hashlib.sha256(np.asarray(ids, dtype=np.int64).tobytes() + edits.encode()).hexdigest()[:16]
