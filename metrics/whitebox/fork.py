"""Has the model made a choice that it has not told? Branches of one context (METRICS W1)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ..divergence import entropy_bits
from ..score import Score, row_counts
from ..validation import TIE, probabilities, same_shape


@dataclass(frozen=True, kw_only=True)
class ForkCoherence(Score):
    """METRICS W1. Floats for one context, arrays [n] for a batch; a batch is aggregated by its clusters."""

    headline: ClassVar[str] = "rms"
    rms: Any
    """sqrt(mean (q - r)^2): 0 for a kept choice."""
    excess: Any
    """sum q - 1: positive when "yes" is said to more than one option."""
    corr: Any
    """Pearson over the options; NaN if either is constant."""
    commitment: Any
    """1 - H(r) / log2 k, in [0, 1]: 1 when one option would surely be revealed."""


def fork_coherence(q: ArrayLike, r: ArrayLike) -> ForkCoherence:
    """Compare "Is it d?", asked of every option in its own branch, with the reveal (METRICS W1).

    Args:
        q: [k] or [n, k], P(yes) / (P(yes) + P(no)) per option.
        r: the same shape, the mass of revealing each option; normalised here.

    A NaN, or a reveal without mass on the options, makes that context NaN. One option has no commitment.
    """
    q, r = probabilities(q, "q"), probabilities(r, "r")
    same_shape(q=q, r=r)
    if q.ndim not in (1, 2) or not q.shape[-1]:
        raise ValueError(f"q: shape {q.shape}; give [k] or [n, k]")
    k = q.shape[-1]
    total = r.sum(axis=-1, keepdims=True)
    r = r / np.where(total > 0, total, np.nan)
    bad = np.isnan(q + r).any(axis=-1)
    u, v = (x - x.mean(axis=-1, keepdims=True) for x in (q, r))
    flat = (np.ptp(q, axis=-1) <= TIE) | (np.ptp(r, axis=-1) <= TIE)
    scale = np.sqrt((u**2).sum(axis=-1) * (v**2).sum(axis=-1))
    commitment = np.clip(1 - entropy_bits(r) / np.log2(k), 0.0, 1.0) if k > 1 else np.full(bad.shape, np.nan)
    fields: dict[str, Any] = {
        "rms": np.sqrt(((q - r) ** 2).mean(axis=-1)),
        "excess": q.sum(axis=-1) - 1,
        "corr": (u * v).sum(axis=-1) / np.where(flat, np.nan, scale),
        "commitment": commitment,
    }
    fields = {name: np.where(bad, np.nan, value)[()] for name, value in fields.items()}
    n_bad = int(bad.sum())
    return ForkCoherence(
        **fields,
        **row_counts(bad.size - n_bad, n_bad),
        status="ok" if n_bad < bad.size else "undefined",
    )
