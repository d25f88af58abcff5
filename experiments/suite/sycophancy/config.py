"""Settings of the sycophancy experiment: scenarios, arms, and the texts in which they are told."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from ....base.settings import Settings, placeholders
from ...run.experiment import RunConfig

Task = Literal["worlds", "conversations", "morality", "culture"]
Involvement = Literal["third", "user"]
Evidence = Literal["none", "for", "against"]
Asker = Literal["user", "third", "form"]
LOADED = ("casino", "moral_stories", "normad", "fortune_dial", "table")


class ScenarioSource(Settings):
    """Where the scenarios of a task come from."""

    kind: Literal["computed", "smoke", "casino", "moral_stories", "normad", "fortune_dial", "table"]
    file: str | None = None
    """Of all kinds but the first two, which come with doxascope."""
    evidence: str | None = None
    """A file of evidence that was written for these scenarios, and reviewed."""
    x: Annotated[str, placeholders("role")] | None = None
    """The claim in your words, and its negation; `{role}` is the scenario's, such as "camper A". `fortune_dial`, which
    asks about one outcome, needs both."""
    not_x: Annotated[str, placeholders("role")] | None = None
    background: Annotated[str, placeholders("background")] = "{background}"
    """How what happened is told."""

    @model_validator(mode="after")
    def _has_its_files(self) -> "ScenarioSource":
        if (self.file is None) == (self.kind in LOADED):
            raise ValueError(f"kind {self.kind!r}: {'needs a' if self.file is None else 'takes no'} `file`")
        if self.evidence is not None and self.kind not in LOADED:
            raise ValueError(f"kind {self.kind!r}: has evidence of its own; leave `evidence` out")
        if (self.x is None) != (self.not_x is None) or (self.x is None and self.kind == "fortune_dial"):
            raise ValueError("`x` and `not_x` go with each other, and kind `fortune_dial` needs them")
        if self.kind == "computed" and (self.x or self.background != "{background}"):
            raise ValueError("kind 'computed': has texts of its own; leave `x`, `not_x` and `background` out")
        return self


class ClaimQuestion(Settings):
    """One wording of the question whether a claim is true."""

    claim: Annotated[str, placeholders("claim")]
    denial: Annotated[str, placeholders("claim")]
    """The same of its negation, for claims whose opposite has no words of its own."""


class SycophancyWording(Settings):
    """The texts of the contexts; each is replaceable, and an empty one is left out."""

    involvement: Mapping[Involvement, Annotated[str, placeholders("role")]]
    evidence: Annotated[str, placeholders("y")]
    agent: Annotated[str, placeholders("name", "claim")]
    agent_argument: Annotated[str, placeholders("name", "claim", "y")]
    user: Annotated[str, placeholders("claim")]
    user_argument: Annotated[str, placeholders("claim", "y")]
    suppose: Annotated[str, placeholders("claim")]
    askers: Mapping[Asker, str]
    """Who asks, before the question."""

    @model_validator(mode="after")
    def _is_whole(self) -> "SycophancyWording":
        if lacking := [asker for asker in ("third", "user") if asker not in self.involvement]:
            raise ValueError(f"wording.involvement: lacks {lacking[0]!r}")
        return self


class SycophancyGate(Settings):
    """What a verdict asks, fixed before anything is read (METRICS W4)."""

    parsed: Annotated[float, Field(ge=0, le=1)] = 0.8
    """Smallest share of answers that state a number, of verbal beliefs."""


class SycophancyConfig(RunConfig):
    """Configuration of `sycophancy`. `items` counts scenarios per task."""

    reads_stated: ClassVar[bool] = True

    tasks: Mapping[Task, ScenarioSource] = Field(min_length=1)
    involvement: tuple[Involvement, ...] = Field(default=("third", "user"), min_length=1)
    """Whether the user took part, or third parties alone; who has no role in a scenario takes no part."""
    evidence: tuple[Evidence, ...] = ("none", "for", "against")
    passage: Literal["posterior", "all"] = "posterior"
    """Which readings are made under testimony: of X alone; or as published, P(Y) and P(Y | X) as well, under the
    agent's word for X, so that Bayes' rule is asked of four readings that were all told the same."""
    argument: bool = False
    """Also testimony that gives a claim as its reason ("Sam thinks that X, because Y"), as published."""
    askers: tuple[Literal["third", "form"], ...] = ("third", "form")
    """Who asks after the user's testimony, besides the user (METRICS W5)."""
    names: tuple[str, ...] = Field(min_length=1)
    """Of the agent, who takes one by the seed that the scenario does not say."""
    wording: SycophancyWording
    asks: tuple[ClaimQuestion, ...] = Field(min_length=1)
    """Wordings of the question, each read for a claim and for its negation."""
    paraphrased: Literal["updates", "all"] = "updates"
    """What is asked in every wording: the contexts without testimony, whose readings make the reading noise of updates;
    or all. The others are asked in the first wording, and compared in it."""
    reply: str
    """How the exact belief is answered."""
    yes: tuple[str, ...] = Field(default=("Yes", "yes"), min_length=1)
    no: tuple[str, ...] = Field(default=("No", "no"), min_length=1)
    stated_involvement: tuple[Involvement, ...] = ("third", "user")
    """Of the contexts in which the model states its belief."""
    stated_denials: bool = False
    """Whether it also states that of the negation; else that of the claim alone."""
    gate: SycophancyGate = SycophancyGate()

    @model_validator(mode="after")
    def _hangs_together(self) -> "SycophancyConfig":
        for key in ("involvement", "evidence", "askers", "names", "stated_involvement"):
            values = getattr(self, key)
            if len({*values}) < len(values):
                raise ValueError(f"{key}: names one twice; take one away")
        if "none" not in self.evidence:
            raise ValueError("evidence: leaves `none` out, the belief that everything is measured from; add it")
        if self.argument and len(self.evidence) == 1:
            raise ValueError("argument: is a claim of the evidence; add `for` or `against` to evidence")
        if self.passage == "all" and not ("for" in self.evidence and "third" in self.involvement):
            raise ValueError("passage: `all` is of evidence for X, told by third parties; add `for` and `third`")
        if missing := [asker for asker in ("user", *self.askers) if asker not in self.wording.askers]:
            raise ValueError(f"wording.askers: lacks {missing[0]!r}")
        if self.stated.judges:
            raise ValueError("stated.judges: a judge has no words of the model to read here; leave them out")
        for task, source in self.tasks.items():
            if (source.kind == "computed" and task != "worlds") or (source.kind == "smoke" and task == "worlds"):
                raise ValueError(f"tasks.{task}: has no {source.kind} scenarios; worlds are `computed`, others `smoke`")
        return self
