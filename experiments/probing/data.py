"""Probe data from runs: their beliefs, their activations, and what was said where."""

import contextlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ...base.documents import read_csv, repeated
from ...base.errors import UserError, nearest
from ...base.progress import stand
from ...hooks.identity import condition_differences
from ...hooks.prompts.places import Position
from ...hooks.store import ActivationStore, Header
from ...hooks.store.header import HEADS
from ...metrics import COLUMNS
from ...metrics.contract import Floats
from ...probes.dataset import (
    READINGS,
    TOKEN,
    ProbeData,
    belief_rows,
    join_targets,
    make_target,
    option_rows,
    option_targets,
    target_values,
)
from ...probes.evidence.controls import LAYER_0
from ...probes.features import OF_OPTION, ReadAt, ReadingSite, StoreFeatures, reading_site
from ...probes.job import RegisteredPlace
from ...probes.sweep import at_depth
from ..run.config import stored_config
from ..run.experiment import MOMENTS, Experiment, Item, Question, RunConfig
from ..run.folder import RunFolder
from .settings import ProbeJob

NO_NAME = re.compile(r"[^\w.-]+")
"""What no name of a file has."""
NO_NUMBERS = "their activations are no numbers"
"""Why a read-out has no part in a probe."""
HARMLESS = ("threads", "path")
"""What may differ between runs of one model."""


ONCE = {"before-question": ("before-reveal", "step", "situation", "statement")}
"""Name of a position -> what runs of earlier versions, and `truth`, call it."""
MOMENT = "moment"
"""Condition of a read-out by which `prior` and `posterior` choose it (`Experiment.moments`)."""


class Loaded(NamedTuple):
    """Runs, ready for a job."""

    data: ProbeData
    header: Header
    at: ReadAt
    """The registered place."""
    sites: dict[str, ReadingSite]
    """Of each position that is read."""
    asked: Position | None
    """Where the registered position is, as the run's first question has it; None: the run does not say."""
    others: dict[str, Floats]
    """Name -> [n, d] activations that a probe must do better than: before the first block, and of rivals."""

    @property
    def registered(self) -> RegisteredPlace:
        """The registered place, and whether it lies before the question."""
        return RegisteredPlace(self.at, self.sites[self.at.position])


def load_runs(job: ProbeJob, allow_code: Sequence[Path] = ()) -> Loaded:
    """The data of a job.

    Raises UserError for no run, one given twice, runs of different models, beliefs and activations that share no
    read-out, a place that was not kept, or a target that the rows do not have.
    """
    if not job.runs:
        raise UserError("runs: none is given; name a run that kept its activations (`-o capture.layers=all`)")
    if (twice := repeated(str(run.resolve()) for run in job.runs)) is not None:
        raise UserError(f"runs: {twice} is given twice; its rows would count twice")
    job = resolved(job, allow_code)
    stores = [ActivationStore.open(run) for run in job.runs]
    header = _common(job.runs, stores)
    positions = tuple(dict.fromkeys((job.position, *job.positions, *job.pool)))
    tables, several = [], []
    sites: dict[str, ReadingSite] = dict.fromkeys(positions, "before the question")
    first: Position | None = None
    for number, (run, store) in enumerate(zip(job.runs, stores, strict=True)):
        folder = RunFolder.open(run)
        beliefs = with_moments(folder, allow_code)
        if job.position == OF_OPTION:
            rows = _described(option_rows(beliefs, store))
        else:
            there = [set(store.rows(position=name)["readout_id"]) for name in positions]
            if (kept := _kept(folder)) and (absent := [name for name in positions if name not in kept]):
                raise UserError(
                    f"position {absent[0]!r}: is kept of prompts that ask for numbers alone, and a job reads those of "
                    f"exact beliefs; {nearest(absent[0], kept)}"
                )
            rows = _described(belief_rows(beliefs, sorted(set.intersection(*there)), job.option))
        several.append(beliefs[beliefs["readout_id"].astype(str).isin(set(rows["readout_id"]))])
        asked = _positions(run, allow_code)
        first = first or next((place for place, _ in asked.get(stored_name(job.position), ())), None)
        prompts = _prompts(folder)
        for name in positions:
            position_site = _site(asked.get(stored_name(name), ()), store.rows(position=stored_name(name)), prompts)
            sites[name] = position_site if sites[name] == "before the question" else sites[name]
        tables.append(_texts(rows, folder, _message(asked.get(stored_name(job.position), ()))).assign(store=number))
    rows = _chosen(pd.concat(tables, ignore_index=True), job)
    values = target_values(rows, job.target)
    known = np.isfinite(values)
    if not known.any():
        raise UserError(f"target {job.target!r}: no read-out has it")
    swept = tuple(dict.fromkeys((job.site, *job.sites)))
    points = tuple(
        point
        for site, position, layer in product(swept, positions, header.layers)
        for point in _heads(ReadAt(site, layer, position), header.n_heads if job.heads else None)
    )
    registered = ReadAt(job.site, at_depth(points, job.study.depth, n_layers_of(header)), job.position)
    rows, values = _whole(job, stores, rows[known].reset_index(drop=True), values[known], registered)
    features = _features(job, stores, rows)
    options = None
    one_direction = job.option is not None or job.targets is not None or job.position == OF_OPTION
    if job.target == "exact" and not one_direction and len(several) == 1:
        options = option_targets(several[0], rows["readout_id"].tolist())
    data = ProbeData(
        rows,
        make_target(job.target, values, options_of=rows["readout_id"] if job.position == OF_OPTION else None),
        features,
        points,
        options,
    )
    others = {name: _of_rival(run, rows["readout_id"].tolist(), registered) for name, run in job.rivals.items()}
    embedded = ReadAt("resid_pre", 0, job.position)
    if "resid_pre" in header.sites and 0 in header.layers and embedded != registered:
        others[LAYER_0] = features.read(embedded)
    return Loaded(data, header, registered, {name: sites[name] for name in positions}, first, others)


