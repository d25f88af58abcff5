"""Exact option beliefs: the probability, under the model, of every text that counts as an option.

`read_packed` is the instrument: one tree, few forward passes. `plain.read_plain` is the same definition, one
ordinary forward pass per surface form; the two must agree.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from ..backends.backend import Backend
from ..backends.capture import CapturePlan
from ..backends.captured import Captured, Collector
from ..belief_rows import option_rows
from ..edits.changes import Edit, swap_edits
from ..edits.marks import marked_edits
from ..errors import UserError
from ..model.blocks import blocks
from ..model.head import Head
from ..prompts.options import Option, Terminators
from ..prompts.query import Query
from ..tree.memory import Cost, run_packs
from ..tree.tree import ROOT, Pack, TokenTree

if TYPE_CHECKING:
    import torch

    from ..lens.lens import Lens, View

UNEMBED_ROWS = 512
"""Rows whose logits are held at once: 100 MB for a vocabulary of 50,000."""
INNER_ROWS = 2048
"""Rows of all views that a lens reads at once; their logits are never held whole."""
ROUNDING_NAT = 1e-5
"""How far above one the float32 normaliser may put the sum of disjoint events; that much is taken off."""


class Competitor(NamedTuple):
    """The likeliest next token with which no option begins."""

    token: int
    logp: float


@dataclass(frozen=True)
class ExactReading:
    """The probabilities of the options after one prompt."""

    readout_id: str
    logp: NDArray[np.float64]
    """[options] natural log of the probability of the option's event, summed over its forms."""
    form_logp: tuple[NDArray[np.float64], ...]
    """[option][form], of which `logp` is the log-sum-exp."""
    competitor: Competitor
    forced_logp: float = np.nan
    """Log-probability of the prompt's prefilled (off-policy) assistant turns; NaN if it has none, or if the template
    hides them."""
    tempered: Mapping[float, NDArray[np.float64]] = field(default_factory=dict)
    """Temperature -> what `logp` would be at it."""
    inner: Mapping["View", NDArray[np.float64]] = field(default_factory=dict)
    """Layer and lens -> what `logp` would be if the model ended there at every token of an option. What closes a form
    is not the layer's to say: its probability is the model's own."""

    @property
    def coverage(self) -> float:
        """Total probability of the options, in [0, 1]."""
        return float(np.exp(logsumexp(self.logp)))

    @property
    def prob(self) -> NDArray[np.float64]:
        """[options], normalised over the options; NaN if none has any mass."""
        return normalised(self.logp)


class PackedReading(NamedTuple):
    """What `read_packed` returns."""

    readings: list[ExactReading]
    cost: Cost
    captured: Captured | None
    """If a plan was given."""


@dataclass(frozen=True)
class _Placed:
    """Where a query lies in the tree."""

    prompt: Sequence[int]
    """The prompt's nodes."""
    prefilled: tuple[int, ...] | None
    """The nodes of the prefilled turns."""
    forms: tuple[tuple[tuple[int, ...], ...], ...]
    """[option][form] -> nodes."""

    @property
    def last(self) -> int:
        """The prompt's last node."""
        return self.prompt[-1]


class QueryTree:
    """The token tree of a set of queries, and the nodes at which it must be read."""

    def __init__(self, queries: Sequence[Query]) -> None:
        self.queries, self.tree = queries, TokenTree()
        self.placed: list[_Placed] = []
        for query in queries:
            prompt = self._add(query)
            last, turns = prompt[-1], query.prompt.prefilled
            mark = query.marks.answer if query.marks else None
            forms = tuple(
                tuple(tuple(self.tree.add(path, below=last, marks=[mark] * len(path))) for path in paths)
                for paths in query.paths.paths
            )
            prefilled = None if turns is None else tuple(prompt[i] for turn in turns for i in turn)
            self.placed.append(_Placed(prompt, prefilled, forms))

    def _add(self, query: Query) -> list[int]:
        """The nodes of a prompt. From its first swapped row on it is a branch of its own, and from its first edited
        token on one that it shares with queries of the same edits alone.
        """
        ids = query.prompt.ids
        marks = query.marks.prompt if query.marks else (None,) * len(ids)
        if query.swap is None:
            return self.tree.add(ids, marks=marks)
        first = min(query.swap.tokens)
        trunk = self.tree.add(ids[:first], marks=marks[:first])
        return trunk + self.tree.add(ids[first:], below=trunk[-1] if trunk else ROOT, apart=True, marks=marks[first:])

    @property
    def edits(self) -> list[Edit]:
        """The swaps and the edits of all queries."""
        swaps = swap_edits(
            (place.prompt, query.swap) for query, place in zip(self.queries, self.placed, strict=True) if query.swap
        )
        return swaps + marked_edits(self.tree.marks.items())

    @property
    def read_nodes(self) -> set[int]:
        """Every node whose next-token distribution enters a number."""
        ends = {form[-1] for place in self.placed for forms in place.forms for form in forms}
        return {place.last for place in self.placed} | ends | {self.tree.parents[node] for node in self.wanted}

    @property
    def inner_nodes(self) -> set[int]:
        """Every node at which a lens reads: those before the tokens of forms."""
        read = (place for query, place in zip(self.queries, self.placed, strict=True) if query.inner)
        return {self.tree.parents[node] for place in read for forms in place.forms for form in forms for node in form}

    @property
    def wanted(self) -> set[int]:
        """Every node whose own probability enters a number: the tokens of forms, and of prefilled turns."""
        nodes = {node for place in self.placed for forms in place.forms for form in forms for node in form}
        return nodes.union(*(place.prefilled or () for place in self.placed))


