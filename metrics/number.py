"""One number of a run or of a table with its name."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pandas as pd

from ..base.text import shown
from .contract import TIE, Score
from .inference.equivalence import CoherenceClaim, Equivalence
from .inference.intervals import MIN_BOOTSTRAP_CLUSTERS
from .tables.samples import ALL, sample_name


class Key(NamedTuple):
    """What names a number: no two numbers of a run share one."""

    metric: str
    method: str
    kind: str
    subset: str
    run: str = ""


@dataclass(frozen=True, kw_only=True)
class Number:
    """A score with its name. Of fewer than ten clusters no status is `ok`, whoever made it."""

    metric: str
    """Its short name, as in `scores.json` and in the columns of a report."""
    method: str
    """The form of reading; of a difference, both."""
    kind: str = "exact"
    """Of belief (`metrics.KINDS`); empty where a table does not say."""
    subset: str = ALL
    """The part of the data that it is about."""
    run: str = ""
    """The run that it is of, where several are scored together."""
    score: Score
    quantity: str = ""
    """The metric in words."""
    beside: Mapping[str, str] = field(default_factory=dict)
    """What qualifies it: label -> text."""
    equivalence: Equivalence | CoherenceClaim | None = None
    """To zero, within the default margin of the metric (METRICS F3): of a slope two one-sided tests, of a mean the
    bounds of the studentised bootstrap and clusters enough.
    """
    worst: float = 1.0
    """The farthest from coherence that one cluster can be, in the units of the score: what a claim must reckon with."""
    noise: float = 0.0
    """How far reading noise alone lowers it in this sample for a coherent agent, where that is known (METRICS W4)."""
    by_wording: Mapping[str, Score] = field(default_factory=dict)
    """Form of the question -> the same of it alone, where there are several."""
    family: str = ""
    """The name of the engine's metric that made it; empty if its experiment did."""
    code: str = ""
    """Sections of the definitions."""

    def __post_init__(self) -> None:
        """Say by the status that its clusters are few."""
        if self.score.status == "ok" and 0 < self.score.n_clusters < MIN_BOOTSTRAP_CLUSTERS:
            object.__setattr__(self, "score", replace(self.score, status="few_effective_clusters"))

    def __repr__(self) -> str:
        what = "/".join(filter(None, (self.kind, self.method, self.metric)))
        parts = ", ".join(filter(None, ("" if self.subset == ALL else self.subset, self.run)))
        return f"Number({what}{f' of {parts}' if parts else ''}: {self.score!r})"

    @property
    def key(self) -> Key:
        """Its name."""
        return Key(self.metric, self.method, self.kind, self.subset, self.run)

    @property
    def name(self) -> str:
        """Of the sample that it was made of, as it is printed."""
        return sample_name(self.kind, self.method, self.run)

    @property
    def called(self) -> str:
        """What it measures in words, and by which name it stands in `scores.json`.

        >>> Number(metric="c2", method="free", quantity="consistency", score=Score(status="ok", n_rows=1)).called
        'consistency (c2)'
        """
        plain = self.quantity or self.metric
        named = rf"(?<!\w){re.escape(self.metric.replace('_', ' '))}(?!\w)"
        return plain if re.search(named, plain) else f"{plain} ({self.metric})"

    @property
    def is_none(self) -> bool:
        """Whether it is shown to be as good as zero."""
        test = self.equivalence
        return bool(test and (test.equivalent if isinstance(test, Equivalence) else test.claimed))

    def value(self, name: str) -> float:
        """A number of the score by its field, NaN if it has none of that name; `equivalence` is the p of that test."""
        if name == "equivalence":
            return self.equivalence.p if self.equivalence else float("nan")
        return getattr(self.score, name, float("nan"))


FIELDS = ("estimate", "ci_lo", "ci_hi", "n_rows", "n_clusters", "n_dropped", "status")
"""Of a score, that a table of numbers has."""


def numbers_table(numbers: Sequence[Number]) -> pd.DataFrame:
    """A row for each number: its name, its estimate with its interval, its counts, its status."""
    named = ("metric", "method", "kind", "subset", "run")
    rows = [
        {name: getattr(number, name) for name in named} | {name: getattr(number.score, name) for name in FIELDS}
        for number in numbers
    ]
    return pd.DataFrame(rows, columns=[*named, *FIELDS])


def interval_text(lo: float, hi: float) -> str:
    """In brackets; empty if there is none.

    >>> interval_text(2.6e-54, 0.224)
    '[0.000, 0.224]'
    """
    lo, hi = (0.0 if abs(end) < TIE else end for end in (lo, hi))
    return "" if math.isnan(lo) else f"[{shown(lo)}, {shown(hi)}]"


STATUSES = {
    "few_surprises": "interval too short",
    "dependent_posterior": "errors shared",
    "leverage_one": "rests on one cluster",
    "zero_variance_prior": "the prior does not vary",
    "zero_cluster_variance": "all clusters alike",
    "no_df": "too few clusters",
    "no_freedom": "nothing to permute",
    "ties_dominate": "most clusters do not differ",
    "missing_rows": "widened for missing rows",
    "at_end": "at the end of the grid",
    "flat": "choices do not rise with the belief",
    "nothing_left": "the belief explains all of it",
    "base_worse_than_marginal": "worse than frequencies alone",
    "rank_deficient": "not identified",
    "one_reading": "read once",
    "no_reliability": "needs a reliability above 0",
    "weak_instrument": "readings hardly correlate",
    "weak_reliability": "reliability may be 0",
}
"""Names of `status` that do not say by themselves what they mean, in words."""


def status_text(status: str) -> str:
    """A status in words.

    >>> status_text("few_clusters"), status_text("leverage_one")
    ('few clusters', 'rests on one cluster')
    """
    return STATUSES.get(status, status.replace("_", " "))
