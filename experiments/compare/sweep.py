"""`doxascope sweep`: models, seeds and settings, each combination a run of its own; what is not finished is run."""

import importlib
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from ...base.documents import read_json, read_text, repeated, user_path
from ...base.errors import UserError, cause, in_one_line
from ...base.files import OutputFolder, file_digest, json_digest, sealed, unsealed, write_text
from ...base.progress import progress
from ...base.settings import Settings, parse, parse_yaml, read_yaml
from ...hooks.model.consent import KEY, consented
from ...hooks.model.spec import ModelSpec
from ..probing.kinds import run_kinds
from ..run.config import TABLES, load_config
from ..run.experiment import Experiment, RunConfig
from ..run.folder import RunFolder
from ..run.joint_scores import flat
from ..run.manifest import code_of
from ..run.worker import OpenWorkers, one_here

RECORDS = "sweep"
"""Folder beside the runs: of each combination that is finished, which run it is."""
JOBS = "slurm"
"""In it, what submitit keeps of jobs."""
JOB = re.compile(r"\d+(_\d+)?")
"""The number of a job, or of one in an array."""
TIMEOUT_MIN, LOOK = 24 * 60, 1.0
"""Minutes that a job of Slurm may take if nothing is said; seconds between two looks at the jobs."""

Changes = dict[str, Any]
"""Key, with dots -> value."""


def _named(given: Any) -> Any:
    """Experiments as a mapping, also where they are a list of names. Raises ValueError for one that is there twice."""
    if isinstance(given, list) and (name := repeated(map(str, given))) is not None:
        raise ValueError(f"{name!r} is there twice")
    return {str(name): {} for name in given} if isinstance(given, list) else given


def _counted(given: Any) -> Any:
    """Seeds as a list, also where it is said how many."""
    return list(range(given)) if isinstance(given, int) and not isinstance(given, bool) else given


class SweepPlan(Settings):
    """What is run: every experiment on every model, with every seed and every combination of settings."""

    experiments: Annotated[dict[str, Changes], BeforeValidator(_named)] = Field(min_length=1)
    """Name, preset or YAML file -> settings that it alone has."""
    models: tuple[str, ...] = ()
    """Empty: the model that each experiment is configured for."""
    seeds: Annotated[tuple[int, ...], BeforeValidator(_counted), Field(min_length=1)] = (0,)
    """The seeds, or how many, from 0."""
    settings: Changes = Field(default_factory=dict)
    """Of every run."""
    vary: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(default_factory=dict)
    """Key -> its values."""


@dataclass(frozen=True)
class Combination:
    """One combination: a run."""

    target: str
    model: str | None
    changes: Changes
    experiment: Experiment
    config: RunConfig
    varied: Changes = field(default_factory=dict)
    """Those of the changes that are varied."""

    @property
    def name(self) -> str:
        """What it is called before it has a folder."""
        varied = "".join(f", {key} {value}" for key, value in self.varied.items())
        return f"{self.experiment.name} on {self.model or self.config.model.name}, seed {self.config.seed}{varied}"

    @cached_property
    def key(self) -> str:
        """Digest of all its settings, of the files that they name, of an experiment's own code, and of which files its
        model is, by their sizes and times, as all of it was when this was first asked: what is written anew is not
        taken for finished.
        """
        settings = self.config.model_dump(mode="json")
        named = {text for text in flat({**settings, "model": None}).values() if os.path.isfile(user_path(text))}
        with in_one_line("a file that settings name"):
            digests = {text: file_digest(user_path(text)) for text in sorted(named)}
        return json_digest([settings, digests, code_of(self.experiment), list(_files(self.config.model))])


def _files(model: ModelSpec) -> Iterator[tuple[str, int, int]]:
    """Name, size and time of each file of a model; in a folder those below it are none of its own."""
    for place in (model.path, *(adapter.place for adapter in model.adapter)):
        path = user_path(place) if place else None
        files = sorted(path.iterdir()) if path and path.is_dir() else [path] if path and path.is_file() else []
        yield from ((file.name, (known := file.stat()).st_size, known.st_mtime_ns) for file in files if file.is_file())


