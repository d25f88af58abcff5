"""Accept or reject an answer by a threshold on a score (METRICS C6; b-score section 5.4).

A record is a mapping with the keys category, answer, truth, k, single, multi, conf and b. It counts as often as its
`weight` says, once without one: where every option is a record, its probability of being the answer.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..contract import NAN, RESAMPLING, TIE, Floats, Resampling, Score, one_of
from ..inference.auroc import Auroc, auroc
from ..inference.clusters import cluster_codes
from ..inference.intervals import moment_interval
from .answers import normal_form

PRIMARY = ("single", "multi", "conf")
RULES = (*PRIMARY, "b", *(f"{name}+b" for name in PRIMARY))
"""Accept when the named score is high enough; `b`: low enough; `x+b`: both."""
DEFAULT_GRID = np.arange(21) / 20

Bools = NDArray[np.bool_]


class Verification(Score, headline="macro"):
    """METRICS C6: shares of correct decisions."""

    macro: float
    """Unweighted mean over the categories."""
    micro: float
    """Mean over the records, as often as each counts."""
    easy: float
    hard: float
    random: float
    categories: Mapping[str, float]
    """Every category that occurs, by name; the three above are NaN if they do not."""


def verification_accuracy(
    records: Iterable[Mapping[str, Any]], rule: str, tau: float, tau_b: float | None = None
) -> Verification:
    """How often accepting by a threshold decides rightly (METRICS C6).

    Args:
        records: see the module. A score that is NaN or absent is rejected.
        rule: one of `RULES`; with `tau_b` a primary rule becomes its cascade.
        tau: threshold of the rule, `b <= tau` for rule `b`, else `score >= tau`.
        tau_b: the second stage of a cascade accepts only `b <= tau_b`.

    The right decision is to accept a true answer; for category `random`, an answer that is not
    over-represented: P_single <= 1/k. A random record without P_single has no right decision and is dropped.

    >>> right = {"category": "easy", "answer": "4", "truth": "4", "b": -0.1}
    >>> wrong = {"category": "hard", "answer": "7", "truth": "6", "b": 0.4}
    >>> verification_accuracy([right, wrong], "b", tau=0.2).macro
    1.0
    """
    rule, needs_b = _parse(rule, tau_b is not None)
    if needs_b and tau_b is None:
        raise ValueError(f"rule {rule}+b: give tau_b, the largest B-score that is accepted")
    table = _Records(records)
    return table.score(table.accept(rule, tau, tau_b))


class ThresholdSearch(Score, headline="macro"):
    """METRICS C6."""

    macro: float = NAN
    """In-sample: the thresholds were tuned on these records."""
    tau: float = NAN
    tau_b: float | None
    """None unless the rule is a cascade."""


def threshold_search(
    records: Iterable[Mapping[str, Any]], rule: str, grid: ArrayLike | None = None, grid_b: ArrayLike | None = None
) -> ThresholdSearch:
    """The thresholds with the best macro accuracy; of equals the smallest tau, then tau_b (METRICS C6).

    Args:
        records: as for `verification_accuracy`.
        rule: one of `RULES`.
        grid: candidates for tau; 0, .05, ... 1 if None.
        grid_b: candidates for tau_b; those of `grid` if None.

    >>> right = {"category": "easy", "answer": "4", "truth": "4", "b": 0.1}
    >>> wrong = {"category": "hard", "answer": "7", "truth": "6", "b": 0.4}
    >>> search = threshold_search([right, wrong], "b")
    >>> search.macro, search.tau
    (1.0, 0.1)
    """
    rule, cascade = _parse(rule, False)
    taus, taus_b = _candidates(cascade, grid, grid_b)
    table = _Records(records)
    candidates, right = table.sweep(rule, taus, taus_b)
    if not table.n:
        return ThresholdSearch(tau_b=None, status="too_few", **table.counts)
    macro = table.macro(right)
    best = _first_best(macro)
    tau, tau_b = candidates[best]
    return ThresholdSearch(macro=float(macro[best]), tau=tau, tau_b=tau_b, **table.counts)


class HeldOutVerification(Score, headline="macro"):
    """METRICS C6, with thresholds that never saw the question."""

    macro: float = NAN
    micro: float = NAN
    tuned: float = NAN
    """What `threshold_search` gives on the same records: the difference is the optimism of tuning."""
    tau: float = NAN
    """The threshold that it finds on them."""
    tau_b: float | None = None
    """The same of the B-score, in a cascade."""
    categories: Mapping[str, float] = field(default_factory=dict)
    """Accuracy in each category, of which `macro` is the mean."""
    tuned_categories: Mapping[str, float] = field(default_factory=dict)
    """The same, of which `tuned` is the mean: as b-score's Table 3 has it."""


