"""The kills and full disks of `faults.py`, done to Inspect: what of the samples that had ended is still there?

    pip install inspect-ai
    python benchmarks/peers/inspect_faults.py [--seed 0] [--faults 12]

An evaluation of 40 short questions by a tiny random model, its log flushed after every sample, is struck once: SIGKILL,
SIGINT, or no file that may grow beyond a size drawn at random, the folder of its recovery database among them. Then the
log is read as it lies, recovered (`recover_eval_log`) where it says that it is not whole, and retried (`eval_retry`).
Counted are samples that had ended, as their scorer wrote down, and that neither log nor recovery has; logs that nothing
reads; and retries that do not end with all samples. Each attempt is a process, forked from this one.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "INSPECT_DISPLAY": "none"}
sys.path.insert(0, str(Path(__file__).parents[1]))

from processes import taken

from doxascope.hooks.checks.tiny_models import save_tiny

SAMPLES = 40
KINDS = ("killed", "interrupted", "full")
FORK = multiprocessing.get_context("fork")
SECONDS = 300
"""After which an attempt hangs."""


def task(place: Path) -> Any:
    """The evaluation; its scorer writes down which samples have ended."""
    from inspect_ai import Task  # type: ignore
    from inspect_ai import task as as_task  # type: ignore
    from inspect_ai.dataset import Sample  # type: ignore
    from inspect_ai.scorer import Score, accuracy, scorer  # type: ignore

    @scorer(metrics=[accuracy()])
    def noted() -> Any:
        async def score(state: Any, target: Any) -> Score:
            with (place / "ended").open("a") as file:
                file.write(f"{state.sample_id}\n")
            return Score(value="C")

        return score

    @as_task
    def stones() -> Task:
        samples = [Sample(id=i, input=f"Is it the stone {i}?", target="yes") for i in range(SAMPLES)]
        return Task(dataset=samples, scorer=noted())

    return stones()


def evaluated(place: Path, limit: int | None) -> None:
    """In a process of its own."""
    from inspect_ai import eval as evaluate  # type: ignore

    if limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    given = {"model": "hf/local", "model_args": {"model_path": str(place / "tiny"), "device": "cpu"}}
    evaluate(task(place), **given, log_dir=str(place / "logs"), max_samples=1, log_buffer=1, max_tokens=4)


def looked(place: Path, log: str, told: Any) -> None:
    """The samples of a log, as it lies or recovered, and how many a retry ends with."""
    from inspect_ai import eval_retry  # type: ignore
    from inspect_ai.log import read_eval_log, recover_eval_log  # type: ignore

    def samples(found: Any) -> list[int]:
        return sorted(int(sample.id) for sample in found.samples or [] if sample.scores)

    for read in (read_eval_log, partial(recover_eval_log, overwrite=True)):
        try:
            found = read(log)
            told.send((found.status, samples(found), str(found.location)))
            log = str(found.location)
        except Exception as error:
            told.send((f"{type(error).__name__}: {str(error).splitlines()[0][:100] if str(error) else ''}", [], log))
    task(place)  # a retry finds the task by its name
    try:
        again = eval_retry(log, log_dir=str(place / "logs"), max_samples=1)[0]
        told.send((again.status, samples(again), ""))
    except Exception as error:
        told.send((f"{type(error).__name__}", [], ""))


def attempt(work: Callable[..., None], *given: Any) -> BaseProcess:
    """A process that does it silently."""

    def silently() -> None:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        work(*given)

    process = FORK.Process(target=silently)
    process.start()
    return process


def struck(draw: random.Random, place: Path, cost: float) -> dict[str, Any]:
    """An episode: what befell it, and what is left."""
    shutil.rmtree(place / "logs", ignore_errors=True)
    (place / "ended").unlink(missing_ok=True)
    kind = draw.choice(KINDS)
    process = attempt(evaluated, place, int(10 ** draw.uniform(4.2, 5.5)) if kind == "full" else None)
    if kind != "full":
        moment = draw.uniform(cost / 4, cost)
        while process.is_alive() and taken(process) < moment:
            process.join(0.01)
        with contextlib.suppress(ProcessLookupError):  # it has ended
            os.kill(process.pid or 0, signal.SIGKILL if kind == "killed" else signal.SIGINT)
    process.join(SECONDS)
    ended = {int(line) for line in ((place / "ended").read_text() if (place / "ended").exists() else "").split()}
    record = {"kind": kind, "ended": len(ended), "exit": process.exitcode}
    logs = sorted((place / "logs").glob("*.eval"))
    if not logs:
        return record | {"log": "none", "lost": len(ended)}
    mine, theirs = FORK.Pipe(duplex=False)
    looking = attempt(looked, place, str(logs[-1]), theirs)
    theirs.close()
    seen = []
    try:
        while mine.poll(SECONDS):
            seen.append(mine.recv())
    except EOFError:
        pass
    looking.join(10)
    looking.kill()
    lain, recovered, again = (*seen, *[("DIED", [], "")] * 3)[:3]
    kept = set(lain[1]) | set(recovered[1])
    told = {"log": lain[0], "recovery": recovered[0], "retry": again[0], "retried": len(again[1])}
    return record | told | {"lost": len(ended - kept), "lost as it lies": len(ended - set(lain[1]))}


def main() -> None:
    """Strike, look and count."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--faults", type=int, default=12)
    given = parser.parse_args()
    import inspect_ai.log  # noqa: F401  # type: ignore
    import torch
    import transformers  # noqa: F401

    torch.set_num_threads(1)
    names = ", ".join(f"{name} {version(name)}" for name in ("inspect-ai", "torch", "transformers"))
    print(
        f"`python benchmarks/peers/inspect_faults.py {' '.join(sys.argv[1:])}`, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    )
    print(f"{names}; {SAMPLES} samples, log_buffer=1\n", flush=True)
    rows = []
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        os.environ["XDG_DATA_HOME"] = str(place / "data")
        save_tiny(place / "tiny", ["Is it the stone? yes no 0 1 2 3 4 5 6 7 8 9"])
        before = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
        whole = attempt(evaluated, place, None)
        whole.join()
        if whole.exitcode or len((place / "ended").read_text().split()) != SAMPLES:
            raise SystemExit("the unbroken evaluation fails")
        cost = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - before
        for number in range(given.faults):
            row = struck(random.Random(f"{given.seed} {number}"), place, cost)
            rows.append(row)
            print(json.dumps({"episode": number} | row), flush=True)
    print(
        "\n| | faults | samples that had ended | lost | lost before recovery | no log that is read | retries that end |"
    )
    print("|---|---|---|---|---|---|---|")
    for kind in KINDS:
        own = [row for row in rows if row["kind"] == kind]
        sums = Counter[str]()
        for row in own:
            sums.update({key: row.get(key, 0) for key in ("ended", "lost", "lost as it lies")})
        unread = sum(row["log"] not in ("started", "error", "success", "cancelled") for row in own)
        ended = sum(row.get("retry") == "success" and row["retried"] == SAMPLES for row in own)
        cells = (len(own), sums["ended"], sums["lost"], sums["lost as it lies"], unread, ended)
        print(f"| {kind} | {' | '.join(map(str, cells))} |")


if __name__ == "__main__":
    main()
