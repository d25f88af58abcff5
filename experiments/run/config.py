"""From a name or a file, and `-o key=value` changes, to an experiment and its checked configuration: those shipped,
those installed by entry point, and, if allowed, one in a file.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ...base.code import load_code
from ...base.documents import user_path
from ...base.errors import UserError, in_one_line, nearest
from ...base.settings import parse, parse_yaml, read_yaml
from ...hooks.model.consent import forget_servers, give_consent
from ...hooks.model.spec import resolve_model
from .experiment import Experiment, RunConfig
from .known import SHIPPED, entry_points_of_experiments


@cache
def _installed(name: str) -> Experiment:
    """Raises UserError for an experiment that cannot be imported, or is none."""
    point = entry_points_of_experiments()[name]
    try:
        loaded = point.load()
    except Exception as error:
        if point in SHIPPED:
            raise
        reason = f"{type(error).__name__}: {error}"
        raise UserError(f"entry point {point.value}: cannot be imported ({reason}); uninstall it") from error
    return _checked(loaded, f"entry point {point.value}")


def experiments() -> dict[str, Experiment]:
    """Name -> experiment, without those in files."""
    return {name: _installed(name) for name in sorted(entry_points_of_experiments())}


def experiment_of(name: str, where: Path | None = None, allow_code: Sequence[Path] = ()) -> Experiment:
    """The experiment that a setting `experiment` names: by name, or as `file.py:Class`.

    Args:
        where: the settings file, to whose folder a relative path belongs; None: the working directory.

    Raises UserError for a name that is unknown, or a file that is not allowed, not there or no experiment.
    """
    file, colon, cls = name.rpartition(":")
    if not colon or not file.endswith(".py"):
        if name not in entry_points_of_experiments():
            raise UserError(
                f"experiment {name!r}: unknown; {nearest(name, entry_points_of_experiments())}, or a .yaml file"
            )
        return _installed(name)
    path = user_path(file)
    path = (path if where is None else where.parent / path).resolve()
    if path not in {user_path(allowed).resolve() for allowed in allow_code}:
        raise UserError(f"experiment {name!r}: is code, which is only run if it is named: --allow-code {path}")
    module = load_code(path)
    if not hasattr(module, cls):
        classes = [
            key
            for key, value in vars(module).items()
            if isinstance(value, type) and value.__module__ == module.__name__
        ]
        raise UserError(f"experiment {name!r}: the file has no class {cls!r}; {nearest(cls, classes)}")
    return _checked(getattr(module, cls, None), f"{path}:{cls}")


def _checked(cls: object, where: str) -> Experiment:
    if not (isinstance(cls, type) and issubclass(cls, Experiment)):
        raise UserError(f"experiment {where}: is no subclass of doxascope.Experiment")
    if lacking := sorted(cls.__abstractmethods__) or [
        name for name in ("name", "summary", "headline") if not hasattr(cls, name)
    ]:
        raise UserError(f"experiment {where}: lacks {lacking[0]!r}")
    return cls()


TABLES = (".csv", ".jsonl", ".json", ".parquet", ".gz", ".tsv")
"""How the files end that hold questions."""
MOST_WHERE = 200
"""Characters that say which settings a fault is in."""


def load_config(
    target: str,
    overrides: Sequence[str] = (),
    model: str | None = None,
    allow_code: Sequence[Path] = (),
    material: str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> tuple[Experiment, RunConfig]:
    """The experiment and the configuration that `target`, an experiment's name or a YAML file, names.

    Args:
        target: `consistency`, a preset such as `martingale-full`, or a path to a file with an `experiment:` key. A
            preset or file need not say everything: what it leaves out is as shipped.
        overrides: `key=value` with dots for nesting; values are YAML.
        allow_code: files of experiments (`experiment: ./mine.py:Mine`), and models by their folder or hub id, whose
            code may be run.
        material: a file of what the experiment asks about, for one that takes a file.
        settings: key with dots -> value, of another file: the overrides go before them, and alone may allow code.
    """
    configs = Path(str(files("doxascope") / "configs"))
    preset = configs / f"{target}.yaml"
    file = target.endswith((".yaml", ".yml"))
    if not file and target not in entry_points_of_experiments() and preset.is_file():
        target, file = str(preset), True
    if file:
        given, where = read_yaml(Path(target)), target
        name = given.get("experiment")
        if not isinstance(name, str):
            raise UserError(f"{target}: key 'experiment' is missing; known: {', '.join(entry_points_of_experiments())}")
        experiment = experiment_of(name, Path(target), allow_code)
        given["experiment"] = _absolute(name, Path(target))
    else:
        if target not in entry_points_of_experiments() and Path(target).suffix.lower() in TABLES:
            raise UserError(f"{target}: is no experiment; to ask the questions of a table: doxascope run ask {target}")
        given, where, name = {"experiment": target}, f"configs/{target}.yaml", target
        experiment = experiment_of(name)
    shipped = configs / f"{name}.yaml"
    data = _merge(experiment.config_type, read_yaml(shipped) if shipped.is_file() else {}, given)
    if model is not None:
        data["model"] = model
    data["model"] = _model(data.get("model"), where)
    if material is not None:
        if not experiment.material:
            raise UserError(f"{material}: {experiment.name} takes no file after its name; settings are given as -o")
        put(data, experiment.material, material)
    for key, value in (settings or {}).items():
        put(data, key, value)
    for override in overrides:
        apply_override(data, override)
    if data["experiment"] != given["experiment"]:
        raise UserError(f"setting experiment: {target} is one; name {data['experiment']} in its place")
    where = f"{where} with {', '.join(settings)} of the sweep"[:MOST_WHERE] if settings else where
    config = parse(experiment.config_type, data, " -o ".join([where, *overrides]))
    plan, makes = config.registered, experiment.makes
    if plan and makes is not None and config.kinds != "all" and plan.metric not in makes:
        raise UserError(
            f"registered.metric {plan.metric!r}: {experiment.name} makes no such number; {nearest(plan.metric, makes)}"
        )
    give_consent(config, [override.partition("=")[0] for override in overrides], allow_code)
    return experiment, config


def stored_config(path: Path, allow_code: Sequence[Path] = ()) -> tuple[Experiment, RunConfig]:
    """What a run has stored: its models run code only if `allow_code` names them, and send nothing to a server."""
    data = read_yaml(path)
    experiment = experiment_of(str(data.get("experiment")), allow_code=allow_code)
    config = parse(experiment.config_type, data, str(path))
    give_consent(config, places=allow_code)
    forget_servers(config)
    return experiment, config


def _absolute(name: str, where: Path) -> str:
    """The experiment as a run stores it: found again wherever the run lies."""
    file, colon, cls = name.rpartition(":")
    return f"{(where.parent / user_path(file)).resolve()}:{cls}" if colon else name


def _model(model: Any, where: str) -> dict[str, Any]:
    """A model given by name is looked up; one given in full is taken as it is."""
    if isinstance(model, str):
        return resolve_model(model).model_dump()
    if not isinstance(model, dict):
        raise UserError(f"{where}: model: give a name, a path, a hub id, or its settings")
    return dict(model)


def _merge(settings: type[BaseModel], base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`changes` over `base`, key by key. An open mapping such as `methods` is replaced whole: entries can leave."""
    merged = dict(base)
    for key, value in changes.items():
        field = settings.model_fields.get(key)
        inner = field.annotation if field else None
        nested = isinstance(inner, type) and issubclass(inner, BaseModel) and key != "model"
        whole = not (nested and isinstance(value, dict) and isinstance(base.get(key), dict))
        merged[key] = value if whole else _merge(inner, base[key], value)  # type: ignore
    return merged


def apply_override(data: dict[str, Any], override: str) -> None:
    """Make the change `key=value` in settings that are not parsed yet. Raises UserError if it is none."""
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise UserError(f"-o {override}: give key=value, for example -o items=10")
    value = parse_yaml(text, f"-o {override}")
    put(data, key, value)


def as_overrides(given: Mapping[str, Any] | Sequence[str]) -> list[str]:
    """Changes as `-o` takes them. Raises UserError for a text, or for a value that no settings file could hold."""
    if isinstance(given, str):
        raise UserError(f"overrides {given!r}: give a mapping, {{'items': 10}}, or a list, ['items=10']")
    if not isinstance(given, Mapping):
        return list(given)
    with in_one_line("overrides"):
        return [f"{key}={json.dumps(value)}" for key, value in given.items()]


def put(data: dict[str, Any], key: str, value: Any) -> None:
    """Put a value at a key with dots."""
    *path, last = key.split(".")
    for part in path:
        data[part] = dict(inner) if isinstance(inner := data.get(part, {}), dict) else {}
        data = data[part]
    data[last] = value
