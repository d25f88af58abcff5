"""Inner read-outs of a run: what an experiment declares of them, their gates, judged on some clusters, their scores,
on the others, and their differences from the other beliefs of the same contexts (METRICS W3).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import pandas as pd

from ....base.errors import UserError
from ....base.text import shown
from ....hooks.lens.plan import Gate, LensPlan, View
from ....metrics import ReadoutGate, adjust, readout_gate
from ....metrics.beliefs import distinct_conditions
from ....metrics.contract import Score
from ....metrics.number import Number
from ....metrics.scoring.engine import score_samples
from ....metrics.tables.samples import ALL, Sample
from ...report.cells import scored_table
from ...report.document import TableBlock
from ...report.findings import Column
from ..experiment import Experiment, RunConfig
from ..scores import resampling

PRIOR, BESIDE = -1, -2
"""Of a context before there is any evidence, and of one that is scored but judges no layer."""


@dataclass(frozen=True)
class Inner:
    """The declaration."""

    rejected: Callable[[str, Mapping[str, Any]], int | None]
    """From a read-out's scenario and conditions to the option that its context is evidence about, one that it rejects
    or that was given as an answer; `PRIOR` before there is any, `BESIDE` if it is scored and judges nothing, None if it
    is neither."""
    columns: Sequence[Column]
    """The scores to show, the headline first."""
    score: Callable[[Any, pd.DataFrame], Mapping[str, Score]]
    """From the configuration and the belief rows of one method, at one layer or exact, to its scores by metric. The
    headline of a read-out that knows the words and no context is 0."""
    beside: Callable[[Any, pd.DataFrame], Iterable[tuple[str, Iterable[Sample]]]] | None = None
    """From the configuration and a belief table in which inner read-outs are methods of their own, `<method>/<name>`,
    to the samples in which these meet the other beliefs, by the engine's metric that is to score them; None: in
    none."""


@runtime_checkable
class ReadInside(Protocol):
    """An experiment that has such a declaration."""

    @property
    def inner(self) -> Inner:
        """Its priors and posteriors, and what to score."""
        ...


# Inner read-outs among the other beliefs of a run: what both are compared by, and what only both together say.

ADJUSTED = "p after Holm"
"""What stands beside a number."""


def named_apart(rows: pd.DataFrame, methods: Sequence[str], conditions: Sequence[str]) -> pd.DataFrame:
    """The rows of inner read-outs in the contexts of the exact ones, under methods of their own."""
    return rows.assign(method=methods).drop(columns=[name for name in conditions if name in rows])


def scored_beside(
    experiment: Experiment, config: RunConfig, outside: pd.DataFrame, inner: pd.DataFrame
) -> list[Number]:
    """The numbers of inner read-outs that take other beliefs of the same contexts, and their differences from these;
    none of an experiment that declares none. All p that are not adjusted yet are adjusted together.
    """
    if not isinstance(experiment, ReadInside) or experiment.inner.beside is None or inner.empty:
        return []
    names = set(inner["method"])
    alone = {column.metric for column in experiment.inner.columns}
    numbers: list[Number] = []
    for metric, samples in experiment.inner.beside(config, pd.concat([outside, inner], ignore_index=True)):
        scored = score_samples(list(samples), resampling(config), metric, compared={experiment.headline})
        numbers += [number for number in scored.numbers if number.metric not in alone] + [*scored.differences]
    return _adjusted([number for number in numbers if any(name in number.method for name in names)])


def _adjusted(numbers: Sequence[Number]) -> list[Number]:
    plain = [number for number in numbers if number.score.p == number.score.p and number.family != "differences"]
    adjusted = adjust([number.score.p for number in plain]) if plain else None
    p = (
        {}
        if adjusted is None
        else dict(zip([number.key for number in plain], adjusted.p_adjusted.tolist(), strict=True))
    )
    return [
        replace(number, beside={**number.beside, ADJUSTED: f"{shown(p[number.key])} of {len(p)}"})
        if number.key in p
        else number
        for number in numbers
    ]


def numbers_table(name: str, numbers: Sequence[Number]) -> TableBlock:
    """A folded table of numbers, with what is to be read beside each."""

    def notes(number: Number) -> list[str]:
        part = [number.subset] if number.subset != ALL else []
        return [", ".join([number.method, *part]), *(f"{key} {value}" for key, value in number.beside.items())]

    return scored_table(numbers, notes, folded=True, name=name)


# Every number about inner read-outs: gates, judged on some clusters, and scores, on the others (METRICS W3).

GATE = "readout_gate"
EXACT = "exact, as scored inside"
"""The subset of the exact read-out on the items that score inner ones."""
GATE_FAILED = "gate_failed"
ADDED = ["exact", "lens", "rejected_option", "judges"]
"""Columns of the contexts that no experiment knows."""


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


def profiles(inner: Inner, config: RunConfig, beliefs: pd.DataFrame) -> list[Profile]:
    """The gates and scores of every method, layer and lens."""
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
            marked = replace(score, status=score.status if read.gate.passed else GATE_FAILED)
            yield Number(metric=metric, method=profile.method, kind="lens", subset=f"{lens}@{layer}", score=marked)


def admitted(profiles: Sequence[Profile], beliefs: pd.DataFrame) -> pd.DataFrame:
    """The rows of the layers that pass, without the clusters that judged, each layer a method of its own."""
    passed = {
        f"{profile.method}/{lens}@{layer}"
        for profile in profiles
        for (layer, lens), read in profile.inner.items()
        if read.gate.passed
    }
    rows = scoring(profiles, beliefs[beliefs["kind"] == "lens"])
    places = zip(*(rows[name] for name in ("method", "lens", "layer")), strict=True) if len(rows) else ()
    rows = named_apart(rows, [f"{method}/{lens}@{layer}" for method, lens, layer in places], ("lens",))
    return rows[rows["method"].isin(passed)]


def scoring(profiles: Sequence[Profile], beliefs: pd.DataFrame) -> pd.DataFrame:
    """The rows of clusters that judged no method."""
    return beliefs[~beliefs["cluster"].isin(frozenset[str]().union(*(profile.judges for profile in profiles)))]


def judging(clusters: pd.Series, gate: Gate, seed: int) -> set[str]:
    """The clusters that judge, drawn by the seed; at least one judges and one scores."""
    every = clusters.drop_duplicates().to_numpy()
    n = min(max(round(gate.share * len(every)), 1), len(every) - 1)
    return set(np.random.default_rng(seed).permutation(every)[:n])


def _contexts(inner: Inner, beliefs: pd.DataFrame) -> pd.DataFrame:
    """The exact and inner rows of the declared contexts, with `exact`, whose each is, and `rejected_option`."""
    inside = beliefs[beliefs["kind"] == "lens"]
    if (inside["of"] == "").any():
        raise UserError("beliefs: inner read-outs do not say what they are of, as those of earlier versions; run again")
    exact = beliefs[beliefs["readout_id"].isin(set(inside["of"]))]
    both = pd.concat(
        [exact.assign(exact=exact["readout_id"].astype(str)), inside.assign(exact=inside["of"].astype(str))],
        ignore_index=True,
    )
    codes, contexts = distinct_conditions(both, without=["exact"], beside=["scenario"])
    evidence = [inner.rejected(str(context.pop("scenario")), context) for context in contexts]
    both = both.assign(rejected_option=np.array([np.nan if option is None else option for option in evidence])[codes])
    return both[both["rejected_option"].notna()].astype({"rejected_option": int})


def _profile(inner: Inner, config: RunConfig, method: str, rows: pd.DataFrame) -> Profile:
    gate = (config.lens or LensPlan()).gate
    judges = judging(rows["cluster"], gate, config.seed)
    rows = rows.assign(judges=rows["cluster"].isin(judges))
    exact = rows[rows["kind"] == "exact"]
    truth = _Contexts.of(exact)
    read = {}
    inside = rows[rows["kind"] == "lens"].astype({"lens": str})
    for (layer, lens), readouts in inside.groupby(["layer", "lens"]):
        scores, judged = _scored(inner, config, readouts), _gate(config, gate, _Contexts.of(readouts), truth)
        read[View(int(str(layer)), str(lens))] = Layer(judged, scores)
    return Profile(method, _scored(inner, config, exact), read, frozenset(map(str, judges)))


def _scored(inner: Inner, config: RunConfig, rows: pd.DataFrame) -> Mapping[str, Score]:
    return inner.score(config, rows[~rows["judges"]].drop(columns=ADDED))


class _Contexts(NamedTuple):
    """The read-outs that judge, as a matrix, in the order of their names."""

    logp: np.ndarray
    option: np.ndarray
    cluster: np.ndarray
    rejected: np.ndarray

    @classmethod
    def of(cls, rows: pd.DataFrame) -> "_Contexts":
        rows = rows[rows["judges"] & (rows["rejected_option"] != BESIDE)]
        wide = rows.pivot(index="exact", columns="option_index", values=["logp", "option"]).sort_index()
        each = rows.drop_duplicates("exact").set_index("exact").loc[wide.index]
        option = wide["option"].to_numpy(dtype=object)
        option[pd.isna(option)] = None
        return cls(
            logp=wide["logp"].to_numpy(dtype=np.float64),
            option=option,
            cluster=each["cluster"].to_numpy(),
            rejected=each["rejected_option"].to_numpy(dtype=np.int64),
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
        how=resampling(config),
    )
