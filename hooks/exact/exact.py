"""Exact option beliefs: the probability, under the model, of every text that counts as an option.

`read_packed` is the instrument: one tree, few forward passes. `plain.read_plain` is the same definition, one
ordinary forward pass per surface form; the two must agree.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..backends.backend import Backend
from ..backends.capture import CapturePlan
from ..backends.captured import Captured, Collector
from ..belief_rows import option_rows
from ..model.blocks import blocks
from ..model.head import Head
from ..prompts.options import Option
from ..prompts.query import Query
from ..tree.memory import Cost, run_packs
from ..tree.tree import Pack, TokenTree, cut_into_packs, join_packs
from .query_tree import QueryTree
from .steps import UNEMBED_ROWS, Competitor, Steps, at_most_one, log_sum, refuse_nan, row_blocks, starts, sum_groups

if TYPE_CHECKING:
    import torch

    from ..lens.lens import Lens, View

INNER_ROWS = 2048
"""Rows of all views that a lens reads at once; their logits are never held whole."""


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
        return float(np.exp(log_sum(self.logp)))

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
    (reading,) = start_reading(
        [queries], backend, head, budget=budget, temperatures=temperatures, capture=capture, lens=lens
    )()
    return reading


def start_reading(
    requests: Sequence[Sequence[Query]],
    backend: Backend,
    head: Head,
    *,
    budget: int,
    temperatures: Sequence[float] = (),
    capture: CapturePlan | None = None,
    lens: "Lens | None" = None,
    joined: bool = False,
) -> Callable[[], list[PackedReading]]:
    """The same for several sets of queries, each in a tree and in packs of its own. A GPU reads them meanwhile: call
    what is returned to wait for it, and for an error that only the numbers tell.

    `joined`: packs go through the model in rows of `budget` tokens, several in each. What a set reads does not depend
    on the others, nor on how many they are.
    """
    queries = [query for one in requests for query in one]
    apart = np.cumsum([len(one) for one in requests])[:-1].tolist()
    built = QueryTree(queries, apart)
    edits = built.edits
    views = lens.views if lens else ()
    steps = Steps(built, (1.0, *temperatures), len(views))
    collector = _collector(built, backend, capture) if capture else None
    inner = np.zeros(len(built.tree), dtype=bool)
    if lens:
        inner[built.inner_nodes] = True
    costs = [_Count() for _ in requests]

    def cut(tree: TokenTree, read: Iterable[int], budget: int) -> list[Pack]:
        """Packs of each set by itself."""
        nodes = np.array(sorted(read))
        parts = np.split(nodes, np.searchsorted(nodes, built.begins[1:]))
        packs = [pack for part in parts for pack in cut_into_packs(tree, part.tolist(), budget)]
        return join_packs(packs, budget) if joined else packs

    def take(one: Pack) -> int:
        """Run a pack, and keep what is read in it."""
        output = backend.run(
            one,
            capture=collector.request(one) if collector else None,
            edits=edits,
            lens_layers=lens.layers if lens else (),
        )
        nodes = one.nodes
        for start in range(0, len(nodes), UNEMBED_ROWS):
            rows = slice(start, start + UNEMBED_ROWS)
            steps.keep(nodes[rows], head.log_probs(output.hidden[rows], passing=True))
        if lens:
            for rows in row_blocks(np.flatnonzero(inner[nodes]), -(-INNER_ROWS // len(views))):
                steps.keep_inner(nodes[rows], lens.hidden(output.streams[rows]), head)
        if collector:
            collector.collect(one, output)
        for piece in [piece for _, piece in one.pieces] or [one]:
            count = costs[np.searchsorted(built.begins, piece.members[0], side="right") - 1]
            count.packs += 1
            count.tokens += len(piece) if one.pieces else output.tokens_run
        return output.tokens_run

    whole = run_packs(built.tree, built.read_nodes, budget, take, cut)

    def finish() -> list[PackedReading]:
        steps.fetch()
        sizes = np.diff([*built.begins, len(built.tree)]).tolist()
        readings = iter(finished(steps, temperatures, views))
        rows = [sum(len(query.places) for query in one) for one in requests]
        captured = collector.results(rows) if collector else [None] * len(requests)
        return [
            PackedReading(
                [next(readings) for _ in one], replace(whole, tokens_tree=n, tokens_run=c.tokens, packs=c.packs), own
            )
            for one, n, c, own in zip(requests, sizes, costs, captured, strict=True)
        ]

    return finish


@dataclass
class _Count:
    """What a set of queries took."""

    tokens: int = 0
    packs: int = 0


def finished(steps: Steps, temperatures: Sequence[float], views: "Sequence[View]" = ()) -> list[ExactReading]:
    """The readings of queries whose nodes have all been kept."""
    built, found = steps.built, list[ExactReading]()
    if not built.queries:
        return found
    sums = steps.sums()
    form = option = 0
    for query, competitor, forced in zip(built.queries, steps.competitors(), sums.forced, strict=True):
        counts = query.paths.counts.tolist()
        ends = np.cumsum([form, *counts]).tolist()
        first, *other = sums.options[:, option : option + len(counts)]
        seen = views if query.inner else ()
        tempered, inner = other[: len(temperatures)], other[len(temperatures) : len(temperatures) + len(seen)]
        found.append(
            ExactReading(
                query.readout_id,
                first,
                tuple(sums.forms[start:end] for start, end in pairwise(ends)),
                competitor,
                forced,
                dict(zip(temperatures, tempered, strict=True)),
                dict(zip(seen, inner, strict=True)),
            )
        )
        form, option = ends[-1], option + len(counts)
    return found


def normalised(logp: NDArray[np.float64]) -> NDArray[np.float64]:
    """[options] probabilities among the options alone; NaN if none has any mass."""
    total = log_sum(logp)
    return np.exp(logp - total) if np.isfinite(total) else np.full(len(logp), np.nan)


def exact_rows(logp: NDArray[np.float64], options: Sequence[Option], low_coverage: float) -> list[dict[str, object]]:
    """The rows of the belief table that a distribution fills, without the columns of its experiment."""
    total = log_sum(logp)
    prob, coverage = np.exp(logp - total) if np.isfinite(total) else np.full(len(logp), np.nan), float(np.exp(total))
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


def _collector(built: QueryTree, backend: Backend, plan: CapturePlan) -> Collector:
    """Asks for the places of all queries."""
    collector = Collector(built.tree, plan.sites, plan.layer_numbers(len(blocks(backend.model))))
    for query, place in zip(built.queries, built.placed, strict=True):
        collector.add_places(query.readout_id, place.prompt, query.places)
    return collector


def make_reading(readout_id: str, form_logp: tuple[NDArray[np.float64], ...], competitor: Competitor) -> ExactReading:
    """Sum the forms of each option. Raises UserError for NaN: a broken model gives no belief."""
    every = np.concatenate(form_logp)
    refuse_nan(every, [(readout_id, len(every))])
    logp = at_most_one(sum_groups(every, starts([len(forms) for forms in form_logp])), np.array([len(form_logp)]))
    return ExactReading(readout_id, logp, form_logp, competitor)
