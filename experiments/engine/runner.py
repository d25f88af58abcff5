"""Runs an experiment: items to questions, questions to exact beliefs, beliefs to scores and a report."""

import contextlib
import json
import logging
import math
import random
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from ...hooks.errors import UserError, in_one_line
from ...hooks.files import file_digest
from ...hooks.identity import condition_differences
from ...hooks.store import ActivationWriter
from ...hooks.store.header import Header
from ...hooks.text import as_csv
from ..addons import ADDONS
from ..addons.addon import ScoredRun, without_inner
from ..experiment import Experiment, RunConfig, TabulatesAnswers, TakesParts
from ..report.blocks import Prose
from ..report.lead import Lead
from ..report.rows import as_row, jsonable
from ..report.run_page import run_page
from ..runs.folder import RunFolder
from ..runs.integrity import STORE, restore, say_what_is_gone
from ..runs.manifest import (
    CERTIFICATE,
    CONFIG,
    ITEMS,
    digest,
    item_lines,
    refuse_other_registration,
    surroundings,
)
from ..runs.scores import score_and_tell
from ..runs.shard import WHOLE, Shard
from ..scoring.verdict import verdicts
from .progress import progress
from .worker import COUNTED, batches, told
from .workers import OpenWorkers, Workers, one_here

log = logging.getLogger("doxascope")

ANSWERS = "answers.csv"
COMPLETE = "complete"
PATIENCE = 30.0
"""Seconds that a shard that begins waits for its turn: a whole run lets none in."""
FOREVER = -1
"""To wait for its turn once it has begun: then only another shard, which writes the scores, can be in the way."""


def run(
    experiment: Experiment,
    config: RunConfig,
    out: Path,
    *,
    verify: int = 0,
    shard: Shard = WHOLE,
    take_over: bool = False,
    restored: bool = False,
    workers: OpenWorkers = one_here,
) -> RunFolder:
    """Run, or go on with, an experiment, and write its scores and report.

    Shards of a run may be read at the same time; the one that ends last writes the scores, the same to the byte as
    those of a run in one piece. On a disk without file locks none does, and `report` is a step of its own.

    Args:
        experiment: what to ask, read and score.
        config: under which settings.
        out: the folder in which the run's own folder is made, named by experiment, model and settings.
        verify: number of read-outs to recompute by the plain path; the largest difference is recorded.
        shard: the part of the batches to read.
        take_over: once a shard's own batches are read, read what others have not read yet.
        restored: read anew what is damaged or gone, activations among it.
        workers: opens what reads: one worker in this process, or many.

    Raises UserError if the folder holds a run under other conditions, listing the differences, or one that is not on
    the disk as it was written.
    """
    folder, config = read(
        experiment,
        config,
        out,
        verify=verify,
        shard=shard,
        take_over=take_over,
        restored=restored,
        workers=workers,
    )
    with folder.writing(), folder.taking_turns(FOREVER) as alone:
        if alone and not folder.missing:
            report(folder, experiment, config)
    return folder


def read(
    experiment: Experiment,
    config: RunConfig,
    out: Path,
    *,
    verify: int = 0,
    shard: Shard = WHOLE,
    take_over: bool = False,
    restored: bool = False,
    workers: OpenWorkers = one_here,
) -> tuple[RunFolder, RunConfig]:
    """The part of `run` that needs the model; returns the folder, and the settings as they are recorded in it."""
    with workers(experiment, config) as at_work:
        folder = RunFolder.create(out / at_work.began.name, shard)
        with folder.writing():
            with folder.taking_turns(PATIENCE):
                _enter(folder, experiment, at_work, restored)
            now = at_work.began.conditions
            session = folder.begin_session(shard=str(shard), conditions=digest(now), **surroundings())
            with _store(at_work.header(), folder) as store:
                _read_all(folder, at_work, store, take_over)
            verification = at_work.verify(verify) if verify else None
            with folder.taking_turns(FOREVER) as alone:
                session.end(verification=verification)
                if alone and not folder.missing:
                    complete(folder)
    return folder, at_work.began.config


def report(folder: RunFolder, experiment: Experiment, config: RunConfig) -> None:
    """Scores and report page from the beliefs that are on the disk. Raises UserError if these cannot be scored."""
    with in_one_line(f"{folder.path}: cannot be scored"):  # a stranger's run may hold anything that is well formed
        _report(folder, experiment, config)


