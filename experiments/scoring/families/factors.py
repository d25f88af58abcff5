"""Where does the Martingale Score differ? (METRICS A6)"""

from collections.abc import Iterator

import numpy as np

from ....metrics import adjust, factor_regression
from ..samples import Updates
from .metric import Line, counted, metric, tosted


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


METRICS = (martingale_factors,)
