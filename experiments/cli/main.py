"""The command line: a shell over the library."""

import logging
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from ...base.errors import UserError, cause, lacks_memory
from ...base.parallel import wait_passively
from ...base.version import __version__
from ...hooks.model.spec import BACKENDS, presets
from .activations import activations, probe
from .console import (
    ADDRESS,
    ALLOW_CODE,
    EXECUTOR,
    FULL,
    MATERIAL,
    MODEL,
    OVERRIDE,
    VisibleFormatter,
    echo,
    echo_stored,
    named_values,
    number,
    require_ray,
)
from .detecting import detector, verify
from .instrument import certify, doctor, validate
from .mcp_server import mcp
from .scoring import card, check, compare, report, score, sheet, tables
from .studies import collect, export, steer, sweep
from .tracing import trace

if TYPE_CHECKING:
    from ..run.questions import RunConfig


class Commands(click.Group):
    """The commands; whoever names an experiment is told how it is run."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does."""
        from ..run.known import entry_points_of_experiments

        if args[0] not in self.commands and args[0] in entry_points_of_experiments():
            raise UserError(f"{args[0]}: is an experiment; run it as `doxascope run {args[0]}`")
        return super().resolve_command(ctx, args)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="doxascope")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def cli(debug: bool) -> None:
    """Measure whether an open language model holds coherent beliefs, from the inside.

    \b
    doxascope run consistency                     measure the default model
    doxascope run consistency -m Qwen/Qwen3-0.6B  measure another one
    doxascope plan consistency -o items=500       what a run would cost
    doxascope score beliefs.csv                   score beliefs from anywhere; needs no model
    doxascope ls                                  experiments, models, runs
    """


@cli.command()
@click.argument("target")
@MATERIAL
@MODEL
@OVERRIDE
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs"), show_default=True, help="Folder of runs.")
@click.option("--verify", type=click.IntRange(0), default=0, help="Recompute N read-outs by the plain path.")
@click.option("--shard", metavar="I/N", default="1/1", help="Read only the I-th of N parts; all share the folder.")
@click.option("--take-over", is_flag=True, help="Of a shard: then read what the others have not read yet.")
@EXECUTOR
@click.option("--workers", type=click.IntRange(1), help="Of Ray, how many; by default one for each GPU.")
@click.option("--gpus-per-worker", type=click.FloatRange(0), help="Of Ray; by default 1, or 0 where there is none.")
@ADDRESS
@click.option("--backend", type=click.Choice(BACKENDS), help="The library that reads the model.")
@click.option(
    "--registration", type=click.Path(path_type=Path, exists=True), help="A file that `plan --register` wrote before."
)
@click.option("--restore", is_flag=True, help="Read anew what is damaged or gone, activations among it.")
@FULL
@ALLOW_CODE
def run(
    target: str,
    material: str | None,
    model: str | None,
    overrides: tuple[str, ...],
    out: Path,
    verify: int,
    shard: str,
    take_over: bool,
    executor: str,
    workers: int | None,
    gpus_per_worker: float | None,
    address: str | None,
    backend: str | None,
    registration: Path | None,
    restore: bool,
    full: bool,
    allow_code: tuple[Path, ...],
) -> None:
    """Run an experiment, or go on with it, and write scores and a report.

    TARGET is an experiment's name or a YAML file. The same command again resumes; other settings get a folder of
    their own.

    \b
    doxascope run consistency
    doxascope run consistency -m ./my-model -o items=200 -o seed=1
    doxascope run ask questions.csv               your questions, each with its own options (docs/ask.md)
    doxascope run my-study.yaml --out results --verify 5
    doxascope run my-study.yaml --shard 3/8       one of eight jobs; the last to end writes the scores
    doxascope run my-study.yaml --executor ray    a worker on each GPU of this machine, or of --address
    doxascope run mine.yaml --allow-code mine.py  an experiment of your own (docs/extending.md)
    """
    from ..probing.kinds import run_kinds
    from ..run.config import load_config
    from ..run.ray_workers import ray_workers
    from ..run.registration import registration as registration_of
    from ..run.sessions import WHOLE, parse_shard
    from ..run.worker import one_here

    part = parse_shard(shard)
    if restore and part != WHOLE:
        raise UserError("--restore is for a whole run; give it without --shard, then go on with the shards")
    chosen = () if backend is None else (f"model.backend={backend}",)
    experiment, config = load_config(target, (*overrides, *chosen), model, allow_code, material)
    if take_over and part == WHOLE:
        raise UserError("--take-over is for shards; give it with --shard")
    by_ray = executor == "ray"
    if by_ray and part != WHOLE:
        raise UserError("--shard is for jobs that share no more than a disk; leave it out with --executor ray")
    require_ray(executor, workers=workers, gpus_per_worker=gpus_per_worker, address=address)
    opened = ray_workers(workers, gpus_per_worker, address) if by_ray else one_here
    registered = None if registration is None else registration_of(registration, experiment.name, config)
    folder = run_kinds(
        experiment,
        config,
        out,
        verify=verify,
        shard=part,
        take_over=take_over,
        restored=restore,
        workers=opened,
        registration=registered,
        allow_code=allow_code,
        tell=echo,
    )
    if folder.missing:
        echo(f"shard {shard} is read; {folder.missing} batches of other shards are missing in {folder.path}")
    elif not (folder.path / "scores.json").exists():
        echo(f"every batch is read; this disk has no file locks, so no shard scores: doxascope report {folder.path}")
    else:
        echo_stored(folder.path, full)


