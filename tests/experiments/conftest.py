"""A small run of the martingale experiment on a tiny random model; and what a page shows before it is unfolded."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from doxascope.experiments.report.cells import as_row
from doxascope.experiments.report.papers.paper_tables import as_rows
from doxascope.experiments.run.config import RunConfig, load_config
from doxascope.experiments.run.experiment import Experiment
from doxascope.experiments.run.folder import RunFolder
from doxascope.experiments.run.manifest import ITEMS, item_lines
from doxascope.experiments.run.paper_tables import numbers_of
from doxascope.experiments.suite.martingale import MartingaleConfig
from doxascope.metrics.number import Number

SMALL = (
    "items=3",
    "bootstrap_draws=50",
    "gate_urns=0",
    "generation.max_new_tokens=24",
    "debate.max_new_tokens=8",
    "debate.turns=2",
    "stated.judges={}",
    "methods={words: {ask: ['Your answer, {first} or {second}?', 'Which is right, {first} or {second}?']}, "
    "letters: {ask: ['A) {first} or B) {second}?'], labels: [A, B], forms: ['{option}']}, "
    "claim: {ask: ['True or false: the answer is {first}.'], claim: ['True', 'False']}}",
)


@pytest.fixture(scope="session")
def configured(tiny_for: Callable[[str], Path]) -> Callable[..., Any]:
    """The experiment, and its configuration for a tiny model with changes."""

    def make(*changes: str) -> tuple[Experiment, MartingaleConfig]:
        experiment, config = load_config("martingale", [*SMALL, *changes], str(tiny_for("martingale")))
        assert isinstance(config, MartingaleConfig)
        return experiment, config

    return make


@pytest.fixture(scope="session")
def published() -> Callable[..., pd.DataFrame]:
    """The rows of the paper's tables that the numbers of runs fill, as a run writes them, but for marks of gates."""

    def make(experiment: Experiment, *runs: tuple[str, RunConfig, Sequence[Number]]) -> pd.DataFrame:
        found = [numbers_of(name, config, map(as_row, numbers), {}) for name, config, numbers in runs]
        return as_rows(experiment.tables([replace(one, readable=None) for one in found]))

    return make


@pytest.fixture(scope="session")
def stored_run() -> Callable[..., RunFolder]:
    """Writes a belief table as the finished run of a model."""

    def write(
        path: Path, config: Any, table: pd.DataFrame, model: str, *, data: str = "d", weights: str = "w"
    ) -> RunFolder:
        folder = RunFolder.create(path)
        folder.write("config.yaml", yaml.safe_dump(config.model_dump(mode="json")))
        items = sorted({*zip(table["item"].astype(str), table["cluster"].astype(str), strict=True)})
        folder.write(ITEMS, item_lines((item, cluster, f"{data} {item}") for item, cluster in items))
        folder.write_manifest({"conditions": {"model": {"name": model, "weights": weights}}, "batches": 1})
        folder.commit(0, table, [], {})
        return folder

    return write


NUMBER = re.compile(r"(?<![\w.])(?:\d[\d,]*\.?\d*|\.\d+)(?:e[+-]?\d+)?(?!\w)")


class _Shown(HTMLParser):
    """Counts the numbers in the text of a page, by whether it has to be unfolded for them; not those of figures."""

    VOID = frozenset({"meta", "input", "img", "br", "link", "hr"})
    APART = frozenset({"svg", "script", "style", "title"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[tuple[str, bool]] = []
        self.numbers: Counter[str] = Counter()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append((tag, tag == "details" and "open" not in dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self.APART.isdisjoint(tag for tag, _ in self.open):
            inside = [i for i, (_, closed) in enumerate(self.open) if closed]
            folded = inside and [tag for tag, _ in self.open[inside[0] + 1 :]][:1] != ["summary"]
            self.numbers["folded" if folded else "shown"] += len(NUMBER.findall(data))


@pytest.fixture(scope="session")
def numbers_shown() -> Callable[[str], Counter[str]]:
    """How many numbers a page has that are `shown`, and how many that are `folded`."""

    def count(page: str) -> Counter[str]:
        reader = _Shown()
        reader.feed(page)
        return reader.numbers

    folded = "<details><summary>2</summary><p>3 and 4.5</p></details>"
    assert count(f"<p>1{folded}<svg>6</svg><br>7</p>") == {"shown": 3, "folded": 2}
    return count
