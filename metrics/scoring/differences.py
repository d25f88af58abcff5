"""What two samples differ by on the rows that both have, and what makes them differ (METRICS F1, F2)."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np

from .. import (
    INNER_KINDS,
    MARGINS,
    Equivalence,
    PairedDifference,
    adjust,
    paired_family,
    surprises,
    tost,
    unless_missed,
    unseen_opposites,
)
from ..contract import Array, Resampling
from ..inference.clusters import cluster_sums
from ..metric import WORTH_BOUNDS, Compared
from ..number import Number
from ..tables.copies import numbers_of, one_of_copies, unrounded
from ..tables.sample_rows import texts
from ..tables.samples import Sample

TIED = 0.02
"""Two kinds tie in a cluster in which they are apart by no more than this share of the largest distance."""
MOST_TIES = 0.5
"""Share of clusters that tie above which what makes a difference is rare."""
UNSEEN = "rare clusters that point the other way and may not have been sampled"
"""What the interval and p of a difference allow for where most clusters tie."""
ROUNDING, NO_DIGITS = 1e-4, 1e-7
"""Beliefs are the same if they are apart by no larger a share of themselves, and of what they lack to 1 (of which a
float32 has no digits below `NO_DIGITS`): rare answers that differ twofold are not.
"""
SAME = "same_readouts"
"""Status of a difference of two samples whose beliefs are the same in each common row."""
DIFFERENCE = "_difference"
"""What is added to a metric's name in the difference of two samples."""
Comparable = Mapping[str, Mapping[str, tuple[Sample, Compared]]]
"""Number -> name of a sample -> the sample, and what the number is made of in it."""