def _report(folder: RunFolder, experiment: Experiment, config: RunConfig) -> None:
    refuse_other_registration(folder.path, folder.manifest["conditions"], config)
    folder.require_as_begun()
    if not folder.missing and folder.manifest["status"] != COMPLETE:  # shards that could not lock leave it to this
        complete(folder)
    whole = cache(folder.beliefs)
    in_parts = folder.belief_parts().each(lambda parts: map(without_inner, parts))
    beliefs: Any = in_parts if isinstance(experiment, TakesParts) else without_inner(whole())
    numbers, left_out = score_and_tell(experiment, config, beliefs)
    scored = ScoredRun(folder, experiment, config, whole, beliefs, numbers)
    added = [addon.finish(scored) for addon in ADDONS]
    every_number = [*numbers, *(number for one in added for number in one.numbers)]
    lead = Lead(verdicts(numbers), every_number, config.registered, folder.manifest.get("gate", []))
    rows = [as_row(number) for number in every_number]
    record = folder.manifest | _totals(folder) | {"sessions": folder.sessions}
    partial = {"partial": f"{len(folder.committed())} of {record['batches']} batches"} if folder.missing else {}
    named = {"experiment": experiment.name, "headline": experiment.headline, **partial}
    named |= {"beside": list(experiment.beside)} if experiment.beside else {}
    further: dict[str, Any] = {"not_scored": left_out} if left_out else {}
    findings = experiment.findings(config, beliefs, numbers, folder.transcripts)
    further |= {"advice": list(findings.advice)} if findings.advice else {}
    folder.write_json("scores.json", {**named, "lead": lead.as_dict(), "scores": rows, **further})
    nested = ("reasons", "params", "details", "beside", "equivalence")
    table = pd.DataFrame([row | {key: json.dumps(row[key]) for key in nested} for row in rows])
    folder.write_table("scores.parquet", table)
    for name, data in (file for one in added for file in one.files.items()):
        folder.write_json(name, jsonable(data))
    if len(published := experiment.published(numbers)):
        folder.write("published.csv", as_csv(published))
    if isinstance(experiment, TabulatesAnswers):
        folder.write(ANSWERS, as_csv(experiment.answers(beliefs)))
    notes = {key: note for one in added for key, note in one.notes.items()}
    blocks = [block for one in added for block in one.blocks]
    blocks += [Prose(text=f"Not scored: {name} {why}.") for name, why in left_out.items()]
    page = run_page(experiment, config, record, lead, findings, numbers, beliefs, notes, blocks)
    written = ["scores.json", "scores.parquet", *page.write(folder), *(name for one in added for name in one.files)]
    written += ["published.csv"] if len(published) else []
    written += [ANSWERS] if isinstance(experiment, TabulatesAnswers) else []
    written += [STORE] if (folder.path / STORE).exists() else []
    folder.write_manifest(folder.manifest | {"written": {name: file_digest(folder.path / name) for name in written}})


def _enter(folder: RunFolder, experiment: Experiment, workers: Workers, restored: bool) -> None:
    """Begin the run, or go on with it. Of shards that begin at once one writes down what the run is, and the others
    compare.

    Raises UserError as `read` does.
    """
    while True:
        began = folder.manifest
        _use_its_threads(folder, workers)
        _refuse_mixture(folder, workers)
        if restored:
            restore(folder)
        folder.require_as_begun()
        folder.tidy()
        say_what_is_gone(folder)
        if began and folder.shard != WHOLE:
            return
        folder.write(ITEMS, item_lines(told(workers.items)))
        folder.write(CONFIG, yaml.safe_dump(workers.began.config.model_dump(mode="json"), sort_keys=False))
        try:
            return _begin(folder, experiment, workers)
        except FileExistsError:
            continue


@contextlib.contextmanager
def _store(header: Header | None, folder: RunFolder) -> Iterator[ActivationWriter | None]:
    """Where the residual stream goes, if the run captures it. Its batches count by the commit lines of the run."""
    if header is None:
        yield None
        return
    with ActivationWriter.open(folder.path / "activations", header, folder.mark) as store:
        yield store


def _read_all(folder: RunFolder, workers: Workers, store: ActivationWriter | None, take_over: bool) -> None:
    """Read and commit every batch that is this process's, and not committed yet."""
    sizes = list(map(len, batches(workers.began.config, workers.items)))
    done = set(folder.committed())
    mine = set(range(len(sizes))) if take_over else {number for number in range(len(sizes)) if number in folder.shard}
    title = f"{workers.began.name.rpartition('-')[0]}"
    with progress(sum(sizes[number] for number in mine), "item", title) as advance:
        advance(sum(sizes[number] for number in mine & done))
        for one in workers.read(_to_read(folder, len(sizes), take_over), store):
            folder.commit(one.number, one.beliefs, one.transcripts, one.note)
            advance(sizes[one.number])


