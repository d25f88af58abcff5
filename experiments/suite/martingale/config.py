"""Settings of the martingale experiment: questions, reasoning, and the forms of reading a belief."""

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from ....base.settings import Settings, check_placeholders, placeholders
from ....hooks.generation.sampling import Sampling
from ...materials.choices.columns import QuestionColumns
from ...run.questions import MethodName, RunConfig

SMOKE = ("forecasting", "values", "review")
"""The domains of which questions come with doxascope."""
GATE = "gate"
"""The domain of the urns that the gate is judged by, which enter no other number."""
A_FEW = 6
"""Questions of each domain without a file, to try the pipeline on."""
Reasoning = Literal["cot", "thought", "debate", "evidence"]
Computed = Literal["urns", "arithmetic", "weekdays", "comparisons"]
DRIFT_CHAINS = 8
"""Fewest chains of a question for the test of drift within it (METRICS A9)."""


class QuestionSource(Settings):
    """Where the questions of a domain come from."""

    kind: Literal["computed", "smoke", "table", "views", "openreview", "forecastbench"]
    file: str | None = None
    """Of all kinds but the first two, which come with doxascope."""
    resolutions: str | None = None
    """Of `forecastbench`: the resolution set of the same date."""
    make: Annotated[tuple[Computed, ...], Field(min_length=1)] | None = None
    """Of `computed`: which questions, in turns; None: all but comparisons."""
    columns: QuestionColumns = QuestionColumns()
    """Of a table: the names of its columns, where they are none that is known."""
    unused: tuple[str, ...] = ()
    """Of a table: columns that are left alone."""

    @model_validator(mode="after")
    def _has_its_files(self) -> "QuestionSource":
        if (self.file is None) != (self.kind in ("computed", "smoke")):
            raise ValueError(f"kind {self.kind!r}: {'needs a' if self.file is None else 'takes no'} `file`")
        if (self.resolutions is None) == (self.kind == "forecastbench"):
            raise ValueError("`resolutions` go with kind `forecastbench`, and it needs them")
        if self.make and len({*self.make}) < len(self.make):
            raise ValueError("`make` names a kind of question twice; take one away")
        if self.make and self.kind != "computed":
            raise ValueError(f"kind {self.kind!r}: takes no `make`, which goes with `computed`")
        if self.kind != "table" and (self.unused or self.columns != QuestionColumns()):
            raise ValueError(f"kind {self.kind!r}: takes no `columns` and no `unused`, which go with `table`")
        return self


class MartingaleWording(Settings):
    """The texts of the reasoning; each is replaceable."""

    cot: Annotated[str, placeholders("question")]
    opening: str
    """How every chain begins, prefilled; may be empty."""
    debate: Annotated[str, placeholders("question", "yes", "no", "side", "other")]
    reply: Annotated[str, placeholders("question", "speech")]
    observer: Annotated[str, placeholders("question", "yes", "no")]
    speech: Annotated[str, placeholders("question", "side", "text")]
    """How the observer sees a speech."""
    evidence: str


class MartingaleMethod(Settings):
    """A form of reading: in every wording, in both orders of the options; the mean of all is scored."""

    ask: Annotated[tuple[str, ...], Field(min_length=1)]
    """One wording, or paraphrases: a random facet, of which five say how much hangs on the wording (METRICS F7).
    `{first}` and `{second}` are the options in their order.
    """
    forms: tuple[str, ...] = Field(default=("{option}", "{Option}"), min_length=1)
    labels: tuple[str, str] | None = None
    """What the first and the second option are answered with."""
    claim: tuple[str, str] | None = None
    """What says that the first option is right, and that it is not: the second reading is of the negation."""

    @field_validator("ask", mode="before")
    @classmethod
    def _one_wording(cls, ask: object) -> object:
        return (ask,) if isinstance(ask, str) else ask

    @model_validator(mode="after")
    def _has_one_way(self) -> "MartingaleMethod":
        if self.labels and self.claim:
            raise ValueError("`labels` and `claim` are two ways of answering; give one of them")
        for ask in self.ask:
            check_placeholders("ask", ask, ("first", "second"))
        if len({*self.ask}) < len(self.ask):
            raise ValueError("ask: has one wording twice; take one away")
        return self


class Debate(Settings):
    """Of two clones."""

    turns: int = Field(default=4, ge=1)
    """Speeches in all; the side of the first option begins."""
    max_new_tokens: int = Field(default=80, ge=1)
    """Of a speech."""