def load_plan(targets: Sequence[str], given: Mapping[str, Any]) -> SweepPlan:
    """The plan of a YAML file with the key `experiments`, or of experiments, each with its file behind it; what is
    `given` beside it takes the place of what the file says, settings one by one.

    Raises UserError for a plan beside other targets, and for what is wrong in it.
    """
    plans = [path for path in targets if path.endswith((".yaml", ".yml")) and "experiments" in read_yaml(Path(path))]
    if plans and len(targets) > 1:
        raise UserError(f"{plans[0]}: is a plan of a sweep; give it alone, or its experiments by name")
    data: dict[str, Any] = read_yaml(Path(plans[0])) if plans else {"experiments": _with_material(targets)}
    known = {key: data.get(key) or {} for key in given}
    merged = {
        key: known[key] | value if isinstance(value, dict) and isinstance(known[key], dict) else value
        for key, value in given.items()
    }
    return parse(SweepPlan, data | merged, plans[0] if plans else "sweep")


def _with_material(targets: Sequence[str]) -> dict[str, Changes]:
    """Experiments, each with the file that stands behind it, for one that takes a file."""
    found: dict[str, Changes] = {}
    for target in targets:
        before = next(reversed(found), None)
        material = load_config(before)[0].material if before and Path(target).suffix.lower() in TABLES else ""
        if before and material:
            found[before] = {material: target}
        elif target in found:
            raise UserError(f"{target}: is there twice; leave one out")
        else:
            found[target] = {}
    return found


def cells_of(plan: SweepPlan, overrides: Sequence[str] = (), allow_code: Sequence[Path] = ()) -> list[Combination]:
    """All combinations, each with its settings checked. Raises UserError for one that is wrong, for two alike, and for
    one consent to the code of several models.
    """
    if fixed := [one for one in overrides if one.partition("=")[0] == "seed"]:
        raise UserError(f"-o {fixed[0]}: a sweep takes its seeds as --seeds 3, or --seeds 0,4")
    if any("seed" in changes for changes in (plan.settings, plan.vary, *plan.experiments.values())):
        raise UserError("setting seed: a sweep takes its seeds as --seeds 3, or --seeds 0,4; in a plan as `seeds`")
    cells: list[Combination] = []
    combinations = [dict(zip(plan.vary, values, strict=True)) for values in product(*plan.vary.values())]
    for (target, own), model, varied in product(plan.experiments.items(), plan.models or [None], combinations):
        for seed in plan.seeds:
            changes = {**plan.settings, **own, **varied, "seed": seed}
            experiment, config = load_config(target, overrides, model, allow_code, settings=changes)
            cells.append(Combination(target, model, changes, experiment, config, varied))
    _require_consent_to_each(cells, overrides, allow_code)
    keys: dict[str, Combination] = {}
    for cell in cells:
        if (other := keys.setdefault(cell.key, cell)) is not cell:
            raise UserError(f"{cell.name}: is there twice ({other.target}, {cell.target}); leave one out")
    return cells


def _require_consent_to_each(
    cells: Sequence[Combination], overrides: Sequence[str], allow_code: Sequence[Path]
) -> None:
    """Raise UserError for a setting of all runs that would allow the code of models in more than one place."""
    given = [override for override in overrides if override.partition("=")[0].rpartition(".")[2] == KEY]
    places = list(dict.fromkeys(place for cell in cells for place in consented(cell.config)))
    named = {name for place in allow_code for name in (place, user_path(place).resolve())}
    if given and len(places) > 1 and not named.issuperset(places):
        each = " ".join(f"--allow-code {place}" for place in places)
        raise UserError(f"-o {given[0]}: would allow the code of {len(places)} models; name each: {each}")


def finished(cell: Combination, out: Path) -> RunFolder | None:
    """The run of a combination, if it is whole and scored. Raises UserError for one that is not as it was written."""
    record = out / RECORDS / f"{cell.key}.json"
    if not record.is_file():
        return None
    with in_one_line(record, "delete it, and give the same command again"):
        name = str(unsealed(read_json(record))["run"])
        if name in ("", "..") or Path(name).name != name:
            raise ValueError(f"{name!r} is no name of a run beside it")
        run = RunFolder(out / name)
    return run if run.manifest.get("status") == "complete" and run.written("scores.json") else None


