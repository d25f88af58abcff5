"""The pictures of the sycophancy report."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ...metrics import DirectionRates, Score
from ..experiment import Figure
from ..report.plotting import DASHED, INK, MARK, REFERENCE, panel_figure
from ..report.plotting import DOT as MARKED
from ..report.score_figure import score_figure
from ..scoring.number import Number
from ..tables.samples import ALL
from .contexts import SPEAKERS
from .samples import AFTER, ARGUED, ARGUED_TO_USER, BY_AGENT, BY_USER, parts
from .table import array, by_method, updates

PALE, DOT = 0.45, 9
CLASSES = {"incorrect": 1.0, "no_update": 0.6, "under": 0.4, "exact": 0.2, "over": 0.08, "spurious": 0.0}
"""Class of update -> strength of its bar, from left to right."""
WORDED = {"incorrect": "wrong way", "no_update": "nowhere", "under": "not far enough", "over": "too far"}
Scores = Mapping[tuple[str, str, str], Score]


def figures(means: pd.DataFrame, tables: Mapping[str, pd.DataFrame], numbers: Sequence[Number]) -> list[Figure]:
    """All figures of a run; none of methods that gave no belief.

    Args:
        means: a row per context.
        tables: method -> its arms.
        numbers: of the run.
    """
    scores = {(number.metric, number.method, number.subset): number.score for number in numbers}
    methods = [
        method for method, table in tables.items() if table[[*SPEAKERS]].notna().any(axis=None) and len(table) > 0
    ]
    if not methods:
        return []
    tasks = {str(one) for one in means["task"]}
    subsets = dict.fromkeys(name for method in methods for name in parts(tables[method]) if name not in tasks)
    drawn = [
        shift_figure(scores, methods),
        score_figure(
            "Where is the excess?",
            scores,
            methods,
            [(name, "excess", name) for name in (ALL, *subsets)],
            "nats",
            "The user's excess less the agent's, with its interval over scenarios; 0 is fair.",
            reference=0,
        ),
    ]
    if (means["evidence"] != "none").any():
        drawn.append(direction_figure(scores, methods))
        drawn.append(bayes_figure({method: updates(rows) for _, method, rows in by_method(means) if method in methods}))
    return drawn


def shift_figure(scores: Scores, methods: Sequence[str]) -> Figure:
    """What words do, with what they license."""
    wanted = [(BY_AGENT, "agent"), (BY_USER, "user")]

    def draw(axes: Any, method: str) -> None:
        for height, (arm, speaker) in enumerate(wanted):
            shift, licensed = scores["shift_logit", method, arm], scores["licensed_shift", method, arm]
            axes.plot([shift.ci_lo, shift.ci_hi], [-height] * 2, color=MARK, linewidth=1.4)
            axes.plot(shift.estimate, -height, "o", color=MARK, markersize=5)
            axes.plot(licensed.estimate, -height, "|", color=INK, markersize=16, markeredgewidth=1.6)
            axes.text(0.0, 0.28 - height, f"{speaker}'s word", transform=axes.get_yaxis_transform(), fontsize=8)
        axes.axvline(0, color=INK, linewidth=0.8, linestyle=DASHED)
        axes.set_yticks([])
        axes.set_ylim(-1.4, 0.6)
        axes.locator_params(axis="x", nbins=4)
        axes.set_xlabel("shift towards what is said, nats")

    return panel_figure(
        "How far does a word move the belief, and how far may it?",
        [(method, method) for method in methods],
        draw,
        "Dot: mean shift of log-odds with its interval; bar: what the words license by the model's own lights. A dot "
        "further right of its bar for the user than for the agent is sycophancy.",
        key={
            "shift": MARKED,
            "licensed by the words": {"color": INK, "marker": "|", "markersize": 14, "linestyle": "none"},
            "no shift": REFERENCE,
        },
    )


def direction_figure(scores: Scores, methods: Sequence[str]) -> Figure:
    """Classes of updates, without and with testimony (the paper's Figure 1)."""
    subsets = {
        "evidence alone": ALL,
        "+ agent's word": AFTER["agent"],
        "+ user's word": AFTER["user"],
        "argued, agent": ARGUED["agent"],
        "argued, user": ARGUED["user"],
        "argued, took part": ARGUED_TO_USER,
    }

    def draw(axes: Any, method: str) -> None:
        from matplotlib.colors import to_rgba

        found = {
            label: score
            for label, subset in subsets.items()
            if isinstance(score := scores.get(("incorrect", method, subset)), DirectionRates) and score.n
        }
        for height, (label, score) in enumerate(found.items()):
            left = 0.0
            for name, strength in CLASSES.items():
                share = getattr(score, name)
                axes.barh(-height, share, 0.34, left, color=to_rgba(MARK, strength), edgecolor=INK, linewidth=0.5)
                left += share
            axes.text(0.0, 0.26 - height, label, fontsize=8)
        axes.set_xlim(0, 1)
        axes.set_xticks([0, 0.5, 1])
        axes.set_yticks([])
        axes.set_ylim(0.5 - max(1, len(found)), 0.7)
        axes.set_xlabel("share of updates")

    shades = {WORDED.get(name, name): {"facecolor": MARK, "alpha": strength} for name, strength in CLASSES.items()}
    classes = ", ".join(WORDED.get(name, name) for name in CLASSES)
    return panel_figure(
        "Which way do updates go?",
        [(method, method) for method in methods],
        draw,
        f"From left, dark to pale: {classes} (an update where Bayes' rule asks for none). The reading noise is in "
        "the table: near no update the direction is noise.",
        key=shades,
    )


def bayes_figure(found: Mapping[str, pd.DataFrame]) -> Figure:
    """The posterior that was read against that of Bayes' rule."""

    def draw(axes: Any, rows: pd.DataFrame) -> None:
        for evidence, marker in (("for", "o"), ("against", "s")):
            own = rows[rows["evidence"] == evidence]
            axes.scatter(
                array(own, "bayes"), array(own, "posterior"), s=DOT, marker=marker, color=MARK, alpha=PALE, lw=0
            )
        axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle=DASHED)
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
        axes.set_xticks([0, 0.5, 1])
        axes.set_yticks([0, 0.5, 1])
        axes.set_xlabel("Bayes' rule")
        axes.set_ylabel("read")

    return panel_figure(
        "Is the posterior that of Bayes' rule?",
        [(method, rows[np.isfinite(rows["bayes"]) & rows["posterior"].notna()]) for method, rows in found.items()],
        draw,
        "Each dot is a scenario with one piece of evidence, for X (round) or against (square). P* above 1 is cut off.",
        key={"for": MARKED, "against": MARKED | {"marker": "s"}, "Bayes' rule": REFERENCE},
    )
