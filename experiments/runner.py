"""Runs an experiment: items to questions, questions to exact beliefs, beliefs to scores and a report."""

import dataclasses
import json
import math
import random
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from ..hooks.errors import UserError
from ..hooks.exact import difference
from ..hooks.lm import LanguageModel, load
from ..hooks.tokenisations import Vocabulary, other_tokenisations
from ..metrics import Score, belief_table
from .manifest import conditions, differences, digest, surroundings
from .progress import progress
from .protocol import Cell, Experiment, Item, RunConfig
from .readouts import compile_questions, read_item
from .report import render_report
from .run_folder import RunFolder


def run(experiment: Experiment, config: RunConfig, out: Path, *, verify: int = 0) -> RunFolder:
    """Run, or go on with, an experiment, and write its scores and report.

    Args:
        experiment: what to ask, read and score.
        config: under which settings.
        out: the folder in which the run's own folder is made, named by experiment, model and settings.
        verify: number of read-outs to recompute by the plain path; the largest difference is recorded.

    Raises UserError if the folder holds a run under other conditions, listing the differences.
    """
    items = experiment.items(config)
    with load(config.model, terminators=config.terminators) as lm:
        config = config.model_copy(update={"model": lm.spec.model_copy(update={"threads": lm.identity.threads})})
        now = conditions(config, lm.identity, [[item.id, item.cluster, dict(item.content)] for item in items])
        name = f"{experiment.name}-{lm.spec.name}-{digest([now['config'], now['model']])[:8]}"
        folder = RunFolder.create(out / name)
        with folder.writing():
            _refuse_mixture(folder, now)
            folder.tidy()
            folder.write("config.yaml", yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False))
            folder.write_items(items)
            record = _begin(folder, now)
            _read_all(experiment, config, items, lm, folder)
            if verify:
                record["verification"] = _verify(experiment, config, items, lm, verify)
            _finish(folder, record)
            report(folder, experiment, config)
    return folder


def report(folder: RunFolder, experiment: Experiment, config: RunConfig) -> None:
    """Scores and report page from the beliefs that are on the disk."""
    beliefs = folder.beliefs()
    cells = experiment.score(config, beliefs)
    rows = [_flat(cell) for cell in cells]
    folder.write_json("scores.json", {"experiment": experiment.name, "scores": _jsonable(rows)})
    nested = ("reasons", "params", "details")
    table = pd.DataFrame([row | {key: json.dumps(_jsonable(row[key])) for key in nested} for row in rows])
    folder.write_table("scores.parquet", table)
    folder.write("published.csv", experiment.published(cells).to_csv(index=False))
    questions = {
        question.readout_id: question for item in folder.items() for question in experiment.questions(config, item)
    }
    findings = experiment.findings(config, beliefs, questions)
    record = folder.manifest | _totals(folder, beliefs)
    folder.write("report.html", render_report(experiment, config, record, findings, cells, beliefs))


def batches(config: RunConfig, items: Sequence[Item]) -> list[Sequence[Item]]:
    """Items in the groups that are committed together."""
    return [items[i : i + config.batch_items] for i in range(0, len(items), config.batch_items)]


def _read_all(
    experiment: Experiment, config: RunConfig, items: Sequence[Item], lm: LanguageModel, folder: RunFolder
) -> None:
    """Read every batch that is not committed yet."""
    done = folder.commits()
    with progress(len(items), "item", f"{experiment.name} on {lm.spec.name}") as advance:
        for number, batch in enumerate(batches(config, items)):
            if number not in done:
                _read_batch(experiment, config, batch, lm, folder, number)
            advance(len(batch))


def _read_batch(
    experiment: Experiment,
    config: RunConfig,
    batch: Sequence[Item],
    lm: LanguageModel,
    folder: RunFolder,
    number: int,
) -> None:
    started = time.perf_counter()
    read = [read_item(experiment, config, item, lm) for item in batch]
    costs = [one.cost for one in read]
    transcripts = [line for one in read for line in one.transcripts]
    note = {
        "readouts": len(transcripts),
        **{
            key: sum(getattr(cost, key) for cost in costs) for key in ("packs", "tokens_run", "tokens_tree", "halvings")
        },
        "smallest_budget": min(cost.budget for cost in costs),
        "seconds": round(time.perf_counter() - started, 3),
    }
    folder.commit(number, belief_table(row for one in read for row in one.rows), transcripts, note)


