"""Runs an experiment: items to questions, questions to exact beliefs, beliefs to scores and a report."""

import contextlib
import json
import logging
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import yaml

from ...hooks.backends.captured import join_captures
from ...hooks.certificate.cached import find_certificate
from ...hooks.certificate.certificate import Certificate
from ...hooks.errors import UserError, in_one_line
from ...hooks.exact.exact import largest_difference
from ...hooks.exact.tokenisations import Vocabulary, other_tokenisations
from ...hooks.files import file_digest
from ...hooks.identity import condition_differences
from ...hooks.lm import LanguageModel, load
from ...hooks.model.blocks import head_widths
from ...hooks.store import ActivationWriter, store_header
from ...hooks.text import as_csv
from ...metrics import INNER_KINDS, belief_table
from ..addons import ADDONS
from ..addons.addon import ScoredRun
from ..experiment import Experiment, Item, Read, ReadsByItself, RunConfig, TabulatesAnswers
from ..reading.exact import compile_questions, read_questions
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
    code_of,
    conditions,
    digest,
    item_lines,
    refuse_other_registration,
    surroundings,
)
from ..runs.scores import score_and_tell
from ..runs.shard import WHOLE, Shard
from ..scoring.verdict import verdicts
from .items import items_of
from .progress import progress
from .rounds import read_in_rounds

log = logging.getLogger("doxascope")

ANSWERS = "answers.csv"
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
    restored: bool = False,
) -> RunFolder:
    """Run, or go on with, an experiment, and write its scores and report.

    Shards of a run may be read at the same time; the one that ends last writes the scores, the same to the byte as
    those of a run in one piece.

    Args:
        experiment: what to ask, read and score.
        config: under which settings.
        out: the folder in which the run's own folder is made, named by experiment, model and settings.
        verify: number of read-outs to recompute by the plain path; the largest difference is recorded.
        shard: the part of the batches to read.
        restored: read anew what is damaged or gone, activations among it.

    Raises UserError if the folder holds a run under other conditions, listing the differences, or one that is not on
    the disk as it was written.
    """
    folder, config = read(experiment, config, out, verify=verify, shard=shard, restored=restored)
    with folder.writing(), folder.taking_turns(patience=FOREVER):
        if not folder.missing:
            report(folder, experiment, config)
    return folder


def read(
    experiment: Experiment,
    config: RunConfig,
    out: Path,
    *,
    verify: int = 0,
    shard: Shard = WHOLE,
    restored: bool = False,
) -> tuple[RunFolder, RunConfig]:
    """The part of `run` that needs the model; returns the folder, and the settings as they are recorded in it."""
    items = items_of(experiment, config)
    with load(config.model, terminators=config.terminators) as lm:
        spec = lm.spec.model_copy(update={"threads": lm.identity.threads})
        config = config.on_device(lm.budgets).model_copy(update={"model": spec})
        settled: dict[str, Any] = {}
        for addon in ADDONS:
            config, own = addon.begin(experiment, config, items, lm)
            settled |= own
        told = [(item.id, item.cluster, dict(item.content)) for item in items]
        now = conditions(config, lm.identity, [list(one) for one in told]) | settled | code_of(experiment)
        now["prompts"] = _prompts(experiment, config, items, lm)
        held: Any = now["model"]
        named = {key: value for key, value in held.items() if key != "threads"}
        name = f"{experiment.name}-{lm.spec.name}-{digest([now['config'], named])[:8]}"
        folder = RunFolder.create(out / name, shard)
        with folder.writing():
            with folder.taking_turns(patience=PATIENCE):
                config = _with_its_threads(folder, config, now, lm)
                _refuse_mixture(folder, config, now)
                if restored:
                    restore(folder)
                folder.require_as_begun()
                folder.tidy()
                say_what_is_gone(folder)
                folder.write(ITEMS, item_lines(told))
                folder.write(CONFIG, yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False))
                session = _begin(folder, experiment, now, len(batches(config, items)), find_certificate(lm.identity))
            with _store(config, lm, folder) as store:
                _read_all(_Job(experiment, config, lm, folder, store), items, shard)
            verification = _verify(experiment, config, items, lm, verify) if verify else None
            with folder.taking_turns(patience=FOREVER):
                _end(folder, session, verification)
    return folder, config


