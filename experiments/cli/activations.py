"""`doxascope activations` and `doxascope probe`: look at, check, copy and pack stored activations; train probes on
them, sweep, judge and apply them.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click
import yaml

from ...base.errors import UserError
from .console import ADDRESS, EXECUTOR, FULL, echo, echo_report, echo_stored, require_ray

STORE = click.argument("path", type=click.Path(path_type=Path))


@click.group()
def activations() -> None:
    """Look at, check, copy and pack stored activations; needs no model.

    PATH is a run, or the folder of a store.

    \b
    doxascope activations ls runs/consistency-smollm2-135m-1a2b3c4d
    """


@activations.command()
@STORE
def ls(path: Path) -> None:
    """Show what a store holds and under which conditions.

    \b
    doxascope activations ls runs/consistency-smollm2-135m-1a2b3c4d
    """
    from ...hooks.store import ActivationStore

    store = ActivationStore.open(path)
    header, rows = store.header, store.rows()
    megabytes = sum(part.path.stat().st_size for part in store.parts) / 1e6
    echo(f"{len(rows):,} rows of {len(store.commits)} batches in {len(store.parts)} parts, {megabytes:,.1f} MB")
    echo(f"{header.dtype} [{header.d_model}] at {', '.join(header.sites)}, layers {', '.join(map(str, header.layers))}")
    for position, n in Counter(rows["position"]).items():
        echo(f"  {position:<24}{n:>10,} rows")
    echo(yaml.safe_dump(header.conditions, sort_keys=False).rstrip())


@activations.command()
@STORE
def check(path: Path) -> None:
    """Read everything once, and name the rows that are lost.

    \b
    doxascope activations check runs/consistency-smollm2-135m-1a2b3c4d
    """
    from ...hooks.store import ActivationStore

    store = ActivationStore.open(path)
    damaged = set()
    for loss in store.check():
        echo(loss)
        damaged.add(loss.part)
    if damaged:
        raise UserError(
            f"{store.path}: {len(damaged)} of {len(store.parts)} parts damaged, the rest can be read; to have the lost "
            f"rows again, take the lines of their batches out of {store.header.commits} and repeat the run"
        )
    echo(f"{len(store.parts)} parts, all rows intact")


@activations.command()
@STORE
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--layer", "layers", type=int, multiple=True, help="Only this one; may be repeated.")
@click.option("--site", "sites", multiple=True, help="Only this one; may be repeated.")
@click.option("--position", help="Only rows at this one.")
def export(path: Path, out: Path, layers: tuple[int, ...], sites: tuple[str, ...], position: str | None) -> None:
    """Copy activations to OUT, a .npz or .safetensors file, and its rows beside it.

    \b
    doxascope activations export runs/consistency-smollm2-135m-1a2b3c4d layer12.safetensors --layer 12
    """
    from ...hooks.store import ActivationStore
    from ...hooks.store.reader import export_store as write

    store = ActivationStore.open(path)
    points = [(site, layer) for site in sites or store.header.sites for layer in layers or store.header.layers]
    n, beside = write(store, out, points=points, position=position)
    echo(f"{n:,} rows of {len(points)} layers: {out}, {beside}")


@activations.command()
@STORE
def pack(path: Path) -> None:
    """Join small parts into larger ones, which are faster to read.

    \b
    doxascope activations pack runs/consistency-smollm2-135m-1a2b3c4d
    """
    from ...hooks.store.writer import pack_store as join

    before, after = join(path)
    echo(f"{before} parts before, {after} now")


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


def _of_job(command: Callable[..., None]) -> Callable[..., None]:
    """What a command takes of every job."""
    return CONFIG(RUNS(OVERRIDE(CODE(command))))


@click.group()
def probe() -> None:
    """Train probes on the activations of runs, and judge them; needs no model.

    CONFIG is a YAML file, or the name of a shipped one; where a run stands in its place, that of its experiment is
    taken. RUNS are folders of runs that kept their activations.

    \b
    doxascope run truth                              statements, beliefs and activations
    doxascope probe sweep runs/truth-*               every layer, with band, controls and report card
    doxascope probe apply probe runs/consistency-* -o probe=probes/probe-1a2b3c4d/probe
    """


@probe.command()
@_of_job
@OUT
def train(config: str, runs: Paths, overrides: tuple[str, ...], out: Path, allow_code: Paths) -> None:
    """Train the probe of the registered place, and save it.

    \b
    doxascope probe train runs/truth-smollm2-135m-1a2b3c4d
    """
    from ..probing.data import by_model
    from ..probing.jobs import train_job
    from ..probing.settings import load_job

    for job in by_model(load_job(config, runs, overrides)):
        path = train_job(job, out, allow_code)
        echo(f"probe: {path}.npz, {path}.json; it is not judged yet: `doxascope probe sweep`")


@probe.command()
@_of_job
@OUT
@EXECUTOR
@ADDRESS
@FULL
def sweep(
    config: str,
    runs: Paths,
    overrides: tuple[str, ...],
    out: Path,
    executor: str,
    address: str | None,
    full: bool,
    allow_code: Paths,
) -> None:
    """Sweep all layers and positions, and judge the probe of the registered place by its report card. Of runs of
    several models, each has a probe of its own, with the model's name.

    The same command again goes on where it was.

    \b
    doxascope probe sweep runs/truth-smollm2-135m-1a2b3c4d
    doxascope probe sweep runs/truth-* -o heads=true -o workers=64 --executor ray --address auto
    """
    from ..probing.data import by_model
    from ..probing.jobs import sweep_job
    from ..probing.settings import load_job

    require_ray(executor, address=address)
    for job in by_model(load_job(config, runs, overrides)):
        folder = sweep_job(job, out, allow_code, executor, address)
        echo_stored(folder, full)


@probe.command()
@_of_job
def lens(config: str, runs: Paths, overrides: tuple[str, ...], allow_code: Paths) -> None:
    """Read runs in passing: what inner layers would say next at the job's position, with nothing appended, behind
    gates; and the runs' reports anew. Needs the model.

    \b
    doxascope probe lens runs/martingale-* -o "lens.layers=[0.5, 0.8]"
    """
    from ..probing.rereading import lens_job
    from ..probing.settings import load_job

    job = load_job(config, runs, overrides)
    for run in _required(job):
        echo(f"{run}: {lens_job(job, run, allow_code)} places read in passing")


@probe.command("eval")
@_of_job
@FULL
def evaluate(config: str, runs: Paths, overrides: tuple[str, ...], full: bool, allow_code: Paths) -> None:
    """Judge a trained probe on other runs; groups that it was trained on are left out.

    \b
    doxascope probe eval runs/truth-other-* -o probe=probes/probe-1a2b3c4d/probe
    """
    from ..probing.jobs import evaluate_job
    from ..probing.settings import load_job

    echo_report(evaluate_job(load_job(config, runs, overrides), allow_code), full=full)


@probe.command()
@_of_job
def apply(config: str, runs: Paths, overrides: tuple[str, ...], allow_code: Paths) -> None:
    """Write what a trained probe reads in runs as beliefs of kind `probe`, and their reports anew.

    \b
    doxascope probe apply runs/truth-* -o probe=probes/probe-1a2b3c4d/probe
    """
    from ..probing.jobs import apply_job
    from ..probing.settings import load_job

    job = load_job(config, runs, overrides)
    for run in _required(job):
        echo(f"{run}: {apply_job(job, run, allow_code)} beliefs of kind probe")


@probe.command()
@_of_job
@OUT
@FULL
def causal(config: str, runs: Paths, overrides: tuple[str, ...], out: Path, full: bool, allow_code: Paths) -> None:
    """Check whether what a trained probe reads is what the model uses: steer, compare with random directions, erase,
    and set beliefs. CONFIG is a YAML file, or `causal`, the shipped one. Needs the model.

    The same command again goes on where it was. The verdict goes into the probe's report card.

    \b
    doxascope probe causal runs/truth-smollm2-135m-1a2b3c4d -o probe=probes/probe-1a2b3c4d/probe
    """
    from ..probing.causal.job import causal_job
    from ..probing.settings import load_causal

    folder = causal_job(load_causal(config, runs, overrides), out, allow_code)
    echo_stored(folder, full)


def _required(job: "ProbeJob") -> Paths:
    if not job.runs:
        raise UserError("runs: none is given; name a run that kept its activations")
    return job.runs
