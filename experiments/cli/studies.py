"""`doxascope sweep`, `collect` and `export`: many runs, one table of them, and what other tools read."""

from pathlib import Path
from typing import Any

import click

from ...base.errors import UserError
from ..run.exports import FORMATS
from .console import (
    ADDRESS,
    ALLOW_CODE,
    FULL,
    MODEL,
    OVERRIDE,
    echo,
    echo_report,
    echo_stored,
    executor_option,
    named_values,
    require_ray,
)


@click.command()
@click.argument("targets", metavar="EXPERIMENT [FILE]...|PLAN", nargs=-1, required=True)
@click.option("-m", "--model", "models", multiple=True, help="A preset, a folder, a .gguf file or a hub id; several.")
@click.option("--seeds", metavar="N|A,B,...", help="How many, from 0; or which.  [default: 1]")
@OVERRIDE
@click.option("--vary", "varied", multiple=True, metavar="KEY=[A, B]", help="A setting, and its values: a run of each.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs"), show_default=True, help="Folder of runs.")
@executor_option("slurm", what="Where runs are read: here, by workers of Ray, or each as a job of Slurm.")
@click.option("--workers", type=click.IntRange(1), help="Of Ray, how many; by default one for each GPU.")
@click.option("--gpus-per-worker", type=click.FloatRange(0), help="Of Ray; by default 1, or 0 where there is none.")
@ADDRESS
@click.option("--slurm", "jobs", multiple=True, metavar="NAME=VALUE", help="Of jobs, as submitit calls it.")
@ALLOW_CODE
def sweep(
    targets: tuple[str, ...],
    models: tuple[str, ...],
    seeds: str | None,
    overrides: tuple[str, ...],
    varied: tuple[str, ...],
    out: Path,
    executor: str,
    workers: int | None,
    gpus_per_worker: float | None,
    address: str | None,
    jobs: tuple[str, ...],
    allow_code: tuple[Path, ...],
) -> None:
    """Run experiments on several models, with several seeds and settings; each combination is a run of its own.

    The same command again runs what is not finished. PLAN is a YAML file with `experiments`, `models`, `seeds`,
    `settings` and `vary`; what is given beside it takes their place.

    \b
    doxascope sweep consistency martingale -m smollm2-135m -m ./checkpoint-2000 --seeds 3 -o items=6 --out study
    doxascope sweep ask questions.csv --vary 'orders=[none, latin]' --out study
    doxascope sweep plan.yaml --executor slurm --slurm slurm_partition=gpu --slurm gpus_per_node=1
    doxascope collect study                       one table and one figure of all of them
    """
    from ...base.parallel import ray_cluster
    from ..compare.combinations import load_plan
    from ..compare.slurm import slurm_options
    from ..compare.sweep import sweep as run_all
    from ..run.ray_workers import ray_workers

    require_ray(executor, workers=workers, gpus_per_worker=gpus_per_worker, address=address)
    if jobs and executor != "slurm":
        raise UserError(f"--slurm {jobs[0]}: is for jobs of Slurm; give it with --executor slurm")
    plan = load_plan(targets, chosen(models, seeds, named_values("--vary", varied)))
    by_ray: dict[str, Any] = {
        "workers": ray_workers(workers, gpus_per_worker, address),
        "cluster": lambda threads: ray_cluster(address, (workers or 1) * threads),
    }
    runs = run_all(
        plan,
        out,
        overrides=overrides,
        allow_code=allow_code,
        **(by_ray if executor == "ray" else {}),
        slurm=slurm_options(named_values("--slurm", jobs)) if executor == "slurm" else None,
    )
    echo(f"{len(runs)} runs in {out}; one table of them: doxascope collect {out}")


def chosen(models: tuple[str, ...], seeds: str | None, varied: dict[str, str]) -> dict[str, object]:
    """What the command line says of a plan. Raises UserError for seeds or values that are none."""
    from ...base.settings import parse_yaml

    given: dict[str, object] = {"models": list(models)} if models else {}
    if seeds is not None:
        try:
            numbers = [int(part) for part in seeds.split(",")]
        except ValueError:
            raise UserError(f"--seeds {seeds}: give how many, or which: --seeds 0,4") from None
        given["seeds"] = numbers if "," in seeds else numbers[0]
    if varied:
        values = {key: parse_yaml(text, f"--vary {key}") for key, text in varied.items()}
        if alone := [key for key, value in values.items() if not isinstance(value, list)]:
            raise UserError(f"--vary {alone[0]}={varied[alone[0]]}: give a list of values, such as '[1, 2]'")
        given["vary"] = values
    return given


