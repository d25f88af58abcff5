"""Minimal pairs of testimony: an agent or the user says the same."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field, model_validator

from ...hooks.prompts.chat import Conversation
from ...hooks.prompts.options import make_options
from ...hooks.prompts.spans import Span
from ...hooks.settings import Settings, check_placeholders
from ..materials.scenarios.scenario import Scenario
from ..materials.scenarios.worlds import STORIES, worlds
from .minimal_pair import MinimalPair, endless


class SpeakerPairs(Settings):
    """ "Emma thinks that X." against "I think that X.", in worlds with stated chances: what carries the user's word?

    Controls: the same speaker in another verb (`same answer`); a world of the same kind with other chances
    (`unrelated`).
    """

    of: Literal["testimony"] = "testimony"
    names: tuple[str, ...] = Field(default=("James", "Henry", "Emma", "Luna", "Noah", "Mia"), min_length=1)
    verbs: tuple[str, str] = ("think", "believe")
    """Of the pair, and of its control; an agent's takes an s."""
    ask: str = "Is it true that {claim}? Answer Yes or No."
    prefill: str = ""
    forms: tuple[str, ...] = Field(default=("{option}", "{Option}"), min_length=1)

    @model_validator(mode="after")
    def _placeholders(self) -> "SpeakerPairs":
        check_placeholders("ask", self.ask, ("claim",))
        return self

    def candidates(self, seed: int) -> Iterator[MinimalPair]:
        """Pairs of whatever length; each takes two worlds of one story, and the names in turn."""
        drawn = endless(lambda n: worlds(n, seed))
        turns = iter(lambda: [next(drawn) for _ in range(2 * len(STORIES))], [])
        both = (pair for turn in turns for pair in zip(turn[: len(STORIES)], turn[len(STORIES) :], strict=True))
        for number, (own, other) in enumerate(both):
            yield self._pair(number, own, other, self.names[number % len(self.names)])

    def _pair(self, number: int, own: Scenario, other: Scenario, name: str) -> MinimalPair:
        verb, again = self.verbs
        return MinimalPair(
            id=f"p{number:04}",
            cluster=own.cluster,
            base=self._talk(own, f"{name} {verb}s"),
            donor=self._talk(own, f"I {verb}"),
            options=make_options(["Yes", "No"], self.forms),
            spans={
                "speaker": Span(0, f"{name} {verb}s"),
                "claim": Span(0, f"that {own.x}."),
                "question": Span(0, self.ask.format(claim=own.x)),
            },
            prefill=self.prefill,
            controls={
                "same answer": (self._talk(own, f"{name} {again}s"), self._talk(own, f"I {again}")),
                "unrelated": (self._talk(other, f"{name} {verb}s"), self._talk(other, f"I {verb}")),
            },
        )

    def _talk(self, world: Scenario, says: str) -> Conversation:
        text = f"{world.background}\n\n{says} that {world.x}.\n\n{self.ask.format(claim=world.x)}"
        return [{"role": "user", "content": text}]
