"""`doxascope probe`: train probes on stored activations, sweep, judge and apply them; needs no model."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...hooks.errors import UserError
from .echo import echo
from .options import ADDRESS, EXECUTOR, require_ray

if TYPE_CHECKING:
    from ..probing.settings import ProbeJob

CONFIG = click.argument("config")
RUNS = click.argument("runs", nargs=-1, type=click.Path(path_type=Path))
OVERRIDE = click.option(
    "-o", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a setting, e.g. -o study.depth=0.5."
)
OUT = click.option(
    "--out", type=click.Path(path_type=Path), default=Path("probes"), show_default=True, help="Folder of probe jobs."
)
FOLDER = click.Path(path_type=Path)
CODE = click.option("--allow-code", multiple=True, type=FOLDER, metavar="FILE", help="As for `run`.")
Paths = tuple[Path, ...]


@click.group()
def probe() -> None:
    """Train probes on the activations of runs, and judge them; needs no model.

    CONFIG is a YAML file, or `probe`, the shipped one. RUNS are folders of runs that kept their activations.

    \b
    doxascope run truth                              statements, beliefs and activations
    doxascope probe sweep probe runs/truth-*         every layer, with band, controls and report card
    doxascope probe apply probe runs/consistency-* -o probe=probes/probe-1a2b3c4d/probe
    """


@probe.command()
@CONFIG
@RUNS
@OVERRIDE
@OUT
@CODE
def train(config: str, runs: Paths, overrides: tuple[str, ...], out: Path, allow_code: Paths) -> None:
    """Train the probe of the registered place, and save it.

    \b
    doxascope probe train probe runs/truth-smollm2-135m-1a2b3c4d
    """
    from ..probing.job import train_job
    from ..probing.settings import load_job

    path = train_job(load_job(config, runs, overrides), out, allow_code)
    echo(f"probe: {path}.npz, {path}.json; it is not judged yet: `doxascope probe sweep`")


@probe.command()
@CONFIG
@RUNS
@OVERRIDE
@OUT
@EXECUTOR
@ADDRESS
@CODE
def sweep(
    config: str,
    runs: Paths,
    overrides: tuple[str, ...],
    out: Path,
    executor: str,
    address: str | None,
    allow_code: Paths,
) -> None:
    """Sweep all layers and positions, and judge the probe of the registered place by its report card.

    The same command again goes on where it was.

    \b
    doxascope probe sweep probe runs/truth-smollm2-135m-1a2b3c4d
    doxascope probe sweep probe runs/truth-* -o heads=true -o workers=64 --executor ray --address auto
    """
    from ..probing.job import sweep_job
    from ..probing.settings import load_job

    require_ray(executor, address=address)
    folder, lines = sweep_job(load_job(config, runs, overrides), out, allow_code, executor, address)
    echo("\n".join(lines))
    echo(f"\nreport: {folder / 'report.html'}")


@probe.command()
@CONFIG
@RUNS
@OVERRIDE
@CODE
def lens(config: str, runs: Paths, overrides: tuple[str, ...], allow_code: Paths) -> None:
    """Read runs in passing: what inner layers would say next at the job's position, with nothing appended, behind
    gates; and the runs' reports anew. Needs the model.

    \b
    doxascope probe lens probe-martingale runs/martingale-* -o "lens.layers=[0.5, 0.8]"
    """
    from ..probing.passing import lens_job
    from ..probing.settings import load_job

    job = load_job(config, runs, overrides)
    for run in _required(job):
        echo(f"{run}: {lens_job(job, run, allow_code)} places read in passing")


@probe.command("eval")
@CONFIG
@RUNS
@OVERRIDE
@CODE
def evaluate(config: str, runs: Paths, overrides: tuple[str, ...], allow_code: Paths) -> None:
    """Judge a trained probe on other runs; groups that it was trained on are left out.

    \b
    doxascope probe eval probe runs/truth-other-* -o probe=probes/probe-1a2b3c4d/probe
    """
    from ..probing.apply import evaluate_job
    from ..probing.settings import load_job

    echo("\n".join(evaluate_job(load_job(config, runs, overrides), allow_code)))


@probe.command()
@CONFIG
@RUNS
@OVERRIDE
@CODE
def apply(config: str, runs: Paths, overrides: tuple[str, ...], allow_code: Paths) -> None:
    """Write what a trained probe reads in runs as beliefs of kind `probe`, and their reports anew.

    \b
    doxascope probe apply probe runs/truth-* -o probe=probes/probe-1a2b3c4d/probe
    """
    from ..probing.apply import apply_job
    from ..probing.settings import load_job

    job = load_job(config, runs, overrides)
    for run in _required(job):
        echo(f"{run}: {apply_job(job, run, allow_code)} beliefs of kind probe")


@probe.command()
@CONFIG
@RUNS
@OVERRIDE
@OUT
@CODE
def causal(config: str, runs: Paths, overrides: tuple[str, ...], out: Path, allow_code: Paths) -> None:
    """Check whether what a trained probe reads is what the model uses: steer, compare with random directions, erase,
    and set beliefs. CONFIG is a YAML file, or `causal`, the shipped one. Needs the model.

    The same command again goes on where it was. The verdict goes into the probe's report card.

    \b
    doxascope probe causal causal runs/truth-smollm2-135m-1a2b3c4d -o probe=probes/probe-1a2b3c4d/probe
    """
    from ..probing.causal.job import causal_job
    from ..probing.causal.settings import load_causal

    folder, lines = causal_job(load_causal(config, runs, overrides), out, allow_code)
    echo("\n".join(lines))
    echo(f"\nreport: {folder / 'report.html'}")


def _required(job: "ProbeJob") -> Paths:
    if not job.runs:
        raise UserError("runs: none is given; name a run that kept its activations")
    return job.runs
