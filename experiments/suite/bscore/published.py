"""The tables of the paper (b-score, Tables 2 to 4 and T3 to T6, Figure 3) from one run: a row per number."""

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from ....metrics.bscore import HeldOutVerification
from ....metrics.number import Number
from ....metrics.tables.samples import ALL
from ...materials.choices.sources import EASY, HARD, RANDOM, SUBJECTIVE
from ...run.galleries import paper_row
from .samples import BBQ

OF_PAPER = (SUBJECTIVE, RANDOM, EASY, HARD)
WITH_TRUTH = (EASY, HARD)
OF_LISTS = {"tv_list": "distance of a list from it", "list_length": "numbers of a list"}
OF_BBQ = {
    "top_b": "B, likelier option",
    "top_single": "single-turn probability, likelier option",
    "top_multi": "multi-turn probability, likelier option",
    "confidence": "confidence, both options",
}
"""Metric -> row of Table T3; of two options, the other has the rest to one, and the opposite B."""


def published(numbers: Sequence[Number]) -> pd.DataFrame:
    """table, column, method, kind, value, ci_lo, ci_hi, ci_method, n_rows, n_dropped, status; by table, then method.

    Of answers that are counted as in the paper (`<method> written`; `<method> sampled`: drawn from the exact
    distributions) and of exact ones. Table 2 has B of the likeliest option, of easy and hard questions where it is
    wrong, and the mean, which takes a category that is never wrong for 0; 3 and 4 the accuracy of accepting, whose
    thresholds were tuned on the other questions, and `tuned`, on the same ones, as the paper's, with its `threshold`
    and the `change` that the B-score adds; T3 and T4 are those of BBQ; T5 is Table 2 after k turns; T6 the accuracy
    afresh and in conversation; F3 is Figure 3, by number of options, and F2 the lists of numbers (C.4).
    """
    rows = [row for number in numbers for row in (*_rows(number, numbers), *_parts_of_it(number))]
    table = pd.DataFrame(rows)
    return table if table.empty else table.sort_values(["table", "method"], kind="stable", ignore_index=True)


def _rows(number: Number, numbers: Sequence[Number]) -> Iterator[dict[str, Any]]:
    part, _, cut = number.subset.partition(", ")
    if number.metric in ("top_b", "top_b_wrong"):
        wanted = "top_b_wrong" if part in WITH_TRUTH else "top_b"
        if number.metric != wanted or part not in OF_PAPER:
            return
        if not cut:
            yield _row("2", part, number)
        elif cut.startswith("k = "):
            yield _row("T5", f"{part}, {cut}", number)
    elif number.metric == "accept_accuracy":
        table = _verified(number, numbers)
        yield _row(table, number.subset, number)
        if isinstance(number.score, HeldOutVerification):
            for name, share in number.score.categories.items():
                yield _row(table, f"{number.subset}, {name}", number, share)
            yield _row(table, f"{number.subset}, tuned", number, number.score.tuned)
            yield _row(table, f"{number.subset}, threshold", number, number.score.tau)
            if number.score.tau_b is not None:
                yield _row(table, f"{number.subset}, threshold of b", number, number.score.tau_b)
            for primary in _primaries(number, numbers):
                yield _row(table, f"{number.subset}, change", number, number.score.macro - primary.macro)
                yield _row(table, f"{number.subset}, change, tuned", number, number.score.tuned - primary.tuned)
            for name, share in number.score.tuned_categories.items():
                yield _row(table, f"{number.subset}, {name}, tuned", number, share)
    elif number.metric in ("accuracy_single", "accuracy_multi") and number.subset in {ALL, *_categories(numbers)}:
        arm = "single-turn" if number.metric == "accuracy_single" else "multi-turn"
        yield _row("T6", f"{part}, {arm}", number)


def _parts_of_it(number: Number) -> Iterator[dict[str, Any]]:
    """The mean of Table 2, BBQ alone, random questions by their number of options, and lists."""
    cut = number.subset.partition(", ")[2]
    if number.metric == "top_b_mean":
        yield _row("2", "mean", number)
    elif number.metric in OF_LISTS:
        yield _row("F2", f"{number.subset}, {OF_LISTS[number.metric]}", number)
    elif number.metric in OF_BBQ and number.subset == BBQ:
        yield _row("T3", OF_BBQ[number.metric], number)
    elif number.metric in OF_BBQ and cut.endswith(" options"):
        yield _row("F3", f"{cut}, {OF_BBQ[number.metric].partition(',')[0]}", number)


def _primaries(number: Number, numbers: Sequence[Number]) -> Iterator[HeldOutVerification]:
    """Accepting by the first threshold of a cascade alone, on the same answers; one, if it is a cascade."""
    first, plus, _ = number.subset.partition("+")
    for other in numbers if plus else ():
        same = (other.metric, other.method, other.subset) == (number.metric, number.method, first)
        if same and isinstance(other.score, HeldOutVerification):
            yield other.score


def _verified(number: Number, numbers: Sequence[Number]) -> str:
    """Which table has these answers: 3 those of the paper's questions, 4 those of benchmarks, T4 those of BBQ alone."""
    found = _categories(numbers)
    if found == {RANDOM}:
        return "T4" if any(one.subset == BBQ for one in numbers) else "3"
    return "3" if found & {*WITH_TRUTH} else "4"


def _categories(numbers: Sequence[Number]) -> set[str]:
    """Those whose answers can be verified."""
    return {number.subset for number in numbers if number.metric == "reject_all"}


def _row(table: str, column: str, number: Number, value: float | None = None) -> dict[str, Any]:
    return {"table": table, "column": column, **paper_row(number, value=value)}
