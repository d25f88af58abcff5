"""What this machine can do: its devices, which kernels and back ends read a tiny model rightly on them, the models
that are here by name, and the folders that are written.
"""

import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from ...base.cache import cache_folder
from ...base.errors import UserError, cause
from ...base.files import NoLocksError, locked
from ..exact.option_beliefs import largest_difference
from ..lm import open_model
from ..model.spec import BACKENDS, ModelSpec, presets, resolve_model
from ..prompts.chat import Conversation
from ..prompts.options import make_options
from ..tree.attention import BLOCKS
from .installation import Finding
from .tiny_models import save_tiny

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
    there = next(folder for folder in (path.resolve(), *path.resolve().parents) if folder.is_dir())
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


# The devices of this machine, and which kernels and back ends read a tiny random model on them as plain forward passes
# do.

QUESTION: Conversation = [{"role": "user", "content": "Is a whale a fish?"}]


def devices() -> Iterator[Finding]:
    """The CPU, and every accelerator that torch can use."""
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield Finding("devices", "cpu", "ok", f"{cores} cores, {torch.get_num_threads()} threads")
    for i in range(torch.cuda.device_count()):
        known = torch.cuda.get_device_properties(i)
        description = f"{known.name}, {known.total_memory / 2**30:.0f} GiB, CUDA {torch.version.cuda}"
        yield Finding("devices", f"cuda:{i}", "ok", description)
    if torch.backends.mps.is_available():
        yield Finding("devices", "mps", "ok", "Apple GPU; chosen with -o model.device=mps")
    if not torch.cuda.is_available():
        built = torch.version.cuda
        description = f"torch is built for CUDA {built} and finds no GPU" if built else "torch is built without CUDA"
        advice = "nvidia-smi: is there a driver?" if built else "https://pytorch.org/get-started: a build with CUDA"
        yield Finding("devices", "cuda", "missing", description, advice)


def readings(names: list[str]) -> Iterator[Finding]:
    """Every kernel on each of these devices, and every back end that is installed, tried on a tiny model."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "tiny"
        save_tiny(folder)
        for name in names:
            tiny = ModelSpec(name="tiny", path=str(folder), device=name)
            for kernel in ("sdpa", "eager", *(["flex"] if name.startswith("cuda") else [])):
                yield _tried(f"{name} {kernel}", tiny.model_copy(update={"kernel": kernel}))
            for backend in filter(find_spec, BACKENDS[1:] if name == names[-1] else ()):
                yield _tried(f"{name} {backend}", tiny.model_copy(update={"backend": backend}))


def _tried(name: str, spec: ModelSpec) -> Finding:
    """A model is loaded, checked against plain passes as every model is, read, and its residual stream taken."""
    logger, began = logging.getLogger("doxascope"), time.perf_counter()
    before = logger.level
    logger.setLevel(logging.ERROR)  # what it says of fall backs is told here
    try:
        with open_model(spec) as lm:
            query = lm.reader.query("0", QUESTION, make_options(["yes", "no"]))
            (reading, *_), _, _ = lm.read([query])
            off = largest_difference(reading, lm.read_plain(query))
            lm.beliefs(QUESTION, ["yes", "no"], capture="last")
            kernel, path = lm.identity.kernel, lm.chosen.path
    except Exception as error:  # a library that is broken breaks in any way
        return Finding("reading", name, "fails", cause(error), "`doxascope --debug doctor` shows where")
    finally:
        logger.setLevel(before)
    if spec.kernel == "flex" and not kernel.startswith(BLOCKS):
        fault = "flex attention fails on this device: dense masks are used, which are slower"
        return Finding("reading", name, "fails", fault, "a C compiler and a current torch are what it takes")
    took = time.perf_counter() - began
    return Finding("reading", name, "ok", f"{path}, {kernel}, {off:.0e} nat from plain passes, {took:.1f} s")
