"""Settings files: YAML read safely into frozen models that refuse what they do not know."""

from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from .errors import UserError, nearest


class Settings(BaseModel):
    """Base of every settings model: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


S = TypeVar("S", bound=Settings)


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping that a YAML file holds."""
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read ({error}); give a readable UTF-8 file") from error
    except yaml.YAMLError as error:
        raise UserError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(data, dict):
        raise UserError(f"{path}: holds {type(data).__name__}, not `key: value` lines")
    return data


def parse(model: type[S], data: dict[str, Any], where: str) -> S:
    """Build `model` from `data`; every fault becomes one line that names `where` and the key."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise UserError("; ".join(_line(model, fault, where) for fault in error.errors()[:3])) from None


def _line(model: type[BaseModel], fault: Any, where: str) -> str:
    key = ".".join(str(part) for part in fault["loc"]) or "(top level)"
    if fault["type"] == "extra_forbidden":
        return f"{where}: unknown key {key!r}; {nearest(key.rpartition('.')[2], _keys(model, fault['loc'][:-1]))}"
    given = f", given {fault['input']!r}" if isinstance(fault["input"], str | int | float) else ""
    return f"{where}: {key}: {fault['msg'].removeprefix('Value error, ')}{given}"


def _keys(model: type[BaseModel], path: tuple[str | int, ...]) -> list[str]:
    """The keys that are known at `path` below `model`."""
    for part in path:
        field = model.model_fields.get(str(part))
        inner = field.annotation if field else None
        for one in (inner, *get_args(inner)):  # optional settings are a union
            if isinstance(one, type) and issubclass(one, BaseModel):
                model = one
    return list(model.model_fields)