@dataclass(frozen=True)
class Pair:
    """Two samples, by one number, on the rows that both have."""

    metric: str
    one: Sample
    two: Sample
    first: Compared
    second: Compared
    names: tuple[str, str]
    """What the samples are called, as short as tells them apart."""

    @cached_property
    def rows(self) -> tuple[Array, Array]:
        """Which rows of either have a counterpart, in one order."""
        _, ours, theirs = np.intersect1d(texts(self.first.keys), texts(self.second.keys), return_indices=True)
        return ours, theirs

    @cached_property
    def owners(self) -> Array:
        """[n] number of the cluster of each common row; clusters of the same content are one, under whatever name."""
        (ours, theirs), columns = self.rows, [self.moments[0]]
        clusters = self.first.clusters[ours]
        for sample, compared, rows in ((self.one, self.first, ours), (self.two, self.second, theirs)):
            view = sample.whole
            if view.content is not None and len(view.content) == len(compared.keys):
                return one_of_copies(clusters, view.content[rows])
            numbers = numbers_of(view)
            columns += [numbers[rows]] if len(numbers) == len(compared.keys) else []
        values = np.hstack(columns)
        telling = np.isfinite(self.moments[0]).all(axis=1) & unrounded(values).any(axis=1)
        content = np.empty(len(values), dtype=object)
        content[telling] = [row.tobytes() for row in values[telling]]
        return one_of_copies(clusters, content)

    def difference(self, family_size: int, how: Resampling) -> PairedDifference:
        """The first less the second; clusters of both are resampled together.

        It reckons with what is missing (`missing_rows`), and with what may have been missed where most clusters tie
        (`ties_dominate`). Its interval ends where two numbers within their limits can differ no further. There is
        neither interval nor test where all beliefs are the same (`same_readouts`), and no interval without length.
        """
        ours, theirs = self.rows
        columns, others = (
            tuple(column[rows] for column in compared.columns)
            for compared, rows in ((self.first, ours), (self.second, theirs))
        )

        def of(columns: tuple[Array, ...], others: tuple[Array, ...]) -> PairedDifference:
            return self.first.difference(columns, others, self.owners, family_size, how)

        score = of(columns, others)
        if self._same and math.isfinite(score.difference):
            untested = dict.fromkeys(("ci_lo", "ci_hi", "p", "mde"), math.nan)
            score = replace(score, difference=0.0, **untested, ci_method="", p_method="", p_at_floor=False, status=SAME)
        if score.status == "ok" and self._few_surprises(ours, theirs):
            score = replace(score, status="few_surprises")
        score = self._with_missing(self._with_ties(score, how.level), columns, others, of)
        if score.ci_lo == score.ci_hi and not score.p < 1:
            score = replace(score, ci_lo=math.nan, ci_hi=math.nan, ci_method="")
        (least, most), (other_least, other_most) = self.first.limits, self.second.limits
        ends = {
            "ci_lo": max(score.ci_lo, min(least - other_most, score.difference)),
            "ci_hi": min(score.ci_hi, max(most - other_least, score.difference)),
        }
        copies = len(set(texts(self.first.clusters[ours]))) - len(set(self.owners.tolist()))
        alone = (len(set(texts(compared.keys))) - len(ours) for compared in (self.first, self.second))
        counts = dict(zip(("n_only_first", "n_only_second"), alone, strict=True))
        return replace(score, **counts, **(ends if math.isfinite(score.ci_lo) else {}), n_copies=copies)

    @property
    def _same(self) -> bool:
        """Whether both have the same beliefs in all common rows, but for rounding."""
        read = [
            (numbers[rows], compared.moments[rows])
            for sample, compared, rows in zip((self.one, self.two), (self.first, self.second), self.rows, strict=True)
            if (numbers := numbers_of(sample.whole)).size and len(numbers) == len(compared.keys)
        ]
        if len(read) < 2 or read[0][0].shape != read[1][0].shape:
            return False
        (ours, our_moments), (theirs, their_moments) = read
        pairs = (ours, theirs, 0.0), (1 - ours, 1 - theirs, NO_DIGITS), (our_moments, their_moments, NO_DIGITS)
        return all(np.allclose(first, second, ROUNDING, least, equal_nan=True) for first, second, least in pairs)

    def _with_ties(self, score: PairedDifference, level: float) -> PairedDifference:
        """Where more than half of the clusters tie, no nearer to zero than what the others may have hidden allows."""
        both, _, difference = self.moments
        known = np.isfinite(both).all(axis=1)
        if not np.isfinite(score.p):
            return score
        names, codes = np.unique(self.owners[known], return_inverse=True)
        g, k = len(names), both.shape[1] // 2
        apart = cluster_sums(np.abs(both[known, :k] - both[known, k:]), codes, g).max(axis=1)
        tied = apart <= TIED * apart.max(initial=0)
        if not tied.sum() > MOST_TIES * g:
            return score
        sums = cluster_sums(both[known], codes, g)
        values = g * score.difference - (g - 1) * difference(sums.sum(axis=0) - sums)
        if not np.isfinite(values).all():
            return score
        bound = unseen_opposites(np.where(tied, 0.0, values), self.first.worst, level)
        return replace(
            score,
            p=max(score.p, bound.p),
            ci_lo=min(score.ci_lo, bound.lo),
            ci_hi=max(score.ci_hi, bound.hi),
            ci_method=f"{score.ci_method}, widened for {UNSEEN}",
            p_method=f"{score.p_method}, raised for {UNSEEN}",
            status="ties_dominate" if score.status == "ok" else score.status,
        )

    def _with_missing(
        self,
        score: PairedDifference,
        columns: tuple[Array, ...],
        others: tuple[Array, ...],
        of: Callable[[tuple[Array, ...], tuple[Array, ...]], PairedDifference],
    ) -> PairedDifference:
        """Where one of the two lacks a value in more than 2% of the common rows, the worst and the best that it could
        be: of a mean, the interval spans those of both, and p is the largest. Of any other number only the status says
        it. What both lack, such as what has no outcome, is in no difference.
        """
        values, rivals = columns[0], others[0]
        if not len(values):
            return score
        holes: Array = np.array([np.any([_has_hole(x) for x in side], axis=0) for side in (columns, others)])
        lacking: Array = np.logical_xor(*holes)
        if not lacking.sum() > WORTH_BOUNDS * len(lacking):
            return score
        status = "missing_rows" if score.status in ("ok", "ties_dominate") else score.status
        if self.first.within is None or self.second.within is None or not np.isfinite(score.p):
            return replace(score, status=status)
        lo = min(self.first.within[0], self.second.within[0])
        hi = max(self.first.within[1], self.second.within[1])

        def filled(one_with: float, two_with: float) -> PairedDifference:
            kinds = ((values, holes[0], one_with), (rivals, holes[1], two_with))
            first, second = (
                (np.where(np.logical_and(hole, lacking)[:, None], [1.0, value], moments),)
                for moments, hole, value in kinds
            )
            return of(first, second)

        least, most = filled(lo, hi), filled(hi, lo)
        agree = least.difference * most.difference > 0
        return replace(
            score,
            lowest=least.difference,
            highest=most.difference,
            ci_lo=min(score.ci_lo, least.ci_lo),
            ci_hi=max(score.ci_hi, most.ci_hi),
            ci_method=f"{score.ci_method}; missing rows at their lowest and highest",
            p=max(score.p, least.p, most.p) if agree else 1.0,
            p_method=f"{score.p_method}; missing rows at their lowest and highest",
            p_at_floor=score.p_at_floor and agree,
            status=status,
        )

    def _few_surprises(self, ours: Array, theirs: Array) -> bool:
        """Whether the spread of a difference of losses rests on fewer outcomes than beliefs are sure to see."""
        if self.first.foreseen is None or self.second.foreseen is None:
            return False
        (p, lost), (q, other) = self.first.foreseen, self.second.foreseen
        if p.shape[1] != q.shape[1]:
            return True
        less = lost[ours] - other[theirs]
        owners = self.first.clusters[ours]
        return any(surprises(lights, less, owners).few for lights in (p[ours], q[theirs]))

    @property
    def moments(self) -> tuple[Array, Array, Callable[[Array], Array]]:
        """Moments [n, k] of the common rows, their clusters, and what makes differences [m] of sums [m, k]."""
        ours, theirs = self.rows
        k = self.first.moments.shape[1]
        both = np.hstack([self.first.moments[ours], self.second.moments[theirs]])

        def difference(sums: Array) -> Array:
            with np.errstate(divide="ignore", invalid="ignore"):
                return self.first.statistic(sums[:, :k]) - self.second.statistic(sums[:, k:])

        return both, self.first.clusters[ours], difference

    def influence(self) -> dict[str, float]:
        """Cluster -> by how much the difference falls without it, the largest first; undefined ones are left out."""
        both, clusters, difference = self.moments
        known = np.isfinite(both).all(axis=1)
        names, codes = np.unique(clusters[known].astype(str), return_inverse=True)
        if len(names) < 2:
            return {}
        sums = cluster_sums(both[known], codes, len(names))
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = difference(sums.sum(axis=0)[None]) - difference(sums.sum(axis=0) - sums)
        order = np.argsort(-np.abs(np.where(np.isfinite(moved), moved, 0.0)), kind="stable")
        return {str(names[i]): float(moved[i]) for i in order if math.isfinite(moved[i])}


