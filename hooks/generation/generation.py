"""Sampled answers: many draws of many prompts, each with random numbers of its own.

What a draw is made of (its random numbers, the stop rules) depends on the run's seed, its read-out and its number
alone, never on what else is sampled beside it. Only the rounding of log-probabilities does: a token could differ
between two batchings with a probability of the order of that rounding (see `draw_tokens`), about 1e-5 in float32. The
same call on the same machine gives the same bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from ..exact.steps import UNEMBED_ROWS, nan_logits
from ..model.head import Head
from ..model.upload import upload
from ..prompts.chat import Prompt
from ..tree.tree import Ints
from .live import LiveSamples
from .rows import HistoryRows
from .sampling import Sampling, draw_tokens, numbers_per_token

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

        n = sum(len(request.draws) for request in requests)
        if not n:
            return []
        limit = sampling.max_new_tokens
        longest = max(len(request.prompt.ids) for request in requests if request.draws) + limit
        together = min(n, max(1, budget // longest))
        rows.reserve(together, longest)
        ends = np.zeros(len(self.head.weight), dtype=bool)
        ends[[one for one in self.end_ids if one < len(ends)]] = True
        live = LiveSamples(requests, slots=together, limit=limit, per_token=numbers_per_token(len(ends)), seed=seed)
        done: list[GeneratedText | None] = [None] * n
        hidden: list[torch.Tensor] = []  # [rows, d_model] of those that went on, and of new ones
        while len(live) or live.waiting:
            if live.waiting and len(live) <= (1 - REFILL_SHARE) * together:
                hidden.append(rows.begin(live.admit(sum(map(len, hidden)))))
            tokens = self._draw(live, torch.cat(hidden), sampling, branches)
            ended = ends[tokens] | (live.lengths == limit)
            if sampling.stop:
                ended |= [bool(self._stop(ids, sampling.stop)) for ids in live.last(_tail(sampling.stop))]
            if ended.any():
                for one in live.leave(ended):
                    done[one.place] = self.finished(one.request.readout_id, one.draw, one.ids, one.logp, sampling)
            hidden = []
            if len(live):
                hidden.append(rows.advance(*live.part()))
            else:
                rows.forget()
        return [sample for sample in done if sample]

    def _draw(self, live: LiveSamples, hidden: "torch.Tensor", sampling: Sampling, branches: Sequence[str]) -> Ints:
        """Draw the next token of every sample: one copy from the model's device, whatever their number.

        Returns: [samples] the tokens.
        """
        import torch

        uniform = live.numbers()
        order, parts = [], []
        for start in range(0, len(hidden), UNEMBED_ROWS):
            logp = self.head.log_probs(hidden[start : start + UNEMBED_ROWS], passing=True)
            own = np.flatnonzero((live.rows >= start) & (live.rows < start + UNEMBED_ROWS))
            rows = upload(live.rows[own] - start, logp.device)
            tokens = draw_tokens(sampling.probabilities(logp), rows, uniform[own])
            order.append(own)
            parts.append(torch.stack([tokens.double(), logp[rows, tokens].double()]))
        found = np.empty((2, len(live)))
        found[:, np.concatenate(order)] = torch.cat(parts, dim=1).cpu().numpy()
        if (broken := np.isnan(found[1])).any():  # as all are, where one logit is
            raise nan_logits(f"read-out {live.name(int(broken.argmax()))}", branches)
        tokens = found[0].astype(np.int64)
        live.append(tokens, found[1])
        return tokens

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
        tail = self.text(ids[-_tail(stop) :])
        found = [(tail.find(text), text) for text in stop if text in tail]
        return min(found)[1] if found else ""

    def text(self, ids: Sequence[int]) -> str:
        """What ids say in mid-text: decoded after a letter, since some tokenizers drop a leading space."""
        return self._decode([*self._anchor, *ids])[self._start :]

    def _decode(self, ids: list[int]) -> str:
        return str(self.tokenizer.decode(ids, clean_up_tokenization_spaces=False))


def _tail(stop: Sequence[str]) -> int:
    """Tokens in which the last of these texts is found: a character takes four at most."""
    return 4 * max(map(len, stop))