def verification_held_out(
    records: Iterable[Mapping[str, Any]],
    rule: str,
    grid: ArrayLike | None = None,
    grid_b: ArrayLike | None = None,
    questions: ArrayLike | None = None,
    *,
    how: Resampling = RESAMPLING,
) -> HeldOutVerification:
    """Accuracy when each question is decided by thresholds tuned on all the others (METRICS C6).

    Args:
        records: as for `threshold_search`, like `rule`, `grid` and `grid_b`.
        questions: one per record; runs of one question stay together. None: every record its own.

    >>> right = {"category": "easy", "answer": "4", "truth": "4", "b": 0.1}
    >>> wrong = {"category": "hard", "answer": "7", "truth": "6", "b": 0.4}
    >>> verification_held_out([right, wrong] * 5, "b").macro
    1.0
    """
    rule, cascade = _parse(rule, False)
    records = list(records)
    labels = np.arange(len(records)) if questions is None else np.asarray(questions)
    cluster_codes(labels, len(records))
    table = _Records(records)
    labels = labels[table.rows]
    candidates, right = table.sweep(rule, *_candidates(cascade, grid, grid_b))
    if not table.n:
        return HeldOutVerification(status="too_few", **table.counts)
    tuned = table.macro(right)
    decided = np.zeros(table.n)
    for question in dict.fromkeys(labels.tolist()):
        out = labels == question
        decided[out] = np.nan if out.all() else right[_first_best(table.macro(right, ~out)), out]
    if np.isnan(decided).any():
        return HeldOutVerification(tuned=float(tuned.max()), status="one_cluster", **table.counts)
    member = np.eye(len(table.names))[table.category] * table.weight[:, None]
    moments = np.column_stack([member * decided[:, None], member])

    def macro(sums: Floats) -> Floats:
        # A resample may lack a category; it is then averaged over the others.
        of_right, of_all = np.split(sums, 2, axis=1)
        return np.nanmean(of_right / np.where(of_all > 0, of_all, np.nan), axis=1)

    accuracy = float(macro(moments.sum(axis=0, keepdims=True))[0])
    best = _first_best(tuned)
    tau, tau_b = candidates[best]
    return HeldOutVerification(
        macro=accuracy,
        micro=float(decided @ table.weight / table.weight.sum()),
        tuned=float(tuned[best]),
        tau=tau,
        tau_b=tau_b,
        categories=table.by_category(decided),
        tuned_categories=table.by_category(right[best]),
        n_clusters=cluster_codes(labels, table.n)[1],
        **table.counts,
        **moment_interval(moments, labels, macro, how=how).within(0.0, 1.0, accuracy).fields(),
    )


class VerificationBaselines(Score, headline="reject_all"):
    """METRICS C6: macro accuracy without any score. The two sum to one."""

    accept_all: float
    reject_all: float
    accept_all_by_category: Mapping[str, float]


def verification_baselines(records: Iterable[Mapping[str, Any]]) -> VerificationBaselines:
    """What accepting, or rejecting, every answer scores (METRICS C6). A rule that is no better is useless.

    >>> right = {"category": "easy", "answer": "4", "truth": "4"}
    >>> wrong = {"category": "easy", "answer": "7", "truth": "6"}
    >>> verification_baselines([right, right, right, wrong]).accept_all
    0.75
    """
    table = _Records(records)
    everything = np.ones(table.n, dtype=bool)
    accepted = table.score(everything)
    return VerificationBaselines(
        accept_all=accepted.macro,
        accept_all_by_category=accepted.categories,
        reject_all=table.score(~everything).macro,
        status="ok" if table.n else "too_few",
        **table.counts,
    )


def verification_auroc(
    records: Iterable[Mapping[str, Any]],
    score: str,
    questions: ArrayLike | None = None,
    *,
    how: Resampling = RESAMPLING,
) -> Auroc:
    """AUROC of one score: `single`, `multi`, `conf`, or `b` with its sign turned (METRICS C6).

    Args:
        records: as for `verification_accuracy`. Those without that score are dropped.
        score: its name.
        questions: one per record, the unit of the interval. None: every record its own.

    NaN if all answers are to be accepted, or none.

    >>> right = {"category": "easy", "answer": "4", "truth": "4", "b": 0.1}
    >>> wrong = {"category": "easy", "answer": "7", "truth": "6", "b": 0.4}
    >>> verification_auroc([right, wrong], "b").auroc
    1.0
    """
    one_of(score, (*PRIMARY, "b"), "score")
    records = list(records)
    labels = np.arange(len(records)) if questions is None else np.asarray(questions)
    cluster_codes(labels, len(records))
    table = _Records(records)
    values = -table.values["b"] if score == "b" else table.values[score]
    area = auroc(values, table.should_accept, labels[table.rows], weights=table.weight, how=how)
    dropped, reasons = table.counts["n_dropped"] + area.n_dropped, dict(table.counts["reasons"]) | dict(area.reasons)
    return replace(area, n_dropped=dropped, reasons=reasons)


