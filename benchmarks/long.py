"""Long prompts and many options: what is run, what it takes, and how it compares with plain passes.

    python benchmarks/long.py [--words N ...] [--options N ...] [--out FOLDER]

A random Llama of two layers with room for 65,536 tokens, read with the token budget of the device (1,024 on a CPU).
The first table has prompts of so many words with two options, the second so many options that the prompt lists, too.
`run over tree` is the tokens that went through the model over the unique ones of the tree. Sampled forms are computed
again, each in a forward pass of its own. Each row has a process to itself: `peak` is by how much its memory rose while
it read.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import argparse
import platform
import random
import sys
import tempfile
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np
from memory import alone, peak

CONTEXT = 65_536
WORDS, OPTIONS = (100, 1_000, 3_200, 10_000, 32_000), (2, 20, 200, 2_000)
SAMPLED = 3
"""Options whose forms are read again by plain passes."""
KNOWN = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
RESULTS = Path(__file__).parent / "results"
HEADINGS = ("tokens of the tree", "run", "run over tree", "passes", "seconds", "peak, MB", "from plain passes, nat")


class Row(NamedTuple):
    """What reading a prompt took."""

    tree: int
    run: int
    passes: int
    seconds: float
    megabytes: float
    apart: float
    """Largest difference of a sampled form from its plain pass, in nats."""


def save_model(folder: Path) -> None:
    """A random model with a long context, whose tokenizer knows the words and spells all others."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from doxascope.hooks.checks.tiny_models import save_tiny

    save_tiny(folder, [" ".join(KNOWN)] * 50)
    config = LlamaConfig.from_pretrained(folder)
    config.update({"max_position_embeddings": CONTEXT, "num_hidden_layers": 2, "hidden_size": 64, "head_dim": 16})
    config.update({"intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2})
    config.initializer_range = 0.2  # smaller ones give every word the same chance
    torch.manual_seed(0)
    LlamaForCausalLM(config).save_pretrained(folder)


def read(folder: Path, n_words: int, n_options: int) -> Row:
    """Read a prompt of so many words, which lists the options if there are many."""
    from doxascope import load
    from doxascope.hooks.exact.option_beliefs import ExactReading, largest_difference
    from doxascope.hooks.prompts.chat import Conversation
    from doxascope.hooks.prompts.options import make_options

    draw = random.Random(0)
    text = " ".join(draw.choices(KNOWN, k=n_words))
    names = ["yes", "no"] if n_options == 2 else [f"item {number}" for number in range(n_options)]
    listed = "" if n_options == 2 else ", ".join(names)
    conversation: Conversation = [{"role": "user", "content": f"{text} {listed}?"}]
    with load(str(folder)) as lm:
        lm.read([lm.reader.query("first", [{"role": "user", "content": "one?"}], make_options(["yes", "no"]))])
        options = make_options(names)
        query, before = lm.reader.query("long", conversation, options), peak()
        began = time.perf_counter()
        readings, cost, _ = lm.read([query])
        seconds, rose = time.perf_counter() - began, peak() - before
        few = sorted(draw.sample(range(n_options), min(SAMPLED, n_options)))
        forms = tuple(readings[0].form_logp[i] for i in few)
        sampled = ExactReading("long", readings[0].logp[few], forms, readings[0].competitor)
        plain = lm.read_plain(lm.reader.query("long", conversation, tuple(options[i] for i in few)))
    apart = largest_difference(sampled, plain)
    return Row(cost.tokens_tree, cost.tokens_run, cost.packs, seconds, rose / 1024, apart)


def table(first: str, rows: dict[int, Row]) -> str:
    """In Markdown."""
    lines = [f"| {' | '.join((first, *HEADINGS))} |", f"| {' | '.join(['---'] * (1 + len(HEADINGS)))} |"]
    for size, row in rows.items():
        cells = (f"{row.tree:,}", f"{row.run:,}", f"{row.run / row.tree:.3f}", f"{row.passes:,}")
        cells += (f"{row.seconds:.2f}", f"{row.megabytes:,.0f}", f"{row.apart:.1e}")
        lines.append(f"| {size:,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--words", type=int, nargs="*", default=WORDS)
    parser.add_argument("--options", type=int, nargs="*", default=OPTIONS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    now = datetime.now(UTC)
    versions = f"torch {version('torch')}, transformers {version('transformers')}"
    print(where := f"{platform.machine()}, Python {platform.python_version()}, {versions}, numpy {np.__version__}")
    with tempfile.TemporaryDirectory() as place:
        alone(save_model, model := Path(place) / "long")
        by_words = {n: alone(read, model, n, 2) for n in given.words}
        print(words := table("words, two options", by_words), flush=True)
        by_options = {n: alone(read, model, 20, n) for n in given.options}
        print(options := table("options, listed", by_options), flush=True)
    head = f"`python benchmarks/{Path(sys.argv[0]).name} {' '.join(sys.argv[1:])}`".replace(" `", "`")
    given.out.mkdir(parents=True, exist_ok=True)
    path = given.out / f"long-{now:%Y%m%dT%H%M}.md"
    path.write_text(f"{head}, {now:%Y-%m-%d %H:%M} UTC\n{where}\n\n{words}\n\n{options}\n", encoding="utf-8")
    print(path)


if __name__ == "__main__":
    main()
