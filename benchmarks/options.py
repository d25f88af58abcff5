"""What a belief costs: our read-out against its peers on the same prompts, options and weights, in one run.

    make bench        or: python benchmarks/options.py [rounds]

Rows of a table do equal work, or ours does more: it also reads what closes a form, for which the last token of the form
must be run, too. All rows take their turn in every round, so that a machine whose speed drifts favours none; ratios are
taken round by round. Before anything is timed, ours and the peers' numbers are compared.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import json
import platform
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from peers import forward, generate, kv_cache
from peers.harness import Harness
from peers.workload import ONE_FORM, Group, bare, compiled, first_tokens, log_probabilities, matrix_share, unique_tokens

from doxascope import load
from doxascope.hooks.generation.generated_texts import Request
from doxascope.hooks.generation.sampling import Sampling
from doxascope.hooks.lm import LanguageModel

MODEL, THREADS, TRIPLES = "smollm2-135m", 2, 3
ROUNDS, ROUNDS_OF_FORMS = 5, 3
BATCH_SIZES = (1, 4, 16, 32, 64)
NEAR_NAT = 1e-4
SAMPLES, PAPER_SAMPLES = 100, 5000
"""Answers to one context that are timed, and that the paper on belief consistency takes."""
ANSWER = Sampling(max_new_tokens=24)
RESULTS = Path(__file__).parent / "results"


class Row(NamedTuple):
    """One way to do the work."""

    name: str
    read: Callable[[], object]
    gate: float | None = None
    """How many times our seconds it is to take at least."""


class Table(NamedTuple):
    """What some rows took."""

    title: str
    rows: Sequence[Row]
    seconds: NDArray[np.float64]
    """[rounds, rows]; the first row is ours."""

    def __str__(self) -> str:
        lines = [f"| {self.title} | seconds | times ours | at least |", "|---|---|---|---|"]
        for row, column in zip(self.rows, self.seconds.T, strict=True):
            ratios = column / self.seconds[:, 0]
            gate = "" if row.gate is None else f"{row.gate:.2f}: {met(np.median(ratios) >= row.gate)}"
            lines.append(f"| {row.name} | {spread(column)} | {spread(ratios)} | {gate} |")
        return "\n".join(lines)


def spread(values: NDArray[np.float64]) -> str:
    """Median and range."""
    return f"{np.median(values):.2f} ({values.min():.2f} to {values.max():.2f})"


def met(condition: object) -> str:
    """A verdict."""
    return "met" if condition else "MISSED"


def timed(work: Callable[[], object]) -> float:
    """Seconds of one call."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def measured(title: str, rows: Sequence[Row], rounds: int) -> Table:
    """Let the rows take turns."""
    return Table(title, rows, np.array([[timed(row.read) for row in rows] for _ in range(rounds)]))


def ours(lm: LanguageModel, groups: Sequence[Group]) -> list[Row]:
    """Our read-out, and its floor."""
    return [
        Row("doxascope", lambda: [lm.read(group) for group in groups]),
        Row("its forward passes alone", bare(lm, groups), gate=1 / 1.15),
    ]


