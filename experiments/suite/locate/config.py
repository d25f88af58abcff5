"""Settings of the locate experiment: which minimal pairs (draws from an urn, testimony, rejected words, a covariate
of a world, one's own history), and which cells of the map.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from ....base.errors import UserError
from ....base.settings import Settings, placeholders
from ....hooks.model.blocks import Every, Layers
from ....hooks.prompts.chat import Conversation, Message
from ....hooks.prompts.options import make_options
from ....hooks.prompts.places import Span
from ...materials.choices.sources import OPTIONS, Choice, ChoiceSource
from ...materials.entities import EntityConfig, Words, entities, triples
from ...materials.questions import BinaryQuestion, urns
from ...materials.scenarios.scenario import STORIES, Scenario, worlds
from ...materials.worlds.source import QUITE, WorldSource, load_world
from ...materials.worlds.world import World
from ...run.experiment import RunConfig
from .pairs import MinimalPair, endless

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
        for number, (urn, other) in enumerate(zip(drawn, drawn, strict=False)):
            yield self._pair(number, urn, other)

    def _pair(self, number: int, urn: BinaryQuestion, other: BinaryQuestion) -> MinimalPair:
        against, speaking = _evidence(urn)
        swapped = [[_recoloured(draws[0]), _recoloured(draws[1]), *draws[2:]] for draws in (against, speaking)]
        return MinimalPair(
            id=f"p{number:04}",
            cluster=urn.cluster,
            base=self._talk(urn, against),
            donor=self._talk(urn, speaking),
            options=make_options([urn.option_yes, urn.option_no], self.forms),
            spans={"last draw": Span(1, against[-1]), "question": Span(1)},
            prefill=self.prefill,
            controls={
                "same answer": (self._talk(urn, swapped[0]), self._talk(urn, swapped[1])),
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


# Minimal pairs of testimony: an agent or the user says the same.


class SpeakerPairs(Settings):
    """ "Emma thinks that X." against "I think that X.", in worlds with stated chances: what carries the user's word?

    Controls: the same speaker in another verb (`same answer`); a world of the same kind with other chances
    (`unrelated`).
    """

    of: Literal["testimony"] = "testimony"
    names: tuple[str, ...] = Field(default=("James", "Henry", "Emma", "Luna", "Noah", "Mia"), min_length=1)
    verbs: tuple[str, str] = ("think", "believe")
    """Of the pair, and of its control; an agent's takes an s."""
    ask: Annotated[str, placeholders("claim")] = "Is it true that {claim}? Answer Yes or No."
    prefill: str = ""
    forms: tuple[str, ...] = Field(default=("{option}", "{Option}"), min_length=1)

    def candidates(self, seed: int) -> Iterator[MinimalPair]:
        """Pairs of whatever length; each takes two worlds of one story, and the names in turn."""
        drawn = endless(lambda n: worlds(n, seed))
        turns = iter(lambda: [next(drawn) for _ in range(2 * len(STORIES))], [])
        both = (pair for turn in turns for pair in zip(turn[: len(STORIES)], turn[len(STORIES) :], strict=True))
        for number, (scenario, other) in enumerate(both):
            yield self._pair(number, scenario, other, self.names[number % len(self.names)])

    def _pair(self, number: int, scenario: Scenario, other: Scenario, name: str) -> MinimalPair:
        verb, again = self.verbs
        return MinimalPair(
            id=f"p{number:04}",
            cluster=scenario.cluster,
            base=self._talk(scenario, f"{name} {verb}s"),
            donor=self._talk(scenario, f"I {verb}"),
            options=make_options(["Yes", "No"], self.forms),
            spans={
                "speaker": Span(0, f"{name} {verb}s"),
                "claim": Span(0, f"that {scenario.x}."),
                "question": Span(0, self.ask.format(claim=scenario.x)),
            },
            prefill=self.prefill,
            controls={
                "same answer": (self._talk(scenario, f"{name} {again}s"), self._talk(scenario, f"I {again}")),
                "unrelated": (self._talk(other, f"{name} {verb}s"), self._talk(other, f"I {verb}")),
            },
        )

    def _talk(self, world: Scenario, says: str) -> Conversation:
        text = f"{world.background}\n\n{says} that {world.x}.\n\n{self.ask.format(claim=world.x)}"
        return [{"role": "user", "content": text}]


