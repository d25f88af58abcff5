"""Runs an experiment: items to questions, questions to exact beliefs, beliefs to scores and a report."""

import contextlib
import json
import logging
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from ...base.errors import UserError, in_one_line
from ...base.files import file_digest, json_digest
from ...base.progress import progress
from ...base.text import as_csv
from ...base.version import __version__
from ...hooks.identity import condition_differences
from ...hooks.store import ActivationWriter
from ...hooks.store.header import Header
from ...metrics.claims import verdicts
from ..report.cells import as_row, jsonable
from ..report.document import Prose
from ..report.html import write as write_report
from ..report.lead import Lead
from ..report.papers.paper_tables import as_blocks, as_rows
from .addons import ADDONS
from .estimate import Taken, rates_of_runs, taken
from .experiment import Experiment, RunConfig
from .folder import RunFolder
from .galleries import with_beliefs
from .integrity import STORE, restore, say_what_is_gone
from .manifest import CERTIFICATE, CONFIG, ITEMS, item_lines, refuse_other_registration, surroundings
from .pages import MADE, run_page
from .paper_tables import numbers_of
from .plan import foreseen
from .registration import FILE as REGISTRATION
from .registration import told
from .scores import ScoredRun, score_and_tell, without_inner
from .sessions import WHOLE, Shard
from .worker import COUNTED, OpenWorkers, Workers, batches, one_here

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
    scored: bool = True,
    registration: Mapping[str, Any] | None = None,
    tell: Callable[[str], object] = lambda line: None,
) -> RunFolder:
    """Run, or go on with, an experiment, and write its scores and report.

    Shards of a run may be read at the same time; the one that ends last writes the scores, the same to the byte as
    those of a run in one piece. On a disk without file locks none does, and `report` is a step of its own.

    Args:
        out: the folder in which the run's own folder is made, named by experiment, model and settings.
        verify: number of read-outs to recompute by the plain path; the largest difference is recorded.
        shard: the part of the batches to read.
        take_over: once a shard's own batches are read, read what others have not read yet.
        restored: read anew what is damaged or gone, activations among it.
        workers: opens what reads: one worker in this process, or many.
        registration: what a registration file of this run says; it is kept in the folder.
        scored: whether to write scores and report, too; what needs the model comes before them.
        tell: is told, in lines, what the items can show and the whole run will take before it begins, and what it took.

    Raises UserError if the folder holds a run under other conditions in which something was read, listing the
    differences, or one that is not on the disk as it was written.
    """
    with workers(experiment, config) as at_work:
        for line in foreseen(experiment, config, at_work.items):
            tell(line)
        folder = RunFolder.create(out / at_work.began.name, shard)
        with folder.writing():
            with folder.taking_turns(PATIENCE):
                _enter(folder, experiment, at_work, restored)
                if registration and not (folder.path / REGISTRATION).exists():
                    folder.write_json(REGISTRATION, registration)
            expected = _foresee(folder, experiment.name, at_work, tell) if shard == WHOLE and folder.missing else None
            conditions = json_digest(at_work.began.conditions)
            session = folder.begin_session(shard=str(shard), conditions=conditions, **surroundings())
            with _store(at_work.header(), folder) as store:
                _read_all(folder, at_work, store, take_over)
            verification = at_work.verify(verify) if verify else None
            with folder.taking_turns(FOREVER) as alone:
                session.end(verification=verification)
                if alone and not folder.missing:
                    complete(folder)
    if scored:
        with folder.writing(), folder.taking_turns(FOREVER) as alone:
            if alone and not folder.missing:
                report(folder, experiment, at_work.began.config)
    if expected and not folder.missing:
        tell(f"took {taken(folder.path, folder.manifest['totals'])}; foreseen: {expected}")
    return folder


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
    beliefs: Any = in_parts if experiment.by_parts else without_inner(whole())
    numbers, left_out = score_and_tell(experiment, config, beliefs)
    scored = ScoredRun(folder, experiment, config, whole, beliefs, numbers)
    added = [addon.finish(scored) for addon in ADDONS]
    every_number = [*numbers, *(number for addition in added for number in addition.numbers)]
    lead = Lead(verdicts(numbers, config.registered), every_number, config.registered, folder.manifest.get("gate", []))
    rows = [as_row(number) for number in every_number]
    record = folder.manifest | _totals(folder) | {"sessions": folder.sessions}
    partial = {"partial": f"{len(folder.committed())} of {record['batches']} batches"} if folder.missing else {}
    named: dict[str, Any] = {
        "doxascope": __version__,
        "experiment": experiment.name,
        "headline": experiment.headline,
        **partial,
    }
    named |= {"beside": list(experiment.beside)} if experiment.beside else {}
    further: dict[str, Any] = {"not_scored": left_out} if left_out else {}
    findings = experiment.findings(
        config, beliefs, numbers, lambda names: with_beliefs(folder.transcripts(names), beliefs)
    )
    further |= {"advice": list(findings.advice)} if findings.advice else {}
    folder.write_json("scores.json", {**named, "lead": lead.as_dict(), "scores": rows, **further})
    nested = ("reasons", "params", "details", "beside", "equivalence")
    of_run = {"experiment": experiment.name, "model": config.model.name, "seed": config.seed}
    of_run |= {"adapter": folder.manifest["conditions"].get("model", {}).get("adapter") or ""}
    table = pd.DataFrame([of_run | row | {key: json.dumps(row[key]) for key in nested} for row in rows])
    folder.write_table("scores.parquet", table)
    for name, data in (file for addition in added for file in addition.files.items()):
        folder.write(name, data) if isinstance(data, str) else folder.write_json(name, jsonable(data))
    if len(answers := experiment.answers(beliefs)):
        place = {name: i for i, name in enumerate(experiment.listed(config))}
        if place:
            answers = answers.sort_values("id", key=lambda ids: ids.astype(str).map(place), kind="stable")
        folder.write(ANSWERS, as_csv(answers))
    notes = {key: note for addition in added for key, note in addition.notes.items()}
    of_paper = experiment.tables([numbers_of(config.model.name, config, rows, lead.as_dict())])
    if len(published := as_rows(of_paper)):
        folder.write("published.csv", as_csv(published))
    blocks = [*as_blocks(of_paper), *(block for addition in added for block in addition.blocks)]
    began = min((str(session["began"]) for session in record["sessions"]), default="")
    fixed = " ".join(told(folder.path, began))
    blocks.append(Prose(title="What was fixed, and what lies beside", chapter=MADE, text=fixed))
    remarks = [f"Of {part} alone; go on with the run for the rest." for part in partial.values()]
    remarks += [*(f"Not scored: {name} {why}." for name, why in left_out.items()), *findings.advice]
    drawn = next((addition.lead for addition in added if addition.lead), None)
    page = run_page(experiment, config, record, lead, findings, numbers, beliefs, notes, blocks, remarks, drawn)
    written = [
        "scores.json",
        "scores.parquet",
        *write_report(folder, page),
        *(name for addition in added for name in addition.files),
    ]
    written += ["published.csv"] if len(published) else []
    written += [ANSWERS] if len(answers) else []
    written += [STORE] if (folder.path / STORE).exists() else []
    folder.write_manifest(folder.manifest | {"written": {name: file_digest(folder.path / name) for name in written}})