def _to_read(folder: RunFolder, n: int, take_over: bool) -> Iterator[int]:
    """The batches to read, one at a time: a shard's own, as far as no other has read them meanwhile; then, if so asked,
    any that is missing, drawn at random, so that several that are idle seldom read the same.
    """
    done = set(folder.committed())
    for number in (number for number in range(n) if number in folder.shard and number not in done):
        if folder.shard == WHOLE or number not in folder.committed():
            done.add(number)
            yield number
    draw = random.Random(folder.mark)
    while take_over and (left := sorted(set(range(n)) - done.union(folder.committed()))):
        done.add(number := draw.choice(left))
        yield number


def _use_its_threads(folder: RunFolder, workers: Workers) -> None:
    """A run goes on with as many threads as it began with: another number would move the last bits of what is read."""
    began = folder.manifest.get("conditions", {}).get("model", {}).get("threads")
    if isinstance(began, int) and began != workers.began.conditions["model"]["threads"]:
        log.warning("%s: goes on with %d threads, as it began", folder.path, began)
        workers.use_threads(began)


def _refuse_mixture(folder: RunFolder, workers: Workers) -> None:
    config, now = workers.began.config, workers.began.conditions
    record = folder.manifest
    before = record.get("conditions")
    if before is not None:
        refuse_other_registration(folder.path, before, config)
    if before is not None and (changed := condition_differences(before, json.loads(json.dumps(now)))):
        raise UserError(
            f"{folder.path}: was run under other conditions ({'; '.join(changed)}); choose another --out, "
            "or delete the folder to run it anew"
        )
    if record and record["batches"] != (n := len(batches(config, workers.items))):
        raise UserError(
            f"{folder.path}: was begun in {record['batches']} batches, which would be {n} now; choose another --out"
        )


def _begin(folder: RunFolder, experiment: Experiment, workers: Workers) -> None:
    """Write down what the run is, or that it goes on; the gate stays as it was when the run began.

    Raises FileExistsError if another shard has begun it meanwhile.
    """
    before, one_of_many = folder.manifest, folder.shard != WHOLE
    certificate = workers.began.certificate
    if certificate:
        with contextlib.suppress(FileExistsError):
            folder.write_json(CERTIFICATE, certificate.model_dump(mode="json"), once=one_of_many)
    record = {
        "status": "running",
        "conditions": workers.began.conditions,
        "gate": before.get("gate", []) if before else sorted(experiment.gate),
        "batches": len(batches(workers.began.config, workers.items)),
        "verification": before.get("verification"),
        "certificate": certificate.hash if certificate else before.get("certificate"),
    }
    folder.write_manifest(record, once=one_of_many)


def complete(folder: RunFolder) -> None:
    """Write down that nothing is missing.

    Raises UserError for sessions that read under other conditions than the run's: shards on machines of several kinds.
    """
    record, sessions = folder.manifest, folder.sessions
    ours = digest(record["conditions"])
    if other := [one["session"] for one in sessions if one["conditions"] != ours]:
        raise UserError(
            f"{folder.path}: session {other[0]} read under other conditions; run it anew with another --out"
        )
    verified = [record["verification"], *(one.get("verification") for one in sessions)]
    record["verification"] = next((one for one in reversed(verified) if one), None)
    folder.write_manifest(record | {"status": COMPLETE} | _totals(folder))


def _totals(folder: RunFolder) -> dict[str, Any]:
    """What the committed batches took and how their read-outs ended."""
    totals: Counter[str] = Counter()
    statuses: Counter[str] = Counter()
    smallest = math.inf
    counted = ("readouts", *COUNTED, "seconds")
    for commit in folder.commits():
        if absent := {*counted, "statuses", "smallest_budget"} - commit.keys():
            raise UserError(
                f"{folder.path}: batch {commit['batch']} was committed without its {min(absent)}, by another version "
                "of doxascope; run it anew with another --out"
            )
        totals.update({key: commit[key] for key in counted})
        statuses.update(commit["statuses"])
        smallest = min(smallest, commit["smallest_budget"])
    return {"totals": {**totals, "smallest_budget": smallest}, "statuses": dict(sorted(statuses.items()))}
