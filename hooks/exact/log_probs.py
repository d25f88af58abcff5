"""The log-probabilities that are read at the rows of packs, and what they add up to.

All that packs give stays on the model's device until it is sent, in one copy, and fetched.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...base.errors import UserError
from ..model.blocks import download, upload
from ..model.head import Head
from ..tree.token_tree import Ints
from .query_tree import QueryTree

if TYPE_CHECKING:
    import torch

Numbers = NDArray[np.float64]

UNEMBED_ROWS = 512
"""Rows whose logits are held at once: 100 MB for a vocabulary of 50,000."""
ROUNDING_NAT = 1e-5
"""How far above one the float32 normaliser may put the sum of disjoint events; that much is taken off."""


class Competitor(NamedTuple):
    """The likeliest next token with which no option begins."""

    token: int
    logp: float


class Sums(NamedTuple):
    """What the forms of all queries add up to, at several temperatures and then in several views of inner layers."""

    forms: Numbers
    """[forms] at temperature 1, query by query, option by option."""
    options: Numbers
    """[temperatures + views, options] query by query."""
    prefilled: Sequence[float]
    """[queries] of the prefilled turns; NaN if there are none."""


class Steps:
    """The log-probability of each token that enters a number, at several temperatures and then in several views of
    inner layers, and of a terminator after it, at the temperatures.

    Args:
        temperatures: the first is 1.
    """

    def __init__(self, built: QueryTree, temperatures: Sequence[float], n_views: int) -> None:
        self.built, self.temperatures = built, temperatures
        n, depth = len(built.tree), len(temperatures)
        self._step = np.full((depth + n_views, n), np.nan)  # log P(this token | its ancestors)
        self._above = built.parents[built.wanted]
        self._tokens = np.array(built.tree.tokens, dtype=np.int64)[built.wanted]
        # log P(one of these terminators follows)
        self._end = {query.terminators: np.full((depth, n), np.nan) for query in built.queries}
        number = {terminators: i for i, terminators in enumerate(self._end)}
        closing = np.array([number[query.terminators] for query in built.queries], dtype=np.int64)[built.form_queries]
        self._closed = {terminators: np.flatnonzero(closing == i) for terminators, i in number.items()}
        self._best = np.full((2, len(built.queries)), np.nan)  # token and log-probability of what is likeliest beside
        self._pending: list[tuple[NDArray[np.float64], Ints, torch.Tensor]] = []
        self._sent: Callable[[], torch.Tensor]

    def keep(self, nodes: Ints, logp: "torch.Tensor") -> None:
        """Take what is wanted of the [nodes, vocabulary] log-probabilities after `nodes`."""
        built, row_of = self.built, self._rows(nodes)
        edges = np.flatnonzero(row_of[self._above] >= 0)
        rows, tokens = _on(logp.device, row_of[self._above[edges]], self._tokens[edges])
        ends = {closers: built.form_ends[forms] for closers, forms in self._closed.items()}
        ends = {closers: np.unique(nodes[row_of[nodes] >= 0]) for closers, nodes in ends.items()}
        for i, temperature in enumerate(self.temperatures):
            scaled = logp if temperature == 1 else (logp / temperature).log_softmax(dim=1)
            self._later(self._step[i], built.wanted[edges], scaled[rows, tokens])
            for terminators, closed in ends.items():
                (at,) = _on(logp.device, row_of[closed])
                # One index into all logits: faster than by rows and columns.
                flat = at[:, None] * scaled.shape[1] + terminators.on(logp.device)
                chances = scaled.reshape(-1).index_select(0, flat.view(-1)).view(flat.shape)
                self._later(self._end[terminators][i], closed, chances.double().logsumexp(dim=1))
        asked = np.flatnonzero(row_of[built.lasts] >= 0)
        if len(asked):
            barred = [built.queries[i].paths.first_ids for i in asked.tolist()]
            best = _best_beside(logp, row_of[built.lasts[asked]], barred)
            for target, values in zip(self._best, best, strict=True):
                self._later(target, asked, values)

    def keep_inner(self, nodes: Ints, hidden: "torch.Tensor", head: Head) -> None:
        """Read what follows `nodes` off the [views, nodes, d_model] hidden states of the views."""
        row_of = self._rows(nodes)
        edges = np.flatnonzero(row_of[self._above] >= 0)
        rows, tokens = _on(head.weight.device, row_of[self._above[edges]], self._tokens[edges])
        logps = head.token_log_probs(hidden, rows, tokens)
        for view, logp in zip(self._step[-len(hidden) :], logps, strict=True):
            self._later(view, self.built.wanted[edges], logp)

    def send(self) -> None:
        """Begin to copy from the device all that was taken, at once."""
        import torch

        if self._pending:
            self._sent = download(torch.cat([values.double() for *_, values in self._pending]))

    def fetch(self) -> None:
        """Wait for the copy, and put what was taken where it belongs."""
        if self._pending:
            fetched, start = self._sent().numpy(), 0
            for target, nodes, _ in self._pending:
                target[nodes] = fetched[start : start + len(nodes)]
                start += len(nodes)
            self._pending = []

    def competitors(self) -> "list[Competitor]":
        """[queries] what is likeliest after each prompt beside its options."""
        pairs = zip(*self._best.tolist(), strict=True)
        return [Competitor(int(token), logp) if logp > -np.inf else Competitor(-1, logp) for token, logp in pairs]

    def sums(self) -> Sums:
        """Of all queries. Raises UserError for NaN, naming the read-out: a broken model gives no belief."""
        built = self.built
        # log P(form) = sum over its tokens of log P(token | prompt, tokens before) + log P(a terminator | all of them).
        forms = np.add.reduceat(self._step[:, built.form_nodes], starts(built.form_lengths), axis=1)
        for terminators, closed in self._closed.items():
            end = self._end[terminators][:, built.form_ends[closed]]
            forms[: len(end), closed] += end
            forms[len(end) :, closed] += end[0]  # what closes a form is not an inner layer's to say
        named = [(query.readout_id, int(query.paths.counts.sum())) for query in built.queries]
        refuse_nan(forms[0], named, [query.readout_id for query in built.queries if query.marks is not None])
        options = sum_groups(forms, starts(built.n_forms))
        each = [len(query.paths.counts) for query in built.queries]
        prefilled = [
            float(self._step[0, list(place.prefilled)].sum()) if place.prefilled else np.nan for place in built.placed
        ]
        return Sums(forms[0], at_most_one(options, np.array(each)), prefilled)

    def _rows(self, nodes: Ints) -> Ints:
        """[tree] which of `nodes` each node is, or -1."""
        row_of = np.full(len(self.built.tree), -1)
        row_of[nodes] = np.arange(len(nodes))
        return row_of

    def _later(self, target: Numbers, nodes: Ints, values: "torch.Tensor") -> None:
        self._pending.append((target, nodes, values))


def row_blocks(rows: Ints, size: int = UNEMBED_ROWS) -> Iterator[Ints]:
    """Rows in as many at a time as are unembedded at once."""
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def starts(lengths: Sequence[int] | Ints) -> Ints:
    """Where each of some groups, one after the other, begins.

    >>> starts([2, 1, 3]).tolist()
    [0, 2, 3]
    """
    return np.concatenate([[0], np.cumsum(lengths[:-1], dtype=np.int64)])


def sum_groups(logp: Numbers, first: Ints) -> Numbers:
    """[..., groups] log of the summed probabilities of each group of [..., n], which begin at `first`.

    >>> np.exp(sum_groups(np.log([0.5, 0.25, 0.125]), np.array([0, 2]))).round(6).tolist()
    [0.75, 0.125]
    """
    # log sum exp(x) = m + log sum exp(x - m): with m the largest of a group, no term overflows and the largest is 1.
    # Where all are -inf, m is put at 0, and the sum is exp(-inf) = 0.
    top = np.maximum.reduceat(logp, first, axis=-1)
    top = np.where(np.isfinite(top), top, 0.0)
    lengths = np.diff(first, append=logp.shape[-1])
    with np.errstate(divide="ignore"):
        return np.log(np.add.reduceat(np.exp(logp - np.repeat(top, lengths, axis=-1)), first, axis=-1)) + top


def log_sum(logp: Numbers) -> Numbers:
    """[...] log of the summed probabilities of [..., n]."""
    top = logp.max(axis=-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return (np.log(np.add.reduceat(np.exp(logp - top), [0], axis=-1)) + top)[..., 0]


def at_most_one(logp: Numbers, lengths: Ints) -> Numbers:
    """[..., options] of some questions with so many options each, without what rounding put their sums above one."""
    excess = np.repeat(sum_groups(logp, starts(lengths)), lengths, axis=-1)
    return np.where((excess > 0) & (excess < ROUNDING_NAT), logp - excess, logp)


def refuse_nan(form_logp: Numbers, lengths: Sequence[tuple[str, int]], edited: Sequence[str] = ()) -> None:
    """Raise UserError, naming the read-out, if one of its forms is NaN: read-outs, how many forms each has, and which
    of them, `<read-out>/<branch>`, are read under edits.
    """
    if np.isnan(form_logp).any():
        first = int(np.flatnonzero(np.isnan(form_logp))[0])
        which = int(np.searchsorted(np.cumsum([n for _, n in lengths]), first, side="right"))
        raise nan_logits(f"read-out {lengths[which][0]}", [name.rpartition("/")[2] for name in edited])


def nan_logits(where: str, branches: Iterable[str] = ()) -> UserError:
    """What is said of logits that are NaN, where these branches were edited. In a pass that all branches share, a value
    that is not finite in one may reach the others through attention, whose weight for it is 0: 0 times NaN is NaN.
    """
    named = " or ".join(repr(name) for name in dict.fromkeys(branches))
    if named:
        return UserError(
            f"{where}: the model's logits are NaN; the likely cause is an edit in branch {named} beyond what the "
            "model's dtype holds: make it smaller"
        )
    return UserError(f"{where}: the model's logits are NaN; try dtype float32, or check the weights")


def _on(device: "torch.device", *numbers: Ints) -> "tuple[torch.Tensor, ...]":
    """Indices where they are used, in one copy."""
    return upload(np.concatenate(numbers), device).split([len(indices) for indices in numbers])


def _best_beside(logp: "torch.Tensor", rows: Ints, barred: Sequence[Ints]) -> "torch.Tensor":
    """[2, rows] the likeliest token of each of some rows that is not barred there, and its log-probability."""
    import torch

    if logp.device.type == "cpu":  # without a copy, and numpy finds it ten times as fast
        table, best_tokens = logp.numpy(), []
        for row, bars in zip(rows.tolist(), barred, strict=True):
            beside = table[row]
            saved, beside[bars] = beside[bars], -np.inf
            token = int(beside.argmax())
            best_tokens.append((token, beside[token]))
            beside[bars] = saved
        return torch.from_numpy(np.array(best_tokens, dtype=np.float64).T)
    lengths = [len(tokens) for tokens in barred]
    taken, at, bars = _on(logp.device, rows, np.repeat(np.arange(len(rows)), lengths), np.concatenate(barred))
    beside = logp.index_select(0, taken)
    beside.index_put_((at, bars), beside.new_full((), -torch.inf))  # a number would be waited for
    best = beside.max(dim=1)
    return torch.stack([best.indices.double(), best.values.double()])
