"""Settings of `ask`: the questions, how they are asked, in which orders of their options, and forms that are fitted."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field, model_validator

from ....base.errors import nearest
from ....base.settings import Settings
from ....metrics.consistency.competence import MAX_ORDER
from ...materials.choices.forms import ChoiceForm, Rotation
from ...materials.choices.tables import AskedSource
from ...run.questions import EVERY_ITEM, MethodName, RunConfig


class AskForm(ChoiceForm):
    """A form of asking and of reading the answer."""

    placeholders: ClassVar[tuple[str, ...]] = ("question", "options", "option")
    yes_no: tuple[str, str] | None = None
    """The answers yes and no, if each option is proposed by itself, as `{option}` of `ask`: the belief in it is P(yes)
    among the two, divided by the sum over the options. None: the options themselves are the answers."""

    @model_validator(mode="after")
    def _proposes_an_option(self) -> "AskForm":
        if ("{option}" in self.ask) != (self.yes_no is not None):
            raise ValueError("ask: {option} is the one that is proposed, for a form with `yes_no`, which needs it")
        if self.yes_no and self.letters:
            raise ValueError("letters: options are proposed by their text; leave it out with `yes_no`")
        return self


class Candidate(Settings):
    """A way for an answer to begin: words that are put into the model's mouth, or lead-ins that it may say."""

    prefill: str = ""
    forms: tuple[str, ...] = Field(min_length=1)


class FormFit(Settings):
    """Forms that are chosen before anything is scored: those under which the options hold most."""

    items: int = Field(ge=1)
    """Questions to choose on. They are none of those that are scored."""
    methods: tuple[str, ...] = ()
    """Whose forms are fitted; none: of all that are read."""
    candidates: tuple[Candidate, ...] = Field(min_length=1)


class AskConfig(RunConfig):
    """Configuration of `ask`. `items` is the most questions that are taken, drawn by the seed."""

    reads_stated: ClassVar[bool] = True

    items: int = Field(default=EVERY_ITEM, ge=1, le=EVERY_ITEM)
    questions: AskedSource = AskedSource()
    system: str = ""
    """The system prompt of questions that bring none."""
    answers: tuple[str, ...] = Field(min_length=1)
    """The methods that are read."""
    orders: Rotation = "latin"
    """In which the options are listed: `none` other than the given, `latin` (each option once in each place) or `all`.
    The belief is the mean over them; each is kept."""
    max_by_place: float = Field(default=MAX_ORDER, gt=0, le=1)
    """Where orders are rotated, the interval of `by_place`, the share of the questions whose belief follows the place
    of the options, has to lie below this, or the method is not readable."""
    by: str | None = None
    """`topic`, or a further column of the questions: scores of each of its values, too."""
    methods: Mapping[MethodName, AskForm] = Field(min_length=1)
    fit: FormFit | None = None
    """Choose how answers begin on other questions than those that are scored, by their coverage alone."""

    @property
    def read(self) -> dict[str, AskForm]:
        """The methods that are read."""
        return {name: self.methods[name] for name in self.answers}

    @property
    def plain(self) -> list[AskForm]:
        """The methods that ask for an option itself, those that are read before others."""
        every = {**self.read, **self.methods}
        return [form for form in every.values() if not form.yes_no and not form.letters]

    @model_validator(mode="after")
    def _hangs_together(self) -> "AskConfig":
        for where, names in (("answers", self.answers), ("fit.methods", self.fit.methods if self.fit else ())):
            if unknown := [name for name in names if name not in self.methods]:
                raise ValueError(f"{where}: {unknown[0]!r} is no method; {nearest(unknown[0], self.methods)}")
        if len({*self.answers}) < len(self.answers):
            raise ValueError("answers: one is there twice")
        if self.stated.formats and not self.plain:
            raise ValueError("stated: no method asks for an option itself; add one without `letters` and `yes_no`")
        return self
