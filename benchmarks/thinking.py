"""What many long thoughts of one prompt cost, on a tiny random model: in rows of keys and values of their own, against
a tree in which all histories share one cache.

    python benchmarks/thinking.py [draws] [tokens] [device]

First all thoughts have so many tokens, which is their limit; then they end by themselves after about as many, within
the limit of 3,000 that is the default. The tree holds as many histories at once as the rows do, and then as few as a
budget of 4,096 tokens admits, which was the default as long as thoughts were sampled in it. The random numbers are the
same; tokens may part where rounding decides. Times are CPU seconds of this process, on a GPU seconds.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import platform
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime

import torch
import transformers
from transformers import LlamaConfig, LlamaForCausalLM

import doxascope
from doxascope.hooks.generation.generated_texts import Request, Sampler
from doxascope.hooks.generation.histories import CachedHistories
from doxascope.hooks.generation.rows import CachedRows, HistoryRows, TreeRows
from doxascope.hooks.generation.sampled_beliefs import Thoughts
from doxascope.hooks.generation.sampling import Sampling
from doxascope.hooks.model.head import Head
from doxascope.hooks.prompts.chat import Boundary, Prompt

VOCABULARY, PROMPT, FEW = 512, 48, 4096
LIMIT = Thoughts().max_new_tokens


class Numbers:
    """A tokenizer that says numbers."""

    def __call__(self, text: str, **_: object) -> dict[str, list[int]]:
        """Two ids, whatever the text."""
        return {"input_ids": [0]}

    def decode(self, ids: list[int], **_: object) -> str:
        """The ids."""
        return " ".join(map(str, ids))


def main(draws: int, tokens: int, device: str) -> None:
    """Sample both ways and print."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=0.2,
    )
    model = LlamaForCausalLM(config).eval().requires_grad_(False)
    model.to(device)  # pyright: ignore[reportArgumentType]
    prompt = Prompt(tuple(range(PROMPT)), Boundary(None, ""))
    clock = time.process_time if device == "cpu" else time.perf_counter
    print(
        f"`python benchmarks/thinking.py {draws} {tokens} {device}`, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC\n"
        f"{platform.machine()}, {torch.get_num_threads()} thread(s), doxascope {doxascope.__version__}, torch "
        f"{torch.__version__}, transformers {transformers.__version__}\n{draws} draws after a prompt of {PROMPT} "
        f"tokens, Llama of 2 layers, d_model 64, {VOCABULARY} words"
    )

    inside = [0.0]  # seconds of forward passes
    model.model.register_forward_pre_hook(lambda *_: inside.append(-clock()))
    model.model.register_forward_hook(lambda *_: inside.append(clock()))

    def sample(rows: HistoryRows, budget: int, limit: int, ends: Sequence[int]) -> tuple[list[tuple[int, ...]], float]:
        """The ids of each draw, and seconds."""
        sampler = Sampler(Numbers(), Head(model), ends)  # type: ignore
        requests, law = [Request("r", prompt, range(draws))], Sampling(max_new_tokens=limit)
        inside.clear()
        began = clock()
        found = sampler.generate(requests, rows, law, seed=0, budget=budget)
        return [one.ids for one in found], clock() - began

    def compare(limit: int, ends: Sequence[int], budgets: dict[str, int]) -> None:
        """Rows against the tree within each budget."""
        sample(CachedRows(model, FEW), draws * (PROMPT + limit), 2, ends)  # what a first call costs
        ours, seconds = sample(CachedRows(model, FEW), draws * (PROMPT + limit), limit, ends)
        n = sum(map(len, ours))
        print(f"\n{n / draws:.0f} tokens each, at most {limit}\n")
        passes = (
            f", {sum(inside) / seconds:.0%} of it forward passes" if device == "cpu" else ""
        )  # a GPU is not waited for
        print(f"- rows: {seconds:.2f} s, {n / seconds:,.0f} tokens a second{passes}", flush=True)
        for name, budget in budgets.items():
            theirs, other = sample(TreeRows(CachedHistories(model)), budget, limit, ends)
            same = sum(one == two for one, two in zip(ours, theirs, strict=True))
            print(
                f"- a tree, {name}: {other:.2f} s, {other / seconds:.1f} x; {same} texts of {draws} the same",
                flush=True,
            )

    few = {f"within {FEW:,} tokens": FEW}
    compare(tokens, [], {"all at once": draws * (PROMPT + tokens)} | few)
    compare(LIMIT, range(VOCABULARY // tokens), few)


if __name__ == "__main__":
    draws, tokens, device = (sys.argv[1:] + ["64", "500", "cpu"][len(sys.argv) - 1 :])[:3]
    main(int(draws), int(tokens), device)
