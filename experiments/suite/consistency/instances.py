"""The instances, each posterior beside its prior (METRICS B2), with the small tables of read-outs, forks and second
rejections: what samples and pages read, computed of a part of the belief table at a time.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas import CategoricalDtype

from ....metrics import belief_consistency, jsd_leak
from ....metrics.beliefs import VALUED
from ....metrics.contract import Floats
from ....metrics.tables.belief_parts import BeliefParts, BeliefTable, StoredTables, in_parts
from ...run.readouts import SAMPLED
from .ask import CONTROLS, FORK, FORK_REVEAL, HEDGE, MENTION, POSTERIOR, PRIOR, SECOND

INSTANCES, READOUTS, FORKS, SECOND_REJECTIONS = "instances", "readouts", "forks", "second"
FIELDS = (
    *("c2", "c3", "p_invalid_raw", "p_invalid_norm"),
    *("entropy_prior", "entropy_post", "p_error_prior", "p_error_post"),
)
"""Those of METRICS B2 that are looked at one by one."""
BEFORE, AFTER = (tuple(f"{name}_{word}" for word in range(3)) for name in ("before", "after"))
MENTIONED = tuple(f"mentioned_{control}_{word}" for control in range(len(CONTROLS)) for word in range(3))
"""Columns with the masses of the three words."""
WORDS = tuple(f"word_{word}" for word in range(3))
"""Columns with the words."""
SHARES = tuple(f"share_{place + 1}" for place in range(3))
"""Columns with the shares of the three words by their places."""
YES, REVEAL = (tuple(f"{name}_{word}" for word in range(3)) for name in ("yes", "reveal"))
"""Columns of forks: P(yes) among yes and no to each word, and the mass of its reveal."""
SECOND_METRICS = ("c3", "p_invalid_raw", "p_invalid_norm", "p_error_post")
TEXTS = ("item", "cluster", "kind", "method", "estimate", "template", "place", "order", "why", "scenario", *WORDS)
"""Columns of which many rows have the same text."""
CONDITIONS = (
    *("template", "named", "rejected", "then", "hidden", "asked", "control"),
    *("temperature", "draws", "thoughts", "unclosed", "covariance"),
)
"""Those that a read-out may have."""


def stored_tables(beliefs: BeliefTable) -> StoredTables:
    """The tables of a run, or of any belief table."""
    return in_parts(beliefs).once(_stored_tables)


def _stored_tables(beliefs: BeliefParts) -> StoredTables:
    return beliefs.tabulated(tables)


def tables(beliefs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """By name: the instances at every temperature; and at temperature 1 all read-outs of words, forks, and second
    rejections, if there are any. Of some items, whose beliefs these are.
    """
    plain = beliefs[_temperature(beliefs) == 1]
    computed = {INSTANCES: instances_of(beliefs), READOUTS: _readouts(plain)}
    if (plain["scenario"] == FORK).any():
        computed[FORKS] = fork_table(plain)
    if (plain["scenario"] == SECOND).any():
        computed[SECOND_REJECTIONS] = second_table(plain)
    return {name: _stored(table) for name, table in computed.items()}


def _stored(table: pd.DataFrame) -> pd.DataFrame:
    """With categories in the texts' own order, whatever the parts, and names of read-outs as texts."""
    columns: dict[str, Any] = {}
    for name, values in table.items():
        category = isinstance(values.dtype, CategoricalDtype)
        if name in TEXTS and not category:
            columns[str(name)] = pd.Categorical(values, categories=values.dropna().unique())
        elif category and name not in TEXTS:
            columns[str(name)] = values.astype(str)
    return table.assign(**columns)


def _temperature(beliefs: pd.DataFrame) -> "pd.Series[float]":
    """[n] 1 where none is said."""
    values = beliefs["temperature"] if "temperature" in beliefs else pd.Series(np.nan, beliefs.index)
    return values.astype(float).fillna(1.0)


def readouts_of(beliefs: pd.DataFrame) -> pd.DataFrame:
    """One row per read-out, with all conditions that the experiment may have."""
    rows = beliefs[~beliefs["readout_id"].duplicated()].reset_index(drop=True)
    rows = rows.reindex(columns=[*rows.columns, *(name for name in CONDITIONS if name not in rows)])
    return rows.assign(temperature=_temperature(rows))


def option_masses(beliefs: pd.DataFrame) -> pd.DataFrame:
    """[read-outs, options] probability of each option, what is on none left out."""
    share = np.where(beliefs["coverage"] == 0, 0.0, beliefs["prob"] * beliefs["coverage"].fillna(1.0))
    mass = np.where(beliefs["logp"].isna(), share, np.exp(beliefs["logp"]))
    return beliefs.assign(mass=mass).pivot(index="readout_id", columns="option_index", values="mass")


