"""What `faults.py` breaks: runs, in one process, in shards and by Ray; sweeps, probe jobs, cards and comparisons.

Each is begun again and again on one folder, until it is whole; what counted before a fault counts after it, and what it
leaves is that of the unbroken one. Models are tiny and random.
"""

import contextlib
import random
import shutil
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.folder import RunFolder
from doxascope.experiments.run.integrity import faults
from doxascope.experiments.run.ray_workers import ray_workers
from doxascope.experiments.run.runner import run
from doxascope.experiments.run.sessions import WHOLE, Shard
from doxascope.experiments.run.worker import one_here
from doxascope.hooks.checks.tiny_models import save_tiny
from doxascope.hooks.store import ActivationStore

SETTINGS = {
    "consistency": ["items=3", "registered.n=3", "fork.methods=[]", "capture={layers: [0]}"],
    "truth": ["items=24", "stated.numbers=[]", "capture.sites=[resid_post]"],
    "bscore": ["items=4", "runs=2", "turns=3"],
    "rationality": ["items=3", "pool=60", "iterations=2", "prompts={standard: ''}"],
    "ask": ["answers=[letters]"],
    "martingale": [
        *("items=2", "domains={factual: {kind: computed}}", "reasoning=[evidence]", "gate_urns=0"),
        *("generation.max_new_tokens=16", "debate.max_new_tokens=8", "debate.turns=2", "stated.judges={}"),
    ],
    "sycophancy": ["items=1", "tasks={worlds: {kind: computed}}", "stated.numbers=[]", "gate.parsed=0.0"],
    "locate": ["items=4", "layers=[0]", "control_layers=[0.5]"],
}
ALIKE = ["batch_items=1", "bootstrap_draws=20", "model.threads=1"]
TABLE = "id,question,option_1,option_2,truth\n" + "".join(f"q{i},Is {i} even?,yes,no,yes\n" for i in range(24))
SWEPT = [
    "study={permutations: 19, refits: 20, penalties: [1.0], folds: 3, control_draws: 2, transfer: []}",
    "neutral=0",
]
SET = """{version: 1, runs: {consistency: {items: 3, registered.n: 3, bootstrap_draws: 20, fork.methods: []},
 truth: {items: 6, bootstrap_draws: 20, stated.numbers: []}}}"""
ACTORS = (1, 2, 3)
SCORED = ("scores.json", "published.csv")
"""Files of a run that follow from what it read."""


class Run:
    """A run of an experiment by one process, by two shards, or by actors of Ray."""

    cost = 0.0
    """Seconds of the processor that it takes, undisturbed."""

    def __init__(self, experiment: str, executor: str, place: Path) -> None:
        self.experiment, self.executor, self.place = experiment, executor, place
        self.out, self.unbroken = place / f"broken-{executor}", place / f"unbroken-{self.kind}"
        self.parts = [Shard(i, 2) for i in (1, 2)] if executor == "shards" else [WHOLE]

    @property
    def kind(self) -> str:
        """The outcomes of a kind are alike, whatever the executor."""
        return "run"

    def prepare(self) -> None:
        """Everything that is needed before it is begun for the first time."""

    def work(self, out: Path, part: Shard, draw: random.Random) -> None:
        """Begin it, or go on with it."""
        workers = ray_workers(draw.choice(ACTORS)) if self.executor == "ray" else one_here
        run(*self.settings(), out, shard=part, workers=workers)

    def settings(self, *more: str) -> tuple[Any, Any]:
        """The experiment and its configuration."""
        material = None
        if self.experiment == "ask":
            material = str(self.place / "questions.csv")
            Path(material).write_text(TABLE)
        given = [*SETTINGS[self.experiment], *ALIKE, *more]
        return load_config(self.experiment, given, str(self.place / "tiny"), material=material)

    def whole(self, out: Path) -> bool:
        """Whether it has ended."""
        return any(out.glob("*/report.json"))

    def counted(self) -> dict[Any, Any]:
        """What counts, and must not be lost: batch -> its files."""
        return dict(item for folder in self._runs() for item in batches(folder))

    def _runs(self) -> Iterator[Path]:
        return (file.parent for file in self.out.glob("*/manifest.json"))

    def progress(self) -> int:
        """How much has been committed, cheaply."""
        return sum(len(file.read_bytes().splitlines()) for file in self.out.glob("*/commits*.jsonl"))

    def differs(self) -> list[str]:
        """What is not that of the unbroken one, to the byte, or is found to be at fault; empty if all is well."""
        return [line for pair in zip(*map(runs_in, (self.unbroken, self.out)), strict=True) for line in unlike(*pair)]

    def rounded(self) -> bool:
        """Whether all that is not as in the unbroken one is the last bits of numbers."""
        pairs = list(zip(*map(runs_in, (self.unbroken, self.out)), strict=True))
        files = [each for pair in pairs for each in zip_longest(*map(content, pair))]
        sound = not any(list(faults(RunFolder(other))) for _, other in pairs)
        return bool(files) and sound and all(all(each) and nearly(*each) for each in files)


