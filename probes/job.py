"""A probe job: from a data set and a plan to a trained probe, its sweep and its card; goes on where it was killed,
by the arrays that it keeps on the disk.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ..base.errors import UserError, in_one_line
from ..base.files import atomic_write, digest_of
from ..hooks.store import Header
from ..metrics.contract import Floats
from .dataset import ProbeData
from .estimators import Multinomial, RidgeOnLogOdds
from .evidence.crossfit import (
    CrossFitted,
    cross_fit,
    logits_of_options,
    multinomial,
    recalibration,
    ridge_of_options,
    softmax_calibration,
    softmax_slope,
)
from .evidence.study import Beside, Study, StudyPlan, study
from .features import DECODED, OF_OPTION, READ_OUT, ReadAt, ReadingSite
from .groups import grouped_folds
from .probe import Probe, ProbeMeta
from .report_card import Card, CausalVerdict, report_card
from .sweep import AtPoint, SpreadPoints, Sweep, sweep

Arrays = Mapping[str, np.ndarray]
ANSWERS = "answers"
"""In a file: what it answers, and what it has to hold."""


def kept(path: Path, make: Callable[[], Mapping[str, Any]]) -> Arrays:
    """The arrays of a `.npz` file, which `make` gives if it is not there; the file's name is what they answer.

    Raises UserError for a file that cannot be read or written, that answers another question, or that was changed.
    """
    if path.exists():
        with in_one_line(path, "delete it"), np.load(path, allow_pickle=False) as file:
            known = {key: file[key] for key in file.files}
        answers = known.pop(ANSWERS, None)
        if answers is None or str(answers) != _answers(path.stem, known):
            raise UserError(f"{path}: is not what was computed for it; delete it, and it is computed again")
        return known
    arrays = {name: np.asarray(value) for name, value in make().items()}
    with in_one_line(f"{path}: cannot be written", "choose another --out"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as temporary, temporary.open("wb") as file:
            answers: dict[str, Any] = {**arrays, ANSWERS: np.array(_answers(path.stem, arrays))}
            np.savez(file, **answers)
    return arrays


def _answers(name: str, arrays: Arrays) -> str:
    """Of arrays with their digests."""
    contents = {
        key: [str(array.dtype), list(array.shape), digest_of(np.ascontiguousarray(array).tobytes())]
        for key, array in sorted(arrays.items())
    }
    return json.dumps({"of": name, "holds": contents})


@dataclass(frozen=True)
class RegisteredPlace:
    """What is fixed before anything is read."""

    at: ReadAt
    site: ReadingSite


@dataclass(frozen=True)
class Judged:
    """What a sweep leaves."""

    sweep: Sweep
    study: Study
    card: Card
    probe: Probe


def train(data: ProbeData, registered: RegisteredPlace, header: Header, plan: StudyPlan, name: str) -> Probe:
    """The probe of the registered place: fitted on all groups, and without each fold for what it was trained on.

    Its penalty is the median of those chosen without each fold, its recalibration that of the cross-fitted scores. Of
    more than two options each gets a direction, and the softmax of all is calibrated; options that are read at their
    own tokens share one direction, and one slope calibrates the softmax over those of a read-out.
    """
    folds = grouped_folds(data.groups, plan.folds, plan.seed)
    x = data.read(registered.at)
    crossed = cross_fit(x, data.target, folds, plan.penalties)
    estimator = RidgeOnLogOdds(float(np.sort(crossed.penalties)[len(crossed.penalties) // 2]))
    slope, intercept = recalibration(crossed.score, data.target.prob)
    meta = ProbeMeta(
        name=name,
        estimator="ridge",
        params=asdict(estimator),
        target=data.target.name,
        reading_site=registered.site,
        called=DECODED if registered.site == "before the question" else READ_OUT,
        dtype=header.dtype,
        model=dict(header.conditions.get("model", {})),
        n_rows=len(x),
        n_groups=data.n_groups,
        **registered.at._asdict(),
    )
    readout = estimator.fit(x, data.target.prob).calibrated(slope, intercept)
    probe = Probe(readout, meta, crossed.readouts, _fold_of(data, folds))
    if registered.at.position == OF_OPTION:
        return _of_option(probe, x, data, folds, crossed, estimator)
    return probe if data.options is None else _over_options(probe, x, data.options, folds, plan)


def _of_option(
    probe: Probe, x: Floats, data: ProbeData, folds: NDArray[np.intp], crossed: CrossFitted, estimator: RidgeOnLogOdds
) -> Probe:
    """The probe that reads each option at its own tokens: one slope calibrates the softmax over those of a read-out."""
    ids, prob = data.rows["readout_id"].to_numpy(), data.target.prob
    crossfitted = tuple(
        readout.calibrated(softmax_slope(inner[folds != k], prob[folds != k], ids[folds != k]), 0.0)
        for k, (readout, inner) in enumerate(zip(crossed.readouts, crossed.inner, strict=True))
    )
    whole = estimator.fit(x, expit(data.target.logit)).calibrated(softmax_slope(crossed.score, prob, ids), 0.0)
    return replace(probe, readout=whole, crossed=crossfitted)


def _over_options(probe: Probe, x: Floats, prob: Floats, folds: NDArray[np.intp], plan: StudyPlan) -> Probe:
    """The probe with a direction for each of k options; `prob` is [n, k]."""
    at_once = plan.over_options == "multinomial"
    fits = (multinomial if at_once else ridge_of_options)(x, prob, folds, plan.penalties)
    slope, intercepts = softmax_calibration(fits.score, prob)
    middle = np.sort(fits.penalties, axis=0)[len(fits.penalties) // 2].tolist()
    if at_once:
        every, whole = [*map(Multinomial, middle)], Multinomial(middle[0]).fit(x, prob)
    else:
        every = [*map(RidgeOnLogOdds, middle)]
        targets = expit(logits_of_options(prob)).T
        whole = [estimator.fit(x, target) for estimator, target in zip(every, targets, strict=True)]
    probes = []
    for j, (estimator, readout) in enumerate(zip(every, whole, strict=True)):
        meta = probe.meta.model_copy(update={"options": prob.shape[1], "params": asdict(estimator)})
        if at_once:
            meta = meta.model_copy(update={"estimator": plan.over_options})
        if j:
            meta = meta.model_copy(update={"name": f"{meta.name}.{j}", "options": 2})
        crossed = tuple(readouts[j] for readouts in fits.readouts)
        probes.append(Probe(readout.calibrated(slope, float(intercepts[j])), meta, crossed, probe.fold_of))
    return replace(probes[0], others=tuple(probes[1:]))


def _fold_of(data: ProbeData, folds: NDArray[np.intp]) -> dict[str, int]:
    """Name of a group, or of a cluster of a run in it, -> its fold: runs know clusters, not the groups of a user.

    Raises UserError for a group that bears the name of a cluster of another fold.
    """
    fold_of: dict[str, int] = {}
    for column in [name for name in ("group", "cluster") if name in data.rows.columns]:
        for name, fold in zip(data.rows[column], folds.tolist(), strict=True):
            if fold_of.setdefault(str(name), fold) != fold:
                raise UserError(f"group {str(name)!r}: is the name of a cluster of another group; call it otherwise")
    return fold_of


def run_job(
    data: ProbeData,
    registered: RegisteredPlace,
    header: Header,
    plan: StudyPlan,
    *,
    name: str,
    folder: Path,
    beside: Beside | None = None,
    spread: SpreadPoints = map,
    used: Callable[[Probe], CausalVerdict | None] = lambda probe: None,
    advance: Callable[[int], object] = lambda n: None,
) -> Judged:
    """Sweep all points, study the registered one, fill the card and train the probe.

    Args:
        registered: the place of the claims; one of the data's points.
        folder: keeps what each point gave, by what it depends on, so that the same job goes on where it was.
        spread: computes points side by side, as of `sweep`.
        used: from the trained probe to what a causal check found of it.

    Raises UserError if the registered place is not among the points.
    """
    if registered.at not in data.points:
        raise UserError(f"the registered place {registered.at} is not among those that are swept")
    folds = grouped_folds(data.groups, plan.folds, plan.seed)
    known = _fingerprint(data, header, folds, plan)

    files = {at: folder / "points" / f"{quote(str(at), safe='@')}-{known}.npz" for at in data.points}
    points = {at: AtPoint(**kept(file, dict)) for at, file in files.items() if file.exists()}
    advance(len(points))

    def done(at: ReadAt, point: AtPoint) -> None:
        kept(files[at], lambda: vars(point))
        advance(1)

    how = plan.resampling(plan.permutations)
    swept = sweep(data, folds, how=how, penalties=plan.penalties, known=points, done=done, spread=spread)
    studied = study(data, registered.at, folds, plan, beside)
    probe = train(data, registered, header, plan, name)
    card = report_card(swept, studied, registered.site, data.n_groups, plan, used(probe), data.target.name)
    probe = replace(probe, meta=probe.meta.model_copy(update={"called": card.name}))
    return Judged(swept, studied, card, probe)


def _fingerprint(data: ProbeData, header: Header, folds: NDArray[np.intp], plan: StudyPlan) -> str:
    """What the numbers of a point depend on, besides the point."""
    digest = hashlib.sha256()
    for part in (
        json.dumps(header.conditions.get("model", {}), sort_keys=True, default=str),
        "\0".join(map(str, data.rows["readout_id"])),
        json.dumps([plan.penalties, plan.permutations, plan.seed]),
    ):
        digest.update(part.encode())
    for array in (data.target.logit, folds.astype(np.int64)):
        digest.update(array.tobytes())
    if data.roles is not None:
        digest.update("\0".join(map(str, data.roles)).encode())
    return digest.hexdigest()[:12]