def report(folder: RunFolder, experiment: Experiment, config: RunConfig) -> None:
    """Scores and report page from the beliefs that are on the disk. Raises UserError if these cannot be scored."""
    with in_one_line(f"{folder.path}: cannot be scored"):  # a stranger's run may hold anything that is well formed
        _report(folder, experiment, config)


def _report(folder: RunFolder, experiment: Experiment, config: RunConfig) -> None:
    refuse_other_registration(folder.path, folder.manifest["conditions"], config)
    folder.require_as_begun()
    every = folder.beliefs()
    beliefs = every[~every["kind"].isin(INNER_KINDS)]
    numbers, left_out = score_and_tell(experiment, config, beliefs)
    scored = ScoredRun(folder, experiment, config, every, beliefs, numbers)
    added = [addon.finish(scored) for addon in ADDONS]
    told = [*numbers, *(number for one in added for number in one.numbers)]
    lead = Lead(verdicts(numbers), told, config.registered, folder.manifest.get("gate", []))
    rows = [as_row(number) for number in told]
    record = folder.manifest | _totals(folder)
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


def batches(config: RunConfig, items: Sequence[Item]) -> list[Sequence[Item]]:
    """Items in the groups that are committed together."""
    return [items[i : i + config.batch_items] for i in range(0, len(items), config.batch_items)]


class _Job(NamedTuple):
    """What reading a batch takes."""

    experiment: Experiment
    config: RunConfig
    lm: LanguageModel
    folder: RunFolder
    store: ActivationWriter | None


@contextlib.contextmanager
def _store(config: RunConfig, lm: LanguageModel, folder: RunFolder) -> Iterator[ActivationWriter | None]:
    """Where the residual stream goes, if the run captures it. Its batches count by the commit lines of the run."""
    if config.capture is None:
        yield None
        return
    layers = config.capture.layer_numbers(lm.identity.n_layers)
    header = store_header(
        lm.identity,
        sites=config.capture.sites,
        layers=layers,
        commits="../commits.jsonl",
        heads=head_widths(lm.model),
    )
    with ActivationWriter.open(folder.path / "activations", header, folder.mark) as store:
        yield store


def _read_all(job: _Job, items: Sequence[Item], shard: Shard) -> None:
    """Read every batch of the shard that is not committed yet."""
    done = set(job.folder.committed())
    mine = [(number, batch) for number, batch in enumerate(batches(job.config, items)) if number in shard]
    title = f"{job.experiment.name} on {job.lm.spec.name}"
    with progress(sum(len(batch) for _, batch in mine), "item", title) as advance:
        advance(sum(len(batch) for number, batch in mine if number in done))
        todo = [(number, batch) for number, batch in mine if number not in done]
        reads = ([partial(_read, job, item) for item in batch] for _, batch in todo)
        gathered = job.config.together or job.lm.on_gpu
        every = read_in_rounds(job.lm, reads, together=job.config.together) if gathered else _one_by_one(job.lm, reads)
        started = time.perf_counter()
        for (number, batch), read in zip(todo, every, strict=True):
            _commit(job, number, read, started)
            started = time.perf_counter()
            advance(len(batch))


def _one_by_one(
    lm: LanguageModel, batches: Iterable[Sequence[Callable[[LanguageModel], Read]]]
) -> Iterator[list[Read]]:
    """The same as in rounds where there is nothing to wait for."""
    for reads in batches:
        yield [one(lm) for one in reads]


def _commit(job: _Job, number: int, read: Sequence[Read], started: float) -> None:
    costs = [one.cost for one in read]
    transcripts = [line for one in read for line in one.transcripts]
    beliefs = belief_table(row for one in read for row in one.rows)
    note = {
        "readouts": len(transcripts),
        "statuses": dict(Counter(beliefs[~beliefs["kind"].isin(INNER_KINDS)].drop_duplicates("readout_id")["status"])),
        **{
            key: sum(getattr(cost, key) for cost in costs) for key in ("packs", "tokens_run", "tokens_tree", "halvings")
        },
        "smallest_budget": min(cost.budget for cost in costs),
    }
    captured = [one.captured for one in read if one.captured]
    if job.store and captured:
        whole = join_captures(captured)
        note["activations"] = job.store.write(number, whole.rows, {**whole.residuals})
    note["seconds"] = round(time.perf_counter() - started, 3)
    job.folder.commit(number, beliefs, transcripts, note)