# Minimal pairs of the consistency dialogue: of the same three words, one or another is rejected.

PLACES = ((0, 1, 2), (1, 2, 0), (2, 0, 1))
"""Of the word that the base rejects, the one that the donor rejects, and the one that neither does."""

RejectionText = Annotated[str, placeholders("a", "b", "c", "x")]


class Rejection(Settings):
    """The texts of the game: `{a}`, `{b}`, `{c}` are the words, `{x}` is the one that is rejected."""

    system: RejectionText
    reject: RejectionText
    reject_answer: RejectionText
    undecided: RejectionText = "I would rather not say yet."
    """The reply that decides nothing, which the gate sets against the answer."""
    reveal: RejectionText


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
        words = entities(self.entities)
        drawn = endless(lambda n: triples(words, n, seed))
        for number, (own, other) in enumerate(zip(drawn, drawn, strict=False)):
            if not set(own) & set(other):
                yield self._pair(number, own, other)

    def _pair(self, number: int, words: Words, other: Words) -> MinimalPair:
        x, y, z = PLACES[number % len(PLACES)]
        replaced: Words = tuple(other[i] if i == z else word for i, word in enumerate(words))  # type: ignore
        return MinimalPair(
            id=f"p{number:04}",
            cluster="+".join(sorted(words)),
            base=self._talk(words, x),
            donor=self._talk(words, y),
            options=make_options([words[x], words[y]], self.forms),
            spans={"rejected word": Span(1, words[x]), "question": Span(1), "answer": Span(2), "reveal": Span(3)},
            prefill=self.prefill,
            controls={
                "same answer": (self._talk(replaced, x), self._talk(replaced, y)),
                "unrelated": (self._talk(other, x), self._talk(other, y)),
            },
            undecided=(self._talk(words, x, "undecided"), self._talk(words, y, "undecided")),
        )

    def _talk(self, words: Words, rejected: int, reply: str = "reject_answer") -> Conversation:
        a, b, c = words
        texts = self.wording.model_dump()
        turns = {key: text.format(a=a, b=b, c=c, x=words[rejected]) for key, text in texts.items()}
        return [
            {"role": "system", "content": turns["system"]},
            {"role": "user", "content": turns["reject"]},
            {"role": "assistant", "content": turns[reply]},
            {"role": "user", "content": turns["reveal"]},
        ]


# Minimal pairs of a world: the same patient but for one covariate, which moves the true chance.

MOST = 20_000
"""Patients that are drawn to find pairs."""


class CovariatePairs(Settings):
    """A covariate in the state that speaks most against the target, and in that which speaks most for it."""

    of: Literal["covariate"] = "covariate"
    world: WorldSource = WorldSource(of="breast-cancer")
    reveal: int = Field(default=2, ge=1)
    """Covariates of a patient, the one that is exchanged among them."""
    smallest: float = Field(default=0.1, gt=0, lt=1)
    """By how much the exchange moves the true chance at least."""
    answers: tuple[str, str] = ("Yes", "No")
    ask: Annotated[str, placeholders("yes", "no")] = "Answer {yes} or {no}."
    prefill: str = ""
    forms: tuple[str, ...] = Field(default=("{option}",), min_length=1)

    def candidates(self, seed: int) -> Iterator[MinimalPair]:
        """Pairs of whatever length."""
        if self.world.of == QUITE:
            raise UserError("pairs.world: queries in words have no covariates to exchange; name another world")
        world = load_world(self.world)
        if (n := len(world.description.observable)) < self.reveal:
            raise UserError(f"pairs.reveal: {self.reveal} covariates; there are {n}")
        seen: set[str] = set()
        for number in range(MOST):
            pair = self._pair(world, number, np.random.default_rng([seed, number]))
            if pair is not None and pair.cluster not in seen:
                seen.add(pair.cluster)
                yield pair

    def _pair(self, world: World, number: int, rng: np.random.Generator) -> MinimalPair | None:
        words = world.description
        names = sorted(rng.choice(words.observable, self.reveal, replace=False), key=words.observable.index)
        drawn = world.draw(rng)
        moved = str(names[int(rng.integers(len(names)))])
        if any(name not in drawn for name in names):
            return None
        evidence = {str(name): drawn[name] for name in names}
        chances = {state: world.chance({**evidence, moved: state}) for state in words.variables[moved].states}
        known = {state: chance for state, chance in chances.items() if np.isfinite(chance)}
        if len(known) < 2:
            return None
        low, high = min(known, key=known.__getitem__), max(known, key=known.__getitem__)
        if known[high] - known[low] < self.smallest:
            return None
        clause = words.variables[moved].states[low]
        return MinimalPair(
            id=f"p{number:04}",
            cluster=f"{moved} " + " ".join(f"{k}={v}" for k, v in evidence.items() if k != moved),
            base=self._talk(world, {**evidence, moved: low}),
            donor=self._talk(world, {**evidence, moved: high}),
            options=make_options(self.answers, self.forms),
            spans={"covariate": Span(0, clause), "question": Span(0)},
            prefill=self.prefill,
        )

    def _talk(self, world: World, evidence: dict[str, str]) -> Conversation:
        words = world.description
        ask = self.ask.format(yes=self.answers[0], no=self.answers[1])
        text = f"{words.told(evidence)} {words.ask.format(event=words.event)} {ask}"
        return [{"role": "user", "content": text}]


