"""The pictures of the rationality report."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from ...metrics import Score, adjust, lie, quantile_bins
from ...metrics.validation import Floats
from ..experiment import Figure
from ..report.plotting import DASHED, DOT, INK, MARK, REFERENCE, panel_figure
from ..scoring.number import Number
from ..tables.samples import ALL, Cases
from .own import PAIRS
from .samples import BEYOND, cases_of
from .table import Actions, MethodBeliefs

PALE = 0.45
WRONG = "#c2452d"
"""Of a segment that goes against the order."""
BINS = 5
SMALLEST_SPAN = 0.02


def figures(
    every: Sequence[MethodBeliefs],
    acts: Actions,
    numbers: Sequence[Number],
    table: pd.DataFrame,
) -> list[Figure]:
    """All figures of a run; none of methods that gave no belief."""
    read = [one for one in every if np.isfinite(one.belief).any()]
    if not read:
        return []
    scores = {(one.metric, one.method, one.subset): one.score for one in numbers}
    drawn = [truth_figure(read, acts), sufficiency_figure(read, scores), choice_figure(read, acts)]
    cases = cases_of(table, every, acts)
    drawn += [case_figure(cases)] if cases else []
    drawn += [latent_figure([one.method for one in read], numbers)] if len(read) > 1 else []
    return drawn


def truth_figure(every: Sequence[MethodBeliefs], acts: Actions) -> Figure:
    """Belief against the true chance, a panel for each method."""

    def draw(axes: Any, belief: Floats) -> None:
        axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle=DASHED)
        axes.scatter(acts.truth, belief, s=10, color=MARK, alpha=PALE, linewidths=0)
        _unit(axes)
        axes.set_xlabel("true chance")
        axes.set_ylabel("belief")

    return panel_figure(
        "Belief against truth",
        [(one.method, one.belief) for one in every],
        draw,
        "A dot is a context. Dashed: the belief is the true chance.",
        key={"context": DOT, "true chance": REFERENCE},
    )


def choice_figure(every: Sequence[MethodBeliefs], acts: Actions) -> Figure:
    """Exact share of the first action of each pair against the belief (the paper's Figure 1)."""

    def draw(axes: Any, data: tuple[Floats, Floats]) -> None:
        belief, share = data
        known = np.isfinite(belief) & np.isfinite(share)
        belief, share = belief[known], share[known]
        axes.scatter(belief, share, s=10, color=MARK, alpha=PALE, linewidths=0)
        bins = quantile_bins(belief, BINS)
        middle = [(belief[bins == b].mean(), share[bins == b].mean()) for b in np.unique(bins)]
        for (x0, y0), (x1, y1) in pairwise(middle):
            wrong = y1 < y0
            axes.plot([x0, x1], [y0, y1], color=WRONG if wrong else MARK, linewidth=2.4 if wrong else 1.6)
        _around(axes.set_xlim, belief)
        _around(axes.set_ylim, share)
        axes.locator_params(nbins=3)
        axes.set_xlabel("belief")

    panels = []
    for one in every:
        for name, (first, second) in PAIRS.items():
            pair = acts.tree[:, [first, second]]
            with np.errstate(divide="ignore", invalid="ignore"):
                panels.append((f"{one.method}: {name}", (one.belief, pair[:, 0] / pair.sum(axis=1))))
    return panel_figure(
        "Do choices rise with the belief?",
        panels,
        draw,
        "A dot is a context: its belief, and the exact share of the first action among both. The line joins the means "
        "of five equally large groups; red where it falls, which no agent with this belief and independence of "
        "irrelevant alternatives has. Each panel has scales of its own.",
        key={"context": DOT, "mean of a fifth, rising": {"color": MARK}, "falling": {"color": WRONG, "linewidth": 2.4}},
        columns=len(PAIRS),
    )


def sufficiency_figure(every: Sequence[MethodBeliefs], scores: Mapping[tuple[str, str, str], Score]) -> Figure:
    """What of the forced choice each belief predicts."""
    rows = [(one.method, scores["sufficiency", one.method, ALL]) for one in every]
    ends = [x for _, s in rows for x in (s.estimate, s.ci_lo, s.ci_hi) if np.isfinite(x)]
    low = max(-1.0, min([0.0, *ends]))

    def draw(axes: Any, _: None) -> None:
        for height, (label, score) in enumerate(rows):
            axes.barh(
                -height, max(score.estimate, low) if np.isfinite(score.estimate) else 0, 0.35, color=MARK, alpha=PALE
            )
            axes.plot([max(score.ci_lo, low), score.ci_hi], [-height] * 2, color=MARK, linewidth=1.4)
            axes.text(0.0, 0.26 - height, label, transform=axes.get_yaxis_transform(), fontsize=8)
        axes.axvline(0, color=INK, linewidth=0.6)
        axes.axvline(1, color=INK, linewidth=0.8, linestyle=DASHED)
        axes.set_xlim(low - 0.05, 1.1)
        axes.set_yticks([])
        axes.set_ylim(0.6 - len(rows), 0.6)
        axes.set_xlabel("share of the choice")

    return panel_figure(
        "Is the belief enough?",
        [("", None)],
        draw,
        "Share of the forced choice that a rising function of each belief predicts in other contexts, with its "
        "interval. 1: the belief could be all that is acted on; 0: it predicts nothing.",
    )


def case_figure(cases: Sequence[Cases]) -> Figure:
    """Belief less what its cases imply, as boxes (the paper's Figure 2)."""
    found = [(one.method, np.asarray(lie(one.p, one.conditional, one.weights).signed)) for one in cases]
    found = [(name, gap[np.isfinite(gap)]) for name, gap in found]

    def draw(axes: Any, _: None) -> None:
        for height, (label, gap) in enumerate(found):
            if len(gap):
                low, first, middle, third, high = np.quantile(gap, [0, 0.25, 0.5, 0.75, 1])
                axes.plot([low, high], [-height] * 2, color=MARK, linewidth=0.8)
                axes.barh(-height, third - first, 0.3, left=first, color=MARK, alpha=PALE)
                axes.plot([middle] * 2, [-height - 0.15, -height + 0.15], color=MARK, linewidth=1.8)
            axes.text(0.0, 0.3 - height, label, transform=axes.get_yaxis_transform(), fontsize=8)
        axes.axvline(0, color=INK, linewidth=0.8, linestyle=DASHED)
        axes.set_yticks([])
        axes.set_ylim(0.6 - len(found), 0.6)
        axes.set_xlabel("belief - implied")

    return panel_figure(
        "Is a belief the mean of its cases?",
        [("", None)],
        draw,
        "Belief less the mean of the beliefs given each state of a further covariate; 0 is coherent. Box: quartiles "
        "and median; line: all.",
    )


def latent_figure(names: Sequence[str], numbers: Sequence[Number]) -> Figure:
    """What each belief knows beyond each other one."""
    found = {(one.metric, one.method): one.score for one in numbers if BEYOND in one.method}
    known = [key for key, score in found.items() if np.isfinite(score.p)]
    adjusted = adjust([found[key].p for key in known]).p_adjusted if known else []
    p = dict(zip(known, adjusted, strict=True))

    def draw(axes: Any, metric: str) -> None:
        n = len(names)
        values = np.full((n, n), np.nan)
        for i, other in enumerate(names):
            for j, stated in enumerate(names):
                key = (metric, f"{other}{BEYOND}{stated}")
                if key in found:
                    values[i, j] = found[key].estimate
                    star = "*" if p.get(key, 1.0) < 0.05 else ""
                    text = "–" if np.isnan(values[i, j]) else f"{values[i, j]:+.2f}{star}"
                    axes.text(j, i, text, ha="center", va="center", fontsize=7)
        axes.imshow(np.abs(values), cmap="Greys", vmin=0, vmax=1.6)
        shown = [name.replace(" ", "\n") for name in names]
        axes.set_xticks(range(n), shown, fontsize=6)
        axes.set_yticks(range(n), shown, fontsize=6)
        axes.set_xlabel("beyond", fontsize=8)

    return panel_figure(
        "What does one belief know that another does not tell?",
        [("of the choice", "latent_action"), ("of the truth", "latent_truth")],
        draw,
        "Row: a belief; column: one that is given. Correlation of what the given belief leaves of the row's and of the "
        "choice, or of the truth; 0: nothing. A star: p below 5% after Holm over all cells. A dash: nothing was left.",
        columns=2,
    )


def _around(set_limits: Any, values: Floats) -> None:
    """An axis that holds the values, and is never so short that rounding looks like a curve."""
    if len(values):
        middle, reach = (values.min() + values.max()) / 2, max(np.ptp(values) / 2, SMALLEST_SPAN / 2)
        set_limits(middle - 1.1 * reach, middle + 1.1 * reach)


def _unit(axes: Any) -> None:
    for set_limits, set_ticks in ((axes.set_xlim, axes.set_xticks), (axes.set_ylim, axes.set_yticks)):
        set_limits(-0.03, 1.03)
        set_ticks([0, 0.5, 1])
