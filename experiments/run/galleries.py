"""What every experiment's page has besides its tables: the gallery of what its numbers are made of, and the tables of
the paper that it comes from.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ...metrics import Score
from ...metrics.number import Number
from ..report.findings import Gallery, Instance, Transcript
from .experiment import Transcripts
from .readouts import SAMPLED

MOST = 300
"""Instances on a page; of more, so many are drawn."""


def gallery(
    weights: ArrayLike,
    asked: Callable[[int], Sequence[str]],
    instance: Callable[[int, Mapping[str, Transcript]], Instance],
    transcripts: Transcripts,
    *,
    facets: Sequence[str],
    score: str,
    said: str,
    seed: int,
    most: int = MOST,
) -> Gallery:
    """Every instance, or a sample of them.

    Args:
        weights: [n] of the instances: the heaviest come first, NaN last.
        asked: number of an instance -> the read-outs that show it.
        instance: its number and these read-outs -> what a page shows.
        transcripts: of the run.
        facets: what a reader may choose instances by.
        score: what the score is called.
        said: what the instances are and which come first, for the caption.
        seed: of the sample.
        most: its size.
    """
    heavy = np.asarray(weights, dtype=np.float64)
    drawn = np.sort(np.random.default_rng(seed).permutation(len(heavy))[:most])
    order = [int(i) for i in drawn[np.argsort(-heavy[drawn], kind="stable")]]
    names = {i: asked(i) for i in order}
    found = transcripts({name for own in names.values() for name in own})
    return Gallery(
        caption=f"{len(order)} of {len(heavy)} {said} first.",
        facets=facets,
        score=score,
        instances=[instance(i, {name: found[name] for name in names[i] if name in found}) for i in order],
    )


# The tables of a paper from one run: a row per number, with what it rests on.

INTERVAL = ("ci_lo", "ci_hi", "ci_method")
COUNTED = ("n_rows", "n_dropped", "status")


class PaperNumber(NamedTuple):
    """A number of a paper, and where this run has it."""

    table: int | str
    column: str
    metric: str
    subset: str
    field: str | None = None
    """Of the score; None: its estimate."""
    way: str = ""
    """Whose way of estimating it is, where the table says so."""
    interval: str = ""
    """Field of the score that holds the interval of `field`; empty: only an estimate has one."""
    of_samples: bool = False
    """Whether it is of sampled answers alone: elsewhere nothing was repeated, and there is no number."""


def paper_table(
    numbers: Sequence[Number], layout: Iterable[PaperNumber], *, counted: Sequence[str] = COUNTED
) -> pd.DataFrame:
    """table, column[, way], method, kind, value, ci_lo, ci_hi, ci_method, then what is `counted`; by the layout, then
    by method as the numbers have them. Only an estimate has an interval.
    """
    named: dict[tuple[str, str], list[Number]] = {}
    for number in numbers:
        named.setdefault((number.metric, number.subset), []).append(number)
    rows = [
        {"table": one.table, "column": one.column, **({"way": one.way} if one.way else {})}
        | _row_of(one, number, counted)
        for one in layout
        for number in named.get((one.metric, one.subset), ())
    ]
    return pd.DataFrame(rows)


NOT_REPEATED = "not_repeated"
"""Status of a number about repetitions where there are none."""


def _row_of(one: PaperNumber, number: Number, counted: Sequence[str]) -> dict[str, Any]:
    row = paper_row(number, one.field, counted=counted)
    if one.interval:
        lo, hi = getattr(number.score, one.interval)
        row |= {"ci_lo": lo, "ci_hi": hi, "ci_method": number.score.ci_method}
    if one.of_samples and not number.method.endswith(f" {SAMPLED}"):
        row |= {"value": np.nan, "ci_lo": None, "ci_hi": None, "ci_method": "", "status": NOT_REPEATED}
    return row


def mean_over_runs(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The mean over runs, of data sets that were sampled apart, of each number that all of them have: a row for each
    `table`, `column`, `way`, `method` and `kind`, with how many `runs`, the sum of their rows, and the worst status.

    Its interval joins those of the runs, which are independent: half-widths add in squares. None is made where a run
    has none.
    """
    key = [name for name in ("table", "column", "way", "method", "kind") if all(name in one for one in tables)]
    rows = []
    for place, of_number in pd.concat(tables, ignore_index=True).groupby(key, sort=False, dropna=False):
        if len(of_number) == len(tables):
            value, low, high = (of_number[name].to_numpy(dtype=np.float64) for name in ("value", "ci_lo", "ci_hi"))
            below, above = (float(np.sqrt(np.sum(side**2)) / len(tables)) for side in (value - low, high - value))
            mean, failed = float(value.mean()), of_number.loc[of_number["status"] != "ok", "status"]
            counted = {name: int(of_number[name].sum()) for name in ("n_rows", "n_dropped") if name in of_number}
            rows.append(
                dict(zip(key, place, strict=True))
                | {"value": mean, "ci_lo": mean - below, "ci_hi": mean + above, "ci_method": "runs are independent"}
                | {"runs": len(tables), **counted, "status": failed.iloc[0] if len(failed) else "ok"}
            )
    return pd.DataFrame(rows)


def paper_row(
    number: Number, field: str | None = None, value: float | None = None, *, counted: Sequence[str] = COUNTED
) -> dict[str, Any]:
    """Method, kind, and a number or a field or further `value` of its score, with the interval of an estimate."""
    score: Score = number.score
    whole = value is None and field in (None, score.headline)
    value = getattr(score, field or "estimate") if value is None else value
    interval = {name: getattr(score, name) if whole else ("" if name == "ci_method" else None) for name in INTERVAL}
    return {
        "method": number.method,
        "kind": number.kind,
        "value": value,
        **interval,
        **{name: getattr(score, name) for name in counted},
    }
