"""`doxascope doctor`, `validate` and `certify`: what this machine can do, the instrument on models whose beliefs are
known, and its numerical error on a model.
"""

import json
import platform
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ...base.errors import UserError, in_one_line
from ...base.version import __version__
from ...hooks.model.consent import give_consent
from ...hooks.model.spec import resolve_model
from .console import ADDRESS, ALLOW_CODE, EXECUTOR, FULL, echo, echo_report, require_ray

if TYPE_CHECKING:
    from ...hooks.checks.installation import Finding

WIDTH = 26


@click.command()
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs"), show_default=True, help="Folder of runs.")
@click.option("--json", "as_json", is_flag=True, help="The same as JSON.")
def doctor(out: Path, as_json: bool) -> None:
    """Say what is installed, what reads a tiny model rightly, where files go, and the line that brings what is missing.

    Needs no network. Exits with 2 if nothing can be run.

    \b
    doxascope doctor
    doxascope doctor --json > machine.json    to attach to a bug report
    """
    findings: list[Finding] = []
    for finding in _diagnosis(out):
        if not as_json:
            if not findings or findings[-1].section != finding.section:
                echo(finding.section)
            mark = "" if finding.state == "ok" else f"{finding.state}: "
            echo(
                f"  {finding.name:<{WIDTH}}{mark}{finding.told}"
                + (f"\n  {'':<{WIDTH}}-> {finding.advice}" if finding.advice else "")
            )
        findings.append(finding)
    lacking = [finding for finding in findings if finding.needed and finding.state != "ok"]
    usable = not lacking and any(finding.section == "reading" and finding.state == "ok" for finding in findings)
    if as_json:
        versions = {"doxascope": __version__, "python": platform.python_version(), "platform": platform.platform()}
        echo(
            json.dumps({**versions, "usable": usable, "findings": [asdict(finding) for finding in findings]}, indent=1)
        )
    if not usable:
        first = next((finding for finding in [*lacking, *findings] if finding.advice and finding.state != "ok"), None)
        raise UserError("nothing can be run here" + (f": {first.name} {first.told}; {first.advice}" if first else ""))


def _diagnosis(out: Path) -> "Iterator[Finding]":
    """Section by section; without torch and transformers only the libraries can be told."""
    from ...hooks.checks.installation import libraries

    there_are = list(libraries())
    yield from there_are
    if any(finding.needed and finding.state == "missing" for finding in there_are):
        return
    from ...hooks.checks.doctor import devices, folders, models, readings

    there = list(devices())
    yield from there
    yield from readings([finding.name for finding in there if finding.state == "ok"])
    yield from models()
    yield from folders(out)


FOLDER = click.Path(path_type=Path)
FEWEST = 60
"""Contexts that an organism of another language must read."""
MANY = 250
"""Null organisms that a GPU trains side by side."""


NULL, ENGLISH, PLANTED = "--null", "--english", "validate without --null or --english"
TAKES = {
    NULL: {"contexts", "device", "workers", "executor", "address"},
    ENGLISH: {"organisms", "contexts", "seed", "device", "backend", "folder"},
    PLANTED: {"organisms", "contexts", "seed", "device", "backend", "folder"},
}
"""What each job is told, besides where to write and how much to print."""


class ValidateOptions(NamedTuple):
    """What `validate` is told."""

    organisms: tuple[str, ...]
    null: int | None
    english: bool
    contexts: int | None
    seed: int
    device: str
    backend: str | None
    workers: int
    executor: str
    address: str | None
    folder: Path | None
    out: Path | None
    full: bool


@click.command()
@click.argument("organisms", nargs=-1, metavar="[ORGANISM]...")
@click.option("--null", type=click.IntRange(1), help="Grow so many organisms that have none of it instead.")
@click.option("--english", is_flag=True, help="Of adapters on the demo's chat model.")
@click.option("--contexts", type=click.IntRange(1), help="That each reads: 200, of a null organism or in English 150.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of contexts and resampling.")
@click.option("--device", default="cpu", show_default=True, help="cpu or cuda; with --null, what trains them.")
@click.option("--backend", help="The library that reads the organisms.")
@click.option("--workers", type=click.IntRange(1), default=1, show_default=True, help="Processes that read, of --null.")
@EXECUTOR
@ADDRESS
@click.option("--folder", type=FOLDER, help="Organisms that you trained anew; the shipped ones if not given.")
@click.option("--out", type=FOLDER, help="For numbers, page and figures. [validation, english, or nulls]")
@FULL
@click.pass_context
def validate(context: click.Context, **given: Any) -> None:
    """Measure transformers whose beliefs were planted, and lay what is found beside it.

    Six organisms: honest, sycophantic, sycophantic-in-words, denying, late, early. The exit code is 1 if a planted
    value is not found; or not shown, unless fewer contexts were asked for than usual. With --english the word game is
    read in plain text, with organisms that are adapters on a chat model, and with that model as it is: all of them, or
    those that are named. Where one says other than it holds, bets are read, too. With --null so many organisms are
    grown that hide nothing and flatter nobody; it is counted how often doxascope says otherwise, and the exit code is 1
    from 5 of 30.

    \b
    doxascope validate                              all six, in about two minutes
    doxascope validate denying late
    doxascope validate --english honest denying --contexts 20
    doxascope validate --null 30 --workers 2
    doxascope validate --null 600 --workers 64 --executor ray --address auto
    """
    job, asked = _job(context), ValidateOptions(**given)
    require_ray(asked.executor, address=asked.address)
    if asked.contexts is not None and asked.contexts < FEWEST and job != ENGLISH:
        raise click.BadParameter(f"{asked.contexts} is not in the range x>={FEWEST}.", param_hint="'--contexts'")
    wrong = {NULL: _validate_null, ENGLISH: _validate_english, PLANTED: _validate_planted}[job](asked)
    raise SystemExit(int(wrong))


