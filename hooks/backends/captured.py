"""What is captured over the packs of a tree. A token that several read-outs share is computed and kept once."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ..edits.marks import marks_digest
from ..errors import UserError
from ..model.points import Site
from ..prompts.places import ResolvedPosition
from ..tree.tree import Pack, TokenTree
from .backend import Capture, PackOutput

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

        own = self.rows[self.rows["position"] == position]
        if own.empty or site not in self.residuals:
            raise UserError(f"{site} at {position!r}: was not captured")
        readouts = own.groupby("readout_id", sort=False)
        number, place, rows = (
            torch.tensor(one.tolist()) for one in (readouts.ngroup(), readouts.cumcount(), own.index)
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

    rows = pd.concat([one.rows for one in captured], ignore_index=True)
    some = [one for one in captured if len(one.rows)]
    sites = some[0].residuals if some else {}
    return Captured(
        rows, captured[0].layers, {site: torch.cat([one.residuals[site] for one in some]) for site in sites}
    )


class Collector:
    """Requests the rows to capture in each pack, and collects them.

    Args:
        tree: of all read-outs.
        sites, layers: what to take.
    """

    def __init__(self, tree: TokenTree, sites: tuple[Site, ...], layers: tuple[int, ...]) -> None:
        self.tree, self.sites, self.layers = tree, sites, layers
        self.rows: list[tuple[str, str, int, str]] = []
        self._slots: dict[tuple[int, int], int] = {}
        self._slot_of_row: list[int] = []
        self._missing: dict[int, list[tuple[int, int]]] = {}
        self._residuals: dict[Site, torch.Tensor] = {}

    def add_places(self, readout_id: str, prompt: Sequence[int], places: Sequence[ResolvedPosition]) -> None:
        """Ask for places of a prompt, whose nodes are `prompt`."""
        for place in places:
            key = node, length = prompt[place.token], place.length
            if key not in self._slots:
                self._slots[key] = len(self._slots)
                self._missing.setdefault(node, []).append((length, self._slots[key]))
            self._slot_of_row.append(self._slots[key])
            nodes = prompt[: place.token + 1]
            done = marks_digest(self.tree.marks.get(one) for one in nodes)
            digest = ids_hash([self.tree.tokens[one] for one in nodes], done)
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
        """Take what a pack has given."""
        import torch

        slots = [slot for node in pack.members.tolist() for _, slot in self._missing.pop(node, ())]
        for site, residuals in output.residuals.items():
            if site not in self._residuals:
                self._residuals[site] = torch.empty(len(self._slots), *residuals.shape[1:], dtype=residuals.dtype)
            self._residuals[site][slots] = residuals

    def result(self) -> Captured:
        """Everything, row by row."""
        return self.results([len(self.rows)])[0]

    def results(self, counts: Sequence[int]) -> list[Captured]:
        """The same in parts of so many rows."""
        import torch

        found, start = [], 0
        for count in counts:
            slots, rows = self._slot_of_row[start : start + count], self.rows[start : start + count]
            start += count
            residuals: dict[Site, torch.Tensor] = {}
            for site, kept in self._residuals.items() if slots else ():
                residuals[site] = kept if slots == list(range(len(kept))) else kept[slots]
            found.append(Captured(pd.DataFrame(rows, columns=list(ROWS)), self.layers, residuals))
        return found


def ids_hash(ids: Sequence[int], edits: str = "") -> str:
    """A short hash of token ids, and of what was done to them."""
    return hashlib.sha256(np.asarray(ids, dtype=np.int64).tobytes() + edits.encode()).hexdigest()[:16]
