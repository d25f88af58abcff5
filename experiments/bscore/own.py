"""The numbers that only this experiment has."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ...metrics import UNIT, Ratio, Score, cluster_mean, order_effect, ratio_of_sums, settling_turn, turn_slopes
from ...metrics.inference import moment_interval
from ...metrics.validation import Floats
from ..materials.choices.choice import EASY
from ..runs.scores import gate, resampling
from ..scoring.number import Number
from ..tables.samples import ALL
from .config import BScoreConfig
from .distributions import CATEGORY as DISTRIBUTION
from .samples import parts
from .table import GREEDY, NUMBERS, Asked, MethodView, clusters, views


def own_scores(config: BScoreConfig, beliefs: pd.DataFrame) -> Iterator[Number]:
    """Of each method: coverage, what the order of the options does, how far easy questions are above chance, the course
    of B along the turns and where it settles, distance from named distributions, and the confidence that is stated.
    """
    for view in views(config, beliefs):
        make = _Make(view.method, resampling(config).interval)
        for subset, asked in parts(view.asked).items():
            yield make.mean("coverage_single", asked, lambda one: one.coverage.mean(), subset)
            if view.held and (held := [one for one in asked if len(one.multi)]):
                yield make.mean("coverage_multi", held, lambda one: one.coverage_multi.mean(), subset)
            yield from _orders(make, asked, subset)
        yield from _gate(config, make, view)
        if view.held:
            yield from _along(make, view)
        yield from _distances(make, view)
        if view.method == view.base:
            yield from _stated(make, view)


SIGNED = ("above_chance", "top_b_turn")
"""Means that can be below 0; all others are probabilities."""


@dataclass(frozen=True)
class _Make:
    """Makes the numbers of one method."""

    method: str
    interval: Mapping[str, Any]

    def number(self, metric: str, score: Score, subset: str = "", quantity: str = "", kind: str = "exact") -> Number:
        named: dict[str, Any] = {"metric": metric, "method": self.method, "kind": kind, "subset": subset or ALL}
        if not score.ci_method and score.status == "ok":
            score = replace(score, ci_method=f"none: {score.n_clusters} clusters")
        return Number(score=score, quantity=quantity, **named)

    def mean(
        self, metric: str, asked: Sequence[Asked], value: Callable[[Asked], float], subset: str = "", quantity: str = ""
    ) -> Number:
        """Of a value of each question; its interval is over what they share."""
        values = np.array([value(one) for one in asked], dtype=np.float64)
        within = (-1.0, 1.0) if metric in SIGNED else UNIT
        return self.number(
            metric, cluster_mean(values, clusters(asked), within=within, **self.interval), subset, quantity
        )

    def ratio(self, metric: str, asked: Sequence[Asked], sums: Floats, subset: str, quantity: str) -> Number:
        """Of two columns' sums over questions."""
        return self.number(metric, ratio_of_sums(sums, clusters(asked), within=UNIT, **self.interval), subset, quantity)


def _orders(make: _Make, asked: Sequence[Asked], subset: str) -> Iterator[Number]:
    """How far an order moves the distribution, and how much of what tells options apart is the order."""
    several = [one for one in asked if len(one.orders) > 1]
    if not several:
        return
    effects = {one.item: order_effect(one.orders) for one in several}
    told = "mean distance (total variation) of an order's distribution from that over all orders"
    yield make.mean("order_effect", several, lambda one: effects[one.item].moved, subset, told)
    sums = np.array([[effects[one.item].of_order, effects[one.item].of_options] for one in several])
    told = "share of the variance between options, over all orders, that the order makes"
    yield make.ratio("order_share", several, sums, subset, told)


def _gate(config: BScoreConfig, make: _Make, view: MethodView) -> Iterator[Number]:
    """The competence gate: coverage afresh and in conversation, and easy questions (METRICS W4). Beside it, how far
    the probability of the true option is above chance.
    """
    masses = {"afresh": np.concatenate([one.coverage for one in view.asked])}
    if view.held:
        masses["in conversation"] = np.concatenate([one.coverage_multi.ravel() for one in view.held])
    easy = [one for one in view.asked if one.category == EASY and one.truth is not None]
    known: dict[str, Any] = {}
    if easy:
        right = np.array([float(one.balanced.argmax() == one.truth) for one in easy])
        known = {"easy_correct": right, "easy_groups": [one.item for one in easy]}
        known["chance"] = float(np.mean([1 / one.k for one in easy]))
        told = "P(the true option) less 1/k, of easy questions"
        yield make.mean("above_chance", easy, _above_chance, EASY, told)
    yield gate(config, view.method, coverage=masses, **known)


def _above_chance(one: Asked) -> float:
    assert one.truth is not None
    return float(one.balanced[one.truth] - 1 / one.k)


