"""How much of a GPU a read-out uses: random weights of the shapes of users' models, and no network.

    python benchmarks/gpu.py [SHAPE ...] [--rounds N]      SHAPE: tiny, 1b, 8b; default: 1b and 8b, on a CPU tiny

The work is that of the default consistency item, in tokens drawn at random: contexts that share a beginning, each
followed by every surface form of every option; eight batches of seven items, so that one can be prepared and another
written while a third is read. A share of the peak counts unique tokens, what they attend to and the rows that are read,
nothing that is computed twice, and of a way that leaves the head out, or is nothing else, that alone; the peak is that
of a matrix product in the same process. Medians of the rounds; all ways of a table take turns.
"""

import argparse
import gc
import platform
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import chain, product
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from peers import kv_cache, padded
from torch.nn.functional import linear, scaled_dot_product_attention
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from doxascope.hooks.backends.captures import CapturePlan
from doxascope.hooks.backends.libraries import TransformersBackend
from doxascope.hooks.exact.option_beliefs import QueryTree, read_packed, start_reading
from doxascope.hooks.exact.queries import Query
from doxascope.hooks.generation.generated_texts import Request, Sampler
from doxascope.hooks.generation.rows import CachedRows
from doxascope.hooks.generation.sampling import Sampling
from doxascope.hooks.model.blocks import body
from doxascope.hooks.model.head import Head
from doxascope.hooks.prompts.chat import Boundary, Prompt
from doxascope.hooks.prompts.options import OptionPaths, Terminators
from doxascope.hooks.prompts.places import ResolvedPosition
from doxascope.hooks.tree.attention import BLOCKS, KERNEL, use_tree_attention
from doxascope.hooks.tree.flex import flex_works
from doxascope.hooks.tree.layouts import Packed
from doxascope.hooks.tree.memory import budgets_of
from doxascope.hooks.tree.token_tree import cut_into_packs

F32 = torch.float32
ALONE, HEAD = "its forward passes alone", "the head on the rows that are read"
BATCH = 7
"""Items in one tree: 14,700 tokens."""
RESULTS = Path(__file__).parent / "results"
Group = list[Query]
T = TypeVar("T")


@dataclass(frozen=True)
class Shape:
    """A model's shape, and how much it is given to do."""

    config: Mapping[str, int]
    dtype: torch.dtype
    items: int
    draws: int
    length: int
    budgets: tuple[int, ...]


def llama_3(hidden: int, inner: int, layers: int) -> Shape:
    """A model of that family, on a GPU."""
    config = dict(vocab_size=128256, max_position_embeddings=32768, rope_theta=500000, hidden_size=hidden)
    config |= dict(intermediate_size=inner, num_hidden_layers=layers, num_attention_heads=32, num_key_value_heads=8)
    return Shape(config, torch.bfloat16, items=56, draws=256, length=128, budgets=(4096, 16384))


SHAPES = {
    "tiny": Shape(
        dict(vocab_size=512, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4)
        | {"num_key_value_heads": 2, "max_position_embeddings": 4096},
        torch.float32,
        items=2,
        draws=8,
        length=8,
        budgets=(1024, 4096),
    ),
    "1b": llama_3(2048, 8192, 16),
    "8b": llama_3(4096, 14336, 32),
}
TRUNK, CONTEXTS, CONTEXT, OPTIONS, FORMS, FORM = 200, 13, 40, 3, 12, 3
"""Of an item: tokens that its contexts share, contexts and their own tokens, options, forms of each, tokens of a form:
2,100 tokens, 1,400 of which are read, as in the default consistency item."""


def items(vocabulary: int, n: int) -> list[Group]:
    """Read-outs of n items, drawn at random."""
    draw = random.Random(0)
    closing = Terminators(words(vocabulary), ["<end>"], [0, 1, 2, 3])

    def ids(count: int) -> tuple[int, ...]:
        return tuple(draw.choices(range(4, vocabulary), k=count))

    def group(number: int) -> Group:
        trunk = ids(TRUNK)
        forms = tuple(tuple(ids(FORM) for _ in range(FORMS)) for _ in range(OPTIONS))
        contexts = (trunk + ids(CONTEXT) for _ in range(CONTEXTS))
        return [
            Query(f"{number}-{i}", Prompt(one, Boundary(None, "")), OptionPaths((), forms), closing, (last(one),))
            for i, one in enumerate(contexts)
        ]

    return [group(number) for number in range(n)]