def _prompts(experiment: Experiment, config: RunConfig, items: Sequence[Item], lm: LanguageModel) -> str:
    """A digest of the first prompts as they are rendered now: a run must not go on with others."""
    first = (one for item in items[: config.batch_items] for one in experiment.questions(config, item))
    return digest([lm.reader.chat.digest(one.conversation, one.prefill) for one in first])


def _read(job: _Job, item: Item, lm: LanguageModel) -> Read:
    if isinstance(job.experiment, ReadsByItself):
        return job.experiment.read(job.config, item, lm)
    asked = job.experiment.questions(job.config, item)
    return read_questions(job.experiment.name, job.config, item, asked, lm)


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
            readings, *_ = lm.read(queries, budget=config.budget)
            pick = random.Random(f"{config.seed}-{i}").randrange(len(queries))
            worst = max(worst, largest_difference(readings[pick], lm.read_plain(queries[pick])))
            others.append(other_tokenisations(lm, queries[pick], vocabulary, budget=config.budget))
            ids.append(queries[pick].readout_id)
            advance(1)
    return {
        "readouts": ids,
        "largest_difference_nat": worst,
        "other_tokenisations": {
            "largest_share": jsonable(max(one.share for one in others)),
            "largest_change": jsonable(max(one.change for one in others)),
            "read": sum(one.n_read for one in others),
            "of": sum(one.n_all for one in others),
        },
    }


def _with_its_threads(folder: RunFolder, config: RunConfig, now: dict[str, Any], lm: LanguageModel) -> RunConfig:
    """A run goes on with as many threads as it began with: another number would move the last bits of what is read."""
    began = folder.manifest.get("conditions", {}).get("model", {}).get("threads")
    if not isinstance(began, int) or began == now["model"]["threads"]:
        return config
    log.warning("%s: goes on with %d threads, as it began", folder.path, began)
    lm.use_threads(began)
    now["model"]["threads"] = began
    return config.model_copy(update={"model": config.model.model_copy(update={"threads": began})})


def _refuse_mixture(folder: RunFolder, config: RunConfig, now: dict[str, Any]) -> None:
    before = folder.manifest.get("conditions")
    if before is not None:
        refuse_other_registration(folder.path, before, config)
    if before is not None and (changed := condition_differences(before, json.loads(json.dumps(now)))):
        raise UserError(
            f"{folder.path}: was run under other conditions ({'; '.join(changed)}); choose another --out, "
            "or delete the folder to run it anew"
        )


def _begin(
    folder: RunFolder, experiment: Experiment, now: dict[str, Any], n_batches: int, certificate: Certificate | None
) -> int:
    """Write down that the run goes on, and give the number of this session; those before it stay on record, and so does
    the gate as it was when the run began.
    """
    before = folder.manifest
    sessions = [*before.get("sessions", []), {"began": _now(), "ended": None, **surroundings()}]
    record = {
        "status": "running",
        "conditions": now,
        "gate": before.get("gate", []) if before else sorted(experiment.gate),
        "batches": n_batches,
        "verification": before.get("verification"),
        "certificate": certificate.hash if certificate else before.get("certificate"),
        "sessions": sessions,
    }
    if certificate:
        folder.write_json(CERTIFICATE, certificate.model_dump(mode="json"))
    folder.write_manifest(record)
    return len(sessions) - 1


def _end(folder: RunFolder, session: int, verification: dict[str, Any] | None) -> None:
    """Write down that a session has read what it was to read, and, if nothing is missing now, that the run is whole."""
    record = folder.manifest
    record["sessions"][session]["ended"] = _now()
    if verification:
        record["verification"] = verification
    if not folder.missing:
        record |= {"status": "complete"} | _totals(folder)
    folder.write_manifest(record)


def _totals(folder: RunFolder) -> dict[str, Any]:
    """What the committed batches took and how their read-outs ended."""
    totals: Counter[str] = Counter()
    statuses: Counter[str] = Counter()
    smallest = math.inf
    counted = ("readouts", "packs", "tokens_run", "tokens_tree", "halvings", "seconds")
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


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