class _Records:
    """Columns of the records, with the right decision of each."""

    def __init__(self, records: Iterable[Mapping[str, Any]]) -> None:
        kept, rows, n_all = [], [], 0
        for row, record in enumerate(records):
            n_all += 1
            if "category" not in record:
                raise ValueError(f"records: row {row} has no category")
            if record["category"] == "random":
                if not record.get("k"):
                    raise ValueError(f"records: row {row} is random and has no k, the number of options")
                if np.isnan(_number(record, "single")):
                    continue
            elif normal_form(record.get("truth")) is None:
                raise ValueError(f"records: row {row}, category {record['category']!r}, has no truth")
            kept.append(record)
            rows.append(row)
        self.n = len(kept)
        self.rows = np.array(rows, dtype=np.intp)
        n_dropped = n_all - self.n
        self.counts: dict[str, Any] = {
            "n_rows": self.n,
            "n_dropped": n_dropped,
            "reasons": {"no_label": n_dropped} if n_dropped else {},
        }
        self.weight = np.array([float(record.get("weight", 1.0)) for record in kept])
        """[n] how often each counts."""
        if not np.isfinite(self.weight).all() or (self.weight < 0).any():
            raise ValueError("records: a weight is negative or missing; give a number from 0, or none at all")
        self.values: dict[str, Floats] = {
            name: np.array([_number(record, name) for record in kept]) for name in (*PRIMARY, "b")
        }
        self.names = list(dict.fromkeys(str(record["category"]) for record in kept))
        self.category = np.array([self.names.index(str(r["category"])) for r in kept], dtype=np.intp)
        self.should_accept = np.array([_should_accept(record) for record in kept], dtype=bool)

    def accept(self, rule: str, tau: float, tau_b: float | None) -> Bools:
        """Decisions; a comparison with NaN is a rejection."""
        values = self.values[rule]
        accepted = values <= tau + TIE if rule == "b" else values >= tau - TIE
        return accepted if tau_b is None else accepted & (self.values["b"] <= tau_b + TIE)

    def sweep(
        self, rule: str, taus: Sequence[float], taus_b: Sequence[float | None]
    ) -> tuple[list[tuple[float, float | None]], Bools]:
        """Every candidate in lexicographic order, and [candidates, n] whether it decides rightly."""
        candidates = [(tau, tau_b) for tau in taus for tau_b in taus_b]
        accepted = np.array([self.accept(rule, tau, tau_b) for tau, tau_b in candidates], dtype=bool)
        return candidates, accepted == self.should_accept

    def macro(self, right: Bools, rows: Bools | None = None) -> Floats:
        """Macro accuracy of each candidate over the categories that occur in `rows` (all if None)."""
        rows = np.ones(self.n, dtype=bool) if rows is None else rows
        present = [rows & (self.category == i) for i in range(len(self.names))]
        weights = [(members, total) for members in present if (total := self.weight[members].sum()) > 0]
        return np.mean([right[:, members] @ self.weight[members] / total for members, total in weights], axis=0)

    def score(self, accepted: Bools) -> Verification:
        right = accepted == self.should_accept
        by_category = self.by_category(right)
        return Verification(
            macro=float(np.mean(list(by_category.values()))) if by_category else NAN,
            micro=self._mean(right, np.ones(self.n, dtype=bool)),
            easy=by_category.get("easy", NAN),
            hard=by_category.get("hard", NAN),
            random=by_category.get("random", NAN),
            categories=by_category,
            status="ok" if self.n else "too_few",
            **self.counts,
        )

    def by_category(self, right: Bools | Floats) -> dict[str, float]:
        """Share of right decisions in each category."""
        return {name: self._mean(right, self.category == i) for i, name in enumerate(self.names)}

    def _mean(self, right: Bools | Floats, members: Bools) -> float:
        """The weighted share; NaN where nothing has a weight."""
        total = self.weight[members].sum()
        return float(right[members] @ self.weight[members] / total) if total > 0 else NAN


def _should_accept(record: Mapping[str, Any]) -> bool:
    if record["category"] == "random":
        return _number(record, "single") <= 1 / record["k"] + TIE
    return normal_form(record.get("answer")) == normal_form(record["truth"])


def _number(record: Mapping[str, Any], name: str) -> float:
    value = record.get(name)
    return NAN if value is None else float(value)


def _candidates(
    cascade: bool, grid: ArrayLike | None, grid_b: ArrayLike | None
) -> tuple[Sequence[float], Sequence[float | None]]:
    """Ascending candidates for tau and tau_b; the second is [None] without a cascade."""
    taus = np.unique(DEFAULT_GRID if grid is None else np.asarray(grid, dtype=np.float64)).tolist()
    taus_b: Sequence[float | None] = [None]
    if cascade:
        taus_b = taus if grid_b is None else np.unique(np.asarray(grid_b, dtype=np.float64)).tolist()
    if not taus or not taus_b:
        raise ValueError("grid: empty; give one threshold or more")
    return taus, taus_b


def _first_best(macro: Floats) -> int:
    """The first candidate that no other beats by more than rounding."""
    return int(np.argmax(macro >= macro.max() - TIE))


def _parse(rule: str, cascade: bool) -> tuple[str, bool]:
    """(first stage, is there a second)."""
    one_of(rule, RULES, "rule")
    first, _, second = rule.partition("+")
    if first == "b" and cascade:
        raise ValueError("rule b: it has one threshold, tau; leave tau_b out")
    return first, bool(second) or cascade
