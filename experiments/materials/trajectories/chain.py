"""Chains of thought: the model's own next turn, a step for each paragraph."""

from collections.abc import Sequence
from typing import NamedTuple

from ....hooks.generation.generation import GeneratedText, Request
from ....hooks.generation.sampling import Sampling
from ....hooks.lm import LanguageModel
from ....hooks.prompts.chat import Conversation
from .paragraphs import paragraph_ends
from .trajectory import SampleSource, Trajectory, before_control_token, trajectory_status


class ChainRequest(NamedTuple):
    """What a chain is asked for."""

    name: str
    conversation: Conversation
    opening: str
    """How every chain begins, prefilled, so that the belief before the first step is asked for in the same form as
    those after it. May be empty: then it is asked for in the question's own turn.
    """


def request(lm: LanguageModel, asked: ChainRequest, draws: Sequence[int]) -> Request:
    """What to sample."""
    return Request(asked.name, lm.reader.chat.render(asked.conversation, asked.opening), draws)


def chains(
    lm: LanguageModel, source: SampleSource, asked: Sequence[ChainRequest], sampling: Sampling, *, draws: int, seed: int
) -> list[list[Trajectory]]:
    """`draws` chains for each of `asked`, all sampled together."""
    samples = source.sample([request(lm, one, range(draws)) for one in asked], sampling, seed=seed)
    return [[chain(lm, one, sample) for sample in samples[i * draws : (i + 1) * draws]] for i, one in enumerate(asked)]


def chain(lm: LanguageModel, asked: ChainRequest, sample: GeneratedText) -> Trajectory:
    """The trajectory of one sampled turn."""
    text = before_control_token(sample.text, lm)
    stops = paragraph_ends(text)
    said = [asked.opening, *(asked.opening + text[:stop] for stop in stops)]
    starts = [0, *stops]
    steps = tuple(text[start:stop].strip() for start, stop in zip(starts, stops, strict=False))
    return Trajectory(
        name=asked.name,
        draw=sample.draw,
        contexts=tuple(
            [*asked.conversation, {"role": "assistant", "content": one}] if one else asked.conversation for one in said
        ),
        steps=steps,
        status=trajectory_status(steps, whole=sample.status == "ok" and text == sample.text),
        asked=asked.conversation,
        samples=(sample,),
    )
