"""What a model is asked to believe, as it comes back: the table, and what was captured beside it."""

from __future__ import annotations  # so that `help` shows the names of types

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from .backends.captured import Captured
from .text import shown


@dataclass(frozen=True, repr=False)
class Beliefs:
    """What `LanguageModel.beliefs` returns. It unpacks into the table and the residuals."""

    beliefs: pd.DataFrame
    """A belief table: one row per conversation and option; then, of each branch of edits, the same under it, with the
    branch at the end of its method's name."""
    residuals: np.ndarray | None = None
    """[read-out, layer, d_model] float32 residual stream, in the order of the table, where one site was captured at one
    token of each read-out; else None: see `captured`."""
    captured: Captured | None = None
    """Everything that was captured, and of which tokens."""
    edits: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Branch -> what was edited, with the digests of the vectors."""

    def __iter__(self) -> Iterator[Any]:
        return iter((self.beliefs, self.residuals))

    def __repr__(self) -> str:
        n = self.beliefs["readout_id"].nunique()
        first = self.beliefs[self.beliefs["readout_id"] == self.beliefs["readout_id"].iloc[0]]
        said = ", ".join(f"{name} {shown(p)}" for name, p in zip(first["option"][:4], first["prob"][:4], strict=True))
        more = "; .captured" if self.captured else ""
        return f"Beliefs({n} read-outs; first: {said}, coverage {shown(first['coverage'].iloc[0])}; .beliefs{more})"

    def _repr_html_(self) -> str:
        table = self.beliefs[["item", "method", "option", "prob", "coverage", "status"]]
        return table.to_html(index=False, max_rows=20, float_format=shown)


def one_row_each(captured: Captured | None, n: int) -> np.ndarray | None:
    """[n, layers, width], where n read-outs have a row each of one site."""
    if captured is None or len(captured.residuals) != 1 or len(captured.rows) != n:
        return None
    (values,) = captured.residuals.values()
    return values.float().numpy() if captured.rows["readout_id"].is_unique else None
