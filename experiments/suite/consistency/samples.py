"""The stored instances as samples: of rejections, forks, and sampled beside exact beliefs, and the numbers that only
this experiment has (METRICS B8, B11).
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ....metrics import Score, reliability_icc, word_identity_null
from ....metrics.contract import Floats
from ....metrics.inference.means import UNIT
from ....metrics.number import Number
from ....metrics.tables.belief_parts import BeliefTable, StoredTables
from ....metrics.tables.cells import Array
from ....metrics.tables.sample_rows import joined, part_of
from ....metrics.tables.samples import ALL, Options, Readouts, Sample
from ....metrics.tables.whitebox_samples import Forks
from ...materials.entities import window_name
from ...run.readouts import SAMPLED
from ...run.scores import NumberMaker, resampling
from .ask import CONTROLS, POSTERIOR, PRIOR
from .config import ConsistencyConfig
from .instances import (
    AFTER,
    BEFORE,
    FORKS,
    INSTANCES,
    MENTIONED,
    READOUTS,
    REVEAL,
    SECOND_METRICS,
    SECOND_REJECTIONS,
    SHARES,
    WORDS,
    YES,
    stored_tables,
)

BALANCED = "template-balanced"
LIKELIER, UNLIKELIER = "prefilled turn likelier", "prefilled turn unlikelier"
ONE_REJECTION, TWO_REJECTIONS = "1 rejection", "2 rejections"
CONTROL = "choice written down"
CLOSED = "closed set"
"""Free answers beside those with labels."""
ABOUT = ("kind", "temperature", "template", "place", "item", "cluster", "why", "rejected", "coverage")
ANSWERS = ("n_prior", "n_posterior")
"""Columns of answers; exact beliefs have none."""
ALPHA = ("alpha_prior", "alpha_post")
"""Columns of the first word's share among the two."""
OF_PARTS = ("forced_logp", "order")
"""Columns by which instances are parted, besides those that every instance has."""


def samples(config: ConsistencyConfig, beliefs: BeliefTable) -> Iterator[Sample]:
    """See `Experiment.samples`. The rows of one method are in memory at a time."""
    tables = stored_tables(beliefs)
    methods = tables.methods(INSTANCES)
    keys: Array | None = None  # methods whose rows stand at the same places share them
    for method in methods:
        rows = tables.read(INSTANCES, method, [*ABOUT, *OF_PARTS]).reset_index(drop=True)
        whole = options(tables, method, rows)
        keys = whole.keys if keys is None or not np.array_equal(keys, np.asarray(whole.keys)) else keys
        yield from _of_method(config, tables, replace(whole, keys=keys), rows)
    for method in methods:
        derived = tables.read(INSTANCES, method, ["estimate", "of"])
        if (derived["estimate"] == SAMPLED).all() and (derived["of"] != "").all():
            yield _beside_exact(tables, method)
        if method.removesuffix(f" {SAMPLED}") in config.methods:
            yield from _beside_closed(config, tables, method)
    yield from _forks(tables)


def _of_method(
    config: ConsistencyConfig, tables: StoredTables, whole: Options, rows: pd.DataFrame
) -> Iterator[Options]:
    """All instances at temperature 1, with what the gate looks at besides, then each template and each part."""
    plain = (rows["temperature"] == 1).to_numpy()
    templates = rows["template"][plain]
    every = part_of(whole, plain, ALL)
    mentioned = _masses(tables, whole.method, MENTIONED)[plain].reshape(len(templates), len(CONTROLS), -1)
    read = np.flatnonzero(np.isfinite(mentioned).any(axis=(0, 2)))
    yield replace(
        every,
        template=templates.to_numpy(),
        mentioned=mentioned[:, read] if len(read) else None,
        controls=tuple(CONTROLS[i] for i in read),
        min_coverage=config.low_coverage,
    )
    yield replace(every, subset=BALANCED, strata=templates.to_numpy())
    for template in templates.unique():
        yield part_of(every, (templates == template).to_numpy(), str(template))
    for subset, chosen in parts(config, rows).items():
        yield part_of(whole, chosen.to_numpy(), subset)


def parts(config: ConsistencyConfig, table: pd.DataFrame) -> dict[str, pd.Series]:
    """Which instances meet a condition: temperature, coverage, order, likelihood of words and of the prefilled turn."""
    plain = table["temperature"] == 1
    windows = config.entities.windows
    chosen = {f"T = {t:g}": table["temperature"] == t for t in sorted(table["temperature"].unique())}
    chosen = chosen if config.temperatures else {}
    chosen |= {f"coverage >= {least:g}": plain & (table["coverage"] >= least) for least in config.coverage_thresholds}
    if config.orders != "one":
        chosen |= {f"order {order}": plain & (table["order"] == order) for order in sorted(table["order"].unique())}
    for name in map(window_name, windows if len(windows) > 1 else ()):
        chosen[name] = plain & table["item"].str.startswith(f"{name}:")
    if (forced := table["forced_logp"].where(plain)).notna().any():
        middle = forced.groupby(table["template"]).transform("median")
        chosen |= {LIKELIER: plain & (forced > middle), UNLIKELIER: plain & (forced <= middle)}
    return chosen