def main(rounds: int) -> None:
    """Compare, measure, print and keep."""
    lm = load(MODEL, threads=THREADS)
    try:
        harness = Harness(lm.model, lm.tokenizer)
    except ImportError:
        sys.exit('lm-eval is missing: pip install -e ".[bench]", or make bench')
    words, forms = compiled(lm, TRIPLES, ONE_FORM), compiled(lm, 1)
    firsts = first_tokens(words)
    asked, asked_forms = harness.requests(words), harness.requests(forms)

    part = harness.requests(words[:1])
    sizes = {size: min(timed(lambda n=size: harness.read(part, n)) for _ in range(2)) for size in BATCH_SIZES}
    best = min(sizes, key=lambda size: sizes[size])

    def gap(groups: Sequence[Group], theirs: Sequence[float]) -> float:
        return float(np.abs(np.array(theirs) - log_probabilities(lm, groups)).max())

    gaps = {
        "one forward pass per context": gap(firsts, forward.read(lm.model, firsts)),
        "KV cache": max(gap(groups, kv_cache.read(lm.model, groups)) for groups in (firsts, words, forms)),
        "lm-eval": max(
            gap(groups, np.subtract(harness.read(requests, best), harness.moved(requests)).tolist())
            for groups, requests in ((words, asked), (forms, asked_forms))
        ),
    }
    n_forms = len(forms[0][0].paths.paths[0])
    tables = [
        measured(
            "the first token of each word",
            [
                *ours(lm, firsts),
                Row("one forward pass per context", lambda: forward.read(lm.model, firsts), gate=2),
                Row("shared-prefix KV cache", lambda: kv_cache.read(lm.model, firsts)),
            ],
            rounds,
        ),
        measured(
            "all tokens of each word",
            [
                *ours(lm, words),
                Row("shared-prefix KV cache", lambda: kv_cache.read(lm.model, words), gate=1.2),
                Row(f"lm-eval, batch size {best}", lambda: harness.read(asked, best), gate=7),
            ],
            rounds,
        ),
        measured(
            f"all tokens of {n_forms} surface forms of each word, one triple",
            [
                *(row._replace(gate=None) for row in ours(lm, forms)),
                Row("shared-prefix KV cache", lambda: kv_cache.read(lm.model, forms)),
                Row(f"lm-eval, batch size {best}", lambda: harness.read(asked_forms, best)),
            ],
            ROUNDS_OF_FORMS,
        ),
    ]

    costs = [lm.read(group)[1] for group in words]
    run, unique = sum(cost.tokens_run for cost in costs), sum(map(unique_tokens, words))
    contexts = sum(map(len, words))
    per_context = float(np.median(tables[1].seconds[:, 0])) / contexts
    prompt = words[0][0].prompt
    scale = PAPER_SAMPLES / SAMPLES / per_context
    by_generate = timed(lambda: generate.answers(lm.model, prompt.ids, SAMPLES, ANSWER.max_new_tokens))
    by_us = timed(lambda: lm.sample([Request("sampled", prompt, range(SAMPLES))], ANSWER, seed=0))
    share = matrix_share(lm, words, float(np.median(tables[1].seconds[:, 1])))

    libraries = ", ".join(f"{name} {version(name)}" for name in ("doxascope", "torch", "transformers", "lm-eval"))
    now = datetime.now(UTC)
    page = "\n\n".join(
        [
            f"`python benchmarks/options.py {rounds}`, {now:%Y-%m-%d %H:%M} UTC\n"
            f"{platform.machine()}, {THREADS} threads, OMP_WAIT_POLICY={os.environ['OMP_WAIT_POLICY']}, Python "
            f"{platform.python_version()}, {libraries}; {MODEL}, float32\n"
            f"{contexts} contexts of {TRIPLES} triples; medians (ranges) of {rounds} rounds, {ROUNDS_OF_FORMS} in the "
            "last table",
            *map(str, tables),
            f"Tokens run {run}, unique tokens of the prompts and words {unique}: {met(run == unique)}.\n"
            "Largest difference of a log-probability from ours, nat: "
            f"{', '.join(f'{name} {value:.0e}' for name, value in gaps.items())}; at most {NEAR_NAT:.0e}: "
            f"{met(max(gaps.values()) <= NEAR_NAT)}.\n"
            f"lm-eval on one triple, seconds by batch size: {', '.join(f'{n}: {s:.2f}' for n, s in sizes.items())}.\n"
            f"The forward passes of all tokens multiply at {share:.0%} of the rate of one large matrix product here.",
            f"{PAPER_SAMPLES:,} sampled answers per context, of at most {ANSWER.max_new_tokens} tokens, in times of "
            f"the exact read-out: {by_generate * scale:,.0f} by transformers' generate, {by_us * scale:,.0f} by ours "
            f"({SAMPLES} answers to one context timed, {by_generate:.1f} s and {by_us:.1f} s, and scaled).",
        ]
    )
    print(page)
    RESULTS.mkdir(exist_ok=True)
    name = f"options-{now:%Y%m%dT%H%M}"
    (RESULTS / f"{name}.md").write_text(page + "\n")
    seconds = {t.title: {r.name: c.tolist() for r, c in zip(t.rows, t.seconds.T, strict=True)} for t in tables}
    record = {"libraries": libraries, "threads": THREADS, "seconds": seconds, "gaps_nat": gaps, "batch_sizes": sizes}
    (RESULTS / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
