"""Probe jobs as the command line gives them: train, sweep, evaluate and apply, with folders, progress and files."""

import dataclasses
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
from scipy.special import expit

from ...base.documents import read_csv, read_json
from ...base.errors import UserError, in_one_line, nearest
from ...base.files import sealed, unsealed
from ...base.parallel import spread_over
from ...base.progress import progress
from ...base.version import __version__
from ...hooks.store import ActivationStore
from ...metrics import COLUMNS, Resampling, belief_table, brier
from ...metrics.contract import Floats, Score
from ...metrics.inference.means import cluster_mean
from ...probes.dataset import belief_over_options, option_rows
from ...probes.evidence.calibration import calibrate
from ...probes.evidence.controls import UNTRAINED
from ...probes.evidence.crossfit import auc, log_loss
from ...probes.evidence.study import Beside
from ...probes.features import OF_OPTION, StoreFeatures
from ...probes.job import Judged, RegisteredPlace, run_job, train
from ...probes.probe import Probe
from ...probes.report_card import USED, CausalVerdict, Verdict
from ..report.cells import jsonable, score_cell
from ..report.document import Cell, Prose, Report, Top, grid
from ..report.html import write
from ..run.addons.passive_beliefs import PROBES_FOLDER, TOKEN
from ..run.config import stored_config
from ..run.folder import RunFolder
from ..run.runner import report
from .data import Loaded, chosen_readouts, load_runs, resolved, with_moments
from .page import page
from .rereading import neutral_features, untrained_features
from .settings import ProbeJob, job_folder


def train_job(job: ProbeJob, out: Path, allow_code: tuple[Path, ...] = ()) -> Path:
    """Train the registered probe alone; returns its path, without an ending."""
    loaded = load_runs(job, allow_code)
    folder = _folder(job, loaded, out)
    probe = train(loaded.data, _registered(loaded), loaded.header, job.study, job.name)
    probe.save(folder.path / job.name)
    return folder.path / job.name


