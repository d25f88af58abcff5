"""What a plan takes: time, disk, memory and money, foreseen from its counts, and as a run took them."""

import json
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...base.errors import UserError, nearest
from ...hooks.exact.log_probs import UNEMBED_ROWS
from ...hooks.model.shape import ModelShape
from ...hooks.tree.memory import Budgets, budgets_within, working_bytes
from .manifest import MANIFEST
from .questions import RunConfig

if TYPE_CHECKING:
    from transformers import PretrainedConfig

BYTES = {"float32": 4, "auto": 4}
"""Of a number in each dtype; of all others 2."""
LIBRARIES = 0.75e9
"""Bytes of memory that a process takes before it holds a model."""
READOUT, PAGE = 800, 1.75e6
"""Bytes on the disk: of a read-out's beliefs and transcript, and of a run's scores, figures and pages, as `consistency`
has them."""
HOUR = 3600.0
Points = tuple[tuple[float, float], ...]


class Rates(NamedTuple):
    """How fast a machine is with a model."""

    operations: float
    """A second, of reading."""
    sampled: float
    """Tokens a second; NaN: not known."""
    where: str
    """What was measured, and where."""


@dataclass(frozen=True)
class GpuCard:
    """What was measured of a GPU in bfloat16, by the number of a model's parameters."""

    name: str
    memory: float
    """Bytes."""
    apart: Points
    """Operations a second, of passes of one item."""
    together: Points
    """Of passes that several items share."""
    sampled: Points
    """Tokens a second, 256 texts at once."""
    source: str

    def budgets(self, shape: ModelShape, config: "PretrainedConfig") -> Budgets:
        """What a model in bfloat16 works on at once."""
        return budgets_within(self.memory - 2 * shape.parameters, config, 2)

    def rates(self, shape: ModelShape, config: RunConfig) -> Rates:
        """Raises UserError for a dtype in which nothing was measured, and for a model that it does not hold."""
        if config.model.dtype != "bfloat16":
            raise UserError(f"--card: {self.name} was measured in bfloat16 alone; give -o model.dtype=bfloat16")
        if 2 * shape.parameters > self.memory:
            raise UserError(f"--card: {shape.parameters / 1e9:.0f} B parameters do not fit into {self.name}")
        known = self.apart if config.together is False else self.together
        operations, sampled = (_between(points, shape.parameters) for points in (known, self.sampled))
        return Rates(operations, sampled, f"{self.name}, as measured with random weights ({self.source})")


CARDS: Mapping[str, GpuCard] = {
    "h100": GpuCard(
        "one NVIDIA H100 80GB",
        80e9,
        ((1.50e9, 237e12), (8.03e9, 417e12)),
        ((1.50e9, 282e12), (8.03e9, 436e12)),
        ((1.50e9, 15_186), (8.03e9, 9_998)),
        "benchmarks/results/gpu-20261122T1923.md and gpu-20261122T1925.md",
    ),
    "h200": GpuCard(
        "one NVIDIA H200",
        141e9,
        ((1.50e9, 260e12), (8.03e9, 515e12)),
        ((1.50e9, 416e12), (8.03e9, 516e12)),
        ((1.50e9, 17_240), (8.03e9, 11_277)),
        "benchmarks/results/gpu-20261126T0415.md and gpu-20261126T0416.md",
    ),
}


def card_of(name: str) -> GpuCard:
    """Raises UserError for one that was not measured."""
    if name not in CARDS:
        raise UserError(f"--card {name}: was not measured; {nearest(name, CARDS)}")
    return CARDS[name]


def _between(points: Points, parameters: float) -> float:
    """Of a model of another size: along a line in logarithms, level beyond the ends."""
    sizes, values = np.log(np.array(points)).T
    return float(np.exp(np.interp(math.log(parameters), sizes, values)))


@dataclass(frozen=True)
class Counts:
    """How much a run does, as planned; it stands in the manifest."""

    tokens: int
    sampled: int
    """At most."""
    operations: float
    readouts: int
    captured: int
    """Numbers of the residual stream that are kept."""
    pass_bytes: float
    """Of a forward pass beside the weights: its mask, its activations, and logits."""


class Taken(NamedTuple):
    """Foreseen, or seen."""

    tokens: int
    seconds: float
    """Of reading and sampling; NaN: not known."""
    disk: float
    memory: float
    """Bytes at once, on the device that holds the model."""

    @property
    def known(self) -> bool:
        """Whether it is known how long it takes: of what samples, another run has to have sampled."""
        return not math.isnan(self.seconds)

    def __str__(self) -> str:
        lasts = _time(self.seconds) if self.known else "a time that is not known"
        return f"{self.tokens:,} tokens, {lasts}, {_size(self.disk)} on the disk, {_size(self.memory)} of memory"