def run_cell(
    cell: Combination, out: Path, allow_code: Sequence[Path] = (), workers: OpenWorkers = one_here
) -> RunFolder:
    """Run a combination, or go on with it, and write down that it is finished."""
    key = cell.key  # of the files before they are read
    folder = run_kinds(cell.experiment, cell.config, out, allow_code=tuple(allow_code), workers=workers)
    (out / RECORDS).mkdir(parents=True, exist_ok=True)
    record = {"run": folder.path.name, "target": cell.target, "model": cell.config.model.name, "changes": cell.changes}
    OutputFolder(out / RECORDS, f"-{os.getpid()}").write_json(f"{key}.json", sealed(record))
    return folder


def sweep(
    plan: SweepPlan,
    out: Path,
    *,
    overrides: Sequence[str] = (),
    allow_code: Sequence[Path] = (),
    workers: OpenWorkers = one_here,
    slurm: Mapping[str, Any] | None = None,
) -> list[RunFolder]:
    """Run every combination that is not finished, one after the other, or, by Slurm, as jobs of an array.

    Args:
        plan: what is run.
        out: folder of the runs.
        overrides: changes of settings, `key=value`, of every run, which go before those of the plan.
        allow_code: files and models whose code may be run.
        workers: opens what reads each run.
        slurm: what submitit is told of the jobs (`timeout_min`, `gpus_per_node`, `slurm_partition`, ...; `cluster`:
            `local` has them as processes of this machine); None: runs are read here.

    Returns the runs, in the order of the plan. What goes wrong with one does not stop the others. Raises UserError for
    runs that could not be made, or, once the others are there, the first error that was not foreseen.
    """
    cells = cells_of(plan, overrides, allow_code)
    failed: dict[str, Exception] = {}
    todo: list[Combination] = []
    for cell in cells:
        try:
            todo += [cell] if finished(cell, out) is None else []
        except UserError as error:  # a run that is damaged
            failed[cell.key] = error
    with progress(len(cells), "run", "sweep", before=len(cells) - len(todo), of_jobs=True) as advance:
        if slurm is not None:
            failed |= _by_slurm(todo, out, overrides, allow_code, slurm, advance)
        for cell in todo if slurm is None else ():
            try:
                run_cell(cell, out, allow_code, workers)
            except Exception as error:  # a sweep of a night goes on
                failed[cell.key] = error
            advance(1)
    for error in failed.values():
        if not isinstance(error, UserError):
            raise error
    if failed:
        alike: dict[str, list[str]] = {}
        names = {cell.key: cell.name for cell in cells}
        for key, error in failed.items():
            alike.setdefault(str(error), []).append(names[key])
        told = "; ".join(f"{' and '.join(names)}: {error}" for error, names in alike.items())
        raise UserError(f"{len(failed)} of {len(cells)} runs failed; the same command goes on with them: {told}")
    return [run for cell in cells if (run := finished(cell, out)) is not None]


# Jobs of Slurm, by submitit; what is queued or at work is not given again.


