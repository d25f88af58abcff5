"""Sampled answers: many draws of many prompts, each with random numbers of its own.

What a draw is made of (its random numbers, the stop rules) depends on the run's seed, its read-out and its number
alone, never on what else is sampled beside it. Only the rounding of log-probabilities does: a token could differ
between two batchings with a probability of the order of that rounding (see `draw_tokens`), about 1e-5 in float32. The
same call on the same machine gives the same bytes.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..exact.log_probs import UNEMBED_ROWS, nan_logits
from ..model.blocks import upload
from ..model.head import Head
from ..prompts.chat import Prompt
from ..tree.token_tree import Ints
from .rows import HistoryRows
from .sampling import Sampling, draw_tokens, numbers_per_token, random_generator

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

    from .rows import Ids


AHEAD = 32
"""Tokens of a sample whose random numbers are made at once: the same numbers, in fewer calls."""
_BITS = 32  # of a token's id


class EndedSample(NamedTuple):
    """A sample that ended."""

    place: int
    """Among all draws."""
    request: "Request"
    draw: int
    ids: list[int]
    logp: list[float]


class LiveSamples:
    """Samples that grow by one token at a step, all together. Each has a slot of the arrays, which it leaves to another
    when it ends.

    Args:
        slots: samples at once, at most.
        limit: tokens of a sample, at most.
    """

    def __init__(self, requests: "Sequence[Request]", *, slots: int, limit: int, per_token: int, seed: int) -> None:
        self.waiting = deque(enumerate((request, draw) for request in requests for draw in request.draws))
        self.seed = seed
        self.rows, self.lengths, self._slots = np.zeros((3, 0), dtype=np.int64)
        """[samples] the row of histories that each goes on from; how many tokens it has; its slot."""
        self._free = deque(range(slots))
        self._parted = False  # whether no two go on from one row
        self._ids = np.empty((slots, limit), dtype=np.int64)
        self._logp = np.empty((slots, limit))
        self._numbers = np.empty((slots, min(AHEAD, limit), per_token))
        self._owners: dict[int, tuple[int, Request, int, np.random.Generator]] = {}

    def __len__(self) -> int:
        return len(self._slots)

    def admit(self, first: int) -> "list[Ids]":
        """Fill the free slots.

        Returns: the prompts of the new samples, each once, in the order of the rows that they have from `first` on.
        """
        row: dict[Ids, int] = {}
        new = []
        while self._free and self.waiting:
            (place, (request, draw)), slot = self.waiting.popleft(), self._free.popleft()
            place_of_prompt = row.setdefault(request.prompt.ids, first + len(row))
            self._owners[slot] = (place, request, draw, random_generator(self.seed, request.readout_id, draw))
            new.append((place_of_prompt, 0, slot))
        begun = np.array(new, dtype=np.int64).reshape(-1, 3).T
        self._parted = False
        self.rows, self.lengths, self._slots = np.hstack([[self.rows, self.lengths, self._slots], begun])
        return list(row)

    def name(self, sample: int) -> str:
        """The read-out that a sample is of."""
        return self._owners[int(self._slots[sample])][1].readout_id

    def numbers(self) -> NDArray[np.float64]:
        """[samples, per_token] the random numbers of the next tokens, to be asked for once for each."""
        ahead = self.lengths % self._numbers.shape[1]
        for slot in self._slots[ahead == 0].tolist():
            self._owners[slot][-1].random(out=self._numbers[slot])
        return self._numbers[self._slots, ahead]

    def append(self, tokens: Ints, logp: NDArray[np.float64]) -> None:
        """Give each sample its next token [samples], and that token's log-probability."""
        self._ids[self._slots, self.lengths] = tokens
        self._logp[self._slots, self.lengths] = logp
        self.lengths = self.lengths + 1

    def last(self, n: int) -> list[list[int]]:
        """The last n tokens of each sample, or all that it has."""
        ends = zip(self._slots.tolist(), self.lengths.tolist(), strict=True)
        return [self._ids[slot, max(0, end - n) : end].tolist() for slot, end in ends]

    def leave(self, ended: NDArray[np.bool_]) -> list[EndedSample]:
        """Take out those [samples] that ended."""
        samples = []
        for slot, length in zip(self._slots[ended].tolist(), self.lengths[ended].tolist(), strict=True):
            place, request, draw, _ = self._owners.pop(slot)
            tokens, logp = self._ids[slot, :length].tolist(), self._logp[slot, :length].tolist()
            samples.append(EndedSample(place, request, draw, tokens, logp))
            self._free.append(slot)
        self.rows, self.lengths, self._slots = (numbers[~ended] for numbers in (self.rows, self.lengths, self._slots))
        return samples

    def part(self) -> tuple[Ints, Ints]:
        """Give samples that are alike, up to their last tokens, a row of their own.

        Returns: [rows] the row that each goes on from, and the token by which it does.
        """
        tokens = self._ids[self._slots, self.lengths - 1]
        if self._parted:  # for good: what parted is not alike again
            order = np.argsort(self.rows)
            parents = self.rows[order]
            self.rows = np.empty_like(parents)
            self.rows[order] = np.arange(len(order))
            return parents, tokens[order]
        distinct, self.rows = np.unique(self.rows << _BITS | tokens, return_inverse=True)
        self._parted = len(distinct) == len(self.rows)
        return distinct >> _BITS, distinct & (1 << _BITS) - 1


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
    """Samples from one model."""

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
        ends[[token for token in self.end_ids if token < len(ends)]] = True
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
                for sample in live.leave(ended):
                    name = sample.request.readout_id
                    done[sample.place] = self.finished(name, sample.draw, sample.ids, sample.logp, sampling)
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
            samples = np.flatnonzero((live.rows >= start) & (live.rows < start + UNEMBED_ROWS))
            rows = upload(live.rows[samples] - start, logp.device)
            tokens = draw_tokens(sampling.probabilities(logp), rows, uniform[samples])
            order.append(samples)
            parts.append(torch.stack([tokens.double(), logp[rows, tokens].double()]))
        drawn = np.empty((2, len(live)))
        drawn[:, np.concatenate(order)] = torch.cat(parts, dim=1).cpu().numpy()
        if (broken := np.isnan(drawn[1])).any():  # as all are, where one logit is
            raise nan_logits(f"read-out {live.name(int(broken.argmax()))}", branches)
        tokens = drawn[0].astype(np.int64)
        live.append(tokens, drawn[1])
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
        stops = [(tail.find(text), text) for text in stop if text in tail]
        return min(stops)[1] if stops else ""

    def text(self, ids: Sequence[int]) -> str:
        """What ids say in mid-text: decoded after a letter, since some tokenizers drop a leading space."""
        return self._decode([*self._anchor, *ids])[self._start :]

    def _decode(self, ids: list[int]) -> str:
        return str(self.tokenizer.decode(ids, clean_up_tokenization_spaces=False))


def _tail(stop: Sequence[str]) -> int:
    """Tokens in which the last of these texts is found: a character takes four at most."""
    return 4 * max(map(len, stop))
