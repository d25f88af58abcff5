"""What an experiment is: what to ask, what to read, what to score. Everything else is the runner's."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import pandas as pd

from ...base.documents import repeated
from ...base.errors import UserError, in_one_line
from ...hooks.exact.queries import PromptReader, Query
from ...hooks.lm import LanguageModel
from ...metrics.number import Number
from ...metrics.tables.samples import Sample
from ..report.findings import Column, Findings, Transcript
from ..report.papers.paper_tables import PaperTable, RunNumbers
from .questions import Item, Question, Read, RunConfig
from .readouts import read_questions
from .stated_beliefs import AskedNumbers, BeliefPlace, stated_rows

Transcripts = Callable[[Collection[str]], Mapping[str, Transcript]]
"""From the names of some read-outs to what was said in them."""
T = TypeVar("T")


def delegated(function: Callable[..., T]) -> Callable[..., T]:
    """A function of a method's arguments, without the experiment itself, as that method."""

    def call(_: Experiment, *arguments: Any, **named: Any) -> T:
        return function(*arguments, **named)

    return call


MOMENTS = ("prior", "posterior")
"""When a belief is read, under the same names in all experiments."""


def moments_of(prior: "pd.Series[bool]", posterior: "pd.Series[bool]") -> "pd.Series[str]":
    """[n] the moment of rows of which it is known whether they are the one or the other."""
    named = np.select([prior.to_numpy(dtype=bool), posterior.to_numpy(dtype=bool)], MOMENTS, "")
    return pd.Series(named, prior.index, dtype="str")


