"""`doxascope sweep`: models, seeds and settings, each combination a run of its own; what is not finished is run."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from ...base.errors import UserError, in_one_line, named
from ...base.progress import progress
from ..run.experiment import items_of
from ..run.folder import RunFolder
from ..run.worker import OpenWorkers, one_here, sharing_a_model
from .combinations import Combination, SweepPlan, cells_of, finished, run_cell
from .slurm import by_slurm


def sweep(
    plan: SweepPlan,
    out: Path,
    *,
    overrides: Sequence[str] = (),
    allow_code: Sequence[Path] = (),
    workers: OpenWorkers = one_here,
    cluster: Callable[[int], AbstractContextManager[Any]] = nullcontext,
    slurm: Mapping[str, Any] | None = None,
) -> list[RunFolder]:
    """Run every combination that is not finished, one after the other, model by model, so that each is loaded once; or,
    by Slurm, as jobs of an array.

    Args:
        overrides: changes of settings, `key=value`, of every run, which go before those of the plan.
        allow_code: files and models whose code may be run.
        workers: opens what reads each run.
        cluster: opens what `workers` of all runs are on, given the CPU threads of one.
        slurm: what submitit is told of the jobs (`timeout_min`, `gpus_per_node`, `slurm_partition`, ...; `cluster`:
            `local` has them as processes of this machine); None: runs are read here.

    Returns the runs, in the order of the plan. What goes wrong with one does not stop the others. Raises UserError,
    before any is read, for one that has no items; for runs that could not be made; or, once the others are there, the
    first error that was not foreseen.
    """
    cells = cells_of(plan, overrides, allow_code)
    failed: dict[str, Exception] = {}
    todo: list[Combination] = []
    for cell in cells:
        try:
            todo += [cell] if finished(cell, out) is None else []
        except UserError as error:  # a run that is damaged
            failed[cell.key] = error
    for cell in todo:
        with named(cell.name), in_one_line("its items"):
            items_of(cell.experiment, cell.config)
    with progress(len(cells), "run", "sweep", before=len(cells) - len(todo), of_jobs=True) as advance:
        if slurm is not None:
            failed |= by_slurm(todo, out, overrides, allow_code, slurm, advance)
        here = todo if slurm is None else []
        threads = max((cell.config.model.threads or 1 for cell in here), default=1)
        shared = sharing_a_model() if workers is one_here else nullcontext(workers)
        loaded = [(cell.config.model, cell.config.terminators) for cell in here]
        with cluster(threads) if here else nullcontext(), shared as opened:
            for cell in sorted(here, key=lambda cell: loaded.index((cell.config.model, cell.config.terminators))):
                try:
                    run_cell(cell, out, allow_code, opened)
                    advance(1)
                except Exception as error:  # a sweep of a night goes on
                    failed[cell.key] = error
    for error in failed.values():
        if not isinstance(error, UserError):
            raise error
    if failed:
        alike: dict[str, list[str]] = {}
        names = {cell.key: cell.name for cell in cells}
        for key, error in failed.items():
            alike.setdefault(str(error), []).append(names[key])
        failures = "; ".join(f"{' and '.join(names)}: {error}" for error, names in alike.items())
        raise UserError(f"{len(failed)} of {len(cells)} runs failed; the same command goes on with them: {failures}")
    return [run for cell in cells if (run := finished(cell, out)) is not None]
