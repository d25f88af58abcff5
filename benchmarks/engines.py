"""A vLLM server beside our own passes: the same ids, the same options, on the same machine.

    make engines
    python benchmarks/engines.py [--server URL] [--items N] [--readouts N] [--rounds N] [--out FOLDER]

The questions are the first read-outs of the default consistency item on SmolLM2-135M-Instruct, in float32, with prefix
caching, which on a CPU goes by blocks of 128 tokens.
`requests` asks the server once for each place that is read, as `-o model.server=URL` does; `whole forms` sends every
prompt with every form and takes `prompt_logprobs`, which leaves out what closes a form. Without --server one is started
from `.engines`, where `make engines` puts vLLM. Medians of the rounds; the ways take turns.
"""

import argparse
import os
import platform
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from doxascope import load
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.readouts import compile_questions
from doxascope.hooks.exact.option_beliefs import largest_difference
from doxascope.hooks.exact.queries import Query
from doxascope.hooks.exact.served import Server

HERE = Path(__file__).parent
ENGINES, PORT, MODEL = HERE.parent / ".engines" / "bin" / "python", 8141, "smollm2-135m"
AT_ONCE = 128
"""Texts of a request."""


@contextmanager
def serving(lm: Any) -> Iterator[str]:
    """Starts vLLM with the weights of a loaded model, and hands out where it is."""
    with tempfile.TemporaryDirectory() as place:
        lm.model.save_pretrained(place)
        lm.tokenizer.save_pretrained(place)
        line = [str(ENGINES), "-m", "vllm.entrypoints.openai.api_server", "--model", place, "--dtype", "float32"]
        line += ["--port", str(PORT), "--max-model-len", "2048", "--max-logprobs", "-1", "--enforce-eager"]
        environment = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"}
        log = Path(place) / "log"
        with log.open("wb") as said:
            process = subprocess.Popen(line, stdout=said, stderr=said, env=environment)
        try:
            while b"startup complete" not in log.read_bytes():
                if process.poll() is not None:
                    raise SystemExit(log.read_text(encoding="utf-8")[-2000:])
                time.sleep(2)
            yield f"http://127.0.0.1:{PORT}"
        finally:
            process.terminate()
            process.wait(60)


def whole_forms(server: Server, queries: list[Query]) -> list[float]:
    """The log-probability of every form of every query, by prompt log-probabilities."""
    texts = [
        (len(query.prompt.ids), [*query.prompt.ids, *path])
        for query in queries
        for paths in query.paths.paths
        for path in paths
    ]
    found = []
    for start in range(0, len(texts), AT_ONCE):
        some = texts[start : start + AT_ONCE]
        body = {"model": server.name, "prompt": [ids for _, ids in some], "max_tokens": 1, "prompt_logprobs": 0}
        choices = sorted(server.ask("/v1/completions", body)["choices"], key=lambda choice: choice["index"])
        for (first, ids), choice in zip(some, choices, strict=True):
            said = zip(ids[first:], choice["prompt_logprobs"][first:], strict=True)
            found.append(sum(table[str(token)]["logprob"] for token, table in said))
    return found


def measure(url: str, items: int, some: int, rounds: int, ours: Any) -> str:
    """The table."""
    experiment, config = load_config("consistency", [f"items={items}"], MODEL)
    groups = [
        compile_questions(ours.reader, experiment.questions(config, item)[:some]) for item in experiment.items(config)
    ]
    with load(MODEL, server=url) as theirs:
        server = Server(url)
        ways: dict[str, Callable[[], list[Any]]] = {
            "ours, one tree for each item": lambda: [ours.read(group, budget=config.budget) for group in groups],
            "vLLM, requests": lambda: [theirs.read(group) for group in groups],
            "vLLM, whole forms": lambda: [whole_forms(server, group) for group in groups],
        }
        results = {name: way() for name, way in ways.items()}
        took: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, way in ways.items():
                began = time.perf_counter()
                way()
                took[name].append(time.perf_counter() - began)
    first, second, _ = results.values()
    apart = max(
        largest_difference(one, other)
        for mine, others in zip(first, second, strict=True)
        for one, other in zip(mine.readings, others.readings, strict=True)
    )
    readouts, tokens = sum(map(len, groups)), sum(read.cost.tokens_tree for read in first)
    lines = [
        f"{items} items, {readouts} read-outs, {tokens:,} unique tokens; {sum(read.cost.packs for read in second):,} "
        "requests of up to 128 places",
        "",
        "| way | s an item, median of the rounds | items a second | largest difference, nat |",
        "| --- | --- | --- | --- |",
    ]
    for name, seconds in took.items():
        each = float(np.median(seconds)) / items
        gap = {"vLLM, requests": f"{apart:.1e}", "vLLM, whole forms": "without what closes a form"}.get(name, "")
        lines.append(f"| {name} | {each:.2f} | {1 / each:.2g} | {gap} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", help="Of SmolLM2-135M-Instruct in float32.")
    parser.add_argument("--items", type=int, default=2)
    parser.add_argument("--readouts", type=int, default=4, help="Of each item, the first.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=HERE / "results")
    given = parser.parse_args()
    now = datetime.now(UTC)
    with load(MODEL) as ours:
        if given.server:
            said, by = (
                measure(given.server, given.items, given.readouts, given.rounds, ours),
                Server(given.server).version,
            )
        elif not ENGINES.exists():
            raise SystemExit("vLLM is not installed; `make engines` installs it in an environment of its own")
        else:
            with serving(ours) as url:
                said, by = measure(url, given.items, given.readouts, given.rounds, ours), Server(url).version
        threads = ours.identity.threads
    asked = f"--items {given.items} --readouts {given.readouts} --rounds {given.rounds}"
    head = f"`python benchmarks/engines.py {asked}`, {now:%Y-%m-%d %H:%M} UTC"
    where = (
        f"{platform.machine()}, {os.cpu_count()} cores, {threads} thread of ours, Python {platform.python_version()}"
    )
    versions = f"torch {version('torch')}, transformers {version('transformers')}, vLLM {by}, prefix caching"
    print(text := f"{head}\n{where}, {versions}\n\n{said}\n")
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / f"engines-{now:%Y%m%dT%H%M}.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
