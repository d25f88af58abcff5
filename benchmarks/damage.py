"""What becomes of a finished run that is damaged: random bits flipped, files edited, swapped and deleted.

    python benchmarks/damage.py [--flips 1000] [--edits 200] [--seed 0] [--minutes 30] [--model smollm2-135m]

The run is of `truth`, with activations and beliefs of a probe, so that it has every kind of file. Each damage is done
to a copy, in a file drawn at random; then `check`, `score` and `report` read it, in a process of its own that is forked
from this one. Right is: refused in a line, or the same numbers to the byte and `check` names the file. All else is
silent. A flipped bit leaves the name and the size of its file: a command that does not open the file of the whole run,
as the kernel tells (inotify), cannot see it, and is not run.
"""

import argparse
import gc
import math
import multiprocessing
import os
import platform
import random
import resource
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from processes import opened

from doxascope import UserError
from doxascope.experiments.probing.jobs import apply_job, train_job
from doxascope.experiments.probing.settings import load_job
from doxascope.experiments.report.cells import as_row
from doxascope.experiments.run.config import load_config, stored_config
from doxascope.experiments.run.folder import RunFolder
from doxascope.experiments.run.integrity import faults
from doxascope.experiments.run.joint_scores import score_runs
from doxascope.experiments.run.runner import report, run

SETTINGS = ("items=8", "batch_items=2", "bootstrap_draws=20", "capture.layers=[0]")
STUDY = ("position=statement", "positions=[]", "study.folds=3", "study.penalties=[1.0]")
FORK = multiprocessing.get_context("fork")
VERDICTS = ("refused by all", "same numbers, named by check", "SILENT", "TRACEBACK")

Damage = Callable[[random.Random, bytes, bytes], bytes | None]
"""(draws, content, content of another file of the run) -> what becomes of it; None: the file goes."""


def flipped(draw: random.Random, data: bytes, _: bytes) -> bytes:
    """One bit."""
    place = draw.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << draw.randrange(8)]) + data[place + 1 :]


def digit(draw: random.Random, data: bytes, _: bytes) -> bytes:
    """One digit for another; a byte where there is none."""
    places = [i for i, byte in enumerate(data) if 48 <= byte < 58] or [draw.randrange(len(data))]
    place = draw.choice(places)
    return data[:place] + draw.choice(b"0123456789").to_bytes() + data[place + 1 :]


def overwritten(draw: random.Random, data: bytes, _: bytes) -> bytes:
    """Up to 64 bytes at random."""
    place = draw.randrange(len(data))
    noise = draw.randbytes(draw.randint(1, 64))
    return data[:place] + noise + data[place + len(noise) :]


def spliced(draw: random.Random, data: bytes, _: bytes) -> bytes:
    """A piece taken out, or put in a second time."""
    start, stop = sorted((draw.randrange(len(data)), draw.randint(1, len(data))))
    return data[:start] + draw.choice([b"", 2 * data[start:stop]]) + data[stop:]


def cut(draw: random.Random, data: bytes, _: bytes) -> bytes:
    """The end lost."""
    return data[: draw.randrange(len(data))]


def lines(draw: random.Random, data: bytes, _: bytes) -> bytes:
    """A line lost, doubled, or moved."""
    found = data.splitlines(keepends=True)
    line = found.pop(draw.randrange(len(found)))
    for _again in range(draw.choice([0, 1, 2])):
        found.insert(draw.randint(0, len(found)), line)
    return b"".join(found)


EDITS: dict[str, Damage] = {
    "a digit changed": digit,
    "bytes overwritten": overwritten,
    "a piece cut out or doubled": spliced,
    "cut short": cut,
    "a line lost, doubled or moved": lines,
    "another file's content": lambda _, __, other: other,
    "deleted": lambda _, __, ___: None,
}


def finished(model: str, place: Path) -> Path:
    """A run with every kind of file."""
    folder = run(*load_config("truth", SETTINGS, model), place / "runs").path
    probe = train_job(load_job("probe", [folder], STUDY), place / "probes")
    apply_job(load_job("probe", [folder], [*STUDY, f"probe={probe}"]), folder)
    return folder


def numbers(folder: Path) -> str:
    """Those of `doxascope score`."""
    return repr([as_row(number) for number in score_runs([RunFolder.open(folder)]).all])


def reported(folder: Path) -> str:
    """Those of `doxascope report`."""
    report(RunFolder.open(folder), *stored_config(RunFolder.open(folder).config))
    return (folder / "scores.json").read_text()


def checked(folder: Path) -> str:
    """Raises UserError for a fault, as `doxascope check` ends."""
    for line in faults(RunFolder.open(folder)):
        raise UserError(line)
    return ""


COMMANDS: dict[str, Callable[[Path], str]] = {"check": checked, "score": numbers, "report": reported}
"""In this order: `report` writes."""


@contextmanager
def copied(whole: Path, place: Path) -> Iterator[Path]:
    """A copy by links: whatever is changed is written anew."""
    copy = Path(shutil.copytree(whole, place / "copy" / whole.name, copy_function=os.link))
    try:
        yield copy
    finally:
        shutil.rmtree(place / "copy")