def _by_slurm(
    cells: Sequence[Combination],
    out: Path,
    overrides: Sequence[str],
    allow_code: Sequence[Path],
    options: Mapping[str, Any],
    advance: Callable[[int], object],
) -> dict[str, Exception]:
    """Key of a combination -> what went wrong with it. What a job leaves as a pickle is never read."""
    try:
        submitit: Any = importlib.import_module("submitit")
    except ImportError as error:
        raise UserError(f'--executor slurm: {error}; pip install "doxascope[slurm]"') from error
    folder = out / RECORDS / JOBS
    if linked := [path for path in (folder.parent, folder) if path.is_symlink()]:
        raise UserError(f"{linked[0]}: is a link, and jobs are kept in a folder; delete it, or choose another --out")
    folder.mkdir(parents=True, exist_ok=True)
    told = {"name": "doxascope", "timeout_min": TIMEOUT_MIN, **options}
    with in_one_line("--executor slurm", "options are those of submitit's AutoExecutor, as --slurm NAME=VALUE"):
        executor = submitit.AutoExecutor(folder=folder, cluster=told.pop("cluster", "slurm"))
        executor.update_parameters(**told)
        patience = 60 * float(told["timeout_min"])
    jobs = {cell.key: job for cell in cells if (job := _queued(executor, folder, cell, patience))}
    new = [cell for cell in cells if cell.key not in jobs]
    with in_one_line("--executor slurm: the jobs cannot be submitted"), _batch(executor, new):
        for cell in new:
            _failure(folder, cell.key).unlink(missing_ok=True)
            given = (cell.target, cell.model, cell.changes, tuple(overrides), tuple(allow_code), out.resolve())
            jobs[cell.key] = executor.submit(_job, *given, Path.cwd(), cell.key)
    for cell in new:
        OutputFolder(folder).write(f"{cell.key}.job", str(jobs[cell.key].job_id))
    failed: dict[str, Exception] = {}
    left = list(cells)
    while left:
        for cell in [cell for cell in left if _ended(jobs[cell.key], _noted(folder, cell), patience)]:
            left.remove(cell)
            advance(1)
            _noted(folder, cell).unlink(missing_ok=True)
            if why := _went_wrong(cell, out):
                failed[cell.key] = UserError(f"{why} ({jobs[cell.key].paths.stderr})")
        if left:
            time.sleep(LOOK)
    return failed


@contextmanager
def _batch(executor: Any, cells: Sequence[Combination]) -> Iterator[None]:
    """One array of jobs, if there are any."""
    if cells:
        with executor.batch():
            yield
    else:
        yield


def _noted(folder: Path, cell: Combination) -> Path:
    """Where the number of a combination's job stands."""
    return folder / f"{cell.key}.job"


def _failure(folder: Path, key: str) -> Path:
    """Where a job writes what went wrong."""
    return folder / f"{key}.failed"


def _queued(executor: Any, folder: Path, cell: Combination, patience: float) -> Any:
    """The job that an earlier command has given for a combination, if it is queued or at work."""
    noted = _noted(folder, cell)
    if noted.is_symlink() or not noted.is_file() or not JOB.fullmatch(number := read_text(noted).strip()):
        return None
    job = executor._executor.job_class(folder, number)
    return None if _ended(job, noted, patience) else job


def _ended(job: Any, noted: Path, patience: float) -> bool:
    """Whether a job is done, or is one that the cluster does not know, given more seconds ago than `patience`."""
    if job.done() or job.state.upper() != "UNKNOWN":
        return bool(job.done())
    return not noted.is_file() or time.time() - noted.stat().st_mtime > patience


def _went_wrong(cell: Combination, out: Path) -> str:
    """Why a job has not done its work, by what it has written down; empty if it has."""
    try:
        if finished(cell, out) is not None:
            return ""
    except UserError as error:
        return str(error)
    said = _failure(out / RECORDS / JOBS, cell.key)
    if said.is_file() and not said.is_symlink():
        return read_text(said)
    return "its job ended without a run of these settings and files"


def _job(
    target: str,
    model: str | None,
    changes: Changes,
    overrides: tuple[str, ...],
    allow_code: tuple[Path, ...],
    out: Path,
    place: Path,
    key: str,
) -> None:
    """What runs on a node: one combination. What goes wrong is written down under its key."""
    os.chdir(place)  # paths in settings are relative to where the command was given
    try:
        experiment, config = load_config(target, overrides, model, allow_code, settings=changes)
        run_cell(Combination(target, model, changes, experiment, config), out, allow_code)
    except Exception as error:
        write_text(_failure(out / RECORDS / JOBS, key), cause(error))
        if not isinstance(error, UserError):
            raise


def slurm_options(given: Mapping[str, str]) -> dict[str, Any]:
    """What submitit is told, of texts."""
    return {name: parse_yaml(text, f"--slurm {name}") for name, text in given.items()}