def foresee(counts: Counts, shape: ModelShape, config: RunConfig, rates: Rates | None, *, on_gpu: bool) -> Taken:
    """What a run will take at these rates."""
    size = BYTES.get(config.model.dtype, 2)
    seconds = math.nan
    if rates:
        seconds = counts.operations / rates.operations + (counts.sampled / rates.sampled if counts.sampled else 0.0)
    head = 0 if on_gpu or size == 4 else 4 * shape.vocabulary * shape.width
    memory = (0 if on_gpu else LIBRARIES) + size * shape.parameters + head + counts.pass_bytes
    return Taken(counts.tokens, seconds, PAGE + READOUT * counts.readouts + size * counts.captured, memory)


def pass_bytes(
    shape: ModelShape, config: "PretrainedConfig", budget: int, mask: float, size: int, *, on_gpu: bool
) -> float:
    """Of the longest pass: activations, the mask and what it is made of, and the logits that are held at once."""
    masks = 0.0 if on_gpu else 1.5 * mask
    return budget * working_bytes(config, size) + masks + 4.0 * UNEMBED_ROWS * shape.vocabulary


def rates_of_runs(out: Path, experiment: str, config: RunConfig) -> Rates | None:
    """What the finished runs in a folder took of the same model under the same conditions, those of the same experiment
    first, then the latest; None if there is none. A run that sampled says how fast that is beside one that did not.
    """
    read: tuple[float, str] | None = None
    mixed: list[tuple[Counts, float]] = []
    for path, record in _finished(out, experiment):
        try:
            model, planned = record["conditions"]["model"], record["planned"]
            counts, seconds = Counts(**planned["counts"]), float(record["totals"]["seconds"])
            alike = (model["name"], model["threads"], planned["together"])
            wanted = (
                config.model.name,
                config.model.threads or alike[1],
                alike[2] if config.together is None else config.together,
            )
            device, dtype, speed = model["device"], model["dtype"], float(counts.operations) / seconds
        except (KeyError, TypeError, ValueError, ArithmeticError):  # another's, or damaged: it says nothing of time
            continue
        if alike != wanted or not 0 < speed < math.inf:
            continue
        if config.model.dtype not in ("auto", dtype):
            continue
        if counts.sampled:
            mixed.append((counts, seconds))
        elif read is None:
            read = speed, f"the run {path.name}, on {device} with {alike[1]} thread{'s' * (alike[1] != 1)}"
    if read is None:
        return None
    sampling = [(counts.sampled, seconds - counts.operations / read[0]) for counts, seconds in mixed]
    sampled = next((tokens / seconds for tokens, seconds in sampling if seconds > 0), math.nan)
    return Rates(read[0], sampled, read[1])


def _finished(out: Path, experiment: str) -> list[tuple[Path, Mapping[str, Any]]]:
    """Runs that say what was planned and are complete, those of the experiment first, then the latest."""
    runs = []
    for manifest in out.glob(f"*/{MANIFEST}"):
        try:
            record = json.loads(manifest.read_bytes())
        except (OSError, ValueError, RecursionError):  # as above
            continue
        planned = record.get("planned") if isinstance(record, dict) else None
        if isinstance(planned, dict) and record.get("status") == "complete":
            place = (planned.get("experiment") != experiment, -manifest.stat().st_mtime)
            runs.append((place, manifest.parent, record))
    return [(path, record) for _, path, record in sorted(runs, key=itemgetter(0))]


def taken(path: Path, totals: Mapping[str, Any]) -> Taken:
    """What a run in this process has taken; memory is the process's largest, or the device's."""
    disk = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return Taken(totals["tokens_run"], float(totals["seconds"]), disk, _peak())


def _peak() -> float:
    """Bytes at once so far."""
    import torch

    if torch.cuda.is_available():
        return float(torch.cuda.max_memory_allocated())
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(most) if sys.platform == "darwin" else 1024.0 * most


def price_line(seconds: float, price: float) -> str:
    """What a time costs at so much an hour."""
    return f"{seconds / HOUR * price:,.2f}, at {price:,.2f} an hour"


def _size(size: float) -> str:
    """Bytes in words.

    >>> _size(2.34e6), _size(2.34e8), _size(2.34e9)
    ('2.3 MB', '234 MB', '2.3 GB')
    """
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.{0 if size >= 1e7 else 1}f} MB"


def _time(seconds: float) -> str:
    """A time in words.

    >>> _time(42), _time(600), _time(9000)
    ('42 s', '10 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.2g} min" if seconds < 100 * 60 else f"{seconds / HOUR:.2g} h"