@contextmanager
def _registered_even_so(config: "RunConfig") -> Iterator[None]:
    """What the registered number takes needs no data: it is said of settings whose data are not there, too."""
    try:
        yield
    except UserError:
        for line in () if config.registered is None else config.registered.foreseen():
            echo(line)
        raise


@cli.command()
@click.argument("target")
@MATERIAL
@MODEL
@OVERRIDE
@click.option(
    "--register", type=click.Path(path_type=Path), help="Write the registered number, digest and time to a new file."
)
@click.option("--item", metavar="ID", help="Read one item, or one of its read-outs, and show its tokens and masses.")
@click.option(
    "--power", "pilots", multiple=True, metavar="RUN", type=click.Path(path_type=Path), help="A pilot run, or several."
)
@click.option("--effect", "effects", multiple=True, metavar="NAME=VALUE", help="What --power is to find.")
@click.option("--card", metavar="NAME", help="Time, memory and passes of a GPU that was measured: h100, h200.")
@click.option("--price", type=click.FloatRange(min=0), help="Of an hour of the machine, in any currency.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("runs"),
    show_default=True,
    help="Where finished runs tell the time.",
)
@ALLOW_CODE
def plan(
    target: str,
    material: str | None,
    model: str | None,
    overrides: tuple[str, ...],
    register: Path | None,
    item: str | None,
    pilots: tuple[Path, ...],
    effects: tuple[str, ...],
    card: str | None,
    price: float | None,
    out: Path,
    allow_code: tuple[Path, ...],
) -> None:
    """Show what a run would do and take: tokens, time, disk, memory, money. It needs the tokenizer but, without --item,
    no forward pass. The time is told by finished runs of the same model in --out, or by a --card that was measured.

    With --power the clusters that it needs, by the spread of a pilot run; of several pilots, to tell them apart.

    \b
    doxascope plan consistency
    doxascope plan my-study.yaml -o items=1000
    doxascope plan my-study.yaml --register mine.json       before reading; then run it with --registration mine.json
    doxascope plan consistency --item t0000-012             masses of all its read-outs
    doxascope plan consistency --item t0000-012/prior/free  ids, boundary, every surface form
    doxascope plan martingale --power runs/pilot --effect M=0.1
    doxascope plan consistency -m model.yaml -o items=500 --card h200 --price 2.5
    """
    from ..run.config import load_config
    from ..run.estimate import card_of, price_line, rates_of_runs
    from ..run.plan import describe_item, make_plan
    from ..run.registration import register as register_at

    experiment, config = load_config(target, overrides, model, allow_code, material)
    if item is not None:
        for line in describe_item(experiment, config, item):
            echo(line)
        return
    if effects or pilots:
        if not (effects and pilots):
            raise UserError("--power and --effect go together: a pilot run, and what is to be found (--effect M=0.1)")
        from ..compare.power import needed

        asked = {name: number("--effect", name, value) for name, value in named_values("--effect", effects).items()}
        for claim in needed(pilots, asked, seed=config.seed, allow_code=allow_code):
            echo(claim.line)
            if claim.registered:
                echo(f"  to register it: {claim.registered}")
        return
    if register is not None:
        digest = register_at(register, experiment.name, config)
        echo(f"{register}: registered, digest {digest}; run it with --registration {register}")
    chosen = None if card is None else card_of(card)
    with _registered_even_so(config):
        planned = make_plan(experiment, config, card=chosen)
    settled = planned.config  # whether items share passes on that device, too
    rates = chosen.rates(planned.shape, settled) if chosen and planned.shape else None
    rates = rates or rates_of_runs(out, experiment.name, settled)
    for line in planned.lines(experiment, rates):
        echo(line)
    if price is not None:
        taken = planned.takes(rates)
        if taken is None or math.isnan(taken.seconds):
            raise UserError("--price: how long it takes is not known; give --card h200, or --out with a finished run")
        echo(f"  costs {price_line(taken.seconds, price)}")
    first = planned.example[0]
    echo(f"\nfirst read-out, {first.readout_id}:")
    for message in first.conversation:
        echo(f"  {message['role']}: {message['content']}")
    echo(f"  assistant: {first.prefill}...")
    for option in first.options:
        echo(f"  {option.name}: {len(option.forms)} surface forms, e.g. {option.forms[0]!r}")


