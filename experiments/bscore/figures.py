"""The pictures of the B-score report."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...metrics import Score
from ..experiment import Figure
from ..report.plotting import DASHED, DOT, INK, MARK, REFERENCE, course, panel_figure
from ..scoring.number import Number
from ..tables.samples import ALL
from .distributions import CATEGORY as DISTRIBUTION
from .samples import parts
from .table import NUMBERS, Asked, MethodView

PALE = 0.35
COURSE = {"estimate": DOT, "interval": {"facecolor": MARK, "alpha": 0.2}, "no effect": REFERENCE}
Scores = Mapping[tuple[str, str, str], Score]


def figures(found: Sequence[MethodView], numbers: Sequence[Number]) -> list[Figure]:
    """All figures of a run, of the methods that hold conversations, at temperature 1."""
    scores = {(number.metric, number.method, number.subset): number.score for number in numbers}
    drawn: list[Figure] = []
    for view in found:
        if view.held and view.method == view.base:
            drawn += [option_figure(view), course_figure(view, scores), slope_figure(view, scores)]
            drawn += [confidence_figure(view)] if any(NUMBERS in one.confidence for one in view.held) else []
            drawn += [distribution_figure(view)] if any(one.target is not None for one in view.held) else []
    return drawn


def option_figure(view: MethodView) -> Figure:
    """Each option afresh against in conversation, a panel per category (the paper's Figure 6)."""

    def draw(axes: Any, asked: Sequence[Asked]) -> None:
        axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle=DASHED)
        for one in asked:
            fresh, by_run = one.fresh.mean(axis=(0, 1)), one.multi.mean(axis=1)
            axes.vlines(fresh, by_run.min(axis=0), by_run.max(axis=0), color=MARK, alpha=PALE, linewidth=1)
            axes.scatter(fresh, by_run.mean(axis=0), s=9, color=MARK, linewidths=0)
        _unit(axes, "afresh", "in conversation")

    return panel_figure(
        f"How probable is each option, afresh and in conversation? {view.method}",
        _categories(view.held),
        draw,
        "A dot is an option: its mean probability over the same orders of the options. The line spans its "
        "conversations; below the dashed line an option becomes rarer once the model has seen its answers.",
        key={"option": DOT, "its conversations": {"color": MARK, "alpha": PALE}, "no effect": REFERENCE},
    )


def course_figure(view: MethodView, scores: Scores) -> Figure:
    """B of the likeliest option along the turns."""
    marks = {name: (name, view) for name in parts(view.held) if name != DISTRIBUTION}

    def draw(axes: Any, panel: tuple[str, MethodView]) -> None:
        subset = panel[0]
        _band(axes, list(_turns(view)), [scores["top_b_turn", view.method, _named(subset, t)] for t in _turns(view)])
        settled = scores.get(("settles", view.method, subset or ALL))
        if settled is not None and np.isfinite(settled.estimate):
            axes.axvline(settled.estimate, color=INK, linewidth=0.8)
        axes.set_xlabel("turn")
        axes.set_ylabel("B of the likeliest")

    return panel_figure(
        f"When does it change? {view.method}",
        [(name or ALL, panel) for name, panel in marks.items()],
        draw,
        "B of the option that is likeliest afresh, at each turn, with its interval over questions. Dashed: no effect "
        "of the history; the upright line is the turn from which the distribution is a martingale, if there is one.",
        key=COURSE | {"settles": {"color": INK, "linewidth": 0.8}},
    )


def slope_figure(view: MethodView, scores: Scores) -> Figure:
    """The slope of the update at each turn."""
    marks = [name for name in parts(view.held) if name != DISTRIBUTION]

    def draw(axes: Any, subset: str) -> None:
        turns = list(_turns(view))[:-1]
        _band(axes, turns, [scores["M_turn", view.method, _named(subset, turn)] for turn in turns])
        axes.set_xlabel("turn")
        axes.set_ylabel("M")

    return panel_figure(
        f"Does it settle? {view.method}",
        [(name or ALL, name) for name in marks],
        draw,
        "Slope of the update after each turn on the distribution at it. A model that has settled draws from what "
        "it believes and learns nothing foreseeable: 0. Below 0 it returns to the mean, above it runs away.",
        key=COURSE,
    )


def confidence_figure(view: MethodView) -> Figure:
    """Stated confidence against |B|, option by option (the paper's Figures 9 and 10)."""

    def draw(axes: Any, asked: Sequence[Asked]) -> None:
        for one in asked:
            if NUMBERS in one.confidence:
                size = np.abs(one.b.mean(axis=(0, 1)))
                axes.plot(one.confidence[NUMBERS], size, "-", color=INK, linewidth=0.3, alpha=PALE)
                axes.scatter(one.confidence[NUMBERS], size, s=9, color=MARK, linewidths=0)
        axes.set_xlim(0, 1)
        axes.set_ylim(bottom=0)
        axes.set_xticks([0, 0.5, 1])
        axes.set_xlabel("stated confidence")
        axes.set_ylabel("|B|")

    return panel_figure(
        f"Does the stated confidence tell it? {view.method}",
        [one for one in _categories(view.held) if one[0] != DISTRIBUTION],
        draw,
        "A dot is an option; lines join those of a question. If confidence told what history will take back, it would "
        "differ between the options of one question.",
    )


def distribution_figure(view: MethodView) -> Figure:
    """The distribution over numbers that was asked for, and those that are drawn from."""

    def draw(axes: Any, one: Asked) -> None:
        places = np.arange(one.k)
        assert one.target is not None
        axes.bar(places, one.target, color=INK, alpha=0.15, width=0.9, label="asked for")
        axes.plot(places, one.balanced, "o-", color=INK, markersize=3, linewidth=0.8, label="afresh")
        axes.plot(places, one.multi.mean(axis=(0, 1)), "o-", color=MARK, markersize=3, linewidth=1.2, label="in turns")
        axes.set_xticks(places, one.options, fontsize=6)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("number")
        axes.set_ylabel("probability")
        axes.legend(fontsize=7)

    return panel_figure(
        f"Can it draw from a named distribution? {view.method}",
        [(one.item.partition("-")[2], one) for one in view.held if one.target is not None],
        draw,
        "Exact probabilities of the numbers that the model may write.",
    )


def _band(axes: Any, turns: Sequence[int], scores: Sequence[Score]) -> None:
    """Estimates with their interval, against turns."""
    axes.axhline(0, color=INK, linewidth=0.8, linestyle=DASHED)
    axes.fill_between(turns, [s.ci_lo for s in scores], [s.ci_hi for s in scores], color=MARK, alpha=0.2, linewidth=0)
    course(axes, turns, [s.estimate for s in scores], color=MARK, markersize=3, linewidth=1.2)
    axes.locator_params(axis="x", integer=True, nbins=5)
    axes.locator_params(axis="y", nbins=4)


def _unit(axes: Any, x: str, y: str) -> None:
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_xticks([0, 0.5, 1])
    axes.set_yticks([0, 0.5, 1])
    axes.set_xlabel(x)
    axes.set_ylabel(y)


def _turns(view: MethodView) -> range:
    return range(1, view.held[0].multi.shape[1] + 1)


def _named(subset: str, turn: int) -> str:
    return ", ".join(filter(None, (subset, f"turn {turn}")))


def _categories(asked: Sequence[Asked]) -> list[tuple[str, list[Asked]]]:
    return [(name, part) for name, part in parts(asked).items() if name]
