"""Stored runs, scored by themselves or together: which may be, what tells them apart, and their numbers paired on
the items that they share.
"""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ...base.errors import UserError, in_one_line
from ...metrics.contract import Resampling
from ...metrics.forms.recognition import Understood
from ...metrics.number import Number
from ...metrics.registration import MODELS, Registered
from ...metrics.scoring.engine import EVERY, OVER_MODELS, ScoredTable, require_unique, score_samples
from ...metrics.tables.sample_rows import WHOLE, Pairs, Updates, with_key, with_references
from ...metrics.tables.samples import Sample
from .addons.passive_beliefs import applied
from .addons.side_by_side import disagreements, said_numbers
from .config import stored_config
from .experiment import Experiment, RunConfig
from .folder import RunFolder
from .manifest import ITEMS, item_digests
from .scores import ScoredRun, as_taken, resampling, without_inner
from .terms import terms_of

INDIFFERENT = frozenset({"experiment", "model", "seed", "items", "token_budget", "batch_items", "together"})
INDIFFERENT |= {"low_coverage", "capture", "lens", "bootstrap_draws", "level", "temperatures", "registered"}
"""Settings that change neither what is asked nor what an answer means."""
WHERE = {"device", "threads", "kernel", "path", "sampler"}
"""Of what is recorded of a model: how it was run, which makes it no other."""
LONG = 30
"""Characters of a level; of a longer text its hash stands there."""


class Run(NamedTuple):
    """A run on the disk."""

    folder: RunFolder
    experiment: Experiment
    config: RunConfig

    @property
    def conditions(self) -> Mapping[str, Any]:
        """As recorded."""
        return self.folder.manifest["conditions"]


def levels(runs: Sequence[Run]) -> list[dict[str, str]]:
    """[runs] the level of each factor: `model`, and the conditions that differ; those that change together are one.

    Raises UserError for runs of several experiments or in other words, that are alike, or whose models differ in a
    condition as well.
    """
    first = runs[0]
    for run in runs:
        if run.experiment.name != first.experiment.name:
            raise UserError(
                f"{run.folder.path}: is a run of {run.experiment.name}, {first.folder.path} one of "
                f"{first.experiment.name}; score the runs of one experiment together"
            )
        differing = _differing(first, run)
        if differing:
            raise UserError(f"{run.folder.path}: has another {differing}; score it apart from the other runs")
    models = model_names(runs)
    levels_of_runs = [{"model": model} for model in models]
    settings = [_within(run, first.experiment.conditions) for run in runs]
    together: dict[tuple[int, ...], list[str]] = {}
    for name in settings[0]:
        values = [of_run.get(name, "") for of_run in settings]
        together.setdefault(tuple(map(values.index, values)), []).append(name)
    for pattern, names in together.items():
        if not any(pattern):
            continue
        if 1 < len(set(models)) == len(set(zip(models, pattern, strict=True))):
            raise UserError(f"{names[0]} differs between models and within none; run one model both ways, or all alike")
        for level, of_run in zip(levels_of_runs, settings, strict=True):
            level[" and ".join(names)] = ", ".join(short(of_run.get(name, "")) for name in names)
    for i, level in enumerate(levels_of_runs):
        if level in levels_of_runs[:i]:
            raise UserError(
                f"{runs[i].folder.path}: is a second run of {models[i]} under the same conditions; "
                "`doxascope collect` pools seeds, and puts runs of any kind into one table"
            )
    return levels_of_runs


def _differing(run: Run, other: Run) -> str:
    """The first setting in which rows would be called alike and be of other things."""
    free = INDIFFERENT | run.experiment.conditions | run.experiment.choices
    first, second = (flat(each.config.model_dump(mode="json")) for each in (run, other))
    fixed = [name for name in first if name in second and not _is_of(name, free)]  # a method may be missing in one
    return next((name for name in fixed if first[name] != second[name]), "")


def _within(run: Run, names: Collection[str]) -> dict[str, str]:
    """The settings of those names, and what lies below them, as text."""
    return {name: text for name, text in flat(run.config.model_dump(mode="json")).items() if _is_of(name, names)}


def _is_of(name: str, names: Collection[str]) -> bool:
    return any(name == other or name.startswith(f"{other}.") for other in names)


def model_names(runs: Sequence[Run]) -> list[str]:
    """The name of each run's model, with what tells it apart from another of that name."""
    return named_models([run.conditions["model"] | {"thinking": run.config.model.thinking} for run in runs])


def named_models(recorded: Sequence[Mapping[str, Any]]) -> list[str]:
    """The same of what is recorded of models."""
    models = [{key: value for key, value in model.items() if key not in WHERE} for model in recorded]
    names = []
    for model in models:
        alike = [other for other in models if other["name"] == model["name"]]
        apart = [f"{key} {model[key]}" for key in model if any(other.get(key) != model[key] for other in alike)]
        names.append(f"{model['name']} ({', '.join(apart)})" if apart else model["name"])
    return names


