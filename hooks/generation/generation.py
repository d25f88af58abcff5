"""Sampled answers: many draws of many prompts, each with random numbers of its own.

What a draw is made of (its random numbers, the stop rules) depends on the run's seed, its read-out and its number
alone, never on what else is sampled beside it. Only the rounding of log-probabilities does: a token could differ
between two batchings with a probability of the order of that rounding (see `draw_tokens`), about 1e-5 in float32. The
same call on the same machine gives the same bytes.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Literal

import numpy as np

from ..edits.marks import Marks
from ..errors import UserError
from ..exact.exact import UNEMBED_ROWS
from ..model.head import Head
from ..prompts.chat import Prompt
from .growing import Histories, Node
from .sampling import Sampling, draw_tokens, numbers_per_token, random_generator

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

BUDGET = 4096
"""Default tokens whose keys and values are held at once."""
REFILL_SHARE = 0.25
"""New draws enter when this share of the budget is free: often enough to keep passes full, seldom enough to pay."""


@dataclass(frozen=True)
class Request:
    """A prompt, and which of its draws to make. A resumed run requests those that it lacks."""

    readout_id: str
    prompt: Prompt
    draws: Sequence[int]
    marks: Marks | None = None
    """The edits under which they are made."""
    branch: str = ""
    """The name of those edits."""


@dataclass(frozen=True)
class GeneratedText:
    """A text that the model generated. All fields are plain values, so that it can be a line of a transcript."""

    readout_id: str
    draw: int
    ids: tuple[int, ...]
    """Every token drawn, the one that ended the turn included."""
    text: str
    """The decoded tokens, without the end of the turn, up to a stop text."""
    logp: tuple[float, ...]
    """Natural log of the probability of each token under the unmodified model, whatever the sampling."""
    status: Literal["ok", "truncated"]
    """`truncated`: neither the end of the turn nor a stop text came within the limit."""
    stop: str = ""
    """The stop text that ended it, if one did."""
    branch: str = ""
    """The edits under which it was drawn; empty: none."""


_Waiting = deque[tuple[int, Request, int]]
"""(place among all draws, request, draw)."""


@dataclass(eq=False)
class _Growing:
    """A sample that is not finished."""

    place: int
    request: Request
    draw: int
    random: np.random.Generator
    node: Node
    ids: list[int] = field(default_factory=list)
    logp: list[float] = field(default_factory=list)


class Sampler:
    """Samples from one model.

    Args:
        tokenizer: of the model.
        head: of the model.
        end_ids: the ids that end a turn.
    """

    def __init__(self, tokenizer: "PreTrainedTokenizerBase", head: Head, end_ids: Sequence[int]) -> None:
        self.tokenizer, self.head, self.end_ids = tokenizer, head, frozenset(end_ids)
        self._anchor: list[int] = tokenizer("a", add_special_tokens=False)["input_ids"]  # pyright: ignore[reportAttributeAccessIssue]
        self._start = len(self._decode(self._anchor))

    def generate(
        self, requests: Sequence[Request], histories: Histories, sampling: Sampling, *, seed: int, budget: int = BUDGET
    ) -> list[GeneratedText]:
        """All draws of all requests, in their order.

        Args:
            requests: prompts and draws.
            histories: an empty tree that computes histories of this model.
            sampling: the sampling distribution.
            seed: of the run.
            budget: most tokens held at once, whatever the number of draws; one draw is always made.

        Raises UserError if log-probabilities are not finite, naming the read-out.
        """
        draws = [(request, draw) for request in requests for draw in request.draws]
        waiting: _Waiting = deque((place, request, draw) for place, (request, draw) in enumerate(draws))
        done: list[GeneratedText | None] = [None] * len(waiting)
        growing: list[_Growing] = []
        while growing or waiting:
            room = budget - len(histories) - sum(sampling.max_new_tokens - len(one.ids) for one in growing)
            if not growing or room >= REFILL_SHARE * budget:
                growing += self._admit(waiting, histories, sampling, seed, room, must=not growing)
            self._advance(growing, histories, sampling)
            still = []
            for one in growing:
                done[one.place] = sample = self._finished(one, sampling)
                if sample is None:
                    marks = one.request.marks
                    one.node = histories.extend(one.node, one.ids[-1:], [marks.answer] if marks else None)
                    still.append(one)
            growing = still
        return [sample for sample in done if sample]

    def _admit(
        self, waiting: _Waiting, histories: Histories, sampling: Sampling, seed: int, room: int, *, must: bool
    ) -> list[_Growing]:
        """Take as many draws from `waiting` as there is room for at their full length; one at least if it `must`."""
        admitted: list[_Growing] = []
        while waiting:
            place, request, draw = waiting[0]
            before = len(histories)
            node = histories.extend(None, request.prompt.ids, request.marks.prompt if request.marks else None)
            room -= sampling.max_new_tokens + len(histories) - before
            if room < 0 and not (must and not admitted):
                break
            waiting.popleft()
            admitted.append(_Growing(place, request, draw, random_generator(seed, request.readout_id, draw), node))
        return admitted

    def _advance(self, growing: Sequence[_Growing], histories: Histories, sampling: Sampling) -> None:
        """Draw the next token of every sample."""
        import torch

        at_node: dict[Node, list[_Growing]] = {}
        for one in growing:
            at_node.setdefault(one.node, []).append(one)
        histories.compute(list(at_node))
        for nodes in node_batches(at_node, UNEMBED_ROWS):
            logp = self.head.log_probs(torch.stack([node.hidden for node in nodes if node.hidden is not None]))
            p = sampling.probabilities(logp)
            drawn = [(row, one) for row, node in enumerate(nodes) for one in at_node[node]]
            if (broken := logp.isnan().any(dim=1)).any():
                name = at_node[nodes[int(broken.nonzero()[0])]][0].request.readout_id
                raise UserError(f"read-out {name}: the model's logits are NaN; try dtype float32, or check the weights")
            rows = torch.tensor([row for row, _ in drawn], device=logp.device)
            count = numbers_per_token(logp.shape[1])
            tokens = draw_tokens(p, rows, np.stack([one.random.random(count) for _, one in drawn]))
            values = logp[rows, tokens].tolist()
            for (_, one), token, value in zip(drawn, tokens.tolist(), values, strict=True):
                one.ids.append(token)
                one.logp.append(value)

    def _finished(self, one: _Growing, sampling: Sampling) -> GeneratedText | None:
        """The sample, if its last token ended it."""
        ended = one.ids[-1] in self.end_ids
        stop = "" if ended else self._stop(one.ids, sampling.stop)
        if not (ended or stop or len(one.ids) == sampling.max_new_tokens):
            return None
        text = self.text(one.ids[:-1] if ended else one.ids)
        return GeneratedText(
            readout_id=one.request.readout_id,
            draw=one.draw,
            ids=tuple(one.ids),
            text=text.partition(stop)[0] if stop else text,
            logp=tuple(one.logp),
            status="ok" if ended or stop else "truncated",
            stop=stop,
            branch=one.request.branch,
        )

    def _stop(self, ids: Sequence[int], stop: Sequence[str]) -> str:
        """The stop text that the last token completed, the earliest of several; "" if none."""
        if not stop:
            return ""
        tail = self.text(ids[-4 * max(map(len, stop)) :])  # a character takes four tokens at most
        found = [(tail.find(text), text) for text in stop if text in tail]
        return min(found)[1] if found else ""

    def text(self, ids: Sequence[int]) -> str:
        """What ids say in mid-text: decoded after a letter, since some tokenizers drop a leading space."""
        return self._decode([*self._anchor, *ids])[self._start :]

    def _decode(self, ids: list[int]) -> str:
        return str(self.tokenizer.decode(ids, clean_up_tokenization_spaces=False))


def node_batches(items: Iterable[Node], size: int) -> Iterator[list[Node]]:
    """Nodes, at most `size` at a time."""
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk
