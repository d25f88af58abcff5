"""The pictures of the consistency report."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..experiment import Figure, Table
from ..report.plotting import INK, MARK, REFERENCE, panel_figure
from ..report.score_figure import Scores, score_figure
from ..scoring.number import Number
from ..tables.belief_parts import Made
from ..tables.samples import ALL
from .made import INSTANCES

BINS = 20
KEPT = {"unchanged": REFERENCE}
COUNTS = {"few instances": {"facecolor": MARK, "alpha": 0.15}, "most instances": {"facecolor": MARK}}
"""Of squares, each panel on a scale of its own."""
QUANTILES = 200
"""Dots in which a distribution is drawn, however many values it has."""


def figures(made: Made, numbers: Sequence[Number], conditions: Sequence[Table]) -> list[Figure]:
    """All figures of a run, of the instances at temperature 1.

    Args:
        made: what the run's numbers are made of.
        numbers: all of the run.
        conditions: the tables by condition; each gets a figure.
    """
    scores = {(number.metric, number.method, number.subset): number.score for number in numbers}
    methods = made.groups(INSTANCES)
    templates = [str(template) for template in _read(made, methods[0], "template")["template"].unique()]
    axis = "change of log-odds, nats"
    drawn = [
        ratio_figure(made),
        score_figure(
            "Does the rejection's wording matter?",
            scores,
            methods,
            [(subset, "rms_logodds", subset) for subset in (ALL, *templates)],
            axis,
            "Root mean square change of the log-odds of the two words that remain, over all instances and by template.",
        ),
        rejected_figure(made),
        entropy_figure(made),
        score_figure(
            "Would one answer before and one after disagree?",
            scores,
            methods,
            [("switch", "switch", ALL), ("beyond an unchanged belief", "hswitch", ALL)],
            "probability",
            "Probability that one draw before and one after name different words; and the part that a belief which "
            "does not move would not have.",
        ),
        position_figure(scores, methods),
        coverage_figure(made),
        *(
            score_figure(t.title, scores, methods, [(s, "rms_logodds", s) for s in t.subsets], axis, t.caption)
            for t in conditions
        ),
    ]
    return drawn + ([agreement_figure(made, methods[0], methods[1:])] if len(methods) > 1 else [])


def ratio_figure(made: Made) -> Figure:
    """Share of the first remaining word before against after, one panel per method (the paper's Figures 2 to 4)."""
    return panel_figure(
        "Is the ratio kept?",
        _by_method(made, "alpha_prior", "alpha_post"),
        lambda axes, rows: _heat(axes, rows["alpha_prior"], rows["alpha_post"], "before", "after"),
        "Share of the first of the two remaining words, before and after the rejection; each square counts instances, "
        "stronger is more. A coherent belief lies on the dashed line; one that leans to the word named first, to the "
        "upper right.",
        key=KEPT | COUNTS,
    )


def agreement_figure(made: Made, one: str, others: Sequence[str]) -> Figure:
    """The belief by one method against that by others in the same contexts (the paper's Figures 5 and 6)."""
    columns = ("item", "place", "alpha_prior", "alpha_post")
    mine = _read(made, one, *columns)
    pairs = {
        other: mine.merge(
            _read(made, other, *columns), on=["item", "place"], suffixes=("", "_other"), validate="one_to_one"
        )[["alpha_prior", "alpha_prior_other", "alpha_post", "alpha_post_other"]]
        for other in others
    }
    panels = [
        (f"{other}, {when}", rows[[column, f"{column}_other"]])
        for column, when in (("alpha_prior", "before"), ("alpha_post", "after"))
        for other, rows in pairs.items()
    ]
    return panel_figure(
        "Do the methods read the same belief?",
        panels,
        lambda axes, rows: _heat(axes, rows.iloc[:, 0], rows.iloc[:, 1], one, "as titled"),
        f"Share of the first of the two remaining words by {one} and by another method, in the same contexts.",
        columns=len(others),
        key={"the same": REFERENCE} | COUNTS,
    )


def rejected_figure(made: Made) -> Figure:
    """Share of the rejected word before against after (the paper's appendix E)."""
    return panel_figure(
        "Is the rejected word still given?",
        _by_method(made, "rejected_prior_share", "p_invalid_norm"),
        lambda axes, rows: _heat(axes, rows["rejected_prior_share"], rows["p_invalid_norm"], "before", "after"),
        "Share of the rejected word among the three, before and after it was ruled out: after, it should be 0.",
        key=KEPT | COUNTS,
    )


def entropy_figure(made: Made) -> Figure:
    """How decided the model is between the two words, before and after."""

    def draw(axes: Any, rows: pd.DataFrame) -> None:
        values = {"before": rows.drop_duplicates(["item", "rejected"])["entropy_prior"], "after": rows["entropy_post"]}
        for (name, entropy), line in zip(values.items(), ("--", "-"), strict=True):
            weights = np.full(entropy.count(), 1 / max(1, entropy.count()))
            axes.hist(
                entropy.dropna(), np.linspace(0, 1, BINS + 1), weights=weights, histtype="step", color=MARK,
                linestyle=line, label=name,
            )  # fmt: skip
        axes.set_xticks([0, 0.5, 1])
        axes.locator_params(axis="y", nbins=4)
        axes.set_xlabel("entropy (bits)")
        axes.set_ylabel("share of instances")
        axes.legend(loc="best", fontsize=8)

    return panel_figure(
        "How decided is it between the two words?",
        _by_method(made, "item", "rejected", "entropy_prior", "entropy_post"),
        draw,
        "Entropy of the two words that remain, dashed before and solid after the rejection: 0 is settled, 1 undecided.",
    )


def coverage_figure(made: Made) -> Figure:
    """How much of the answer the options hold, per method, before and after."""

    def draw(axes: Any, rows: pd.DataFrame) -> None:
        values = {"before": 1 - rows.drop_duplicates("item")["p_error_prior"], "after": 1 - rows["p_error_post"]}
        for height, (name, coverage) in enumerate(values.items()):
            n = min(coverage.count(), QUANTILES)
            dots = np.quantile(coverage.dropna(), np.linspace(0, 1, n)) if n else np.array([])
            axes.scatter(dots, height + np.linspace(-0.3, 0.3, n), s=3, color=MARK, linewidths=0)
            axes.plot([coverage.median()] * 2, [height - 0.4, height + 0.4], color=INK, linewidth=1.2)
            axes.text(1.0, height + 0.42, name, ha="right", va="bottom", fontsize=8)
        axes.set_xlim(0, 1)
        axes.set_xticks([0, 0.5, 1])
        axes.set_yticks([])
        axes.set_ylim(-0.6, len(values) - 0.2)
        axes.set_xlabel("coverage")

    return panel_figure(
        "How much of the answer is any of the three words?",
        _by_method(made, "item", "p_error_prior", "p_error_post"),
        draw,
        f"Read-outs, sorted; of more than {QUANTILES}, their quantiles. The bar is the median. What is missing to 1 is "
        "some other answer.",
    )


def position_figure(scores: Scores, methods: Sequence[str]) -> Figure:
    """Which place in the list is favoured before anything is said."""
    places = [(f"place {i}", f"prior_share_position_{i}", ALL) for i in (1, 2, 3)]
    return score_figure(
        "Does the place in the list decide?",
        scores,
        methods,
        places,
        "share of the three words",
        "Mean share of the word in each place, before anything is ruled out; without a bias, each has a third.",
        reference=1 / 3,
    )


def _by_method(made: Made, *columns: str) -> list[tuple[str, pd.DataFrame]]:
    return [(method, _read(made, method, *columns)) for method in made.groups(INSTANCES)]


def _read(made: Made, method: str, *columns: str) -> pd.DataFrame:
    """Columns of the instances of a method at temperature 1."""
    rows = made.read(INSTANCES, method, [*columns, "temperature"])
    return rows.loc[rows["temperature"] == 1, [*columns]]


def _heat(axes: Any, before: pd.Series, after: pd.Series, x: str, y: str) -> None:
    """How many instances lie where in the unit square; nothing is drawn where none does."""
    from matplotlib.colors import LinearSegmentedColormap, to_rgba

    defined = before.notna() & after.notna()
    edges = np.linspace(0, 1, BINS + 1)
    counts, _, _ = np.histogram2d(before[defined], after[defined], bins=(edges, edges))
    strength = LinearSegmentedColormap.from_list("", [to_rgba(MARK, 0.15), to_rgba(MARK, 1.0)])
    axes.imshow(np.where(counts > 0, counts, np.nan).T, origin="lower", extent=(0, 1, 0, 1), cmap=strength, vmin=0)
    axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
    axes.set_xticks([0, 0.5, 1])
    axes.set_yticks([0, 0.5, 1])
    axes.set_xlabel(x)
    axes.set_ylabel(y)