def instances(beliefs: pd.DataFrame) -> pd.DataFrame:
    """One row per posterior, method and temperature, with the fields of METRICS B2 beside its prior.

    `coverage` is the smaller of the two; `why` is the status of the read-out that has no number, or else that of the
    posterior; `n_prior` and `n_posterior` are the answers on the two words, NaN of exact beliefs.
    """
    return pd.concat([instances_of(part) for part in BeliefParts.of(beliefs)], ignore_index=True)


def instances_of(beliefs: pd.DataFrame) -> pd.DataFrame:
    """The same of a few items, whose beliefs these are."""
    dialogues = beliefs[beliefs["scenario"].isin((PRIOR, POSTERIOR))]
    masses, readouts = option_masses(dialogues), readouts_of(dialogues)
    posteriors = readouts[readouts["scenario"] == POSTERIOR]
    priors = readouts[readouts["scenario"] == PRIOR]
    rows = posteriors.merge(
        priors, on=["item", "method", "temperature"], suffixes=("", "_prior"), validate="many_to_one"
    )
    rejected = rows["rejected"].to_numpy(dtype=int)
    before, after = masses.loc[rows["readout_id_prior"]].to_numpy(), masses.loc[rows["readout_id"]].to_numpy()
    score = belief_consistency(before, after, rejected)
    total = before.sum(axis=1)
    words = dialogues.pivot(index="readout_id", columns="option_index", values="option").loc[rows["readout_id"]]
    masses_of = np.hstack([before, after, _mentioned(beliefs, rows)])
    kept = ["readout_id", "readout_id_prior", "of", "of_prior", "item", "cluster", "kind", "method", "estimate"]
    return rows[[*kept, "temperature", "template", "forced_logp"]].assign(
        rejected=rejected,
        place=_places(rows),
        order=rows["item"].str.rpartition("-")[2],
        why=rows["status"].astype(object).where(rows["status_prior"].isin(VALUED), rows["status_prior"].astype(object)),
        coverage=np.minimum(rows["coverage"], rows["coverage_prior"]),
        alpha_prior=score.prior2[:, 0],
        alpha_post=score.post2[:, 0],
        rejected_prior_share=before[np.arange(len(before)), rejected] / np.where(total > 0, total, np.nan),
        n_prior=answers_worth(priors.set_index("readout_id").loc[rows["readout_id_prior"]], before, rejected),
        n_posterior=answers_worth(rows, after, rejected),
        **dict(zip((*BEFORE, *AFTER, *MENTIONED), masses_of.T, strict=True)),
        **{name: words[word].to_numpy() for word, name in enumerate(WORDS)},
        **{name: getattr(score, name) for name in FIELDS},
    )


def _places(rows: pd.DataFrame) -> list[str]:
    """[n] the question of each row: posteriors in one place share a name."""
    return [f"{template} [{named}]" for template, named in zip(rows["template"], rows["named"], strict=True)]


def _mentioned(beliefs: pd.DataFrame, posteriors: pd.DataFrame) -> Floats:
    """[n, 3 x controls] masses after each posterior's question with replies that decide nothing; NaN: not read."""
    undecided = beliefs[beliefs["scenario"] == MENTION]
    masses, key = option_masses(undecided), ["item", "method", "temperature", "place"]
    readouts = readouts_of(undecided)
    readouts = readouts.assign(place=_places(readouts), control=readouts["control"].astype(object).fillna(HEDGE))
    wanted = pd.MultiIndex.from_frame(posteriors.assign(place=_places(posteriors))[key])
    columns = []
    for control in CONTROLS:
        readout_at = readouts[readouts["control"] == control].set_index(key)["readout_id"]
        columns.append(masses.reindex(readout_at.reindex(wanted)).reindex(columns=range(3)).to_numpy(dtype=np.float64))
    return np.hstack(columns)


