"""What is read at the rows of packs, and what it adds up to.

All that a pack gives stays on the model's device until it is fetched, in one copy.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..model.head import Head
from ..model.upload import upload
from ..prompts.options import Terminators
from ..tree.tree import Ints
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
    """What the forms of a query add up to, at several temperatures and then in several views of inner layers."""

    form_logp: tuple[Numbers, ...]
    """[option][form] at temperature 1."""
    logp: Numbers
    """[temperatures + views, options]"""
    forced_logp: float
    """Of the prefilled turns; NaN if there are none."""


class Steps:
    """The log-probability of each token that enters a number, at several temperatures and then in several views of
    inner layers, and of a terminator after it, at the temperatures.

    Args:
        built: of the queries.
        temperatures: the first is 1.
        n_views: of inner layers.
    """

    def __init__(self, built: QueryTree, temperatures: Sequence[float], n_views: int) -> None:
        self.built, self.temperatures = built, temperatures
        n, depth = len(built.tree), len(temperatures)
        self._step = np.full((depth + n_views, n), np.nan)  # log P(this token | its ancestors)
        self._above = built.parents[built.wanted]
        self._tokens = np.array([built.tree.tokens[node] for node in built.wanted.tolist()], dtype=np.int64)
        # log P(one of these terminators follows)
        self._end = {query.terminators: np.full((depth, n), np.nan) for query in built.queries}
        self._ends: dict[Terminators, NDArray[np.bool_]] = {one: np.zeros(n, dtype=bool) for one in self._end}
        self._barred: dict[int, list[int]] = {}
        self._best = np.full((2, n), np.nan)  # token and log-probability of what is likeliest beside the options
        for query, place in zip(built.queries, built.placed, strict=True):
            self._ends[query.terminators][[form[-1] for forms in place.forms for form in forms]] = True
            self._barred[place.last] = list(query.paths.first_ids)
        self._pending: list[tuple[NDArray[np.float64], Ints, torch.Tensor]] = []

    def keep(self, nodes: Ints, logp: "torch.Tensor") -> None:
        """Take what is wanted of the [nodes, vocabulary] log-probabilities after `nodes`."""
        import torch

        row_of = self._rows(nodes)
        edges = np.flatnonzero(row_of[self._above] >= 0)
        rows, tokens = _on(logp.device, row_of[self._above[edges]], self._tokens[edges])
        for i, temperature in enumerate(self.temperatures):
            scaled = logp if temperature == 1 else (logp / temperature).log_softmax(dim=1)
            self._later(self._step[i], self.built.wanted[edges], scaled[rows, tokens])
            for terminators, own in self._ends.items():
                (closed,) = _on(logp.device, np.flatnonzero(own[nodes]))
                ends = scaled.index_select(1, terminators.on(logp.device)).index_select(0, closed)
                self._later(self._end[terminators][i], nodes[own[nodes]], ends.double().logsumexp(dim=1))
        asked = [node for node in nodes.tolist() if node in self._barred]
        if asked:
            own = row_of[asked]
            bars = [(row, token) for row, node in enumerate(asked) for token in self._barred[node]]
            taken, at, barred = _on(logp.device, own, *np.array(bars, dtype=np.int64).T)
            beside = logp.index_select(0, taken)
            beside.index_put_((at, barred), beside.new_full((), -torch.inf))  # a number would be waited for
            value, token = _best(beside)
            self._later(self._best[0], np.array(asked), token)
            self._later(self._best[1], np.array(asked), value)

    def keep_inner(self, nodes: Ints, hidden: "torch.Tensor", head: Head) -> None:
        """Read what follows `nodes` off the [views, nodes, d_model] hidden states of the views."""
        row_of = self._rows(nodes)
        edges = np.flatnonzero(row_of[self._above] >= 0)
        rows, tokens = _on(head.weight.device, row_of[self._above[edges]], self._tokens[edges])
        found = head.token_log_probs(hidden, rows, tokens)
        for view, logp in zip(self._step[-len(hidden) :], found, strict=True):
            self._later(view, self.built.wanted[edges], logp)

    def fetch(self) -> None:
        """Copy what was taken from the device, all at once."""
        import torch

        if self._pending:
            fetched = torch.cat([values.double() for *_, values in self._pending]).cpu().numpy()
            start = 0
            for target, nodes, _ in self._pending:
                target[nodes] = fetched[start : start + len(nodes)]
                start += len(nodes)
            self._pending = []

    def competitor(self, node: int) -> Competitor:
        """What is likeliest after a prompt's last node."""
        token, logp = self._best[:, node].tolist()
        return Competitor(int(token), logp) if logp > -np.inf else Competitor(-1, logp)

    def sums(self) -> "Iterator[Sums]":
        """Of each query. Raises UserError for NaN, naming the read-out: a broken model gives no belief."""
        built = self.built
        if not built.placed:
            return
        lengths = [len(form) for place in built.placed for forms in place.forms for form in forms]
        forms = np.add.reduceat(self._step[:, built.form_nodes], starts(lengths), axis=1)
        first = 0
        for query, place in zip(built.queries, built.placed, strict=True):
            n = sum(map(len, place.forms))
            end = self._end[query.terminators][:, built.form_ends[first : first + n]]
            forms[: len(end), first : first + n] += end
            forms[len(end) :, first : first + n] += end[0]  # what closes a form is not an inner layer's to say
            first += n
        sizes = [sum(map(len, place.forms)) for place in built.placed]
        named = [(query.readout_id, n) for query, n in zip(built.queries, sizes, strict=True)]
        refuse_nan(forms[0], named, [query.readout_id for query in built.queries if query.marks is not None])
        counts = [len(forms_of) for place in built.placed for forms_of in place.forms]
        options = sum_groups(forms, starts(counts))
        form = option = 0
        for place in built.placed:
            own = []
            for forms_of in place.forms:
                own.append(forms[0, form : form + len(forms_of)])
                form += len(forms_of)
            logp = options[:, option : option + len(own)]
            option += len(own)
            forced = float(self._step[0, list(place.prefilled)].sum()) if place.prefilled else np.nan
            yield Sums(tuple(own), at_most_one(logp), forced)

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


def starts(lengths: Sequence[int]) -> Ints:
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
    top = np.maximum.reduceat(logp, first, axis=-1)
    top = np.where(np.isfinite(top), top, 0.0)
    lengths = np.diff(first, append=logp.shape[-1])
    with np.errstate(divide="ignore"):
        return np.log(np.add.reduceat(np.exp(logp - np.repeat(top, lengths, axis=-1)), first, axis=-1)) + top


def log_sum(logp: Numbers) -> Numbers:
    """[...] log of the summed probabilities of [..., n]."""
    return sum_groups(logp, np.zeros(1, dtype=np.int64))[..., 0]


def at_most_one(logp: Numbers) -> Numbers:
    """[..., options], without what rounding put their sum above one."""
    excess = log_sum(logp)[..., None]
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
    return upload(np.concatenate(numbers), device).split([len(one) for one in numbers])


def _best(logp: "torch.Tensor") -> "tuple[torch.Tensor, torch.Tensor]":
    """The largest of each row, and where it is."""
    import torch

    if logp.device.type == "cpu":  # numpy finds it ten times as fast
        where = torch.from_numpy(logp.numpy().argmax(axis=1))
        return logp[torch.arange(len(logp)), where], where
    best = logp.max(dim=1)
    return best.values, best.indices
