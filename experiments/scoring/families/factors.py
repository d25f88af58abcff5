"""Where does the Martingale Score differ, and what is it over all? (METRICS A6, A7, F6)"""

from collections.abc import Iterator

import numpy as np

from ....metrics import adjust, brier_on_split_martingale, factor_regression, martingale_score, random_effects_pool
from ....metrics.inference.pooling import Pooled
from ..cells import Array
from ..samples import Updates
from .metric import Line, clusters_of, counted, known_outcome, metric, tosted


@metric("A6", "prior, posterior, factor_<name> [, factor_<name>, ...]", Updates, needs=("factors",))
def martingale_factors(sample: Updates, seed: int) -> Iterator[Line]:
    """M at each level of a factor, and what levels differ by; an effect only where the level was assigned."""
    assert sample.factors is not None
    pairs = sample.whole
    update = pairs.posterior - pairs.prior
    baselines = {factor: min(levels.astype(str)) for factor, levels in sample.factors.items()}
    se = "HC3" if pairs.clusters is None else "CR1"
    found = factor_regression(update, pairs.prior, sample.factors, baselines, pairs.clusters, se=se)
    others = {"over all rows, had they had that level": "other factors as they are"} if len(baselines) > 1 else {}
    for name, term in found.marginal.items():
        df = term.n_clusters - 1 if se == "CR1" else term.n_rows - len(found.terms)
        yield Line(f"M at {name}", counted(term, pairs, update), others, tosted(term, "martingale", df=df))
    contrasts = {name: term for name, term in found.terms.items() if name.startswith("b:")}
    few = {name: term.p_wild for name, term in contrasts.items() if np.isfinite(term.p_wild)}
    adjusted = adjust([few.get(name, term.p) for name, term in contrasts.items()])
    for (name, term), p in zip(contrasts.items(), adjusted.p_adjusted, strict=True):
        factor = name.removeprefix("b:").split("[")[0]
        beside = {"p by wild cluster bootstrap": f"{few[name]:.3g}"} if name in few else {}
        if np.isfinite(p):
            beside[f"adjusted by Holm over {adjusted.family_size}"] = f"{p:.3g}"
        quantity = f"M at {name.removeprefix('b:')} less {baselines[factor]}"
        yield Line(quantity, counted(term, pairs, update), beside)


@metric("F6", "prior, posterior, factor_<name> [, factor_<name>, ...]", Updates, needs=("factors",))
def martingale_pooled(sample: Updates, seed: int) -> Iterator[Line]:
    """M over cells that need not share one, where no cluster is in two of them: random-effects mean and its range."""
    cells, clusters = _cells(sample), clusters_of(sample.whole)
    owners = {(str(cell), str(cluster)) for cell, cluster in zip(cells, clusters, strict=True)}
    if len(owners) > len({cluster for _, cluster in owners}):
        yield Line("M over cells", Pooled(status="shared_clusters"))
        return
    pairs = sample.whole
    se = "HC3" if pairs.clusters is None else "CR1"
    found = [
        martingale_score(pairs.prior[here], pairs.posterior[here], None if se == "HC3" else clusters[here], se=se)
        for here in (cells == cell for cell in dict.fromkeys(cells))
    ]
    pooled = random_effects_pool([one.M for one in found], [one.se for one in found])
    beside = {
        "M of a new cell": f"{pooled.pi_lo:.3f}, {pooled.pi_hi:.3f}",
        "share of the variation that is between cells": f"{pooled.i2:.2f}",
        "p of no difference between cells": f"{pooled.p_heterogeneity:.3g}",
    }
    yield Line(f"M over {len(found)} cells", pooled, beside)


@metric("A7", "outcome, prior, posterior, cluster, factor_<name> [, ...]", Updates, needs=("factors", "outcome"))
def brier_on_martingale(sample: Updates, seed: int) -> Iterator[Line]:
    """Do cells with a larger M forecast worse? M from half the questions, the Brier score from the other half."""
    pairs = sample.whole
    found = brier_on_split_martingale(
        pairs.prior, pairs.posterior, known_outcome(sample), clusters_of(pairs), _cells(sample), seed=seed
    )
    yield Line("change of the Brier score per unit of M", found, {"cells": str(found.n_cells)})


def _cells(sample: Updates) -> Array:
    """[n] the combination of levels of each pair."""
    assert sample.factors is not None
    levels = zip(*(values.astype(str) for values in sample.factors.values()), strict=True)
    return np.array([" / ".join(row) for row in levels])


METRICS = (martingale_factors, martingale_pooled, brier_on_martingale)
