"""Probe jobs as the command line gives them: folders, progress, files."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, get_args

import numpy as np

from ... import __version__
from ...hooks.documents import read_json
from ...hooks.errors import UserError, in_one_line
from ...hooks.spread import spread_over
from ...probes.card.claims import USED, Card, CausalVerdict, Verdict
from ...probes.evidence.controls import UNTRAINED
from ...probes.evidence.study import Beside
from ...probes.job import Judged, RegisteredPlace, run_job, train
from ...probes.probe import Probe
from ..engine.progress import progress
from ..report.rows import jsonable
from ..report.text import aligned
from ..runs.folder import RunFolder
from .folder import job_folder
from .page import page
from .reread import neutral_features, untrained_features
from .rows import Loaded, load_runs
from .settings import ProbeJob


def train_job(job: ProbeJob, out: Path, allow_code: tuple[Path, ...] = ()) -> Path:
    """Train the registered probe alone; returns its path, without an ending."""
    loaded = load_runs(job, allow_code)
    folder = _folder(job, loaded, out)
    probe = train(loaded.data, _registered(loaded), loaded.header, job.study, job.name)
    probe.save(folder.path / job.name)
    return folder.path / job.name


def sweep_job(
    job: ProbeJob, out: Path, allow_code: tuple[Path, ...] = (), executor: str = "local", address: str | None = None
) -> tuple[Path, list[str]]:
    """Sweep, judge, save the probe, the numbers and the page; returns the folder, and the card as lines.

    `executor` and `address` are those of `spread_over`.
    """
    loaded = load_runs(job, allow_code)
    folder = _folder(job, loaded, out)
    side_by_side = spread_over(job.workers, executor, address, local=ThreadPoolExecutor)
    about = len(loaded.data.points), "place", f"probes of {job.target}"
    with folder.writing(), side_by_side as spread, progress(*about) as advance:
        judged = run_job(
            loaded.data,
            _registered(loaded),
            loaded.header,
            job.study,
            name=job.name,
            folder=folder.path,
            beside=_beside(job, loaded, folder.path, allow_code),
            spread=spread,
            used=lambda probe: _used(folder.path, probe),
            advance=advance,
        )
        judged.probe.save(folder.path / job.name)
        folder.write_json("sweep.json", jsonable(sweep_data(judged)))
        folder.write_json("card.json", jsonable(card_data(judged, job, loaded)))
        page(judged, job, loaded, _model(loaded)).write(folder)
    return folder.path, card_lines(judged.card)


def card_lines(card: Card) -> list[str]:
    """The card for a terminal."""
    rows = [(claim.name, claim.verdict, claim.evidence) for claim in card.claims]
    return [f"what it reads: {card.headline}", "", *aligned(rows)]


def sweep_data(judged: Judged) -> dict[str, Any]:
    """The sweep for `sweep.json`."""
    found = judged.sweep
    return {
        "band": found.band,
        "level": found.level,
        "selected": {"r2": found.selected_r2, "p": found.selected_p, "places": [str(at) for at in found.selected]},
        "groups_not_exchangeable": found.n_fixed,
        "places": [
            {"site": at.site, "layer": at.layer, "position": at.position, "head": at.head, "r2": r2, "p_max": p}
            | {"penalties": penalties}
            for at, r2, p, penalties in zip(found.points, found.r2, found.p_max, found.penalties, strict=True)
        ],
    }


def card_data(judged: Judged, job: ProbeJob, loaded: Loaded) -> dict[str, Any]:
    """The card and the study behind it for `card.json`."""
    study, probe = judged.study, judged.probe
    return {
        "doxascope": __version__,
        "settings": job.model_dump(mode="json"),
        "called": judged.card.name,
        "reading_site": judged.card.site,
        "target": {
            "name": loaded.data.target.name,
            "kind": loaded.data.target.kind,
            "rows": len(loaded.data.rows),
            "groups": judged.card.n_groups,
            "clipped": loaded.data.target.n_clipped,
        },
        "probe": probe.meta.model_dump(mode="json"),
        "claims": [claim._asdict() for claim in judged.card.claims],
        "criteria": judged.card.criteria,
        "numbers": {name: one._asdict() for name, one in study.numbers.items()},
        "control": study.control._asdict(),
        "baselines": study.baselines,
        "learning_curve": [one._asdict() for one in study.curve],
        "transfer": [
            {"by": one.by, "levels": one.levels, "measure": one.measure, "off_diagonal": one.off_diagonal._asdict()}
            | {"cells": [[cell._asdict() for cell in row] for row in one.cells]}
            for one in study.transfers
        ],
        "estimators": [
            {"estimator": one.estimator, "skill": one.skill._asdict(), "auc": one.auc._asdict()}
            for one in study.estimators
        ],
        "added": {name: dataclasses.asdict(one) for name, one in study.added.items()},
        "recall_at_1_percent": study.recall._asdict() if study.recall else None,
    }


def _beside(job: ProbeJob, loaded: Loaded, folder: Path, allow_code: tuple[Path, ...]) -> Beside:
    """What the registered place is compared with."""
    others = dict(loaded.others)
    if job.untrained:
        others[UNTRAINED] = untrained_features(job, loaded, folder, allow_code)
    neutral = neutral_features(job, loaded, folder, allow_code) if job.neutral else None
    pooled = [loaded.data.read(loaded.at._replace(position=position)) for position in job.pool]
    return Beside(others, neutral, np.stack(pooled, axis=1) if pooled else None)


def _used(folder: Path, probe: Probe) -> CausalVerdict | None:
    """What a causal check of this very probe has left in its folder."""
    if not (folder / USED).is_file():
        return None
    with in_one_line(folder / USED, "delete it, or give `doxascope probe causal` again"):
        record = read_json(folder / USED)
        if record["probe"] != probe.digest:
            return None
        found = CausalVerdict(**{name: record[name] for name in CausalVerdict._fields})
        if found.verdict not in get_args(Verdict) or not all(isinstance(one, str) for one in found):
            raise ValueError("it holds no verdict")
        return found


def _registered(loaded: Loaded) -> RegisteredPlace:
    return RegisteredPlace(loaded.at, loaded.sites[loaded.at.position])


def _model(loaded: Loaded) -> str:
    return str(loaded.header.conditions.get("model", {}).get("name", "an unnamed model"))


def _folder(job: ProbeJob, loaded: Loaded, out: Path) -> RunFolder:
    """The job's own folder, named by its settings and its data. Raises UserError if it cannot be written."""
    about = [
        job.model_dump(mode="json", exclude={"runs", "probe", "workers", "lens"}),
        _model(loaded),
        sorted(loaded.data.rows["readout_id"]),
    ]
    return job_folder(job.name, job, [*about, np.round(loaded.data.target.prob, 9).tolist()], out)


def load_probe(job: ProbeJob) -> Probe:
    """The trained probe that a job names. Raises UserError if it names none."""
    if job.probe is None:
        raise UserError("probe: none is named; give `-o probe=probes/probe-1a2b3c4d/probe`")
    return Probe.load(job.probe)