class Probe(Run):
    """A probe job on a run that is whole."""

    kept = ("sweep.json", "card.json", "probe.npz", "probe.json")

    @property
    def kind(self) -> str:
        """See `Run.kind`."""
        return self.executor

    def prepare(self) -> None:
        """See `Run.prepare`."""
        run(*self.settings(), self.place / "swept")

    def work(self, out: Path, part: Shard, draw: random.Random) -> None:
        """See `Run.work`."""
        from doxascope.experiments.probing.jobs import sweep_job
        from doxascope.experiments.probing.settings import load_job

        sweep_job(load_job("probe", list((self.place / "swept").iterdir()), SWEPT), out)

    def counted(self) -> dict[Any, Any]:
        """Arrays that are kept."""
        return {file.name: file.read_bytes() for file in self.out.glob("*/*/*.npz")}

    def progress(self) -> int:
        """See `Run.progress`."""
        return len(list(self.out.glob("*/*/*.npz")))

    def differs(self) -> list[str]:
        """See `Run.differs`."""
        (whole,), (other,) = (list(place.iterdir()) for place in (self.unbroken, self.out))
        return [name for name in self.kept if (whole / name).read_bytes() != (other / name).read_bytes()]


class Card(Probe):
    """A model card."""

    kept = ("card.json", "report.html")

    def prepare(self) -> None:
        """See `Run.prepare`."""
        (self.place / "set.yaml").write_text(SET)

    def work(self, out: Path, part: Shard, draw: random.Random) -> None:
        """See `Run.work`."""
        from doxascope.experiments.compare.card import make_card

        make_card(str(self.place / "tiny"), out, chosen=str(self.place / "set.yaml"))

    def counted(self) -> dict[Any, Any]:
        """See `Run.counted`."""
        return Run.counted(self)

    def _runs(self) -> Iterator[Path]:
        return (file.parent for file in self.out.glob("*/runs/*/manifest.json"))

    def progress(self) -> int:
        """See `Run.progress`."""
        return sum(len(file.read_bytes().splitlines()) for file in self.out.glob("*/runs/*/commits*.jsonl"))


class Several(Run):
    """A sweep: two runs by one command, told of by their names."""

    def work(self, out: Path, part: Shard, draw: random.Random) -> None:
        """See `Run.work`."""
        from doxascope.experiments.compare.combinations import SweepPlan
        from doxascope.experiments.compare.sweep import sweep

        settings = [*SETTINGS[self.experiment], *ALIKE]
        plan = SweepPlan(experiments={self.experiment: {}}, models=(str(self.place / "tiny"),), seeds=(0, 1))
        sweep(plan, out, overrides=settings)

    @property
    def kind(self) -> str:
        """See `Run.kind`."""
        return self.executor

    def whole(self, out: Path) -> bool:
        """See `Run.whole`."""
        return len(list(out.glob("*/report.json"))) == len(list(out.glob("sweep/*.json"))) == 2


