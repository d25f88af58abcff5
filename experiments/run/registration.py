"""What was fixed before anything was read, and what else was tried: a file of the registered number with digest and
time, written before a run; and the runs beside it, which are other ways that the study could have gone (METRICS F8).
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from ...base.documents import read_json, read_text
from ...base.errors import UserError, in_one_line
from ...base.files import json_digest, write_text
from .manifest import CONFIG, MANIFEST
from .questions import RunConfig
from .sessions import now

FILE = "registration.json"
OF_MACHINE = ("threads",)
"""Of the model's settings, what the machine decides."""
MOST = 20
"""Sibling runs that are named."""


def written(experiment: str, config: RunConfig) -> dict[str, Any]:
    """What a registration file says: the number, the digest of all settings, and the time; sealed by its own digest.

    Raises UserError if no number is registered.
    """
    if config.registered is None:
        raise UserError("--register: these settings register no number; give `registered` in them")
    record = {
        "experiment": experiment,
        "model": config.model.name,
        "registered": config.registered.model_dump(mode="json"),
        "settings": _settings(config),
        "written": now(),
    }
    return {**record, "digest": json_digest(record)}


def register(path: Path, experiment: str, config: RunConfig) -> str:
    """Write the file, which must not be there, and return its digest."""
    if path.exists():
        raise UserError(f"{path}: is there already; a registration is written once: choose another name")
    record = written(experiment, config)
    write_text(path, json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    return str(record["digest"])


def registration(path: Path, experiment: str, config: RunConfig) -> dict[str, Any]:
    """The record of a file that was written for this run.

    Raises UserError if it was changed since, or is for another experiment, other settings or another number.
    """
    record = sealed(path)
    plan = None if config.registered is None else config.registered.model_dump(mode="json")
    same = {"experiment": experiment, "registered": plan, "settings": _settings(config)}
    if changed := [name for name, value in same.items() if record.get(name) != value]:
        raise UserError(f"{path}: was written for another run ({', '.join(changed)}); register this one, then run it")
    return record


def sealed(path: Path) -> dict[str, Any]:
    """The record of a registration file. Raises UserError for one that is not as it was written."""
    with in_one_line(path, "write it by `doxascope plan --register`"):
        record = dict(read_json(path))
        if record.pop("digest", None) != json_digest(record):
            raise ValueError("is no registration, or was changed after it was written: its digest is wrong")
    return {**record, "digest": json_digest(record)}


def _settings(config: RunConfig) -> str:
    return json_digest(config.model_dump(mode="json", exclude={"registered": True, "model": set(OF_MACHINE)}))


def told(folder: Path, began: str) -> Iterator[str]:
    """In sentences: where the number was fixed, and what lies beside the run."""
    path = folder / FILE
    if path.exists():
        record = sealed(path)
        when = "before" if str(record["written"]) <= began else "after"
        yield f"Registered at {record['written']}, {when} anything was read ({began}); digest {record['digest']}."
    elif (_config(folder) or {}).get("registered"):
        yield "The registered number is fixed within this folder alone: no registration file was given."
    others = list(siblings(folder))
    named = "; ".join(others[:MOST]) + (f"; and {len(others) - MOST} more" if len(others) > MOST else "")
    if others:
        n = len(others) + 1
        yield f"It is one of {n} runs of this experiment and model that lie together; the others: {named}."
    else:
        yield "No other run of this experiment and model lies beside it."


def siblings(folder: Path) -> Iterator[str]:
    """The runs of the same experiment and model in the folder around it: name, and what they were set to otherwise."""
    settings = _config(folder)
    if settings is None:
        return
    for path in sorted(folder.resolve().parent.glob(f"*/{MANIFEST}")):
        other = None if path.parent == folder.resolve() else _config(path.parent)
        if other is not None and _study(other) == _study(settings):
            changed = [
                name
                for name in sorted({*settings, *other})
                if name != "model" and settings.get(name) != other.get(name)
            ]
            differences = ", ".join(_named(name, other.get(name)) for name in changed) or "the same settings"
            yield f"{path.parent.name} ({differences})"


def _study(config: Mapping[str, Any]) -> tuple[Any, Any]:
    model = config.get("model")
    return config.get("experiment"), model.get("name") if isinstance(model, dict) else model


def _named(name: str, value: object) -> str:
    """A setting and its value; of one that is long, that it is another."""
    if isinstance(value, dict) and "metric" in value:
        return f"{name} {value['metric']} of {value.get('method')}"
    return f"{name} {value}" if value is None or isinstance(value, str | int | float) else f"other {name}"


def _config(folder: Path) -> dict[str, Any] | None:
    """Settings of a run, or None of what cannot be read: a stranger's folder is no reason to stop."""
    try:
        settings = yaml.safe_load(read_text(folder / CONFIG))
    except (OSError, UserError, ValueError, yaml.YAMLError):
        return None
    return settings if isinstance(settings, dict) else None
