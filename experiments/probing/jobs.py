"""Probe jobs as the command line gives them: train, sweep, evaluate and apply, with folders, progress and files."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import compress
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
from scipy.special import expit

from ...base.documents import read_csv, read_json
from ...base.errors import UserError, in_one_line, nearest
from ...base.files import sealed, unsealed
from ...base.parallel import spread_over
from ...base.progress import progress, stand
from ...base.version import __version__
from ...hooks.store import ActivationStore
from ...metrics import Resampling, belief_table, brier
from ...metrics.beliefs import read_exactly
from ...metrics.contract import Floats, Score
from ...metrics.inference.means import cluster_mean
from ...probes.dataset import belief_over_options, option_rows
from ...probes.evidence.calibration import calibrate
from ...probes.evidence.controls import UNTRAINED
from ...probes.evidence.crossfit import auc, log_loss
from ...probes.evidence.study import Beside
from ...probes.features import OF_OPTION, TARGETS, WHERE, StoreFeatures
from ...probes.groups import permuted_targets
from ...probes.job import Judged, run_job, train
from ...probes.probe import Probe
from ...probes.report_card import USED, CausalVerdict, Verdict
from ..report.cells import jsonable, score_cell
from ..report.document import Cell, Prose, Report, Top, grid
from ..report.html import write
from ..run.addons.passive_beliefs import PROBES_FOLDER
from ..run.config import stored_config
from ..run.folder import RunFolder
from ..run.runner import report
from .data import NO_NUMBERS, Loaded, as_read, chosen_readouts, load_runs, resolved, stored_name, with_moments
from .page import page
from .rereading import neutral_features, untrained_features
from .settings import ProbeJob, job_folder


def train_job(job: ProbeJob, out: Path, allow_code: tuple[Path, ...] = ()) -> Path:
    """Train the registered probe alone; returns its path, without an ending."""
    loaded = load_runs(job, allow_code)
    folder = _folder(job, loaded, out)
    probe = train(loaded.data, loaded.registered, loaded.header, job.study, job.name)
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
    data = loaded.data
    if untested := permuted_targets(data.target.logit, data.groups, data.roles, draws=0, seed=0).untested:
        stand(f"{job.name}: whether the target can be decoded will not be tested: {untested}")
    with folder.writing(), side_by_side as spread, progress(*about) as advance:
        judged = run_job(
            loaded.data,
            loaded.registered,
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
            {**at._asdict(), "r2": r2, "p_max": p, "penalties": penalties}
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
        "claims": judged.card.claims,
        "criteria": judged.card.criteria,
        "numbers": study.numbers,
        "control": study.control,
        "baselines": study.baselines,
        "learning_curve": study.curve,
        "transfer": study.transfers,
        "estimators": study.estimators,
        "added": study.added,
        "recall_at_1_percent": study.recall,
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
    called = f"{probe.meta.name}, {probe.meta.called}, read at {probe.meta.at}, which {WHERE[site]}."
    left = f"{int((~new).sum())} rows of groups that it was trained on are left out; intervals are of this one probe."
    table = grid("On other groups", ["", "estimate", "groups"], rows, short=True)
    return Report(
        f"A probe of {TARGETS.get(job.target, job.target)}",
        "on other runs",
        Top(said=called, verdict=Prose(text=left)),
        [table],
    )


def apply_job(job: ProbeJob, run: Path, allow_code: tuple[Path, ...] = ()) -> int:
    """As `apply_probe`, and write the run's report anew; returns how many read-outs have it."""
    n, _ = apply_probe(job, run, allow_code)
    folder = RunFolder.open(run)
    with folder.writing():
        report(folder, *stored_config(folder.config, allow_code))
    return n


