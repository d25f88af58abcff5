"""From samples to numbers: every metric that fits a sample, and what samples differ by on the same items."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path

import numpy as np
import pandas as pd

from ...hooks.errors import UserError, nearest
from ...hooks.text import shown
from ...metrics import crossed_mean
from ...metrics.inference.intervals import MIN_BOOTSTRAP_CLUSTERS
from ..tables.rows import with_references
from ..tables.samples import ALL, Sample
from ..tables.understand import Understood, understand
from .families import METRICS, WITHHELD, Compared, Line, Metric, dutch_book, size
from .number import Number, Resampling, numbers_table
from .paired import Comparable, paired_differences, pairs_of
from .progress import progress
from .registered import Registered

EVERY = "all"
SLOW_ROWS = 200_000
"""Above this, `all` leaves out what resamples signs, or solves a program, row by row; by name it runs."""
SLOW = ("martingale-tests", *(book.name for book in dutch_book.METRICS))
OVER_MODELS = "_over_models"
"""What is added to a metric's name in its mean over models."""


@dataclass(frozen=True)
class Scored:
    """Everything that is known of some samples."""

    numbers: Sequence[Number]
    differences: Sequence[Number]
    """Paired, adjusted over all of them (Holm); each score is a `PairedDifference`."""
    skipped: Mapping[str, str]
    """Metric that fits a sample -> why it was not scored."""

    @property
    def all(self) -> list[Number]:
        """Numbers, then differences."""
        return [*self.numbers, *self.differences]

    @property
    def table(self) -> pd.DataFrame:
        """A row for each number and each difference."""
        return numbers_table(self.all)

    def __repr__(self) -> str:
        told = f"{len(self.numbers)} numbers, {len(self.differences)} differences, {len(self.skipped)} not scored"
        return f"{type(self).__name__}({told}; .table)"

    def _repr_html_(self) -> str:
        return f"<p>{self!r}</p>{self.table.to_html(max_rows=20, float_format=shown, index=False)}"


@dataclass(frozen=True)
class Measured:
    """Samples, each scored by itself."""

    numbers: Sequence[Number]
    comparable: Comparable
    """What the numbers are made of that can be compared between samples."""
    skipped: Mapping[str, str]


@dataclass(frozen=True, repr=False)
class ScoredTable(Scored):
    """The same of a table, or of runs, that was read."""

    understood: Understood
    registered: Registered | None = None
    """Of runs of several models, the number that all were made for, if it is over models."""
    fixed: Collection[str] = ()
    """The conditions of the gate that were written down before anything was read."""


def score_table(
    path: Path,
    metric: str = EVERY,
    *,
    cluster: str | None = None,
    replicates: str | None = None,
    names: Mapping[str, str] | None = None,
    references: Mapping[str, str] | None = None,
    seed: int = 0,
) -> ScoredTable:
    """Score a table (arguments as `understand`; `metric` is a name or `all`; `references` as `with_references`).

    Raises UserError as `understand`, `with_references` and `score_understood` do.
    """
    chosen(metric)
    read = understand(path, cluster=cluster, replicates=replicates, names=names)
    read = replace(read, samples=with_references(read.samples, references or {}))
    return score_understood(read, Resampling(seed), metric)


def score_understood(understood: Understood, how: Resampling, metric: str = EVERY) -> ScoredTable:
    """Score what was read. Raises UserError as `score_samples` does, naming the file."""
    try:
        found = score_samples(understood.samples, how, metric, rivals=understood.rivals)
    except UserError as error:
        raise UserError(f"{understood.path}: is {understood.form!r}: {error}") from error
    return ScoredTable(found.numbers, found.differences, found.skipped, understood)


def score_samples(
    samples: Sequence[Sample],
    how: Resampling,
    metric: str = EVERY,
    *,
    until: str = "",
    compared: Collection[str] | None = None,
    rivals: Sequence[Collection[str]] = (),
    over_models: bool = False,
) -> Scored:
    """Score samples by every metric that fits them.

    Args:
        samples: no two of the same type share kind, method, subset and run.
        how: everything is resampled.
        metric: one by its name, or `all`.
        until: of each metric, the last number that is wanted: what it says after it is not computed. Empty: all.
        compared: the numbers whose differences between samples are told; None: all that can be compared.
        rivals: names of samples that are compared with each other; none: all are.
        over_models: whether the runs are of models that are a sample, too; then what can be compared is told over them.

    Raises UserError if the metric is unknown, fits no sample, or says that a sample is malformed.
    """
    found = measured(samples, how, metric, until=until, compared=compared)
    numbers = [*found.numbers, *(_over_models(found.comparable, how) if over_models else ())]
    require_unique(numbers)
    return Scored(numbers, paired_differences(pairs_of(found.comparable, rivals, samples), how), found.skipped)