def answers_worth(readouts: pd.DataFrame, masses: Floats, rejected: NDArray[np.int64]) -> Floats:
    """[n] for each read-out: of sampled answers, those that name either word; of thoughts, the number of answers whose
    share would vary as the mean over the thoughts does; NaN of an exact belief, which knows.

    Args:
        readouts: [n] with `estimate`, `draws` and `covariance`.
        masses: [n, 3] of the words.
        rejected: [n] the word that is left out.
    """
    kept = np.where(np.arange(3) == rejected[:, None], 0.0, masses)
    total = kept.sum(axis=1)
    counted = readouts["draws"].where(readouts["estimate"] == SAMPLED).to_numpy(dtype=float, na_value=np.nan) * total
    share = kept / np.where(total > 0, total, np.nan)[:, None]
    first = np.argmax(np.arange(3) != rejected[:, None], axis=1)
    rows = np.arange(len(kept))
    alpha = share[rows, first]
    # d alpha / d masses: of the first word (1 - alpha) / total, of the second -alpha / total, of the rejected none.
    slope = (np.eye(3)[first] - alpha[:, None]) / np.where(total > 0, total, np.nan)[:, None]
    slope[rows, rejected] = 0.0
    blank = np.full((3, 3), np.nan)
    covariance = np.stack(
        [np.array(matrix) if isinstance(matrix, Sequence) else blank for matrix in readouts["covariance"]]
    )
    variance = np.einsum("ni,nij,nj->n", slope, covariance, slope)
    with np.errstate(divide="ignore", invalid="ignore"):
        worth = np.where(variance > 0, alpha * (1 - alpha) / variance, np.where(variance == 0, np.inf, np.nan))
    return np.where(np.isnan(counted), worth, counted)


def _readouts(beliefs: pd.DataFrame) -> pd.DataFrame:
    """A row per read-out of words, with the shares of the three by their places."""
    of_words = beliefs[beliefs["scenario"] != FORK]
    rows = readouts_of(of_words)
    thoughts = {name: rows[name].astype(float) for name in ("unclosed", "thoughts")}
    shares = of_words.pivot(index="readout_id", columns="option_index", values="prob").loc[rows["readout_id"]]
    by_place = {name: shares[place].to_numpy() for place, name in enumerate(SHARES)}
    return rows[["method", "scenario", "cluster", "coverage"]].assign(**thoughts, **by_place)


# Has the model made a choice? Every word is asked for in a branch of its own (METRICS W1).
#
# Activations are a function of the context, so a choice that is written nowhere cannot be kept. The positive control
# writes it where the model can read it: a model that can use such a note makes the branches agree with the reveal.


def fork_table(beliefs: pd.DataFrame) -> pd.DataFrame:
    """A row for each item, method of revealing, and word that is written down (-1: none, which is no control), with the
    mean probability of yes or no as `coverage`. The beliefs are those at temperature 1.
    """
    asked = beliefs[beliefs["scenario"] == FORK]
    forks = readouts_of(asked).assign(hidden=_hidden)
    yes_no = option_masses(asked).loc[forks["readout_id"]].to_numpy()
    total = yes_no.sum(axis=1)
    branches = forks[["item", "hidden", "asked"]].assign(yes=yes_no[:, 0] / total, coverage=total)
    branches = branches.pivot(index=["item", "hidden"], columns="asked")
    methods = beliefs.loc[beliefs["scenario"] == FORK_REVEAL, "method"].unique()
    reveals = beliefs[beliefs["method"].isin(methods) & beliefs["scenario"].isin((PRIOR, FORK_REVEAL))]
    rows = readouts_of(reveals).assign(hidden=_hidden)
    of_rows = branches.loc[pd.MultiIndex.from_frame(rows[["item", "hidden"]])]
    masses = option_masses(reveals).loc[rows["readout_id"]].to_numpy()
    columns = np.hstack([of_rows["yes"].to_numpy(), masses])
    return rows[["item", "cluster", "method", "hidden"]].assign(
        coverage=of_rows["coverage"].to_numpy().mean(axis=1), **dict(zip((*YES, *REVEAL), columns.T, strict=True))
    )


def _hidden(rows: pd.DataFrame) -> "pd.Series[int]":
    return rows["hidden"].fillna(-1).astype(int)


# A second rejection: "Is it X?" "No." "Is it Y?" "No."
#
# One word is left, so there is no ratio to keep, and consistency on two classes is not defined. What follows from the
# two turns is certainty: consistency on three classes is 1 - JSD from all mass on the word that is left, which depends
# on the share of the two rejected words alone. Beside it stand the same numbers after the first "No.".


def second_table(beliefs: pd.DataFrame) -> pd.DataFrame:
    """A row per method and context with two rejections; `p_invalid_*` is the mass of both rejected words."""
    twice = beliefs[beliefs["scenario"] == SECOND]
    rows = readouts_of(twice)
    after = option_masses(twice).loc[rows["readout_id"]].to_numpy()
    left = 3 - rows["rejected"].to_numpy(dtype=int) - rows["then"].to_numpy(dtype=int)
    total = after.sum(axis=1)
    invalid = total - after[np.arange(len(after)), left]
    share = invalid / np.where(total > 0, total, np.nan)
    scores = {"c3": 1 - jsd_leak(share), "p_invalid_raw": invalid, "p_invalid_norm": share, "p_error_post": 1 - total}
    return rows[["method", "cluster"]].assign(**scores)
