"""What the token tree saves: packed read-outs against one forward pass per surface form, in one run.

    make bench

Both compute the same option log-probabilities of the consistency experiment's contexts with the default surface
forms. Rounds alternate, so that a machine whose speed drifts does not favour either; the figure is the ratio.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import platform
import statistics
import time
from collections.abc import Callable

import torch
import transformers

from doxascope import load
from doxascope.experiments.config import load_config
from doxascope.experiments.runner import compile_questions
from doxascope.hooks.exact import difference

ROUNDS = 3
METHOD = "prefill"


def timed(work: Callable[[], object]) -> float:
    """Seconds of one call."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main() -> None:
    """Measure and print."""
    experiment, config = load_config("consistency", ["items=1"])
    lm = load(config.model)
    item = experiment.items(config)[0]
    queries = compile_questions(lm.reader, [q for q in experiment.questions(config, item) if q.method == METHOD])
    packed, cost = lm.read(queries)
    plain = [lm.read_plain(query) for query in queries]
    gap = max(difference(a, b) for a, b in zip(packed, plain, strict=True))
    rounds = [
        (timed(lambda: lm.read(queries)), timed(lambda: [lm.read_plain(query) for query in queries]))
        for _ in range(ROUNDS)
    ]
    ratios = sorted(plain / packed for packed, plain in rounds)
    forms = sum(len(paths) for query in queries for paths in query.paths.paths)
    print(f"{platform.machine()}, torch {torch.__version__}, transformers {transformers.__version__}", end=", ")
    print(f"{torch.get_num_threads()} threads, {config.model.name}, {config.model.dtype}, method {METHOD}")
    print(f"{len(queries)} contexts, {forms} surface forms, {cost.tokens_tree} unique tokens, {cost.tokens_run} run")
    print(f"packed      {statistics.median(p for p, _ in rounds):8.2f} s")
    print(f"one by one  {statistics.median(p for _, p in rounds):8.2f} s")
    print(f"ratio       {statistics.median(ratios):8.1f}   ({ratios[0]:.1f} to {ratios[-1]:.1f} over {ROUNDS} rounds)")
    print(f"largest difference of a log-probability {gap:.1e} nat")


if __name__ == "__main__":
    main()