def apply_probe(job: ProbeJob, run: Path, allow_code: tuple[Path, ...] = ()) -> tuple[int, int]:
    """Write what a probe reads in the read-outs of a run that `where` chooses; returns how many have it, of how many.

    Rows of groups that the probe was trained on are read by the fit that did not see them; a table of `targets` may say
    by its groups which these are. A read-out whose activations are no numbers is left out. Raises UserError for a probe
    that does not read these activations, an option or a condition of `where` that no read-out has, and if every
    read-out is left out.
    """
    probe = load_probe(job)
    folder, store, at = RunFolder.open(run), ActivationStore.open(run), probe.meta.at
    probe.require_fit(store.header, at)
    job, of_option = resolved(job.model_copy(update={"runs": (run,)}), allow_code), at.position == OF_OPTION
    beliefs = with_moments(folder, allow_code)
    stored = store.rows(position=stored_name(at.position)).drop_duplicates("readout_id").set_index("readout_id")
    exact = read_exactly(folder.beliefs().astype({"readout_id": str}))
    exact = exact[exact["readout_id"].isin(chosen_readouts(job, beliefs, set(stored.index)))]
    first = _of_option(exact, None if of_option else job.option)
    if first.empty and not exact.empty:
        raise UserError(f"option {job.option!r}: no read-out has it; {nearest(str(job.option), set(exact['option']))}")
    if first.empty:
        raise UserError(f"{run}: beliefs and activations share no read-out; give a run with its own store")
    names = first["readout_id"]
    rows = option_rows(beliefs[beliefs["readout_id"].isin(names)], store) if of_option else first
    numbers = rows["option_index"].tolist() if of_option else ()
    ids = rows["readout_id"].tolist()
    x = StoreFeatures([store], [0] * len(rows), ids, store.header.n_heads, numbers).read(at)
    if of_option:
        rows = rows.assign(prob=belief_over_options(probe.logit(x, rows["cluster"]), ids))
        each = dict(iter(rows.sort_values("option_index", kind="stable").groupby("readout_id")))
        prob = [each[name]["prob"].to_numpy() for name in names]
        options = [tuple(each[name]["option_text"]) for name in names]
    else:
        prob, options = probe.beliefs(x, _owners(first, job, probe)), _options(exact, first, probe)
    whole = [bool(np.isfinite(shares).all()) for shares in prob]
    if not any(whole):
        raise UserError(f"{run}: {names.iloc[0]!r} and all others hold activations that are no numbers")
    tokens = stored["token_index"].loc[names].tolist()
    read_outs = ({str(name): value for name, value in row.items()} for row in first.to_dict("records"))
    every = compress(zip(read_outs, options, prob, tokens, strict=True), whole)
    table = belief_table(row for about in every for row in _rows(*about, probe=probe))
    if lost := len(whole) - sum(whole):
        stand(f"{run.name}: {lost} of {len(whole)} read-outs of {probe.meta.name} are left out: {NO_NUMBERS}")
    name = f"{PROBES_FOLDER}/{probe.meta.name}"
    with folder.writing():
        (folder.path / PROBES_FOLDER).mkdir(exist_ok=True)
        folder.write_table(f"{name}.parquet", table)
        folder.write_json(f"{name}.json", probe.meta.model_dump(mode="json"))
        folder.record(f"{name}.parquet", f"{name}.json")
    return sum(whole), len(whole)


def _owners(first: pd.DataFrame, job: ProbeJob, probe: Probe) -> pd.Series:
    """[n] by what the probe knows each row, if trained on it: its cluster, else its group in the table of targets."""
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
    meta = probe.meta
    shared = as_read(read_out, f"probe {meta.name}", token) | {"kind": "probe", "probe": meta.name, "status": "ok"}
    shared |= {"method": f"{read_out['method']} {meta.name}", "layer": meta.layer}
    shared |= {"outcome": np.nan} if probe.others or meta.position == OF_OPTION else {}
    return [
        shared | {"option": option, "option_index": i, "prob": p}
        for i, (option, p) in enumerate(zip(options, prob.tolist(), strict=True))
    ]
