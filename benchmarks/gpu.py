"""How much of a GPU a read-out uses: random weights of the shapes of users' models, and no network.

    python benchmarks/gpu.py [SHAPE ...] [--rounds N] [--brief]

SHAPE is tiny, 1b or 8b; by default 1b and 8b, on a CPU tiny.

The work is that of the default consistency item, in tokens drawn at random: contexts that share a beginning, each
followed by every surface form of every option; eight batches of seven items, so that one can be prepared and another
written while a third is read. A share of the peak counts unique tokens, what they attend to and the rows that are read,
nothing that is computed twice, and of a way that leaves the head out, or is nothing else, that alone; the peak is that
of a matrix product in the same process. Medians of the rounds; all ways of a table take turns. A GPU is busy while any
of its kernels or copies runs, by the profiler's own clock. `--brief` leaves out other kernels, budgets and peers.
"""

import argparse
import gc
import platform
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from itertools import chain, product
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from gpu_items import BATCH, SHAPES, Group, items, words
from peers import kv_cache, padded
from torch.nn.functional import linear, scaled_dot_product_attention
from transformers import LlamaConfig, LlamaForCausalLM

from doxascope.hooks.backends import backend as backends
from doxascope.hooks.backends.captures import CapturePlan
from doxascope.hooks.backends.libraries import TransformersBackend
from doxascope.hooks.exact import log_probs
from doxascope.hooks.exact.option_beliefs import QueryTree, start_reading
from doxascope.hooks.generation.generated_texts import Request, Sampler
from doxascope.hooks.generation.rows import CachedRows
from doxascope.hooks.generation.sampling import Sampling
from doxascope.hooks.model.blocks import body
from doxascope.hooks.model.fused import Fused
from doxascope.hooks.model.head import Head
from doxascope.hooks.tree.attention import BLOCKS, KERNEL, use_tree_attention
from doxascope.hooks.tree.flex import flex_works
from doxascope.hooks.tree.layouts import Packed
from doxascope.hooks.tree.memory import budgets_of
from doxascope.hooks.tree.token_tree import cut_into_packs

F32 = torch.float32
ALONE, HEAD = "its forward passes alone", "the head on the rows that are read"
RESULTS = Path(__file__).parent / "results"
T = TypeVar("T")


