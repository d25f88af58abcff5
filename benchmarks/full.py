"""What the continuous integration leaves out, one after the other, with a record: `make full`.

python benchmarks/full.py [--only presets,guides] [--list] [--out benchmarks/results]

- presets: every shipped experiment on the demo's model, at a small size
- guides: every line of the README and of docs/ at the size that stands there
- families: every layout of every family of models against plain passes
- organisms: trained anew, and thirty that plant nothing
- figures: those of the README
- types: by pyright, more slowly than by ty and of more libraries
- attacks: random inputs, bit flips, broken models, and runs killed at random moments

Each step is a process of its own, whose output lies in `full/` of the folder for temporary files. The record
`full-<date>.md` is written after every step, so that it says how far a run came that was stopped. Exits with 1 where a
step failed.
"""

import argparse
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
OURS = (sys.executable, "-m", "doxascope")
SIZES: dict[str, tuple[str, ...]] = {
    "ask": ("questions.file={place}/questions.csv",),
    "bscore": ("items=4",),
    "bscore-full": ("items=1", "runs=2", "turns=4"),
    "bscore-paper": (
        *("sources={{own: {{kind: nine_topics}}}}", "items=4", "runs=2", "turns=3", "cuts=[2]", "queries=3"),
        *("written.lists=1", "written.max_new_tokens=12"),
    ),
    "consistency": ("items=4",),
    "consistency-paper": (
        *("entities.file={place}/titles.txt", "entities.reference={model}", "entities.ranks=[[1,6],[7,12]]"),
        *("items=1", "sampled.draws=6", "sampling.max_new_tokens=12"),
    ),
    "locate": ("items=2",),
    "martingale": ("items=4",),
    "martingale-control": ("items=8",),
    "martingale-full": ("items=1",),
    "martingale-paper": (
        *("items=4", "domains={{values: {{kind: smoke}}}}", "reasoning=[cot]", "gate_urns=0"),
        *("stated.judges={{{model}: {{query: trajectory}}}}", "generation.max_new_tokens=16"),
    ),
    "rationality": ("items=4",),
    "rationality-full": ("items=2",),
    "rationality-paper": (
        *("items=4", "learner=boosting", "iterations=5", "resamples=10", "said.repetitions=2", "pool=60"),
    ),
    "steer": ("questions.file={place}/questions.csv", "direction.statements={place}/statements.csv", "layers=[15]"),
    "sycophancy": ("items=2",),
    "sycophancy-full": ("items=1",),
    "sycophancy-paper": ("items=2", "tasks={{morality: {{kind: smoke}}, culture: {{kind: smoke}}}}"),
    "truth": ("items=12",),
}
"""Shipped settings -> what makes them small, and stands in for data that may not be shipped, for titles and a judge."""
MODEL = "smollm2-135m"
TITLES = ["Paris", "London", "Berlin", "Rome", "Madrid", "Tokyo", "Cairo", "Lima", "Oslo", "Delhi", "Moscow", "Vienna"]
JOBS = ("causal", "probe")
"""Settings of probe jobs begin so: the guides run them."""
QUESTIONS = (
    "id,question,options,truth\nwhale,What is a whale?,a fish|a mammal|a bird,a mammal\nice,Is ice hot?,yes|no,no\n"
)
STATEMENTS = (
    "statement,label\nIce is cold.,1\nIce is hot.,0\nWhales swim.,1\nWhales fly.,0\nSnow is white.,1\nSnow is red.,0\n"
)


@dataclass(frozen=True)
class Step:
    """One process."""

    group: str
    name: str
    command: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()


def small_run(preset: str, place: Path, model: str) -> list[str]:
    """The command that runs a preset at its smallest; what it reads beside the preset is written into `place`."""
    (place / "questions.csv").write_text(QUESTIONS)
    (place / "statements.csv").write_text(STATEMENTS)
    (place / "titles.txt").write_text("\n".join(TITLES))
    settings = [setting.format(place=place, model=model) for setting in SIZES[preset]]
    return ["run", preset, "-m", model, *(part for setting in settings for part in ("-o", setting))]


