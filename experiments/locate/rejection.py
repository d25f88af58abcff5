"""Minimal pairs of the consistency dialogue: of the same three words, one or another is rejected."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field, model_validator

from ...hooks.prompts.chat import Conversation
from ...hooks.prompts.options import make_options
from ...hooks.prompts.spans import Span
from ...hooks.settings import Settings, check_placeholders
from ..materials.entities import EntityConfig, Words, entities, triples
from .minimal_pair import MinimalPair, endless

PLACES = ((0, 1, 2), (1, 2, 0), (2, 0, 1))
"""Of the word that the base rejects, the one that the donor rejects, and the one that neither does."""


class Rejection(Settings):
    """The texts of the game: `{a}`, `{b}`, `{c}` are the words, `{x}` is the one that is rejected."""

    system: str
    reject: str
    reject_answer: str
    undecided: str = "I would rather not say yet."
    """The reply that decides nothing, which the gate sets against the answer."""
    reveal: str

    @model_validator(mode="after")
    def _placeholders(self) -> "Rejection":
        for key, text in self.model_dump().items():
            check_placeholders(key, text, "abcx")
        return self


class RejectionPairs(Settings):
    """ "Is it X?" "No." against "Is it Y?" "No."

    Controls: the third word is another (`same answer`); the game is about three other words (`unrelated`).
    """

    of: Literal["rejection"] = "rejection"
    entities: EntityConfig = EntityConfig()
    wording: Rejection
    prefill: str = ""
    forms: tuple[str, ...] = Field(min_length=1)

    def candidates(self, seed: int) -> Iterator[MinimalPair]:
        """Pairs of whatever length; each takes two triples, and each place in the list is rejected in turn."""
        words, _ = entities(self.entities)
        drawn = endless(lambda n: triples(words, n, seed))
        for number, (own, other) in enumerate(zip(drawn, drawn, strict=False)):
            if not set(own) & set(other):
                yield self._pair(number, own, other)

    def _pair(self, number: int, own: Words, other: Words) -> MinimalPair:
        x, y, z = PLACES[number % len(PLACES)]
        replaced: Words = tuple(other[i] if i == z else word for i, word in enumerate(own))  # pyright: ignore[reportAssignmentType]
        return MinimalPair(
            id=f"p{number:04}",
            cluster="+".join(sorted(own)),
            base=self._talk(own, x),
            donor=self._talk(own, y),
            options=make_options([own[x], own[y]], self.forms),
            spans={"rejected word": Span(1, own[x]), "question": Span(1), "answer": Span(2), "reveal": Span(3)},
            prefill=self.prefill,
            controls={
                "same answer": (self._talk(replaced, x), self._talk(replaced, y)),
                "unrelated": (self._talk(other, x), self._talk(other, y)),
            },
            undecided=(self._talk(own, x, "undecided"), self._talk(own, y, "undecided")),
        )

    def _talk(self, words: Words, rejected: int, reply: str = "reject_answer") -> Conversation:
        a, b, c = words
        texts = self.wording.model_dump()
        said = {key: text.format(a=a, b=b, c=c, x=words[rejected]) for key, text in texts.items()}
        return [
            {"role": "system", "content": said["system"]},
            {"role": "user", "content": said["reject"]},
            {"role": "assistant", "content": said[reply]},
            {"role": "user", "content": said["reveal"]},
        ]
