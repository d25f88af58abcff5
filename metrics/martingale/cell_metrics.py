"""Tables of cells: what published numbers are over all cells and at each level, and whether forecasts are worse where
they are larger (METRICS A7, F6).
"""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd
import scipy

from ..contract import Array, Resampling
from ..inference.paired import adjust
from ..inference.pooling import Pooled, random_effects_pool
from ..metric import Line, clusters_of, compare_mean, metric, tested_mean
from ..tables.samples import Cells
from .brier import brier_on_abs_martingale

COLUMNS = "M [, se, brier, significant], or value_<name>; and model, prompt, domain, ..."
CONTROLLED = ("domain", "reasoning", "technique", "model", "prompt")
"""The order in which the published regressions take in what might confound them."""


@metric("F6", COLUMNS, Cells, compare=lambda sample: compare_mean("cells_mean", sample.value, sample), place=950)
def cells_lines(sample: Cells, how: Resampling) -> Iterator[Line]:
    """What published numbers are on average, and how many are positive; cells of one model are no independent ones."""
    name, clusters, known = sample.method, clusters_of(sample), np.isfinite(sample.value)
    yield Line("cells_mean", f"mean {name}", tested_mean(sample.value, clusters, how), _of_cells(sample, known))
    if (sample.value[known] < 0).any():
        size = np.abs(sample.value)
        beside = {"cells alone, as published": _plain(size[known])}
        yield Line("cells_mean_abs", f"mean |{name}|", tested_mean(size, clusters, how), beside)
    if sample.error is not None:
        pooled = random_effects_pool(sample.value, sample.error)
        beside = {**between_cells(name, pooled), "holds": "where no two cells are of the same questions"}
        yield Line("cells_pooled", f"{name}, cells weighing by their errors", pooled, beside)


def between_cells(name: str, pooled: Pooled) -> dict[str, str]:
    """What a pooled number says of the cells that it is over."""
    return {
        f"{name} of a new cell": f"{pooled.pi_lo:.3f}, {pooled.pi_hi:.3f}",
        "share of the variation that is between cells": f"{pooled.i2:.2f}",
        "p of no difference between cells": f"{pooled.p_heterogeneity:.3g}",
    }


def _of_cells(sample: Cells, known: Array) -> Mapping[str, str]:
    """How the paper would sum them up, their range, and how many are above 0 or significant."""
    value = sample.value[known]
    beside = {"cells alone, as published": _plain(value)}
    if len(value):
        beside["from, to"] = f"{value.min():.4f}, {value.max():.4f}"
        beside["above 0"] = f"{(value > 0).sum()} of {len(value)}"
    if sample.significant is not None:
        beside["marked as significant"] = f"{int(np.nansum(sample.significant))} of {len(value)}"
    if sample.error is not None:
        some = known & (sample.error > 0)
        p = 2 * scipy.stats.norm.sf(np.abs(sample.value[some] / sample.error[some]))
        below = [int((tests < 0.05).sum()) for tests in (p, adjust(p).p_adjusted)]
        beside["with p below 0.05 by their errors, after Holm"] = f"{below[0]}, {below[1]} of {some.sum()}"
    return beside


def _plain(value: Array) -> str:
    if len(value) < 2:
        return f"{value.mean():.4f}" if len(value) else "none"
    return "{:.4f} ± {:.4f}".format(*plain_mean(value))


def plain_mean(value: Array) -> tuple[float, float]:
    """The mean of cells [n > 0] as if they were independent, and half of its normal interval; NaN of one cell."""
    half = 1.959964 * value.std(ddof=1) / np.sqrt(len(value)) if len(value) > 1 else np.nan
    return float(value.mean()), float(half)


@metric("A7", "M, brier; and model, prompt, domain, ...", Cells, needs=("brier",), of_parts=False, place=960)
def brier_on_cells_lines(sample: Cells, how: Resampling) -> Iterator[Line]:
    """Do cells with a larger |M| forecast worse? As published, and with each possible confounder taken in."""
    assert sample.brier is not None
    yield from controlled(sample.value, sample.brier, sample.factors)


def controlled(M: Array, brier: Array, factors: Mapping[str, Array]) -> Iterator[Line]:
    """The published regressions of Brier scores [cells] on |M|: alone, then with each factor's levels held equal."""
    note = {"noise alone raises it:": "noisier updates have more of both"}
    quantity = "Brier score per unit of |M|, of the same questions, as published"
    yield Line("brier_on_abs_M", quantity, brier_on_abs_martingale(M, brier), note)
    controls_of: dict[str, Array] = {}
    order = [name for name in CONTROLLED if name in factors]
    for name in [*order, *(name for name in factors if name not in order)]:
        dummies = pd.get_dummies(pd.Series(factors[name].astype(str)), drop_first=True, dtype=float)
        if dummies.empty:
            continue
        controls_of[name] = dummies.to_numpy()
        score = brier_on_abs_martingale(M, brier, [column for x in controls_of.values() for column in x.T])
        controls = ", ".join(controls_of)
        yield Line("brier_on_abs_M", f"{quantity}, {controls} held equal", score, note, part=f"given {controls}")
