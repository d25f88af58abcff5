"""The instances: each posterior beside its prior, with the fields of METRICS B2 that are looked at one by one."""

import json

import numpy as np
import pandas as pd

from ...metrics import belief_consistency
from ...metrics.beliefs import VALUED
from ...metrics.validation import Floats
from ..tables.belief_parts import BeliefParts
from .dialogue import MENTION
from .noise import answers_worth

FIELDS = (
    *("c2", "c3", "p_invalid_raw", "p_invalid_norm"),
    *("entropy_prior", "entropy_post", "p_error_prior", "p_error_post"),
)
BEFORE, AFTER, MENTIONED = (tuple(f"{name}_{word}" for word in range(3)) for name in ("before", "after", "mentioned"))
"""Columns with the masses of the three words."""
WORDS = tuple(f"word_{word}" for word in range(3))
"""Columns with the words."""
CONDITIONS = (
    *("template", "named", "rejected", "pending", "then", "hidden", "asked"),
    *("estimate", "draws", "thoughts", "unclosed", "covariance", "temperature"),
)
"""The entries that a variant may have."""


def conditions(beliefs: pd.DataFrame, *names: str) -> pd.DataFrame:
    """One row per read-out: these of its columns, and the entries of its variant, each a column."""
    readouts = beliefs.loc[~beliefs["readout_id"].duplicated(), ["readout_id", "variant", *names]]
    codes, texts = pd.factorize(readouts["variant"])  # a few texts, each in many rows
    variants = pd.DataFrame([json.loads(text) for text in texts]).reindex(columns=list(CONDITIONS))
    temperature = variants["temperature"].astype(float).fillna(1.0).to_numpy()
    entries = {name: variants[name].to_numpy()[codes] for name in variants.columns}
    return (
        readouts.drop(columns="variant").reset_index(drop=True).assign(**{**entries, "temperature": temperature[codes]})
    )


def at_one(beliefs: pd.DataFrame) -> pd.DataFrame:
    """The rows of the read-outs at temperature 1."""
    texts = beliefs["variant"].unique()
    return beliefs[
        beliefs["variant"].isin([text for text in texts if json.loads(text).get("temperature") in (None, 1)])
    ]


def option_masses(beliefs: pd.DataFrame) -> pd.DataFrame:
    """[read-outs, options] probability of each option, what is on none left out."""
    share = np.where(beliefs["coverage"] == 0, 0.0, beliefs["prob"] * beliefs["coverage"])
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
    own = beliefs[beliefs["scenario"].isin(("prior", "posterior"))]
    names = ("of", "item", "cluster", "kind", "method", "scenario", "coverage", "status", "forced_logp")
    masses, readouts = option_masses(own), conditions(own, *names)
    post = readouts[readouts["scenario"] == "posterior"]
    prior = readouts[readouts["scenario"] == "prior"]
    key = ["item", "method", "temperature"]
    rows = post.merge(prior, on=key, suffixes=("", "_prior"), validate="many_to_one")
    rejected = rows["rejected"].to_numpy(dtype=int)
    before, after = masses.loc[rows["readout_id_prior"]].to_numpy(), masses.loc[rows["readout_id"]].to_numpy()
    score = belief_consistency(before, after, rejected)
    total = before.sum(axis=1)
    words = own.pivot(index="readout_id", columns="option_index", values="option").loc[rows["readout_id"]]
    masses_of = np.hstack([before, after, _mentioned(beliefs, rows)])
    kept = ["readout_id", "readout_id_prior", "of", "of_prior", "item", "cluster", "kind", "method", "estimate"]
    return rows[[*kept, "temperature", "template", "forced_logp"]].assign(
        rejected=rejected,
        place=_placed(rows)["place"].to_numpy(),
        order=rows["item"].str.rpartition("-")[2],
        why=rows["status"].astype(object).where(rows["status_prior"].isin(VALUED), rows["status_prior"].astype(object)),
        coverage=np.minimum(rows["coverage"], rows["coverage_prior"]),
        alpha_prior=score.prior2[:, 0],
        alpha_post=score.post2[:, 0],
        rejected_prior_share=before[np.arange(len(before)), rejected] / np.where(total > 0, total, np.nan),
        n_prior=answers_worth(prior.set_index("readout_id").loc[rows["readout_id_prior"]], before, rejected),
        n_posterior=answers_worth(rows, after, rejected),
        **dict(zip((*BEFORE, *AFTER, *MENTIONED), masses_of.T, strict=True)),
        **{name: words[word].to_numpy() for word, name in enumerate(WORDS)},
        **{name: getattr(score, name) for name in FIELDS},
    )


def _mentioned(beliefs: pd.DataFrame, posteriors: pd.DataFrame) -> Floats:
    """[n, 3] masses after each posterior's question with a reply that decides nothing; NaN where it was not read."""
    own = beliefs[beliefs["scenario"] == MENTION]
    masses, key = option_masses(own), ["item", "method", "temperature", "place"]
    read = _placed(conditions(own, "item", "method")).set_index(key)["readout_id"]
    wanted = pd.MultiIndex.from_frame(_placed(posteriors)[key])
    return masses.reindex(read.reindex(wanted)).reindex(columns=range(3)).to_numpy(dtype=np.float64)


def _placed(rows: pd.DataFrame) -> pd.DataFrame:
    """With the question of each row, so that posteriors in one place share a name."""
    return rows.assign(place=[f"{t} {n}" for t, n in zip(rows["template"], rows["named"], strict=True)])
