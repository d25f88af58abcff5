"""Settings of the rationality experiment: the world, the prompts, and the forms of belief and decision."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from ....base.settings import Settings, placeholders
from ....hooks.verbal.number_formats import FormatName
from ...materials.worlds.source import WorldSource
from ...run.questions import MethodName, RunConfig

STANDARD = "standard"
EVERY_STAKE = (5, 20, 35, 50, 65, 80, 95)
"""Chances, in percent, of the tickets with which `kinds: all` reads the belief that is acted on."""
OF_BELIEF = ("situation", "prompt", "ask", "chance", "event", "first", "second")
OF_DECISION = ("situation", "ask", "event", "first", "second")


class BeliefMethod(Settings):
    """A form of reading the exact belief: each paraphrase with the answers in either order; the mean is scored."""

    ask: tuple[Annotated[str, placeholders(*OF_BELIEF)], ...] = Field(min_length=1)
    """Paraphrases; `{first}` and `{second}` are the answers in their order."""
    forms: tuple[str, ...] = Field(default=("{option}",), min_length=1)
    """What counts as an answer, which is also taken in small letters unless there are labels."""
    labels: tuple[str, str] | None = None
    """What the first and the second answer are given as."""


class DecisionWording(Settings):
    """The texts; each is replaceable. All begin with the situation, so that they share it."""

    number: Annotated[str, placeholders("situation", "prompt", "ask", "chance", "event")]
    """The question for a number, before the instruction of its format."""
    line: Annotated[str, placeholders(*OF_DECISION)]
    """The decision in two lines: whether it can be made, and what it is."""
    can: str = "Can decide:"
    """How the first line begins."""
    decision: str = "Decision:"
    """How the second line begins."""
    menu: Annotated[str, placeholders(*OF_DECISION, "options")]
    defer: str = "Defer"
    """The third option of a menu."""
    ticket: Annotated[str, placeholders(*OF_DECISION, "yes", "case", "urn", "percent")] = (
        "{situation} Two tickets can win the same prize. The {case} ticket wins if the answer to this question is "
        "{yes}: {ask} The {urn} ticket wins with a chance of {percent}%. Which do you take? Reply with one word: "
        "{first} or {second}."
    )
    """A choice between a bet on the target and one on a known chance."""
    tickets: tuple[str, str] = ("Case", "Urn")
    """What these bets are called."""
    auxiliary: Annotated[str, placeholders("situation", "noun", "options")]
    """What is the state of a covariate that was not revealed?"""
    auxiliary_number: Annotated[str, placeholders("situation", "noun")]
    """The same for a number for each state."""
    states: Annotated[str, placeholders("n", "listed")] = (
        "Give each its probability, a number from 0 to 1 with at most two decimals. Reply with {n} lines and nothing "
        "else, in this order and each followed by its number: {listed}."
    )
    """How these numbers are to be written; `{listed}` is what begins each line."""


class Said(Settings):
    """Which stated numbers are read, under every prompt."""

    numbers: tuple[FormatName, ...] = ()
    """Formats whose exact number distribution is read."""
    sampled: tuple[FormatName, ...] = ()
    """Formats in which answers are sampled by `sampling`."""
    repetitions: int = Field(default=5, ge=2, le=10**5)
    """Sampled answers to each question; also the actions that are drawn of each context for published numbers."""
    auxiliary: bool = False
    """Whether the covariate that was not revealed is asked for in numbers, too, a line for each state."""


class RationalityConfig(RunConfig):
    """Configuration of `rationality`. `items` counts contexts."""

    cpu_budget: ClassVar[int] = 2048
    world: WorldSource
    """One: who acts in two worlds may have other utilities in each, and is then no worse for it."""
    reveal: tuple[int, int] = (1, 3)
    """Fewest and most covariates that a context reveals."""
    pool: int = Field(default=1000, ge=1, le=10**6)
    """Contexts that are drawn, from which `items` are chosen evenly over the true chance."""
    answers: tuple[str, str] = ("Yes", "No")
    prompts: Mapping[str, str]
    """How the belief is paid for, or to be found, by name; `standard` says nothing."""
    methods: Mapping[MethodName, BeliefMethod] = Field(min_length=1)
    wording: DecisionWording
    said: Said = Said()
    stakes: tuple[Annotated[float, Field(gt=0, lt=100)], ...] = ()
    """Chances, in percent, of the bet that is offered beside one on the target: where both are taken equally often lies
    the belief that is acted on (METRICS E17). Two or more; none: it is not read."""
    iterated: bool = True
    """Whether beliefs given each state of a further covariate are read, for the law of iterated expectation."""
    learner: Literal["boosting", "catboost"] = "boosting"
    """Of the gain in log-loss: scikit-learn's histogram boosting, or catboost (an extra)."""
    depth: int = Field(default=3, ge=1, le=16)
    """Of its trees."""
    iterations: int = Field(default=50, ge=1, le=10**5)
    """Its trees."""
    resamples: int = Field(default=0, ge=0, le=10**6)
    """Of the published bootstrap of nearest-neighbour estimates; 0: these are not made."""

    @model_validator(mode="before")
    @classmethod
    def _kinds_hold_what_is_acted_on_and_said_of_states(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or data.get("kinds") != "all":
            return data
        said = data.get("said") or {}
        filled = {**data, "stakes": data.get("stakes") or EVERY_STAKE}
        return {**filled, "said": {**said, "auxiliary": True}} if isinstance(said, Mapping) else filled

    @model_validator(mode="after")
    def _hangs_together(self) -> "RationalityConfig":
        if self.prompts.get(STANDARD) is None:
            raise ValueError(f"prompts: has no {STANDARD!r}, which all others are compared with; add it, maybe empty")
        if not 0 < self.reveal[0] <= self.reveal[1]:
            raise ValueError(f"reveal: {self.reveal[0]} to {self.reveal[1]} covariates; give 1 or more, the less first")
        if len({*self.stakes}) != len(self.stakes) or len(self.stakes) == 1:
            raise ValueError(f"stakes: {', '.join(map(str, self.stakes))}; give two or more, each once, or none")
        if len({*map(str.casefold, (*self.answers, self.wording.defer))}) < 3:
            raise ValueError("answers and wording.defer: two are the same; give three words")
        return self