def _whole(
    job: ProbeJob, stores: Sequence[ActivationStore], rows: pd.DataFrame, values: np.ndarray, at: ReadAt
) -> tuple[pd.DataFrame, np.ndarray]:
    """The rows of read-outs whose activations are numbers at a place, with their targets; how many are not is said.

    Raises UserError if none is.
    """
    unread = ~np.isfinite(_features(job, stores, rows).read(at)).all(axis=1)
    names = rows["readout_id"].to_numpy(dtype=object)
    whole = ~np.isin(names, names[unread])
    if not whole.any():
        raise UserError(f"{job.runs[0]}: no read-out has activations at {at} that are numbers")
    if n_lost := len({*names[unread]}):
        stand(f"{job.runs[0].name}: {n_lost} of {len({*names})} read-outs are left out at {at}: {NO_NUMBERS}")
    return rows[whole].reset_index(drop=True), values[whole]


def _features(job: ProbeJob, stores: Sequence[ActivationStore], rows: pd.DataFrame) -> StoreFeatures:
    options_of = rows["option_index"].tolist() if job.position == OF_OPTION else ()
    return StoreFeatures(
        stores, rows["store"].tolist(), rows["readout_id"].tolist(), stores[0].header.n_heads, options_of
    )


def resolved(job: ProbeJob, allow_code: Sequence[Path] = ()) -> ProbeJob:
    """The job with positions by the names that its runs' stores have. `prior` and `posterior` are where the experiment
    says that a belief is held before it is asked for (`Experiment.probed`), of the read-outs of that moment.

    Raises UserError for runs that call a position differently.
    """
    if wrong := [name for name in (*job.positions, *job.pool) if name in MOMENTS]:
        raise UserError(f"positions: {wrong[0]!r} says which read-outs are taken; give it as `position` alone")
    names: dict[str, str] = {}
    wanted = [name for name in (job.position, *job.positions, *job.pool) if name in MOMENTS or name in ONCE]
    for run in job.runs if wanted else ():
        folder = RunFolder.open(run)
        experiment, _ = stored_config(folder.config, allow_code)
        kept = _kept(folder)
        for name in wanted:
            here = experiment.probed if name in MOMENTS else name
            here = next((each for each in (here, *ONCE.get(here, ())) if each in kept), here)
            if names.setdefault(name, here) != here:
                raise UserError(f"position {name!r}: is {names[name]!r} in one run, {here!r} in {run}; give a job each")
    update: dict[str, Any] = {
        "position": names.get(job.position, job.position),
        "positions": tuple(names.get(name, name) for name in job.positions),
        "pool": tuple(names.get(name, name) for name in job.pool),
    }
    if job.position in MOMENTS:
        update["where"] = {**job.where, MOMENT: job.position}
    return job.model_copy(update=update)