class Comparison(Probe):
    """Two runs that are compared, which it must leave as they are."""

    kept = ("report.html", "report.json")

    def prepare(self) -> None:
        """See `Run.prepare`."""
        for template in ("own", "plain"):
            run(*self.settings(f"model.template={template}"), self.place / "sides")

    def work(self, out: Path, part: Shard, draw: random.Random) -> None:
        """See `Run.work`."""
        from doxascope.experiments.compare import compare
        from doxascope.experiments.compare.page import page, prepare
        from doxascope.experiments.report.html import write

        folder = prepare(out / "comparison")
        write(folder, page(compare(*sorted((self.place / "sides").iterdir())), {}))

    def counted(self) -> dict[Any, Any]:
        """See `Run.counted`."""
        return {str(side): list(faults(RunFolder.open(side))) for side in (self.place / "sides").iterdir()}

    def progress(self) -> int:
        """See `Run.progress`."""
        return 0


WORKS: dict[str, type[Run]] = {
    **dict.fromkeys(("local", "shards", "ray"), Run),
    "sweep": Several,
    "probe": Probe,
    "card": Card,
    "compare": Comparison,
}


def batches(path: Path) -> Iterator[tuple[tuple[str, int], Any]]:
    """The name of a run and the number of a batch, and the files of that batch, as far as they count."""
    for commit in RunFolder(path).commits():
        yield (path.name, commit["batch"]), commit["files"]


def runs_in(place: Path) -> list[Path]:
    """The folders of runs in a folder."""
    return sorted(file.parent for file in place.glob("*/manifest.json"))


def content(path: Path) -> list[Path]:
    """The files of all that is read and scored, in the order of the batches, whatever they are called."""
    files = [path / name for name in SCORED if (path / name).exists()]
    commits = sorted(RunFolder(path).commits(), key=lambda commit: commit["batch"])
    files += [path / name for commit in commits for name in commit["files"]]
    store = ActivationStore.open(path).parts if (path / "activations").is_dir() else []
    return [*files, *(part.path for part in store)]


def unlike(whole: Path, other: Path) -> list[str]:
    """Files of a run that are not those of the unbroken one, and what `check` finds."""
    pairs = list(zip_longest(content(whole), content(other)))
    files = [str(b or a) for a, b in pairs if not (a and b) or a.read_bytes() != b.read_bytes()]
    halved = RunFolder(other).manifest.get("totals", {}).get("halvings")
    return [*files, *map(str, faults(RunFolder(other))), *([f"{halved} halvings"] if files and halved else [])]


def nearly(whole: Path, other: Path) -> bool:
    """Whether two files of runs hold the same but for the last bits of numbers; scores follow from beliefs."""
    if whole.name in SCORED or whole.read_bytes() == other.read_bytes():
        return True
    with contextlib.suppress(AssertionError):
        if whole.suffix == ".parquet":
            pd.testing.assert_frame_equal(pd.read_parquet(whole), pd.read_parquet(other), rtol=1e-5, atol=1e-6)
            return True
        if whole.suffix == ".h5":
            for ours, theirs in zip(*map(numbers, (whole, other)), strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
            return True
    return False


def numbers(part: Path) -> list[Any]:
    """All numbers of a part of a store."""
    import h5py

    arrays: list[Any] = []
    with h5py.File(part) as file:
        file.visititems(lambda _, each: arrays.append(each[()]) if isinstance(each, h5py.Dataset) else None)
    return [each for each in arrays if each.dtype.kind in "iuf"]


def save_model(experiment: str, place: Path) -> None:
    """A tiny model whose tokenizer knows the words of the experiment's settings."""
    import doxascope

    shutil.rmtree(place / "tiny", ignore_errors=True)
    settings = (Path(doxascope.__path__[0]) / "configs" / f"{experiment}.yaml").read_text("utf-8")
    save_tiny(place / "tiny", [settings, yaml.safe_dump(SETTINGS[experiment])])


def asked(experiments: Sequence[str], executors: Sequence[str]) -> list[tuple[str, str]]:
    """Each experiment with each executor of runs; all else is of truth, whatever is asked for."""
    runs = [(experiment, executor) for executor in executors if WORKS[executor] is Run for experiment in experiments]
    return runs + [("truth", executor) for executor in executors if WORKS[executor] is not Run]
