"""What asking a table of questions costs beyond its bare read-outs.

    python benchmarks/ask.py QUESTIONS [items] [rounds]

`lm.ask` with its tables and scores against `lm.read` of the same compiled queries, question by question; CPU seconds of
this process, both taking their turn in every round.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import sys
import time
from collections.abc import Callable

import numpy as np

from doxascope import AskedSource, load
from doxascope.experiments.run.readouts import compile_questions
from doxascope.experiments.suite.ask.ask import item_of, questions

MODEL, ITEMS, ROUNDS, AT_MOST = "smollm2-135m", 20, 3, 1.1
METHODS = ("texts", "letters")


def timed(work: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    started = time.process_time()
    work()
    return time.process_time() - started


def main(file: str, items: int, rounds: int) -> bool:
    """Whether asking costs at most so many times the read-outs."""
    chosen = AskedSource(file=file).questions()[:items]
    rows = [
        {"id": c.id, "question": c.text, "options": c.options, "truth": c.truth} for c in (o.choice for o in chosen)
    ]
    with load(MODEL) as lm:
        found = lm.ask(rows[:1], METHODS)  # the back end is checked
        asked = [compile_questions(lm.reader, questions(found.config, item_of(one))) for one in chosen]

        def ask() -> None:
            made = lm.ask(rows, METHODS)
            assert len(made.table) == len(rows) * len(METHODS)

        def read() -> None:
            for own in asked:
                lm.read(own, budget=found.config.token_budget)

        both = np.array([[timed(ask), timed(read)] for _ in range(rounds)])
        started = time.process_time()
        lm.ask(rows, METHODS).scores()
        scored = time.process_time() - started - np.median(both[:, 0])
    ratio = both[:, 0] / both[:, 1]
    print(
        f"{len(rows)} questions of {file}, {', '.join(METHODS)}, Latin orders: {np.median(both[:, 1]):.2f} s of bare "
        f"read-outs; asking takes {np.median(ratio):.3f} ({ratio.min():.3f} to {ratio.max():.3f}) times as long, and "
        f"scores {scored:.2f} s"
    )
    return bool(np.median(ratio) <= AT_MOST)


if __name__ == "__main__":
    given = sys.argv[2:]
    sys.exit(not main(sys.argv[1], int(given[0]) if given else ITEMS, int(given[1]) if len(given) > 1 else ROUNDS))