def damage(draw: random.Random, what: str, copy: Path, files: Sequence[Path]) -> Path:
    """The file, drawn at random, of which a copy has another one now, or none."""
    while True:
        file, other = draw.sample(files, 2)
        data = (copy / file).read_bytes()
        found = EDITS.get(what, flipped)(draw, data, (copy / other).read_bytes())
        if found != data:  # an edit that changes nothing is none
            break
    (copy / file).unlink()
    if found is not None:
        (copy / file).write_bytes(found)
    return file


def given_by(names: Iterable[str], folder: Path) -> tuple[dict[str, str | None], dict[str, set[str]]]:
    """What commands give, in a process of its own; None where one refuses, and TRACEBACK where it does worse. And the
    files that each opens."""
    heard, teller = FORK.Pipe(duplex=False)

    def work() -> None:
        for name in names:
            with opened(folder) as seen:
                try:
                    said = COMMANDS[name](folder)
                except UserError:
                    said = None
                except BaseException as error:
                    said = f"TRACEBACK: {type(error).__name__}: {error}"
            teller.send((name, said, seen))
        os._exit(0)

    process = FORK.Process(target=work)
    process.start()
    teller.close()
    said: dict[str, str | None] = {}
    seen: dict[str, set[str]] = {}
    try:
        while True:
            name, said[name], seen[name] = heard.recv()
    except EOFError:
        process.join()
    return {name: said.get(name, f"TRACEBACK: exit code {process.exitcode}") for name in names}, seen


def verdict(said: Mapping[str, str | None], right: Mapping[str, str | None]) -> str:
    """What the answers of those commands that see a damage come to."""
    if odd := [text for text in said.values() if text and text.startswith("TRACEBACK")]:
        return odd[0]
    if list(said.values()) == [None] * len(COMMANDS):
        return "refused by all"
    same = all(text is None or text == right[name] for name, text in said.items() if name != "check")
    return "same numbers, named by check" if said["check"] is None and same else "SILENT"


def main() -> None:
    """Damage, read and count."""
    parser = argparse.ArgumentParser()
    for name, default in (("--flips", 1000), ("--edits", 200), ("--seed", 0)):
        parser.add_argument(name, type=int, default=default)
    parser.add_argument("--minutes", type=float, default=math.inf, help="after which nothing more is damaged")
    parser.add_argument("--model", default="smollm2-135m")
    given = parser.parse_args()
    libraries = ", ".join(f"{name} {version(name)}" for name in ("doxascope", "torch", "transformers", "h5py"))
    began, draw = time.monotonic(), random.Random(given.seed)
    print(f"`python benchmarks/damage.py --flips {given.flips} --edits {given.edits} --seed {given.seed}`, ", end="")
    print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC\n{platform.machine()}, Python {platform.python_version()}, ", end="")
    print(f"{libraries}; truth on {given.model}, {', '.join(SETTINGS)}, and a probe\n")
    asked = ["a bit flipped"] * given.flips + [draw.choice(list(EDITS)) for _ in range(given.edits)]
    draw.shuffle(asked)
    counts: Counter[tuple[str, str]] = Counter()
    slowest: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        whole = finished(given.model, Path(name))
        files = [file for file in sorted(whole.rglob("*")) if file.is_file() and not file.name.startswith(".lock")]
        files = [file.relative_to(whole) for file in files]
        for command in COMMANDS.values():  # what they import is loaded here
            command(whole)
        gc.collect()
        gc.freeze()
        with copied(whole, Path(name)) as copy:
            right, opens = given_by(COMMANDS, copy)
        if not all(text is not None and not text.startswith("TRACEBACK") for text in right.values()):
            raise SystemExit(f"the whole run is not read: {right}")
        for what in asked:
            if time.monotonic() - began > 60 * given.minutes:
                break
            with copied(whole, Path(name)) as copy:
                file = damage(draw, what, copy, files)
                seeing = [name for name in COMMANDS if what in EDITS or str(file) in opens[name] or name == "check"]
                since = time.monotonic()
                seen = verdict(given_by(seeing, copy)[0], right)
                slowest[what] = max(slowest.get(what, 0.0), time.monotonic() - since)
                verdict_name, _, error = seen.partition(":")
                counts[what, verdict_name] += 1
                if verdict_name.isupper():
                    print(f"{verdict_name}: {what}, {file}{error}", flush=True)
    print(f"| {len(files)} files | done | {' | '.join(VERDICTS)} | slowest, s |\n|{'---|' * (len(VERDICTS) + 3)}")
    for what in ("a bit flipped", *EDITS):
        row = [counts[what, seen] for seen in VERDICTS]
        print(f"| {what} | {sum(row)} | {' | '.join(map(str, row))} | {slowest.get(what, 0):.2f} |")
    spent = sum(sum(resource.getrusage(whose)[:2]) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(f"\n{time.monotonic() - began:.0f} s, of which {spent:.0f} of the processor")


if __name__ == "__main__":
    main()