def _verify(
    experiment: Experiment, config: RunConfig, items: Sequence[Item], lm: LanguageModel, n: int
) -> dict[str, Any]:
    """Recompute `n` read-outs, drawn by the seed, without tree or packs; read other tokenisations of their forms."""
    drawn = random.Random(config.seed).choices(items, k=n)
    vocabulary = Vocabulary(lm.tokenizer)
    worst = 0.0
    ids, others = [], []
    with progress(n, "read-out", "verifying") as advance:
        for i, item in enumerate(drawn):
            queries = compile_questions(lm.reader, experiment.questions(config, item))
            readings, _ = lm.read(queries, budget=config.token_budget)
            pick = random.Random(f"{config.seed}-{i}").randrange(len(queries))
            worst = max(worst, difference(readings[pick], lm.read_plain(queries[pick])))
            others.append(other_tokenisations(lm, queries[pick], vocabulary, budget=config.token_budget))
            ids.append(queries[pick].readout_id)
            advance(1)
    return {
        "readouts": ids,
        "largest_difference_nat": worst,
        "other_tokenisations": {
            "largest_share": _jsonable(max(one.share for one in others)),
            "largest_change": _jsonable(max(one.change for one in others)),
            "read": sum(one.n_read for one in others),
            "of": sum(one.n_all for one in others),
        },
    }


def _refuse_mixture(folder: RunFolder, now: dict[str, Any]) -> None:
    before = folder.manifest.get("conditions")
    if before is not None and (changed := differences(before, json.loads(json.dumps(now)))):
        raise UserError(
            f"{folder.path}: was run under other conditions ({'; '.join(changed)}); choose another --out, "
            "or delete the folder to run it anew"
        )


def _begin(folder: RunFolder, now: dict[str, Any]) -> dict[str, Any]:
    """Write the manifest of a run that has begun; sessions before this one stay on record."""
    sessions = folder.manifest.get("sessions", [])
    record = {
        "status": "running",
        "conditions": now,
        "verification": folder.manifest.get("verification"),
        "sessions": [*sessions, {"began": _now(), "ended": None, **surroundings()}],
    }
    folder.write_json("manifest.json", record)
    return record


def _finish(folder: RunFolder, record: dict[str, Any]) -> None:
    record["status"] = "complete"
    record["sessions"][-1]["ended"] = _now()
    folder.write_json("manifest.json", record | _totals(folder, folder.beliefs()))


def _totals(folder: RunFolder, beliefs: pd.DataFrame) -> dict[str, Any]:
    """What the committed batches took and how their read-outs ended."""
    commits = folder.commits().values()
    counted = ("readouts", "packs", "tokens_run", "tokens_tree", "halvings", "seconds")
    totals = {key: sum(commit[key] for commit in commits) for key in counted}
    totals["smallest_budget"] = min(commit["smallest_budget"] for commit in commits)
    statuses = beliefs.drop_duplicates("readout_id")["status"].value_counts().sort_index()
    return {"totals": totals, "statuses": {str(status): int(n) for status, n in statuses.items()}}


def _flat(cell: Cell) -> dict[str, Any]:
    """A cell as a row: the fields that every score has, and the rest under `details`."""
    fields = cell.score.as_dict()
    common = {"estimate", *(field.name for field in dataclasses.fields(Score))}
    details = {name: value for name, value in fields.items() if name not in common | {cell.score.headline}}
    return (
        {"metric": cell.metric, "method": cell.method, "subset": cell.subset, "kind": cell.kind}
        | {name: value for name, value in fields.items() if name in common}
        | {"details": details}
    )


def _jsonable(value: Any) -> Any:
    """The same in what JSON has. NaN is null; the status beside it says why."""
    if isinstance(value, Mapping):
        return {str(key): _jsonable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(inner) for inner in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