def options(tables: StoredTables, method: str, rows: pd.DataFrame) -> Options:
    """All instances of a method as a sample (arguments: `ABOUT` of them in `rows`)."""
    before, after = (_masses(tables, method, columns) for columns in (BEFORE, AFTER))
    alone = _words_alone(tables, method, rows, before, after)
    answers = tables.read(INSTANCES, method, ANSWERS)
    counted = answers.notna().all(axis=1).any()
    of_answers: dict[str, Any] = {name: answers[name].to_numpy() for name in ANSWERS if counted}
    return Options(
        kind=str(rows["kind"].iloc[0]),
        method=method,
        prior=before,
        posterior=after,
        words_prior=alone,
        words_posterior=alone,
        rejected=rows["rejected"].to_numpy(),
        position=rows["place"].to_numpy(),
        clusters=rows["cluster"].to_numpy(),
        keys=joined(rows["item"].to_numpy(), rows["place"].to_numpy()),
        why=rows["why"].to_numpy(dtype=object),
        **of_answers,
    )


def _masses(tables: StoredTables, method: str, columns: tuple[str, ...]) -> Floats:
    """[n, columns] of the words."""
    read = tables.read(INSTANCES, method, columns)
    return np.array([read[name].to_numpy() for name in columns]).T


def _words_alone(tables: StoredTables, method: str, rows: pd.DataFrame, before: Floats, after: Floats) -> Floats:
    """[n, 3] shares that the words of each instance would have without any context; NaN at other temperatures than 1.

    Each read-out is replaced by one that knows how likely each word is on the whole, and nothing of what was said
    (METRICS W3). Between two such read-outs the ratio of two words never moves: on two classes they score a perfect 1,
    and no score can rise above them. On three classes they give the rejected word its usual share, and can be beaten.
    """
    at = np.flatnonzero(rows["temperature"] == 1)
    first = (~rows["item"].iloc[at].duplicated()).to_numpy()  # with each item's first instance comes its prior
    ends = np.arange(len(at)) + np.cumsum(first)
    starts = ends[first] - 1
    masses = np.empty((len(at) + len(starts), 3))
    masses[ends], masses[starts] = after[at], before[at[first]]
    words, clusters = np.empty(masses.shape, dtype=object), np.empty(len(masses), dtype=object)
    for i, name in enumerate(WORDS):
        word = tables.read(INSTANCES, method, [name])[name].to_numpy()[at]
        words[ends, i], words[starts, i] = word, word[first]
    cluster = rows["cluster"].to_numpy()[at]
    clusters[ends], clusters[starts] = cluster, cluster[first]
    with np.errstate(divide="ignore"):
        null = word_identity_null(np.log(masses, out=masses), words, clusters)
    alone = np.full((3, len(rows)), np.nan).T
    alone[at] = null.null_prob[ends]
    return alone


def _beside_exact(tables: StoredTables, method: str) -> Readouts:
    """Sampled instances, and those that they derive from (METRICS B8)."""
    sampled = tables.read(INSTANCES, method, ["kind", "of", "cluster", *ALPHA])
    every = pd.concat([tables.read(INSTANCES, name, ["readout_id", *ALPHA]) for name in tables.methods(INSTANCES)])
    pairs = every.merge(sampled, left_on="readout_id", right_on="of", suffixes=("_exact", ""), validate="one_to_one")
    return _compared(pairs, "_exact", kind=str(sampled["kind"].iloc[0]), method=method)


def _beside_closed(config: ConsistencyConfig, tables: StoredTables, method: str) -> Iterator[Readouts]:
    """Free answers, exact or sampled, and those with labels, in the same contexts (belief-consistency, Table 7)."""
    if config.methods[method.removesuffix(f" {SAMPLED}")].labels:
        return
    key = ["item", "place"]
    read = {
        name: tables.read(INSTANCES, name, ["kind", "cluster", "temperature", *key, *ALPHA]).query("temperature == 1")
        for name in tables.methods(INSTANCES)
        if name == method or (name in config.methods and config.methods[name].labels)
    }
    free = read.pop(method)
    for name, closed in read.items():
        pairs = free.merge(closed, on=key, suffixes=("", "_closed"), validate="one_to_one")
        kind = str(free["kind"].iloc[0])
        yield _compared(pairs, "_closed", kind=kind, method=f"{method} and {name}", subset=CLOSED)


