"""Draw the figure of docs/martingale.md: three kinds of belief along the same steps.

    make figures       or: python docs/martingale_figure.py [MODEL]

One run goes into it, which lies in `runs/` and is not read again. A dot is a trajectory; all three kinds are read of
the same trajectories.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from doxascope.experiments.report.plotting import INK, MARK, STYLE, drawn
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.runner import run
from doxascope.experiments.run.scores import score_run
from doxascope.experiments.suite.martingale.config import MartingaleConfig
from doxascope.experiments.suite.martingale.readings import cell_names, pairs, readings
from doxascope.metrics import MartingaleScore, MartingaleWithin
from doxascope.metrics.tables.sample_rows import WHOLE
from doxascope.metrics.tables.samples import ALL

HERE = Path(__file__).parent
SETTINGS = ("items=20",)
SHADES = (INK, MARK, "#c2703d")
"""Of the kinds."""
DASHED: Any = (0, (4, 3))
Slope = MartingaleScore | MartingaleWithin
"""Of one cell, or within several."""


def draw(
    kinds: dict[str, str],
    ends: pd.DataFrame,
    scores: dict[tuple[str, str], Slope],
    coverage: dict[str, float],
    model: str,
) -> Any:
    """Left the updates of each kind, right their slopes in each cell.

    Args:
        kinds: method -> what it is called.
        ends: first and last beliefs of every trajectory.
        scores: (cell, method) -> slope.
        coverage: method -> how much of the answer is read.
        model: its name.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    reach = float(ends["update"].abs().max()) * 1.05
    cells = list(dict.fromkeys(cell_names(ends)))
    with mpl.rc_context(STYLE | {"figure.facecolor": "white", "savefig.facecolor": "white"}):
        figure = Figure(figsize=(15, 3.9), layout="constrained")
        *panels, forest = figure.subplots(1, len(kinds) + 1, width_ratios=[1] * len(kinds) + [1.5])
        for axes, (method, name), shade in zip(panels, kinds.items(), SHADES, strict=True):
            _updates(axes, ends[ends["method"] == method], scores["all", method], coverage[method], shade, reach)
            axes.set_title(name, loc="left")
        panels[0].set_ylabel("update: last belief less first")
        _slopes(forest, cells, list(kinds), scores)
        forest.set_title(f"M by cell, {model}", loc="left")
    return figure


def _updates(axes: Any, rows: pd.DataFrame, score: Slope, coverage: float, shade: str, reach: float) -> None:
    """Update against prior, and the slope within cells, drawn through the mean of all."""
    span = np.array([rows["prior"].min(), rows["prior"].max()])
    axes.axhline(0, color=INK, linewidth=0.8, linestyle=DASHED)
    axes.scatter(rows["prior"], rows["update"], s=14, color=shade, alpha=0.45, linewidths=0)
    axes.plot(span, rows["update"].mean() + score.estimate * (span - rows["prior"].mean()), color=shade, linewidth=1.8)
    told = f"M within cells {score.estimate:+.2f} [{score.ci_lo:+.2f}, {score.ci_hi:+.2f}]\n"
    told += f"{score.n_rows} trajectories, {score.n_clusters} questions\n{coverage:.0%} of the answer is read"
    axes.text(0.03, 0.03, told, transform=axes.transAxes, fontsize=8)
    axes.set_xlim(0, 1)
    axes.set_ylim(-reach, reach)
    axes.set_xlabel("first belief")


def _slopes(axes: Any, cells: Sequence[str], methods: Sequence[str], scores: dict[tuple[str, str], Slope]) -> None:
    """Slopes with their intervals; grey: the smallest that so many questions would show."""
    axes.axvline(0, color=INK, linewidth=0.8, linestyle=DASHED)
    for i, cell in enumerate(cells):
        for j, (method, shade) in enumerate(zip(methods, SHADES, strict=True)):
            score, y = scores[cell, method], i + 0.24 * (j - 1)
            axes.fill_betweenx([y - 0.1, y + 0.1], -score.mde, score.mde, color=INK, alpha=0.1, linewidth=0)
            axes.plot([score.ci_lo, score.ci_hi], [y, y], color=shade, linewidth=1.6)
            axes.plot(score.estimate, y, "o", color=shade, markersize=4)
    axes.set_yticks(range(len(cells)), [cell.removesuffix(", none").replace(", ", "\n") for cell in cells])
    axes.set_ylim(len(cells) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("M; 0 is a martingale. Grey: too small for so few questions")


def main(model: str | None) -> None:
    """Run what is not there yet, and draw."""
    experiment, config = load_config("martingale", SETTINGS, model)
    assert isinstance(config, MartingaleConfig)
    (judge,) = config.stated.judges
    beliefs = run(experiment, config, Path("runs")).beliefs()
    kinds = {
        "words": "exact: yes or no",
        "json numbers": "said: mean of the exact distribution",
        f"judge {judge}": "judged: a second copy reads the steps",
    }
    ends = pairs(readings(beliefs), WHOLE)
    numbers = score_run(experiment, config, beliefs)
    scores = {
        (number.subset, number.method): number.score
        for number in numbers
        if number.metric == "M" and isinstance(number.score, Slope)
    }
    coverage = {n.method: n.score.estimate for n in numbers if n.metric == "coverage" and n.subset == ALL}
    figure = draw(kinds, ends[ends["method"].isin(kinds)], scores, coverage, config.model.name)
    (HERE / "martingale-figure.svg").write_text(drawn("", figure, "").svg, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