class Experiment(ABC):
    """What to ask, and what to make of the answers. `items` and `questions` are to be written, and `samples` or
    `own_scores`, one of which makes the headline; the rest has defaults.
    """

    name: ClassVar[str]
    """As on the command line."""
    summary: ClassVar[str]
    """The question that it asks, in one line."""
    headline: ClassVar[str]
    """The metric that leads its pages and whose differences between methods are told. Every method has it of the
    subset `all`.
    """
    coherent: ClassVar[float | None] = None
    """The headline of a coherent agent, where that is one number: a line on the figure that a page leads with."""
    at_coherent: ClassVar[str] = "coherent"
    """What that line is called."""
    beside: ClassVar[Collection[str]] = ()
    """Further metrics that the terminal shows of the subset `all`."""
    gate: ClassVar[Collection[str]] = ()
    """The conditions of its verdicts (`metrics.CONDITIONS`), written into a run's manifest before anything is
    read: a page calls those that are judged and not among them added later.
    """
    makes: ClassVar[Collection[str] | None] = None
    """The names of all its numbers, if they are known before anything is read: no other can be registered then."""
    config_type: ClassVar[type[RunConfig]] = RunConfig
    """Its settings."""
    unit: ClassVar[str] = "each read by itself"
    """What its items are, in the plural."""
    material: ClassVar[str] = ""
    """The setting that a file after its name on the command line fills, with dots; empty: it takes none."""
    scoring: ClassVar[frozenset[str]] = frozenset()
    """Settings that only enter scores: runs that differ in nothing else have read the same."""
    conditions: ClassVar[frozenset[str]] = frozenset()
    """Settings in which runs that are scored together may differ, besides the model: those that do are factors."""
    choices: ClassVar[frozenset[str]] = frozenset()
    """Settings that choose the items and what is read of them, not what a reading means."""
    probed: ClassVar[str] = "before-question"
    """The position at which `kinds: all` reads what is held."""
    by_parts: ClassVar[bool] = False
    """Whether its numbers and page need no more of a belief table in memory than a part: then its `samples`,
    `own_scores` and `findings` take `BeliefParts`, too."""

    # What is asked.

    @abstractmethod
    def items(self, config: Any) -> list[Item]:
        """The items, drawn from the seed. More items begin with the same ones."""

    @abstractmethod
    def questions(self, config: Any, item: Item) -> list[Question]:
        """What is asked of an item before the model has said anything: a plan counts it, a check rereads it."""

    def settle(self, config: Any, lm: LanguageModel) -> tuple[Any, Mapping[str, Any]]:
        """Choose settings with the model before anything is read: the settings, and how, for the manifest."""
        return config, {}

    def readable(self, config: Any, item: Item, reader: PromptReader) -> list[Question]:
        """Those of its questions that are read: an experiment may go on without what a model cannot be asked."""
        return self.questions(config, item)

    def places(self, config: Any, item: Item) -> Sequence[BeliefPlace]:
        """Where stated beliefs are asked for, as far as it is known before the model has said anything."""
        return ()

    def read(self, config: Any, item: Item, lm: LanguageModel) -> Read:
        """Read one item: its questions exactly, and what the settings ask to be stated at its places. What one reads
        does not depend on others, though they may share forward passes.
        """
        exact = read_questions(self.name, config, item, self.questions(config, item), lm)
        where = {"experiment": self.name, "item": item.id, "cluster": item.cluster}
        return stated_rows(config, self.places(config, item), lm).beside(exact, where)

    def moments(self, beliefs: pd.DataFrame) -> "pd.Series[str]":
        """[n] of each row of the belief table whether it is read before that to which a belief should respond
        (`prior`), after it (`posterior`), or neither (empty). By default a row of step 0 is a prior.
        """
        return moments_of(beliefs["step"] == 0, beliefs["step"] > 0)

    # What a plan counts besides.

    def planned(self, config: Any, item: Item) -> list[Question]:
        """Everything that an item would be asked, with stand-ins where the model's own answers are not known yet."""
        return self.questions(config, item)

    def numbers(self, config: Any, item: Item, reader: PromptReader) -> AskedNumbers:
        """The questions for numbers that it asks in ways of its own."""
        return AskedNumbers((), 0)

    def branches(self, config: Any) -> int:
        """Edited branches in each of which all that a plan sees of an item is read again."""
        return 0

    def planned_queries(self, config: Any, item: Item, reader: PromptReader, n_layers: int) -> Sequence[Query]:
        """Prompts into which something is put, all of an item that are read in a tree of their own."""
        return ()

    def size(self, config: Any) -> str:
        """How much is asked, in a line; empty if items and their questions say so."""
        return ""

    def scored(self, item: Item) -> bool:
        """Whether it counts among those of the registered number: a control, or what a gate is judged by, does not."""
        return True

    # What is made of the answers.

    def samples(self, config: Any, beliefs: Any) -> Iterable[Sample]:
        """The belief table as samples, from which the engine makes every number that fits: one for each method and
        subset, that of the subset `all` before its parts. No two may make numbers of one name.
        """
        return ()

    def own_scores(self, config: Any, beliefs: Any) -> Iterable[Number]:
        """Numbers that only this experiment has."""
        return ()

    def findings(self, config: Any, beliefs: Any, numbers: Sequence[Number], transcripts: Transcripts) -> Findings:
        """What the report shows beside the numbers."""
        return Findings(self.summary, [Column(self.headline, self.headline.replace("_", " "), "")])

    def terms(self, config: Any) -> Sequence[tuple[str, str]]:
        """(name, what it means) of templates, controls, conditions and numbers that stand in tables and verdicts: pages
        explain those that they show.
        """
        return ()

    def tables(self, runs: Sequence[RunNumbers]) -> Sequence[PaperTable]:
        """The tables of the paper that the experiment comes from, of one or many runs; empty if it comes from none."""
        return ()

    def answers(self, beliefs: pd.DataFrame) -> pd.DataFrame:
        """A row for each answer, by `id`, to be joined with the user's table: `answers.csv`. Empty if none."""
        return pd.DataFrame()

    def listed(self, config: Any) -> Sequence[str]:
        """The ids of the user's questions in their order, in which `answers.csv` has them; empty: as they were read."""
        return ()

    def rated(self, beliefs: pd.DataFrame, path: Path) -> pd.DataFrame:
        """The belief table with people's ratings of its steps. Raises UserError for a wrong row, or no steps."""
        raise UserError(f"{path}: runs of {self.name} have no steps to rate; leave --ratings out")


def items_of(experiment: Experiment, config: RunConfig) -> list[Item]:
    """What is sampled. Raises UserError for no items, two of one id, or a text that is no Unicode or has zero bytes."""
    items = experiment.items(config)
    if not items:
        raise UserError(f"{experiment.name}: has no items")
    if (name := repeated(item.id for item in items)) is not None:
        raise UserError(f"items: two are called {name!r}; give each an id of its own")
    for item in items:
        with in_one_line(f"item {item.id!r}"):
            text = json.dumps(item.record, ensure_ascii=False)
            text.encode()
            if "\\u0000" in text:
                raise ValueError("it holds a zero byte")
    return items
