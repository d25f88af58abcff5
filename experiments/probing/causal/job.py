"""A causal job: from a run and a trained probe to the check, its numbers, its page and the probe's report card."""

import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ....base.documents import read_json, read_text
from ....base.errors import UserError, in_one_line
from ....base.files import atomic_write, sealed, unsealed
from ....base.progress import progress
from ....base.version import __version__
from ....hooks.prompts.options import Option, make_options
from ....hooks.prompts.places import LAST, Position
from ....hooks.verbal.number_formats import count_format
from ....probes.causal.claims import FALSIFIER, CausalCheck
from ....probes.job import kept
from ....probes.probe import ENDINGS, Probe
from ....probes.report_card import USED, Card, CausalVerdict
from ....probes.statements import neutral_chats
from ...report.cells import jsonable
from ...report.html import make_again, write
from ...run.config import stored_config
from ...run.experiment import Question, RunConfig
from ...run.folder import RunFolder
from ..data import Loaded, items_again, load_runs
from ..page import of_card
from ..rereading import require_same_model
from ..settings import CausalAction, CausalJob, CausalStated, ProbeJob, job_folder
from .check import causal_check
from .contexts import Background, CausalContext, CausalPlace, CausalQuestion
from .interventions import by_turns
from .page import page

log = logging.getLogger(__name__)

LONGEST = 100_000
"""Characters of a file of neutral prompts."""


def causal_job(job: CausalJob, out: Path, allow_code: tuple[Path, ...] = ()) -> Path:
    """Check, save the numbers and the report, and fill the probe's report card; returns the folder. The same job
    goes on where it was. A probe that reads nothing is not tested: its card says so, and its folder is returned.

    Raises UserError for no run or no probe, a probe of another model or place, and a run whose questions cannot be
    asked again.
    """
    from ....hooks.lm import open_model

    if len(job.runs) != 1 or job.probe is None:
        raise UserError("causal: give one run that kept its activations, and a trained probe by -o probe=PATH")
    probe = Probe.load(job.probe)
    if (lost := [fit for fit in probe.crossed if not fit.slope]) or not probe.readout.slope:
        of = "" if not probe.readout.slope else f" in {len(lost)} of its {len(probe.crossed)} folds"
        nothing = (
            f"{probe.meta.name} reads nothing{of}: its scores do not rise with its target on groups that no fit saw, "
            "so that there is no direction to steer along"
        )
        _fill_card(job.probe, probe, CausalVerdict("not tested", nothing, FALSIFIER))
        if not (job.probe.parent / "report.json").is_file():
            raise UserError(f"causal: not tested: {nothing}")
        log.warning("causal: not tested: %s", nothing)
        return job.probe.parent
    loaded = load_runs(_rows(job, probe), allow_code)
    probe.require_fit(loaded.header, probe.meta.at)
    experiment, config = stored_config(RunFolder.open(job.runs[0]).config, allow_code)
    if config.model.thinking == "on":
        raise UserError("causal: a belief after thoughts is a mixture over them; give a run with model.thinking=closed")
    items = items_again(job.runs[0], experiment, config)
    asked = {question.readout_id: question for item in items for question in experiment.questions(config, item)}
    contexts = _contexts(job, loaded, asked, config, probe.meta.position)
    place = CausalPlace(
        probe.meta.layer,
        contexts[0].position or LAST,
        probe.meta.site,
        probe.meta.head,
        job.at,
        job.wrong_layer,
        job.wrong_position,
    )
    folder = job_folder(job.name, job, [job.model_dump(mode="json"), [context.name for context in contexts]], out)
    given = {name: _direction(path) for name, path in job.directions.items()}
    with folder.writing(), open_model(config.model, terminators=config.terminators) as lm:
        require_same_model(lm, loaded.header.conditions)
        with progress(len(contexts), "context", f"causal check of {probe.meta.name}") as advance:
            checked = causal_check(
                lm,
                contexts,
                probe,
                place,
                job.plan,
                directions=given,
                unrelated=Probe.load(job.unrelated) if job.unrelated else None,
                neutral=_neutral(job),
                background=_background(loaded, probe),
                budget=config.token_budget,
                keep=lambda name, make: kept(folder.path / "read" / f"{name}.npz", make),
                advance=advance,
            )
        verdict = CausalVerdict(checked.used, _evidence(checked), FALSIFIER)
        folder.write_json("causal.json", jsonable(causal_data(checked, job, probe, contexts)))
        model = str(loaded.header.conditions["model"].get("name", "an unnamed model"))
        write(folder, page(checked, job, probe, model))
        _fill_card(job.probe, probe, verdict)
    return folder.path


def causal_data(
    checked: CausalCheck, job: CausalJob, probe: Probe, contexts: Sequence[CausalContext]
) -> dict[str, Any]:
    """The check for `causal.json`."""
    return {
        "doxascope": __version__,
        "settings": job.model_dump(mode="json"),
        "probe": probe.meta.model_dump(mode="json"),
        "used": checked.used,
        "falsifier": FALSIFIER,
        "claims": checked.claims,
        "contexts": [each.name for each in contexts],
        "groups": checked.n_groups,
        "numbers": checked.numbers,
    }


