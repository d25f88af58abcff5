"""The belief table as samples: instances of a rejection, all and in parts, forks, and sampled beside exact beliefs."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ..materials.entities import window_name
from ..reading.exact import SAMPLED
from ..tables.samples import ALL, Options, Readouts, Sample
from .config import ConsistencyConfig
from .forks import forks
from .instances import AFTER, BEFORE, MENTIONED, at_one, instances
from .words import ALONE_AFTER, ALONE_BEFORE, with_words

BALANCED = "template-balanced"
LIKELIER, UNLIKELIER = "prefilled turn likelier", "prefilled turn unlikelier"


def samples(config: ConsistencyConfig, beliefs: pd.DataFrame) -> Iterator[Sample]:
    """See `Experiment.samples`."""
    swept, told = instances(beliefs), at_one(beliefs)
    by_method = {
        str(method): with_words(told[told["method"] == method], rows)
        for method, rows in swept.groupby("method", sort=False, observed=True)
    }
    for table in by_method.values():
        every = table[table["temperature"] == 1]
        yield replace(options(every), **_judged(config, every))
        yield replace(options(every, BALANCED), strata=every["template"].to_numpy())
        for template, rows in every.groupby("template", sort=False):
            yield options(rows, str(template))
        for subset, chosen in parts(config, table).items():
            yield options(table, subset, chosen)
    for table in by_method.values():
        if (table["estimate"] == SAMPLED).all():
            yield _beside_exact(table, swept)
    yield from forks(config, told)


def _judged(config: ConsistencyConfig, every: pd.DataFrame) -> dict[str, Any]:
    """What the gate of a method looks at besides its instances."""
    return {
        "template": every["template"].to_numpy(),
        "mentioned": every[list(MENTIONED)].to_numpy(),
        "min_coverage": config.low_coverage,
    }


def parts(config: ConsistencyConfig, table: pd.DataFrame) -> dict[str, pd.Series]:
    """Which instances meet a condition: temperature, coverage, order and likelihood of the words, and likelihood of the
    prefilled turn.

    Args:
        config: says which conditions.
        table: instances of one method at all temperatures.
    """
    one = table["temperature"] == 1
    windows = config.entities.windows
    found = {f"T = {t:g}": table["temperature"] == t for t in sorted(table["temperature"].unique())}
    found = found if config.temperatures else {}
    found |= {f"coverage >= {least:g}": one & (table["coverage"] >= least) for least in config.coverage_thresholds}
    if config.orders != "one":
        found |= {f"order {order}": one & (table["order"] == order) for order in sorted(table["order"].unique())}
    for name in map(window_name, windows if len(windows) > 1 else ()):
        found[name] = one & table["item"].str.startswith(f"{name}:")
    if (said := table["forced_logp"].where(one)).notna().any():
        middle = said.groupby(table["template"]).transform("median")
        found |= {LIKELIER: one & (said > middle), UNLIKELIER: one & (said <= middle)}
    return found


def options(table: pd.DataFrame, subset: str = ALL, chosen: pd.Series | None = None) -> Options:
    """The instances of one method (as `with_words` has them), or those that are chosen."""
    rows = table if chosen is None else table[chosen]
    counted = (table["n_prior"] + table["n_posterior"]).notna().any()
    return Options(
        kind=str(table["kind"].iloc[0]),
        method=str(table["method"].iloc[0]),
        subset=subset,
        prior=rows[list(BEFORE)].to_numpy(),
        posterior=rows[list(AFTER)].to_numpy(),
        words_prior=rows[list(ALONE_BEFORE)].to_numpy(),
        words_posterior=rows[list(ALONE_AFTER)].to_numpy(),
        rejected=rows["rejected"].to_numpy(),
        position=rows["place"].to_numpy(),
        clusters=rows["cluster"].to_numpy(),
        keys=rows["key"].to_numpy(),
        why=rows["why"].to_numpy(dtype=object),
        n_prior=rows["n_prior"].to_numpy() if counted else None,
        n_posterior=rows["n_posterior"].to_numpy() if counted else None,
    )


def _beside_exact(sampled: pd.DataFrame, every: pd.DataFrame) -> Readouts:
    """Sampled instances, and those that they derive from (METRICS B8)."""
    pairs = every.merge(sampled, left_on="readout_id", right_on="of", suffixes=("_exact", ""), validate="one_to_one")
    columns = ("alpha_prior", "alpha_post")
    return Readouts(
        kind=str(sampled["kind"].iloc[0]),
        method=str(sampled["method"].iloc[0]),
        free=np.vstack([two_classes(pairs[name]) for name in columns]),
        closed=np.vstack([two_classes(pairs[f"{name}_exact"]) for name in columns]),
        context=np.repeat(["prior", "posterior"], len(pairs)),
        clusters=np.tile(pairs["cluster"].to_numpy(), 2),
    )


def two_classes(alpha: pd.Series) -> np.ndarray:
    """[n, 2] shares of the two words."""
    return np.column_stack([alpha, 1 - alpha])
