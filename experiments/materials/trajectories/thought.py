"""The think block of a reasoning model: a step for each paragraph, and prefixes of the very tokens that it wrote.

A prefix ends with the first token after which its paragraph is closed by an empty line. So where it ends is decided by
what stands in it, not by what comes after: else what is read there would already know of the next step.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from ....hooks.generation.generation import GeneratedText, Request
from ....hooks.generation.sampling import Sampling
from ....hooks.lm import LanguageModel
from ....hooks.prompts.chat import THINK, Conversation, Message
from .paragraphs import paragraph_closings
from .trajectory import SampleSource, Trajectory, before_control_token, trajectory_status, with_question


class ThoughtRequest(NamedTuple):
    """What a thought is asked for."""

    name: str
    conversation: Conversation
    """What stands before any question for the belief. It ends with the user's turn: no later one shows a thought."""
    question: str
    """The one under which the thoughts are had; others are read after the same thoughts."""

    @property
    def messages(self) -> list[Message]:
        """What the thought answers."""
        return with_question(self.conversation, self.question)


def thoughts(
    lm: LanguageModel,
    source: SampleSource,
    asked: Sequence[ThoughtRequest],
    sampling: Sampling,
    *,
    draws: int,
    seed: int,
) -> list[list[Trajectory]]:
    """`draws` thoughts for each of `asked`, all sampled together, until they are closed.

    The model must be loaded with `thinking: on`.
    """
    close = lm.reader.chat.close
    assert close is not None  # else the renderer would have refused to think
    requests = [Request(one.name, lm.reader.chat.render(one.messages), range(draws)) for one in asked]
    samples = source.sample(requests, sampling, seed=seed, until=[close])
    return [
        [thought(lm, one, sample) for sample in samples[i * draws : (i + 1) * draws]] for i, one in enumerate(asked)
    ]


def thought(lm: LanguageModel, asked: ThoughtRequest, sample: GeneratedText) -> Trajectory:
    """The trajectory of one sampled thought. One that was not closed is `truncated`."""
    opening = THINK if sample.text.startswith(THINK) else ""
    said = sample.text.removeprefix(THINK)
    text = before_control_token(said, lm)
    marks = paragraph_closings(text)
    steps = tuple(text[start:stop].strip() for start, stop in pairwise([0, *marks]))
    return Trajectory(
        name=asked.name,
        draw=sample.draw,
        contexts=(asked.conversation,) * (len(steps) + 1),
        steps=steps,
        status=trajectory_status(steps, whole=sample.ids[-1] == lm.reader.chat.close and text == said),
        asked=asked.messages,
        samples=(sample,),
        thoughts=tuple(_saying(lm, sample.ids, opening + text[:mark]) for mark in marks),
    )


def _saying(lm: LanguageModel, ids: tuple[int, ...], said: str) -> tuple[int, ...]:
    """The fewest first tokens that say all of `said`; the last may say more."""
    n = bisect_left(range(len(ids)), True, key=lambda n: lm.sampler.text(ids[:n]).startswith(said))
    return ids[:n]
