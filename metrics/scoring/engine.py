"""From samples to numbers: every metric that fits a sample, and what samples differ by on the same items."""

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...base.errors import UserError, nearest
from ...base.progress import stand
from ...base.text import shown
from .. import crossed_mean
from ..coherence import GUARDS
from ..contract import Resampling
from ..forms.recognition import Understood, understand
from ..inference.intervals import MIN_BOOTSTRAP_CLUSTERS
from ..metric import WITHHELD, Compared, Line, Metric, registered, size
from ..number import Number, numbers_table
from ..registration import Registered
from ..tables.sample_rows import with_references
from ..tables.samples import ALL, Sample, bare
from .differences import Comparable, paired_differences, pairs_of

PATIENCE = 5.0
"""Seconds that nothing is said."""
PAUSE = 15.0
"""Between two lines after that."""


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Hands out `begin(what)`, to be called before each step; a step may take long itself."""
    began, done, now, over = time.monotonic(), -1, "", threading.Event()

    def begin(what: str) -> None:
        nonlocal done, now
        done, now = done + 1, what

    def tell() -> None:
        wait = PATIENCE
        while not over.wait(wait):
            wait = PAUSE
            seconds = time.monotonic() - began
            stand(f"scoring: {max(done, 0)} done after {seconds:.0f} s, now {now}")

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield begin
    finally:
        over.set()
        teller.join()


# Samples, each scored by itself by every metric that fits it, one sample after the other.

EVERY = "all"
GUARDING = ("consistency-kappa",)
"""Metrics of guards (`GUARDS`) that nothing is compared by: verdicts of a comparison need them, too."""
SLOW_ROWS = 200_000
"""Above this, `all` leaves out what is slow; by name it runs."""


@dataclass(frozen=True)
class MeasuredSamples:
    """What samples were scored, and how."""

    samples: Sequence[Sample]
    """Their names alone."""
    numbers: Sequence[Number]
    comparable: Comparable
    """What the numbers are made of that can be compared between samples."""
    skipped: Mapping[str, str]
    """Metric that fits a sample -> why it was not scored."""
    too_slow: Collection[str] = ()
    """Of these, what is left out for the time that it takes."""


def measured(
    samples: Iterable[Sample],
    how: Resampling,
    metric: str = EVERY,
    *,
    until: str = "",
    compared: Collection[str] | None = None,
    only_compared: bool = False,
) -> MeasuredSamples:
    """Score each sample by itself, and keep what numbers are made of, so that they can be compared.

    Samples are taken one at a time, and of those that are made on the way only what can be compared is kept, besides
    their names: they need the memory of one.

    Arguments and errors as of `score_samples`; with `only_compared` there is nothing but what can be compared.
    """
    kept = (lambda sample: sample) if isinstance(samples, Collection) else bare
    by_metric = [_ByMetric(candidate, kept) for candidate in chosen(metric)]
    names = []
    with progress() as begin:
        for sample in samples:
            names.append(bare(sample))
            for entry in by_metric:
                if entry.takes(sample, alone=metric != EVERY):
                    begin(" of ".join(filter(None, (entry.metric.name, sample.name))))
                    entry.score(sample, how, until, compared, only_compared)
    scored = [entry for entry in by_metric if entry.fits and not entry.slow]
    if metric != EVERY and not scored:
        raise UserError(f"{metric} {by_metric[0].lacking or 'has no sample'}")
    comparable: dict[str, dict[str, tuple[Sample, Compared]]] = {}
    for entry in scored:
        for name, by_sample in entry.comparable.items():
            comparable.setdefault(name, {}).update(by_sample)
    skipped = {entry.metric.name: entry.slow or entry.lacking for entry in by_metric if entry not in scored}
    return MeasuredSamples(
        names,
        [number for entry in scored for number in entry.numbers],
        comparable,
        {name: why for name, why in skipped.items() if why},
        [entry.metric.name for entry in by_metric if entry.slow],
    )


def chosen(name: str) -> Sequence[Metric]:
    """The metrics of a name, or UserError with the nearest known one."""
    known = {metric.name: metric for metric in registered()}
    if name == EVERY:
        return list(known.values())
    if name not in known:
        raise UserError(f"metric {name!r} is unknown; {nearest(name, [EVERY, *known])}")
    return [known[name]]


@dataclass(eq=False)
class _ByMetric:
    """One metric, and what it has made of the samples so far."""

    metric: Metric
    kept: Callable[[Sample], Sample]
    """What is kept of a sample beside what it is compared by."""
    numbers: list[Number] = field(default_factory=list)
    comparable: dict[str, dict[str, tuple[Sample, Compared]]] = field(default_factory=dict)
    fits: bool = False
    lacking: str = ""
    """Why a sample cannot be scored, the first of those that could be."""
    slow: str = ""

    def takes(self, sample: Sample, alone: bool) -> bool:
        """Whether the sample is to be scored; else why not is kept."""
        why = self.metric.lacks(sample)
        if why is not None:
            of_its_type = isinstance(sample, self.metric.samples)
            self.lacking = self.lacking or (why if alone or of_its_type else "")
            return False
        self.fits = True
        if not alone and self.metric.slow and (n := size(sample)) > SLOW_ROWS:
            self.slow = f"is slow for {n:,} rows; ask for it by --metric"
        return not self.slow

    def score(
        self, sample: Sample, how: Resampling, until: str, compared: Collection[str] | None, only_compared: bool
    ) -> None:
        """Raises UserError for a sample that is malformed."""
        try:
            with np.errstate(divide="ignore", invalid="ignore"):  # what is undefined has a status
                paired = sample.subset == ALL and sample.keys_known
                comparables = self.metric.comparables(sample) if paired else []
                wanted = [number for number in comparables if compared is None or number.metric in compared]
                guards = self.metric.name in GUARDING and sample.subset == ALL
                if only_compared and not (wanted or guards):
                    return
                last = {number.metric for number in wanted} if only_compared else {until}
                last |= {GUARDS[name].metric for name in last if name in GUARDS}
                numbers = [_number(self.metric, sample, line) for line in _until(last, self.metric.lines(sample, how))]
        except ValueError as error:  # what metrics say of malformed input that no check here has foreseen
            raise UserError(", ".join(filter(None, (self.metric.name, sample.name))) + f": {error}") from error
        self.numbers += numbers
        for number in wanted:
            if not _withheld(number.metric, numbers):
                self.comparable.setdefault(number.metric, {})[sample.name] = (self.kept(sample), number)


def _withheld(metric: str, numbers: Sequence[Number]) -> bool:
    """Whether a number is not given, so that no difference of it is either."""
    return any(number.metric == metric and number.score.status == WITHHELD for number in numbers)


def _until(last: Set[str], lines: Iterator[Line]) -> Iterator[Line]:
    seen = set[str]()
    for line in lines:
        yield line
        seen.add(line.metric)
        if last <= seen:
            return


UNDEFINED = re.compile(r"[+-]?\bnan\b")


def _number(metric: Metric, sample: Sample, line: Line) -> Number:
    """The line with its name, and with it said where it has no interval."""
    score = line.score
    if score.status == "ok" and not score.ci_method and not score.p_method:
        few = score.n_clusters < MIN_BOOTSTRAP_CLUSTERS
        why = f"{score.n_clusters} clusters" if few else "not defined"
        score = replace(score, ci_method=f"none: {why}")
    beside = {name: UNDEFINED.sub("–", text) for name, text in line.beside.items()}
    subset = ", ".join(filter(None, (sample.subset if sample.subset != ALL else "", line.part))) or ALL
    fields: dict[str, Any] = {**vars(line), "score": score, "beside": beside}
    named = {"method": sample.method, "kind": sample.kind, "subset": subset, "run": sample.run}
    return Number(**fields, **named, family=metric.name, code=metric.code)


# Samples, from anywhere, scored and compared.

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
    too_slow: Collection[str] = field(default=(), kw_only=True)
    """Of these, what is left out for the time that it takes."""

    @property
    def all(self) -> list[Number]:
        """Numbers, then differences."""
        return [*self.numbers, *self.differences]

    @property
    def table(self) -> pd.DataFrame:
        """A row for each number and each difference."""
        return numbers_table(self.all)

    def __repr__(self) -> str:
        text = f"{len(self.numbers)} numbers, {len(self.differences)} differences, {len(self.skipped)} not scored"
        return f"{type(self).__name__}({text}; .table)"

    def _repr_html_(self) -> str:
        return f"<p>{self!r}</p>{self.table.to_html(max_rows=20, float_format=shown, index=False)}"


@dataclass(frozen=True, repr=False)
class ScoredTable(Scored):
    """The same of a table, or of runs, that was read."""

    understood: Understood
    registered: Registered | None = None
    """Of runs of several models, the number that all were made for, if it is over models."""
    fixed: Collection[str] = ()
    """The conditions of the verdicts that were written down before anything was read."""
    terms: Sequence[tuple[str, str]] = ()
    """Of runs, (name, what it means) of their methods and kinds."""


def score_table(
    path: Path,
    metric: str = EVERY,
    *,
    cluster: str | None = None,
    replicates: str | None = None,
    names: Mapping[str, str] | None = None,
    references: Mapping[str, str] | None = None,
    by: Sequence[str] = (),
    seed: int = 0,
) -> ScoredTable:
    """Score a table (arguments as `understand`; `metric` is a name or `all`; `references` as `with_references`).

    Raises UserError as `understand`, `with_references` and `score_understood` do.
    """
    chosen(metric)
    read = understand(path, cluster=cluster, replicates=replicates, names=names, by=by)
    read = replace(read, samples=with_references(read.samples, references or {}))
    return score_understood(read, Resampling(seed), metric)


def score_understood(understood: Understood, how: Resampling, metric: str = EVERY) -> ScoredTable:
    """Score what was read. Raises UserError as `score_samples` does, naming the file."""
    try:
        scored = score_samples(understood.samples, how, metric, rivals=understood.rivals)
    except UserError as error:
        raise UserError(f"{understood.path}: is {understood.form!r}: {error}") from error
    return ScoredTable(scored.numbers, scored.differences, scored.skipped, understood)


def score_samples(
    samples: Iterable[Sample],
    how: Resampling,
    metric: str = EVERY,
    *,
    until: str = "",
    compared: Collection[str] | None = None,
    rivals: Sequence[Collection[str]] = (),
    over_models: bool = False,
    margins: Mapping[str, float] | None = None,
) -> Scored:
    """Score samples by every metric that fits them.

    Args:
        samples: no two of the same type share kind, method, subset and run. They are taken one at a time.
        metric: one by its name, or `all`.
        until: of each metric, the last number that is wanted: what it says after it is not computed. Empty: all.
        compared: the numbers whose differences between samples are told; None: all that can be compared.
        rivals: names of samples that are compared with each other; none: all are.
        margins: number -> the margin within which two are the same, where it is not the default one.
        over_models: whether the runs are of models that are a sample, too; then what can be compared is told over them.

    Raises UserError if the metric is unknown, fits no sample, or says that a sample is malformed.
    """
    scored = measured(samples, how, metric, until=until, compared=compared)
    numbers = [*scored.numbers, *(_over_models(scored.comparable, how) if over_models else ())]
    require_unique(numbers)
    pairs = pairs_of(scored.comparable, rivals, scored.samples)
    differences = paired_differences(pairs, how, margins=margins)
    return Scored(numbers, differences, scored.skipped, too_slow=scored.too_slow)


def require_unique(numbers: Sequence[Number]) -> None:
    """Raise UserError if two numbers share metric, method, kind, subset and run: then a name would not name one."""
    twice = [key for key, n in Counter(number.key for number in numbers).items() if n > 1]
    if twice:
        raise UserError(f"two numbers are called {', '.join(filter(None, twice[0]))}; name methods and parts apart")


def _over_models(comparable: Comparable, how: Resampling) -> Iterator[Number]:
    """Each number by kind and method, as a mean over the runs' models on the items that all have read (METRICS F8)."""
    for metric, by_name in comparable.items():
        together: dict[tuple[str, str], list[Compared]] = {}
        for sample, compared in by_name.values():
            together.setdefault((sample.kind, sample.method), []).append(compared)
        for (kind, method), models in together.items():
            whole = [model.keys[np.isfinite(model.moments).all(axis=1)].astype(str) for model in models]
            shared = reduce(np.intersect1d, whole)
            rows = [np.flatnonzero(np.isin(model.keys.astype(str), shared)) for model in models]
            if len(models) > 1 and len(shared):
                moments = [model.moments[at] for model, at in zip(models, rows, strict=True)]
                clusters = [model.clusters[at] for model, at in zip(models, rows, strict=True)]
                score = crossed_mean(moments, clusters, [model.statistic for model in models], how=how)
                quantity = f"{metric}, mean over models that are a sample, too"
                yield Number(
                    metric=metric + OVER_MODELS, method=method, kind=kind, score=score, quantity=quantity, code="F8"
                )
