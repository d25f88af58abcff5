"""The combinations of a sweep (models, seeds, settings): each is checked, run, and known again once it is finished."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import prod
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from ...base.documents import read_json, repeated, user_path
from ...base.errors import UserError, in_one_line
from ...base.files import OutputFolder, file_digest, json_digest, sealed, unsealed
from ...base.settings import Settings, parse, read_yaml
from ...hooks.model.consent import KEY, consented
from ...hooks.model.spec import ModelSpec
from ..probing.kinds import run_kinds
from ..run.config import TABLES, load_config
from ..run.experiment import Experiment, RunConfig
from ..run.folder import RunFolder
from ..run.joint_scores import flat
from ..run.manifest import code_of
from ..run.worker import OpenWorkers, one_here

RECORDS = "sweep"
"""Folder beside the runs: of each combination that is finished, which run it is."""
MOST_RUNS = 10_000
"""Of a sweep: the settings of each are checked before the first is read."""

Changes = dict[str, Any]
"""Key, with dots -> value."""


def _named(given: Any) -> Any:
    """Experiments as a mapping, also where they are a list of names. Raises ValueError for one that is there twice."""
    if isinstance(given, list) and (name := repeated(map(str, given))) is not None:
        raise ValueError(f"{name!r} is there twice")
    return {str(name): {} for name in given} if isinstance(given, list) else given


def _counted(given: Any) -> Any:
    """Seeds as a list, also where it is said how many. Raises ValueError for more than a sweep may have."""
    if not isinstance(given, int) or isinstance(given, bool):
        return given
    if not 1 <= given <= MOST_RUNS:
        raise ValueError(f"give how many seeds, from 1 to {MOST_RUNS:,}, or a list of them")
    return list(range(given))


class SweepPlan(Settings):
    """What is run: every experiment on every model, with every seed and every combination of settings."""

    experiments: Annotated[dict[str, Changes], BeforeValidator(_named)] = Field(min_length=1)
    """Name, preset or YAML file -> settings that it alone has."""
    models: tuple[str, ...] = ()
    """Empty: the model that each experiment is configured for."""
    seeds: Annotated[tuple[int, ...], BeforeValidator(_counted), Field(min_length=1)] = (0,)
    """The seeds, or how many, from 0."""
    settings: Changes = Field(default_factory=dict)
    """Of every run."""
    vary: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(default_factory=dict)
    """Key -> its values."""


@dataclass(frozen=True)
class Combination:
    """One combination: a run."""

    target: str
    model: str | None
    changes: Changes
    experiment: Experiment
    config: RunConfig
    varied: Changes = field(default_factory=dict)
    """Those of the changes that are varied."""

    @property
    def name(self) -> str:
        """What it is called before it has a folder."""
        varied = "".join(f", {key} {value}" for key, value in self.varied.items())
        return f"{self.experiment.name} on {self.model or self.config.model.name}, seed {self.config.seed}{varied}"

    @cached_property
    def key(self) -> str:
        """Digest of all its settings, of the files that they name, of an experiment's own code, and of which files its
        model is, by their sizes and times, as all of it was when this was first asked: what is written anew is not
        taken for finished.
        """
        settings = self.config.model_dump(mode="json")
        named = {text for text in flat({**settings, "model": None}).values() if os.path.isfile(user_path(text))}
        with in_one_line("a file that settings name"):
            digests = {text: file_digest(user_path(text)) for text in sorted(named)}
        return json_digest([settings, digests, code_of(self.experiment), list(_files(self.config.model))])


def _files(model: ModelSpec) -> Iterator[tuple[str, int, int]]:
    """Name, size and time of each file of a model; in a folder those below it are none of its own."""
    for place in (model.path, *(adapter.place for adapter in model.adapter)):
        path = user_path(place) if place else None
        files = sorted(path.iterdir()) if path and path.is_dir() else [path] if path and path.is_file() else []
        yield from ((file.name, (known := file.stat()).st_size, known.st_mtime_ns) for file in files if file.is_file())


def load_plan(targets: Sequence[str], given: Mapping[str, Any]) -> SweepPlan:
    """The plan of a YAML file with the key `experiments`, or of experiments, each with its file behind it; what is
    `given` beside it takes the place of what the file says, settings one by one.

    Raises UserError for a plan beside other targets, and for what is wrong in it.
    """
    plans = [path for path in targets if path.endswith((".yaml", ".yml")) and "experiments" in read_yaml(Path(path))]
    if plans and len(targets) > 1:
        raise UserError(f"{plans[0]}: is a plan of a sweep; give it alone, or its experiments by name")
    data: dict[str, Any] = read_yaml(Path(plans[0])) if plans else {"experiments": _with_material(targets)}
    known = {key: data.get(key) or {} for key in given}
    merged = {
        key: known[key] | value if isinstance(value, dict) and isinstance(known[key], dict) else value
        for key, value in given.items()
    }
    return parse(SweepPlan, data | merged, plans[0] if plans else "sweep")


def _with_material(targets: Sequence[str]) -> dict[str, Changes]:
    """Experiments, each with the file that stands behind it, for one that takes a file."""
    changes: dict[str, Changes] = {}
    for target in targets:
        before = next(reversed(changes), None)
        material = load_config(before)[0].material if before and Path(target).suffix.lower() in TABLES else ""
        if before and material:
            changes[before] = {material: target}
        elif target in changes:
            raise UserError(f"{target}: is there twice; leave one out")
        else:
            changes[target] = {}
    return changes


def cells_of(plan: SweepPlan, overrides: Sequence[str] = (), allow_code: Sequence[Path] = ()) -> list[Combination]:
    """All combinations, checked: UserError for one that is wrong, two alike, one consent to several models' code."""
    if fixed := [override for override in overrides if override.partition("=")[0] == "seed"]:
        raise UserError(f"-o {fixed[0]}: a sweep takes its seeds as --seeds 3, or --seeds 0,4")
    if any("seed" in changes for changes in (plan.settings, plan.vary, *plan.experiments.values())):
        raise UserError("setting seed: a sweep takes its seeds as --seeds 3, or --seeds 0,4; in a plan as `seeds`")
    number = prod(map(len, [plan.experiments, plan.models or [None], plan.seeds, *plan.vary.values()]))
    if number > MOST_RUNS:
        raise UserError(f"these experiments, models, seeds and settings are {number:,} runs; at most {MOST_RUNS:,} fit")
    cells: list[Combination] = []
    combinations = [dict(zip(plan.vary, values, strict=True)) for values in product(*plan.vary.values())]
    for (target, settings), model, varied in product(plan.experiments.items(), plan.models or [None], combinations):
        for seed in plan.seeds:
            changes = {**plan.settings, **settings, **varied, "seed": seed}
            experiment, config = load_config(target, overrides, model, allow_code, settings=changes)
            cells.append(Combination(target, model, changes, experiment, config, varied))
            _require_files(cells[-1])
    _require_consent_to_each(cells, overrides, allow_code)
    keys: dict[str, Combination] = {}
    for cell in cells:
        if (other := keys.setdefault(cell.key, cell)) is not cell:
            raise UserError(f"{cell.name}: is there twice ({other.target}, {cell.target}); leave one out")
    return cells