def _kept(folder: RunFolder) -> set[str]:
    """The positions that are kept of exact beliefs."""
    beliefs, rows = folder.beliefs(), ActivationStore.open(folder.path).rows()
    exact = beliefs.loc[beliefs["kind"] == "exact", "readout_id"].astype(str)
    return set(rows.loc[rows["readout_id"].isin(set(exact)), "position"])


def with_moments(folder: RunFolder, allow_code: Sequence[Path] = ()) -> pd.DataFrame:
    """The beliefs of a run, with the moment of each."""
    experiment, _ = stored_config(folder.config, allow_code)
    beliefs = folder.beliefs()
    return beliefs.assign(**{MOMENT: experiment.moments(beliefs)})


def stored_name(position: str) -> str:
    """What a store calls it: of the options' own tokens, that of the first."""
    return f"{OF_OPTION}-0" if position == OF_OPTION else position


def by_model(job: ProbeJob) -> list[ProbeJob]:
    """A job for each model whose runs are given; of several, each probe has its model's name, too."""
    runs: dict[str, list[Path]] = {}
    for run in job.runs:
        name = ActivationStore.open(run).header.conditions.get("model", {}).get("name", "")
        runs.setdefault(str(name), []).append(run)
    if len(runs) < 2:
        return [job]
    return [
        job.model_copy(update={"runs": tuple(own), "name": NO_NAME.sub("-", f"{job.name}-{name}")})
        for name, own in runs.items()
    ]


def as_read(asked: Mapping[Any, Any], by: str, token: int, without: Collection[str] = ()) -> dict[str, Any]:
    """Where, under which conditions and at which token of the prompt of a read-out a belief is read besides, and by
    what, which follows its name: columns that the rows of its options share.
    """
    names = ("experiment", "item", "cluster", "scenario", "step", "outcome")
    conditions = [name for name in asked if name not in (*COLUMNS, *without)]
    read_in = {"readout_id": f"{asked['readout_id']}/{by}", "of": asked["readout_id"], TOKEN: token}
    return {name: asked[name] for name in (*names, *conditions)} | read_in


def n_layers_of(header: Header) -> int:
    """Of the model whose activations these are."""
    model: Any = header.conditions["model"]
    return int(model["n_layers"])


def _of_rival(run: Path, readout_ids: list[str], at: ReadAt) -> Floats:
    """What another model has at the same place. Raises UserError if it was not asked the same."""
    store = ActivationStore.open(run)
    return StoreFeatures([store], [0] * len(readout_ids), readout_ids, store.header.n_heads).read(at)


def _heads(at: ReadAt, n_heads: int | None) -> list[ReadAt]:
    if at.site != HEADS or n_heads is None:
        return [at]
    return [at._replace(head=head) for head in range(n_heads)]


def _common(runs: Sequence[Path], stores: Sequence[ActivationStore]) -> Header:
    """The header of all stores, with the layers and sites that all have. Raises UserError for two models."""
    headers = [store.header for store in stores]
    first, *_ = models = [{"dtype": header.dtype, **header.conditions["model"]} for header in headers]
    for run, other in zip(runs, models, strict=True):
        same, read = ({key: each[key] for key in each if key not in HARMLESS} for each in (first, other))
        if differences := condition_differences(same, read):
            raise UserError(f"{run}: is of another model than {runs[0]} ({'; '.join(differences)})")
    layers, sites = (
        tuple(each for each in getattr(headers[0], name) if all(each in getattr(header, name) for header in headers))
        for name in ("layers", "sites")
    )
    return headers[0].model_copy(update={"layers": layers, "sites": sites})


def items_again(run: Path, experiment: Experiment, config: RunConfig) -> list[Item]:
    """The items of a run, whose settings may name files from the folder in which it was begun."""
    began = next((Path(session["cwd"]) for session in RunFolder.open(run).sessions if "cwd" in session), Path())
    with contextlib.chdir(began if began.is_dir() else Path()):
        return experiment.items(config)


def _positions(run: Path, allow_code: Sequence[Path]) -> dict[str, list[tuple[Position, Question]]]:
    """Name of a position -> where it is, in each question of the run's first item."""
    experiment, config = stored_config(RunFolder.open(run).config, allow_code)
    positions: dict[str, list[tuple[Position, Question]]] = {}
    for question in experiment.questions(config, items_again(run, experiment, config)[0]):
        given = config.capture.positions if config.capture else None
        for name, position in (question.positions if given is None else given).items():
            positions.setdefault(name, []).append((position, question))
    return positions


