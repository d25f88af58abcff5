"""Minimal pairs of one's own history: the same question again and again, with one past answer exchanged."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from pydantic import Field, model_validator

from ...hooks.prompts.chat import Conversation, Message
from ...hooks.prompts.options import make_options
from ...hooks.prompts.spans import Span
from ...hooks.settings import Settings, check_placeholders
from ..materials.choices.choice import OPTIONS, Choice
from ..materials.choices.sources import ChoiceSource
from .minimal_pair import MinimalPair

ENOUGH = 4
"""Options of a question: two that a pair is about, and two others for its control."""


class HistoryPairs(Settings):
    """A conversation in which one past answer was the second option, against one in which it was the first.

    The other past answers are these two in turns. Controls: two of them in the other order, which is the same history
    as far as it counts (`same answers`); two other options in their place (`unrelated`).
    """

    of: Literal["history"] = "history"
    source: ChoiceSource = ChoiceSource(kind="nine_topics")
    questions: int = Field(default=36, ge=2)
    """Of the source that pairs are made of: each two options of each."""
    turns: int = Field(default=4, ge=3)
    """Past ones; the last but one is exchanged."""
    ask: str = "{question}\nChoose one of: {options}."
    prefill: str = "My answer is:"
    forms: tuple[str, ...] = Field(default=(" {option}", " {Option}"), min_length=1)

    @model_validator(mode="after")
    def _placeholders_are_known(self) -> "HistoryPairs":
        check_placeholders("ask", self.ask, ("question", "options"))
        return self

    def candidates(self, seed: int) -> Iterator[MinimalPair]:
        """Pairs of whatever length: round by round, two neighbouring options of each question."""
        every = self.source.choices(self.questions, seed)
        asked = [one for one in every if len(one.options) >= ENOUGH and OPTIONS not in one.text]
        rounds = ((shift, one) for shift in range(max(map(_size, asked), default=0)) for one in asked)
        for number, (shift, own) in enumerate((shift, one) for shift, one in rounds if shift < _size(one)):
            yield self._pair(number, own, shift)

    def _pair(self, number: int, own: Choice, shift: int) -> MinimalPair:
        first, second, *others = (own.options[(shift + i) % len(own.options)] for i in range(ENOUGH))
        words = {"first": first, "second": second}
        apart = dict(zip(words, others, strict=True))
        base, donor = self._answers("second"), self._answers("first")
        swapped = [[one[1], one[0], *one[2:]] for one in (base, donor)]
        at = 2 * (self.turns - 2) + 1
        return MinimalPair(
            id=f"p{number:04}",
            cluster=own.cluster,
            base=self._talk(own, base, words),
            donor=self._talk(own, donor, words),
            options=make_options([first, second], self.forms),
            spans={"exchanged answer": Span(at), "last answer": Span(at + 2), "question": Span(-1)},
            prefill=self.prefill,
            controls={
                "same answers": (self._talk(own, swapped[0], words), self._talk(own, swapped[1], words)),
                "unrelated": (self._talk(own, base, apart), self._talk(own, donor, apart)),
            },
        )

    def _answers(self, exchanged: str) -> list[str]:
        """Which of the two each turn gave: first and second by turns, but for the exchanged one."""
        return [
            exchanged if turn == self.turns - 2 else "first" if turn % 2 else "second" for turn in range(self.turns)
        ]

    def _talk(self, choice: Choice, answers: Sequence[str], words: Mapping[str, str]) -> Conversation:
        asked: Message = {
            "role": "user",
            "content": self.ask.format(question=choice.text, options=", ".join(choice.options)),
        }
        talk: list[Message] = []
        for answer in answers:
            talk += [asked, {"role": "assistant", "content": f"{self.prefill} {words[answer]}"}]
        return [*talk, asked]


def _size(choice: Choice) -> int:
    return len(choice.options)
