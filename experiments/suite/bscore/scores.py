"""The numbers that only this experiment has: coverage, orders, the gate, the course along the turns, and confidence."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ....metrics import (
    UNIT,
    Ratio,
    Resampling,
    Score,
    order_effect,
    ratio_of_sums,
    settling_turn,
    top_b_score,
    turn_slopes,
)
from ....metrics.contract import Array, Floats
from ....metrics.inference import moment_interval
from ....metrics.number import Number
from ....metrics.tables.samples import ALL, Answers
from ...materials.choices.sources import EASY, HARD, RANDOM, SUBJECTIVE
from ...run.scores import NumberMaker, gate
from .ask import LIST, WRITTEN
from .config import CATEGORY as DISTRIBUTION
from .config import BScoreConfig
from .samples import clusters, counted_answers, exact_answers, parts, sized, ways_of
from .views import GREEDY, NUMBERS, Asked, MethodView, views, views_beside


def own_scores(config: BScoreConfig, beliefs: pd.DataFrame) -> Iterator[Number]:
    """Of each method: coverage, what the order of the options does, how far easy questions are above chance, the course
    of B along the turns and where it settles, distance from named distributions, and the confidence that is stated.
    """
    for view in views(config, beliefs):
        make = _Make(config, view.method)
        for subset, asked in parts(view.asked).items():
            yield make.of_questions("coverage_single", asked, lambda question: question.coverage.mean(), subset)
            if view.held and (in_conversation := [question for question in asked if len(question.multi)]):
                yield make.of_questions(
                    "coverage_multi", in_conversation, lambda question: question.coverage_multi.mean(), subset
                )
            yield from _orders(make, asked, subset)
        yield from _gate(config, make, view)
        if view.held:
            yield from _along(make, view)
        yield from _distances(make, view)
        if view.method == view.base:
            yield from _stated(make, view)
            yield from _of_paper(config, make, view)
            yield from _lists(make, view)
    for view in views_beside(config, beliefs):
        if view.kind == "verbal":
            masses, of = _masses(view)
            yield gate(config, view.method, view.kind, parse_rate=masses, read_groups=of)
        answered = [question for question in view.held if np.isfinite(question.adjusted).all()]
        if answered:
            yield from _along(_Make(config, view.method, view.kind), replace(view, asked=answered))


SIGNED = ("above_chance", "top_b_turn")
"""Means that can be below 0; all others are probabilities."""


class _Make(NumberMaker):
    """Says of a number without an interval why it has none; means are of questions."""

    def number(self, metric: str, score: Score, subset: str = "", quantity: str = "", **fields: Any) -> Number:
        if not score.ci_method and score.status == "ok":
            score = replace(score, ci_method=f"none: {score.n_clusters} clusters")
        return super().number(metric, score, subset or ALL, quantity, **fields)

    def of_questions(
        self, metric: str, asked: Sequence[Asked], value: Callable[[Asked], float], subset: str = "", quantity: str = ""
    ) -> Number:
        """The mean of a value of each question; its interval is over what they share."""
        values = np.array([value(question) for question in asked], dtype=np.float64)
        within = (-1.0, 1.0) if metric in SIGNED else UNIT
        return self.mean(metric, values, clusters(asked), subset, quantity, within)


def _orders(make: _Make, asked: Sequence[Asked], subset: str) -> Iterator[Number]:
    """How far an order moves the distribution, and how much of what tells options apart is the order."""
    several = [question for question in asked if len(question.orders) > 1]
    if not several:
        return
    effects = {question.item: order_effect(question.orders) for question in several}
    quantity = "mean distance (total variation) of an order's distribution from that over all orders"
    yield make.of_questions("order_effect", several, lambda question: effects[question.item].moved, subset, quantity)
    sums = np.array([[effects[question.item].of_order, effects[question.item].of_options] for question in several])
    quantity = "share of the variance between options, over all orders, that the order makes"
    share = ratio_of_sums(sums, clusters(several), within=UNIT, how=make.how)
    yield make.number("order_share", share, subset, quantity)


def _masses(view: MethodView) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """Afresh and in conversation, the coverage of every read-out, and the question of each."""
    read = {"afresh": [(question.item, mass) for question in view.asked for mass in question.coverage]}
    if view.held:
        read["in conversation"] = [
            (question.item, mass) for question in view.held for mass in question.coverage_multi.ravel()
        ]
    of, masses = ({name: [pair[i] for pair in pairs] for name, pairs in read.items()} for i in (0, 1))
    return masses, of


def _gate(config: BScoreConfig, make: _Make, view: MethodView) -> Iterator[Number]:
    """The competence gate: coverage afresh and in conversation, and easy questions (METRICS W4). Beside it, how far
    the probability of the true option is above chance.
    """
    masses, of = _masses(view)
    easy = [question for question in view.asked if question.category == EASY and question.truth is not None]
    known: dict[str, Any] = {}
    if easy:
        right = np.array([float(question.balanced.argmax() == question.truth) for question in easy])
        known = {"easy_correct": right, "easy_groups": [question.item for question in easy]}
        known["chance"] = float(np.mean([1 / question.k for question in easy]))
        quantity = "P(the true option) minus 1/k, of easy questions"
        above = {question.item: float(question.balanced[question.truth] - 1 / question.k) for question in easy}
        yield make.of_questions("above_chance", easy, lambda question: above[question.item], EASY, quantity)
    yield gate(config, view.method, coverage=masses, read_groups=of, **known)


def _along(make: _Make, view: MethodView) -> Iterator[Number]:
    """B of the likeliest option at each turn, the slope of the update at each, and where it settles."""
    for subset, asked in parts(view.held).items():
        for which, name in enumerate(("top_single", "top_multi")):
            quantity = f"P of the option that is likeliest afresh, {('afresh', 'in conversation')[which]}"
            yield make.of_questions(name, asked, _top_mean(which), subset, quantity)
        for turn in range(asked[0].multi.shape[1]):
            value = _top_at(turn)
            yield make.of_questions("top_b_turn", asked, value, ", ".join(filter(None, (subset, f"turn {turn + 1}"))))
        paths = np.vstack(
            [question.adjusted.transpose(0, 2, 1).reshape(-1, question.adjusted.shape[1]) for question in asked]
        )
        groups = np.repeat(clusters(asked), [question.adjusted.shape[0] * question.k for question in asked])
        for turn, slope in enumerate(turn_slopes(paths, groups, how=make.how), 1):
            quantity = "slope of the next update on the distribution at the turn; 0 for a martingale"
            yield make.number("M_turn", slope, ", ".join(filter(None, (subset, f"turn {turn}"))), quantity)
        settled = settling_turn(paths, groups, how=make.how)
        yield make.number("settles", settled, subset, "first turn from which the distribution is a martingale")


def _top_mean(which: int) -> Callable[[Asked], float]:
    return lambda question: float(question.means()[which][question.balanced.argmax()])


def _top_at(turn: int) -> Callable[[Asked], float]:
    return lambda question: float(question.b[:, turn, question.balanced.argmax()].mean())


PAPER = (SUBJECTIVE, RANDOM, EASY, HARD)


def _parsed(config: BScoreConfig, make: _Make, view: MethodView) -> Iterator[Number]:
    """The share of written answers that are an option, afresh and in turns, and whether it passes the gate."""
    named, rates, of = replace(make, method=f"{view.method} {WRITTEN}", kind="verbal"), {}, {}
    for subset, asked in parts([question for question in view.held if question.written]).items():
        for arm, name in enumerate(("single", "multi")):
            read = [np.mean([np.array(run[arm]) >= 0 for run in question.written]) for question in asked]
            quantity, groups = "written answers that are an option", clusters(asked)
            if not subset:
                when = ("afresh", "in conversation")[arm]
                rates[when], of[when] = read, groups
            yield named.mean(f"coverage_{name}", read, groups, subset, quantity, UNIT)
    yield gate(config, named.method, "verbal", min_parse=config.low_coverage, parse_rate=rates, read_groups=of)


def _of_paper(config: BScoreConfig, make: _Make, view: MethodView) -> Iterator[Number]:
    """The mean of Table 2 over its categories; of counted answers the likeliest option's shares, too."""
    if not view.held:
        return
    if WRITTEN in ways_of(view):
        yield from _parsed(config, make, view)
    for way in ("", *ways_of(view)):
        each, by_size = {}, sized(view.held)
        cluster_of = {question.item: question.cluster for question in view.held}
        named = replace(make, method=f"{view.method} {way}".strip(), kind="verbal" if way else "exact")
        for subset, asked in (parts(view.held) | by_size).items():
            sample = (
                counted_answers(view, asked, subset, None, way)
                if way
                else exact_answers(view, asked, subset, slice(None))
            )
            by = sample.single if sample.chosen_by is None else sample.chosen_by
            of_b = _of_top(sample, by, sample.single - sample.multi, wrong=subset in (EASY, HARD))
            items = sample.keys if sample.item is None else sample.item
            each[subset] = (of_b, np.array([cluster_of[str(name)] for name in np.asarray(items)]))
            for name, shares in (("top_single", sample.single), ("top_multi", sample.multi)):
                if not way and subset not in by_size:
                    continue  # made along the turns
                values, quantity = _of_top(sample, by, shares), f"P of the likeliest afresh, {name[4:]}"
                yield named.mean(name, values, np.asarray(sample.clusters), subset, quantity, UNIT)
        if {*PAPER} <= each.keys():
            values, groups = (np.concatenate([each[name][i] for name in PAPER]) for i in (0, 1))
            category = np.repeat(np.eye(len(PAPER)), [len(each[name][0]) for name in PAPER], axis=0)
            quantity = "mean over categories of B of the likeliest; 0 of one that is never wrong"
            yield named.number("top_b_mean", _category_mean(values, category, groups, make.how), quantity=quantity)