# Minimal pairs of one's own history: the same question again and again, with one past answer exchanged.

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
    ask: Annotated[str, placeholders("question", "options")] = "{question}\nChoose one of: {options}."
    prefill: str = "My answer is:"
    forms: tuple[str, ...] = Field(default=(" {option}", " {Option}"), min_length=1)

    def candidates(self, seed: int) -> Iterator[MinimalPair]:
        """Pairs of whatever length: round by round, two neighbouring options of each question."""
        every = self.source.choices(self.questions, seed)
        asked = [choice for choice in every if len(choice.options) >= ENOUGH and OPTIONS not in choice.text]
        rounds = ((shift, choice) for shift in range(max(map(_size, asked), default=0)) for choice in asked)
        for number, (shift, chosen) in enumerate((shift, choice) for shift, choice in rounds if shift < _size(choice)):
            yield self._pair(number, chosen, shift)

    def _pair(self, number: int, choice: Choice, shift: int) -> MinimalPair:
        first, second, *others = (choice.options[(shift + i) % len(choice.options)] for i in range(ENOUGH))
        words = {"first": first, "second": second}
        apart = dict(zip(words, others, strict=True))
        base, donor = self._answers("second"), self._answers("first")
        swapped = [[answers[1], answers[0], *answers[2:]] for answers in (base, donor)]
        at = 2 * (self.turns - 2) + 1
        return MinimalPair(
            id=f"p{number:04}",
            cluster=choice.cluster,
            base=self._talk(choice, base, words),
            donor=self._talk(choice, donor, words),
            options=make_options([first, second], self.forms),
            spans={"exchanged answer": Span(at), "last answer": Span(at + 2), "question": Span(-1)},
            prefill=self.prefill,
            controls={
                "same answers": (self._talk(choice, swapped[0], words), self._talk(choice, swapped[1], words)),
                "unrelated": (self._talk(choice, base, apart), self._talk(choice, donor, apart)),
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


class LocateConfig(RunConfig):
    """Configuration of `locate`."""

    cpu_budget: ClassVar[int] = 640
    """Patched contexts share little, and the mask grows with the square."""
    pairs: Annotated[
        RejectionPairs | UrnPairs | SpeakerPairs | HistoryPairs | CovariatePairs, Field(discriminator="of")
    ]
    """`items` of them are read: the first whose contexts are of equal token length."""
    layers: Layers = Every(every=2)
    """After which blocks rows are interchanged; before the first block they always are."""
    control_layers: Layers = (0.33, 0.9)
    """After which blocks those of the controls are, and the donor's, too."""
    noise_floor: float = Field(default=1e-3, ge=0)
    """In nats: a mean update no larger than this is none."""

    @model_validator(mode="after")
    def _exact_alone(self) -> "LocateConfig":
        if self.model.thinking == "on":
            raise ValueError("model.thinking: a belief after thoughts has no tokens to interchange; set `closed`")
        if self.capture:
            raise ValueError("capture: the map keeps no activations; leave it out")
        return self
