"""Exact number distributions on a real model: do written answers follow them, and what do they cost?

    python benchmarks/number_beliefs.py [draws [rounds]]

The answers are the model's own (temperature 1, nothing truncated), parsed strictly. The cost is compared with a yes/no
read-out of the very same prompt, in turns, so that a machine whose speed drifts favours neither.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import platform
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import numpy as np
from scipy import stats

from doxascope import load
from doxascope.hooks.exact.queries import Query
from doxascope.hooks.generation.sampling import Sampling
from doxascope.hooks.lm import LanguageModel
from doxascope.hooks.prompts.chat import Message
from doxascope.hooks.prompts.options import make_options
from doxascope.hooks.verbal.number_distributions import read_numbers
from doxascope.hooks.verbal.number_formats import INTEGER, JSON, PERCENT, UNIT, NumberFormat, count_format
from doxascope.hooks.verbal.stated_beliefs import Answer, NumberQuestion, ask_number, write_answers

MODEL, DRAWS, ROUNDS, AT_MOST = "smollm2-135m", 1000, 3, 3.0
LAW = Sampling(max_new_tokens=10)
"""Enough for every form and its terminator: what is longer is outside the format."""
SYSTEM = "You are a careful forecaster."
URN = "An urn holds 10 balls, 7 of them red and 3 of them blue. One ball is drawn at random. Is it red?"
BACKGROUND = (
    "The central bank has raised its rate at three of its last four meetings. Inflation stands at 3.1%, down from 4.0% "
    "half a year ago, and analysts are divided on whether the next step comes before the summer. "
)
BANK = f"{BACKGROUND}Will the central bank raise its rate at its next meeting?"
LABELLED = replace(INTEGER, name="integer, after `Answer:`", labels=("Answer: ",))
RESULTS = Path(__file__).parent / "results"


def question(lm: LanguageModel, text: str, one: NumberFormat) -> NumberQuestion:
    """A question in a format."""
    chat: list[Message] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}]
    return ask_number(lm.reader, f"{text}/{one.name}", chat, one.worded("Yes", "No"))


def g_test(answers: Sequence[Answer], asked: NumberQuestion, logp: np.ndarray) -> tuple[float, int]:
    """p-value and cells: the numbers with an expected count of 5, all others together, and no number.

    Only answers that begin as the format has it: the parser also takes a JSON field without a space before its value.
    """
    begun = [answer for answer in answers if answer.text.startswith(asked.prefill + asked.opening)]
    said = np.array([answer.values[-1] for answer in begun if answer.status == "ok"])
    expected = len(answers) * np.exp(logp)
    often = expected >= 5
    counts = [np.sum(said == number.value) for number, keep in zip(asked.format.numbers, often, strict=True) if keep]
    observed = [*counts, len(said) - sum(counts), len(answers) - len(said)]
    law = [*expected[often], expected[~often].sum(), len(answers) - expected.sum()]
    return float(stats.power_divergence(observed, law, lambda_="log-likelihood").pvalue), len(law)


def checked(lm: LanguageModel, asked: NumberQuestion, draws: int) -> Iterator[str]:
    """Written answers against their exact law."""
    (read,) = read_numbers(lm, [asked])
    began = time.perf_counter()
    (answers,) = write_answers(lm, [asked], LAW, draws=draws)
    seconds = time.perf_counter() - began
    parsed = [answer for answer in answers if answer.status == "ok"]
    said = [answer.values[-1] for answer in parsed if answer.text.startswith(asked.prefill + asked.opening)]
    told = read.belief
    p, cells = g_test(answers, asked, told.logp)
    without = told.logp.copy()
    without[int(told.prob.argmax())] = -np.inf
    refused, _ = g_test(answers, asked, without)
    endings = ", ".join(f"{n} {name}" for name, n in Counter(answer.status for answer in answers).most_common())
    error = np.std(said, ddof=1) / np.sqrt(len(said))
    yield f"**{asked.format.name}**: {asked.messages[-1]['content']!r}"
    yield (
        f"- exact: in the format {told.coverage:.4f}; mean {told.mean:.4f}, sd {told.sd:.3f}, mode {told.mode:.2f}, "
        f"median {told.median:.2f}, entropy {told.entropy:.2f} bits"
    )
    yield (
        f"- {draws} answers ({seconds:.0f} s): in the format {len(said) / draws:.4f}; mean {np.mean(said):.4f} "
        f"(se {error:.4f}); parsed in any spacing {len(parsed) / draws:.4f}; {endings}"
    )
    yield f"- G-test over {cells} cells: p = {p:.3f}; without the likeliest number: p = {refused:.0e}"


def cost(lm: LanguageModel, asked: NumberQuestion, rounds: int) -> str:
    """A table row: the number read-out in times of a yes/no read-out of the same prompt."""
    numbers = asked.query(lm.reader)
    choice = lm.reader.query("choice", asked.messages, make_options(["yes", "no"]), asked.prefill)

    def seconds(query: Query) -> float:
        began = time.perf_counter()
        lm.read([query])
        return time.perf_counter() - began

    ratios = [seconds(numbers) / seconds(choice) for _ in range(rounds + 1)][1:]
    tokens = [lm.read([query])[1].tokens_run for query in (numbers, choice)]
    ratio = float(np.median(ratios))
    return (
        f"| {asked.format.name} | {len(numbers.prompt.ids)} | {tokens[0]} / {tokens[1]} | {ratio:.2f} "
        f"({min(ratios):.2f} to {max(ratios):.2f}) | {'met' if ratio <= AT_MOST else 'MISSED'} |"
    )


def main(draws: int, rounds: int) -> None:
    """Check, measure, print and keep."""
    lm = load(MODEL, threads=1)
    assert lm.chosen.path == "packed"
    libraries = ", ".join(f"{name} {version(name)}" for name in ("doxascope", "torch", "transformers"))
    page = [
        f"`python benchmarks/number_beliefs.py {draws} {rounds}`, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        f"{platform.machine()}, 1 thread, Python {platform.python_version()}, {libraries}; {MODEL}, float32",
        "The machine was shared: seconds are for orientation, ratios are medians (ranges) of rounds in turns.",
        "",
    ]
    for text, one in ((URN, JSON), (BANK, LABELLED)):
        page += [*checked(lm, question(lm, text, one), draws), ""]
    rows = [(text, one) for text in (URN, BANK) for one in (UNIT, PERCENT, JSON, count_format(10))]
    page += [
        f"| format | prompt, tokens | tokens run: number / yes-no | times a yes/no read-out | at most {AT_MOST:g} |",
        "|---|---|---|---|---|",
        *(cost(lm, question(lm, text, one), rounds) for text, one in rows),
    ]
    written = "\n".join(page)
    print(written)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"numbers-{datetime.now(UTC):%Y%m%dT%H%M}.md").write_text(written + "\n")


if __name__ == "__main__":
    arguments = [int(text) for text in sys.argv[1:]]
    main(*arguments, *(DRAWS, ROUNDS)[len(arguments) :])
