"""What must be known of a run to trust it, and to refuse to mix it with another."""

import importlib.metadata
import inspect
import json
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import Timeout

from ...base.errors import UserError, in_one_line
from ...base.files import file_digest, json_digest, locked, unsealed
from ...base.settings import Settings
from ...base.version import __version__

if TYPE_CHECKING:
    from ...hooks.identity import Identity

MANIFEST, CONFIG = "manifest.json", "config.yaml"
CERTIFICATE = "certificate.json"
"""A run's copy of its model's certificate."""
PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "scipy", "pandas", "pyarrow", "jinja2", "wonderwords")


def read_manifest(run: Path) -> dict[str, Any]:
    """What a run was, or {} before it began. Raises UserError if it is not as it was written."""
    path = run / MANIFEST
    if not path.is_file():
        return {}
    with in_one_line(path, "restore it from a copy, or run anew with another --out"):
        return unsealed(json.loads(path.read_bytes()))


def status_of(run: Path, record: Mapping[str, Any]) -> str:
    """How a run stands; one that is not whole is `running` where a process holds a lock of it, else `unfinished`."""
    status = str(record["status"])
    if status == "complete" and "scores.json" not in record.get("written", {}):
        return "read and not scored"
    if status != "running":
        return status
    for lock in run.glob(".lock*"):
        try:
            with locked(lock, 0):
                pass
        except Timeout:
            return status
        except (OSError, UserError):
            return "running, or stopped: this disk has no file locks"
    return "unfinished"


def conditions(config: Settings, identity: "Identity", items: list[Any]) -> dict[str, Any]:
    """All that changes the numbers: two runs may be mixed if and only if these are equal."""
    settings = config.model_dump(mode="json", exclude={"registered": True, "model": {"threads"}})  # the model has them
    return {
        "config": json_digest(settings),
        "registered": registered(config),
        "model": identity.model_dump(),
        "dataset": json_digest(items),
        "doxascope": __version__,
        "packages": {name: importlib.metadata.version(name) for name in PACKAGES},
        "cuda": _cuda(),
    }


def registered(config: Settings) -> str | None:
    """The digest of the number that a run was registered for, which is no part of the run's name."""
    plan = config.model_dump(mode="json", include={"registered"}).get("registered")
    return None if plan is None else json_digest(plan)


def refuse_other_registration(folder: Path, before: Mapping[str, Any], config: Settings) -> None:
    """Raise UserError for a run that was registered for another number."""
    if before.get("registered") != registered(config):
        raise UserError(
            f"{folder}: was registered for another number, or for none; that is fixed before anything is read: give "
            "`registered` as it was, or choose another --out"
        )


def file_of(experiment: object) -> Path:
    """Where an experiment's class is written."""
    return Path(inspect.getfile(type(experiment)))


def code_of(experiment: object) -> dict[str, str]:
    """The digest of the file that an experiment comes from, if it is none of the package's."""
    path = file_of(experiment)
    ours = path.resolve().is_relative_to(Path(__file__).resolve().parents[2])
    return {} if ours else {"code": file_digest(path)[:16]}


ITEMS = "items.jsonl"
"""A line for each item: its id, its cluster, the digest of its content, and its question with options if it is one."""
CHOICE = "choice"
"""Where the content of an item holds a question with its options."""


def item_lines(items: Iterable[tuple[str, str, Any]]) -> str:
    """The text of `ITEMS`."""
    lines = (
        {"id": name, "cluster": cluster, "content": json_digest(content)}
        | ({CHOICE: content[CHOICE]} if isinstance(content, Mapping) and CHOICE in content else {})
        for name, cluster, content in items
    )
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def item_digests(path: Path | None) -> dict[str, str]:
    """Item -> digest of its content. Raises UserError if the run has none."""
    return {line["id"]: line["content"] for line in recorded_items(path)}


def recorded_items(path: Path | None) -> list[dict[str, Any]]:
    """The lines of `ITEMS`. Raises UserError if the run has none."""
    if path is None:
        raise UserError(f"has no {ITEMS}; repeat the run, then score it with others")
    with in_one_line(path):
        return [line for line in map(json.loads, path.read_bytes().splitlines()) if line["id"] and line["content"]]


def surroundings() -> dict[str, Any]:
    """What does not change the numbers but belongs to the record."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "git": _git(),
        "argv": sys.argv,
        "cwd": str(Path.cwd()),
    }


def _cuda() -> dict[str, Any] | None:
    import torch

    if not torch.cuda.is_available():
        return None
    return {"version": torch.version.cuda, "device": torch.cuda.get_device_name(), "tf32": False}


def _git() -> dict[str, Any] | None:
    """Commit and dirty flag of the source tree, if doxascope runs from one."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None
    try:
        sha = _output(root, "rev-parse", "HEAD")
        return {"sha": sha, "dirty": bool(_output(root, "status", "--porcelain"))}
    except (OSError, subprocess.CalledProcessError):
        return None


def _output(root: Path, *args: str) -> str:
    return subprocess.run(["git", "-C", str(root), *args], capture_output=True, text=True, check=True).stdout.strip()