def last(ids: Sequence[int]) -> ResolvedPosition:
    """Where a capture reads."""
    return ResolvedPosition("last", len(ids) - 1, 1)


def words(vocabulary: int) -> PreTrainedTokenizerFast:
    """A tokenizer that says numbers, since one is asked for the text of a sample."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    made = Tokenizer(models.WordLevel({"a": 4} | {f"w{i}": i for i in range(vocabulary) if i != 4}, "a"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=made)


class Bench:
    """One model of a shape on a device."""

    def __init__(self, name: str, device: str, rounds: int) -> None:
        self.name, self.shape, self.device, self.rounds = name, SHAPES[name], device, rounds
        torch.manual_seed(0)
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        with torch.device(device):
            config = LlamaConfig(**self.shape.config)  # pyright: ignore[reportArgumentType]
            model = LlamaForCausalLM._from_config(config, dtype=self.shape.dtype, attn_implementation="sdpa")
        self.model = model.eval().requires_grad_(False)
        self.head = Head(self.model)
        self.backend = TransformersBackend(self.model, Packed)
        self.kernels = [KERNEL]
        if device == "cuda" and flex_works(self.model):
            self.model.set_attn_implementation("sdpa")
            use_tree_attention(self.model, blocks=True)
            self.kernels.append(BLOCKS)
        self.groups = items(config.vocab_size, self.shape.items)
        self.trees = [QueryTree(group) for group in self.groups]
        self.tokens = sum(len(one.tree) for one in self.trees)
        self.rows = sum(len(one.read_nodes) for one in self.trees)

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
        return {name: float(np.median([one[name] for one in rounds])) for name in ways}

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
            *((f"matrix product, {one}", f"{self.rate(one) / 1e12:.4g} Top/s") for one in (self.shape.dtype, F32)),
            ("copy, bytes read and written", f"{2 * mass.nbytes / took['copy'] / 1e12:.3g} TB/s"),
            (f"causal attention, {length:,} tokens", f"{attended / 1e12:.4g} Top/s"),
        ]
        return table("ceiling", rows, "seen")

    def operations(self, passes: bool = True, head: bool = True) -> float:
        """Of all items: unique tokens through the blocks, what each attends to, and the rows that are read."""
        config = self.model.config
        blocks = sum(p.numel() for p in body(self.model).layers.parameters())  # pyright: ignore[reportAttributeAccessIssue, reportCallIssue]
        seen = sum(sum(one.tree.depths) + len(one.tree) for one in self.trees)
        width = config.num_attention_heads * (config.hidden_size // config.num_attention_heads)
        attended = 4 * seen * width * config.num_hidden_layers
        unembedded = 2 * config.vocab_size * config.hidden_size * self.rows
        return passes * (2 * blocks * self.tokens + attended) + head * unembedded

    def read(self, budget: int, **more: Any) -> list[Any]:
        """The readings of all items."""
        started: list[Any] = []
        readings: list[Any] = []
        for group in self.batches():  # one is built while the one before it is read, as in a run
            started.append(start_reading([group], self.backend, self.head, budget=budget, **more))
            readings += started.pop(0)() if len(started) > 1 else []
        return [*readings, *started.pop()()]

    def batches(self) -> Iterator[Group]:
        """The items in as many at once as a run commits together, in one tree."""
        for start in range(0, len(self.groups), BATCH):
            yield list(chain.from_iterable(self.groups[start : start + BATCH]))

    def under(self, kernel: str, work: Callable[[], T]) -> Callable[[], T]:
        """Work with an attention kernel."""

        def run() -> T:
            self.model.set_attn_implementation(kernel)
            return work()

        return run

    def bare(self, kernel: str, budget: int) -> Callable[[], object]:
        """The forward passes of the packs and nothing else."""
        self.model.set_attn_implementation(kernel)
        batches = []
        for group in self.batches():
            built = QueryTree(group)
            for pack in cut_into_packs(built.tree, built.read_nodes, budget):
                batches += [batch.inputs for batch in self.backend.layout.batches(pack)]

        def run() -> None:
            with torch.inference_mode():
                for inputs in batches:
                    body(self.model)(**inputs, use_cache=False)

        return self.under(kernel, run)

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
    for kernel, budget in product(bench.kernels, bench.shape.budgets):
        told = f"{kernel}, packs of {budget:,}"
        ways[told] = bench.under(kernel, lambda budget=budget: bench.read(budget))
        ways[f"{told}: with the residual stream"] = bench.under(kernel, lambda b=budget: bench.read(b, capture=plan))
        ways[f"{told}: {ALONE}"] = bench.bare(kernel, budget)
    ways[HEAD] = bench.unembed()
    few = bench.groups[:2]
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


def heads(bench: Bench) -> str:
    """Logits in float32, by weights that were cast and by wide sums of the model's own dtype."""
    rows = torch.randn(512, bench.model.config.hidden_size, device=bench.device, dtype=bench.shape.dtype)
    wide = bench.model.lm_head.weight.float()
    took = bench.turns({"cast": lambda: linear(rows.float(), wide), "ours": lambda: bench.head.log_probs(rows)})
    gap = (linear(rows.float(), wide).log_softmax(-1) - bench.head.log_probs(rows)).abs().max()
    told = [
        ("logits by cast weights", took["cast"], ""),
        ("log-probabilities, ours", took["ours"], f"{float(gap):.2g}"),
    ]
    shown = [(name, f"{1000 * seconds:.2f}", apart) for name, seconds, apart in told]
    return table("512 rows through the head", shown, "ms", "largest difference, nat")


