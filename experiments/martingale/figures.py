"""The pictures of the martingale report."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from ...metrics import MartingaleScore
from ..experiment import Figure
from ..report.plotting import DASHED, DOT, INK, MARK, REFERENCE, panel_figure
from ..report.score_figure import score_figure
from ..scoring.number import Number
from ..tables.updates import WHOLE
from .table import cell_names, pairs

PALE = 0.35
"""Opacity of a dot or line of which there are many."""
SMALLEST_REACH = 0.01
"""Of an axis of updates; smaller ones are nothing to look at."""
MOST_LINES = 60
"""Trajectories in a panel; of more, the first."""


def figures(
    table: pd.DataFrame, numbers: Sequence[Number], names: Sequence[str], levels: Sequence[str]
) -> list[Figure]:
    """All figures of a run; none of methods that gave no belief.

    Args:
        table: the readings.
        numbers: of the run.
        names: of the cells.
        levels: of the factors.
    """
    scores = {(number.metric, number.method, number.subset): number.score for number in numbers}
    methods = [str(method) for method in table.loc[table["belief"].notna(), "method"].unique()]
    if not methods:
        return []
    ends = pairs(table, WHOLE)
    drawn = [update_figure(ends[ends["method"] == method], method, scores) for method in methods]
    drawn.append(
        score_figure(
            "Slope by cell",
            scores,
            methods,
            [(name, "M", name) for name in names],
            "M, first to last",
            "Slope of the update on the prior with its interval over questions; 0 is a martingale.",
            reference=0,
        )
    )
    if levels:
        drawn.append(
            score_figure(
                "What goes with a larger slope?",
                scores,
                methods,
                [(level, "M_at", level) for level in levels],
                "M, first to last",
                "Mean slope had all rows had that level. System prompt and reasoning were assigned; domains differ in "
                "their questions.",
                reference=0,
            )
        )
    drawn += [path_figure(table[table["method"] == method], method) for method in methods[:1]]
    if len(methods) > 1:
        drawn.append(agreement_figure(scores, methods))
    drawn.append(change_figure(ends, methods))
    return drawn


def update_figure(ends: pd.DataFrame, method: str, scores: Any) -> Figure:
    """Update against prior, a panel for each cell, all of one scale (the paper's Figures 2 and 6)."""
    reach = float(f"{max([SMALLEST_REACH, *ends['update'].abs().dropna()]):.1g}")

    def draw(axes: Any, panel: tuple[str, pd.DataFrame]) -> None:
        name, rows = panel
        axes.axhline(0, color=INK, linewidth=0.8, linestyle=DASHED)
        axes.scatter(rows["prior"], rows["update"], s=10, color=MARK, alpha=PALE, linewidths=0)
        score = scores["M", method, name]
        assert isinstance(score, MartingaleScore)
        if np.isfinite(score.M) and rows["prior"].nunique() > 2:
            span = np.array([rows["prior"].min(), rows["prior"].max()])
            axes.plot(span, score.intercept + score.M * span, color=MARK, linewidth=1.6)
        axes.set_xlim(0, 1)
        axes.set_xticks([0, 0.5, 1])
        axes.set_ylim(-1.2 * reach, 1.2 * reach)
        axes.set_yticks([-reach, 0, reach], [f"{-reach:g}", "0", f"{reach:g}"])
        axes.set_xlabel("prior")
        axes.set_ylabel("update")

    return panel_figure(
        f"Can the update be foreseen? {method}",
        [(name, (name, rows)) for name, rows in _by_cell(ends)],
        draw,
        "A dot is a trajectory: its first belief, and how much its last adds. Dashed: a martingale; solid: the fit.",
        key={"trajectory": DOT, "martingale": REFERENCE, "fit": {"color": MARK, "linewidth": 1.6}},
    )


def path_figure(table: pd.DataFrame, method: str) -> Figure:
    """Belief after each step, a panel for each cell."""

    def draw(axes: Any, rows: pd.DataFrame) -> None:
        for _, own in list(rows.groupby(["item", "draw"], sort=False))[:MOST_LINES]:
            style = {"color": MARK, "alpha": PALE, "linewidth": 1, "marker": ".", "markersize": 3}
            axes.plot(own["step"], own["belief"], linestyle="-" if len(own) > 2 else "none", **style)
        if rows["truth"].notna().any():
            for _, own in rows.groupby("item", sort=False):
                axes.plot(own["step"], own["truth"], color=INK, linewidth=0.6, linestyle=DASHED)
        axes.set_ylim(0, 1)
        axes.set_yticks([0, 0.5, 1])
        axes.locator_params(axis="x", integer=True)
        axes.set_xlabel("step")
        axes.set_ylabel("belief")

    return panel_figure(
        f"Belief after each step: {method}",
        _by_cell(table),
        draw,
        f"A line is a trajectory, at most {MOST_LINES} in a panel. Dashed: the true posterior, where it is known.",
        key={"trajectory": {"color": MARK, "marker": ".", "linewidth": 1}, "true posterior": REFERENCE},
    )


def agreement_figure(scores: Any, methods: Sequence[str]) -> Figure:
    """Concordance of every two methods, on beliefs and on updates."""

    def draw(axes: Any, metric: str) -> None:
        n = len(methods)
        values = np.eye(n)
        for i, one in enumerate(methods):
            for j, two in enumerate(methods):
                score = scores.get((metric, "", f"{one} - {two}"))
                if score is not None:
                    values[i, j] = values[j, i] = score.estimate
        axes.imshow(np.abs(values), cmap="Greys", vmin=0, vmax=1.6)
        for (i, j), value in np.ndenumerate(values):
            axes.text(j, i, "–" if np.isnan(value) else f"{value:.2f}", ha="center", va="center", fontsize=7)
        names = [method.replace(" ", "\n") for method in methods]
        axes.set_xticks(range(n), names, fontsize=7)
        axes.set_yticks(range(n), names, fontsize=7)

    return panel_figure(
        "Do the methods agree?",
        [("beliefs", "agreement"), ("updates", "agreement_update")],
        draw,
        "Lin's concordance of two methods at the same places: 1 is the same number, 0 none of it. On beliefs much of "
        "it is which question is which; on updates it is what the steps did.",
    )


def change_figure(ends: pd.DataFrame, methods: Sequence[str]) -> Figure:
    """How large updates are, and whether they lead to what came true."""
    error = (ends["post"] - ends["outcome"]).abs() - (ends["prior"] - ends["outcome"]).abs()
    known = ends["outcome"].isin((0.0, 1.0))
    panels = [(f"{method}: update", ends.loc[ends["method"] == method, "update"].dropna()) for method in methods]
    panels += [(f"{method}: error", error[known & (ends["method"] == method)].dropna()) for method in methods]

    def draw(axes: Any, values: "pd.Series[float]") -> None:
        weights = np.full(len(values), 1 / max(1, len(values)))
        axes.hist(values, np.linspace(-1, 1, 41), weights=weights, histtype="stepfilled", color=MARK, alpha=0.6)
        axes.axvline(0, color=INK, linewidth=0.8, linestyle=DASHED)
        if len(values):
            axes.axvline(values.mean(), color=INK, linewidth=1.2)
        axes.set_xlim(-1, 1)
        axes.set_xticks([-1, 0, 1])
        axes.locator_params(axis="y", nbins=4)
        axes.set_ylabel("share")

    return panel_figure(
        "How large are the updates, and do they help?",
        [(title, values) for title, values in panels if len(values)],
        draw,
        "From first to last. Update: posterior less prior. Error: change of |belief - outcome|, where the outcome is "
        "known; left of zero is closer to what came true. The solid line is the mean.",
        columns=len(methods),
    )


def _by_cell(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    return [(str(name), rows) for name, rows in table.groupby(cell_names(table), sort=False)]