class Doob(Settings):
    """The negative control: P(final belief | prefix) from continuations is a martingale for any model."""

    continuations: int = Field(default=0, ge=0)
    """From each prefix, in two disjoint halves; 0: no control."""

    @field_validator("continuations")
    @classmethod
    def _halves(cls, continuations: int) -> int:
        if continuations % 2:
            raise ValueError("continuations go into two halves; give an even number")
        return continuations


class MartingaleConfig(RunConfig):
    """Configuration of `martingale`."""

    reads_stated: ClassVar[bool] = True
    reads_judges: ClassVar[bool] = True
    cpu_budget: ClassVar[int] = 4096
    """A trajectory with all its read-outs fits."""

    items: Annotated[int, Field(ge=1, le=10**7)] | None = None  # type: ignore
    """Questions of each domain; None: all of what has a file, a few of what comes with doxascope."""
    questions: str | None = None
    """A table of one's own, which takes the place of `domains` and is called by its name; of `domains` one of that name
    may say more of it, such as its columns."""
    domains: Mapping[str, QuestionSource] = Field(min_length=1)
    cutoff: date | None = None
    """When the model's training ended. What was resolved by then, or if it is unknown anything, is no forecast: its
    domain is called `recall`."""
    reasoning: tuple[Reasoning, ...] = Field(min_length=1)
    prompts: Mapping[str, str] = Field(min_length=1)
    """System prompts by name; an empty one is none."""
    wording: MartingaleWording
    chains: int = Field(default=1, ge=1)
    """Of each question, reasoning and prompt; from eight on, drift within the question is tested."""
    generation: Sampling = Sampling()
    """The sampling distribution of chains, thoughts and speeches."""
    debate: Debate = Debate()
    trajectories: str | None = None
    """A run of the same model whose trajectories are read, instead of new ones."""
    methods: Mapping[MethodName, MartingaleMethod] = Field(min_length=1)
    requires_judge: bool = False
    """Whether the design is one in which a judge reads the beliefs: then a run without any is refused."""
    gate_urns: int = Field(default=20, ge=0)
    """Urns whose draws are shown, for the gate alone: does a belief follow evidence at all? 0: then none passes."""
    doob: Doob = Doob()
    most_unparsed: Annotated[float, Field(ge=0, le=1)] = 0.2
    """A verbal method or judge whose answers are no number more often is unreadable; an exact one whose options hold
    less than `low_coverage` (METRICS W4)."""

    def most(self, source: QuestionSource) -> int | None:
        """How many of its questions are read; None: all."""
        return self.items or (None if source.file else A_FEW)

    @property
    def sources(self) -> Mapping[str, QuestionSource]:
        """Where questions come from, by domain."""
        if self.questions is None:
            return self.domains
        name = Path(self.questions).stem
        table = QuestionSource(kind="table", file=self.questions)
        said = self.domains.get(name, table)
        return {name: said if said.file and Path(said.file).name == Path(self.questions).name else table}

    @property
    def tests_drift(self) -> bool:
        """Whether chains are many enough and the model's own: else drift within a question means nothing."""
        return self.chains >= DRIFT_CHAINS and self.generation.faithful

    @model_validator(mode="after")
    def _hangs_together(self) -> "MartingaleConfig":
        thinks, kinds = self.model.thinking == "on", {*self.reasoning}
        if len(kinds) < len(self.reasoning):
            raise ValueError("reasoning: names a kind twice; take one away")
        if "thought" in kinds and not thinks:
            raise ValueError("reasoning `thought`: is that of a model that thinks; set `model.thinking: on`")
        if thinks and not {"thought"} <= kinds <= {"thought", "evidence"}:
            raise ValueError(
                "model.thinking 'on': goes with reasoning `thought`, beside it `evidence`; else set `closed`"
            )
        for domain, source in self.sources.items():
            if (source.kind == "computed" and domain in SMOKE) or (source.kind == "smoke" and domain not in SMOKE):
                raise ValueError(f"domains.{domain}: has no {source.kind} questions; `smoke` are {', '.join(SMOKE)}")
            if not domain.isprintable() or domain != domain.strip() or not domain or {*"/,"} & {*domain}:
                raise ValueError(f"domains: {domain!r}: give a name without '/', ',' and blanks at its ends")
            if domain in (GATE, "all"):
                raise ValueError(f"domains: {domain!r} is taken; give it another name")
        if self.doob.continuations and not self.generation.faithful:
            raise ValueError(
                "doob: continuations follow the model's own distribution; set generation.temperature and top_p to 1"
            )
        if self.doob.continuations and self.generation.stop:
            raise ValueError("doob: a stop text may lie across the end of a prefix; take generation.stop away")
        if self.doob.continuations and "cot" not in self.reasoning:
            raise ValueError("doob: goes with chains of thought; add `cot` to reasoning")
        return self
