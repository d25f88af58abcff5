"""In what share of the time a GPU would be busy: real host code, and a device that only keeps time.

    python benchmarks/overlap.py [SHAPE ...] [--batches N] [--out FOLDER]      SHAPE: 1b, 8b; default: both

The work is that of `gpu.py`, on tensors without content (torch's device `meta`). What is enqueued ends on a clock of
its own, at the rates that an H100 showed (`results/gpu-20261122T1923.md`, `T1925`); the host's clock is its thread's
processor time, so that other processes do not count, and what it waits. As in a run, a batch is prepared and enqueued,
then the one before it is fetched and its rows are written. The passes themselves are not launched here, but taken to
cost the host 6 us a kernel. `event` waits for a batch's own copy; `stream` copies when it is asked for, behind all that
was enqueued meanwhile, as it was before.
"""

import argparse
import io
import platform
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

import gpu
import gpu_items
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from doxascope.hooks.backends.libraries import TransformersBackend
from doxascope.hooks.exact import log_probs
from doxascope.hooks.exact.option_beliefs import option_rows, start_reading
from doxascope.hooks.model.head import Head
from doxascope.hooks.model.shape import shape_of
from doxascope.hooks.tree.layouts import Packed
from doxascope.metrics import belief_table

PASSES, HEAD = {"1b": 0.504 * 791e12, "8b": 0.599 * 789e12}, {"1b": 922_225, "8b": 601_351}
"""Operations a second of forward passes alone in packs of 4,096, and read tokens that the head unembeds a second."""
BUDGET, SEEN = 4096, 300
"""Tokens of a pass, and those that each of them sees."""
LAUNCH, KERNELS = 6e-6, 20
"""Seconds that the host takes to launch a kernel, and kernels of a block: taken, not measured."""


class Clock:
    """A host, and a device that takes what it is given in its order."""

    def __init__(self) -> None:
        self.began, self.waited, self.free, self.busy = time.thread_time(), 0.0, 0.0, 0.0

    @property
    def now(self) -> float:
        """Seconds of the host, what it waited among them."""
        return time.thread_time() - self.began + self.waited

    def enqueue(self, seconds: float) -> None:
        """Give the device so much to do."""
        self.free, self.busy = max(self.free, self.now) + seconds, self.busy + seconds

    def wait(self, until: float) -> None:
        """Let the host wait for a moment of the device."""
        self.waited += max(0.0, until - self.now)


class Virtual:
    """A model of a shape on a device that only keeps time."""

    def __init__(self, name: str) -> None:
        self.name, self.clock = name, Clock()
        config = LlamaConfig(**gpu_items.SHAPES[name].config)  # type: ignore
        with torch.device("meta"):
            model = LlamaForCausalLM._from_config(config, dtype=torch.bfloat16, attn_implementation="sdpa").eval()
        shape, self.head, self.backend = shape_of(model), Head(model), TransformersBackend(model, Packed)
        unembed = self.head.log_probs

        def run(inputs: Any, taps: Any) -> torch.Tensor:
            tokens = int(inputs["input_ids"].numel())
            self.clock.waited += LAUNCH * KERNELS * shape.layers
            self.clock.enqueue(shape.operations(tokens, SEEN * tokens, 0) / PASSES[name])
            return torch.empty(1, tokens, shape.width, dtype=torch.bfloat16, device="meta")

        def read(hidden: torch.Tensor, **more: Any) -> torch.Tensor:
            self.clock.enqueue(
                1.5 * len(hidden) / HEAD[name]
            )  # the head's rate counts all tokens, of which 2/3 are read
            return unembed(hidden, **more)

        self.backend.forward, self.head.log_probs = run, read

    def busy(self, groups: Sequence[list[Any]], *, event: bool) -> tuple[float, float]:
        """The share of the time in which the device is busy, and seconds of the host for each batch."""
        self.clock = clock = Clock()

        def download(values: torch.Tensor) -> Callable[[], torch.Tensor]:
            copied = clock.free

            def wait() -> torch.Tensor:
                clock.wait(copied if event else clock.free)
                return torch.full(values.shape, -3.0, dtype=values.dtype)

            return wait

        usual, log_probs.download = log_probs.download, download  # type: ignore
        try:
            before: Callable[[], Any] | None = None
            for group in groups:
                begun = start_reading([group], self.backend, self.head, budget=BUDGET)
                self.written(before)
                before = begun
            self.written(before)
        finally:
            log_probs.download = usual
        return clock.busy / clock.now, (clock.now - clock.waited) / len(groups)

    @staticmethod
    def written(finish: Callable[[], Any] | None) -> None:
        """What becomes of a batch that was read."""
        for reading in finish() if finish else ():
            rows: list[dict[str, object]] = []
            for one in reading.readings:
                names = [str(number) for number in range(len(one.logp))]
                made = option_rows(names, one.prob, kind="exact", coverage=one.coverage, status="ok")
                where = {"readout_id": one.readout_id, "item": one.readout_id, "cluster": "c", "method": "free"}
                rows += [{**where, **row, "logp": float(logp)} for row, logp in zip(made, one.logp, strict=True)]
            belief_table(rows).to_parquet(io.BytesIO())


def main() -> None:
    """Simulate, print and keep."""
    parser = argparse.ArgumentParser()
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", default=["1b", "8b"])
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--out", type=Path, default=gpu.RESULTS)
    given = parser.parse_args()
    now = datetime.now(UTC)
    rows = []
    for name in given.shapes:
        virtual = Virtual(name)
        groups = gpu_items.items(gpu_items.SHAPES[name].config["vocab_size"], given.batches * gpu_items.BATCH)
        batches = [
            list(chain.from_iterable(groups[i : i + gpu_items.BATCH])) for i in range(0, len(groups), gpu_items.BATCH)
        ]
        virtual.busy(batches[:2], event=True)
        for way, event in (("stream", False), ("event", True)):
            share, host = virtual.busy(batches, event=event)
            device = virtual.clock.busy / len(batches)
            rows.append((f"{name}, {way}", f"{100 * share:.0f}%", f"{1000 * host:.0f}", f"{1000 * device:.0f}"))
    head = f"`python benchmarks/overlap.py --batches {given.batches}`, {now:%Y-%m-%d %H:%M} UTC"
    where = f"{platform.machine()}, Python {platform.python_version()}, torch {version('torch')}"
    table = gpu.table("shape, way", rows, "device busy", "host, ms a batch", "device, ms a batch")
    print(text := f"{head}\n{where}, batches of {gpu_items.BATCH} items\n\n{table}\n")
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / f"overlap-{now:%Y%m%dT%H%M}.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