def _along(make: _Make, view: MethodView) -> Iterator[Number]:
    """B of the likeliest option at each turn, the slope of the update at each, and where it settles."""
    for subset, asked in parts(view.held).items():
        for which, name in enumerate(("top_single", "top_multi")):
            told = f"P of the option that is likeliest afresh, {('afresh', 'in conversation')[which]}"
            yield make.mean(name, asked, _top_mean(which), subset, told)
        for turn in range(asked[0].multi.shape[1]):
            value = _top_at(turn)
            yield make.mean("top_b_turn", asked, value, ", ".join(filter(None, (subset, f"turn {turn + 1}"))))
        paths = np.vstack([one.adjusted.transpose(0, 2, 1).reshape(-1, one.adjusted.shape[1]) for one in asked])
        groups = np.repeat(clusters(asked), [one.adjusted.shape[0] * one.k for one in asked])
        for turn, slope in enumerate(turn_slopes(paths, groups, **make.interval), 1):
            told = "slope of the next update on the distribution at the turn; 0 for a martingale"
            yield make.number("M_turn", slope, ", ".join(filter(None, (subset, f"turn {turn}"))), told)
        settled = settling_turn(paths, groups, **make.interval)
        yield make.number("settles", settled, subset, "first turn from which the distribution is a martingale")


def _top_mean(which: int) -> Callable[[Asked], float]:
    return lambda one: float(one.means()[which][one.balanced.argmax()])


def _top_at(turn: int) -> Callable[[Asked], float]:
    return lambda one: float(one.b[:, turn, one.balanced.argmax()].mean())


def _distances(make: _Make, view: MethodView) -> Iterator[Number]:
    """Total variation from the distribution that was asked for, afresh and in conversation."""
    asked = [(one, one.target) for one in view.asked if one.target is not None]
    for one, target in asked:
        fresh = np.abs(one.balanced - target).sum() / 2
        yield make.mean("tv_single", [one], lambda _, value=fresh: value, one.item, "total variation, afresh")
    for one, target in [both for both in asked if len(both[0].multi)]:
        by_run = np.abs(one.multi - target).sum(axis=2) / 2
        for name, values in (
            ("tv_turn", by_run.mean(axis=1)),
            ("tv_multi", np.abs(one.multi.mean(axis=1) - target).sum(axis=1) / 2),
        ):
            told = {"tv_turn": "of a turn, their mean", "tv_multi": "of the mean over a conversation"}[name]
            score = cluster_mean(values, np.arange(len(values)), within=UNIT, **make.interval)
            yield make.number(name, score, one.item, f"total variation, {told}")


def _stated(make: _Make, view: MethodView) -> Iterator[Number]:
    """The confidence of each category, and how it goes with |B|. An answer without a number has none."""
    for way in (NUMBERS, GREEDY):
        every = [one for one in view.held if way in one.confidence and one.category != DISTRIBUTION]
        suffix = "" if way == NUMBERS else f"_{way}"
        for subset, asked in parts(every).items() if every else ():
            means = {one.item: _known_mean(one.confidence[way]) for one in asked}
            mean = make.mean(f"confidence{suffix}", asked, lambda one, of=means: of[one.item], subset)
            yield replace(mean, kind="verbal")
            pairs = [(one.confidence[way], np.abs(one.b.mean(axis=(0, 1)))) for one in asked]
            known = [(conf[ok], b[ok]) for conf, b in pairs for ok in [np.isfinite(conf)]]
            yield replace(_correlation(make, f"confidence_b{suffix}", asked, known, subset), kind="verbal")


def _known_mean(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else np.nan


def _correlation(
    make: _Make, metric: str, asked: Sequence[Asked], pairs: Sequence[tuple[Floats, Floats]], subset: str
) -> Number:
    """Of confidence and |B| over options."""
    rows = np.array(
        [[len(x), x.sum(), y.sum(), (x * x).sum(), (y * y).sum(), (x * y).sum()] for x, y in pairs], dtype=np.float64
    )

    def statistic(sums: Floats) -> Floats:
        n, x, y, xx, yy, xy = sums.T
        with np.errstate(divide="ignore", invalid="ignore"):
            return (xy - x * y / n) / np.sqrt((xx - x * x / n) * (yy - y * y / n))

    groups = clusters(asked)
    estimate, n = float(statistic(rows.sum(axis=0)[None])[0]), len({*groups})
    counts: dict[str, Any] = {"n_rows": int(rows[:, 0].sum()), "n_clusters": n}
    told = "correlation of the stated confidence and |B|, over options"
    if n < 2 or not np.isfinite(estimate):
        score = Ratio(ratio=estimate, status="one_cluster" if n < 2 else "constant", **counts)
        return make.number(metric, score, subset, told)
    interval = moment_interval(rows, groups, statistic, **make.interval)
    return make.number(metric, Ratio(ratio=estimate, **counts, **interval.fields()), subset, told)
