"""Every number about inner read-outs: gates, judged on some clusters, and scores, on the others (METRICS W3)."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from ....hooks.errors import UserError
from ....hooks.lens.lens import View
from ....hooks.lens.plan import Gate, LensPlan
from ....metrics import ReadoutGate, Score, readout_gate
from ...experiment import RunConfig
from ...runs.scores import resampling
from ...scoring.number import Number
from ..paired import named_apart
from .declaration import BESIDE, Inner, InnerScores

GATE = "readout_gate"
EXACT = "exact, as scored inside"
"""The subset of the exact read-out on the items that score inner ones."""
GATE_FAILED = "gate_failed"
ADDED = ["exact", "lens", "rejected", "judges"]


class Profile(NamedTuple):
    """The inner read-outs of one method."""

    method: str
    exact: Mapping[str, Score]
    """By metric, on the same items as the inner ones."""
    inner: Mapping[View, "Layer"]
    judges: frozenset[str]
    """The clusters that judged."""


class Layer(NamedTuple):
    """One of them."""

    gate: ReadoutGate
    scores: Mapping[str, Score]
    by_words: float
    """The headline of the words alone, as this layer weighs them."""


def profiles(inner: Inner, config: RunConfig, beliefs: pd.DataFrame) -> list[Profile]:
    """The gates and scores of every method, layer and lens.

    Args:
        inner: the experiment's declaration.
        config: of the run.
        beliefs: its whole table.
    """
    every = _contexts(inner, beliefs)
    return [
        _profile(inner, config, str(method), rows)
        for method, rows in every.groupby("method", sort=False, observed=True)
    ]


def numbers(profile: Profile) -> Iterator[Number]:
    """The numbers of a profile. A layer that fails its gate keeps its scores, which say so."""
    for metric, score in profile.exact.items():
        yield Number(metric=metric, method=profile.method, kind="exact", subset=EXACT, score=score)
    for (layer, lens), read in profile.inner.items():
        for metric, score in {GATE: read.gate, **read.scores}.items():
            held = replace(score, status=score.status if read.gate.passed else GATE_FAILED)
            yield Number(metric=metric, method=profile.method, kind="lens", subset=f"{lens}@{layer}", score=held)


def admitted(profiles: Sequence[Profile], beliefs: pd.DataFrame) -> pd.DataFrame:
    """The rows of the layers that pass, without the clusters that judged, each layer a method of its own."""
    passed = {
        f"{profile.method}/{lens}@{layer}"
        for profile in profiles
        for (layer, lens), read in profile.inner.items()
        if read.gate.passed
    }
    rows = scoring(profiles, beliefs[beliefs["kind"] == "lens"])
    lenses = [json.loads(text)["lens"] for text in rows["variant"].astype(str)]
    places = zip(rows["method"].astype(str), lenses, rows["layer"], strict=True)
    rows = named_apart(rows, [f"{method}/{lens}@{layer}" for method, lens, layer in places], ("lens",))
    return rows[rows["method"].isin(passed)]


def scoring(profiles: Sequence[Profile], beliefs: pd.DataFrame) -> pd.DataFrame:
    """The rows of clusters that judged no method."""
    return beliefs[~beliefs["cluster"].isin(frozenset[str]().union(*(one.judges for one in profiles)))]


def judging(clusters: pd.Series, gate: Gate, seed: int) -> set[str]:
    """The clusters that judge, drawn by the seed; at least one judges and one scores."""
    every = clusters.drop_duplicates().to_numpy()
    n = min(max(round(gate.share * len(every)), 1), len(every) - 1)
    return set(np.random.default_rng(seed).permutation(every)[:n])


def _contexts(inner: Inner, beliefs: pd.DataFrame) -> pd.DataFrame:
    """The rows of the declared contexts that are read inside, exact and inner, with `exact`, the name of the exact
    read-out, `lens`, and `rejected`.
    """
    own = beliefs[beliefs["kind"] == "lens"]
    if (own["of"] == "").any():
        raise UserError("beliefs: inner read-outs do not say what they are of, as those of earlier versions; run again")
    exact = beliefs[beliefs["readout_id"].isin(set(own["of"]))]
    both = pd.concat([exact.assign(exact=exact["readout_id"].astype(str)), own.assign(exact=own["of"].astype(str))])
    said = both[["scenario", "variant"]].drop_duplicates()
    said["rejected"] = [
        inner.rejected(str(scenario), json.loads(variant))
        for scenario, variant in said.itertuples(index=False, name=None)
    ]
    said["lens"] = [json.loads(variant).get("lens") for variant in said["variant"]]
    return both.merge(said.dropna(subset="rejected"), on=["scenario", "variant"])


def _profile(inner: Inner, config: RunConfig, method: str, rows: pd.DataFrame) -> Profile:
    gate = (config.lens or LensPlan()).gate
    judges = judging(rows["cluster"], gate, config.seed)
    rows = rows.assign(judges=rows["cluster"].isin(judges))
    exact = rows[rows["kind"] == "exact"]
    truth = _Contexts.of(exact)
    read = {}
    for (layer, lens), own in rows[rows["kind"] == "lens"].groupby(["layer", "lens"]):
        scored = _scored(inner, config, own)
        read[View(int(str(layer)), str(lens))] = Layer(
            _gate(config, gate, _Contexts.of(own), truth), scored.scores, scored.by_words
        )
    return Profile(method, _scored(inner, config, exact).scores, read, frozenset(map(str, judges)))


def _scored(inner: Inner, config: RunConfig, rows: pd.DataFrame) -> InnerScores:
    return inner.score(config, rows[~rows["judges"]].drop(columns=ADDED))


class _Contexts(NamedTuple):
    """The read-outs that judge, as a matrix, in the order of their names."""

    logp: np.ndarray
    option: np.ndarray
    cluster: np.ndarray
    rejected: np.ndarray

    @classmethod
    def of(cls, rows: pd.DataFrame) -> "_Contexts":
        rows = rows[rows["judges"] & (rows["rejected"] != BESIDE)]
        wide = rows.pivot(index="exact", columns="option_index", values=["logp", "option"]).sort_index()
        each = rows.drop_duplicates("exact").set_index("exact").loc[wide.index]
        option = wide["option"].to_numpy(dtype=object)
        option[pd.isna(option)] = None
        return cls(
            logp=wide["logp"].to_numpy(dtype=np.float64),
            option=option,
            cluster=each["cluster"].to_numpy(),
            rejected=each["rejected"].to_numpy(dtype=np.int64),
        )


def _gate(config: RunConfig, gate: Gate, read: _Contexts, truth: _Contexts) -> ReadoutGate:
    """The orders of a triple are one cluster: a posterior is compared with the mean of their priors."""
    return readout_gate(
        read.logp,
        truth.logp,
        read.option,
        read.cluster,
        read.rejected,
        min_coverage=gate.coverage,
        min_corr=gate.partial_corr,
        **resampling(config).interval,
    )
