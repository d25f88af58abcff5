"""What the beliefs along a trajectory cost: all prefixes in one tree, against a forward pass for each.

    python benchmarks/trajectories.py [rounds]

Read is the exact belief of `configs/martingale.yaml` after every step, in its first wording and both orders of the
options. The floor is one plain forward pass of the longest prefix, which has the last token's distribution and nothing
else. Times are CPU seconds of this process, and all rows take their turn in every round, so that a busy machine favours
none. How much is added depends on how long a step is beside the question that hangs off it; tokens say that exactly,
and a plain pass of as many tokens says what they must cost.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import platform
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version

import numpy as np

from doxascope import load
from doxascope.experiments.materials.trajectories import chain
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.readouts import compile_questions
from doxascope.experiments.suite.martingale import MartingaleConfig
from doxascope.experiments.suite.martingale.ask import along, chain_request, exact_questions
from doxascope.hooks.exact.queries import Query
from doxascope.hooks.generation.generated_texts import GeneratedText
from doxascope.hooks.lm import LanguageModel

MODEL, ROUNDS, STEPS, AT_MOST = "smollm2-135m", 3, 8, 1.3
BUDGET = 8192
"""So that a trajectory is one pack."""
SENTENCE = (
    "Looking at part {k} of the matter, the two numbers that the question names have to be compared with what a "
    "careful reader would find by working it out on paper, and nothing in it settles the answer yet. "
)
LENGTHS = (1, 2, 3)
"""Sentences of a step."""


def queries_of(lm: LanguageModel, config: MartingaleConfig, sentences: int) -> list[list[Query]]:
    """The read-outs after each prefix of a chain of `STEPS` steps."""
    experiment, _ = load_config("martingale")
    item = experiment.items(config)[0]
    text = "\n\n".join("".join(SENTENCE.format(k=f"{k}.{i}") for i in range(sentences)) for k in range(1, STEPS + 1))
    made = chain(lm, chain_request(config, item, "none"), GeneratedText("steps", 0, (), f" {text}", (), "ok"))
    prefixes = along(config, item, "cot", "none", [made])
    return [compile_questions(lm.reader, exact_questions(config, [prefix])) for prefix in prefixes]


def timed(work: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    started = time.process_time()
    work()
    return time.process_time() - started


def forward(lm: LanguageModel, ids: Sequence[int]) -> None:
    """One plain forward pass."""
    import torch

    with torch.inference_mode():
        lm.model(input_ids=torch.tensor([ids], device=lm.model.device), logits_to_keep=1)


def main(rounds: int) -> None:
    """Measure and print."""
    _, config = load_config("martingale", ["items=2"])
    assert isinstance(config, MartingaleConfig)
    method = config.methods["words"]
    words = config.model_copy(update={"methods": {"words": method.model_copy(update={"ask": method.ask[:1]})}})
    print(
        f"`python benchmarks/trajectories.py {rounds}`, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC; {platform.machine()}, "
        f"Python {platform.python_version()}, torch {version('torch')}; {MODEL}, float32; {STEPS} steps\n"
    )
    print("Times the forward pass of the longest prefix:\n")
    print("| tokens of a step | longest path | tree | tokens | one tree | plain, as many | one by one | at most 1.3 |")
    print("|---|---|---|---|---|---|---|---|")
    with load(MODEL) as lm:
        for sentences in LENGTHS:
            each = queries_of(lm, words, sentences)
            every = [query for own in each for query in own]
            last = each[-1][0].prompt.ids
            step = (len(last) - len(each[0][0].prompt.ids)) / STEPS
            _, cost, _ = lm.read(every, budget=BUDGET)
            rows = (
                lambda ids=last: forward(lm, ids),
                lambda all_=every: lm.read(all_, budget=BUDGET),
                lambda ids=(last * 2)[: cost.tokens_tree]: forward(lm, ids),
                lambda parts=each: [lm.read(own, budget=BUDGET) for own in parts],
            )
            seconds = np.array([[timed(row) for row in rows] for _ in range(rounds)])
            times = np.median(seconds / seconds[:, :1], axis=0)
            print(
                f"| {step:.0f} | {len(last)} | {cost.tokens_tree} | {cost.tokens_tree / len(last):.2f} | "
                f"{times[1]:.2f} ({seconds[:, 1].min():.1f} s) | {times[2]:.2f} | {times[3]:.2f} | "
                f"{'met' if times[1] <= AT_MOST else 'MISSED'} |",
                flush=True,
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
