"""The conversations that a reader can look at, with the distribution at every turn."""

from collections.abc import Sequence

import numpy as np

from ...metrics.validation import Floats
from ..experiment import Drawn, Gallery, Instance, Transcript, Transcripts
from .config import BScoreConfig
from .table import Asked, MethodView

MOST = 300
"""Conversations on a page; of more, so many are drawn."""
SHOWN = 4
"""Options of which each distribution tells the probability, the likeliest first."""


def gallery(config: BScoreConfig, found: Sequence[MethodView], transcripts: Transcripts) -> Gallery | None:
    """Every conversation at temperature 1, or a sample; that in which the likeliest answer changes most comes first."""
    every = [
        (view, one, run)
        for view in found
        if view.method == view.base
        for one in view.held
        for run in range(len(one.multi))
    ]
    if not every:
        return None
    drawn = np.random.default_rng(config.seed).permutation(len(every))[:MOST]
    shown = sorted((every[i] for i in drawn), key=lambda one: -abs(_size(one[1], one[2])))
    names = {_name(config, *one) for one in shown}
    said = transcripts(names)
    return Gallery(
        caption=f"{len(shown)} of {len(every)} conversations; the largest B of the likeliest option comes first.",
        facets=["category", "method", "topic"],
        score="B",
        instances=[_instance(view, one, run, said[_name(config, view, one, run)]) for view, one, run in shown],
    )


def _name(config: BScoreConfig, view: MethodView, one: Asked, run: int) -> str:
    return f"{one.item}/run-{run}/turn-{config.turns}/{view.base}"


def _size(one: Asked, run: int) -> float:
    return float(one.b[run, :, one.balanced.argmax()].mean())


def _instance(view: MethodView, one: Asked, run: int, said: Transcript) -> Instance:
    """The whole conversation, turn by turn; of one whose history was cut, what its last turn saw."""
    messages = list(said["messages"])
    n = one.multi.shape[1]
    first = n - (len(messages) + 1) // 2
    conversations: list[tuple[str, Transcript]] = []
    answers: list[Drawn]
    for turn in range(first, n):
        asked, *past = messages[2 * (turn - first) :][:2]
        answers = [
            {"draw": 0, "text": message["content"].removeprefix(said["prefill"]), "status": "ok"} for message in past
        ]
        heading = f"turn {turn + 1}: {_told(one, one.multi[run, turn])}; afresh {_told(one, one.fresh[run, turn])}"
        own: Transcript = {**said, "messages": [asked], "answers": answers or said["answers"]}
        conversations.append((heading, own))
    path = " → ".join(one.options[i] for i in one.answer[run])
    return Instance(
        facets=[one.category, view.method, one.topic or "–"],
        score=_size(one, run),
        facts=f"{one.item}: {path}",
        conversations=conversations,
    )


def _told(one: Asked, distribution: Floats) -> str:
    likeliest = np.argsort(-distribution, kind="stable")[:SHOWN]
    return ", ".join(f"{one.options[i]} {distribution[i]:.2f}" for i in likeliest)
