"""A trajectory: steps, and what stands before a question that is put after each of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ....hooks.generation.generation import GeneratedText, Request
from ....hooks.generation.sampling import Sampling
from ....hooks.lm import LanguageModel
from ....hooks.prompts.chat import CLOSE, THINK, Conversation, Message

STATUSES = ("ok", "truncated", "unsplit", "empty")
"""`truncated`: cut off by the length limit, or where it said a control token; `unsplit`: a single step; `empty`: none.
A trajectory of any status is kept: to leave out the long ones would be to select by what they say.
"""


class SampleSource(Protocol):
    """What gives the samples of a trajectory: a model, or a run that has them."""

    def sample(
        self, requests: Sequence[Request], sampling: Sampling, *, seed: int, until: Sequence[int] = ()
    ) -> list[GeneratedText]:
        """The draws of each request, in their order."""
        ...


@dataclass(frozen=True)
class Trajectory:
    """One way from the question to the last step."""

    name: str
    draw: int
    contexts: tuple[Conversation, ...]
    """[steps + 1] before any step and after each. They hold nothing of later steps, and no question for the belief."""
    steps: tuple[str, ...]
    status: str
    asked: Conversation
    """What the first step was the answer to."""
    samples: tuple[GeneratedText, ...] = ()
    """As they were generated; none of what was given."""
    thoughts: tuple[tuple[int, ...], ...] = ()
    """[steps] of a think block: its tokens up to the end of each step. Else empty."""


def with_question(context: Conversation, question: str) -> list[Message]:
    """A question put after a context: in a turn of its own after the assistant's, else at the end of the user's."""
    *before, last = context
    if last["role"] == "user":
        return [*before, {"role": "user", "content": f"{last['content']}\n\n{question}"}]
    return [*context, {"role": "user", "content": question}]


def before_control_token(text: str, lm: LanguageModel) -> str:
    """What is said before any control token of the model: no message may hold one."""
    tokens = lm.tokenizer.added_tokens_decoder.values()
    control = [str(token.content) for token in tokens if token.special or str(token.content) in (THINK, CLOSE)]
    return text[: min((text.find(token) for token in control if token in text), default=len(text))]


def trajectory_status(steps: Sequence[str], *, whole: bool) -> str:
    """The status of a trajectory that came to its own end, or did not."""
    if not steps:
        return "empty"
    return "truncated" if not whole else "unsplit" if len(steps) == 1 else "ok"


def evidence_trajectory(
    name: str, evidence: Sequence[str], seen: Callable[[Sequence[str]], Conversation]
) -> Trajectory:
    """External evidence: the next piece is given, not generated. Nothing is sampled, so there is one trajectory.

    Args:
        name: of the trajectory.
        evidence: piece by piece.
        seen: pieces so far -> the conversation that shows them.
    """
    return Trajectory(
        name=name,
        draw=0,
        contexts=tuple(seen(evidence[:k]) for k in range(len(evidence) + 1)),
        steps=tuple(evidence),
        status=trajectory_status(evidence, whole=True),
        asked=seen(()),
    )