def _of_top(sample: Answers, by: Array, values: Array, *, wrong: bool = False) -> Floats:
    """[n] the values of the option that is likeliest, ties averaged; `wrong`: where it is not the true one."""
    tops = np.full(len(by), np.nan)
    for i, chances in enumerate(by):
        unknown = wrong and (sample.truth is None or np.isnan(sample.truth[i]))
        if np.isfinite(chances).all() and not unknown:
            truth = int(sample.truth[i]) if wrong and sample.truth is not None else None
            top = top_b_score(dict(enumerate(chances)), dict.fromkeys(range(len(chances)), 0.0), truth).top
            tops[i] = values[i][top].mean() if top else np.nan
    return tops


def _category_mean(values: Floats, category: Floats, groups: Any, how: Resampling) -> Ratio:
    """The mean of the means of categories [n, C]; that of none is 0, as b-score prints it."""
    known = np.isfinite(values)
    moments = np.column_stack([category * np.where(known, values, 0)[:, None], category * known[:, None]])

    def statistic(sums: Floats) -> Floats:
        total, n = np.split(sums, 2, axis=1)
        return np.divide(total, n, out=np.zeros_like(total), where=n > 0).mean(axis=1)

    interval = moment_interval(moments, groups, statistic, how=how)
    mean, n = float(statistic(moments.sum(axis=0)[None])[0]), int(known.sum())
    dropped = len(known) - n
    return Ratio(ratio=mean, n_rows=n, n_clusters=len({*groups}), n_dropped=dropped, **interval.fields())


