"""What becomes of a finished run that is damaged: random bits flipped, files edited, swapped and deleted.

    python benchmarks/damage.py [--flips 1000] [--edits 200] [--seed 0] [--minutes 30] [--model smollm2-135m]

The run is of `truth`, with activations and beliefs of a probe, so that it has every kind of file. Each damage is done
to a copy, in a file drawn at random; then `score`, `report` and `check` read it. Right is: refused in a line, or the
same numbers to the byte and `check` names the file. All else is silent.
"""

import argparse
import math
import os
import platform
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

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


def told(read: Callable[[Path], str], folder: Path) -> str | None:
    """What a command gives; None where it refuses."""
    try:
        return read(folder)
    except UserError:
        return None


def checked(folder: Path) -> str:
    """Raises UserError for a fault, as `doxascope check` ends."""
    for line in faults(RunFolder.open(folder)):
        raise UserError(line)
    return ""


@contextmanager
def copied(whole: Path, place: Path) -> Iterator[Path]:
    """A copy by links: whatever is changed is written anew."""
    copy = Path(shutil.copytree(whole, place / "copy" / whole.name, copy_function=os.link))
    try:
        yield copy
    finally:
        shutil.rmtree(place / "copy")


def verdict(folder: Path, truth: tuple[str, str]) -> str:
    """What becomes of a damaged run. `report` comes last: it writes."""
    try:
        found = told(checked, folder), told(numbers, folder), told(reported, folder)
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
        return "TRACEBACK"
    if found == (None, None, None):
        return "refused by all"
    same = all(own is None or own == right for own, right in zip(found[1:], truth, strict=True))
    return "same numbers, named by check" if found[0] is None and same else "SILENT"


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
        truth = numbers(whole), reported(whole)
        checked(whole)
        files = [file for file in sorted(whole.rglob("*")) if file.is_file() and not file.name.startswith(".lock")]
        files = [file.relative_to(whole) for file in files]
        for what in asked:
            if time.monotonic() - began > 60 * given.minutes:
                break
            with copied(whole, Path(name)) as copy:
                file = data = found = None
                while found == data:  # an edit that changes nothing is none
                    file, other = draw.sample(files, 2)
                    data = (whole / file).read_bytes()
                    found = EDITS.get(what, flipped)(draw, data, (whole / other).read_bytes())
                assert file is not None
                (copy / file).unlink()
                if found is not None:
                    (copy / file).write_bytes(found)
                since = time.monotonic()
                seen = verdict(copy, truth)
                slowest[what] = max(slowest.get(what, 0.0), time.monotonic() - since)
                counts[what, seen] += 1
                if seen.isupper():
                    print(f"{seen}: {what}, {file}")
    print(f"| {len(files)} files | done | {' | '.join(VERDICTS)} | slowest, s |\n|{'---|' * (len(VERDICTS) + 3)}")
    for what in ("a bit flipped", *EDITS):
        row = [counts[what, seen] for seen in VERDICTS]
        print(f"| {what} | {sum(row)} | {' | '.join(map(str, row))} | {slowest.get(what, 0):.2f} |")
    print(f"\n{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
