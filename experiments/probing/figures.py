"""Figures of a probe's page: the curve over layers with the band of permuted targets, and heads as a map."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...probes.data.features import ReadAt
from ...probes.evidence.study import Study
from ...probes.selection.sweep import Sweep
from ..experiment import Figure
from ..report.plotting import INK, MARK, course, panel_figure

BASELINE: Any = (0, (1, 2))
KEY = {
    "probe": {"color": MARK, "marker": "o", "markersize": 2.5, "linewidth": 1},
    "registered": {"color": MARK, "marker": "s", "markersize": 6, "fillstyle": "none", "linewidth": 1.6},
    "best baseline": {"color": INK, "linewidth": 0.9, "linestyle": BASELINE},
}
PERMUTED: Any = {"facecolor": INK, "alpha": 0.12}


def curve_figure(found: Sweep, study: Study) -> Figure:
    """R2 over layers, a panel for each site and position."""
    panels: dict[str, list[int]] = {}
    for i, at in enumerate(found.points):
        if at.head is None:
            panels.setdefault(f"{at.site}, {at.position}", []).append(i)
    floor = max(min(-0.05, float(found.r2.min()), study.numbers["r2"].lo), -1.0)
    best = max(study.baselines.values(), default=0.0)
    layers_seen = [at.layer for at in found.points]
    highest = max(0.2, 1.1 * float(found.r2.max()), 1.1 * best, study.numbers["r2"].hi)

    def draw(axes: Any, mine: list[int]) -> None:
        layers = [found.points[i].layer for i in mine]
        axes.axhspan(2 * floor - highest, found.band, color=INK, alpha=0.12, linewidth=0)
        axes.axhline(0.0, color=INK, linewidth=0.6)
        axes.axhline(best, color=INK, linewidth=0.9, linestyle=BASELINE)
        course(axes, layers, np.maximum(found.r2[mine], floor), color=MARK, markersize=2.5, linewidth=1)
        for i in mine:
            if found.points[i] == study.at:
                own = study.numbers["r2"]
                axes.plot([study.at.layer] * 2, [max(own.lo, floor), own.hi], color=MARK, linewidth=1.6)
                axes.plot(study.at.layer, own.value, "s", color=MARK, markersize=6, fillstyle="none")
        margin = 0.06 * (highest - floor)
        axes.set_ylim(floor - margin, highest + margin)
        axes.set_xlim(min(layers_seen) - 0.5, max(layers_seen) + 0.5)
        axes.set_xlabel("layer")
        axes.set_ylabel("out-of-fold R2")
        whole_ticks(axes, "x")

    caption = (
        f"R2 on held-out groups at every layer. Shaded: what the best of all {len(found.points)} places stays below in "
        f"{found.level:.0%} of the permutations, the choice of penalty and place repeated in each. Square: the "
        "registered layer, with its interval. Dotted: the best baseline that needs no inner layer."
    )
    key = KEY | {f"best place of {found.level:.0%} of permutations": PERMUTED}
    return panel_figure("R2 over layers", list(panels.items()), draw, caption, columns=3, key=key)


def whole_ticks(axes: Any, which: str) -> None:
    """Few of them, on whole numbers: even where there is one only."""
    axes.locator_params(axis=which, nbins=5, integer=True, min_n_ticks=1)


def head_maps(found: Sweep) -> Figure | None:
    """R2 by layer and head; None without heads, or where no head has an R2 above 0."""
    maps: dict[str, dict[tuple[int, int], float]] = {}
    for at, r2 in zip(found.points, found.r2, strict=True):
        if at.head is not None:
            maps.setdefault(at.position, {})[at.layer, at.head] = float(r2)
    darkest = max((r2 for cells in maps.values() for r2 in cells.values()), default=0.0)
    if darkest <= 0:
        return None

    def draw(axes: Any, cells: Mapping[tuple[int, int], float]) -> None:
        layers, heads = (range(min(every), max(every) + 1) for every in zip(*cells, strict=True))
        grid = np.array([[cells.get((layer, head), np.nan) for layer in layers] for head in heads])
        axes.imshow(
            grid,
            vmin=0,
            vmax=max(found.band, darkest),
            cmap="Greys",
            aspect="auto",
            origin="lower",
            extent=(layers[0] - 0.5, layers[-1] + 0.5, heads[0] - 0.5, heads[-1] + 0.5),
        )
        above = np.array([place for place, r2 in cells.items() if r2 > found.band]).reshape(-1, 2)
        axes.plot(above[:, 0], above[:, 1], "s", color=MARK, markersize=3, fillstyle="none")
        axes.set_xlabel("layer")
        axes.set_ylabel("head")
        whole_ticks(axes, "x")
        whole_ticks(axes, "y")

    caption = (
        "R2 on held-out groups, from white (at most 0, or a layer that was not captured) to black "
        f"({max(found.band, darkest):.3f}). Framed, and only that is decodable: above {found.band:.3f}, which the best "
        f"of all {len(found.points)} places stays below in {found.level:.0%} of the permutations."
    )
    return panel_figure("R2 of heads", list(maps.items()), draw, caption, columns=3)


def strongest(found: Sweep) -> ReadAt:
    """The place of the highest R2."""
    return found.points[int(np.argmax(found.r2))]
