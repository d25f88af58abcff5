"""How numbers are written: as cells of a document (estimate, interval, and whatever qualifies it), as rows of
`scores.json`, and as texts.
"""

import dataclasses
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np

from ...base.text import shown
from ...metrics import ClusterMean, CoherenceClaim, Equivalence, PairedDifference, Score
from ...metrics.number import Number
from .document import Cell, TableBlock, grid

NONE = "–"
OK = "ok"


def score_cell(
    scored: Score | Number, written: Callable[[float], str] = shown, *, below: Sequence[str] = (), struck: bool = False
) -> Cell:
    """The estimate with its interval; grey without one; with its status where that is not `ok`. What is undefined is a
    dash. The cell keeps the score to all digits, that of a number under its name.
    """
    score = scored.score if isinstance(scored, Number) else scored
    exact = as_row(scored) if isinstance(scored, Number) else jsonable(score.as_dict())
    if math.isnan(score.estimate):
        return absent(score.status, exact=exact)
    bare = math.isnan(score.ci_lo)
    interval = _no_interval(score.ci_method) if bare else f"[{written(score.ci_lo)}, {written(score.ci_hi)}]"
    status, lines = qualified(score.status), [interval, *below]
    return Cell(written(score.estimate), lines, struck=struck, grey=bare, status=status, known=True, score=exact)


def _no_interval(how: str) -> str:
    return how.replace("none: ", "no interval: ", 1) if how.startswith("none: ") else how or "no interval"


def absent(status: str, below: Sequence[str] = (), exact: Mapping[str, Any] | None = None) -> Cell:
    """No number, and why."""
    return Cell(NONE, below, status=qualified(status) or "undefined", known=False, score=exact)


def qualified(status: str) -> str:
    """A status that a reader must see; empty if it is `ok`."""
    return "" if status == OK else status


# Numbers as rows: what `scores.json` holds of each, the same for runs and tables.

COMMON = {"estimate", *(field.name for field in dataclasses.fields(Score))}
"""What every score has."""


def as_row(number: Number) -> dict[str, Any]:
    """A number in what JSON has: its name, the fields that every score has, those of its own under `details`, and what
    is to be read beside it. NaN is null; the status says why.
    """
    fields = number.score.as_dict()
    further = {name: value for name, value in fields.items() if name not in COMMON | {number.score.headline}}
    named = {"metric": number.metric, "method": number.method, "subset": number.subset, "kind": number.kind}
    return jsonable(
        (named | {"run": number.run} if number.run else named)
        | {"quantity": number.quantity, "family": number.family, "code": number.code}
        | {name: value for name, value in fields.items() if name in COMMON}
        | {"details": further, "beside": number.beside}
        | {"equivalence": number.equivalence and number.equivalence.as_dict()}
    )


def jsonable(value: Any) -> Any:
    """The same in what JSON has; named tuples, too, as what they name."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    as_named = getattr(value, "_asdict", None)
    value = value if as_named is None else as_named()
    if isinstance(value, Mapping):
        return {str(key): jsonable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [jsonable(inner) for inner in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def aligned(rows: Sequence[Sequence[str]], left: Collection[int] = ()) -> Iterator[str]:
    """Rows of a table, the columns `left` (none: the first and the last) to the left, the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    left = left or (0, len(widths) - 1)
    for row in rows:
        yield "  ".join(
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()


# What is said of numbers.

INTERVAL = "interval by"


def family_size(differences: Sequence[Number]) -> int:
    """Comparisons that have a p."""
    scores = (number.score for number in differences)
    return max((score.family_size for score in scores if isinstance(score, PairedDifference)), default=0)


def scored_table(
    numbers: Sequence[Number],
    notes: Callable[[Number], Sequence[str]],
    named: Callable[[Number], str] = lambda number: number.quantity or number.metric,
    **block: Any,
) -> TableBlock:
    """Numbers by name, or quantity, with `notes` below; of differences p is Holm's. `block`: the rest of the block."""
    paired = bool(numbers) and all(isinstance(number.score, PairedDifference) for number in numbers)
    head = ("difference", "adjusted p") if paired else ("estimate", "p")
    rows = [[Cell(named(number), notes(number)), score_cell(number), *_counts(number.score)] for number in numbers]
    return grid(block.pop("title", ""), ("", *head, "n", "clusters", "dropped"), rows, **block)


def _counts(score: Score) -> tuple[str, ...]:
    """p, n, clusters, dropped with reasons."""
    reasons = ", ".join(f"{n} {why}" for why, n in score.reasons.items())
    dropped = f"{score.n_dropped}" + (f" ({reasons})" if reasons else "")
    p = "" if math.isnan(score.p) else f"{score.p:.3g}"
    p = adjusted_p(score) if isinstance(score, PairedDifference) else p
    return p, str(score.n_rows), str(score.n_clusters), dropped


def adjusted_over(n: int, by: str = "Holm") -> str:
    """What was done to the p of so many tests."""
    if n < 2:
        return "one test, whose adjusted p is its p" if n else "none can be tested"
    return f"p adjusted by {by} over {n} tests"


def adjusted_p(score: PairedDifference) -> str:
    """p after Holm; where no resample reaches zero it is the most that it can be."""
    if math.isnan(score.p_adjusted):
        return ""
    return f"{'<= ' * score.p_at_floor}{score.p_adjusted:.3g}"


def beside(number: Number) -> Mapping[str, str]:
    """What is to be read with the number: how it was made, and what the metric adds."""
    notes, how = {}, number.score.ci_method
    if how:
        notes["no interval:" if how.startswith("none") else INTERVAL] = how.removeprefix("none: ")
    if number.score.p_method and number.score.p_method != how and not math.isnan(number.score.p):
        notes["p by"] = number.score.p_method
    if number.equivalence is not None:
        notes |= _claim(number.equivalence)
    score = number.score
    if weighs_clusters(score):
        notes["each cluster once"] = f"{shown(score.equal_weight_mean)}, the largest {score.largest_share:.0%}"
    return notes | dict(number.beside)


def _claim(claim: Equivalence | CoherenceClaim) -> Mapping[str, str]:
    """Whether it may be said to be as good as zero, and if not, for want of what."""
    if isinstance(claim, Equivalence):
        verdict = "within" if claim.equivalent else "not shown to be within"
        return {verdict: f"±{claim.params['hi']:g} (TOST p {claim.p:.3g})"}
    margin = f"{claim.params['margin']:g} {claim.params.get('unit', '')}".strip()
    if claim.claimed:
        return {"within": f"{margin}, by {claim.ci_method}"}
    wants = (
        [f"{claim.n_clusters} clusters, and {claim.needed_clusters} are needed"] if "clusters" in claim.failures else []
    )
    if "upper" in claim.failures or "lower" in claim.failures:
        ends = [claim.upper] if math.isinf(claim.lower) else [claim.lower, claim.upper]
        wants.append(f"the interval by which such a claim is judged is {' to '.join(map(shown, ends))}")
    return {"not shown to be within": f"{margin} of 0: {'; '.join(wants)}"}


def weighs_clusters(score: Score) -> TypeGuard[ClusterMean]:
    """Whether it is a mean in which it makes a difference that larger clusters weigh more."""
    if not isinstance(score, ClusterMean) or math.isnan(score.equal_weight_mean):
        return False
    return shown(score.equal_weight_mean) != shown(score.mean)
