"""Stored runs, scored by themselves or together: paired on the items that they share, and what tells them apart."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from ...hooks.errors import UserError, in_one_line
from ...metrics import INNER_KINDS
from ..experiment import TakesRatings
from ..runs.folder import RunFolder
from ..runs.manifest import ITEMS, item_digests
from ..runs.scores import as_taken, resampling
from ..scoring.engine import OVER_MODELS, ScoredTable, require_unique, score_samples
from ..scoring.measured import EVERY
from ..scoring.number import Number, Resampling
from ..scoring.registered import MODELS, Registered
from ..tables.rows import with_key, with_references
from ..tables.samples import Sample
from ..tables.understand import Understood
from ..tables.updates import WHOLE, Pairs, Updates
from .comparable import Run, levels
from .config import stored_config


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
        folders: of the runs.
        metric: one by its name, or `all`; with it the numbers that only the experiment has.
        ratings: what people made of the steps of the one run that there is.
        references: factor -> the level that its others are compared with.
        seed: of everything that is resampled; None: the first run's.
        allow_code: files of experiments that may be run.

    Raises UserError for runs that are not complete, or not comparable (as `levels`), and as `with_references`.
    """
    runs = [opened(folder, allow_code) for folder in folders]
    if ratings and len(runs) > 1:
        raise UserError(f"{ratings}: ratings are of the steps of one run; give that run alone")
    of_run = levels(runs)
    several = len(runs) > 1
    names = [", ".join(own.values()) if several else "" for own in of_run]
    tables = [_beliefs(run, ratings) for run in runs]
    taken = [as_taken(run.experiment, table) for run, table in zip(runs, tables, strict=True)]
    how = resampling(runs[0].config)
    how = how if seed is None else Resampling(seed, how.draws, how.level)
    digests = [item_digests(run.folder.recorded(ITEMS)) if several else {} for run in runs]
    by_run = [
        [
            replace(with_key(sample, known) if several else sample, run=name)
            for sample in run.experiment.samples(run.config, beliefs)
        ]
        for run, name, beliefs, known in zip(runs, names, taken, digests, strict=True)
    ]
    samples = [sample for own in by_run for sample in own]
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
    plan = _registered(runs, of_run) if several else None
    over_models = plan is not None
    found = score_samples(samples, how, metric, compared=compared, rivals=understood.rivals, over_models=over_models)
    own = [
        replace(number, run=name)
        for run, name, beliefs in zip(runs, names, taken, strict=True)
        for number in (run.experiment.own_scores(run.config, beliefs) if metric == EVERY else ())
    ]
    require_unique([*found.all, *own])
    fixed = set.intersection(*(set(run.folder.manifest.get("gate", [])) for run in runs))
    numbers = [*found.numbers, *map(_worded, own)]
    return ScoredTable(numbers, found.differences, found.skipped, understood, plan, fixed)


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
    every = run.folder.beliefs()
    beliefs = every[~every["kind"].isin(INNER_KINDS)]
    if ratings is None:
        return beliefs
    if not isinstance(run.experiment, TakesRatings):
        raise UserError(f"{ratings}: runs of {run.experiment.name} have no steps to rate; leave --ratings out")
    return run.experiment.rated(beliefs, ratings)


def _rivals(by_run: Sequence[Sequence[Sample]]) -> list[list[str]]:
    """What is compared: the methods of a run, and a method between runs."""
    within = [list(dict.fromkeys(sample.name for sample in own)) for own in by_run]
    between: dict[tuple[str, str], dict[str, None]] = {}
    for sample in (sample for own in by_run for sample in own):
        between.setdefault((sample.kind, sample.method), {})[sample.name] = None
    return [*within, *(list(names) for names in between.values() if len(by_run) > 1)]


def _mixed(by_run: Sequence[Sequence[Sample]], of_run: Sequence[Mapping[str, str]]) -> list[Sample]:
    """The updates of all runs by kind and method, for the factors that tell them apart and those within each."""
    found: dict[tuple[str, str], list[tuple[Updates, Mapping[str, str]]]] = {}
    for own, level in zip(by_run, of_run, strict=True):
        for sample in own:
            if isinstance(sample, Updates) and sample.whole_run:
                found.setdefault((sample.kind, sample.method), []).append((sample, level))
    return [_merged(kind, method, both) for (kind, method), both in found.items() if len(both) > 1]


def _merged(kind: str, method: str, both: Sequence[tuple[Updates, Mapping[str, str]]]) -> Updates:
    pairs = [sample.whole for sample, _ in both]
    within = [dict(sample.levels) for sample, _ in both]
    shared = [name for name in within[0] if all(name in own for own in within)]
    factors = {name: np.concatenate([own[name] for own in within]) for name in shared}
    for name in both[0][1]:
        factors[name] = np.concatenate(
            [np.full(len(own.prior), level[name], dtype=object) for own, (_, level) in zip(pairs, both, strict=True)]
        )
    clusters = np.concatenate([np.asarray(own.clusters) for own in pairs])
    outcomes = [own.outcome if own.outcome is not None else np.full(len(own.prior), np.nan) for own in pairs]
    outcome = np.concatenate(outcomes)
    whole = Pairs(
        prior=np.concatenate([own.prior for own in pairs]),
        posterior=np.concatenate([own.posterior for own in pairs]),
        outcome=outcome if np.isfinite(outcome).any() else None,
        clusters=clusters,
        why=np.concatenate([np.asarray(own.why) for own in pairs]),
    )
    varied = {name: values for name, values in factors.items() if len(set(values)) > 1}
    return Updates(
        kind=kind, method=method, views={WHOLE: whole}, clusters=clusters, factors=varied or None, mixed=True
    )


def _line(name: str, runs: Sequence[str], tables: Sequence[pd.DataFrame], factors: Mapping[str, str]) -> str:
    readouts = pd.concat([table.drop_duplicates("readout_id") for table in tables])
    told = [
        f"{name}, {len(runs)} run{'s' if len(runs) > 1 else ''}" + (f" ({'; '.join(runs)})" if len(runs) > 1 else ""),
        f"{readouts['item'].nunique()} items, clusters: {readouts['cluster'].nunique()}",
        *([f"factors: {', '.join(factors)}"] if factors else []),
    ]
    statuses = readouts["status"].value_counts().drop("ok", errors="ignore")
    counted = ", ".join(f"{n} {status}" for status, n in statuses.items() if n)
    return "; ".join([*told, *([f"read-outs: {counted}"] if counted else [])])


def _worded(number: Number) -> Number:
    """A number of an experiment's own, whose metric may not be worded."""
    part = "" if number.subset == "all" else f", {number.subset}"
    return number if number.quantity else replace(number, quantity=number.metric.replace("_", " ") + part)
