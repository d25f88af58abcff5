"""A trained probe on other runs: judged there, or its values written beside the run's own beliefs."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from ...hooks.documents import read_csv
from ...hooks.errors import UserError, nearest
from ...hooks.store import ActivationStore
from ...metrics import belief_table, brier
from ...metrics.inference.means import cluster_mean
from ...metrics.score import Score
from ...probes.evidence.calibration import calibrate
from ...probes.evidence.skill import auc, log_loss
from ...probes.probe import Probe
from ..addons.probed import FOLDER
from ..addons.query_effect import TOKEN
from ..engine.config import stored_config
from ..engine.runner import report
from ..report.text import aligned
from ..runs.folder import RunFolder
from .job import load_probe
from .rows import chosen_readouts, load_runs
from .settings import ProbeJob


def evaluate_job(job: ProbeJob, allow_code: tuple[Path, ...] = ()) -> list[str]:
    """How good a probe is on groups that it was not trained on, as lines.

    Raises UserError for a probe that does not read these activations, or runs that hold no new group.
    """
    probe = load_probe(job)
    loaded = load_runs(_at(job, probe), allow_code)
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
    rows: list[tuple[str, ...]] = [("", "estimate", "interval", "groups")]
    rows.append(_line("gain in log-loss over the base rate, nat", cluster_mean(gain, groups, seed=job.study.seed)))
    if data.target.kind == "binary":
        rows.append(_line("Brier", brier(belief, y, groups, seed=job.study.seed)))
    rows += [("AUC", f"{auc(y, logit):.3f}", "", ""), ("calibration slope", f"{slope.slope:.3f}", "", "")]
    rows.append(("calibration intercept", f"{slope.intercept:.3f}", "", ""))
    site = loaded.sites[probe.meta.position]
    called = f"{probe.meta.name}, {probe.meta.called}, read at {probe.meta.at}, which lies {site}"
    left = f"{int((~new).sum())} rows of groups that it was trained on are left out; intervals are of this one probe"
    return [called, "", *aligned(rows), "", left]


def apply_job(job: ProbeJob, run: Path, allow_code: tuple[Path, ...] = ()) -> int:
    """Write what a probe reads in the read-outs of a run that `where` chooses, and the run's report anew; returns how
    many have it.

    Rows of groups that the probe was trained on are read by the fit that did not see them; a table of `targets` may say
    by its groups which these are. Raises UserError for a probe that does not read these activations, and for an option
    or a condition of `where` that no read-out has.
    """
    probe = load_probe(job)
    folder = RunFolder.open(run)
    store = ActivationStore.open(run)
    probe.require_fit(store.header, probe.meta.at)
    beliefs = folder.beliefs()
    every, values = store.read(layer=probe.meta.layer, site=probe.meta.site, position=probe.meta.position)
    exact = beliefs[(beliefs["kind"] == "exact") & (beliefs["of"].astype(str) == "")]
    exact = exact[exact["readout_id"].astype(str).isin(chosen_readouts(job, beliefs, set(every["readout_id"])))]
    first = _of_option(exact, job.option)
    if first.empty and not exact.empty:
        raise UserError(f"option {job.option!r}: no read-out has it; {nearest(str(job.option), set(exact['option']))}")
    if first.empty:
        raise UserError(f"{run}: beliefs and activations share no read-out; give a run with its own store")
    place = pd.Index(every["readout_id"]).get_indexer(pd.Index(first["readout_id"].astype(str)))
    x = _head(values[place].astype(np.float64), store, probe)
    logit = probe.logit(x, _owners(first, job, probe))
    if (bad := ~np.isfinite(logit)).any():
        name = first["readout_id"].iloc[int(np.argmax(bad))]
        raise UserError(f"{run}: {name!r} holds an activation that is no number; read the run anew")
    table = belief_table(
        row
        for (_, own), value, token in zip(first.iterrows(), logit, every["token_index"].to_numpy()[place], strict=True)
        for row in _rows({str(name): one for name, one in own.items()}, float(value), int(token), probe)
    )
    with folder.writing():
        (run / FOLDER).mkdir(exist_ok=True)
        folder.write_table(f"{FOLDER}/{probe.meta.name}.parquet", table)
        folder.write_json(f"{FOLDER}/{probe.meta.name}.json", probe.meta.model_dump(mode="json"))
        folder.record(*(f"{FOLDER}/{probe.meta.name}{suffix}" for suffix in (".parquet", ".json")))
        report(folder, *stored_config(folder.config, allow_code))
    return len(first)


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
    own = {"site": probe.meta.site, "position": probe.meta.position, "sites": (), "positions": ()}
    return job.model_copy(update=own | {"target": job.target if job.targets else probe.meta.target})


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


def _rows(own: dict[str, Any], logit: float, token: int, probe: Probe) -> list[dict[str, Any]]:
    """The option and its complement, at a token of the prompt."""
    p = float(expit(logit))
    told = {**json.loads(own["variant"] or "{}"), "probe": probe.meta.name, TOKEN: token}
    names = ("readout_id", "experiment", "item", "cluster", "scenario", "step", "outcome")
    shared = {name: own[name] for name in names} | {
        "of": own["readout_id"],
        "readout_id": f"{own['readout_id']}/probe {probe.meta.name}",
        "kind": "probe",
        "method": f"{own['method']} {probe.meta.name}",
        "layer": probe.meta.layer,
        "variant": json.dumps(told, sort_keys=True),
        "status": "ok",
    }
    return [
        shared | {"option": own["option"], "option_index": 0, "prob": p},
        shared | {"option": f"not {own['option']}", "option_index": 1, "prob": 1 - p},
    ]


def _line(name: str, score: Score) -> tuple[str, ...]:
    interval = f"[{score.ci_lo:.3f}, {score.ci_hi:.3f}]" if np.isfinite(score.ci_lo) else ""
    return (name, f"{score.estimate:.3f}", interval, str(score.n_clusters))