def flat(settings: Mapping[str, Any], path: str = "") -> dict[str, str]:
    """Settings as text by their full names."""
    texts = {}
    for key, value in settings.items():
        texts |= flat(value, f"{path}{key}.") if isinstance(value, dict) else {f"{path}{key}": str(value)}
    return texts


def short(text: str) -> str:
    """A level, or of a longer text its hash."""
    return text if len(text) <= LONG else f"#{hashlib.sha256(text.encode()).hexdigest()[:6]}"


@in_one_line("these runs cannot be scored")
def score_runs(
    folders: Sequence[RunFolder],
    metric: str = EVERY,
    *,
    ratings: Path | None = None,
    references: Mapping[str, str] | None = None,
    seed: int | None = None,
    allow_code: Sequence[Path] = (),
) -> ScoredTable:
    """Score runs: each number of each run as the run itself has it, and what they differ by on common items (Holm over
    all comparisons).

    Args:
        metric: one by its name, or `all`; with it the numbers that only the experiment has.
        ratings: what people made of the steps of the one run that there is.
        references: factor -> the level that its others are compared with.
        seed: of everything that is resampled; None: the first run's.

    Raises UserError for runs that are not complete, or not comparable (as `levels`), and as `with_references`.
    """
    runs = [opened(folder, allow_code) for folder in folders]
    if ratings and len(runs) > 1:
        raise UserError(f"{ratings}: ratings are of the steps of one run; give that run alone")
    of_run = levels(runs)
    several = len(runs) > 1
    names = [", ".join(level.values()) if several else "" for level in of_run]
    tables = [_beliefs(run, ratings) for run in runs]
    taken = [as_taken(run.experiment, table) for run, table in zip(runs, tables, strict=True)]
    how = resampling(runs[0].config)
    how = how if seed is None else Resampling(seed, how.draws, how.level)
    by_run: list[list[Sample]] = []
    for run, name, beliefs in zip(runs, names, taken, strict=True):
        digests = item_digests(run.folder.recorded(ITEMS)) if several else {}
        samples = run.experiment.samples(run.config, beliefs)
        by_run.append([replace(with_key(sample, digests) if several else sample, run=name) for sample in samples])
    samples = [sample for of_one in by_run for sample in of_one]
    samples += _mixed(by_run, of_run) if several else []
    samples = with_references(samples, references or {})
    understood = Understood(
        Path(" + ".join(folder.path.name for folder in folders)),
        f"runs of {runs[0].experiment.name}",
        samples,
        _line(runs[0].experiment.name, names, tables, of_run[0] if several else {}),
        _rivals(by_run),
    )
    compared = {runs[0].experiment.headline} if metric == EVERY else None
    plan = _registered(runs, of_run) if several else runs[0].config.registered
    over_models = several and plan is not None
    first = runs[0].config.registered
    planned = first if all(run.config.registered == first for run in runs) else None
    margins = {planned.metric: planned.margin} if planned and planned.margin is not None else {}
    scored = score_samples(
        samples, how, metric,
        compared=compared, rivals=understood.rivals, over_models=over_models, margins=margins,
    )  # fmt: skip
    further = [
        replace(number, run=name)
        for run, name, beliefs in zip(runs, names, taken, strict=True)
        for number in ((*run.experiment.own_scores(run.config, beliefs), *_said(run)) if metric == EVERY else ())
    ]
    require_unique([*scored.all, *further])
    gate = set.intersection(*(set(run.folder.manifest.get("gate", [])) for run in runs))
    numbers = [*scored.numbers, *map(_worded, further)]
    if planned and margins:  # the margin of the plan, and no other beside it
        numbers = [
            replace(number, equivalence=planned.equivalence(number))
            if (number.metric, number.subset) == (planned.metric, planned.subset)
            else number
            for number in numbers
        ]
    methods, kinds = dict.fromkeys(number.method for number in numbers), {number.kind for number in numbers}
    means = [
        term
        for run in runs
        for term in (*run.experiment.terms(run.config), *terms_of(run.config.model_dump(mode="json"), methods, kinds))
    ]
    return ScoredTable(numbers, scored.differences, scored.skipped, understood, plan, gate, means)


def _registered(runs: Sequence[Run], of_run: Sequence[Mapping[str, str]]) -> Registered | None:
    """The number that all runs were made for, over their models, if these were registered as a sample."""
    plans = [run.config.registered for run in runs]
    first, models = plans[0], {level["model"] for level in of_run}
    if first is None or first.target != MODELS or any(plan != first for plan in plans) or len(models) < len(runs):
        return None
    return first.model_copy(update={"metric": first.metric + OVER_MODELS})