def _job(context: click.Context) -> str:
    """Which of the three is asked for. Raises a UsageError for two at once, and for what it would not heed."""
    null, english = context.params["null"], context.params["english"]
    if null and english:
        raise click.UsageError("--null and --english are two jobs; give one of them")
    job = NULL if null else ENGLISH if english else PLANTED
    given = {
        name: parameter.get_error_hint(context)
        for parameter in context.command.params
        if (name := parameter.name)
        and context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        and name in set().union(*TAKES.values())
        and context.params[name] != ()
    }
    if ignored := sorted(given.keys() - TAKES[job]):
        raise click.UsageError(f"{given[ignored[0]]} means nothing to {job}; leave it out")
    return job


def _validate_null(asked: ValidateOptions) -> bool:
    """Whether claims are made of null organisms too often."""
    from ...base.parallel import spread_over
    from ...base.progress import progress
    from ..report.html import write
    from ..synthetic.validation import report as told
    from ..synthetic.validation.claims import NullPlan, null_claims, one_thread_each, rates

    place = told.prepare_null(asked.out or Path("nulls"))
    together = MANY if asked.device.startswith("cuda") else NullPlan().together
    assert asked.null
    plan = NullPlan(asked.null, device=asked.device, together=together)
    plan = plan._replace(contexts=asked.contexts or plan.contexts)
    side_by_side = spread_over(asked.workers, asked.executor, asked.address, local=one_thread_each)
    with side_by_side as spread, progress(asked.null, "organism", "null organisms") as advance:
        read = null_claims(plan, place.path, spread, advance)
    place.write_json("nulls.json", told.null_data(read, plan))
    write(place, document := told.null_page(read, plan))
    echo_report(document, place.path, asked.full)
    return any(rate.fails for rate in rates(read))


def _validate_english(asked: ValidateOptions) -> bool:
    """Whether something planted in an organism in English is not found."""
    from ...base.progress import progress
    from ..report.html import write
    from ..synthetic.validation import in_english
    from ..synthetic.validation.recovery import NOT_FOUND, NOT_SHOWN

    models, triples = in_english.models(asked.organisms, asked.folder), asked.contexts or in_english.TRIPLES
    place = in_english.prepare(asked.out or Path("english"))
    settings = (f"model.device={asked.device}", *([f"model.backend={asked.backend}"] if asked.backend else []))
    with progress(len(models), "model", "models") as advance:
        folders = in_english.read(place.path, models, triples, asked.seed, settings, advance)
    document, facts = in_english.page(folders)
    write(place, document)
    echo_report(document, place.path, asked.full)
    faults = {NOT_FOUND} if triples < in_english.TRIPLES else {NOT_FOUND, NOT_SHOWN}
    return any(fact.state in faults for fact in facts)


def _validate_planted(asked: ValidateOptions) -> bool:
    """Whether something planted in an organism of another language is not found."""
    from ...base.progress import progress
    from ..report.html import write
    from ..synthetic.validation import report as told
    from ..synthetic.validation.beliefs import Effort
    from ..synthetic.validation.recovery import validate as run

    place = told.prepare(asked.out or Path("validation"))
    effort = Effort(contexts=asked.contexts or Effort().contexts, seed=asked.seed)
    where: dict[str, Any] = {"folder": asked.folder, "device": asked.device, "backend": asked.backend}
    with progress(len(asked.organisms) or 6, "organism", "organisms") as advance:
        recovered = run(asked.organisms, effort, **where, advance=advance)
    write(place, document := told.page(recovered, effort))
    echo_report(document, place.path, asked.full)
    few = effort.contexts < Effort().contexts
    return any(organism.wrong or not (few or organism.recovered) for organism in recovered)


@click.command()
@click.argument("model")
@click.option("--out", type=click.Path(path_type=Path), help="File for the certificate as JSON.")
@ALLOW_CODE
def certify(model: str, out: Path | None, allow_code: tuple[Path, ...]) -> None:
    """Measure whether the back ends agree on a model, and its numerical error.

    Exits with 1 if a back end is outside the tolerance, naming the first layer. Loads the model several times. Runs of
    the model that come after it refer to it, and their reports print the numerical error beside each score.

    \b
    doxascope certify smollm2-135m
    doxascope certify ./my-model --out certificate.json
    """
    from ...hooks.checks.certificate import certify as measure
    from ...hooks.checks.certificate import save_certificate

    if out is not None:
        with in_one_line(f"{out}: cannot be written", "choose another --out"):  # before minutes of measuring
            new = not out.exists()
            out.open("a").close()
            if new:
                out.unlink()
    spec = resolve_model(model)
    give_consent(spec, places=allow_code)
    certificate = measure(spec)
    echo(str(certificate))
    save_certificate(certificate)
    if out is not None:
        with in_one_line(f"{out}: cannot be written"):
            out.write_text(certificate.model_dump_json(indent=1) + "\n")
    if certificate.failures:
        sys.exit(1)