def steps(place: Path) -> Iterator[Step]:
    """All of them; what they write lies in `place`, but for figures."""
    for file in sorted((ROOT / "configs").glob("*.yaml")):
        if not file.stem.startswith(JOBS):
            yield Step("presets", file.stem, (*OURS, *small_run(file.stem, place, MODEL), "--out", str(place / "runs")))
    pytest = (sys.executable, "-m", "pytest", "-q", "-rs")
    yield Step(
        "guides",
        "pages",
        (*pytest, "tests/test_guides.py", "tests/test_gpu_scripts.py"),
        (("DOXASCOPE_GUIDES", "full"),),
    )
    yield Step("guides", "tests of minutes", (*pytest, "-m", "full"), (("DOXASCOPE_GUIDES", "full"),))
    yield Step("guides", "recipe", (*pytest, "tests/test_recipe.py"))
    conformance = (sys.executable, "-m", "doxascope.benchmarks.families")
    yield Step("families", "all", (*conformance, "--out", str(place / "families.md")))
    organisms = (sys.executable, "-m", "doxascope.experiments.synthetic.organisms")
    yield Step("organisms", "trained anew", (*organisms, "--out", str(place / "organisms")))
    yield Step("organisms", "recovered", (*OURS, "validate", "--out", str(place / "validation")))
    yield Step("organisms", "that plant nothing", (*OURS, "validate", "--null", "30", "--out", str(place / "nulls")))
    yield Step("figures", "README", ("make", "figures"))
    yield Step("types", "pyright", ("make", "types"))
    yield Step("attacks", "fuzz", (*pytest, "tests/hostile/test_fuzz.py"), (("DOXASCOPE_FUZZ", "1000"),))
    yield Step("attacks", "damage", (sys.executable, "benchmarks/damage.py"))
    yield Step("attacks", "hostile", (sys.executable, "benchmarks/hostile.py"))
    yield Step("attacks", "faults", (sys.executable, "benchmarks/faults.py"))


def run(step: Step, log: Path) -> tuple[str, str]:
    """Run a step; its row of the record, and what it ended with."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with log.open("w") as file:
        environment = os.environ | {"HF_HUB_OFFLINE": "1"} | dict(step.env)
        ended = subprocess.run(step.command, cwd=ROOT, env=environment, stdout=file, stderr=file, check=False)
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - began
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    said = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    result = "ok" if ended.returncode == 0 else f"exit code {ended.returncode}"
    last = (said[-1] if said else "").replace("|", "\\|").replace(str(ROOT), ".").replace(str(log.parent), "...")
    return f"| {step.group} | {step.name} | {wall:.0f} s | {cpu:.0f} s | {result} | {last[:160]} |", result


def main() -> int:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="groups, with commas between them")
    parser.add_argument("--list", action="store_true", help="name the steps and run none")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results", help="where the record goes")
    given = parser.parse_args()
    place = Path(tempfile.gettempdir()) / "full"
    place.mkdir(exist_ok=True)
    every = list(steps(place))
    groups = {step.group for step in every}
    chosen = set(filter(None, given.only.split(","))) or groups
    if unknown := sorted(chosen - groups):
        parser.error(f"--only: there is no {unknown[0]!r}; known: {', '.join(sorted(groups))}")
    every = [step for step in every if step.group in chosen]
    if given.list:
        print("\n".join(f"{step.group:10} {' '.join(step.command)}" for step in every))
        return 0
    describe = ["git", "describe", "--always", "--dirty"]
    version = subprocess.run(describe, cwd=ROOT, capture_output=True, text=True, check=True)
    rows = [
        f"`python benchmarks/full.py` at {version.stdout.strip()}, {time.strftime('%Y-%m-%d %H:%M')}, "
        f"{os.cpu_count()} cores, Python {platform.python_version()}.",
        *("", "| what | | wall | CPU | | its last line |", "|---|---|---:|---:|---|---|"),
    ]
    record = given.out / f"full-{time.strftime('%Y%m%dT%H%M')}.md"
    results = []
    for number, step in enumerate(every):
        row, result = run(step, place / f"{number:02}-{step.name.replace(' ', '-')}.log")
        rows.append(row)
        results.append(result)
        record.write_text("\n".join(rows) + "\n")
        print(f"{step.group} {step.name}: {result}", flush=True)
    print(record)
    return int(any(result != "ok" for result in results))


if __name__ == "__main__":
    sys.exit(main())