def site_of_position(run: Path, store: ActivationStore, name: str, allow_code: Sequence[Path] = ()) -> ReadingSite:
    """Where a named position of a run lies."""
    asked = _positions(run, allow_code).get(name, ())
    return _site(asked, store.rows(position=name), _prompts(RunFolder.open(run)))


def _site(asked: Sequence[tuple[Position, Question]], rows: pd.DataFrame, prompts: Mapping[str, str]) -> ReadingSite:
    """The least that can be said of a position in all questions."""
    every = {reading_site(position, len(question.conversation)) for position, question in asked}
    early: ReadingSite = "before the question"
    if "read-out" in every:
        return early if every <= {"read-out", early} and _asked_later(asked, rows, prompts) else "read-out"
    return early if every == {early} else "unknown"


def _prompts(folder: RunFolder) -> dict[str, str]:
    """Read-out -> its conversation without what is put into the model's mouth."""
    return {line["readout_id"]: json.dumps(line["messages"]) for line in folder.said()}


def _asked_later(asked: Sequence[tuple[Position, Question]], rows: pd.DataFrame, prompts: Mapping[str, str]) -> bool:
    """Whether what is asked follows: the same tokens with different questions after them everywhere."""
    if any(
        place.text is None and reading_site(place, len(question.conversation)) == "read-out"
        for place, question in asked
    ):
        return False
    conversations = rows["readout_id"].map(prompts)
    return bool((conversations.groupby(rows["ids_hash"]).nunique() > 1).all())


def _message(asked: Sequence[tuple[Position, Question]]) -> int | None:
    """The number of messages that stand up to a position, counted from the end if that is how it is given."""
    messages = {position.message for position, _ in asked}
    return messages.pop() if len(messages) == 1 else None


def _described(rows: pd.DataFrame) -> pd.DataFrame:
    """With the role of a statement, if that is what was read."""
    if not {"template", "polarity"} <= set(rows.columns):
        return rows
    return rows.assign(role=rows["template"] + "/" + rows["polarity"])


def _texts(rows: pd.DataFrame, folder: RunFolder, last: int | None) -> pd.DataFrame:
    """With what was said up to the position that is read; without it where no transcript tells."""
    wanted = set(rows["readout_id"])
    texts_of: dict[str, str] = {}
    for line in folder.said():
        if line["readout_id"] in wanted:
            messages = line["messages"]
            stop = len(messages) if last is None else last % len(messages) + 1
            texts_of[line["readout_id"]] = "\n".join(message["content"] for message in messages[:stop])
    texts = rows["readout_id"].map(texts_of)
    return rows if texts.isna().any() else rows.assign(text=texts)


def _written(value: object) -> str:
    """As it is written in settings: a column of numbers with holes holds floats."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def chosen_readouts(job: ProbeJob, beliefs: pd.DataFrame, stored: Collection[str]) -> set[str]:
    """The stored read-outs that `where` chooses. Raises UserError for a column or value that is not there."""
    if not job.where:
        return set(stored)
    return set(_where(_described(belief_rows(beliefs, [*stored], job.option)), job)["readout_id"])


def _where(rows: pd.DataFrame, job: ProbeJob) -> pd.DataFrame:
    for name, value in job.where.items():
        if name in READINGS and name not in rows.columns:
            continue  # a run with one wording has no number for it
        if name not in rows.columns:
            raise UserError(f"where: there is no column {name!r}; {nearest(name, map(str, rows.columns))}")
        written = rows[name].map(_written)
        known = set(written)
        wanted = {_written(choice) for choice in (value if isinstance(value, tuple) else (value,))}
        if absent := sorted(wanted - known):
            raise UserError(f"where: no read-out has {name} {absent[0]!r}; {nearest(absent[0], known)}")
        rows = rows[written.isin(wanted)]
    return rows


def _chosen(rows: pd.DataFrame, job: ProbeJob) -> pd.DataFrame:
    """Those that the job wants, with its own targets. Raises UserError for a column or value that is not there."""
    rows = _where(rows, job)
    if job.targets is None:
        return rows.reset_index(drop=True)
    return join_targets(rows, read_csv(job.targets), str(job.targets)).reset_index(drop=True)