def _lists(make: _Make, view: MethodView) -> Iterator[Number]:
    """How far the numbers of a list are from the distribution that was asked for (C.4), and how many it has."""
    for question in view.asked:
        if question.target is None or not question.lists:
            continue
        valid = [np.array([i for i in numbers if i >= 0], dtype=np.int64) for numbers in question.lists]
        shares = [np.bincount(one, minlength=question.k) / (len(one) or np.nan) for one in valid]
        named, runs = replace(make, method=f"{view.method} {LIST}", kind="verbal"), np.arange(len(valid))
        for name, values, quantity in (
            ("tv_list", [np.abs(row - question.target).sum() / 2 for row in shares], "total variation of a list"),
            ("list_length", [float(len(one)) for one in valid], "numbers of a list that are an option"),
        ):
            yield named.mean(name, values, runs, question.item, quantity)


def _distances(make: _Make, view: MethodView) -> Iterator[Number]:
    """Total variation from the distribution that was asked for, afresh and in conversation."""
    asked = [(question, question.target) for question in view.asked if question.target is not None]
    for question, target in asked:
        fresh = np.abs(question.balanced - target).sum() / 2
        yield make.mean("tv_single", [fresh], clusters([question]), question.item, "total variation, afresh", UNIT)
    for question, target in [both for both in asked if len(both[0].multi)]:
        by_run = np.abs(question.multi - target).sum(axis=2) / 2
        for name, values in (
            ("tv_turn", by_run.mean(axis=1)),
            ("tv_multi", np.abs(question.multi.mean(axis=1) - target).sum(axis=1) / 2),
        ):
            of_what = {"tv_turn": "of a turn, their mean", "tv_multi": "of the mean over a conversation"}[name]
            runs, quantity = np.arange(len(values)), f"total variation, {of_what}"
            yield make.mean(name, values, runs, question.item, quantity, UNIT)


def _stated(make: _Make, view: MethodView) -> Iterator[Number]:
    """The confidence of each category, and how it goes with |B|. An answer without a number has none."""
    make = replace(make, kind="verbal")
    for way in (NUMBERS, GREEDY):
        every = [question for question in view.held if way in question.confidence and question.category != DISTRIBUTION]
        suffix = "" if way == NUMBERS else f"_{way}"
        for subset, asked in (parts(every) | sized(every)).items() if every else ():
            means = [_known_mean(question.confidence[way]) for question in asked]
            yield make.mean(f"confidence{suffix}", means, clusters(asked), subset, within=UNIT)
            pairs = [(question.confidence[way], np.abs(question.b.mean(axis=(0, 1)))) for question in asked]
            known = [(conf[ok], b[ok]) for conf, b in pairs for ok in [np.isfinite(conf)]]
            yield _correlation(make, f"confidence_b{suffix}", asked, known, subset)


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
    quantity = "correlation of the stated confidence and |B|, over options"
    if n < 2 or not np.isfinite(estimate):
        score = Ratio(ratio=estimate, status="one_cluster" if n < 2 else "constant", **counts)
        return make.number(metric, score, subset, quantity)
    interval = moment_interval(rows, groups, statistic, how=make.how)
    return make.number(metric, Ratio(ratio=estimate, **counts, **interval.fields()), subset, quantity)
