"""Which runs may be scored together, and what tells them apart."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic.main import IncEx

from ...hooks.errors import UserError
from ..martingale.config import MartingaleConfig
from ..runs.folder import RunFolder

MEANING: IncEx = {"wording": True, "prompts": True, "methods": True, "terminators": True, "stated": {"judges"}}
"""Settings that runs may not differ in: rows would be called alike and be of other things."""
CONDITIONS: IncEx = {"generation": True, "debate": True, "sampling": True, "thoughts": True, "stated": {"draws"}}
"""Settings that runs may differ in: those that do are factors."""


WHERE = {"device", "threads", "kernel", "path"}
"""Of what is recorded of a model: how it was run, which makes it no other."""


class Run(NamedTuple):
    """A run on the disk."""

    folder: RunFolder
    config: MartingaleConfig

    @property
    def conditions(self) -> Mapping[str, Any]:
        """As recorded."""
        return self.folder.manifest["conditions"]


def levels(runs: Sequence[Run]) -> list[dict[str, str]]:
    """[runs] the level of each factor: `model`, and the conditions that differ; those that change together are one.

    Raises UserError for runs that ask other questions or in other words, are alike, or whose models differ in a
    condition as well.
    """
    data, meant = runs[0].conditions["dataset"], {}
    for run in runs:
        if (asked := run.conditions["dataset"]) != data:
            raise UserError(
                f"{run.folder.path}: asks other questions than {runs[0].folder.path} (data {asked}, not {data}), "
                "or has another `cutoff`"
            )
        for name, value in _flat(run.config.model_dump(mode="json", include=MEANING)).items():
            if meant.setdefault(name, value) != value:
                raise UserError(f"{run.folder.path}: has another {name}; score it apart from the other runs")
    models = _models(runs)
    found = [{"model": model} for model in models]
    held = [_flat(run.config.model_dump(mode="json", include=CONDITIONS)) for run in runs]
    together: dict[tuple[int, ...], list[str]] = {}
    for name in held[0]:
        values = [own[name] for own in held]
        together.setdefault(tuple(map(values.index, values)), []).append(name)
    for pattern, names in together.items():
        if not any(pattern):
            continue
        if 1 < len(set(models)) == len(set(zip(models, pattern, strict=True))):
            raise UserError(f"{names[0]} differs between models and within none; run one model both ways, or all alike")
        for level, own in zip(found, held, strict=True):
            level[" and ".join(names)] = ", ".join(own[name] for name in names)
    for i, level in enumerate(found):
        if level in found[:i]:
            raise UserError(f"{runs[i].folder.path}: is a second run of {models[i]} under the same conditions")
    return found


def _models(runs: Sequence[Run]) -> list[str]:
    """The name of each run's model, with what tells it apart from another of that name."""
    held = [{key: own for key, own in run.conditions["model"].items() if key not in WHERE} for run in runs]
    known = [{**own, "thinking": run.config.model.thinking} for own, run in zip(held, runs, strict=True)]

    def called(own: Mapping[str, Any]) -> str:
        alike = [other for other in known if other["name"] == own["name"]]
        apart = ", ".join(f"{key} {own[key]}" for key in own if any(other[key] != own[key] for other in alike))
        return f"{own['name']} ({apart})" if apart else own["name"]

    return [called(own) for own in known]


def _flat(settings: Mapping[str, Any], path: str = "") -> dict[str, str]:
    """Settings as text by their full names."""
    found = {}
    for key, value in settings.items():
        found |= _flat(value, f"{path}{key}.") if isinstance(value, dict) else {f"{path}{key}": str(value)}
    return found
