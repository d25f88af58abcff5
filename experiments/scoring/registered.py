"""The one number that a run was made for, written down before anything was read (METRICS F8)."""

import math
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from ...hooks.settings import Settings
from ...metrics import Equivalence, tost, unless_missed
from ..tables.samples import ALL
from .number import Number

ITEMS, MODELS = "items", "items and models"


class Registered(Settings):
    """The primary number. All others of a run are exploratory."""

    metric: str
    """As in `scores.json`, like the next three."""
    method: str
    kind: str = "exact"
    subset: str = ALL
    coherent: float = Field(default=0.0, allow_inf_nan=False)
    """Its value for a coherent agent."""
    margin: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """The distance from that value that would matter, in its units; None: no claim of coherence is planned."""
    family: int = Field(default=1, ge=1)
    """Registered numbers that are tested together, in all runs of a study; p is adjusted for so many (Bonferroni)."""
    n: int = Field(ge=1)
    """Clusters that were planned."""
    target: Literal["items", "items and models"] = "items"
    """What the sample stands for: items like these, or models like these as well."""

    @property
    def label(self) -> str:
        """What names it."""
        part = "" if self.subset == ALL else f", {self.subset}"
        return f"{self.metric} of {self.method} ({self.kind}){part}"

    @property
    def inference(self) -> str:
        """What the sample stands for, in a sentence."""
        if self.target == ITEMS:
            return "Inference is to items like these, for this model and no other."
        return "Inference is to items and to models like these; one model alone says nothing of others."

    def among(self, numbers: Sequence[Number]) -> Number | None:
        """The number, if it was made."""
        own = (self.metric, self.method, self.kind, self.subset)
        return next((one for one in numbers if own == (one.metric, one.method, one.kind, one.subset)), None)

    def equivalence(self, number: Number) -> Equivalence | None:
        """To the value of a coherent agent, within the margin; None without a margin or a standard error, or where the
        status of the number says that its level is not promised.

        p is no smaller than the chance that so many clusters hold none of the incoherent ones.
        """
        score = number.score
        if self.margin is None or not math.isfinite(score.se) or not score.se > 0 or score.n_clusters < 2:
            return None
        if score.status not in ("ok", "few_clusters"):  # how few they are enters p
            return None
        df = getattr(score, "df", math.nan)
        df = df if df > 0 else score.n_clusters - 1
        found = tost(float(score.estimate) - self.coherent, score.se, df, -self.margin, self.margin)
        carrying = [number.value(name) for name in ("effective_clusters", "n_models")]
        return unless_missed(found, min([score.n_clusters, *(n for n in carrying if n > 0)]), number.worst)