class Bench:
    """One model of a shape on a device."""

    def __init__(self, name: str, device: str, rounds: int, brief: bool) -> None:
        self.name, self.shape, self.device, self.rounds, self.brief = name, SHAPES[name], device, rounds, brief
        torch.manual_seed(0)
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        with torch.device(device):
            config = LlamaConfig(**self.shape.config)  # type: ignore
            model = LlamaForCausalLM._from_config(config, dtype=self.shape.dtype, attn_implementation="sdpa")
        self.model = model.eval().requires_grad_(False)
        self.head = Head(self.model)
        self.backend = TransformersBackend(self.model, Packed)
        self.kernels = [KERNEL]
        if device == "cuda" and flex_works(self.model):
            self.model.set_attn_implementation("sdpa")
            use_tree_attention(self.model, blocks=True)
            self.kernels.append(BLOCKS)
        began = time.perf_counter()
        self.fused = Fused(self.model)
        self.compiling = time.perf_counter() - began
        self.groups = items(config.vocab_size, self.shape.items)
        self.trees = [QueryTree(group) for group in self.groups]
        self.tokens = sum(len(queries.tree) for queries in self.trees)
        self.rows = sum(len(queries.read_nodes) for queries in self.trees)

    def seconds(self, work: Callable[[], object]) -> float:
        """Of one call, the device's work included."""
        self.wait()
        began = time.perf_counter()
        work()
        self.wait()
        return time.perf_counter() - began

    def wait(self) -> None:
        """Until the device has done what it was given."""
        if self.device == "cuda":
            torch.cuda.synchronize()

    def turns(self, ways: Mapping[str, Callable[[], object]]) -> dict[str, float]:
        """Median seconds of each way, after a call that is not counted."""
        for work in ways.values():
            work()
        rounds = [{name: self.seconds(work) for name, work in ways.items()} for _ in range(self.rounds)]
        return {name: float(np.median([timing[name] for timing in rounds])) for name in ways}

    def rate(self, dtype: torch.dtype) -> float:
        """Operations a second of one large matrix product."""
        side = 8192 if self.device == "cuda" else 512
        one, other = (torch.randn(side, side, device=self.device, dtype=dtype) for _ in range(2))
        torch.mm(one, other)
        return 10 * 2 * side**3 / self.seconds(lambda: [torch.mm(one, other) for _ in range(10)])

    def ceilings(self) -> str:
        """What the device can do: products, a copy, and causal attention over a long text."""
        length = 16384 if self.device == "cuda" else 512
        mass = torch.zeros(length * length, device=self.device, dtype=torch.float32)
        copied = torch.empty_like(mass)
        q, k, v = torch.randn(3, 1, 32, length, 128, device=self.device, dtype=self.shape.dtype)

        def attend() -> object:
            return scaled_dot_product_attention(q, k, v, is_causal=True)

        took = self.turns({"copy": lambda: copied.copy_(mass), "attend": attend})
        attended = 4 * 32 * 128 * length * length / 2 / took["attend"]
        rows = [
            *(
                (f"matrix product, {dtype}", f"{self.rate(dtype) / 1e12:.4g} Top/s")
                for dtype in (self.shape.dtype, F32)
            ),
            ("copy, bytes read and written", f"{2 * mass.nbytes / took['copy'] / 1e12:.3g} TB/s"),
            (f"causal attention, {length:,} tokens", f"{attended / 1e12:.4g} Top/s"),
        ]
        return table("ceiling", rows, "seen")

    def operations(self, passes: bool = True, head: bool = True) -> float:
        """Of all items: unique tokens through the blocks, what each attends to, and the rows that are read."""
        config = self.model.config
        blocks = sum(p.numel() for p in body(self.model).layers.parameters())  # type: ignore
        seen = sum(sum(queries.tree.depths) + len(queries.tree) for queries in self.trees)
        width = config.num_attention_heads * (config.hidden_size // config.num_attention_heads)
        attended = 4 * seen * width * config.num_hidden_layers
        unembedded = 2 * config.vocab_size * config.hidden_size * self.rows
        return passes * (2 * blocks * self.tokens + attended) + head * unembedded

    def ways(self) -> list[tuple[str, int, bool]]:
        """Kernel, budget and whether blocks are fused; what a run does by itself is the last."""
        kernels, budgets = (
            (self.kernels[-1:], self.shape.budgets[-1:]) if self.brief else (self.kernels, self.shape.budgets)
        )
        return list(product(kernels, budgets, [False, True] if self.fused.parts else [False]))

    def read(self, budget: int, apart: bool = False, **more: Any) -> list[Any]:
        """The readings of all items: those of a batch in one tree, or each `apart` in its own."""
        started: list[Any] = []
        readings: list[Any] = []
        for batch in self.batches():  # one is built while the one before it is read, as in a run
            requests = batch if apart else [list(chain.from_iterable(batch))]
            started.append(start_reading(requests, self.backend, self.head, budget=budget, **more))
            readings += started.pop(0)() if len(started) > 1 else []
        return [*readings, *started.pop()()]

    def batches(self) -> Iterator[list[Group]]:
        """The items, as many at once as a run commits together."""
        for start in range(0, len(self.groups), BATCH):
            yield self.groups[start : start + BATCH]

    def under(self, kernel: str, fused: bool, work: Callable[[], T]) -> Callable[[], T]:
        """Work with an attention kernel, and with blocks that are fused or not."""

        def run() -> T:
            self.model.set_attn_implementation(kernel)
            self.backend.fused = self.fused if fused else None
            return work()

        return run

    def bare(self, kernel: str, budget: int, fused: bool) -> Callable[[], object]:
        """The forward passes of the packs and nothing else."""
        self.model.set_attn_implementation(kernel)
        batches = []
        for batch in self.batches():
            built = QueryTree(list(chain.from_iterable(batch)))
            for pack in cut_into_packs(built.tree, built.read_nodes, budget):
                batches += [laid.inputs for laid in self.backend.layout.batches(pack)]

        def run() -> None:
            with torch.inference_mode():
                for inputs in batches:
                    self.backend.forward(inputs, {})

        return self.under(kernel, fused, run)

    def unembed(self) -> Callable[[], object]:
        """The head on as many rows as are read."""
        rows = torch.randn(512, self.model.config.hidden_size, device=self.device, dtype=self.shape.dtype)
        return lambda: [self.head.log_probs(rows) for _ in range(-(-self.rows // len(rows)))]

    def sample(self) -> Callable[[], object]:
        """Texts of one prompt."""
        sampler = Sampler(words(self.model.config.vocab_size), self.head, [])
        request = Request("r", self.groups[0][0].prompt, range(self.shape.draws))
        sampling = Sampling(max_new_tokens=self.shape.length)
        budgets = budgets_of(self.model)
        rows = CachedRows(self.model, budgets.pack)
        return lambda: sampler.generate([request], rows, sampling, seed=0, budget=budgets.held)


def table(title: str, rows: Sequence[Sequence[str]], *names: str) -> str:
    """A table in Markdown."""
    return "\n".join(f"| {' | '.join(row)} |" for row in [(title, *names), ["---"] * (1 + len(names)), *rows])


def readouts(bench: Bench, peak: float) -> str:
    """The read-out, what it consists of, and its peers."""
    ways: dict[str, Callable[[], object]] = {}
    plan = CapturePlan(layers="all")
    for kernel, budget, fused in bench.ways():
        told = f"{kernel}, packs of {budget:,}{', fused blocks' * fused}"
        ways[told] = bench.under(kernel, fused, lambda n=budget: bench.read(n))
        if fused or not bench.brief:
            ways[f"{told}: with the residual stream"] = bench.under(
                kernel, fused, lambda n=budget: bench.read(n, capture=plan)
            )
        ways[f"{told}: {ALONE}"] = bench.bare(kernel, budget, fused)
    kernel, budget, fused = bench.ways()[-1]
    ways["the last, each item in its own packs"] = bench.under(kernel, fused, lambda: bench.read(budget, apart=True))
    ways["the last, `together`"] = bench.under(kernel, fused, lambda: bench.read(budget, apart=True, joined=True))
    ways[HEAD] = bench.unembed()
    few = bench.groups[:2]
    if not bench.brief:
        ways["peer: KV cache by hand (2 items, scaled)"] = lambda: kv_cache.read(bench.model, few)
        ways["peer: every form in a padded row (2 items, scaled)"] = lambda: padded.read(bench.model, few)
    took = bench.turns(ways)
    scale = {name: len(bench.groups) / len(few) if "scaled" in name else 1 for name in ways}
    rows = [
        (
            name,
            f"{s * scale[name]:.3f}",
            f"{bench.tokens / s / scale[name]:,.0f}",
            f"{100 * bench.operations(name != HEAD, ALONE not in name) / s / scale[name] / peak:.1f}%",
        )
        for name, s in took.items()
    ]
    return table("way", rows, "seconds", "unique tokens a second", "of the peak")


def busy(bench: Bench) -> str:
    """In what share of the time the device works, while all items are read."""
    from torch.profiler import ProfilerActivity, profile

    if bench.device != "cuda":
        return "busy: a CPU is not measured"
    kernel, budget, fused = bench.ways()[-1]
    plan, rows, taken = CapturePlan(layers="all"), [], dict[str, int]()
    ways: Sequence[tuple[str, dict[str, Any]]] = (
        ("one tree a batch", {}),
        ("one tree a batch, with the residual stream", {"capture": plan}),
        ("each item in its own packs", {"apart": True}),
        ("`together`", {"apart": True, "joined": True}),
    )
    for name, more in ways:
        work = bench.under(kernel, fused, partial(bench.read, budget, **more))
        plain = bench.seconds(work)
        with profile(activities=[ProfilerActivity.CUDA]) as trace:
            seconds = bench.seconds(work)
        events = kernels_of(trace)
        worked = united([(event.start_ns(), event.end_ns()) for event in events]) / 1e9
        for event in events if not more else ():
            taken[event.name()[:70]] = taken.get(event.name()[:70], 0) + event.duration_ns()
        rows.append((name, f"{worked:.3f}", f"{seconds:.3f}", f"{plain:.3f}", f"{100 * worked / plain:.1f}%"))
    n = -(-len(bench.groups) // BATCH)
    most = sorted(taken, key=lambda name: -taken[name])[:12]
    shares = [(f"`{name}`", f"{100 * taken[name] / sum(taken.values()):.1f}%") for name in most]
    told = table(f"{n} batches, packs of {budget:,}", rows, "s busy", "s profiled", "s not profiled", "busy")
    return f"{told}\n\n{table('kernel, one tree a batch', shares, 'of the busy time')}"


def kernels_of(trace: Any) -> list[Any]:
    """What ran on the GPU, of a profile."""
    events = trace.profiler.kineto_results.events()
    cuda = torch.autograd.DeviceType.CUDA  # pyright: ignore[reportPrivateImportUsage]
    return [event for event in events if event.device_type() == cuda and not event.is_user_annotation()]


def united(spans: Sequence[tuple[int, int]]) -> int:
    """How long at least one of the spans lasts."""
    total = until = 0
    for start, end in sorted(spans):
        total += max(0, end - max(start, until))
        until = max(until, end)
    return total


def heads(bench: Bench) -> str:
    """Logits in float32, by weights that were cast and by wide sums of the model's own dtype."""
    rows = torch.randn(512, bench.model.config.hidden_size, device=bench.device, dtype=bench.shape.dtype)
    wide = bench.model.lm_head.weight.float()
    ways = {"cast": lambda: linear(rows.float(), wide), "ours": lambda: bench.head.log_probs(rows)}
    took = bench.turns(ways | {"product": lambda: rows @ bench.model.lm_head.weight.T})
    gap = (linear(rows.float(), wide).log_softmax(-1) - bench.head.log_probs(rows)).abs().max()
    told = [
        ("logits by cast weights", took["cast"], ""),
        ("log-probabilities, ours", took["ours"], f"{float(gap):.2g}"),
        ("the product alone, in the model's dtype", took["product"], ""),
    ]
    shown = [(name, f"{1000 * seconds:.2f}", apart) for name, seconds, apart in told]
    return table("512 rows through the head", shown, "ms", "largest difference, nat")


def bits(bench: Bench) -> str:
    """Whether what is read depends on when, beside what, and by which way it comes to the CPU."""
    budget, rows, groups = max(bench.shape.budgets), [], bench.groups[:BATCH]

    def gap(one: Sequence[Any], other: Sequence[Any]) -> str:
        flat = [np.concatenate([reading.logp for read in many for reading in read.readings]) for many in (one, other)]
        return f"{np.abs(flat[0] - flat[1]).max():.2g}"

    def taken(one: Sequence[Any], other: Sequence[Any]) -> str:
        pairs = zip(one, other, strict=True)
        gaps = [(a.captured.residuals["resid_post"] - b.captured.residuals["resid_post"]).abs().max() for a, b in pairs]
        return f"{float(max(gaps)):.2g}"

    def read(requests: Sequence[Group], **more: Any) -> list[Any]:
        return start_reading(requests, bench.backend, bench.head, budget=budget, **more)()

    at_once = [list(chain.from_iterable(groups))]
    plain_copies = {module: module.download for module in (log_probs, backends)}
    for kernel, fused in dict.fromkeys((kernel, fused) for kernel, _, fused in bench.ways()):
        told = f"{kernel}{', fused blocks' * fused}"
        bench.under(kernel, fused, lambda: None)()
        first = read(at_once)
        rows.append((f"{told}: the same again", gap(first, read(at_once))))
        plan = CapturePlan(layers="all")
        captured = read(at_once, capture=plan)
        for module in plain_copies:
            vars(module)["download"] = lambda values: values.cpu  # as before copies had a stream of their own
        waited = read(at_once, capture=plan)
        for module, beside in plain_copies.items():
            vars(module)["download"] = beside
        rows.append((f"{told}: by plain copies, not by a stream of their own", gap(captured, waited)))
        rows.append((f"{told}: residual streams by plain copies (not nat)", taken(captured, waited)))
        rows.append((f"{told}: with the residual stream", gap(first, captured)))
        alone = [read([group])[0] for group in groups]
        rows.append((f"{told}: alone, not among others", gap(first, alone)))
        joined, joined_alone = (
            [reading for requests in sets for reading in read(requests, joined=True)]
            for sets in ([groups], [[group] for group in groups])
        )
        rows.append((f"{told}, `together`: alone, not among others", gap(joined, joined_alone)))
        rows.append((f"{told}: `together`, not one tree", gap(joined, first)))
    ways = list(dict.fromkeys((kernel, fused) for kernel, _, fused in bench.ways()))
    if len(ways) > 1:
        plain, last = (bench.under(*way, lambda: read(at_once))() for way in (ways[-2], ways[-1]))
        rows.append((f"{ways[-1]}, not {ways[-2]}", gap(plain, last)))
    return table("what is read", rows, "largest difference, nat")


def sampled(bench: Bench) -> str:
    """Texts."""
    work = bench.sample()
    work()
    seconds = bench.seconds(work)
    tokens = bench.shape.draws * bench.shape.length
    rows = [("ours", f"{seconds:.2f}", f"{tokens / seconds:,.0f}")]
    return table(f"{bench.shape.draws} texts of {bench.shape.length} tokens", rows, "seconds", "tokens a second")


def measured(name: str, device: str, rounds: int, brief: bool) -> Iterator[str]:
    """All tables of a shape, as they come."""
    bench = Bench(name, device, rounds, brief)
    peak = bench.rate(bench.shape.dtype)
    yield (
        f"## {name}: {sum(p.numel() for p in bench.model.parameters()) / 1e9:.2f} B parameters, {bench.shape.dtype}, "
        f"kernels {', '.join(bench.kernels)}\n\n"
        f"{len(bench.groups)} items, {bench.tokens:,} unique tokens, {bench.rows:,} rows; peak {peak / 1e12:.4g} "
        f"Top/s; budgets chosen here: {budgets_of(bench.model)}; {len(bench.fused.parts)} parts fused, compiled in "
        f"{bench.compiling:.1f} s"
    )
    parts = {
        "ceilings": bench.ceilings,
        "head": lambda: heads(bench),
        "read-outs": lambda: readouts(bench, peak),
        "busy": lambda: busy(bench),
        "bits": lambda: bits(bench),
        "samples": lambda: sampled(bench),
    }
    for part, work in parts.items():
        began = time.perf_counter()
        try:
            yield work()
        except Exception as error:  # the other tables are worth having
            yield f"{part}: failed, {type(error).__name__}: {error}"
            traceback.print_exc()
        print(f"{part}: {time.perf_counter() - began:.1f} s", flush=True)


def main() -> None:
    """Measure, print and keep."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    parser = argparse.ArgumentParser()
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", default=["1b", "8b"] if device == "cuda" else ["tiny"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--brief", action="store_true", help="without other kernels, budgets and peers")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    call = f"{' '.join(given.shapes)} --rounds {given.rounds}{' --brief' * given.brief}"
    now = datetime.now(UTC)
    where = torch.cuda.get_device_name() if device == "cuda" else platform.machine()
    versions = f"torch {torch.__version__}, transformers {version('transformers')}"
    head = (
        f"`python benchmarks/gpu.py {call}`, {now:%Y-%m-%d %H:%M} UTC\n"
        f"{where}, Python {platform.python_version()}, {versions}"
    )
    given.out.mkdir(parents=True, exist_ok=True)
    path = given.out / f"gpu-{now:%Y%m%dT%H%M}.md"
    with path.open("w", encoding="utf-8") as file:
        for name in given.shapes:
            for part in chain(
                [head] if name == given.shapes[0] else (), measured(name, device, given.rounds, given.brief)
            ):
                print(part, flush=True)
                file.write(f"{part}\n\n")
                file.flush()
            gc.collect()
            torch.cuda.empty_cache()
    print(path)


if __name__ == "__main__":
    main()