def read_packed(
    queries: Sequence[Query],
    backend: Backend,
    head: Head,
    *,
    budget: int,
    temperatures: Sequence[float] = (),
    capture: CapturePlan | None = None,
    lens: "Lens | None" = None,
) -> PackedReading:
    """Read all queries through packs of at most `budget` tokens, smaller ones when memory runs out.

    Other temperatures are read off the same logits, rescaled: they cost no pass. Nor does a capture or a lens: they
    change neither the packs nor, by a single bit, what is read.

    Raises UserError if the model's log-probabilities are not finite, naming the read-out.
    """
    built = QueryTree(queries)
    edits = built.edits
    all_temperatures = (1.0, *temperatures)
    steps = Steps(built, len(all_temperatures), len(lens.views) if lens else 0)
    collector = _collector(built, backend, capture) if capture else None
    competitors: dict[int, Competitor] = {}
    barred = {place.last: query.paths.first_ids for place, query in zip(built.placed, queries, strict=True)}
    inner = built.inner_nodes if lens else set()

    def take(one: Pack) -> int:
        """Run a pack, and keep what is read in it."""
        output = backend.run(
            one,
            capture=collector.request(one) if collector else None,
            edits=edits,
            lens_layers=lens.layers if lens else (),
        )
        for rows in row_blocks(np.arange(len(one.rows))):
            nodes = one.nodes[rows].tolist()
            logp = head.log_probs(output.hidden[rows])
            steps.keep(nodes, (logp if t == 1 else (logp / t).log_softmax(dim=1) for t in all_temperatures))
            for row, node in enumerate(nodes):
                if node in barred:
                    competitors[node] = best_competitor(logp[row], barred[node])
        if lens:
            mine = np.flatnonzero([node in inner for node in one.nodes.tolist()])
            for rows in row_blocks(mine, -(-INNER_ROWS // len(lens.views))):
                steps.keep_inner(one.nodes[rows].tolist(), lens.hidden(output.streams[rows]), head)
        if collector:
            collector.collect(one, output)
        return output.tokens_run

    cost = run_packs(built.tree, built.read_nodes, budget, take)
    readings = [
        finished_reading(query, place, temperatures, lens.views if lens and query.inner else (), steps, competitors)
        for query, place in zip(queries, built.placed, strict=True)
    ]
    return PackedReading(readings, cost, collector.result() if collector else None)


def row_blocks(rows: NDArray[np.int64], size: int = UNEMBED_ROWS) -> Iterator[NDArray[np.int64]]:
    """Rows in as many at a time as are unembedded at once."""
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


class Steps:
    """The log-probability of each token that enters a number, at several temperatures and then in several views of
    inner layers, and of a terminator after it, at the temperatures.
    """

    def __init__(self, built: QueryTree, n_temperatures: int, n_views: int) -> None:
        self.tree = built.tree
        self.step = np.full((n_temperatures + n_views, len(built.tree)), np.nan)  # log P(this token | its ancestors)
        # log P(one of these terminators follows)
        self.end = {query.terminators: np.full((n_temperatures, len(built.tree)), np.nan) for query in built.queries}
        self._children: dict[int, list[int]] = {}
        for node in sorted(built.wanted):
            self._children.setdefault(built.tree.parents[node], []).append(node)

    def keep(self, nodes: Sequence[int], by_temperature: "Iterable[torch.Tensor]") -> None:
        """Take the [nodes, vocabulary] log-probabilities after `nodes` at each temperature."""
        rows, children, tokens = self._edges(nodes)
        for i, logp in enumerate(by_temperature):
            self.step[i, children] = logp[rows, tokens].double().cpu().numpy()
            for terminators, end in self.end.items():
                end[i, nodes] = _terminator_logp(logp, terminators)

    def keep_inner(self, nodes: Sequence[int], hidden: "torch.Tensor", head: Head) -> None:
        """Read what follows `nodes` off the [views, nodes, d_model] hidden states of the views."""
        rows, children, tokens = self._edges(nodes)
        self.step[-len(hidden) :, children] = head.token_log_probs(hidden, rows, tokens).double().cpu().numpy()

    def _edges(self, nodes: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
        """Of each token that enters a number after one of `nodes`: the row of that one, its own node, its id."""
        edges = [(row, child) for row, node in enumerate(nodes) for child in self._children.get(node, ())]
        children = [child for _, child in edges]
        return [row for row, _ in edges], children, [self.tree.tokens[child] for child in children]

    def forms(self, which: int, query: Query, place: _Placed) -> tuple[NDArray[np.float64], ...]:
        """[option][form] log-probability of each form with what closes it, at one temperature or in one view."""
        ends = self.end[query.terminators]
        step, end = self.step[which], ends[which if which < len(ends) else 0]
        return tuple(np.array([step[list(form)].sum() + end[form[-1]] for form in forms]) for forms in place.forms)


def normalised(logp: NDArray[np.float64]) -> NDArray[np.float64]:
    """[options] probabilities among the options alone; NaN if none has any mass."""
    total = logsumexp(logp)
    return np.exp(logp - total) if np.isfinite(total) else np.full(len(logp), np.nan)


def exact_rows(logp: NDArray[np.float64], options: Sequence[Option], low_coverage: float) -> list[dict[str, object]]:
    """The rows of the belief table that a distribution fills, without the columns of its experiment."""
    prob, coverage = normalised(logp), float(np.exp(logsumexp(logp)))
    status = "nan" if np.isnan(prob).any() else "low_coverage" if coverage < low_coverage else "ok"
    rows = option_rows([one.name for one in options], prob, kind="exact", coverage=coverage, status=status)
    return [row | {"logp": one} for row, one in zip(rows, logp, strict=True)]


def largest_difference(one: ExactReading, other: ExactReading) -> float:
    """Largest difference in nats between two readings of a query, over all forms and the prefilled turns."""
    gaps = [np.abs(a - b) for a, b in zip(one.form_logp, other.form_logp, strict=True)]
    if not (np.isnan(one.forced_logp) and np.isnan(other.forced_logp)):
        gaps.append(np.abs([one.forced_logp - other.forced_logp]))
    return float(np.max(np.concatenate(gaps)))


def best_competitor(logp: "torch.Tensor", barred: set[int]) -> Competitor:
    """The likeliest token of a [vocabulary] distribution that is not `barred`."""
    values, tokens = logp.topk(min(len(barred) + 1, len(logp)))
    for value, token in zip(values.tolist(), tokens.tolist(), strict=True):
        if token not in barred:
            return Competitor(token, value)
    return Competitor(-1, float("-inf"))


def _terminator_logp(logp: "torch.Tensor", terminators: Terminators) -> NDArray[np.float64]:
    import torch

    ids = torch.from_numpy(terminators.ids).to(logp.device)
    return logp[:, ids].double().logsumexp(dim=1).cpu().numpy()


def _collector(built: QueryTree, backend: Backend, plan: CapturePlan) -> Collector:
    """Asks for the places of all queries."""
    collector = Collector(built.tree, plan.sites, plan.layer_numbers(len(blocks(backend.model))))
    for query, place in zip(built.queries, built.placed, strict=True):
        collector.add_places(query.readout_id, place.prompt, query.places)
    return collector


def finished_reading(
    query: Query,
    place: _Placed,
    temperatures: Sequence[float],
    views: "Sequence[View]",
    steps: Steps,
    competitors: dict[int, Competitor],
) -> ExactReading:
    """The reading of a query whose nodes have all been kept."""
    reading = make_reading(query.readout_id, steps.forms(0, query, place), competitors[place.last])
    n = 1 + len(temperatures) + len(views)
    other = [_sum_forms(steps.forms(which, query, place)) for which in range(1, n)]
    return replace(
        reading,
        forced_logp=float(steps.step[0, list(place.prefilled)].sum()) if place.prefilled else np.nan,
        tempered=dict(zip(temperatures, other, strict=False)),
        inner=dict(zip(views, other[len(temperatures) :], strict=True)),
    )


def make_reading(readout_id: str, form_logp: tuple[NDArray[np.float64], ...], competitor: Competitor) -> ExactReading:
    """Sum the forms of each option. Raises UserError for NaN: a broken model gives no belief."""
    if any(np.isnan(forms).any() for forms in form_logp):
        raise UserError(f"read-out {readout_id}: the model's logits are NaN; try dtype float32, or check the weights")
    return ExactReading(readout_id, _sum_forms(form_logp), form_logp, competitor)


def _sum_forms(form_logp: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """[options] log of the summed probabilities of each option's forms."""
    logp = np.array([logsumexp(forms) for forms in form_logp])
    excess = float(logsumexp(logp))
    return logp - excess if 0 < excess < ROUNDING_NAT else logp
