"""A probe job: from a data set and a plan to a trained probe, its sweep and its card; goes on where it was killed."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from ..hooks.errors import UserError, in_one_line
from ..hooks.files import atomic_write
from ..hooks.store import Header
from .card.claims import Card, CausalVerdict, report_card
from .card.site_rule import DECODED, READ_OUT, ReadingSite
from .data.dataset import ProbeData
from .data.features import ReadAt
from .estimators.ridge import RidgeOnLogOdds
from .evidence.crossfit import cross_fit, recalibration
from .evidence.study import Beside, Study, study
from .folds import grouped_folds
from .plan import StudyPlan
from .probe import Probe, ProbeMeta
from .selection.sweep import AtPoint, Sweep, sweep


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

    Its penalty is the median of those chosen without each fold, its recalibration that of the cross-fitted scores.
    """
    folds = grouped_folds(data.groups, plan.folds, plan.seed)
    x = data.read(registered.at)
    crossed = cross_fit(x, data.target, folds, plan.penalties)
    estimator = RidgeOnLogOdds(float(np.sort(crossed.penalties)[len(crossed.penalties) // 2]))
    slope, intercept = recalibration(crossed.score, data.target.prob)
    meta = ProbeMeta(
        name=name,
        estimator="ridge",
        params=estimator.get_params(),
        target=data.target.name,
        reading_site=registered.site,
        called=DECODED if registered.site == "before the question" else READ_OUT,
        dtype=header.dtype,
        model=dict(header.conditions.get("model", {})),
        n_rows=len(x),
        n_groups=data.n_groups,
        **registered.at._asdict(),
    )
    fold_of = {str(group): int(fold) for group, fold in zip(data.groups.tolist(), folds, strict=True)}
    return Probe(estimator.fit(x, data.target.prob).calibrated(slope, intercept), meta, crossed.readouts, fold_of)


def run_job(
    data: ProbeData,
    registered: RegisteredPlace,
    header: Header,
    plan: StudyPlan,
    *,
    name: str,
    folder: Path,
    beside: Beside | None = None,
    workers: int = 1,
    used: Callable[[Probe], CausalVerdict | None] = lambda probe: None,
    advance: Callable[[int], object] = lambda n: None,
) -> Judged:
    """Sweep all points, study the registered one, fill the card and train the probe.

    Args:
        data: what to decode, and where.
        registered: the place of the claims; one of the data's points.
        header: of the activations.
        plan: under which settings.
        name: of the probe.
        folder: keeps what each point gave, by what it depends on, so that the same job goes on where it was.
        beside: features besides those that are swept.
        workers: threads that sweep, each at a place of its own.
        used: from the trained probe to what a causal check found of it.
        advance: is told of each point that is done.

    Raises UserError if the registered place is not among the points.
    """
    if registered.at not in data.points:
        raise UserError(f"the registered place {registered.at} is not among those that are swept")
    folds = grouped_folds(data.groups, plan.folds, plan.seed)
    known = _fingerprint(data, header, folds, plan)

    def keep(at: ReadAt, compute: Callable[[], AtPoint]) -> AtPoint:
        found = _kept(folder / "points" / f"{quote(str(at), safe='@')}-{known}.npz", compute)
        advance(1)
        return found

    swept = sweep(
        data,
        folds,
        draws=plan.permutations,
        seed=plan.seed,
        penalties=plan.penalties,
        level=plan.level,
        workers=workers,
        keep=keep,
    )
    studied = study(data, registered.at, folds, plan, beside)
    probe = train(data, registered, header, plan, name)
    card = report_card(swept, studied, registered.site, data.n_groups, plan, used(probe))
    probe = Probe(probe.readout, probe.meta.model_copy(update={"called": card.name}), probe.crossed, probe.fold_of)
    return Judged(swept, studied, card, probe)


def _kept(path: Path, compute: Callable[[], AtPoint]) -> AtPoint:
    """What a point gave, from the disk if it is there."""
    if path.exists():
        with in_one_line(f"{path}: cannot be read", "delete it"), np.load(path, allow_pickle=False) as kept:
            return AtPoint(kept["inner"], kept["outer"], kept["penalties"])
    found = compute()
    with in_one_line(f"{path}: cannot be written", "choose another --out"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as temporary, temporary.open("wb") as file:
            np.savez(file, inner=found.inner, outer=found.outer, penalties=found.penalties)
    return found


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
