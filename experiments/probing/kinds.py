"""`kinds: all`: once a run is read, probes that are cross-fitted by group within it read what the model holds, beside
what it computes and what it says.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...base.errors import UserError
from ...hooks.store import ActivationStore
from ...metrics import Resampling
from ...metrics.contract import Floats
from ...metrics.inference.means import cluster_mean
from ...probes.dataset import belief_over_options, belief_rows
from ...probes.evidence.calibration import cells_of
from ...probes.evidence.crossfit import LOSS_EPS
from ...probes.evidence.study import StudyPlan
from ...probes.features import DECODED, NOTHING, OF_OPTION, READ_OUT, TOO_FEW, UNSURE
from ...probes.groups import MIN_FOLDS, grouped_folds
from ...probes.job import train
from ...probes.probe import Probe
from ..run.addons.passive_beliefs import LEFT_OUT, PROBES_FOLDER
from ..run.addons.side_by_side import KEPT
from ..run.config import stored_config
from ..run.experiment import Experiment, RunConfig
from ..run.folder import RunFolder
from ..run.runner import report, run
from .data import NO_NAME, NO_NUMBERS, Loaded, load_runs
from .jobs import apply_probe
from .settings import ProbeJob

NAME = "held"
"""What these probes are called."""
ROUNDING = 1e-6
"""Nats, of a gain that is none: where beliefs lie beyond `LOSS_EPS`, the losses of all are alike but for rounding."""


class ProbedMethod(NamedTuple):
    """Read-outs that share a probe: those of one method over so many options."""

    method: str
    n_options: int
    """0: any number, each option read at its own tokens."""


def run_kinds(
    experiment: Experiment, config: RunConfig, out: Path, *, allow_code: tuple[Path, ...] = (), **how: Any
) -> RunFolder:
    """Run an experiment, or go on with it, and if its settings say `kinds: all`, train and apply its probes.

    Arguments and errors are those of `run`, and of `read_kinds`.
    """
    every = config.kinds == "all"
    folder = run(experiment, config, out, scored=not every, **how)
    if every and not folder.missing:
        read_kinds(folder.path, allow_code)
    return folder


def read_kinds(path: Path, allow_code: tuple[Path, ...] = ()) -> None:
    """Train a probe of the exact belief for each method and number of options, on this run alone, write what it reads
    there, each group by a fit without it, and then the run's scores and report. A probe of few groups, or one that does
    no better than the base rate, says so; a method that has none stands in `probes/left-out.json` with the reason.

    The same run gives the same bytes. Raises UserError for a run without activations.
    """
    folder = RunFolder.open(path)
    experiment, config = stored_config(folder.config, allow_code)
    if config.capture is None:
        raise UserError(f"{path}: keeps no activations; run it with -o kinds=all or -o capture.layers=all")
    left_out: dict[str, str] = {}
    try:
        found = probed_methods(folder, experiment.probed)
    except UserError as error:
        found, left_out["every method"] = [], str(error)
    earlier = {name for name in folder.manifest.get("files", {}) if name.startswith(f"{PROBES_FOLDER}/{NAME}-")}
    for name, cell in _named(found).items():
        where: dict[str, Any] = (
            {"method": cell.method, "n_options": cell.n_options} if cell.n_options else {"method": cell.method}
        )
        position = experiment.probed if cell.n_options else OF_OPTION
        job = ProbeJob(runs=(path,), target="exact", position=position, where=where, name=name)
        try:
            loaded = load_runs(job, allow_code)
            probe = _judged(loaded, _trained(loaded, job), job.study)
        except UserError as error:
            left_out[f"{cell.method}, {cell.n_options} options" if cell.n_options else cell.method] = str(error)
            continue
        kept = path / KEPT / job.name
        with folder.writing():
            probe.save(kept)
        n_read, n = apply_probe(job.model_copy(update={"probe": kept}), path, allow_code)
        if n_read < n:
            left_out[f"{cell.method}, {n - n_read} of {n} read-outs"] = NO_NUMBERS
        earlier -= {f"{PROBES_FOLDER}/{name}.{ending}" for ending in ("parquet", "json")}
    with folder.writing():
        folder.forget(*earlier)  # of a method that has no probe now
        (path / PROBES_FOLDER).mkdir(exist_ok=True)
        folder.write_json(LEFT_OUT, left_out)
        folder.record(LEFT_OUT)
        report(folder, experiment, config)


def probed_methods(folder: RunFolder, position: str) -> list[ProbedMethod]:
    """Those of the exact read-outs whose activations at a position are kept; where those of the options' own tokens
    are, as options change from question to question, they are read there. Raises UserError if there are none.
    """
    store = ActivationStore.open(folder.path)
    rows = belief_rows(folder.beliefs(), store.rows(position=position)["readout_id"].tolist())
    every = store.rows()
    listed = rows["readout_id"].isin(set(every[every["position"] == f"{OF_OPTION}-0"]["readout_id"]))
    cells = {*zip(rows["method"], rows["n_options"].where(~listed, 0), strict=True)}
    return [ProbedMethod(str(method), int(n)) for method, n in sorted(cells)]


def _named(cells: Sequence[ProbedMethod]) -> dict[str, ProbedMethod]:
    """Each by the name of its probe, which names files: no two are alike on any disk."""
    named: dict[str, ProbedMethod] = {}
    for cell in cells:
        name = NO_NAME.sub("-", f"{NAME}-{cell.method[:60]}-{cell.n_options or 'options'}")
        taken, n = {other.casefold() for other in named}, 1
        while (numbered := name if n == 1 else f"{name}-{n}").casefold() in taken:
            n += 1
        named[numbered] = cell
    return named


def _trained(loaded: Loaded, job: ProbeJob) -> Probe:
    """With as many folds as there are groups for. Raises UserError for fewer than three."""
    n = loaded.data.n_groups
    if n < MIN_FOLDS:
        raise UserError(f"{n} {'group' if n == 1 else 'groups'}; cross-fitting takes at least {MIN_FOLDS}")
    plan = job.study.model_copy(update={"folds": min(job.study.folds, n)})
    return train(loaded.data, loaded.registered, loaded.header, plan, job.name)


def _judged(loaded: Loaded, probe: Probe, plan: StudyPlan) -> Probe:
    """Called what it is: of too few groups, or no better than the mean of the other folds, it reads no belief."""
    data = loaded.data
    if loaded.at.position == OF_OPTION:
        gain, groups = _gain_of_options(loaded, probe, plan)
        return _called(probe, loaded, gain, groups, plan)
    prob = data.options if data.options is not None else np.column_stack([data.target.prob, 1 - data.target.prob])
    base = _base(prob, cells_of(data.rows), data.groups, plan)
    gain = _loss(prob, base) - _loss(prob, probe.beliefs(data.read(loaded.at), data.groups))
    return _called(probe, loaded, gain, data.groups, plan)


def _base(prob: Floats, cells: NDArray[np.intp], groups: NDArray[Any], plan: StudyPlan) -> Floats:
    """[n, k] the mean of the other folds in the same cell [n] (under the same conditions, which a probe could read off
    the question); of a cell that the others lack, over all.
    """
    folds, base = grouped_folds(groups, min(plan.folds, len(set(groups.tolist()))), plan.seed), np.empty_like(prob)
    for fold, cell in {*zip(folds.tolist(), cells.tolist(), strict=True)}:
        others = folds != fold
        same = others & (cells == cell)
        base[(folds == fold) & (cells == cell)] = prob[same if same.any() else others].mean(axis=0)
    return base


def _gain_of_options(loaded: Loaded, probe: Probe, plan: StudyPlan) -> tuple[Floats, NDArray[Any]]:
    """Of each read-out, by how many nats it is closer to the exact belief than the mean of the other folds at the same
    place of a list of so many options; and its group.
    """
    data = loaded.data
    _, first, of, size = np.unique(data.rows["readout_id"], return_index=True, return_inverse=True, return_counts=True)
    belief = belief_over_options(probe.logit(data.read(loaded.at), data.groups), of)
    places = data.rows["option_index"].to_numpy() + (int(size.max()) + 1) * size[of]
    base = _base(data.target.prob[:, None], places.astype(np.intp), data.groups, plan)[:, 0]
    base = base / np.bincount(of, base)[of]
    gain = data.target.prob * np.log(np.clip(belief, LOSS_EPS, 1) / np.clip(base, LOSS_EPS, 1))
    return np.bincount(of, gain).astype(np.float64), data.groups[first]


def _called(probe: Probe, loaded: Loaded, gain: Floats, groups: NDArray[Any], plan: StudyPlan) -> Probe:
    """By its gain in log-loss, nats, of read-outs in groups."""
    data = loaded.data
    score = cluster_mean(gain, groups, how=Resampling(seed=plan.seed))
    if data.n_groups < plan.thresholds.groups:
        called = TOO_FEW
    elif not score.ci_lo > ROUNDING:
        called = NOTHING if score.ci_hi <= ROUNDING else UNSURE
    else:
        called = DECODED if loaded.sites[loaded.at.position] == "before the question" else READ_OUT
    return replace(probe, meta=probe.meta.model_copy(update={"called": called}))


def _loss(prob: Floats, belief: Floats) -> Floats:
    """[n] cross-entropy in nats of beliefs [n, k] with distributions [n, k]."""
    return -(prob * np.log(np.clip(belief, LOSS_EPS, 1))).sum(axis=1)
