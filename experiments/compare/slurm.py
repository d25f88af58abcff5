"""Combinations of a sweep as jobs of Slurm, by submitit; what is queued or at work is not given again."""

import importlib
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...base.documents import read_text
from ...base.errors import UserError, cause, in_one_line
from ...base.files import OutputFolder, write_text
from ...base.settings import parse_yaml
from ..run.config import load_config
from .combinations import RECORDS, Changes, Combination, finished, run_cell

JOBS = "slurm"
"""In the folder of a sweep's records, what submitit keeps of jobs."""
JOB = re.compile(r"\d+(_\d+)?")
"""The number of a job, or of one in an array."""
TIMEOUT_MIN, LOOK = 24 * 60, 1.0
"""Minutes that a job of Slurm may take if nothing is said; seconds between two looks at the jobs."""


def by_slurm(
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
    settings = {"name": "doxascope", "timeout_min": TIMEOUT_MIN, **options}
    with in_one_line("--executor slurm", "options are those of submitit's AutoExecutor, as --slurm NAME=VALUE"):
        executor = submitit.AutoExecutor(folder=folder, cluster=settings.pop("cluster", "slurm"))
        executor.update_parameters(**settings)
        patience = 60 * float(settings["timeout_min"])
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
    record = _failure(out / RECORDS / JOBS, cell.key)
    if record.is_file() and not record.is_symlink():
        return read_text(record)
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