def sweep_job(
    job: ProbeJob, out: Path, allow_code: tuple[Path, ...] = (), executor: str = "local", address: str | None = None
) -> Path:
    """Sweep, judge, save the probe, the numbers and the report; returns the folder.

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
        folder.write_json("card.json", sealed(jsonable(card_data(judged, job, loaded))))
        write(folder, page(judged, job, loaded, _model(loaded)))
    return folder.path


def sweep_data(judged: Judged) -> dict[str, Any]:
    """The sweep for `sweep.json`."""
    swept = judged.sweep
    return {
        "band": swept.band,
        "level": swept.level,
        "selected": {"r2": swept.selected_r2, "p": swept.selected_p, "places": [str(at) for at in swept.selected]},
        "groups_not_exchangeable": swept.n_fixed,
        "places": [
            {"site": at.site, "layer": at.layer, "position": at.position, "head": at.head, "r2": r2, "p_max": p}
            | {"penalties": penalties}
            for at, r2, p, penalties in zip(swept.points, swept.r2, swept.p_max, swept.penalties, strict=True)
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
        "numbers": {name: each._asdict() for name, each in study.numbers.items()},
        "control": study.control._asdict(),
        "baselines": study.baselines,
        "learning_curve": [each._asdict() for each in study.curve],
        "transfer": [
            {"by": each.by, "levels": each.levels, "measure": each.measure, "off_diagonal": each.off_diagonal._asdict()}
            | {"cells": [[cell._asdict() for cell in row] for row in each.cells]}
            for each in study.transfers
        ],
        "estimators": [
            {"estimator": each.estimator, "skill": each.skill._asdict(), "auc": each.auc._asdict()}
            for each in study.estimators
        ],
        "added": {name: dataclasses.asdict(each) for name, each in study.added.items()},
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
        record = unsealed(read_json(folder / USED))
        if record["probe"] != probe.digest:
            return None
        verdict = CausalVerdict(**{name: record[name] for name in CausalVerdict._fields})
        if verdict.verdict not in get_args(Verdict) or not all(isinstance(text, str) for text in verdict):
            raise ValueError("it holds no verdict")
        return verdict


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


# A trained probe on other runs: judged there, or its values written beside the run's own beliefs.


def evaluate_job(job: ProbeJob, allow_code: tuple[Path, ...] = ()) -> Report:
    """How good a probe is on groups that it was not trained on.

    Raises UserError for a probe that does not read these activations, or runs that hold no new group.
    """
    probe = load_probe(job)
    loaded = load_runs(_at(resolved(job, allow_code), probe), allow_code)
    probe.require_fit(loaded.header, probe.meta.at)
    data = loaded.data
    new = ~data.rows[["group", "cluster"]].astype(str).isin(list(probe.fold_of)).any(axis=1).to_numpy()
    if not new.any():
        raise UserError(f"probe {probe.meta.name}: was trained on every group of these runs; its job's card judges it")
    logit = probe.logit(data.read(probe.meta.at)[new])
    belief, y, groups = expit(logit), data.target.prob[new], data.groups[new]
    base = float(data.target.prob.mean())
    gain = log_loss(y, np.full(len(y), base)) - log_loss(y, belief)
    slope = calibrate(logit, y)
    how = Resampling(seed=job.study.seed)
    scores: dict[str, Score] = {"gain in log-loss over the base rate, nat": cluster_mean(gain, groups, how=how)}
    if data.target.kind == "binary":
        scores["Brier"] = brier(belief, y, groups, how=how)
    rows = [[name, score_cell(score), str(score.n_clusters)] for name, score in scores.items()]
    plain = {"AUC": auc(y, logit), "calibration slope": slope.slope, "calibration intercept": slope.intercept}
    rows += [[name, Cell(f"{value:.3f}"), ""] for name, value in plain.items()]
    site = loaded.sites[probe.meta.position]
    called = f"{probe.meta.name}, {probe.meta.called}, read at {probe.meta.at}, which lies {site}."
    left = f"{int((~new).sum())} rows of groups that it was trained on are left out; intervals are of this one probe."
    table = grid("On other groups", ["", "estimate", "groups"], rows, short=True)
    return Report(f"A probe of {job.target}", "on other runs", Top(said=called, verdict=Prose(text=left)), [table])


def apply_job(job: ProbeJob, run: Path, allow_code: tuple[Path, ...] = (), *, reported: bool = True) -> int:
    """Write what a probe reads in the read-outs of a run that `where` chooses, and, if `reported`, its report anew;
    returns how many have it.

    Rows of groups that the probe was trained on are read by the fit that did not see them; a table of `targets` may say
    by its groups which these are. Raises UserError for a probe that does not read these activations, and for an option
    or a condition of `where` that no read-out has.
    """
    probe = load_probe(job)
    folder = RunFolder.open(run)
    store = ActivationStore.open(run)
    probe.require_fit(store.header, probe.meta.at)
    job = resolved(job.model_copy(update={"runs": (run,)}), allow_code)
    beliefs, chosen = folder.beliefs(), with_moments(folder, allow_code)
    exact = beliefs[(beliefs["kind"] == "exact") & (beliefs["of"].astype(str) == "")]
    if probe.meta.position == OF_OPTION:
        table, n = _of_each_option(job, probe, chosen, exact, store)
        _keep(folder, probe, table, allow_code, reported=reported)
        return n
    every, values = store.read(layer=probe.meta.layer, site=probe.meta.site, position=probe.meta.position)
    exact = exact[exact["readout_id"].astype(str).isin(chosen_readouts(job, chosen, set(every["readout_id"])))]
    first = _of_option(exact, job.option)
    if first.empty and not exact.empty:
        raise UserError(f"option {job.option!r}: no read-out has it; {nearest(str(job.option), set(exact['option']))}")
    if first.empty:
        raise UserError(f"{run}: beliefs and activations share no read-out; give a run with its own store")
    place = pd.Index(every["readout_id"]).get_indexer(pd.Index(first["readout_id"].astype(str)))
    x = _head(values[place].astype(np.float64), store, probe)
    prob = probe.beliefs(x, _owners(first, job, probe))
    if (bad := ~np.isfinite(prob).all(axis=1)).any():
        name = first["readout_id"].iloc[int(np.argmax(bad))]
        raise UserError(f"{run}: {name!r} holds an activation that is no number; read the run anew")
    names = _options(exact, first, probe)
    tokens = every["token_index"].to_numpy()[place]
    table = belief_table(
        row
        for (_, row_of), options_of, value, token in zip(first.iterrows(), names, prob, tokens, strict=True)
        for row in _rows(
            {str(name): value_of for name, value_of in row_of.items()}, options_of, value, int(token), probe
        )
    )
    _keep(folder, probe, table, allow_code, reported=reported)
    return len(first)


def _keep(
    folder: RunFolder, probe: Probe, table: pd.DataFrame, allow_code: tuple[Path, ...], *, reported: bool
) -> None:
    """Write what a probe read in a run."""
    with folder.writing():
        (folder.path / PROBES_FOLDER).mkdir(exist_ok=True)
        folder.write_table(f"{PROBES_FOLDER}/{probe.meta.name}.parquet", table)
        folder.write_json(f"{PROBES_FOLDER}/{probe.meta.name}.json", probe.meta.model_dump(mode="json"))
        folder.record(*(f"{PROBES_FOLDER}/{probe.meta.name}{suffix}" for suffix in (".parquet", ".json")))
        if reported:
            report(folder, *stored_config(folder.config, allow_code))


def _of_each_option(
    job: ProbeJob, probe: Probe, beliefs: pd.DataFrame, exact: pd.DataFrame, store: ActivationStore
) -> tuple[pd.DataFrame, int]:
    """What a probe of options' own tokens reads, and of how many read-outs."""
    rows = option_rows(beliefs, store)
    rows = rows[rows["readout_id"].isin(chosen_readouts(job, beliefs, set(rows["readout_id"])))]
    rows = rows.sort_values(["readout_id", "option_index"], kind="stable").reset_index(drop=True)
    ids, numbers = rows["readout_id"].tolist(), rows["option_index"].tolist()
    x = StoreFeatures([store], [0] * len(rows), ids, store.header.n_heads, numbers).read(probe.meta.at)
    prob = pd.Series(belief_over_options(probe.logit(x, rows["cluster"]), rows["readout_id"]))
    if not np.isfinite(prob).all():
        name = ids[int(np.argmax(~np.isfinite(prob)))]
        raise UserError(f"{store.path}: {name!r} holds an activation that is no number; read the run anew")
    exact = exact.assign(readout_id=exact["readout_id"].astype(str))
    first = exact[exact["option_index"] == 0].set_index("readout_id", drop=False)
    place = store.rows(position=f"{OF_OPTION}-0").drop_duplicates("readout_id").set_index("readout_id")["token_index"]
    rows_of = [
        row
        for name, options_of in rows.assign(prob=prob).groupby("readout_id", sort=False)
        for row in _rows(
            {str(key): value for key, value in first.loc[name].items()},
            options_of["option_text"].tolist(),
            options_of["prob"].to_numpy(dtype=np.float64),
            int(place[name]),
            probe,
        )
    ]
    return belief_table(rows_of), rows["readout_id"].nunique()


