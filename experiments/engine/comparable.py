"""Which runs may be scored together, and what tells them apart."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from ...hooks.errors import UserError
from ..experiment import Experiment, RunConfig
from ..runs.folder import RunFolder

INDIFFERENT = frozenset(
    {
        "experiment",
        "model",
        "seed",
        "items",
        "token_budget",
        "batch_items",
        "together",
        "low_coverage",
        "capture",
        "lens",
    }
    | {"bootstrap_draws", "level", "temperatures", "registered"}
)
"""Settings that change neither what is asked nor what an answer means."""
WHERE = {"device", "threads", "kernel", "path", "sampler"}
"""Of what is recorded of a model: how it was run, which makes it no other."""
LONG = 30
"""Characters of a level; of a longer text its hash stands there."""


class Run(NamedTuple):
    """A run on the disk."""

    folder: RunFolder
    experiment: Experiment
    config: RunConfig

    @property
    def conditions(self) -> Mapping[str, Any]:
        """As recorded."""
        return self.folder.manifest["conditions"]


def levels(runs: Sequence[Run]) -> list[dict[str, str]]:
    """[runs] the level of each factor: `model`, and the conditions that differ; those that change together are one.

    Raises UserError for runs of several experiments or in other words, that are alike, or whose models differ in a
    condition as well.
    """
    first = runs[0]
    for run in runs:
        if run.experiment.name != first.experiment.name:
            raise UserError(
                f"{run.folder.path}: is a run of {run.experiment.name}, {first.folder.path} one of "
                f"{first.experiment.name}; score the runs of one experiment together"
            )
        differing = _differing(first, run)
        if differing:
            raise UserError(f"{run.folder.path}: has another {differing}; score it apart from the other runs")
    models = model_names(runs)
    found = [{"model": model} for model in models]
    held = [_within(run, first.experiment.conditions) for run in runs]
    together: dict[tuple[int, ...], list[str]] = {}
    for name in held[0]:
        values = [own.get(name, "") for own in held]
        together.setdefault(tuple(map(values.index, values)), []).append(name)
    for pattern, names in together.items():
        if not any(pattern):
            continue
        if 1 < len(set(models)) == len(set(zip(models, pattern, strict=True))):
            raise UserError(f"{names[0]} differs between models and within none; run one model both ways, or all alike")
        for level, own in zip(found, held, strict=True):
            level[" and ".join(names)] = ", ".join(short(own.get(name, "")) for name in names)
    for i, level in enumerate(found):
        if level in found[:i]:
            raise UserError(f"{runs[i].folder.path}: is a second run of {models[i]} under the same conditions")
    return found


def _differing(one: Run, other: Run) -> str:
    """The first setting in which rows would be called alike and be of other things."""
    free = INDIFFERENT | one.experiment.conditions | one.experiment.choices
    first, second = (flat(run.config.model_dump(mode="json")) for run in (one, other))
    fixed = [name for name in first if name in second and not _is_of(name, free)]  # a method may be missing in one
    return next((name for name in fixed if first[name] != second[name]), "")


def _within(run: Run, names: Collection[str]) -> dict[str, str]:
    """The settings of those names, and what lies below them, as text."""
    return {name: text for name, text in flat(run.config.model_dump(mode="json")).items() if _is_of(name, names)}


def _is_of(name: str, names: Collection[str]) -> bool:
    return any(name == one or name.startswith(f"{one}.") for one in names)


def model_names(runs: Sequence[Run]) -> list[str]:
    """The name of each run's model, with what tells it apart from another of that name."""
    held = [{key: own for key, own in run.conditions["model"].items() if key not in WHERE} for run in runs]
    known = [{**own, "thinking": run.config.model.thinking} for own, run in zip(held, runs, strict=True)]

    def called(own: Mapping[str, Any]) -> str:
        alike = [other for other in known if other["name"] == own["name"]]
        apart = ", ".join(f"{key} {own[key]}" for key in own if any(other[key] != own[key] for other in alike))
        return f"{own['name']} ({apart})" if apart else own["name"]

    return [called(own) for own in known]


def flat(settings: Mapping[str, Any], path: str = "") -> dict[str, str]:
    """Settings as text by their full names."""
    found = {}
    for key, value in settings.items():
        found |= flat(value, f"{path}{key}.") if isinstance(value, dict) else {f"{path}{key}": str(value)}
    return found


def short(text: str) -> str:
    """A level, or of a longer text its hash."""
    return text if len(text) <= LONG else f"#{hashlib.sha256(text.encode()).hexdigest()[:6]}"
