"""Score a table: every metric that fits, for each kind of belief, and the differences between kinds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np

from ...hooks.errors import UserError, nearest
from ...metrics import PairedDifference, paired_difference_moments, paired_family
from ...metrics.inference.intervals import MIN_BOOTSTRAP_CLUSTERS
from ..tables.understand import Understood, understand
from .families import METRICS, Compared, Line, Metric, size

ALL = "all"
SLOW_ROWS = 200_000
"""Above this, `all` leaves out the tests that resample signs row by row; they run when asked for by name."""
SLOW = ("martingale-tests",)
Key = tuple[str, str, str]
"""(metric, one kind, another), or one run and another."""


@dataclass(frozen=True)
class Entry:
    """The lines of one metric for one kind of belief."""

    metric: Metric
    group: str
    lines: Sequence[Line]


@dataclass(frozen=True)
class Scored:
    """Everything that is known of a table."""

    understood: Understood
    entries: Sequence[Entry]
    comparisons: Mapping[Key, PairedDifference]
    """Adjusted over all of them."""
    skipped: Mapping[str, str]
    """Metric that fits the form -> why it was not scored."""
    seed: int


def score_table(
    path: Path, metric: str = ALL, *, cluster: str | None = None, replicates: str | None = None, seed: int = 0
) -> Scored:
    """Score a table (arguments as `understand`; `metric` is a name or `all`).

    Raises UserError as `understand` and `score_understood` do.
    """
    chosen(metric)
    return score_understood(understand(path, cluster=cluster, replicates=replicates), metric, seed=seed)


def score_understood(understood: Understood, metric: str = ALL, *, seed: int = 0) -> Scored:
    """Score what was read: a table, or runs.

    Raises UserError if the metric is unknown or does not fit it.
    """
    wanted, path = chosen(metric), understood.path
    entries: list[Entry] = []
    skipped: dict[str, str] = {}
    for candidate in wanted:
        lacking = {group: candidate.lacks(sample) for group, sample in understood.samples.items()}
        fitting = [group for group, why in lacking.items() if why is None]
        if not fitting:
            why = next(iter(lacking.values()))
            if metric != ALL:
                raise UserError(f"{path}: is {understood.form!r}, and {metric} {why}")
            if any(isinstance(sample, candidate.samples) for sample in understood.samples.values()):
                skipped[candidate.name] = str(why)
            continue
        if metric == ALL and candidate.name in SLOW and (n := max(map(size, understood.samples.values()))) > SLOW_ROWS:
            skipped[candidate.name] = f"is slow for {n:,} rows; ask for it by --metric"
            continue
        try:
            with np.errstate(divide="ignore", invalid="ignore"):  # what is undefined has a status
                entries += [
                    Entry(candidate, group, [_honest(x) for x in candidate.lines(understood.samples[group], seed)])
                    for group in fitting
                ]
        except ValueError as error:  # what metrics say of malformed input that no check here has foreseen
            raise UserError(f"{path}: {candidate.name}: {error}") from error
    return Scored(understood, entries, _comparisons(entries, understood, seed), skipped, seed)


def chosen(name: str) -> Sequence[Metric]:
    """The metrics of a name, or UserError with the nearest known one."""
    if name == ALL:
        return METRICS
    found = [metric for metric in METRICS if metric.name == name]
    if not found:
        raise UserError(f"metric {name!r} is unknown; {nearest(name, [ALL, *(m.name for m in METRICS)])}")
    return found


def _honest(line: Line) -> Line:
    """The line, with it said where a number has no interval."""
    score = line.score
    if score.status == "ok" and not score.ci_method and not score.p_method:
        few = score.n_clusters < MIN_BOOTSTRAP_CLUSTERS
        why = f"{score.n_clusters} clusters" if few else "none is made for it"
        return replace(line, score=replace(score, ci_method=f"none: {why}"))
    return line


def _comparisons(entries: Sequence[Entry], understood: Understood, seed: int) -> dict[Key, PairedDifference]:
    """Each metric of each two kinds, and of each two runs, on the items that both have: one table, one family."""
    found: dict[Key, PairedDifference] = {}
    for name in dict.fromkeys(entry.metric.name for entry in entries):
        of_metric = [entry for entry in entries if entry.metric.name == name]
        compare = of_metric[0].metric.compare
        if compare is None:
            continue
        kinds = {entry.group: understood.samples[entry.group] for entry in of_metric}
        for rivals in understood.rivals or [list(kinds)]:
            for one, two in combinations([group for group in rivals if group in kinds], 2):
                if _are_rivals(one, two):
                    found[name, one, two] = _difference(compare(kinds[one]), compare(kinds[two]), seed)
    return paired_family(found) if found else {}


def _are_rivals(one: str, two: str) -> bool:
    """A layer is compared with what the model says by the same method, and with no other layer."""
    inner = [group for group in (one, two) if group.startswith("lens/")]
    said = {group.replace("exact/", "lens/", 1) for group in (one, two)}.difference(inner)
    return not inner or any(layer.startswith(f"{other}/") for layer in inner for other in said)


def _difference(one: Compared, two: Compared, seed: int) -> PairedDifference:
    _, first, second = np.intersect1d(one.keys.astype(str), two.keys.astype(str), return_indices=True)
    return paired_difference_moments(
        one.moments[first], two.moments[second], one.statistic, one.clusters[first], seed=seed
    )