def _owners(first: pd.DataFrame, job: ProbeJob, probe: Probe) -> pd.Series:
    """[n] by what the probe knows each row, if it was trained on it: its cluster, else the group in which a table of
    targets puts a row of that cluster.
    """
    clusters = first["cluster"].astype(str)
    table = pd.DataFrame() if job.targets is None else read_csv(job.targets)
    if not {"readout_id", "group"} <= set(table.columns):
        return clusters
    group_of = dict(zip(table["readout_id"].astype(str), table["group"].astype(str), strict=True))
    groups = first["readout_id"].astype(str).map(group_of).groupby(clusters).transform("first")
    return clusters.where(clusters.isin(list(probe.fold_of)), groups.fillna(clusters))


def _at(job: ProbeJob, probe: Probe) -> ProbeJob:
    """The job at the probe's own place alone."""
    place = {"site": probe.meta.site, "position": probe.meta.position, "sites": (), "positions": ()}
    return job.model_copy(update=place | {"target": job.target if job.targets else probe.meta.target})


def _of_option(exact: pd.DataFrame, option: str | None) -> pd.DataFrame:
    if option is None:
        return exact[exact["option_index"] == 0]
    return exact[exact["option"].astype(str) == option]


def _head(values: Any, store: ActivationStore, probe: Probe) -> Any:
    """The part of the values that is the probe's head."""
    if probe.meta.head is None:
        return values
    if not store.header.n_heads:
        raise UserError(f"{store.path}: keeps no heads")
    width = values.shape[1] // store.header.n_heads
    return values[:, probe.meta.head * width : (probe.meta.head + 1) * width]


def _options(exact: pd.DataFrame, first: pd.DataFrame, probe: Probe) -> list[tuple[str, ...]]:
    """[n] the names of the options that the probe is about: of one of them, it and its complement.

    Raises UserError for a probe over more than two options, and read-outs that have another number of them.
    """
    if not probe.others:
        return [(str(option), f"not {option}") for option in first["option"]]
    ordered = exact.sort_values("option_index", kind="stable")
    names = ordered["option"].astype(str).groupby(ordered["readout_id"].astype(str)).agg(tuple)
    options = [names[str(readout_id)] for readout_id in first["readout_id"]]
    if other := next((names_of for names_of in options if len(names_of) != probe.meta.options), None):
        raise UserError(
            f"probe {probe.meta.name}: is about {probe.meta.options} options, and some read-outs have {len(other)}; "
            f"choose them: -o where.n_options={probe.meta.options}"
        )
    return options


def _rows(
    read_out: dict[str, Any], options: Sequence[str], prob: Floats, token: int, probe: Probe
) -> list[dict[str, Any]]:
    """The options, at a token of the prompt."""
    names = ("experiment", "item", "cluster", "scenario", "step", "outcome")
    shared = {name: read_out[name] for name in (*names, *(name for name in read_out if name not in COLUMNS))} | {
        "of": read_out["readout_id"],
        "readout_id": f"{read_out['readout_id']}/probe {probe.meta.name}",
        "kind": "probe",
        "method": f"{read_out['method']} {probe.meta.name}",
        "layer": probe.meta.layer,
        "probe": probe.meta.name,
        TOKEN: token,
        "status": "ok",
    }
    shared |= {"outcome": np.nan} if probe.others or probe.meta.position == OF_OPTION else {}
    return [
        shared | {"option": option, "option_index": i, "prob": p}
        for i, (option, p) in enumerate(zip(options, prob.tolist(), strict=True))
    ]
