"""Where does the Martingale Score differ, and what is it over all? (METRICS A6, A7, F6)"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from ....metrics import (
    MartingaleScore,
    adjust,
    brier_on_abs_martingale,
    brier_on_split_martingale,
    factor_regression,
    martingale_score,
    random_effects_pool,
)
from ....metrics.inference.pooling import Pooled
from ...tables.cells import Array
from ...tables.rows import cells
from ...tables.updates import Updates
from ..number import Resampling
from .martingale import disagree, withheld, wordings_of
from .metric import Line, clusters_of, known_outcome, metric, tosted, with_drop_reasons


@metric("A6", "prior, posterior, factor_<name> [, factor_<name>, ...]", Updates, needs=("factors",))
def martingale_factors(sample: Updates, how: Resampling) -> Iterator[Line]:
    """M at each level of a factor, and what levels differ by; an effect only where the level was assigned."""
    assert sample.factors is not None
    pairs = sample.whole
    update = pairs.posterior - pairs.prior
    view = "".join(f", {name}" for name in list(sample.views)[-1:] if name)
    baselines = {factor: _baseline(sample, factor, levels) for factor, levels in sample.factors.items()}
    found = factor_regression(update, pairs.prior, sample.factors, baselines, pairs.clusters, se="CR3", **how.interval)
    others = {"over all rows, had they had that level": "other factors as they are"} if len(baselines) > 1 else {}
    none = disagree(wordings_of(sample, pairs, how))
    for name, term in found.marginal.items():
        told = with_drop_reasons(withheld(term) if none else term, pairs, update)
        yield Line("M_at", f"M at {name}{view}", told, others, tosted(told, "martingale"), part=name)
    contrasts = {n: withheld(term) if none else term for n, term in found.terms.items() if n.startswith("b:")}
    adjusted = adjust([term.p for term in contrasts.values()])
    for (name, term), p in zip(contrasts.items(), adjusted.p_adjusted, strict=True):
        factor = name.removeprefix("b:").split("[")[0]
        beside = {f"adjusted by Holm over {adjusted.family_size}": f"{p:.3g}"} if np.isfinite(p) else {}
        quantity = f"M at {name.removeprefix('b:')} less {baselines[factor]}{view}"
        told = with_drop_reasons(term, pairs, update)
        yield Line("M_contrast", quantity, told, beside, part=name.removeprefix("b:"))


@metric("F6", "prior, posterior, factor_<name> [, factor_<name>, ...]", Updates, needs=("factors",))
def martingale_pooled(sample: Updates, how: Resampling) -> Iterator[Line]:
    """M over cells that need not share one, where no cluster is in two of them: random-effects mean and its range."""
    assert sample.factors is not None
    apart = {name: values for name, values in sample.factors.items() if _nested(clusters_of(sample.whole), values)}
    if not apart:
        yield Line("M_pooled", "M over cells", Pooled(status="shared_clusters"))
        return
    found = _by_cell(sample, cells(apart)).values()
    pooled = random_effects_pool([one.M for one in found], [one.se for one in found])
    beside = {
        "M of a new cell": f"{pooled.pi_lo:.3f}, {pooled.pi_hi:.3f}",
        "share of the variation that is between cells": f"{pooled.i2:.2f}",
        "p of no difference between cells": f"{pooled.p_heterogeneity:.3g}",
    }
    shared = [name for name in sample.factors if name not in apart]
    beside |= {"clusters are shared between levels of": ", ".join(shared)} if shared else {}
    yield Line("M_pooled", f"M over {len(found)} cells of {', '.join(apart)}", pooled, beside)


@metric("A7", "outcome, prior, posterior, cluster, factor_<name> [, ...]", Updates, needs=("factors", "outcome"))
def brier_on_martingale(sample: Updates, how: Resampling) -> Iterator[Line]:
    """Do cells with a larger M forecast worse? M from half the questions, the Brier score from the other half."""
    assert sample.factors is not None
    pairs, outcome, cell = sample.whole, known_outcome(sample), cells(sample.factors)
    found = brier_on_split_martingale(pairs.prior, pairs.posterior, outcome, clusters_of(pairs), cell, **how.interval)
    yield Line("brier_on_M", "change of the Brier score per unit of M", found, {"cells": str(found.n_cells)})
    slopes = [one.M for one in _by_cell(sample, cell).values()]
    scores = pd.Series((pairs.posterior - outcome) ** 2).groupby(cell, sort=False).mean()
    published = brier_on_abs_martingale(slopes, scores)
    yield Line(
        "brier_on_abs_M",
        "Brier score per unit of |M|, of the same questions, as published",
        published,
        {"noise alone raises it:": "noisier updates have more of both"},
    )


def _baseline(sample: Updates, factor: str, levels: Array) -> str:
    """The level to compare with: the sample's, if it is there, else the first by name."""
    known = set(levels.astype(str))
    return wanted if (wanted := sample.baselines.get(factor, "")) in known else min(known)


def _by_cell(sample: Updates, cell: Array) -> dict[str, MartingaleScore]:
    """Cell -> M, in the order of their first rows."""
    pairs, clusters = sample.whole, clusters_of(sample.whole)
    return {
        name: martingale_score(pairs.prior[here], pairs.posterior[here], clusters[here], se="CR3")
        for name in dict.fromkeys(cell.tolist())
        for here in [cell == name]
    }


def _nested(clusters: Array, values: Array) -> bool:
    """Whether each cluster has one level."""
    return bool((pd.Series(values.astype(str)).groupby(clusters.astype(str)).nunique() == 1).all())


METRICS = (martingale_factors, martingale_pooled, brier_on_martingale)
