"""The tables of the paper (b-score, Tables 2 to 4 and T3 to T6) from one run: a row per number."""

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from ...metrics.bscore import HeldOutVerification
from ..materials.choices.choice import EASY, HARD, RANDOM, SUBJECTIVE
from ..scoring.number import Number
from ..tables.samples import ALL

OF_PAPER = (SUBJECTIVE, RANDOM, EASY, HARD)
WITH_TRUTH = (EASY, HARD)
OF_BBQ = {
    "top_b": "B, likelier option",
    "top_single": "single-turn probability, likelier option",
    "top_multi": "multi-turn probability, likelier option",
    "confidence": "confidence, both options",
}
"""Metric -> row of Table T3; of two options, the other has the rest to one, and the opposite B."""


def published(numbers: Sequence[Number]) -> pd.DataFrame:
    """table, column, method, kind, value, ci_lo, ci_hi, ci_method, n_rows, n_dropped, status; by table, then method.

    Of answers that are counted as in the paper (`<method> sampled`) and of exact ones. Table 2 has B of the likeliest
    option, of easy and hard questions where it is wrong; 3 and 4 the accuracy of accepting, whose thresholds were tuned
    on the other questions, and `tuned`, on the same ones, as the paper's; T3 and T4 are those of BBQ, which is category
    random here; T5 is Table 2 after k turns; T6 the accuracy afresh and in conversation.
    """
    rows = [row for number in numbers for row in _rows(number, numbers)]
    table = pd.DataFrame(rows)
    return table if table.empty else table.sort_values(["table", "method"], kind="stable", ignore_index=True)


def _rows(number: Number, numbers: Sequence[Number]) -> Iterator[dict[str, Any]]:
    part, _, cut = number.subset.partition(", ")
    if number.metric in ("top_b", "top_b_wrong"):
        wanted = "top_b_wrong" if part in WITH_TRUTH else "top_b"
        if number.metric != wanted or (part not in OF_PAPER and number.subset != ALL):
            return
        if not cut:
            yield _row("2", part, number)
            if part == RANDOM:
                yield _row("T3", OF_BBQ["top_b"], number)
        elif cut.startswith("k = "):
            yield _row("T5", f"{part}, {cut}", number)
    elif number.metric in OF_BBQ and number.subset == RANDOM:
        yield _row("T3", OF_BBQ[number.metric], number)
    elif number.metric == "accept_accuracy":
        table = _verified(number, numbers)
        yield _row(table, number.subset, number)
        if isinstance(number.score, HeldOutVerification):
            for name, share in number.score.categories.items():
                yield _row(table, f"{number.subset}, {name}", number, share)
            yield _row(table, f"{number.subset}, tuned", number, number.score.tuned)
            for name, share in number.score.tuned_categories.items():
                yield _row(table, f"{number.subset}, {name}, tuned", number, share)
    elif number.metric in ("accuracy_single", "accuracy_multi") and number.subset in {ALL, *_categories(numbers)}:
        arm = "single-turn" if number.metric == "accuracy_single" else "multi-turn"
        yield _row("T6", f"{part}, {arm}", number)


def _verified(number: Number, numbers: Sequence[Number]) -> str:
    """Which table has these answers: 3 those of the paper's questions, 4 those of benchmarks, T4 those of BBQ alone."""
    found = _categories(numbers)
    return "T4" if found == {RANDOM} else "3" if found & {*WITH_TRUTH} else "4"


def _categories(numbers: Sequence[Number]) -> set[str]:
    """Those whose answers can be verified."""
    return {one.subset for one in numbers if one.metric == "reject_all"}


def _row(table: str, column: str, number: Number, value: float | None = None) -> dict[str, Any]:
    score = number.score
    return {
        "table": table,
        "column": column,
        "method": number.method,
        "kind": number.kind,
        "value": score.estimate if value is None else value,
        "ci_lo": score.ci_lo if value is None else None,
        "ci_hi": score.ci_hi if value is None else None,
        "ci_method": score.ci_method if value is None else "",
        "n_rows": score.n_rows,
        "n_dropped": score.n_dropped,
        "status": score.status,
    }
