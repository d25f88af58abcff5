"""What looking inside costs, beside the passes that are run anyway.

    make bench        or: python benchmarks/inside.py [rounds]

Inner read-outs: an item of `consistency` as it is shipped, with the residual stream of every layer captured at the
positions that it declares, against the same with inner layers read too, raw and translated. The two take turns, and a
ratio is of neighbours, in seconds of the processor, so that what else the machine does counts little. What is read
exactly is compared to the bit first.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import NamedTuple

import numpy as np
import torch

from doxascope import load
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.readouts import compile_questions
from doxascope.hooks.backends.captures import CapturePlan
from doxascope.hooks.exact.option_beliefs import PackedReading
from doxascope.hooks.lens.lens import Lens, TunedLens
from doxascope.hooks.lm import LanguageModel
from doxascope.hooks.model.blocks import Every

MODEL, THREADS, ROUNDS, GATE = "smollm2-135m", 2, 5, 1.25
CAPTURE = CapturePlan()
READ = {  # what is asked -> what is read inside, of which layers
    "letters": (("letters",), ("letters",), CAPTURE),
    "letters, every 4th layer": (("letters",), ("letters",), CapturePlan(layers=Every(every=4))),
    "all methods": (("free", "prefill", "letters"), ("letters",), CAPTURE),
    "all methods, every 4th layer": (("free", "prefill", "letters"), ("letters",), CapturePlan(layers=Every(every=4))),
}


class Row(NamedTuple):
    """Two ways to be timed in turns."""

    name: str
    plain: Callable[[], object]
    inside: Callable[[], object]


def inner_readouts(lm: LanguageModel) -> Iterator[Row]:
    """Passes with a capture, without and with inner layers."""
    experiment, config = load_config("consistency", ["items=1", "fork.methods=[]"])
    (item,) = experiment.items(config)
    for name, (asked, inner, plan) in READ.items():
        questions = [q for q in experiment.questions(config, item) if q.method in asked]
        queries = [
            replace(query, inner=question.method in inner)
            for query, question in zip(compile_questions(lm.reader, questions, CAPTURE), questions, strict=True)
        ]
        lens = Lens(lm.model, nothing(plan.layer_numbers(lm.identity.n_layers), lm.identity.d_model))
        yield Row(
            f"{name}: {sum(query.inner for query in queries)} of {len(queries)} read-outs x {len(lens.views)} views",
            lambda queries=queries: lm.read(queries, capture=CAPTURE),
            lambda queries=queries, lens=lens: lm.read(queries, capture=CAPTURE, lens=lens),
        )


PARTS: dict[str, Callable[[LanguageModel], Iterator[Row]]] = {"inner read-outs": inner_readouts}


def nothing(layers: Sequence[int], d_model: int) -> TunedLens:
    """A translator that leaves all as it is: the time does not depend on its values."""
    n = len(layers)
    maps = torch.zeros(n, d_model, d_model), torch.zeros(n, d_model)
    return TunedLens(tuple(layers), *maps, np.full(n, np.nan), (1.0,) * n, {})


def alike(one: object, other: object) -> bool:
    """Whether two readings are the same to the bit, where they are readings."""
    if not (isinstance(one, PackedReading) and isinstance(other, PackedReading)):
        return True
    return all(np.array_equal(a.logp, b.logp) for a, b in zip(one.readings, other.readings, strict=True))


def seconds(way: Callable[[], object]) -> float:
    """Of one turn, of the processor, all threads."""
    started = time.process_time()
    way()
    return time.process_time() - started


def main(rounds: int) -> None:
    """Measure every row of every part and print the tables."""
    libraries = ", ".join(f"{n} {version(n)}" for n in ("torch", "transformers"))
    with load(MODEL, threads=THREADS) as lm:
        print(f"{platform.machine()}, {THREADS} threads, {libraries}; {MODEL}, float32")
        for title, part in PARTS.items():
            print(f"\n| {title} | seconds | inside, seconds | ratio, median (range) of {rounds} |\n|---|---|---|---|")
            for row in part(lm):
                if not alike(row.plain(), row.inside()):
                    sys.exit(f"{row.name}: looking inside changes what is read")
                plain, inside = np.array([[seconds(row.plain), seconds(row.inside)] for _ in range(rounds)]).T
                ratios = inside / plain
                verdict = "met" if np.median(ratios) <= GATE else "missed"
                print(
                    f"| {row.name} | {np.median(plain):.2f} | {np.median(inside):.2f} | {np.median(ratios):.2f} "
                    f"({min(ratios):.2f} to {max(ratios):.2f}); at most {GATE:.2f}: {verdict} |",
                    flush=True,
                )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
