"""Minimal pairs of evidence: the last ball from an urn is red or blue."""

from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import Field

from ...hooks.prompts.chat import Conversation
from ...hooks.prompts.options import make_options
from ...hooks.prompts.spans import Span
from ...hooks.settings import Settings
from ..materials.questions.question import BinaryQuestion
from ..materials.questions.urn import urns
from .minimal_pair import MinimalPair, endless

COLOURS = ("red", "blue")


class UrnPairs(Settings):
    """The draw that speaks for the other urn against the one that speaks for urn A, after the same draws.

    Controls: the first two draws in the other order, which is the same evidence (`same answer`); other urns
    (`unrelated`).
    """

    of: Literal["urn"] = "urn"
    draws: int = Field(default=3, ge=3)
    ask: str = "Answer Yes or No."
    prefill: str = ""
    forms: tuple[str, ...] = Field(default=("{option}", "{Option}"), min_length=1)

    def candidates(self, seed: int) -> Iterator[MinimalPair]:
        """Pairs of whatever length, of urns whose first two draws differ; each takes two."""
        drawn = (q for q in endless(lambda n: urns(n, self.draws, seed)) if _colour(q, 0) != _colour(q, 1))
        for number, (own, other) in enumerate(zip(drawn, drawn, strict=False)):
            yield self._pair(number, own, other)

    def _pair(self, number: int, own: BinaryQuestion, other: BinaryQuestion) -> MinimalPair:
        against, speaking = _evidence(own)
        swapped = [[_recoloured(one[0]), _recoloured(one[1]), *one[2:]] for one in (against, speaking)]
        return MinimalPair(
            id=f"p{number:04}",
            cluster=own.cluster,
            base=self._talk(own, against),
            donor=self._talk(own, speaking),
            options=make_options([own.option_yes, own.option_no], self.forms),
            spans={"last draw": Span(1, against[-1]), "question": Span(1)},
            prefill=self.prefill,
            controls={
                "same answer": (self._talk(own, swapped[0]), self._talk(own, swapped[1])),
                "unrelated": (self._talk(other, _evidence(other)[0]), self._talk(other, _evidence(other)[1])),
            },
        )

    def _talk(self, urn: BinaryQuestion, evidence: Sequence[str]) -> Conversation:
        return [
            {"role": "system", "content": urn.background},
            {"role": "user", "content": " ".join([*evidence, urn.text, self.ask])},
        ]


def _evidence(urn: BinaryQuestion) -> tuple[list[str], list[str]]:
    """The draws with a last one that speaks against urn A, and with one that speaks for it."""
    drawn = list(urn.evidence)
    other = [*drawn[:-1], _recoloured(drawn[-1])]
    return (other, drawn) if urn.posterior[-1] > urn.posterior[-2] else (drawn, other)


def _colour(urn: BinaryQuestion, draw: int) -> str:
    return next(colour for colour in COLOURS if colour in urn.evidence[draw])


def _recoloured(draw: str) -> str:
    red, blue = COLOURS
    return draw.replace(red, blue) if red in draw else draw.replace(blue, red)
