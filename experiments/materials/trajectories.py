"""What a model says, or is shown, step by step before it is asked: chains of thought, debates, evidence."""

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import NamedTuple, Protocol

from ...hooks.generation.generated_texts import GeneratedText, Request
from ...hooks.generation.sampling import Sampling
from ...hooks.lm import LanguageModel
from ...hooks.prompts.chat import CLOSE, THINK, Conversation, Message

# A trajectory: steps, and what stands before a question that is put after each of them.

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


# The split rule: a step is a paragraph, and paragraphs are parted by an empty line.

BREAK = re.compile(r"(\n[^\S\n]*\n)\s*")


def paragraph_ends(text: str) -> list[int]:
    """Where each paragraph ends, without the blanks after it: up to the k-th of these are the first k + 1 of them."""
    ends, start = [], 0
    for stop, after in [*(m.span() for m in BREAK.finditer(text)), (len(text), len(text))]:
        if paragraph := text[start:stop].rstrip():
            ends.append(start + len(paragraph))
        start = after
    return ends


def paragraph_closings(text: str) -> list[int]:
    """Where each paragraph ends, whatever comes after: behind its empty line; the last, at the end of the text."""
    breaks = [m for m in BREAK.finditer(text) if text[: m.start()].strip() and m.end() < len(text)]
    return [*(m.end(1) for m in breaks), len(text)] if text.strip() else []


# Chains of thought: the model's own next turn, a step for each paragraph.


class ChainRequest(NamedTuple):
    """What a chain is asked for."""

    name: str
    conversation: Conversation
    opening: str
    """How every chain begins, prefilled, so that the belief before the first step is asked for in the same form as
    those after it. May be empty: then it is asked for in the question's own turn.
    """


def sampling_request(lm: LanguageModel, asked: ChainRequest, draws: Sequence[int]) -> Request:
    """What to sample."""
    return Request(asked.name, lm.reader.chat.render(asked.conversation, asked.opening), draws)


def chains(
    lm: LanguageModel, source: SampleSource, asked: Sequence[ChainRequest], sampling: Sampling, *, draws: int, seed: int
) -> list[list[Trajectory]]:
    """`draws` chains for each of `asked`, all sampled together."""
    drawn = iter(source.sample([sampling_request(lm, request, range(draws)) for request in asked], sampling, seed=seed))
    return [[chain(lm, request, sample) for sample in islice(drawn, draws)] for request in asked]


def chain(lm: LanguageModel, asked: ChainRequest, sample: GeneratedText) -> Trajectory:
    """The trajectory of one sampled turn."""
    text = before_control_token(sample.text, lm)
    stops = paragraph_ends(text)
    answers = [asked.opening, *(asked.opening + text[:stop] for stop in stops)]
    starts = [0, *stops]
    steps = tuple(text[start:stop].strip() for start, stop in zip(starts, stops, strict=False))
    return Trajectory(
        name=asked.name,
        draw=sample.draw,
        contexts=tuple(
            [*asked.conversation, {"role": "assistant", "content": answer}] if answer else asked.conversation
            for answer in answers
        ),
        steps=steps,
        status=trajectory_status(steps, whole=sample.status == "ok" and text == sample.text),
        asked=asked.conversation,
        samples=(sample,),
    )


# The think block of a reasoning model: a step for each paragraph, and prefixes of the very tokens that it wrote.
#
# A prefix ends with the first token after which its paragraph is closed by an empty line. So where it ends is decided
# by
# what stands in it, not by what comes after: else what is read there would already know of the next step.


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
    requests = [Request(request.name, lm.reader.chat.render(request.messages), range(draws)) for request in asked]
    drawn = iter(source.sample(requests, sampling, seed=seed, until=[close]))
    return [[thought(lm, request, sample) for sample in islice(drawn, draws)] for request in asked]


def thought(lm: LanguageModel, asked: ThoughtRequest, sample: GeneratedText) -> Trajectory:
    """The trajectory of one sampled thought. One that was not closed is `truncated`."""
    opening = THINK if sample.text.startswith(THINK) else ""
    written = sample.text.removeprefix(THINK)
    text = before_control_token(written, lm)
    marks = paragraph_closings(text)
    steps = tuple(text[start:stop].strip() for start, stop in pairwise([0, *marks]))
    return Trajectory(
        name=asked.name,
        draw=sample.draw,
        contexts=(asked.conversation,) * (len(steps) + 1),
        steps=steps,
        status=trajectory_status(steps, whole=sample.ids[-1] == lm.reader.chat.close and text == written),
        asked=asked.messages,
        samples=(sample,),
        thoughts=tuple(_saying(lm, sample.ids, opening + text[:mark]) for mark in marks),
    )


def _saying(lm: LanguageModel, ids: tuple[int, ...], start: str) -> tuple[int, ...]:
    """The fewest first tokens that say all of `start`; the last may say more."""
    n = bisect_left(range(len(ids)), True, key=lambda n: lm.sampler.text(ids[:n]).startswith(start))
    return ids[:n]


# Debates of two clones of one model, each on an assigned side; an observer, a third clone, is asked what it believes.
#
# What is scored is the observer's belief: a debater's would be its assignment.


class DebateRequest(NamedTuple):
    """What each side, and the observer, is told."""

    name: str
    speaker: Callable[[int, Sequence[str]], Conversation]
    """(side, speeches so far) -> what that side is asked; side 0 argues for the first option and begins."""
    observer: Callable[[Sequence[str]], Conversation]
    """Speeches so far -> what the observer has seen."""


def debates(
    lm: LanguageModel,
    source: SampleSource,
    asked: Sequence[DebateRequest],
    sampling: Sampling,
    *,
    turns: int,
    draws: int,
    seed: int,
) -> list[list[Trajectory]]:
    """`draws` debates of `turns` speeches for each of `asked`; all debates take their turns together.

    A speech is a step. One that says nothing is none, and the other side goes on.
    """
    running = [(request, draw) for request in asked for draw in range(draws)]
    speeches: list[list[str]] = [[] for _ in running]
    samples: list[list[GeneratedText]] = [[] for _ in running]
    for turn in range(turns):
        requests = [
            Request(f"{request.name}/{turn}", lm.reader.chat.render(request.speaker(turn % 2, heard)), [draw])
            for (request, draw), heard in zip(running, speeches, strict=True)
        ]
        for i, sample in enumerate(source.sample(requests, sampling, seed=seed)):
            samples[i].append(sample)
            if speech := " ".join(before_control_token(sample.text, lm).split()):
                speeches[i].append(speech)
    done = [_trajectory(lm, *pair, heard, drawn) for pair, heard, drawn in zip(running, speeches, samples, strict=True)]
    return [done[i : i + draws] for i in range(0, len(done), draws)]


def _trajectory(
    lm: LanguageModel, asked: DebateRequest, draw: int, speeches: Sequence[str], samples: Sequence[GeneratedText]
) -> Trajectory:
    return Trajectory(
        name=asked.name,
        draw=draw,
        contexts=tuple(asked.observer(speeches[:k]) for k in range(len(speeches) + 1)),
        steps=tuple(speeches),
        status=trajectory_status(
            speeches,
            whole=all(
                sample.status == "ok" and before_control_token(sample.text, lm) == sample.text for sample in samples
            ),
        ),
        asked=asked.speaker(0, ()),
        samples=tuple(samples),
    )
