"""The one number that a run was made for, written down before anything was read (METRICS F8)."""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from ..base.settings import Settings
from .inference.equivalence import Equivalence, alike, tost, unless_missed
from .inference.intervals import MIN_BOOTSTRAP_CLUSTERS
from .inference.means import ClusterMean
from .inference.planning import ESTIMATION_ONLY, LEAK, READING_NOISE, study_design
from .number import Number
from .tables.samples import ALL

ITEMS, MODELS = "items", "items and models"
WORDS = {
    "c2": "consistency",
    "M": "slope of the update on the prior",
    "control_iv": "slope of the update on the prior, of controls",
    "b_excess": "B beyond its controls",
    "top_b": "B of the likeliest option",
    "sufficiency": "share of the policy that the belief predicts",
    "excess": "excess of the user's word over an agent's, nats",
    "framing_bias": "framing bias",
    "update": "change of the log-odds, nats",
}
"""What is registered where an experiment comes with a number, in words."""


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
    width: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Estimation only: half the width of the interval that n is planned to give; then there is no margin."""
    family: int = Field(default=1, ge=1)
    """Registered numbers that are tested together, in all runs of a study; p is adjusted for so many (Bonferroni)."""
    n: int = Field(ge=1)
    """Clusters that were planned."""
    target: Literal["items", "items and models"] = "items"
    """What the sample stands for: items like these, or models like these as well."""

    @model_validator(mode="after")
    def _claims_or_estimates(self) -> "Registered":
        if self.margin is not None and self.width is not None:
            raise ValueError("registered: `margin` plans a claim, `width` an estimate; give one of them")
        return self

    def foreseen(self, clusters: int | None = None) -> list[str]:
        """What so many clusters can show of it, in lines, before anything is read: no more than were planned, since
        a run has items, such as controls, that are not of this number. None: as many as were planned.
        """
        planned_alone, clusters = clusters is None, min(self.n if clusters is None else clusters, self.n)
        has = f"registered are {clusters}" if planned_alone else f"this run has {clusters}"
        design = study_design(self.metric, self.margin, clusters)
        agent = (
            f"a model that is coherent but for noise: each reading is off by about {READING_NOISE:g} nat of log-odds, "
            f"and an option that is ruled out keeps {LEAK:.0%} of the answer"
        )
        if clusters < self.n:
            has += f" of the {self.n} registered"
        if self.margin is None:
            aim = "" if self.width is None else f" to within ± {self.width:g}"
            run = "" if planned_alone else f"; this run has {clusters} clusters"
            estimated = f"registered to estimate {self.label}{aim} ({self.n} clusters)"
            lines = [f"{estimated}, not for a claim of coherence{run}"]
        else:
            lines = [f"registered: {self.label}, within {self.margin:g} of {self.coherent:g}"]
            if design.needed == ESTIMATION_ONLY:
                lines.append(f"  {ESTIMATION_ONLY}: no number of clusters shows it of {agent}; {has} clusters")
            elif np.isnan(design.power):
                lines.append(
                    f"  a claim takes {design.needed} clusters or more: fewer may have missed clusters that differ"
                )
                lines.append(
                    f"  {has} clusters; how often they succeed is not known, since no study tells how this varies"
                )
            else:
                away, less = design.farther
                lines.append(f"  a claim takes {design.needed} clusters for 80% power. That is of {agent}")
                lines.append(
                    f"  {has} clusters: such a model, whose noise moves the number by {design.off:.2g}, then passes in "
                    f"{design.power:.0%} of runs, and one that is moved by {away:.2g}, nearer to the "
                    f"margin, in {less:.0%}"
                    if design.power >= 0.01
                    else f"  {has} clusters, too few: such a model passes in less than 1% of runs"
                )
        if np.isnan(design.half_width):
            return lines
        if clusters < MIN_BOOTSTRAP_CLUSTERS:
            few = f"{clusters} clusters allow no forecast of its interval"
            lines.append(f"  {few}: {MIN_BOOTSTRAP_CLUSTERS} are the fewest that do")
        else:
            lines.append(
                f"  where beliefs spread as in the calibration, {clusters} clusters give {self.metric} an interval of "
                f"about ± {design.half_width:.2g}, wider where beliefs hardly differ between items; where it truly is "
                f"{design.smallest:.2g} or farther from that of a coherent belief, it is shown to differ from it in "
                "80% of runs"
            )
        return lines

    @property
    def label(self) -> str:
        """What names it."""
        part = "" if self.subset == ALL else f", {self.subset}"
        called = f"{WORDS[self.metric]} ({self.metric})" if self.metric in WORDS else self.metric
        return f"{called} of {self.method} ({self.kind}){part}"

    @property
    def inference(self) -> str:
        """What the sample stands for, in a sentence."""
        if self.target == ITEMS:
            return "Inference is to items like these, for this model and no other."
        return "Inference is to items and to models like these; one model alone says nothing of others."

    def among(self, numbers: Sequence[Number]) -> Number | None:
        """The number, if it was made."""
        wanted = (self.metric, self.method, self.kind, self.subset)
        return next((number for number in numbers if number.key[:4] == wanted), None)

    def equivalence(self, number: Number) -> Equivalence | None:
        """To the value of a coherent agent, within the margin; None without one, else as `equivalence_to`."""
        return None if self.margin is None else equivalence_to(number, self.coherent, self.margin)


def equivalence_to(number: Number, coherent: float, margin: float) -> Equivalence | None:
    """To the value of a coherent agent, within a margin; None without a standard error, or where the status of the
    number says that its level is not promised.

    p is at least the chance that so many clusters hold none of the incoherent ones; if all are alike, just that.
    """
    score = number.score
    if isinstance(score, ClusterMean) and score.status == "zero_cluster_variance":
        off = abs(score.mean - coherent)
        return alike(off, score.n_clusters, margin, number.worst) if off < margin else None
    if not math.isfinite(score.se) or not score.se > 0 or score.n_clusters < 2:
        return None
    if score.status not in ("ok", "few_clusters"):  # how few they are enters p
        return None
    df = getattr(score, "df", math.nan)
    df = df if df > 0 else score.n_clusters - 1
    test = tost(float(score.estimate) - coherent, score.se, df, -margin, margin)
    carrying = [number.value(name) for name in ("effective_clusters", "n_models")]
    return unless_missed(test, min([score.n_clusters, *(n for n in carrying if n > 0)]), number.worst)
