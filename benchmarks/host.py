"""What a run does beside its model: CPU time of the default consistency item, on a random model of one narrow layer
with a real tokenizer, whose passes take next to nothing.

    python benchmarks/host.py [items]

Counted is everything from an item to its committed batch: questions, templates, tokens, the tree, packs and masks, what
is gathered of the log-probabilities, sums, rows, files. Not counted are the forward passes and the unembedding. Parts
are seconds within calls; what is left is between them. Of several rounds, each of other items, the least: others may be
at work.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import platform
import sys
import time
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import doxascope
from doxascope.experiments.run import readouts as reading
from doxascope.experiments.run import worker
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.folder import RunFolder
from doxascope.hooks.exact import option_beliefs as exact
from doxascope.hooks.exact.log_probs import Steps
from doxascope.hooks.model.blocks import body
from doxascope.hooks.model.head import Head
from doxascope.hooks.model.loading import load_text_side
from doxascope.hooks.model.spec import resolve_model
from doxascope.hooks.tree import layouts as layout

TOKENIZER, ROUNDS, BATCH = "smollm2-135m", 3, 4
MODEL = ("forward passes", "unembedding")


def save_model(folder: Path) -> None:
    """A model that takes no time."""
    tokenizer = load_text_side(resolve_model(TOKENIZER)).tokenizer
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        initializer_range=0.2,
        bos_token_id=tokenizer.bos_token_id,  # pyright: ignore[reportArgumentType]
        eos_token_id=tokenizer.eos_token_id,  # pyright: ignore[reportArgumentType]
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


class Clock:
    """CPU seconds by name."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = defaultdict(float)

    def watch(self, owner: Any, name: str, title: str) -> None:
        """Count what calls of a function take."""
        function = getattr(owner, name)

        def watched(*args: Any, **kwargs: Any) -> Any:
            began = time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                self.spent[title] += time.process_time() - began

        setattr(owner, name, watched)


def main(n: int) -> None:
    """Read the items some times, and print."""
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        save_model(Path(folder, "model"))
        settings = [f"items={n * (1 + ROUNDS)}", f"batch_items={min(n, BATCH)}"]
        experiment, config = load_config("consistency", settings, str(Path(folder, "model")))
        clock, rounds = Clock(), []
        with worker.Worker(experiment, config, experiment.items(config)) as at_work:
            each = len(worker.batches(at_work.began.config, at_work.items)) // (1 + ROUNDS)
            clock.watch(body(at_work.lm.model), "forward", MODEL[0])
            clock.watch(Head, "log_probs", MODEL[1])
            clock.watch(type(experiment), "questions", "questions")
            clock.watch(reading, "compile_questions", "templates and tokens")
            clock.watch(exact, "QueryTree", "tree")
            clock.watch(exact, "cut_into_packs", "packs")
            clock.watch(exact, "finished", "sums")
            clock.watch(Steps, "keep", "gathered of the log-probabilities")
            clock.watch(layout, "pack_masks", "masks")
            clock.watch(reading, "reading_rows", "rows")
            clock.watch(worker.Worker, "_batch", "table")
            clock.watch(RunFolder, "commit", "files")
            for number in range(1 + ROUNDS):
                run = RunFolder.create(Path(folder, f"run-{number}"))
                clock.spent.clear()
                began = time.process_time()
                for one in at_work.read(range(number * each, (number + 1) * each), None):
                    run.commit(one.number, one.beliefs, one.transcripts, one.note)
                rounds.append({"all": time.process_time() - began, **clock.spent})
    best = min(rounds[1:], key=lambda one: one["all"] - sum(one[name] for name in MODEL))
    beside = best["all"] - sum(best[name] for name in MODEL)
    parts = {name: seconds for name, seconds in best.items() if name not in ("all", *MODEL)}
    told = parts | {"between them": beside - sum(parts.values())}
    print(
        f"`python benchmarks/host.py {n}`, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC\n"
        f"{platform.machine()}, one thread, doxascope {doxascope.__version__}, torch {torch.__version__}\n\n"
        f"{1000 * beside / n:.1f} ms of CPU for each of {n} default consistency items beside the model:\n"
    )
    for name, seconds in told.items():
        print(f"- {name}: {1000 * seconds / n:.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
