"""Sampled answers: many draws of many prompts, each with random numbers of its own.

What a draw is made of (its random numbers, the stop rules) depends on the run's seed, its read-out and its number
alone, never on what else is sampled beside it. Only the rounding of log-probabilities does: a token could differ
between two batchings with a probability of the order of that rounding (see `draw_tokens`), about 1e-5 in float32. The
same call on the same machine gives the same bytes.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from ..exact.steps import UNEMBED_ROWS, nan_logits
from ..model.head import Head
from ..model.upload import upload
from ..prompts.chat import Prompt
from .rows import HistoryRows
from .sampling import Sampling, draw_tokens, numbers_per_token, random_generator

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

REFILL_SHARE = 0.25
"""New draws enter when this share of the rows is free: often enough to keep passes full, seldom enough to pay."""


@dataclass(frozen=True)
class Request:
    """A prompt, and which of its draws to make. A resumed run requests those that it lacks."""

    readout_id: str
    prompt: Prompt
    draws: Sequence[int]


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


_BITS = 32  # of a token's id
_Waiting = deque[tuple[int, tuple[Request, int]]]
"""(place among all draws, (request, draw))."""


@dataclass(eq=False)
class _Growing:
    """A sample that is not finished."""

    place: int
    request: Request
    draw: int
    random: np.random.Generator
    row: int
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
        self,
        requests: Sequence[Request],
        rows: HistoryRows,
        sampling: Sampling,
        *,
        seed: int,
        budget: int,
        branches: Sequence[str] = (),
    ) -> list[GeneratedText]:
        """All draws of all requests, in their order.

        Args:
            requests: prompts and draws.
            rows: computes histories of this model.
            sampling: the sampling distribution.
            seed: of the run.
            budget: most tokens held at once, whatever the number of draws; one draw is always made.
            branches: whose edits `rows` makes.

        Raises UserError if log-probabilities are not finite, naming the read-out.
        """
        import torch

        draws = [(request, draw) for request in requests for draw in request.draws]
        if not draws:
            return []
        longest = max(len(request.prompt.ids) for request, _ in draws) + sampling.max_new_tokens
        together = min(len(draws), max(1, budget // longest))
        rows.reserve(together, longest)
        waiting = deque(enumerate(draws))
        done: list[GeneratedText | None] = [None] * len(draws)
        growing: list[_Growing] = []
        hidden: list[torch.Tensor] = []  # [rows, d_model] of those that went on, and of new ones
        while growing or waiting:
            if waiting and len(growing) <= (1 - REFILL_SHARE) * together:
                n = sum(map(len, hidden))
                growing += (new := self._admit(waiting, together - len(growing), seed, n))
                hidden.append(rows.begin(list(dict.fromkeys(one.request.prompt.ids for one in new))))
            self._draw(growing, torch.cat(hidden), sampling, branches)
            for one in growing:
                done[one.place] = self.finished(one.request.readout_id, one.draw, one.ids, one.logp, sampling)
            growing, hidden = [one for one in growing if done[one.place] is None], []
            if growing:
                hidden.append(_advance(growing, rows))
            else:
                rows.forget()
        return [sample for sample in done if sample]

    def _admit(self, waiting: _Waiting, n: int, seed: int, first: int) -> list[_Growing]:
        """The next n draws, those of a prompt in one row, from row `first` on."""
        row: dict[tuple[int, ...], int] = {}
        admitted = []
        for place, (request, draw) in (waiting.popleft() for _ in range(min(n, len(waiting)))):
            own = row.setdefault(request.prompt.ids, first + len(row))
            admitted.append(_Growing(place, request, draw, random_generator(seed, request.readout_id, draw), own))
        return admitted

    def _draw(
        self, growing: Sequence[_Growing], hidden: "torch.Tensor", sampling: Sampling, branches: Sequence[str]
    ) -> None:
        """Draw the next token of every sample: one copy from the model's device, whatever their number."""
        import torch

        at = np.array([one.row for one in growing])
        order, parts = [], []
        for start in range(0, len(hidden), UNEMBED_ROWS):
            logp = self.head.log_probs(hidden[start : start + UNEMBED_ROWS])
            own = np.flatnonzero((at >= start) & (at < start + UNEMBED_ROWS))
            rows = upload(at[own] - start, logp.device)
            uniform = np.empty((len(own), numbers_per_token(logp.shape[1])))
            for numbers, i in zip(uniform, own.tolist(), strict=True):
                growing[i].random.random(out=numbers)
            tokens = draw_tokens(sampling.probabilities(logp), rows, uniform)
            order.append(own)
            parts.append(torch.stack([tokens.double(), logp[rows, tokens].double()]))
        found = torch.cat(parts, dim=1).cpu().numpy()
        for i, token, value in zip(np.concatenate(order).tolist(), *found.tolist(), strict=True):
            if np.isnan(value):  # as all are, where one logit is
                raise nan_logits(f"read-out {growing[i].request.readout_id}", branches)
            growing[i].ids.append(int(token))
            growing[i].logp.append(value)

    def finished(
        self, readout_id: str, draw: int, ids: Sequence[int], logp: Sequence[float], sampling: Sampling
    ) -> GeneratedText | None:
        """The sample of these tokens, if the last of them ended it."""
        ended = ids[-1] in self.end_ids
        stop = "" if ended else self._stop(ids, sampling.stop)
        if not (ended or stop or len(ids) == sampling.max_new_tokens):
            return None
        text = self.text(ids[:-1] if ended else ids)
        return GeneratedText(
            readout_id=readout_id,
            draw=draw,
            ids=tuple(ids),
            text=text.partition(stop)[0] if stop else text,
            logp=tuple(logp),
            status="ok" if ended or stop else "truncated",
            stop=stop,
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


def _advance(growing: Sequence[_Growing], rows: HistoryRows) -> "torch.Tensor":
    """Append to each sample's history what was drawn last; those that are still alike share a row."""
    last = np.array([one.row << _BITS | one.ids[-1] for one in growing])
    distinct, row = np.unique(last, return_inverse=True)
    for one, own in zip(growing, row.tolist(), strict=True):
        one.row = own
    return rows.advance(distinct >> _BITS, distinct & (1 << _BITS) - 1)
