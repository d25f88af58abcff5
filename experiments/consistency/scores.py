"""Every number of a run, from its belief table alone (METRICS B, W1, W4)."""

from collections.abc import Iterator, Mapping
from itertools import combinations

import numpy as np
import pandas as pd

from ...metrics import (
    Score,
    consistency_kappa,
    invalid_association,
    paired_difference_moments,
    paired_family,
    readout_agreement,
)
from ..experiment import Cell
from ..materials.entities import window_name
from ..reading.exact import SAMPLED
from .config import ConsistencyConfig
from .forks import fork_scores
from .gate import gates
from .instances import INSTANCE_METRICS, conditions, instances
from .mean import ALL, Means
from .orders import order_share
from .second import second_scores
from .words import word_kappas

BALANCED = "template-balanced"
CONDITIONAL_METRICS = ("c2", "c3", "p_invalid_norm", "entropy_prior", "entropy_post", "coverage")
"""What is told of the instances that meet a condition."""


def scores(config: ConsistencyConfig, beliefs: pd.DataFrame) -> list[Cell]:
    """METRICS B2, B3 and B8 to B12 per method, over all instances and over parts of them; the forks (W1)."""
    swept = instances(beliefs)
    every = swept[swept["temperature"] == 1]
    readouts = conditions(beliefs)
    told = beliefs[beliefs["readout_id"].isin(readouts.loc[readouts["temperature"] == 1, "readout_id"])]
    cells: list[Cell] = []
    for (method, kind, estimate, of), table in every.groupby(
        ["method", "kind", "estimate", "of"], sort=False, dropna=False
    ):
        means = Means(config, str(method), str(kind))
        for subset, rows, strata in _templates(table):
            cells += [means.cell(metric, subset, rows, strata=strata) for metric in INSTANCE_METRICS]
            for bound, fill in (("c2_lower", 0.0), ("c2_upper", 1.0)):
                cells.append(means.cell(bound, subset, rows, rows["c2"].fillna(fill), strata))
        own = told[told["method"] == method]
        whole = {**_whole_table(config, table), **word_kappas(config, own, table)}
        cells += [Cell(metric, means.method, ALL, score, means.kind) for metric, score in whole.items()]
        cells += _about_read_outs(means, own)
        cells += second_scores(means, own, table)
        if table["c2_corrected"].notna().any():
            cells.append(means.cell("c2_corrected", ALL, table))
        if estimate == SAMPLED:
            cells += _agreements(means, every[every["method"] == of], table)
    for (method, kind), table in swept.groupby(["method", "kind"], sort=False):
        means = Means(config, str(method), str(kind))
        for subset, rows in _conditions(config, table):
            cells += [means.cell(metric, subset, rows) for metric in CONDITIONAL_METRICS]
    return cells + fork_scores(config, told) + _differences(config, every)


def _templates(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame, pd.Series | None]]:
    """(name, rows, strata): all instances in the paper's 3:6 weights, the templates balanced, and each alone."""
    alone = [(str(name), rows, None) for name, rows in table.groupby("template", sort=False)]
    return [(ALL, table, None), (BALANCED, table, table["template"]), *alone]


