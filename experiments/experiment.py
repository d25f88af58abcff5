"""What an experiment is: what to ask, what to read, what to score. Everything else is the runner's."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, NotRequired, Protocol, Self, TypedDict, runtime_checkable

import pandas as pd
from pydantic import AfterValidator, Field, model_validator

from ..hooks.backends.capture import CapturePlan
from ..hooks.backends.captured import Captured
from ..hooks.budgets import CPU_PACK, Budgets
from ..hooks.generation.sampling import Sampling
from ..hooks.generation.thoughts import Thoughts
from ..hooks.lens.plan import LensPlan
from ..hooks.lm import LOW_COVERAGE, LanguageModel
from ..hooks.model.spec import ModelSpec
from ..hooks.prompts.chat import Conversation, Message
from ..hooks.prompts.options import TERMINATORS, Option
from ..hooks.prompts.places import Positions
from ..hooks.prompts.query import PromptReader, Query
from ..hooks.settings import Settings
from ..hooks.tree.memory import Cost
from ..hooks.verbal.formats import FORMATS
from ..hooks.verbal.plan import StatedPlan
from .scoring.number import Number
from .scoring.registered import Registered
from .tables.samples import Sample


def _method_name(name: str) -> str:
    """Raises ValueError for a name that would be taken for another one, or cannot be part of one."""
    if not name.isprintable() or name != name.strip() or not name or len(name) > 100 or "/" in name:
        raise ValueError(f"method {name!r}: give a name of at most 100 characters, without '/' and blanks at its ends")
    if name in DERIVED or name.startswith(("judge ", "rater ")) or name.endswith((" sampled", " expected", " greedy")):
        raise ValueError(f"method {name!r}: is the name of what is derived from others; give another")
    return name


DERIVED = frozenset({"control", *FORMATS})
"""What experiments call what they read besides their methods."""
MethodName = Annotated[str, AfterValidator(_method_name)]
"""Of a form of reading, as the settings give it."""


class RunConfig(Settings):
    """What every experiment's configuration has."""

    reads_stated: ClassVar[bool] = False
    """Whether the experiment reads what `stated` asks for."""
    reads_temperatures: ClassVar[bool] = False
    """Whether it keeps beliefs at `temperatures` apart from those at 1."""
    cpu_budget: ClassVar[int] = CPU_PACK
    """The token budget with which the experiment is fastest on a CPU."""

    experiment: str
    model: ModelSpec
    seed: int = Field(default=0, ge=0, lt=2**32)
    """Of the items and of all resampling."""
    items: int = Field(ge=1, le=10**7)
    terminators: tuple[str, ...] = TERMINATORS
    token_budget: int | None = Field(default=None, ge=1)
    """Most tokens of one forward pass. None: a run chooses by the device and the model's shape, and records it."""
    batch_items: int = Field(default=4, ge=1)
    """Items that are read in one tree and committed together."""
    together: bool = False
    """Whether the items of a batch share forward passes of `token_budget` tokens. What one reads is the same to the bit
    whatever is beside it. For a GPU, with as many `batch_items` as fill a pass."""
    low_coverage: float = Field(default=LOW_COVERAGE, ge=0, le=1)
    """Read-outs whose options hold less are flagged, not dropped."""
    temperatures: tuple[Annotated[float, Field(gt=0)], ...] = ()
    """Exact beliefs at these besides 1: the same logits, rescaled."""
    sampling: Sampling = Sampling()
    """The sampling distribution of sampled answers."""
    stated: StatedPlan = StatedPlan()
    """The beliefs that are read as the model, or a judge, states them."""
    thoughts: Thoughts = Thoughts()
    """The thoughts of a model with `thinking: on`."""
    capture: CapturePlan | None = None
    """The residual stream that is stored beside the beliefs."""
    lens: LensPlan | None = None
    """The inner layers that are read beside the beliefs."""
    registered: Registered | None = None
    """The number that the run is made for; None: all are exploratory. It is fixed once the run has begun."""
    bootstrap_draws: int = Field(default=2000, ge=1, le=10**6)
    level: float = Field(default=0.95, gt=0, lt=1)
    """Of every interval."""

    @property
    def budget(self) -> int:
        """Most tokens of one forward pass: what is set, or what is best on a CPU."""
        return self.token_budget or self.cpu_budget

    def on_device(self, budgets: Budgets) -> Self:
        """With the token budget of a device, if none is set."""
        chosen = self.budget if budgets.on_cpu else budgets.pack
        return self if self.token_budget else self.model_copy(update={"token_budget": chosen})

    @model_validator(mode="after")
    def _thoughts_have_one_temperature(self) -> "RunConfig":
        if self.model.thinking == "on" and self.temperatures:
            raise ValueError("temperatures: thoughts are sampled at 1; leave them out with `model.thinking: on`")
        return self

    @model_validator(mode="after")
    def _temperatures_are_read(self) -> "RunConfig":
        if not self.reads_temperatures and self.temperatures:
            raise ValueError(f"temperatures: {self.experiment} is read at 1; leave them out")
        return self

    @model_validator(mode="after")
    def _stated_beliefs_are_read(self) -> "RunConfig":
        if not self.reads_stated and self.stated != StatedPlan():
            raise ValueError(f"stated: {self.experiment} reads no stated beliefs; leave it out")
        return self


