"""What a comparison finds: records, which items make a difference, and how alike every two kinds of belief are."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from markupsafe import escape

from ... import metrics
from ...base.errors import UserError
from ...base.text import listed, quoted, shown
from ...metrics.coherence import COHERENCE
from ...metrics.contract import Array, Resampling
from ...metrics.metric import clusters_of, keys_of
from ...metrics.number import Number
from ...metrics.scoring.differences import SAME, Pair
from ...metrics.tables.sample_rows import joined
from ...metrics.tables.samples import Answers, Elicited, Forecasts, Multiclass, Options, Sample
from ..report.figures import forest
from ..report.findings import Figure, Instance, Transcript
from ..run.folder import few_draws
from ..run.galleries import with_beliefs
from .sides import Side

MOST_DRAWN = 12
"""Differences in a figure."""
MOST_DRIVERS = 5
"""Clusters of a difference that are shown."""
PLACES = 2
"""Read-outs of one of them."""
AT = ["item", "scenario", "step"]
"""Where a belief is read."""


@dataclass(frozen=True)
class Driver:
    """A cluster, and by how much the difference falls when it is left out."""

    cluster: str
    moves: float


def drivers_of(pair: Pair) -> list[Driver]:
    """Those that move the difference most."""
    return [Driver(name, moved) for name, moved in list(pair.influence().items())[:MOST_DRIVERS]]


@dataclass(frozen=True)
class _Place:
    """A read-out on both sides, with the beliefs there."""

    cluster: str
    label: str
    held: tuple[float, float]
    readouts: tuple[list[str], list[str]]
    """Of each side the read-out, and those whose transcript it may share."""


def instances_of(pair: Pair, drivers: Sequence[Driver], sides: Sequence[Side]) -> Iterator[Instance]:
    """What was said in the clusters that drive a difference, where the two beliefs are furthest apart."""
    first, second = (
        next((side for side in sides if side.label == sample.run), sides[0]) for sample in (pair.one, pair.two)
    )
    if first.run is None or second.run is None:
        return
    places = {driver.cluster: _places(pair, driver.cluster, first, second) for driver in drivers}
    wanted = [{name for seen in places.values() for place in seen for name in place.readouts[i]} for i in (0, 1)]
    texts = [_said(side, names) for side, names in zip((first, second), wanted, strict=True)]
    for driver in drivers:
        for place in places[driver.cluster]:
            conversations = [
                (f"{name}: {belief:.3f}", heard[asked[0]])
                for name, belief, readouts, heard in zip(pair.names, place.held, place.readouts, texts, strict=True)
                if (asked := [readout for readout in readouts if readout in heard])
            ]
            facets = (pair.metric, " - ".join(pair.names), driver.cluster)
            facts = f"{place.label}: P(first option) is {place.held[0]:.3f} and {place.held[1]:.3f}"
            yield Instance(facets, driver.moves, facts, conversations)


def _places(pair: Pair, cluster: str, first: Side, second: Side) -> list[_Place]:
    """The read-outs of a cluster that both have, those where the beliefs are furthest apart."""
    left, right = (_held(side.beliefs, sample, cluster) for side, sample in ((first, pair.one), (second, pair.two)))
    both = left.add_suffix("_1").join(right.add_suffix("_2"), how="inner")
    apart = (both["prob_1"] - both["prob_2"]).abs().dropna().sort_values(ascending=False, kind="stable")
    places = []
    for at in apart.index[:PLACES]:
        row = both.loc[at]
        item, scenario, step = at
        label = ", ".join(filter(None, (str(item), str(scenario), f"step {step}" if step else "")))
        asked = [(row[f"own_{i}"], row[f"own_{i}"].rpartition("/")[0], row[f"of_{i}"]) for i in (1, 2)]
        readouts = [[name for name in names if name] for names in asked]  # of itself, its question, what it is made of
        places.append(_Place(cluster, label, (row["prob_1"], row["prob_2"]), (readouts[0], readouts[1])))
    return places


def _held(beliefs: pd.DataFrame, sample: Sample, cluster: str) -> pd.DataFrame:
    """By place, the belief in the first option, the mean of its readings, and the first of the read-outs."""
    rows = beliefs[(beliefs["option_index"] == 0) & (beliefs["cluster"].astype(str) == cluster)]
    rows = rows[(rows["kind"].astype(str) == sample.kind) & (rows["method"].astype(str) == sample.method)]
    rows = rows.assign(**{name: rows[name].astype(str) for name in (*AT[:2], "readout_id", "of")})
    return rows.groupby(AT, sort=False).agg(prob=("prob", "mean"), own=("readout_id", "first"), of=("of", "first"))


def _said(side: Side, readouts: set[str]) -> dict[str, Transcript]:
    """What was said in these read-outs, of what was sampled the first few; runs may lack some."""
    assert side.run is not None
    lines = (line for line in side.run.folder.said() if line["readout_id"] in readouts)
    return with_beliefs({line["readout_id"]: few_draws(line) for line in lines}, side.beliefs)


# Every two kinds of belief about the same things: how reliable each is, and how alike they are without that noise.

MOST_KINDS = 12


@dataclass(frozen=True)
class Held:
    """The beliefs of one kind, by name."""

    keys: Array
    clusters: Array
    readings: Array
    """[n, r] whose mean a belief is; r is 1 where it was read once."""


@dataclass(frozen=True)
class Matrix:
    """Kinds against kinds."""

    names: Sequence[str]
    reliabilities: Sequence[metrics.MethodReliability]
    correlations: Mapping[tuple[int, int], metrics.MethodCorrelation]
    """Of each two, by their places in `names`."""
    left_out: int = 0
    """Further kinds."""


def held(sample: Sample) -> Held | None:
    """The beliefs of a sample; None of one that holds none, or whose rows have no names."""
    if not sample.keys_known or not sample.whole_run:
        return None
    if isinstance(sample, Elicited):
        read = sample.readings if sample.wordings is None else sample.wordings
        return Held(keys_of(sample), clusters_of(sample), sample.belief[:, None] if read is None else read)
    if isinstance(sample, Forecasts):
        return Held(keys_of(sample), clusters_of(sample), sample.belief[:, None])
    shares = None
    if isinstance(sample, Options):
        shares = metrics.counts_to_probabilities(sample.posterior)
    elif isinstance(sample, Multiclass):
        shares = sample.belief
    elif isinstance(sample, Answers) and sample.named:
        shares = sample.single
    return None if shares is None else _of_options(sample, shares)


def _of_options(sample: Sample, shares: Array) -> Held:
    """A belief for each option but the last, which the others leave."""
    k = shares.shape[1] - 1
    names = [joined(keys_of(sample), np.full(len(shares), str(option), dtype=object)) for option in range(k)]
    return Held(np.concatenate(names), np.tile(clusters_of(sample), k), shares[:, :k].T.reshape(-1, 1))


def matrix_of(samples: Sequence[Sample], how: Resampling) -> Matrix | None:
    """The matrix of the first sample of each name that holds beliefs; None of fewer than two."""
    read: dict[str, Held] = {}
    for sample in sorted(samples, key=lambda first_name: not isinstance(first_name, Elicited)):
        readings = None if sample.name in read else held(sample)
        if readings is not None:
            read[sample.name] = readings
    order = list(dict.fromkeys(sample.name for sample in samples if sample.name in read))
    names = order[:MOST_KINDS]
    if len(names) < 2:
        return None
    reliabilities = [metrics.method_reliability(read[name].readings, read[name].clusters, how=how) for name in names]
    correlations = {}
    for (i, first_name), (j, second_name) in combinations(enumerate(names), 2):
        first, second = read[first_name], read[second_name]
        _, here, theirs = np.intersect1d(first.keys.astype(str), second.keys.astype(str), return_indices=True)
        correlations[i, j] = metrics.method_correlation(
            first.readings[here], second.readings[theirs], first.clusters[here], how=how
        )
    return Matrix(names, reliabilities, correlations, len(order) - len(names))


# What a comparison finds: records that a page, a terminal, a card and a program read alike.

Finding = Literal[
    "differ",
    "differ by less than the margin",
    "the same within the margin",
    "undecided",
    "the same read-outs",
    "no test",
    "no win",
    "unreadable",
    "struck out",
]
"""`unreadable`: one of the two is no belief. `struck out`: one is not shown to be readable, or a probe's errors make
such a difference. `no win`: the one that is nearer to coherence does not respond: who ignores everything is coherent.
"""
ALPHA = 0.05


@dataclass(frozen=True)
class Record:
    """One number of two samples."""

    pair: Pair
    number: Number
    """Their difference; its score is a `PairedDifference`."""
    drivers: Sequence[Driver] = ()
    """Clusters that make the difference, the largest before all."""
    struck: str = ""
    """Why nothing is concluded from it, though it is shown: one of the two is no belief, or not in this number."""
    unresponsive: Sequence[bool] = (False, False)
    """Of each of the two, whether it is shown not to respond to what it is told."""

    def __repr__(self) -> str:
        return f"Record({self.pair.metric}: {' - '.join(self.pair.names)}: {self.finding}; {self.score!r})"

    @property
    def score(self) -> metrics.PairedDifference:
        """The difference, with the two numbers on common rows."""
        assert isinstance(self.number.score, metrics.PairedDifference)
        return self.number.score

    @property
    def finding(self) -> Finding:
        """What the tests say, each adjusted over its family."""
        if self.struck:
            return "unreadable" if " cannot be read: " in self.struck else "struck out"
        if self.score.status == SAME:
            return "the same read-outs"
        same = isinstance(self.number.equivalence, metrics.Equivalence) and self.number.equivalence.equivalent
        if not self.score.p_adjusted >= 0:
            return "no test"
        if self.score.p_adjusted < ALPHA:
            if self._nearer is not None and self.unresponsive[self._nearer]:
                return "no win"
            return "differ by less than the margin" if same else "differ"
        return "the same within the margin" if same else "undecided"

    @property
    def _nearer(self) -> int | None:
        """Which of the two is nearer to coherence; None of a number of behaviour."""
        ends = COHERENCE.get(self.pair.metric)
        if ends is None:
            return None
        first, second = (abs(value - ends.coherent) for value in (self.score.first, self.score.second))
        return 0 if first < second else 1

    @property
    def named(self) -> str:
        """Which of the two does not respond, and what that says of the difference."""
        idle = [name for name, idle in zip(self.pair.names, self.unresponsive, strict=True) if idle]
        if not idle or self.pair.metric not in COHERENCE:
            return ""
        alone = len(idle) == 1
        return f"{listed([*map(quoted, idle)])} {'does' if alone else 'do'} not respond, and may lose here but not win"


@dataclass(frozen=True)
class Group:
    """Sides that are compared: runs of one experiment, or tables of one form."""

    name: str
    sides: Sequence[Side]
    numbers: Sequence[Number]
    """Of each sample by itself, with all that leads to them."""
    comparable: Sequence[str]
    """The numbers that can be compared."""
    failed: Mapping[str, str]
    """Name of a sample -> that it cannot be read, or is not shown to be readable, and why."""
    differs: Sequence[tuple[str, Sequence[str]]]
    """(condition or setting, its value on each side)."""
    matrix: Matrix | None
    disagreements: Sequence[str] = ()
    """Of tables whose outcomes differ for the same rows, in a line each."""
    unpaired: int = 0
    """Pairs of numbers that share no item, and are not compared."""


@dataclass(frozen=True)
class Comparison:
    """Everything that was compared."""

    groups: Sequence[Group]
    family: Sequence[str]
    """The numbers that were named before reading."""
    named_by: str
    """By what."""
    confirmed: Sequence[Record]
    """Of the family, adjusted by Holm."""
    explored: Sequence[Record]
    """Of all others, adjusted by Benjamini and Hochberg."""
    struck: Sequence[Record]
    """Of what cannot be read, in no family."""
    margins: Mapping[str, float] = field(default_factory=dict)
    """That were given."""
    left_out: Sequence[Path] = ()
    """What lies beside the runs and is none."""

    def __repr__(self) -> str:
        n = [len(records) for records in (self.confirmed, self.explored, self.struck)]
        findings = "; ".join(f"{records.pair.metric}: {records.finding}" for records in self.confirmed[:3])
        text = f"{n[0]} confirmed, {n[1]} explored, {n[2]} struck out{f'; {findings}' if findings else ''}"
        return f"Comparison({text}; .table(), .plot())"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{self.table().to_html(float_format=shown, index=False)}"

    def table(self) -> pd.DataFrame:
        """A row for each difference: of the family, then what was explored, then what is struck out."""
        parts = {"confirmed": self.confirmed, "explored": self.explored, "struck out": self.struck}
        return pd.DataFrame(
            [
                {"metric": record.pair.metric, "first": record.pair.names[0], "second": record.pair.names[1]}
                | {name: getattr(record.score, name) for name in ("difference", "ci_lo", "ci_hi", "p_adjusted")}
                | {"n": record.score.n_rows, "clusters": record.score.n_clusters, "status": record.score.status}
                | {"finding": record.finding, "why": record.struck, "part": part}
                for part, records in parts.items()
                for record in records
            ]
        )

    def plot(self) -> Figure:
        """The differences of the family as a forest. Raises UserError where none can be drawn."""
        if self.drawn is None:
            raise UserError("there is no difference to draw")
        return self.drawn

    @property
    def drawn(self) -> Figure | None:
        """The same, of what is struck out if all of it is; None where there is none."""
        family = [*self.confirmed, *(record for record in self.struck if record.pair.metric in self.family)]
        metric = next((record.pair.metric for record in family), None)
        rows = [
            (" - ".join(record.pair.names), record.score, bool(record.struck))
            for record in family
            if record.pair.metric == metric
        ]
        hollow = " In a hollow mark one of the two is no readable belief." if any(struck for *_, struck in rows) else ""
        caption = f"First minus second on common items, with its interval. The dashed line is no difference.{hollow}"
        return forest(f"Differences in {metric}", rows[:MOST_DRAWN], f"difference in {metric}", caption, reference=0)

    @property
    def failures(self) -> list[tuple[str, str]]:
        """(name of a sample that is struck out, why)."""
        named = {sample.name for record in self.struck for sample in (record.pair.one, record.pair.two)}
        failing = {name: why for group in self.groups for name, why in group.failed.items() if name in named}
        notes = {name: why for group in self.groups for side in group.sides for name, why in side.notes.items()}
        drawn = [(name, why) for name, why in notes.items() if name in named - {*failing}]
        return [*failing.items(), *drawn]
