"""The instances: each posterior beside its prior, with the fields of METRICS B2."""

import json

import numpy as np
import pandas as pd

from ...metrics import belief_consistency, jsd_plugin_bias
from .noise import answers_worth

FIELDS = (
    "c2",
    "c3",
    "leak",
    "p_invalid_raw",
    "p_invalid_norm",
    "entropy_prior",
    "entropy_post",
    "p_error_prior",
    "p_error_post",
    "mse",
    "mae",
    "switch",
    "hswitch",
)
INSTANCE_METRICS = (*FIELDS, "p_invalid_included")
CONDITIONS = (
    *("template", "named", "rejected", "then", "hidden", "asked"),
    *("estimate", "of", "draws", "thoughts", "unclosed", "covariance"),
)
"""The entries that a variant may have, besides the temperature."""


def conditions(beliefs: pd.DataFrame) -> pd.DataFrame:
    """One row per read-out: its names and the entries of its variant, each a column."""
    readouts = beliefs.drop_duplicates("readout_id").reset_index(drop=True)
    codes, texts = pd.factorize(readouts["variant"])  # a few texts, each in many rows
    variants = pd.DataFrame([json.loads(text) for text in texts]).iloc[codes].set_axis(readouts.index)
    table = readouts.drop(columns="variant").join(variants)
    table = table.assign(**{name: np.nan for name in CONDITIONS if name not in table})
    return table.assign(temperature=table["temperature"].fillna(1.0) if "temperature" in table else 1.0)


def option_masses(beliefs: pd.DataFrame) -> pd.DataFrame:
    """[read-outs, options] probability of each option, what is on none left out."""
    share = np.where(beliefs["coverage"] == 0, 0.0, beliefs["prob"] * beliefs["coverage"])
    mass = np.where(beliefs["logp"].isna(), share, np.exp(beliefs["logp"]))
    return beliefs.assign(mass=mass).pivot(index="readout_id", columns="option_index", values="mass")


def instances(beliefs: pd.DataFrame) -> pd.DataFrame:
    """One row per posterior, method and temperature, with the fields of METRICS B2 beside its prior.

    `coverage` is the smaller of the two. `c2_corrected`, of what was sampled alone, takes off the divergence that two
    samples of one belief show on average (METRICS B12, first order).
    """
    own = beliefs[beliefs["scenario"].isin(("prior", "posterior"))]
    masses, readouts = option_masses(own), conditions(own)
    post = readouts[readouts["scenario"] == "posterior"]
    key = ["item", "method", "temperature"]
    prior = readouts[readouts["scenario"] == "prior"]
    rows = post.merge(prior, on=key, suffixes=("", "_prior"), validate="many_to_one")
    rejected = rows["rejected"].to_numpy(dtype=int)
    before, after = masses.loc[rows["readout_id_prior"]].to_numpy(), masses.loc[rows["readout_id"]].to_numpy()
    score = belief_consistency(before, after, rejected)
    known_before = answers_worth(prior.set_index("readout_id").loc[rows["readout_id_prior"]], before, rejected)
    known_after = answers_worth(rows, after, rejected)
    names = ["readout_id", "readout_id_prior", "item", "cluster", "kind", "method", "estimate", "of", "temperature"]
    return rows[[*names, "template", "forced_logp"]].assign(
        rejected=rejected,
        place=[f"{t} {n}" for t, n in zip(rows["template"], rows["named"], strict=True)],
        order=rows["item"].str.rpartition("-")[2],
        coverage=np.minimum(rows["coverage"], rows["coverage_prior"]),
        alpha_prior=score.prior2[:, 0],
        alpha_post=score.post2[:, 0],
        rejected_prior=_of(before, rejected),
        rejected_prior_share=_of(before, rejected) / _total(before),
        c2_corrected=score.c2 + jsd_plugin_bias(2, known_before, known_after),
        p_invalid_included=np.where(score.included_paper, score.p_invalid_raw, np.nan),
        **{metric: getattr(score, metric) for metric in FIELDS},
    )


def _of(masses: np.ndarray, option: np.ndarray) -> np.ndarray:
    """[n] mass of one option of each row."""
    return masses[np.arange(len(masses)), option]


def _total(masses: np.ndarray) -> np.ndarray:
    """[n] mass of all options; NaN where there is none."""
    total = masses.sum(axis=1)
    return np.where(total > 0, total, np.nan)