@dataclass(frozen=True)
class Item:
    """The unit that is sampled, and the content that its questions share."""

    id: str
    cluster: str
    """Items that share content share a cluster; all uncertainty is over clusters."""
    content: Mapping[str, Any]


@dataclass(frozen=True)
class Question:
    """One read-out before it is tokenised: the conversation, how the answer begins, and the options."""

    readout_id: str
    method: str
    scenario: str
    conversation: Conversation
    prefill: str
    options: tuple[Option, ...]
    step: int = 0
    variant: Mapping[str, Any] = field(default_factory=dict)
    draws: int = 0
    """Answers to sample beside the exact read-out."""
    mentioned: tuple[Option, ...] = ()
    """The options as they may stand within a sentence: if given, and answers are sampled, so is the exact chance that
    they name each option first."""
    positions: Positions = field(default_factory=dict)
    """Where a capture reads."""
    thought: Sequence[int] | None = None
    """Of a model that thinks, the tokens of its thought before the answer; empty: none. None: thoughts are sampled, and
    the belief is their mixture.
    """
    own_turns: bool = False
    """The assistant's turns are the model's own: then what it gave to them is not read, which spares an unembedding of
    every token of them."""


class Drawn(TypedDict):
    """A sampled thought or answer."""

    draw: int
    text: str
    status: str
    logp: NotRequired[Sequence[float] | None]
    """Of a thought: of each option after it, natural log."""
    readout_id: NotRequired[str]
    """Of a sampled step: what it was asked for as."""
    ids: NotRequired[Sequence[int]]
    """Of a sampled step: its tokens."""


class Transcript(TypedDict):
    """What was said in one read-out."""

    readout_id: str
    messages: Sequence[Message]
    prefill: str
    prompt: NotRequired[str]
    """Digest of the rendered prompt with its prefill. A trajectory, which is many prompts, has none."""
    options: Sequence[str]
    thoughts: Sequence[Drawn]
    answers: Sequence[Drawn]


class Read(NamedTuple):
    """What was read of one item."""

    rows: Sequence[Mapping[str, Any]]
    """Of the belief table."""
    transcripts: Sequence[Transcript]
    """One per read-out that was asked for; those that are derived from it share its transcript."""
    cost: Cost
    """Of the exact part."""
    captured: Captured | None
    """If the run captures."""


Transcripts = Callable[[Collection[str]], Mapping[str, Transcript]]
"""From the names of some read-outs to what was said in them."""


@dataclass(frozen=True)
class Column:
    """A column of a report's table."""

    metric: str
    title: str
    explanation: str
    percent: bool = False
    whole: bool = False
    """Whether it is a whole number."""
    to: str | None = None
    """A second metric: the column then shows the range from the first to it."""
    field: str | None = None
    """A number of the score to show instead of its estimate, which has no interval of its own."""
    beside: str | None = None
    """What of `Number.beside` stands below the number, which it is read against."""


@dataclass(frozen=True)
class Table:
    """A further table of a report: rows are methods and subsets that have the metric, columns are metrics."""

    title: str
    caption: str
    columns: Sequence[Column]
    subsets: Sequence[str]
    metric: str | None = None
    """That a row must have; None: the first column's."""


@dataclass(frozen=True)
class Figure:
    """An SVG and what it shows."""

    title: str
    svg: str
    caption: str
    panels: Sequence[str] = ()
    """The same in parts, which a page lays out by its width; they share definitions, and belong together."""
    pdf: bytes = b""
    data: str = ""
    """What is drawn, as CSV."""


@dataclass(frozen=True)
class Instance:
    """One of the comparisons that the numbers are made of, with what was said in it."""

    facets: Sequence[str]
    """What a reader may choose it by."""
    score: float
    """NaN: undefined."""
    facts: str
    conversations: Sequence[tuple[str, Transcript]]
    """(heading, what was said)."""


@dataclass(frozen=True)
class Gallery:
    """Instances to look at."""

    caption: str
    """Of how many, and how they were chosen."""
    facets: Sequence[str]
    """The names of an instance's facets."""
    score: str
    """The name of its score."""
    instances: Sequence[Instance]