def _conditions(config: ConsistencyConfig, swept: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """(name, rows): by temperature, coverage, order and likelihood of the words, and likelihood of the forced turn."""
    for temperature, rows in swept.groupby("temperature"):
        if config.temperatures:
            yield f"T = {temperature:g}", rows
    table = swept[swept["temperature"] == 1]
    for threshold in config.coverage_thresholds:
        yield f"coverage >= {threshold:g}", table[table["coverage"] >= threshold]
    if config.orders != "one":
        for order, rows in table.groupby("order"):
            yield f"order {order}", rows
    for window in config.entities.windows if len(config.entities.windows) > 1 else ():
        yield window_name(window), table[table["item"].str.startswith(f"{window_name(window)}:")]
    if table["forced_logp"].notna().any():
        middle = table.groupby("template")["forced_logp"].transform("median")
        yield "forced turn likelier", table[table["forced_logp"] > middle]
        yield "forced turn unlikelier", table[table["forced_logp"] <= middle]


def _about_read_outs(means: Means, beliefs: pd.DataFrame) -> list[Cell]:
    """Thoughts that were not closed, coverage before and after, and the prior's share of each position."""
    readouts = conditions(beliefs)
    prior = beliefs[beliefs["scenario"] == "prior"]
    unclosed = readouts["unclosed"] / readouts["thoughts"]
    return [
        *([means.cell("unclosed", ALL, readouts, unclosed)] if unclosed.notna().any() else []),
        *(
            means.cell(f"coverage_{scenario}", ALL, rows, rows["coverage"])
            for scenario in ("prior", "posterior")
            for rows in [readouts[readouts["scenario"] == scenario]]
        ),
        *(
            means.cell(f"prior_share_position_{int(str(place)) + 1}", ALL, rows, rows["prob"])
            for place, rows in prior.groupby("option_index")
        ),
    ]


def _whole_table(config: ConsistencyConfig, table: pd.DataFrame) -> Mapping[str, Score]:
    """The scores that are no means over instances: chance-corrected consistency, the competence gate, whether the
    rejected word is given where it was likely before, and what the order of the words does.
    """
    settings = {"seed": config.seed, "draws": config.bootstrap_draws, "level": config.level}
    association = invalid_association(
        table["rejected_prior_share"], table["p_invalid_norm"], table["cluster"].to_numpy(), **settings
    )
    orders = {} if config.orders == "one" else {"order_share": order_share(config, table)}
    return {"kappa": chance_kappa(config, table), "invalid_association": association, **gates(config, table), **orders}


def chance_kappa(config: ConsistencyConfig, table: pd.DataFrame) -> Score:
    """Consistency above that with the posterior of another triple (METRICS B12)."""
    defined = table.dropna(subset=["alpha_prior", "alpha_post"])
    return consistency_kappa(
        _two_classes(defined["alpha_prior"]),
        _two_classes(defined["alpha_post"]),
        defined["cluster"].to_numpy(),
        defined["place"].to_numpy(),
        seed=config.seed,
        draws=config.bootstrap_draws,
        level=config.level,
    )


def _agreements(means: Means, exact: pd.DataFrame, sampled: pd.DataFrame) -> list[Cell]:
    """METRICS B8: the sampled belief beside the exact one in the same contexts."""
    pairs = exact.merge(sampled, on=["item", "place"], suffixes=("_exact", ""), validate="one_to_one")
    cells = []
    for name, column in (("prior", "alpha_prior"), ("posterior", "alpha_post")):
        agreement = readout_agreement(_two_classes(pairs[f"{column}_exact"]), _two_classes(pairs[column]))
        cells.append(means.cell(f"agreement_{name}", ALL, pairs, pd.Series(agreement)))
    return cells


def _differences(config: ConsistencyConfig, table: pd.DataFrame) -> list[Cell]:
    """Consistency of each method less each other's, on the same instances, p adjusted for all of them (Holm)."""
    by_method = {str(m): rows.set_index(["item", "place"]) for m, rows in table.groupby("method", sort=False)}
    compared = {}
    for (one, first), (two, second) in combinations(by_method.items(), 2):
        mine, theirs = first["c2"], second.loc[first.index, "c2"]
        compared[f"{one} - {two}"] = paired_difference_moments(
            np.column_stack([mine, np.ones(len(mine))]),
            np.column_stack([theirs, np.ones(len(theirs))]),
            lambda sums: sums[:, 0] / sums[:, 1],
            first["cluster"].to_numpy(),
            seed=config.seed,
            draws=config.bootstrap_draws,
            level=config.level,
        )
    return [Cell("c2_difference", pair, ALL, score) for pair, score in paired_family(compared).items()]


def _two_classes(alpha: pd.Series) -> np.ndarray:
    return np.column_stack([alpha, 1 - alpha])
