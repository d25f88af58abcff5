"""The pictures of the consistency report."""

from typing import Any

import numpy as np
import pandas as pd

from ..plotting import INK, figure_of_panels, to_svg
from ..protocol import Figure

BINS = 20


def ratio_figure(table: pd.DataFrame) -> Figure:
    """Share of the first remaining word before against after, one panel per method."""

    def draw(axes: Any, rows: pd.DataFrame) -> None:
        defined = rows.dropna(subset=["alpha_prior", "alpha_post"])
        edges = np.linspace(0, 1, BINS + 1)
        counts, _, _ = np.histogram2d(defined["alpha_prior"], defined["alpha_post"], bins=(edges, edges))
        axes.imshow(
            np.where(counts > 0, counts, np.nan).T, origin="lower", extent=(0, 1, 0, 1), cmap="viridis_r", vmin=0
        )
        axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
        axes.set_xlabel("before")
        axes.set_ylabel("after")

    panels = [(str(method), rows) for method, rows in table.groupby("method", sort=False)]
    return Figure(
        title="Is the ratio kept?",
        svg=to_svg(figure_of_panels(panels, draw)),
        caption=(
            "Share of the first of the two remaining words, before and after the rejection; each square counts "
            "instances, darker is more. A coherent belief lies on the dashed line."
        ),
    )


def coverage_figure(beliefs: pd.DataFrame) -> Figure:
    """How much of the answer the options hold, per method, before and after."""

    def draw(axes: Any, rows: pd.DataFrame) -> None:
        groups = [(str(name), part["coverage"].to_numpy()) for name, part in rows.groupby("scenario", sort=False)]
        for height, (name, coverage) in enumerate(groups):
            spread = np.linspace(-0.3, 0.3, len(coverage))
            axes.scatter(np.sort(coverage), height + spread, s=3, color=f"C{height}", linewidths=0)
            axes.plot([np.median(coverage)] * 2, [height - 0.4, height + 0.4], color=INK, linewidth=1.2)
            axes.text(1.0, height + 0.42, name, ha="right", va="bottom", fontsize=8)
        axes.set_xlim(0, 1)
        axes.set_yticks([])
        axes.set_ylim(-0.6, len(groups) - 0.2)
        axes.set_xlabel("coverage")

    readouts = beliefs.drop_duplicates("readout_id")
    panels = [(str(method), rows) for method, rows in readouts.groupby("method", sort=False)]
    return Figure(
        title="How much of the answer is any of the three words?",
        svg=to_svg(figure_of_panels(panels, draw)),
        caption="Each dot is a read-out, sorted; the bar is the median. What is missing to 1 is some other answer.",
    )