def _enter(folder: RunFolder, experiment: Experiment, workers: Workers, restored: bool) -> None:
    """Begin the run, or go on with it; one that has read nothing begins anew under other conditions. Of shards that
    begin at once one writes down what the run is, and the others compare.

    Raises UserError as `run` does.
    """
    while True:
        before = folder.manifest
        threads = before.get("conditions", {}).get("model", {}).get("threads")
        if isinstance(threads, int) and threads != workers.began.conditions["model"]["threads"]:
            log.warning("%s: goes on with %d threads, as it began", folder.path, threads)
            workers.use_threads(threads)  # another number would move the last bits of what is read
        try:
            _refuse_mixture(folder, workers)
        except UserError:
            if not folder.holds_nothing:
                raise
            log.warning("%s: was begun under other conditions, and has read nothing; begins anew", folder.path)
            folder.clear()
            before = {}
        else:
            if restored:
                restore(folder)
            folder.require_as_begun()
        folder.tidy()
        say_what_is_gone(folder)
        if before and folder.shard != WHOLE:
            return
        folder.write(ITEMS, item_lines(item.record for item in workers.items))
        folder.write(CONFIG, yaml.safe_dump(workers.began.config.model_dump(mode="json"), sort_keys=False))
        try:
            return _begin(folder, experiment, workers, before)
        except FileExistsError:
            continue


def _refuse_mixture(folder: RunFolder, workers: Workers) -> None:
    """Raise UserError if the folder holds another run than these workers would read."""
    config, now, record = workers.began.config, workers.began.conditions, folder.manifest
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


def _begin(folder: RunFolder, experiment: Experiment, workers: Workers, before: Mapping[str, Any]) -> None:
    """Write down what the run is, or that it goes on; the gate stays as it was when the run began.

    Raises FileExistsError if another shard has begun it meanwhile.
    """
    one_of_many = folder.shard != WHOLE
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


def _foresee(folder: RunFolder, experiment: str, workers: Workers, tell: Callable[[str], object]) -> Taken | None:
    """Say what the whole run will take, and write down what was planned: by it the next one knows how fast this was."""
    config = workers.began.config
    planned = workers.plan()
    rates = rates_of_runs(folder.path.parent, experiment, config)
    expected = None if planned is None else planned.takes(rates)
    if planned is not None and expected:
        tell(
            f"takes about {expected}"
            + (f"; its rates were measured in {rates.where}" if rates and expected.known else "")
        )
        folder.write_manifest(folder.manifest | {"planned": {"experiment": experiment, **planned.record}})
    return expected


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
    numbers = {number for number in range(len(sizes)) if take_over or number in folder.shard}
    total, before = (sum(sizes[number] for number in some) for some in (numbers, numbers & {*folder.committed()}))
    with progress(total, "item", workers.began.name.rpartition("-")[0], before=before) as advance:
        for batch in workers.read(_to_read(folder, len(sizes), take_over), store):
            folder.commit(batch.number, batch.beliefs, batch.transcripts, batch.note)
            advance(sizes[batch.number])


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


def complete(folder: RunFolder) -> None:
    """Write down that nothing is missing.

    Raises UserError for sessions that read under other conditions than the run's: shards on machines of several kinds.
    """
    record, sessions = folder.manifest, folder.sessions
    conditions = json_digest(record["conditions"])
    if other := [session["session"] for session in sessions if session["conditions"] != conditions]:
        raise UserError(
            f"{folder.path}: session {other[0]} read under other conditions; run it anew with another --out"
        )
    verifications = [record["verification"], *(session.get("verification") for session in sessions)]
    record["verification"] = next(filter(None, reversed(verifications)), None)
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