def _has_hole(column: Array) -> Array:
    """[n] whether a row of numbers [n, ...] lacks one; none of other columns does."""
    if column.dtype.kind != "f":
        return np.zeros(len(column), dtype=bool)
    return np.asarray(~np.isfinite(column.reshape(len(column), -1)).all(axis=1))


def pairs_of(comparable: Comparable, rivals: Sequence[Collection[str]], samples: Sequence[Sample]) -> list[Pair]:
    """Every two samples that are rivals, by each number that both have.

    Args:
        rivals: names of samples that are compared with each other; none: all are.
        samples: all that there are, by which their names are shortened.
    """
    label = _labels(samples)
    pairs: dict[tuple[str, str, str], Pair] = {}
    for metric, by_name in comparable.items():
        for names in rivals or [list(by_name)]:
            for name_1, name_2 in combinations([name for name in names if name in by_name], 2):
                (first, compared), (second, other) = by_name[name_1], by_name[name_2]
                if _are_rivals(first, second):
                    pairs[metric, name_1, name_2] = Pair(
                        metric, first, second, compared, other, (label[name_1], label[name_2])
                    )
    return list(pairs.values())


def paired_differences(
    pairs: Sequence[Pair], how: Resampling, *, margins: Mapping[str, float] | None = None, method: str = "holm"
) -> list[Number]:
    """What each pair differs by: one table, one family, adjusted by `holm`, or by `bh` to explore (METRICS F2).

    Beside a number stands what it could have found; and, where its metric has a margin (of `margins`, or a default),
    two one-sided tests that the two are the same within it, adjusted over the family as well.
    """
    scores = (
        paired_family({i: pair.difference(len(pairs), how) for i, pair in enumerate(pairs)}, method) if pairs else {}
    )
    known = {pair.metric: MARGINS[pair.first.margin] for pair in pairs if pair.first.margin} | dict(margins or {})
    tests = [
        _same(score, known.get(pair.metric), pair.first.worst)
        for pair, score in zip(pairs, scores.values(), strict=True)
    ]
    adjusted = adjust([math.nan if test is None else test.p for test in tests]).p_adjusted
    return [
        Number(
            metric=pair.metric + DIFFERENCE,
            method=" - ".join(pair.names),
            kind="",
            score=score,
            quantity=f"{pair.metric}: {' - '.join(pair.names)}",
            family="differences",
            code="F2",
            beside=dict(_beside(score)),
            equivalence=test and replace(test, p=float(p), equivalent=bool(p < test.params["alpha"])),
        )
        for pair, score, test, p in zip(pairs, scores.values(), tests, adjusted, strict=True)
    ]


