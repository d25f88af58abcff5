"""From samples to numbers: every metric that fits a sample, and what samples differ by on the same items."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path

import numpy as np
import pandas as pd

from ...base.errors import UserError
from ...base.text import shown
from .. import crossed_mean
from ..claims import Registered
from ..contract import Resampling
from ..forms.recognition import Understood, understand
from ..metric import Compared
from ..number import Number, numbers_table
from ..tables.sample_rows import with_references
from ..tables.samples import Sample
from .differences import Comparable, paired_differences, pairs_of
from .measured import EVERY, chosen, measured

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


@dataclass(frozen=True, repr=False)
class ScoredTable(Scored):
    """The same of a table, or of runs, that was read."""

    understood: Understood
    registered: Registered | None = None
    """Of runs of several models, the number that all were made for, if it is over models."""
    fixed: Collection[str] = ()
    """The conditions of the verdicts that were written down before anything was read."""


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
        found = score_samples(understood.samples, how, metric, rivals=understood.rivals)
    except UserError as error:
        raise UserError(f"{understood.path}: is {understood.form!r}: {error}") from error
    return ScoredTable(found.numbers, found.differences, found.skipped, understood)


def score_samples(
    samples: Iterable[Sample],
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
        samples: no two of the same type share kind, method, subset and run. They are taken one at a time.
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
    return Scored(numbers, paired_differences(pairs_of(found.comparable, rivals, found.samples), how), found.skipped)


def require_unique(numbers: Sequence[Number]) -> None:
    """Raise UserError if two numbers share metric, method, kind, subset and run: then a name would not name one."""
    twice = [key for key, n in Counter(number.key for number in numbers).items() if n > 1]
    if twice:
        raise UserError(f"two numbers are called {', '.join(filter(None, twice[0]))}; name methods and parts apart")


def _over_models(comparable: Comparable, how: Resampling) -> Iterator[Number]:
    """Each number by kind and method, as a mean over the runs' models on the items that all have read (METRICS F8)."""
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
                score = crossed_mean(moments, clusters, [one.statistic for one in own], how=how)
                told = f"{metric}, mean over models that are a sample, too"
                yield Number(
                    metric=metric + OVER_MODELS, method=method, kind=kind, score=score, quantity=told, code="F8"
                )
