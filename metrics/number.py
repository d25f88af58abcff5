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


@dataclass(frozen=True)
class Line:
    """One number of a metric, and what is to be read beside it."""

    metric: str
    """Its short name, as in `scores.json` and in a report's columns; with its part, no two of a sample share it."""
    quantity: str
    """The metric in words."""
    score: Score
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
    part: str = ""
    """Of the sample, what it is about; empty: all of it."""
    by_wording: Mapping[str, Score] = field(default_factory=dict)
    """Form of the question -> the same of it alone, where there are several."""


@dataclass(frozen=True, kw_only=True)
class Number(Line):
    """A score with its name. Of fewer than ten clusters no status is `ok`, whoever made it."""

    quantity: str = ""
    method: str
    """The form of reading; of a difference, both."""
    kind: str = "exact"
    """Of belief (`metrics.KINDS`); empty where a table does not say."""
    subset: str = ALL
    """The part of the data that it is about."""
    run: str = ""
    """The run that it is of, where several are scored together."""
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


def of_share(ci_method: str) -> bool:
    """Whether an interval is made for shares: it lies within 0 and 1, and rests on no standard error.

    >>> of_share("Clopper-Pearson on the effective number of rows, 5"), of_share("jackknife, t(5)")
    (True, False)
    """
    return ci_method.startswith(("Clopper", "Wilson"))


STATUSES = {
    "few_clusters": ("few clusters", "the interval rests on so few clusters that it may be too short"),
    "few_effective_clusters": (
        "few effective clusters",
        "so few clusters carry the number that its interval may be too short",
    ),
    "too_few": ("too few", "there are too few rows to say this number"),
    "too_few_clusters": ("too few clusters", "there are too few clusters to say this number"),
    "one_cluster": ("one cluster", "all rows are of one cluster, so that nothing says how far the number would vary"),
    "no_freedom": ("nothing to permute", "no permutation changes the table, so that p is 1 by itself"),
    "few_contexts": ("few contexts", "the number rests on so few contexts that its interval may be too short"),
    "no_df": ("too few clusters", "too few clusters are left for an interval"),
    "undefined": ("undefined", "the rows do not define this number, as a ratio to zero"),
    "zero_variance": ("zero variance", "what the number compares does not vary"),
    "zero_cluster_variance": (
        "all clusters alike",
        "every cluster has the same value, so that the interval has no length",
    ),
    "same_readouts": (
        "the same read-outs",
        "all beliefs of the two are the same but for rounding, so that nothing is tested",
    ),
    "zero_variance_prior": (
        "the prior does not vary",
        "all beliefs before the update are the same, so that it cannot depend on them",
    ),
    "constant": ("constant", "what the number relates does not vary"),
    "wordings_disagree": (
        "wordings disagree",
        "the wordings of a question do not read one belief, so that the number is not given",
    ),
    "one_reading": ("read once", "each belief was read once, so that noise of reading is not known"),
    "weak_reliability": (
        "reliability may be 0",
        "readings hardly repeat themselves, so that what is divided by their reliability is arbitrary",
    ),
    "no_reliability": (
        "needs a reliability above 0",
        "no repeated reading shows a reliability above 0, so that nothing can be corrected for noise",
    ),
    "not_estimable": (
        "not estimable",
        "readings of one thing differ by more than those of different things, so that no share is theirs",
    ),
    "weak_instrument": (
        "readings hardly correlate",
        "two readings of one belief hardly go together, so that the one does not correct the other",
    ),
    "dependent_posterior": (
        "errors shared",
        "readings before and after share what their wording adds, and that does not cancel",
    ),
    "weak_update": ("weak update", "what the number is divided by is hardly larger than noise"),
    "few_surprises": ("interval too short", "so few outcomes surprised that the interval may be too short"),
    "one_outcome": ("one outcome", "all outcomes are the same"),
    "ties_dominate": (
        "most clusters do not differ",
        "most clusters do not differ at all, so that the few that do decide",
    ),
    "missing_rows": ("widened for missing rows", "the interval reckons with rows that are missing"),
    "leverage_one": ("rests on one cluster", "one cluster alone decides the number"),
    "no_controls": ("no controls", "no control was read that the number could be compared with"),
    "never_wrong": ("never wrong", "the likeliest answer is never wrong"),
    "shared_clusters": ("shared clusters", "clusters are shared between what is compared"),
    "rank_deficient": ("not identified", "the rows cannot tell the effects of the regression apart"),
    "at_end": ("at the end of the grid", "the best value is the last that was tried; the true one may lie farther"),
    "flat": (
        "choices do not rise with the belief",
        "choices do not rise with the belief, so that no weighting fits them",
    ),
    "nothing_left": ("the belief explains all of it", "the other belief explains all of it"),
    "base_worse_than_marginal": (
        "worse than frequencies alone",
        "the prediction is worse than frequencies alone, so that a gain over it shows nothing",
    ),
    "chance_is_perfect": ("chance is perfect", "the control has the best score, too, so that the number cannot tell"),
    "unreadable": ("unreadable", "the method cannot be read as a belief"),
    "unresponsive": ("unresponsive", "the method does not respond to what it is told"),
}
"""Name of a status -> the same in words, and what it says of its number."""


def status_text(status: str) -> str:
    """A status in words.

    >>> status_text("few_clusters"), status_text("leverage_one")
    ('few clusters', 'rests on one cluster')
    """
    return STATUSES[status][0] if status in STATUSES else status.replace("_", " ")
