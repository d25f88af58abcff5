"""Debates of two clones of one model, each on an assigned side; an observer, a third clone, is asked what it believes.

What is scored is the observer's belief: a debater's would be its assignment.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ....hooks.generation.generation import GeneratedText, Request
from ....hooks.generation.sampling import Sampling
from ....hooks.lm import LanguageModel
from ....hooks.prompts.chat import Conversation
from .trajectory import SampleSource, Trajectory, before_control_token, trajectory_status


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
    running = [(one, draw) for one in asked for draw in range(draws)]
    speeches: list[list[str]] = [[] for _ in running]
    samples: list[list[GeneratedText]] = [[] for _ in running]
    for turn in range(turns):
        requests = [
            Request(f"{one.name}/{turn}", lm.reader.chat.render(one.speaker(turn % 2, said)), [draw])
            for (one, draw), said in zip(running, speeches, strict=True)
        ]
        for i, sample in enumerate(source.sample(requests, sampling, seed=seed)):
            samples[i].append(sample)
            if speech := " ".join(before_control_token(sample.text, lm).split()):
                speeches[i].append(speech)
    done = [_trajectory(lm, *one, said, drawn) for one, said, drawn in zip(running, speeches, samples, strict=True)]
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
            whole=all(one.status == "ok" and before_control_token(one.text, lm) == one.text for one in samples),
        ),
        asked=asked.speaker(0, ()),
        samples=tuple(samples),
    )
