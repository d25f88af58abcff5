"""Settings of the consistency experiment: the texts of the game, and the forms of reading it."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from ....base.settings import Settings, check_placeholders
from ...materials.entities import EntityConfig
from ...run.questions import MethodName, RunConfig

NAMED = {
    "wording.reject": "x",
    "wording.reject_answer": "x",
    "wording.narrow": "xy",
    "wording.narrow_answer": "xy",
    "fork.hidden": "x",
}
"""The placeholders of a text besides the three words."""


class ConsistencyWording(Settings):
    """The texts of the game; the placeholders are filled with words."""

    system: str
    reject: str
    reject_answer: str
    narrow: str
    narrow_answer: str
    undecided: str = "I would rather not say yet."
    """A reply that decides nothing, which is set against the two answers: are words merely copied?"""
    aside: str = " Before you answer that: have you played this game before?"
    """Another question after the same one, whose answers decide nothing, either: whoever copies may copy less after a
    hedge than after "No."."""
    aside_answers: tuple[str, str] = ("Yes.", "No.")
    reveal: str


class ConsistencyMethod(Settings):
    """A form of reading the belief."""

    forms: tuple[str, ...] = Field(min_length=1)
    prefill: str = ""
    reveal: str | None = None
    labels: tuple[str, str, str] | None = None


class Sampled(Settings):
    """The published way, beside the exact one: answers are drawn and matched with the words."""

    draws: int = Field(default=0, ge=0)
    """Answers to each context."""
    methods: tuple[str, ...] | None = None
    """None: the first."""
    contexts: Literal["all", "published"] = "all"
    """Where: in all contexts; or in the ten published ones, the prior and those of one rejection. Without the replies
    that decide nothing the gate asks one condition less of sampled answers."""
    mentions: tuple[str, ...] = ()
    """A word as it may stand in a sentence; if given, the exact chances that the answers name each first are summed
    (about ten times the work of drawing them).
    """


class Fork(Settings):
    """Is there a choice at all? Each word is asked for in a branch of its own."""

    methods: tuple[str, ...] | None = None
    """The reveals to compare with. None: the first; empty: do not ask."""
    yes: tuple[str, ...] = Field(default=("Yes", "yes"), min_length=1)
    no: tuple[str, ...] = Field(default=("No", "no"), min_length=1)
    hidden: str
    """The positive control: added to the system text, it writes the choice `{x}` where the model can read it."""


class ConsistencyConfig(RunConfig):
    """Configuration of `consistency`."""

    reads_temperatures: ClassVar[bool] = True
    reads_stated: ClassVar[bool] = True

    entities: EntityConfig = EntityConfig()
    orders: Literal["one", "latin", "all"] = "one"
    """Orders in which each triple is listed: as drawn, its three rotations, or all six. `items` counts triples, of each
    window of ranks if there are several."""
    rejections: Literal[1, 2] = 1
    """2: after "No." a second word is rejected, too, and one is left."""
    wording: ConsistencyWording
    methods: Mapping[MethodName, ConsistencyMethod] = Field(min_length=1)
    sampled: Sampled = Sampled()
    fork: Fork
    coverage_thresholds: tuple[Annotated[float, Field(ge=0, le=1)], ...] = (0.1, 0.5, 0.9)
    """Consistency is also scored on the instances whose coverage reaches these before and after."""

    @property
    def sampled_methods(self) -> tuple[str, ...]:
        """The methods whose answers are sampled."""
        return self._chosen(self.sampled.methods) if self.sampled.draws else ()

    @property
    def fork_methods(self) -> tuple[str, ...]:
        """The methods whose reveal is compared with the forks."""
        return self._chosen(self.fork.methods)

    def _chosen(self, methods: tuple[str, ...] | None) -> tuple[str, ...]:
        return tuple(self.methods)[:1] if methods is None else methods

    @model_validator(mode="after")
    def _methods_are_known(self) -> "ConsistencyConfig":
        for key, asked in (("sampled.methods", self.sampled.methods), ("fork.methods", self.fork.methods)):
            for name in asked or ():
                if name not in self.methods:
                    raise ValueError(f"{key}: {name!r} is not one of the methods {', '.join(self.methods)}")
        if labelled := [name for name in self.sampled_methods if self.methods[name].labels]:
            raise ValueError(f"sampled.methods: {labelled[0]!r} is answered with labels, which no match can find")
        if self.model.thinking == "on":
            self._answers_can_follow_thoughts()
        return self

    def _answers_can_follow_thoughts(self) -> None:
        if begun := [name for name in self.sampled_methods if self.methods[name].prefill]:
            raise ValueError(
                f"sampled.methods: {begun[0]!r} has a prefill, which leaves no room for a thought before it"
            )
        if self.sampled_methods and self.sampled.mentions:
            raise ValueError("sampled.mentions: thoughts name words, too; leave them out with `model.thinking: on`")

    @model_validator(mode="after")
    def _placeholders_are_known(self) -> "ConsistencyConfig":
        reveals = {f"methods.{name}.reveal": m.reveal for name, m in self.methods.items() if m.reveal}
        texts = {f"wording.{k}": v for k, v in self.wording.model_dump(exclude={"aside_answers"}).items()}
        texts |= {f"wording.aside_answers.{i}": text for i, text in enumerate(self.wording.aside_answers)}
        for key, text in (texts | reveals | {"fork.hidden": self.fork.hidden}).items():
            check_placeholders(key, text, "abc" + NAMED.get(key, ""))
        return self