def _same(score: PairedDifference, margin: float | None, worst: float) -> Equivalence | None:
    """Whether the two are the same within a margin, where there is a test that holds.

    p is no smaller than the chance that so many clusters hold so few of those in which one kind is incoherent.
    """
    if margin is None or score.status not in ("ok", "ties_dominate") or not score.se > 0 or score.n_clusters < 2:
        return None
    df = score.df if np.isfinite(score.df) else score.n_clusters - 1
    test = tost(score.difference, score.se, df, -margin, margin)
    return unless_missed(test, np.fmin(score.n_clusters, score.effective_clusters), worst)


def _beside(score: PairedDifference) -> Iterator[tuple[str, str]]:
    if math.isfinite(score.mde):
        yield "minimum detectable effect (80% power)", f"{score.mde:.3g}"
    if score.n_only_first or score.n_only_second:
        yield "rows without a counterpart, of the first, of the second", f"{score.n_only_first}, {score.n_only_second}"
    if score.n_copies:
        yield "clusters that are copies of others, and counted once", str(score.n_copies)
    if math.isfinite(score.lowest):
        yield "had what is missing been lowest, or highest", f"{score.lowest:.3f}, {score.highest:.3f}"


def _labels(samples: Sequence[Sample]) -> dict[str, str]:
    """Name -> a shorter one, where the method alone tells samples apart."""
    kinds = {(sample.method, sample.kind) for sample in samples}
    alone = {method for method, n in Counter(method for method, _ in kinds).items() if n == 1 and method}
    return {
        sample.name: ", ".join(filter(None, (sample.method, sample.run))) if sample.method in alone else sample.name
        for sample in samples
    }


def _are_rivals(first: Sample, second: Sample) -> bool:
    """What is read inside meets the exact belief of its method and what is stated or acted on, nothing else inside."""
    inner = [sample for sample in (first, second) if sample.kind in INNER_KINDS]
    if not inner:
        return True
    outer = [sample for sample in (first, second) if sample.kind not in INNER_KINDS]
    if not outer:
        return False
    (read,), (heard,) = inner, outer
    return heard.kind in ("verbal", "acted") or (heard.kind == "exact" and read.method.startswith(f"{heard.method}/"))