def measured(
    samples: Sequence[Sample],
    how: Resampling,
    metric: str = EVERY,
    *,
    until: str = "",
    compared: Collection[str] | None = None,
    only_compared: bool = False,
) -> Measured:
    """Score each sample by itself, and keep what numbers are made of, so that they can be compared.

    Arguments and errors as of `score_samples`; with `only_compared` there is nothing but what can be compared.
    """
    jobs, skipped = _jobs(samples, metric)
    numbers: list[Number] = []
    comparable: dict[str, dict[str, tuple[Sample, Compared]]] = {}
    with progress(len(jobs)) as begin:
        for candidate, sample in jobs:
            begin(" of ".join(filter(None, (candidate.name, sample.name))))
            try:
                with np.errstate(divide="ignore", invalid="ignore"):  # what is undefined has a status
                    paired = sample.subset == ALL and sample.keys_known
                    found = candidate.compare(sample) if paired and candidate.compare else None
                    wanted = found is not None and (compared is None or found.metric in compared)
                    if only_compared and not wanted:
                        continue
                    last = found.metric if found and only_compared else until
                    own = [_number(candidate, sample, line) for line in _until(last, candidate.lines(sample, how))]
                    numbers += own
                    if found and wanted and not _withheld(found.metric, own):
                        comparable.setdefault(found.metric, {})[sample.name] = (sample, found)
            except ValueError as error:  # what metrics say of malformed input that no check here has foreseen
                raise UserError(", ".join(filter(None, (candidate.name, sample.name))) + f": {error}") from error
    return Measured(numbers, comparable, skipped)


def _jobs(samples: Sequence[Sample], metric: str) -> tuple[list[tuple[Metric, Sample]], dict[str, str]]:
    """What is to be scored, and why the rest is not."""
    jobs: list[tuple[Metric, Sample]] = []
    skipped: dict[str, str] = {}
    for candidate in chosen(metric):
        lacking = [candidate.lacks(sample) for sample in samples]
        fitting = [sample for sample, why in zip(samples, lacking, strict=True) if why is None]
        if not fitting:
            why = next((why for why in lacking if why), "has no sample")
            if metric != EVERY:
                raise UserError(f"{metric} {why}")
            if any(isinstance(sample, candidate.samples) for sample in samples):
                skipped[candidate.name] = why
            continue
        if metric == EVERY and candidate.name in SLOW and (n := max(map(size, samples))) > SLOW_ROWS:
            skipped[candidate.name] = f"is slow for {n:,} rows; ask for it by --metric"
            continue
        jobs += [(candidate, sample) for sample in fitting]
    return jobs, skipped


def _withheld(metric: str, numbers: Sequence[Number]) -> bool:
    """Whether a number is not given, so that no difference of it is either."""
    return any(number.metric == metric and number.score.status == WITHHELD for number in numbers)


def require_unique(numbers: Sequence[Number]) -> None:
    """Raise UserError if two numbers share metric, method, kind, subset and run: then a name would not name one."""
    twice = [key for key, n in Counter(number.key for number in numbers).items() if n > 1]
    if twice:
        raise UserError(f"two numbers are called {', '.join(filter(None, twice[0]))}; name methods and parts apart")


def chosen(name: str) -> Sequence[Metric]:
    """The metrics of a name, or UserError with the nearest known one."""
    if name == EVERY:
        return METRICS
    found = [metric for metric in METRICS if metric.name == name]
    if not found:
        raise UserError(f"metric {name!r} is unknown; {nearest(name, [EVERY, *(m.name for m in METRICS)])}")
    return found


def _until(last: str, lines: Iterator[Line]) -> Iterator[Line]:
    for line in lines:
        yield line
        if line.metric == last:
            return


def _number(metric: Metric, sample: Sample, line: Line) -> Number:
    """The line with its name, and with it said where it has no interval."""
    score = line.score
    if score.status == "ok" and not score.ci_method and not score.p_method:
        few = score.n_clusters < MIN_BOOTSTRAP_CLUSTERS
        why = f"{score.n_clusters} clusters" if few else "none is made for it"
        score = replace(score, ci_method=f"none: {why}")
    return Number(
        metric=line.metric,
        method=sample.method,
        kind=sample.kind,
        subset=", ".join(filter(None, (sample.subset if sample.subset != ALL else "", line.part))) or ALL,
        run=sample.run,
        score=score,
        quantity=line.quantity,
        beside=line.beside,
        equivalence=line.equivalence,
        worst=line.worst,
        family=metric.name,
        code=metric.code,
    )


def _over_models(comparable: Comparable, how: Resampling) -> Iterator[Number]:
    """Each number by kind and method, as a mean over the runs' models on the items that all have read (METRICS F8)."""
    level = {} if how.level is None else {"level": how.level}
    for metric, by_name in comparable.items():
        together: dict[tuple[str, str], list[Compared]] = {}
        for sample, found in by_name.values():
            together.setdefault((sample.kind, sample.method), []).append(found)
        for (kind, method), own in together.items():
            whole = [one.keys[np.isfinite(one.moments).all(axis=1)].astype(str) for one in own]
            shared = reduce(np.intersect1d, whole)
            rows = [np.flatnonzero(np.isin(one.keys.astype(str), shared)) for one in own]
            if len(own) > 1 and len(shared):
                moments = [one.moments[at] for one, at in zip(own, rows, strict=True)]
                clusters = [one.clusters[at] for one, at in zip(own, rows, strict=True)]
                score = crossed_mean(moments, clusters, [one.statistic for one in own], **level)
                told = f"{metric}, mean over models that are a sample, too"
                yield Number(
                    metric=metric + OVER_MODELS, method=method, kind=kind, score=score, quantity=told, code="F8"
                )