def opened(folder: RunFolder, allow_code: Sequence[Path] = ()) -> Run:
    """A run that is whole, with its experiment. Raises UserError for one that is not, or not as it was written."""
    folder.require_as_begun()
    if folder.missing:
        raise UserError(f"{folder.path}: {folder.missing} batches are still to be read; go on with the run first")
    return Run(folder, *stored_config(folder.config, allow_code))


def _beliefs(run: Run, ratings: Path | None) -> pd.DataFrame:
    """The rows that the experiment scores, with those of people."""
    beliefs = without_inner(run.folder.beliefs())
    return beliefs if ratings is None else run.experiment.rated(beliefs, ratings)


def _said(run: Run) -> Iterator[Number]:
    """What is said, beside what is computed and what probes that were applied to the run read."""
    scored = ScoredRun(run.folder, run.experiment, run.config, cache(run.folder.beliefs), pd.DataFrame(), ())
    yield from said_numbers(scored, disagreements(scored, {meta.name: table for meta, table in applied(run.folder)}))


def _rivals(by_run: Sequence[Sequence[Sample]]) -> list[list[str]]:
    """What is compared: the methods of a run, and a method between runs."""
    within = [list(dict.fromkeys(sample.name for sample in samples)) for samples in by_run]
    between: dict[tuple[str, str], dict[str, None]] = {}
    for sample in chain.from_iterable(by_run):
        between.setdefault((sample.kind, sample.method), {})[sample.name] = None
    return [*within, *(list(names) for names in between.values() if len(by_run) > 1)]


def _mixed(by_run: Sequence[Sequence[Sample]], of_run: Sequence[Mapping[str, str]]) -> list[Sample]:
    """The updates of all runs by kind and method, for the factors that tell them apart and those within each."""
    updates: dict[tuple[str, str], list[tuple[Updates, Mapping[str, str]]]] = {}
    for samples, level in zip(by_run, of_run, strict=True):
        for sample in samples:
            if isinstance(sample, Updates) and sample.whole_run:
                updates.setdefault((sample.kind, sample.method), []).append((sample, level))
    return [_merged(kind, method, runs) for (kind, method), runs in updates.items() if len(runs) > 1]


def _merged(kind: str, method: str, runs: Sequence[tuple[Updates, Mapping[str, str]]]) -> Updates:
    """One sample of the updates of several runs, each with its levels as factors."""
    pairs = [sample.whole for sample, _ in runs]
    within = [dict(sample.levels) for sample, _ in runs]
    shared = [name for name in within[0] if all(name in of_run for of_run in within)]
    factors = {name: np.concatenate([of_run[name] for of_run in within]) for name in shared}
    for name in runs[0][1]:
        factors[name] = np.concatenate(
            [np.full(len(pair.prior), level[name], dtype=object) for pair, (_, level) in zip(pairs, runs, strict=True)]
        )
    clusters = np.concatenate([np.asarray(pair.clusters) for pair in pairs])
    outcome = np.concatenate(
        [pair.outcome if pair.outcome is not None else np.full(len(pair.prior), np.nan) for pair in pairs]
    )
    whole = Pairs(
        prior=np.concatenate([pair.prior for pair in pairs]),
        posterior=np.concatenate([pair.posterior for pair in pairs]),
        outcome=outcome if np.isfinite(outcome).any() else None,
        clusters=clusters,
        why=np.concatenate([np.asarray(pair.why) for pair in pairs]),
    )
    varied = {name: values for name, values in factors.items() if len(set(values)) > 1}
    return Updates(
        kind=kind, method=method, views={WHOLE: whole}, clusters=clusters, factors=varied or None, mixed=True
    )


def _line(name: str, runs: Sequence[str], tables: Sequence[pd.DataFrame], factors: Mapping[str, str]) -> str:
    readouts = pd.concat([table.drop_duplicates("readout_id") for table in tables])
    parts = [
        f"{name}, {len(runs)} run{'s' if len(runs) > 1 else ''}" + (f" ({'; '.join(runs)})" if len(runs) > 1 else ""),
        f"{readouts['item'].nunique()} items, clusters: {readouts['cluster'].nunique()}",
        *([f"factors: {', '.join(factors)}"] if factors else []),
    ]
    statuses = readouts["status"].value_counts().drop("ok", errors="ignore")
    counted = ", ".join(f"{n} {status}" for status, n in statuses.items() if n)
    return "; ".join([*parts, *([f"read-outs: {counted}"] if counted else [])])


def _worded(number: Number) -> Number:
    """A number of an experiment's own, whose metric may not be worded."""
    part = "" if number.subset == "all" else f", {number.subset}"
    return number if number.quantity else replace(number, quantity=number.metric.replace("_", " ") + part)