@click.command()
@click.argument("paths", metavar="RUN|FOLDER...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--metric", "metrics", multiple=True, metavar="NAME", help="A number to show, as in scores.json; several."
)
@click.option("--over", metavar="WHAT", help="Of the line plot: size, step, or a setting, such as items.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for tables, page and figures.")
@FULL
def collect(paths: tuple[Path, ...], metrics: tuple[str, ...], over: str | None, out: Path | None, full: bool) -> None:
    """Put the numbers of many runs into one table: of any experiments, models, seeds and settings; needs no model.

    FOLDER holds runs. Seeds are pooled, and what differs between them is told; models are rows. With --out there are
    `runs.csv` and `runs.parquet` (each number of each run), `pooled.csv` and `pooled.parquet` (over seeds), and a page.

    \b
    doxascope collect study
    doxascope collect study --metric c2 --out table
    doxascope collect runs/consistency-* --over step --out table
    """
    from ..compare.collection import collect as collected
    from ..compare.collection_page import page, prepare, write

    folder = None if out is None else prepare(out)
    collection = collected(*paths)
    document = page(collection, metrics, over)
    if folder is not None:
        write(folder, collection, document)
    echo_report(document, None if folder is None else folder.path, full)


@click.command()
@click.argument("questions", type=click.Path(path_type=Path))
@click.option("--direction", type=click.Path(path_type=Path), help="A file with it, a probe, or a CSV of statements.")
@MODEL
@OVERRIDE
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs"), show_default=True, help="Folder of runs.")
@FULL
@ALLOW_CODE
def steer(
    questions: Path,
    direction: Path | None,
    model: str | None,
    overrides: tuple[str, ...],
    out: Path,
    full: bool,
    allow_code: tuple[Path, ...],
) -> None:
    """Steer a model along a direction and along controls of its length, and read what it believes: `doxascope run
    steer`, with both files named. The same command again goes on where it was.

    QUESTIONS is a table as for `ask`; the belief is in the first option. A direction is an array of a .npz, .npy or
    .safetensors file, a probe that was saved, or the difference in means of a CSV of `statement,label`.

    \b
    doxascope steer questions.csv --direction statements.csv -o layers=[0.5] -o strengths=[1,2,4]
    doxascope steer questions.csv --direction truth.safetensors -o direction.key=layer12 -o layers=[12]
    doxascope steer questions.csv --direction probes/probe-1a2b3c4d/probe
    """
    from ..probing.kinds import run_kinds
    from ..run.config import load_config

    place = "statements" if direction and direction.suffix.lower() == ".csv" else "file"
    named = {f"direction.{place}": str(direction)} if direction else {}
    experiment, config = load_config("steer", overrides, model, allow_code, str(questions), named)
    echo_stored(run_kinds(experiment, config, out, allow_code=allow_code, tell=echo).path, full)


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--to", required=True, type=click.Choice(list(FORMATS)), help="The format.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder for the files; export/FORMAT if not given, for datasets export/datasets/RUN.",
)
def export(run: Path, to: str, out: Path | None) -> None:
    """Write a run as other tools read it; needs no model. Beliefs are kept to the bit.

    \b
    doxascope export runs/ask-a --to inspect       for Inspect View, Scout and Docent
    doxascope export runs/ask-a --to eee           records of Every Eval Ever, checked by its validator
    doxascope export runs/ask-a --to datasets      Parquet and a card: the Hugging Face Hub, `datasets`
    doxascope export runs/ask-a --to model-card    results for the head of a model's README.md on the Hub
    """
    from ..run.exports import export as exported
    from ..run.folder import RunFolder

    folder = RunFolder.open(run)
    # `datasets` keeps what it has read by the name of the folder alone, so that two runs in one of a name are one.
    given = out or Path("export") / to / (folder.path.resolve().name if to == "datasets" else "")
    for line in exported(folder, to, given):
        echo(line)
