"""The devices of this machine, and which kernels and back ends read a tiny random model on them as plain forward passes
do.
"""

import logging
import os
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from ..conformance.tiny import save_tiny
from ..errors import cause
from ..exact.exact import largest_difference
from ..lm import load
from ..model.spec import BACKENDS, ModelSpec
from ..prompts.chat import Conversation
from ..prompts.options import make_options
from ..tree.attention import BLOCKS
from .finding import Finding

QUESTION: Conversation = [{"role": "user", "content": "Is a whale a fish?"}]


def devices() -> Iterator[Finding]:
    """The CPU, and every accelerator that torch can use."""
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield Finding("devices", "cpu", "ok", f"{cores} cores, {torch.get_num_threads()} threads")
    for i in range(torch.cuda.device_count()):
        known = torch.cuda.get_device_properties(i)
        told = f"{known.name}, {known.total_memory / 2**30:.0f} GiB, CUDA {torch.version.cuda}"
        yield Finding("devices", f"cuda:{i}", "ok", told)
    if torch.backends.mps.is_available():
        yield Finding("devices", "mps", "ok", "Apple GPU; chosen with -o model.device=mps")
    if not torch.cuda.is_available():
        built = torch.version.cuda
        told = f"torch is built for CUDA {built} and finds no GPU" if built else "torch is built without CUDA"
        advice = "nvidia-smi: is there a driver?" if built else "https://pytorch.org/get-started: a build with CUDA"
        yield Finding("devices", "cuda", "missing", told, advice)


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
        with load(spec) as lm:
            query = lm.reader.query("0", QUESTION, make_options(["yes", "no"]))
            (reading, *_), _, _ = lm.read([query])
            off = largest_difference(reading, lm.read_plain(query))
            lm.beliefs(QUESTION, ["yes", "no"], capture="last")
            kernel, path = lm.identity.kernel, lm.chosen.path
    except Exception as error:  # a library that is broken breaks in any way
        return Finding("reading", name, "fails", cause(error), "`doxascope --debug doctor` shows where")
    finally:
        logger.setLevel(before)
    if spec.kernel == "flex" and kernel != BLOCKS:
        told = "flex attention fails on this device: dense masks are used, which are slower"
        return Finding("reading", name, "fails", told, "a C compiler and a current torch are what it takes")
    took = time.perf_counter() - began
    return Finding("reading", name, "ok", f"{path}, {kernel}, {off:.0e} nat from plain passes, {took:.1f} s")
