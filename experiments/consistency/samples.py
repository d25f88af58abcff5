"""The belief table as samples: instances of a rejection, all and in parts, forks, and sampled beside exact beliefs."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ..materials.entities import window_name
from ..reading.exact import SAMPLED
from ..tables.belief_parts import BeliefTable, Made
from ..tables.rows import joined
from ..tables.samples import ALL, Forks, Options, Readouts, Sample
from .config import ConsistencyConfig
from .forks import CONTROL, REVEAL, YES
from .made import FORKS, INSTANCES, made_of
from .of_method import Names, OfMethod, mentioned, of_method

BALANCED = "template-balanced"
LIKELIER, UNLIKELIER = "prefilled turn likelier", "prefilled turn unlikelier"
OF_PARTS = ("forced_logp", "order")
"""Columns by which instances are parted, besides those that every instance has."""


def samples(config: ConsistencyConfig, beliefs: BeliefTable) -> Iterator[Sample]:
    """See `Experiment.samples`. What one method has said is in memory at a time."""
    made, names = made_of(beliefs), Names()
    methods = made.groups(INSTANCES)
    for method in methods:
        yield from _of_method(config, made, of_method(made, method, names, OF_PARTS))
    for method in methods:
        if (made.read(INSTANCES, method, ["estimate"])["estimate"] == SAMPLED).all():
            yield _beside_exact(made, method)
    yield from _forks(made)


def _of_method(config: ConsistencyConfig, made: Made, own: OfMethod) -> Iterator[Options]:
    every = own.chosen(own.rows["temperature"] == 1)
    yield replace(options(every), **_judged(config, made, every))
    templates = every.rows["template"]
    yield replace(options(every, BALANCED), strata=templates.to_numpy())
    for template in templates.unique():
        yield options(every.chosen(templates == template), str(template))
    for subset, chosen in parts(config, own.rows).items():
        yield options(own.chosen(chosen), subset)


def _judged(config: ConsistencyConfig, made: Made, every: OfMethod) -> dict[str, Any]:
    """What the gate of a method looks at besides its instances."""
    return {
        "template": every.rows["template"].to_numpy(),
        "mentioned": mentioned(made, every),
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


def options(own: OfMethod, subset: str = ALL) -> Options:
    """Instances of one method as a sample."""
    rows = own.rows
    return Options(
        kind=own.kind,
        method=own.method,
        subset=subset,
        prior=own.before,
        posterior=own.after,
        words_prior=own.alone,
        words_posterior=own.alone,
        rejected=rows["rejected"].to_numpy(),
        position=rows["place"].to_numpy(),
        clusters=rows["cluster"].to_numpy(),
        keys=own.keys,
        why=rows["why"].to_numpy(dtype=object),
        n_prior=rows["n_prior"].to_numpy() if "n_prior" in rows else None,
        n_posterior=rows["n_posterior"].to_numpy() if "n_posterior" in rows else None,
    )


def _beside_exact(made: Made, method: str) -> Readouts:
    """Sampled instances, and those that they derive from (METRICS B8)."""
    columns = ("alpha_prior", "alpha_post")
    sampled = made.read(INSTANCES, method, ["kind", "of", "cluster", *columns])
    every = pd.concat([made.read(INSTANCES, one, ["readout_id", *columns]) for one in made.groups(INSTANCES)])
    pairs = every.merge(sampled, left_on="readout_id", right_on="of", suffixes=("_exact", ""), validate="one_to_one")
    return Readouts(
        kind=str(sampled["kind"].iloc[0]),
        method=method,
        free=np.vstack([two_classes(pairs[name]) for name in columns]),
        closed=np.vstack([two_classes(pairs[f"{name}_exact"]) for name in columns]),
        context=np.repeat(["prior", "posterior"], len(pairs)),
        clusters=np.tile(pairs["cluster"].to_numpy(), 2),
    )


def two_classes(alpha: pd.Series) -> np.ndarray:
    """[n, 2] shares of the two words."""
    return np.column_stack([alpha, 1 - alpha])


def _forks(made: Made) -> Iterator[Forks]:
    """Per method of revealing: nothing written down, and the positive control."""
    for control in (False, True):
        for method in made.groups(FORKS):
            rows = made.read(FORKS, method, ["item", "cluster", "hidden", "coverage", *YES, *REVEAL])
            rows = rows[(rows["hidden"] >= 0) == control]
            yield Forks(
                kind="exact",
                method=method,
                subset=CONTROL if control else ALL,
                q=rows[[*YES]].to_numpy(),
                r=rows[[*REVEAL]].to_numpy(),
                coverage=rows["coverage"].to_numpy(),
                clusters=rows["cluster"].to_numpy(),
                keys=joined(rows["item"].to_numpy(), rows["hidden"].to_numpy()),
            )