def bits(bench: Bench) -> str:
    """Whether what is read depends on when, and beside what."""
    budget, rows = max(bench.shape.budgets), []

    def gap(one: Sequence[Any], other: Sequence[Any]) -> str:
        flat = [np.concatenate([reading.logp for read in many for reading in read.readings]) for many in (one, other)]
        return f"{np.abs(flat[0] - flat[1]).max():.2g}"

    for kernel in bench.kernels:
        together, again = (bench.under(kernel, lambda: bench.read(budget))() for _ in range(2))
        alone = [read_packed(group, bench.backend, bench.head, budget=budget) for group in bench.groups]
        rows.append((f"{kernel}: the same again", gap(together, again)))
        rows.append((f"{kernel}: alone, not among others", gap(together, alone)))
    return table("what is read", rows, "largest difference, nat")


def sampled(bench: Bench) -> str:
    """Texts."""
    work = bench.sample()
    work()
    seconds = bench.seconds(work)
    tokens = bench.shape.draws * bench.shape.length
    rows = [("ours", f"{seconds:.2f}", f"{tokens / seconds:,.0f}")]
    return table(f"{bench.shape.draws} texts of {bench.shape.length} tokens", rows, "seconds", "tokens a second")


def measured(name: str, device: str, rounds: int) -> str:
    """All tables of a shape."""
    bench = Bench(name, device, rounds)
    peak = bench.rate(bench.shape.dtype)
    parts = [
        f"## {name}: {sum(p.numel() for p in bench.model.parameters()) / 1e9:.2f} B parameters, {bench.shape.dtype}, "
        f"kernels {', '.join(bench.kernels)}",
        f"{len(bench.groups)} items, {bench.tokens:,} unique tokens, {bench.rows:,} rows; peak {peak / 1e12:.4g} "
        f"Top/s; budgets chosen here: {budgets_of(bench.model)}",
    ]
    for part in (bench.ceilings(), heads(bench), readouts(bench, peak), bits(bench), sampled(bench)):
        print(part, flush=True)
        parts.append(part)
    return "\n\n".join(parts)


def main() -> None:
    """Measure, print and keep."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    parser = argparse.ArgumentParser()
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", default=["1b", "8b"] if device == "cuda" else ["tiny"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    now = datetime.now(UTC)
    where = torch.cuda.get_device_name() if device == "cuda" else platform.machine()
    versions = f"torch {torch.__version__}, transformers {version('transformers')}"
    head = (
        f"`python benchmarks/gpu.py {' '.join(given.shapes)} --rounds {given.rounds}`, {now:%Y-%m-%d %H:%M} UTC\n"
        f"{where}, Python {platform.python_version()}, {versions}"
    )
    print(head, flush=True)
    parts = [head]
    for name in given.shapes:
        parts.append(measured(name, device, given.rounds))
        gc.collect()
        torch.cuda.empty_cache()
    text = "\n\n".join(parts)
    given.out.mkdir(parents=True, exist_ok=True)
    path = given.out / f"gpu-{now:%Y%m%dT%H%M}.md"
    path.write_text(text + "\n", encoding="utf-8")
    print(path)


if __name__ == "__main__":
    main()