def _compared(pairs: pd.DataFrame, suffix: str, *, kind: str, method: str, subset: str = ALL) -> Readouts:
    """Two readings of the two words in each instance, before and after; the second has a suffix."""
    ways = [pairs[[name + end for name in ALPHA]].to_numpy(np.float64).T for end in ("", suffix)]  # [2, n] of each
    free, closed = (np.column_stack([x.ravel(), 1 - x.ravel()]) for x in ways)
    return Readouts(
        kind=kind,
        method=method,
        subset=subset,
        free=free,
        closed=closed,
        included=np.tile(np.isfinite(ways).all(axis=(0, 1)), 2),
        context=np.repeat(["prior", "posterior"], len(pairs)),
        clusters=np.tile(pairs["cluster"].to_numpy(), 2),
    )


def _forks(tables: StoredTables) -> Iterator[Forks]:
    """Per method of revealing: nothing written down, and the positive control."""
    for control in (False, True):
        for method in tables.methods(FORKS):
            rows = tables.read(FORKS, method, ["item", "cluster", "hidden", "coverage", *YES, *REVEAL])
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


# How much of the score is the order in which the words were listed? (METRICS B11)


class OrderShare(Score, headline="share"):
    """One-way components of variance: triples, and the orders of a triple. Interval over triples."""

    share: float
    """Of the variance of a score, what two orders of one triple differ by: 1 - ICC(1). Not cut at 1, which it exceeds
    by chance where triples hardly differ."""
    order_variance: float
    """Between the orders of a triple; of exact beliefs nothing else varies there, of sampled ones the sampling does."""
    n_orders: int


def order_share(config: ConsistencyConfig, table: pd.DataFrame) -> OrderShare:
    """The share for one method.

    Args:
        table: instances of one method. A triple's score in one order is the mean consistency (`c2`) of its instances;
            a triple in one of whose orders no instance has it is dropped and counted.
    """
    scores = table.pivot_table("c2", "cluster", "order", aggfunc="mean", dropna=False)
    icc = reliability_icc(scores, groups=np.arange(len(scores)), how=resampling(config))
    return OrderShare(
        share=1 - icc.icc1,
        order_variance=float(scores.dropna().var(axis=1, ddof=1).mean()),
        n_orders=scores.shape[1],
        **icc.common_fields(ci_lo=1 - icc.ci_hi, ci_hi=1 - icc.ci_lo, params={**icc.params, "metric": "c2"}),
    )


def own_scores(config: ConsistencyConfig, beliefs: BeliefTable) -> Iterator[Number]:
    """Coverage, the order of the words, the prior by position, thoughts not closed, second rejections."""
    tables = stored_tables(beliefs)
    for method in tables.methods(INSTANCES):
        table = tables.read(
            INSTANCES,
            method,
            ["kind", "cluster", "item", "temperature", "template", "coverage", *OF_PARTS, "c2", *SECOND_METRICS],
        )
        make = NumberMaker(config, method, str(table["kind"].iloc[0]))
        every = table[table["temperature"] == 1]
        for subset, chosen in parts(config, table).items():
            yield _mean(make, "coverage", table[chosen], subset=subset)
        if config.orders != "one":
            yield make.number("order_share", order_share(config, every))
        yield from _of_readouts(make, tables)
        if method in tables.methods(SECOND_REJECTIONS):
            twice = tables.read(SECOND_REJECTIONS, method, ["cluster", *SECOND_METRICS])
            for subset, rows in ((ONE_REJECTION, every[every["template"] == "reject"]), (TWO_REJECTIONS, twice)):
                yield from (_mean(make, metric, rows, subset=subset) for metric in SECOND_METRICS)


def _mean(make: NumberMaker, metric: str, rows: pd.DataFrame, column: str = "", subset: str = ALL) -> Number:
    """Of a column of shares, that of its name if none is given, with its interval over triples (METRICS B11)."""
    return make.mean(metric, rows[column or metric], rows["cluster"], subset, within=UNIT)


def _of_readouts(make: NumberMaker, tables: StoredTables) -> Iterator[Number]:
    readouts = tables.read(READOUTS, make.method, ["scenario", "cluster", "coverage", "unclosed", "thoughts", *SHARES])
    readouts = readouts.assign(unclosed=readouts["unclosed"] / readouts["thoughts"])
    if readouts["unclosed"].notna().any():
        yield _mean(make, "unclosed", readouts)
    for scenario in (PRIOR, POSTERIOR):
        yield _mean(make, f"coverage_{scenario}", readouts[readouts["scenario"] == scenario], "coverage")
    priors = readouts[readouts["scenario"] == PRIOR]
    for place, name in enumerate(SHARES):
        yield _mean(make, f"prior_share_position_{place + 1}", priors, name)
