"""A world: what is said of it, what it can be asked, and a context of it, some of its variables revealed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Protocol

import numpy as np
from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from ....base.errors import UserError
from ....base.settings import Settings, parse, placeholders, read_yaml
from ....metrics.contract import Floats

EMBEDDED = Path(__file__).with_name("embedded")


def _texts(value: object, info: ValidationInfo) -> object:
    """YAML reads `yes:` and `no:` as truth values, and `1:` as a number."""
    if isinstance(value, Mapping) and (wrong := [key for key in value if not isinstance(key, str)]):
        raise ValueError(f"{info.field_name}: {wrong[0]!r} is no text; quote it")
    return value


Texts = Annotated[Mapping[str, str], BeforeValidator(_texts)]


class Variable(Settings):
    """A variable in words; of a table also where it comes from, of a network its figures."""

    noun: str
    """What it is called: `their smoking history` without `their`."""
    states: Texts = Field(min_length=2)
    """State -> what is then said of a patient: `smokes`."""
    labels: Texts = Field(default={})
    """State -> how it is named among the others; the state itself where it is left out."""
    parents: tuple[str, ...] = ()
    table: tuple[tuple[float, ...], ...] | None = None
    """Rows of P(states | parents), the first parent slowest."""
    column: str | None = None
    """Of a table; the variable's own name where it is left out."""
    codes: Texts = Field(default={})
    """What stands in the column -> state; itself where it is left out."""
    cut: int | tuple[float, ...] | None = None
    """Numbers become states: how many with as many rows each, or where each state but the first begins."""

    @model_validator(mode="after")
    def _hangs_together(self) -> "Variable":
        for key, named in (("labels", self.labels), ("codes", self.codes.values())):
            if unknown := [state for state in named if state not in self.states]:
                raise ValueError(f"{key}: {unknown[0]!r} is not among the states {', '.join(self.states)}")
        shown = [self.label(state).casefold() for state in self.states]
        if len(set(shown)) < len(shown):
            raise ValueError("labels: two states have the same; give each its own")
        n = self.cut if isinstance(self.cut, int) else len(self.cut) + 1 if self.cut is not None else len(self.states)
        if n != len(self.states):
            raise ValueError(f"cut: makes {n} states, and {len(self.states)} have words")
        if isinstance(self.cut, tuple) and list(self.cut) != sorted(set(self.cut)):
            raise ValueError("cut: the numbers must rise")
        return self

    def label(self, state: str) -> str:
        """How a state is named among the others."""
        return self.labels.get(state, state)


class TargetState(Settings):
    """The state of the world that is asked about."""

    variable: str
    state: str
    """That which `event` says."""


class Description(Settings):
    """A world in words."""

    source: str = ""
    """Where its figures come from."""
    target: TargetState
    event: str
    """`have lung cancer`, as in "Do they have lung cancer?"."""
    situation: Annotated[str, placeholders("evidence")] = "There is a patient who {evidence}."
    nothing: str = "There is a patient."
    """The situation without evidence."""
    ask: Annotated[str, placeholders("event")] = "Do they {event}?"
    chance: Annotated[str, placeholders("event")] = "What is the probability that they {event}?"
    variables: Mapping[str, Variable]
    """What may be revealed; of a network also what is hidden, if its figures are here."""
    hidden: tuple[str, ...] = ()
    """Variables that are never revealed."""

    @field_validator("variables", mode="before")
    @classmethod
    def _names_are_texts(cls, value: object, info: ValidationInfo) -> object:
        return _texts(value, info)

    @model_validator(mode="after")
    def _texts_are_whole(self) -> "Description":
        if "{evidence}" not in self.situation:
            raise ValueError("situation: has no {evidence} in it")
        if unknown := [name for name in self.hidden if name not in self.variables]:
            raise ValueError(f"hidden: {unknown[0]!r} is none of the variables")
        return self

    @property
    def observable(self) -> tuple[str, ...]:
        """What may be revealed."""
        return tuple(
            variable for variable in self.variables if variable != self.target.variable and variable not in self.hidden
        )

    def told(self, evidence: Mapping[str, str]) -> str:
        """The situation with this evidence, in its order."""
        clauses = [self.variables[name].states[state] for name, state in evidence.items()]
        return self.situation.format(evidence=listed(clauses)) if clauses else self.nothing

    def require_words(self, states: Mapping[str, Sequence[str]], where: str) -> None:
        """Raise UserError for a variable that has no template, or a state of one."""
        for name in (*self.observable, self.target.variable):
            if name not in states:
                raise UserError(f"{where}: variable {name!r} has words and no figures; take it out, or add them")
        for name in self.observable:
            if silent := [state for state in states[name] if state not in self.variables[name].states]:
                raise UserError(f"{where}: variable {name!r} has no words for its state {silent[0]!r}; add a template")
        target = self.target
        if target.state not in states[target.variable]:
            known = ", ".join(states[target.variable])
            raise UserError(f"{where}: target {target.variable!r} has no state {target.state!r}, only {known}")


def listed(clauses: Sequence[str]) -> str:
    """Clauses as a list in a sentence.

    >>> listed(["is male", "smokes", "coughs"])
    'is male, smokes, and coughs'
    """
    if len(clauses) < 3:
        return " and ".join(clauses)
    return f"{', '.join(clauses[:-1])}, and {clauses[-1]}"


def load_description(name: str) -> Description:
    """An embedded description by its name, or that of a YAML file. Raises UserError if it is missing or wrong."""
    path = EMBEDDED / f"{name}.yaml"
    if not path.is_file():
        path = Path(name)
    return parse(Description, read_yaml(path), str(path) if path.parent != EMBEDDED else f"world {name}")


def embedded() -> list[str]:
    """The names of the descriptions that come with doxascope."""
    return sorted(path.stem for path in EMBEDDED.glob("*.yaml"))


Evidence = Mapping[str, str]


class World(Protocol):
    """Figures and words."""

    @property
    def description(self) -> Description:
        """In words."""
        ...

    def draw(self, rng: np.random.Generator) -> dict[str, str]:
        """States of the variables that may be revealed, as they happen; what is unknown is left out."""
        ...

    def chance(self, evidence: Evidence) -> float:
        """P*(target | evidence). NaN where it is not known well enough."""
        ...

    def shares(self, variable: str, evidence: Evidence) -> Floats:
        """[states] P*(variable | evidence), in the order of the description."""
        ...


@dataclass(frozen=True)
class Auxiliary:
    """A variable that is not revealed, and what would be if it were."""

    variable: str
    noun: str
    labels: Sequence[str]
    situations: Sequence[str]
    """That of the context with each state revealed as well."""
    shares: Sequence[float | None]
    """[m] P*(state | context)."""
    chances: Sequence[float | None]
    """[m] P*(target | context, state); None where it is unknown."""


@dataclass(frozen=True)
class Context:
    """A situation, what is asked about it, and the truth."""

    name: str
    evidence: Evidence
    situation: str
    nothing: str
    """The situation before any evidence."""
    event: str
    ask: str
    chance: str
    """The question for the probability."""
    p_star: float
    prior: float | None
    """P*(target) before any evidence."""
    auxiliary: Auxiliary | None = None
