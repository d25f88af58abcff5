"""What a capture costs: the residual stream of every layer at the last token of 60 contexts, by us and by the peers.

    make bench        or: python benchmarks/capture.py [rounds]

Each way runs in a process of its own, so that its peak memory is its own; the figure is what the process took beyond
the loaded model. Ours reads the options, too, and takes turns with the same passes without a capture. The peers give
the residuals alone, one context at a time, without the logits of other tokens. What they find is compared first.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from peers.workload import ONE_FORM, compiled

from doxascope import load
from doxascope.hooks.backends.captures import CapturePlan
from doxascope.hooks.backends.libraries import make_backend
from doxascope.hooks.exact.queries import Query
from doxascope.hooks.lm import LanguageModel
from doxascope.hooks.model.blocks import blocks
from doxascope.hooks.prompts.places import ResolvedPosition
from doxascope.hooks.tree.layouts import Packed
from doxascope.hooks.tree.memory import CPU_PACK

MODEL, THREADS, TRIPLES = "smollm2-135m", 2, 6
ROUNDS = 3
GATE, NEAR = 1.10, 1e-3
OURS, SMALL = "doxascope", 256
Group = Sequence[Query]
Way = Callable[[LanguageModel], Callable[[Group], torch.Tensor]]
"""From a model to what gives [contexts, layers, d_model] of a group."""


def ours(budget: int) -> Way:
    """Our read-out with a capture, in packs of at most `budget` tokens."""

    def way(lm: LanguageModel) -> Callable[[Group], torch.Tensor]:
        def read(group: Group) -> torch.Tensor:
            captured = lm.read(group, capture=CapturePlan(), budget=budget).captured
            assert captured is not None
            return captured.residuals["resid_post"]

        return read

    return way


def hidden_states(lm: LanguageModel) -> Callable[[Group], torch.Tensor]:
    """transformers' own list of hidden states. Its last one is after the final norm."""

    def one(ids: torch.Tensor) -> torch.Tensor:
        output = lm.model(ids, output_hidden_states=True, use_cache=False, logits_to_keep=1)
        return torch.stack([state[0, -1] for state in output.hidden_states[1:]])

    return one_by_one(one)


def run_with_cache(lm: LanguageModel) -> Callable[[Group], torch.Tensor]:
    """TransformerLens, its cache filtered to what is wanted."""
    bridge = served(lm, "transformer_lens").bridge
    names = [f"blocks.{layer}.hook_resid_post" for layer in range(len(blocks(lm.model)))]

    def one(ids: torch.Tensor) -> torch.Tensor:
        _, cache = bridge.run_with_cache(ids, names_filter=names, pos_slice=-1, use_cache=False, logits_to_keep=1)
        return torch.stack([cache[name].flatten() for name in names])

    return one_by_one(one)


def trace(lm: LanguageModel) -> Callable[[Group], torch.Tensor]:
    """nnsight, one row of each layer saved."""
    import nnsight

    traced = served(lm, "nnsight").traced

    def one(ids: torch.Tensor) -> torch.Tensor:
        with traced.trace(ids, use_cache=False, logits_to_keep=1):
            rows = nnsight.save([layer.output[0, -1] for layer in traced.model.layers])
        return torch.stack(rows)

    return one_by_one(one)


WAYS: dict[str, Way] = {
    OURS: ours(CPU_PACK),
    f"doxascope, packs of at most {SMALL} tokens": ours(SMALL),
    "output_hidden_states=True": hidden_states,
    "TransformerBridge.run_with_cache, filtered": run_with_cache,
    "nnsight.trace": trace,
}


def one_by_one(one: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Group], torch.Tensor]:
    """A pass per context."""

    def read(group: Group) -> torch.Tensor:
        with torch.inference_mode():
            return torch.stack([one(torch.tensor([query.prompt.ids])) for query in group])

    return read


def served(lm: LanguageModel, library: str) -> Any:
    """Another library's back end for the model. The weights of the first instance are not needed any more."""
    spec = lm.spec.model_copy(update={"backend": library})
    return make_backend(spec, lm.model, lm.tokenizer)(Packed)


def work(lm: LanguageModel) -> list[Group]:
    """The contexts of each triple, to be captured at their last token."""
    return [
        [replace(q, places=(ResolvedPosition("last", len(q.prompt.ids) - 1, 1),)) for q in group]
        for group in compiled(lm, TRIPLES, ONE_FORM)
    ]


def measure(way: str, rounds: int) -> dict[str, Any]:
    """In a process of its own: seconds of each round, bytes beyond the loaded model, and what was found.

    A round of ours is followed by the same passes without a capture.
    """
    lm = load(MODEL, threads=THREADS)
    groups, read = work(lm), WAYS[way](lm)
    lm.read(groups[0][:1])
    read(groups[0][:1])
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    taken = [read(group) for group in groups]
    peak = memory("VmHWM") - before
    readers = (read, lm.read) if way == OURS else (read,)
    turns = [[seconds(one, groups) for one in readers] for _ in range(rounds)]
    norms = torch.cat(taken)[:, :-1].double().norm(dim=-1)
    return {"turns": turns, "peak": peak, "norms": norms.mean(dim=0).tolist(), "contexts": len(norms)}


def memory(name: str) -> int:
    """Bytes of this process, as Linux counts them."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024


def seconds(read: Callable[[Group], object], groups: Sequence[Group]) -> float:
    """Of one reading of all groups."""
    started = time.perf_counter()
    for group in groups:
        read(group)
    return time.perf_counter() - started


def spread(values: NDArray[np.float64]) -> str:
    """Median and range."""
    return f"{np.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def main(rounds: int) -> None:
    """Measure every way, compare and print."""
    found = {}
    for way in WAYS:
        command = [sys.executable, __file__, str(rounds), way]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        found[way] = json.loads(done.stdout.splitlines()[-1])
    own = found[OURS]
    own_seconds, bare = np.array(own["turns"]).T
    libraries = ", ".join(f"{n} {version(n)}" for n in ("torch", "transformers", "transformer-lens", "nnsight"))
    print(f"{platform.machine()}, {THREADS} threads, {libraries}; {MODEL}, float32")
    print(f"{own['contexts']} contexts, all layers, last token; medians (ranges) of {rounds} rounds\n")
    print("| way | seconds | times ours | MB beyond the model | times ours |\n|---|---|---|---|---|")
    for way, one in found.items():
        gap = float(np.max(np.abs(np.array(one["norms"]) / np.array(own["norms"]) - 1)))
        if gap > NEAR:
            sys.exit(f"{way}: the residuals' norms differ from ours by {gap:.1e}")
        took = np.array(one["turns"])[:, 0]
        slower, heavier = np.median(took) / np.median(own_seconds), one["peak"] / own["peak"]
        print(f"| {way} | {spread(took)} | {slower:.2f} | {one['peak'] / 1e6:.0f} | {heavier:.1f} |")
    ratios = own_seconds / bare
    verdict = "met" if np.median(ratios) <= GATE else "MISSED"
    print(f"\nThe same passes with a capture over without: {spread(ratios)}; at most {GATE:.2f}: {verdict}")


if __name__ == "__main__":
    chosen = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    if len(sys.argv) > 2:
        print(json.dumps(measure(sys.argv[2], chosen)))
    else:
        main(chosen)