def _rows(job: CausalJob, probe: Probe) -> ProbeJob:
    """What chooses the rows: the probe's own place."""
    meta = probe.meta
    return ProbeJob(
        runs=job.runs, target=job.target, option=job.option, where=job.where, site=meta.site, position=meta.position
    )


def _contexts(
    job: CausalJob, loaded: Loaded, asked: dict[str, Question], config: RunConfig, named: str
) -> list[CausalContext]:
    """The chosen read-outs as contexts, with the place of the probe's token.

    Raises UserError for a read-out that the experiment does not ask by itself.
    """
    rows = loaded.data.rows
    groups = rows["group"].astype(str).tolist()
    chosen = sorted(by_turns(groups)[: job.contexts])
    contexts = []
    for i in chosen:
        name = str(rows["readout_id"].iloc[i])
        question = asked.get(name)
        if question is None:
            raise UserError(f"{job.runs[0]}: {name!r} depends on what the model said; choose others by `where`")
        positions = (
            question.positions if not config.capture or config.capture.positions is None else config.capture.positions
        )
        contexts.append(_context(job, question, groups[i], float(loaded.data.target.prob[i]), positions[named]))
    return contexts


def _context(job: CausalJob, question: Question, group: str, target: float, position: Position) -> CausalContext:
    names = [option.name for option in question.options]
    first = 0 if job.option is None else names.index(job.option)
    values = tuple(float(i == first) for i in range(len(names)))
    belief = CausalQuestion(question.conversation, question.options, values, question.prefill)
    rest = next(name for i, name in enumerate(names) if i != first)
    return CausalContext(
        question.readout_id,
        group,
        belief,
        action=_choice(job.action, question) if job.action else None,
        verbal=_stated(job.verbal, question, names[first], rest) if job.verbal else None,
        target=target,
        position=position,
        break_even=float("nan") if job.action is None or job.action.break_even is None else job.action.break_even,
    )


def _background(loaded: Loaded, probe: Probe) -> Background:
    """Every row of the run at the probe's place."""
    data = loaded.data
    return Background(data.read(probe.meta.at), data.target.prob, data.groups)


def _choice(choice: CausalAction, question: Question) -> CausalQuestion:
    values = choice.values or tuple(float(i == 0) for i in range(len(choice.options)))
    talk = _asking(question, choice.ask.replace("{question}", _last(question)))
    return CausalQuestion(talk, make_options(choice.options, choice.forms), values, choice.prefill)


def _stated(stated: CausalStated, question: Question, yes: str, no: str) -> CausalQuestion:
    form = count_format(stated.most).worded(yes, no)
    ask = (stated.ask or form.instruction).replace("{question}", _last(question)).replace("{yes}", yes)
    options = tuple(Option(number.name, number.forms) for number in form.numbers)
    values = tuple(number.value for number in form.numbers)
    return CausalQuestion(_asking(question, ask), options, values, stated.prefill, form.terminators)


def _asking(question: Question, text: str) -> list[Any]:
    return [*question.conversation[:-1], {"role": "user", "content": text}]


def _last(question: Question) -> str:
    return str(question.conversation[-1]["content"])


def _neutral(job: CausalJob) -> list[str]:
    if job.neutral_file is None:
        return neutral_chats(job.neutral)
    return [line for line in read_text(job.neutral_file, LONGEST).splitlines() if line.strip()]


def _direction(path: Path) -> Any:
    from ....hooks.edits.vectors import Vector

    with in_one_line(path, "give a .npy file of one direction"):
        return Vector(np.load(path, allow_pickle=False), path.stem, str(path))


def _evidence(checked: CausalCheck) -> str:
    return "; ".join(
        f"{claim.name}: {claim.verdict}" + f" ({claim.evidence.split('; ')[0]})" * (claim.verdict != "supported")
        for claim in checked.claims
    )


def _fill_card(path: Path, probe: Probe, verdict: CausalVerdict) -> None:
    """Write the verdict beside the probe, where a sweep finds it, and into the card and the page that lie there."""
    folder = path.parent
    record = {"probe": probe.meta.numbers, **verdict._asdict()}
    with in_one_line(folder / USED, "make the folder writable"), atomic_write(folder / USED) as temporary:
        temporary.write_text(json.dumps(sealed(record), indent=1) + "\n", encoding="utf-8")
    if not (folder / "card.json").is_file():
        return
    with in_one_line(folder / "card.json", "give `doxascope probe sweep` again"):
        updated = verdict.into(unsealed(read_json(folder / "card.json")))
        with atomic_write(folder / "card.json") as temporary:
            temporary.write_text(json.dumps(sealed(updated), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        if (folder / "report.json").is_file():
            make_again(folder, of_card(Card.of(updated)))
    called = replace(probe, meta=probe.meta.model_copy(update={"called": updated["called"]}))
    called.save(path.with_suffix("") if path.suffix in ENDINGS else path)