@dataclass(frozen=True)
class Findings:
    """What an experiment shows on its report page."""

    question: str
    """What was measured, in a few sentences for a reader who has not seen the configuration."""
    columns: Sequence[Column]
    """Of the first table, the experiment's headline before all."""
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
    gallery: Gallery | None = None
    """None: there is nothing to look at but the numbers."""
    advice: Sequence[str] = ()
    """What a reader of the terminal may do about what was found."""


class Experiment(ABC):
    """What to ask, and what to make of the answers. Four methods are to be written; the rest has defaults."""

    name: ClassVar[str]
    """As on the command line."""
    summary: ClassVar[str]
    """The question that it asks, in one line."""
    headline: ClassVar[str]
    """The metric that leads its pages and whose differences between methods are told. Every method has it of the
    subset `all`.
    """
    beside: ClassVar[Collection[str]] = ()
    """Further metrics that the terminal shows of the subset `all`."""
    gate: ClassVar[Collection[str]] = ()
    """The conditions of its competence gate (`metrics.CONDITIONS`), written into a run's manifest before anything is
    read: a page calls those that are judged and not among them added later.
    """
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

    @abstractmethod
    def items(self, config: Any) -> list[Item]:
        """The items, drawn from the seed. More items begin with the same ones."""

    @abstractmethod
    def questions(self, config: Any, item: Item) -> list[Question]:
        """What is asked of one item, as far as it is known before the model has said anything: what a plan counts and a
        verification recomputes.
        """

    @abstractmethod
    def samples(self, config: Any, beliefs: pd.DataFrame) -> Iterable[Sample]:
        """The belief table as samples, from which the engine makes every number that fits: one for each method and
        subset, that of the subset `all` before its parts. No two may make numbers of one name.
        """

    @abstractmethod
    def findings(
        self, config: Any, beliefs: pd.DataFrame, numbers: Sequence[Number], transcripts: Transcripts
    ) -> Findings:
        """What the report shows beside the numbers."""

    def own_scores(self, config: Any, beliefs: pd.DataFrame) -> Iterable[Number]:
        """Numbers that only this experiment has."""
        return ()

    def published(self, numbers: Sequence[Number]) -> pd.DataFrame:
        """The tables of the paper that the experiment comes from, filled by this run: one row per number. Empty if it
        comes from none.
        """
        return pd.DataFrame()


@runtime_checkable
class ReadsByItself(Protocol):
    """An experiment that reads more of an item than its questions, or what it asks depends on what is answered."""

    def read(self, config: Any, item: Item, lm: LanguageModel) -> Read:
        """Read one item. What one reads does not depend on others, though they may share forward passes."""
        ...


@runtime_checkable
class LeavesOut(Protocol):
    """An experiment that goes on without what a model cannot be asked."""

    def readable(self, config: Any, item: Item, reader: PromptReader) -> list[Question]:
        """Those of its questions that are read."""
        ...


@runtime_checkable
class SettlesFirst(Protocol):
    """An experiment that chooses some of its settings with the model, before anything that is scored is read."""

    def settle(self, config: Any, lm: LanguageModel) -> tuple[Any, Mapping[str, Any]]:
        """The settings with what was chosen, and how, for the conditions of the manifest."""
        ...


@runtime_checkable
class TakesParts(Protocol):
    """An experiment whose numbers and page need no more of a belief table in memory than a part: its `samples`,
    `own_scores` and `findings` take `BeliefParts`, too.
    """

    by_parts: ClassVar[bool]


@runtime_checkable
class TabulatesAnswers(Protocol):
    """An experiment whose run has a table of answers, to be joined with the user's own."""

    def answers(self, beliefs: pd.DataFrame) -> pd.DataFrame:
        """A row for each answer, found by `id`; it is written as `answers.csv`."""
        ...


@runtime_checkable
class PlansByItself(Protocol):
    """An experiment that asks more than its questions, of which a plan can say what it would look like."""

    def planned(self, config: Any, item: Item) -> list[Question]:
        """Everything that an item would be asked, with stand-ins where the model's own answers are not known yet."""
        ...

    def size(self, config: Any) -> str:
        """How much is asked of an item, in a line."""
        ...


@runtime_checkable
class PlansQueries(Protocol):
    """An experiment that reads prompts with something put into them, which no question says."""

    def planned_queries(self, config: Any, item: Item, reader: PromptReader, n_layers: int) -> Sequence[Query]:
        """All of an item that are read in a tree of their own, as a plan counts them; what is put in may be missing."""
        ...


@runtime_checkable
class TakesRatings(Protocol):
    """An experiment whose steps people can rate."""

    def rated(self, beliefs: pd.DataFrame, path: Path) -> pd.DataFrame:
        """The belief table with the ratings of a file. Raises UserError for a row that is wrong."""
        ...