def _require_files(cell: Combination) -> None:
    """Raise UserError for a table that settings name and that is not there."""
    for key, text in flat({**cell.config.model_dump(mode="json"), "model": None}).items():
        if Path(text).suffix.lower() in TABLES and not user_path(text).exists():
            raise UserError(f"{cell.target}: {key}: {text}: there is no such file")


def _require_consent_to_each(
    cells: Sequence[Combination], overrides: Sequence[str], allow_code: Sequence[Path]
) -> None:
    """Raise UserError for a setting of all runs that would allow the code of models in more than one place."""
    given = [override for override in overrides if override.partition("=")[0].rpartition(".")[2] == KEY]
    places = list(dict.fromkeys(place for cell in cells for place in consented(cell.config)))
    named = {name for place in allow_code for name in (place, user_path(place).resolve())}
    if given and len(places) > 1 and not named.issuperset(places):
        each = " ".join(f"--allow-code {place}" for place in places)
        raise UserError(f"-o {given[0]}: would allow the code of {len(places)} models; name each: {each}")


def finished(cell: Combination, out: Path) -> RunFolder | None:
    """The run of a combination, if it is whole and scored. Raises UserError for one that is not as it was written."""
    record = out / RECORDS / f"{cell.key}.json"
    if not record.is_file():
        return None
    with in_one_line(record, "delete it, and give the same command again"):
        name = str(unsealed(read_json(record))["run"])
        if name in ("", "..") or Path(name).name != name:
            raise ValueError(f"{name!r} is no name of a run beside it")
        run = RunFolder(out / name)
    return run if run.manifest.get("status") == "complete" and run.written("scores.json") else None


def run_cell(
    cell: Combination, out: Path, allow_code: Sequence[Path] = (), workers: OpenWorkers = one_here
) -> RunFolder:
    """Run a combination, or go on with it, and write down that it is finished."""
    key = cell.key  # of the files before they are read
    folder = run_kinds(cell.experiment, cell.config, out, allow_code=tuple(allow_code), workers=workers)
    (out / RECORDS).mkdir(parents=True, exist_ok=True)
    record = {"run": folder.path.name, "target": cell.target, "model": cell.config.model.name, "changes": cell.changes}
    OutputFolder(out / RECORDS, f"-{os.getpid()}").write_json(f"{key}.json", sealed(record))
    return folder
