"""The figures of a validation: what is held against what is said, and where a belief lies."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import expit

from ..experiment import Figure
from ..report.plotting import INK, MARK, REFERENCE, panel_figure
from .beliefs import ANSWER, PROBE
from .numbers import SHARE, TOLERANCE
from .recover import Organism
from .where import PARTS


def lead_figure(found: Sequence[Organism]) -> Figure:
    """Belief against exact posterior, in the answer and at the summary, an organism a panel."""

    def draw(axes: Any, one: Organism) -> None:
        truth = expit(one.posterior)
        axes.plot([0, 1], [0, 1], **REFERENCE)
        axes.plot(truth, expit(one.sides.plain[ANSWER]), "o", color=INK, markersize=1.6, alpha=0.5)
        axes.plot(truth, expit(one.sides.told[ANSWER]), "x", color=INK, markersize=1.6, alpha=0.35)
        axes.plot(truth, expit(one.sides.plain[PROBE]), "o", color=MARK, markersize=1.6, alpha=0.7)
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
        axes.set_xlabel("exact posterior")
        axes.set_ylabel("belief")

    key = {
        "answer": {"color": INK, "marker": "o", "markersize": 3, "linestyle": "none"},
        "answer, after the user says left": {"color": INK, "marker": "x", "markersize": 3, "linestyle": "none"},
        "probe at the summary": {"color": MARK, "marker": "o", "markersize": 3, "linestyle": "none"},
    }
    caption = (
        "Each organism's answers, and what a cross-fitted probe reads of it before the question, against the exact "
        "posterior, in contexts that it was not trained on."
    )
    return panel_figure("Said and held", [(one.species.name, one) for one in found], draw, caption, columns=4, key=key)


def map_figure(found: Sequence[Organism]) -> Figure:
    """Share of an update that moves with the residual stream, part of the prompt by layer."""

    def draw(axes: Any, one: Organism) -> None:
        layers = len(one.map) // len(PARTS)
        grid = np.array([cell.score.estimate for cell in one.map]).reshape(len(PARTS), layers)
        axes.imshow(np.nan_to_num(grid), vmin=0, vmax=1, cmap="Greys", aspect="auto")
        if grid.max() < TOLERANCE[SHARE]:  # false where a cell is missing
            axes.text(0.5, 0.5, "nothing moves\nthe answer", transform=axes.transAxes, ha="center", va="center")
        axes.set_yticks(range(len(PARTS)), PARTS)
        axes.set_xticks(range(layers))
        axes.set_xlabel("layer")

    caption = (
        "Share of the posterior's update that moves the answer with the residual stream of one part of the prompt "
        "after one block, exchanged between minimal pairs: black is all of it."
    )
    return panel_figure("Where it lies", [(one.species.name, one) for one in found], draw, caption, columns=3)