@cli.command()
@click.argument("target")
@MODEL
@OVERRIDE
@click.argument("file", type=click.Path(path_type=Path))
def evidence(target: str, model: str | None, overrides: tuple[str, ...], file: Path) -> None:
    """Have a model write evidence for the scenarios of sycophancy that have none, as YAML for a person to review.

    \b
    doxascope evidence casino.yaml evidence.yaml -m Qwen/Qwen3-4B
    doxascope run casino.yaml -o tasks.conversations.evidence=evidence.yaml
    """
    from ...hooks.lm import open_model
    from ..materials.scenarios.scenario import REVIEWED, write_evidence
    from ..run.config import load_config
    from ..suite.sycophancy import SycophancyConfig
    from ..suite.sycophancy.ask import in_want, written_evidence

    _, config = load_config(target, overrides, model)
    if not isinstance(config, SycophancyConfig):
        raise UserError(f"{target}: is no configuration of sycophancy")
    if file.exists():
        raise UserError(f"{file}: is there, and may be reviewed; name another file")
    wanting = in_want(config)
    with open_model(config.model) as lm:
        write_evidence(file, list(written_evidence(lm, wanting, config.seed)))
    echo(f"{len(wanting)} scenarios: {file}; read it, and set `{REVIEWED}: true` where it may be used")


@cli.command()
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs"), show_default=True, help="Folder of runs.")
@click.option("--html", "as_page", is_flag=True, help="Write index.html in that folder: every run with its figure.")
def ls(out: Path, as_page: bool) -> None:
    """List the experiments, the models known by name, and the runs.

    \b
    doxascope ls
    doxascope ls --out results --html     a page of all runs, with their verdicts and figures
    """
    from ..run.known import SHIPPED, entry_points_of_experiments, summary_of_shipped
    from ..run.manifest import read_manifest, status_of
    from ..run.sessions import sessions

    if as_page:
        from ..report.html import to_html
        from ..run.folder import RunFolder
        from ..run.pages import INDEX, index_page

        if not out.is_dir():
            raise UserError(f"{out}: is no folder; name the folder of runs with --out")
        RunFolder(out).write(INDEX, to_html(index_page(out)))
        echo(f"index: {out / INDEX}")
        return
    echo("experiments")
    for name, point in sorted(entry_points_of_experiments().items()):
        if point in SHIPPED:
            summary = summary_of_shipped(name)
        else:
            from ..run.config import experiments

            summary = experiments()[name].summary
        echo(f"  {name:<16}{summary}")
    echo("models")
    for name in presets():
        echo(f"  {name}")
    echo(f"runs in {out}")
    for manifest in sorted(out.glob("*/manifest.json")):
        try:
            record = read_manifest(manifest.parent)
            state = f"{status_of(manifest.parent, record)}, began {sessions(manifest.parent)[0]['began']}"
        except (UserError, KeyError, IndexError, TypeError):
            state = "its manifest cannot be read"
        echo(f"  {manifest.parent.name:<48}{state}")


FURTHER = (
    check,
    report,
    sheet,
    steer,
    sweep,
    collect,
    export,
    score,
    compare,
    tables,
    card,
    certify,
    trace,
    detector,
    verify,
)
for command in (*FURTHER, validate, activations, probe, doctor, mcp):
    cli.add_command(command)


KEPT = "what is committed is kept, the same command goes on from there"


def main() -> NoReturn:
    """Run the command line; a user's mistake is one line and exit code 2, whatever else goes wrong one and 1."""
    wait_passively()
    handler = logging.StreamHandler()
    handler.setFormatter(VisibleFormatter("%(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    debug = "--debug" in sys.argv
    try:
        cli.main(standalone_mode=False)
    except UserError as error:
        _fail(error, str(error), 2, debug)
    except click.ClickException as error:
        _fail(error, error.format_message(), 2, debug)
    except (KeyboardInterrupt, click.Abort) as error:
        _fail(error, f"stopped; {KEPT}", 130, debug)
    except OSError as error:
        _fail(error, f"{error.filename or 'a file'}: {cause(error)}", 2, debug)
    except Exception as error:
        if lacks_memory(error):
            _fail(error, f"not enough memory ({cause(error)}); {KEPT}, once there is more", 2, debug)
        where = f"{type(error).__name__}: {cause(error).removeprefix(f'{type(error).__name__}: ')}"
        shows = "" if "--debug" in where else "; this was not foreseen, --debug shows where it comes from"
        _fail(error, where + shows, 1, debug)
    sys.exit(0)


def _fail(error: BaseException, line: str, code: int, debug: bool) -> NoReturn:
    if debug:
        raise error
    echo(f"doxascope: {line}", err=True)
    sys.exit(code)
