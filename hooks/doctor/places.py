"""The folders that doxascope writes, and the models that are here by name."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from ..cache import cache_folder
from ..errors import UserError, cause
from ..locks import NoLocksError, locked
from ..model.spec import presets, resolve_model
from .finding import Finding

SHARDS = "read runs in shards (--shard 1/2 --take-over), which need no locks"


def folders(out: Path) -> Iterator[Finding]:
    """The folder of runs, and the caches: can they be written, and do they lock?"""
    yield _folder("runs", out, "choose another --out", SHARDS)
    yield _folder("cache", cache_folder(), other := "set DOXASCOPE_CACHE to another folder", other)
    yield _folder("hub cache", _hub_cache(), "set HF_HOME to another folder", "")


def models() -> Iterator[Finding]:
    """The models known by name, and whether their weights are here."""
    for name in presets():
        try:
            spec = resolve_model(name)
        except UserError as error:
            yield Finding("models", name, "fails", str(error))
            continue
        fetched = spec.hub and (_hub_cache() / f"models--{spec.hub.replace('/', '--')}").is_dir()
        if spec.packaged and find_spec(spec.packaged.module):
            yield Finding("models", name, "ok", f"in the package {spec.packaged.module}")
        elif spec.path and Path(spec.path).expanduser().exists():
            yield Finding("models", name, "ok", spec.path)
        elif fetched:
            yield Finding("models", name, "ok", f"{spec.hub}, in the hub cache")
        else:
            advice = spec.packaged.install if spec.packaged else "it is fetched when it is first run"
            yield Finding("models", name, "missing", f"{spec.hub or spec.path}, not here", advice)


def _hub_cache() -> Path:
    from huggingface_hub.constants import HF_HUB_CACHE

    return Path(HF_HUB_CACHE)


def _folder(name: str, path: Path, advice: str, no_locks: str) -> Finding:
    """A folder that may not be there yet: then its nearest parent that is."""
    there = next(one for one in (path.resolve(), *path.resolve().parents) if one.is_dir())
    try:
        with tempfile.TemporaryDirectory(dir=there) as trial, locked(Path(trial) / ".lock", 0):
            pass
    except NoLocksError:
        return Finding("folders", name, "fails" if no_locks else "ok", f"{path}: its disk has no file locks", no_locks)
    except OSError as error:
        return Finding("folders", name, "fails", f"{path}: cannot be written ({cause(error)})", advice)
    free = shutil.disk_usage(there).free / 2**30
    offline = " (offline: HF_HUB_OFFLINE is set)" if name == "hub cache" and os.environ.get("HF_HUB_OFFLINE") else ""
    return Finding("folders", name, "ok", f"{path}, {free:.0f} GiB free{offline}")
