"""Exact option beliefs: the probability, under the model, of every text that counts as an option, and the rows that
it fills in the belief table.

`read_packed` is the instrument: one tree, few forward passes. `read_plain` is the same definition, one ordinary forward
pass per surface form; the two must agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...base.text import shown
from ..backends.backend import Backend
from ..backends.captures import Captured, CapturePlan, Collector
from ..edits.changes import edit_taps
from ..edits.interventions import marked_edits
from ..model.blocks import blocks, input_device, tapped
from ..model.head import Head
from ..prompts.options import Option
from ..tree.memory import Cost, run_packs
from ..tree.token_tree import Pack, TokenTree, join_packs
from .log_probs import UNEMBED_ROWS, Competitor, Steps, at_most_one, log_sum, refuse_nan, row_blocks, starts, sum_groups
from .queries import Query
from .query_tree import QueryTree, swap_edits

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

    from ..lens.lens import Lens
    from ..lens.plan import View


def option_rows(
    names: Sequence[str], prob: Iterable[float], *, kind: str, coverage: float, status: str, **columns: object
) -> list[dict[str, object]]:
    """A row for each option of a read-out: its name, index and probability, and what is the same in all of them."""
    same = {"kind": kind, "coverage": coverage, "status": status, **columns}
    options = enumerate(zip(names, prob, strict=True))
    return [{"option": name, "option_index": index, "prob": p, **same} for index, (name, p) in options]


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
    prefilled_logp: float = np.nan
    """Log-probability of the prompt's prefilled (off-policy) assistant turns; NaN if it has none, or if the template
    hides them."""
    tempered: Mapping[float, NDArray[np.float64]] = field(default_factory=dict)
    """Temperature -> what `logp` would be at it."""
    inner: Mapping[View, NDArray[np.float64]] = field(default_factory=dict)
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
    queries: Sequence[Query], backend: Backend, head: Head, *, budget: int, capture: CapturePlan | None = None
) -> PackedReading:
    """Read all queries through packs of at most `budget` tokens, smaller ones when memory runs out.

    Raises UserError if the model's log-probabilities are not finite, naming the read-out.
    """
    (reading,) = start_reading([queries], backend, head, budget=budget, capture=capture)()
    return reading


def start_reading(
    requests: Sequence[Sequence[Query]],
    backend: Backend,
    head: Head,
    *,
    budget: int,
    temperatures: Sequence[float] = (),
    capture: CapturePlan | None = None,
    lens: Lens | None = None,
    joined: bool = False,
) -> Callable[[], list[PackedReading]]:
    """The same for several sets of queries, each in a tree and in packs of its own. A GPU reads them meanwhile: call
    what is returned to wait for it, and for an error that only the numbers tell.

    Other temperatures are read off the same logits, rescaled: they cost no pass. Nor does a capture or a lens: they
    change neither the packs nor, by a single bit, what is read.

    `joined`: packs go through the model in rows of `budget` tokens, several in each. What a set reads does not depend
    on the others, nor on how many they are.
    """
    from torch.nn.functional import pad

    queries = [query for request in requests for query in request]
    apart = np.cumsum([len(request) for request in requests])[:-1].tolist()
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
        packs = [pack for part in parts for pack in backend.cut(tree, part.tolist(), budget)]
        return join_packs(packs, budget) if joined else packs

    def take(pack: Pack) -> int:
        """Run a pack, and keep what is read in it."""
        output = backend.run(
            pack,
            capture=collector.request(pack) if collector else None,
            edits=edits,
            lens_layers=lens.layers if lens else (),
        )
        nodes, hidden = pack.nodes, output.hidden
        filled = joined and hidden.device.type != "cpu"  # a GPU's products of few rows are not summed as those of many
        if filled:
            hidden = pad(hidden, (0, 0, 0, -len(nodes) % UNEMBED_ROWS))
        for start in range(0, len(nodes), UNEMBED_ROWS):
            rows = slice(start, start + UNEMBED_ROWS)
            steps.keep(nodes[rows], head.log_probs(hidden[rows], passing=True))
        if lens:
            size = -(-INNER_ROWS // len(views))
            for rows in row_blocks(np.flatnonzero(inner[nodes]), size):
                taken = np.resize(rows, size) if filled else rows
                steps.keep_inner(nodes[rows], lens.hidden(output.streams[taken]), head)
        if collector:
            collector.collect(pack, output)
        for piece in [piece for _, piece in pack.pieces] or [pack]:
            count = costs[np.searchsorted(built.begins, piece.members[0], side="right") - 1]
            count.packs += 1
            count.tokens += len(piece) if pack.pieces else output.tokens_run
        return output.tokens_run

    whole = run_packs(built.tree, built.read_nodes, budget, take, cut)
    steps.send()

    def finish() -> list[PackedReading]:
        steps.fetch()
        sizes = np.diff([*built.begins, len(built.tree)]).tolist()
        readings = iter(finished(steps, temperatures, views))
        rows = [sum(len(query.places) for query in request) for request in requests]
        captured = collector.results(rows) if collector else [None] * len(requests)
        shared = [whole, *[replace(whole, halvings=0)] * (len(requests) - 1)]  # so that sums count a halving once
        return [
            PackedReading(
                [next(readings) for _ in request],
                replace(part, tokens_tree=n, tokens_run=c.tokens, packs=c.packs),
                rows_read,
            )
            for request, part, n, c, rows_read in zip(requests, shared, sizes, costs, captured, strict=True)
        ]

    return finish


@dataclass
class _Count:
    """What a set of queries took."""

    tokens: int = 0
    packs: int = 0


def finished(steps: Steps, temperatures: Sequence[float], views: Sequence[View] = ()) -> list[ExactReading]:
    """The readings of queries whose nodes have all been kept."""
    built, readings = steps.built, list[ExactReading]()
    if not built.queries:
        return readings
    sums = steps.sums()
    form = option = 0
    for query, competitor, prefilled in zip(built.queries, steps.competitors(), sums.prefilled, strict=True):
        counts = query.paths.counts.tolist()
        ends = np.cumsum([form, *counts]).tolist()
        first, *other = sums.options[:, option : option + len(counts)]
        seen = views if query.inner else ()
        tempered, inner = other[: len(temperatures)], other[len(temperatures) : len(temperatures) + len(seen)]
        readings.append(
            ExactReading(
                query.readout_id,
                first,
                tuple(sums.forms[start:end] for start, end in pairwise(ends)),
                competitor,
                prefilled,
                dict(zip(temperatures, tempered, strict=True)),
                dict(zip(seen, inner, strict=True)),
            )
        )
        form, option = ends[-1], option + len(counts)
    return readings


def normalised(logp: NDArray[np.float64]) -> NDArray[np.float64]:
    """[options] probabilities among the options alone, whose sum is 1 however far below 0 they lie; NaN if none has any
    mass. A damaged model has options at -1e13 nat, where the log of their sum is known to .01.
    """
    top = logp.max()
    return np.exp(logp - top - log_sum(logp - top)) if np.isfinite(top) else np.full(len(logp), np.nan)


def exact_rows(logp: NDArray[np.float64], options: Sequence[Option], low_coverage: float) -> list[dict[str, object]]:
    """The rows of the belief table that a distribution fills, without the columns of its experiment."""
    prob, coverage = normalised(logp), float(np.exp(log_sum(logp)))
    status = "nan" if np.isnan(prob).any() else "low_coverage" if coverage < low_coverage else "ok"
    rows = option_rows([option.name for option in options], prob, kind="exact", coverage=coverage, status=status)
    return [row | {"logp": option_logp} for row, option_logp in zip(rows, logp, strict=True)]


def largest_difference(reading: ExactReading, reference: ExactReading) -> float:
    """Largest difference in nats between two readings of a query, over all forms and the prefilled turns."""
    gaps = [np.abs(a - b) for a, b in zip(reading.form_logp, reference.form_logp, strict=True)]
    if not (np.isnan(reading.prefilled_logp) and np.isnan(reference.prefilled_logp)):
        gaps.append(np.abs([reading.prefilled_logp - reference.prefilled_logp]))
    return float(np.max(np.concatenate(gaps)))


def _collector(built: QueryTree, backend: Backend, plan: CapturePlan) -> Collector:
    """Asks for the places of all queries."""
    collector = Collector(built.tree, plan.sites, plan.layer_numbers(len(blocks(backend.model))))
    for query, place in zip(built.queries, built.placed, strict=True):
        collector.add_places(query.readout_id, place.prompt, query.places)
    return collector


# The reference path: one ordinary forward pass per surface form, through the model's own head.


def read_plain(query: Query, model: PreTrainedModel) -> ExactReading:
    """What `read_packed` computes, without tree, masks, packs or float32 head: slow and simple."""
    edits = swap_edits([(range(len(query.prompt.ids)), query.swap)]) if query.swap else []
    if query.marks is not None:
        longest = max(len(path) for paths in query.paths.paths for path in paths)
        edits += marked_edits(enumerate([*query.marks.prompt, *[query.marks.answer] * longest]))
    with tapped(model, edit_taps(edits)):
        return _read(query, model)


def _read(query: Query, model: PreTrainedModel) -> ExactReading:
    import torch

    prompt = list(query.prompt.ids)
    form_logp = []
    for paths in query.paths.paths:
        sums = []
        for path in paths:
            logp = next_token_logp(model, [*prompt, *path], first=len(prompt) - 1).double().cpu()
            steps = logp[torch.arange(len(path)), torch.tensor(path)].sum()
            sums.append(float(steps + logp[-1, torch.from_numpy(query.terminators.ids)].logsumexp(0)))
        form_logp.append(np.array(sums))
    every = np.concatenate(form_logp)
    refuse_nan(every, [(query.readout_id, len(every))])
    options = sum_groups(every, starts([len(forms) for forms in form_logp]))
    after = next_token_logp(model, prompt, first=len(prompt) - 1)[0].cpu()
    best = after.index_fill(0, torch.from_numpy(query.paths.first_ids), -torch.inf).max(dim=0)
    competitor = Competitor(int(best.indices) if best.values > -torch.inf else -1, float(best.values))
    prefilled = np.nan
    if query.prompt.prefilled:
        logp = next_token_logp(model, prompt).double()
        prefilled = float(sum(logp[i - 1, prompt[i]] for turn in query.prompt.prefilled for i in turn))
    logp = at_most_one(options, np.array([len(form_logp)]))
    return ExactReading(query.readout_id, logp, tuple(form_logp), competitor, prefilled)


def next_token_logp(model: PreTrainedModel, ids: list[int], first: int = 0) -> torch.Tensor:
    """[T - first, vocabulary] log-probabilities after each token from `first` on, as transformers computes them."""
    import torch

    keep = len(ids) - first
    with torch.inference_mode():
        inputs = torch.tensor([ids], device=input_device(model))
        logits = model(input_ids=inputs, use_cache=False, logits_to_keep=keep).logits  # some keep all the same
        return torch.log_softmax(logits[0, -keep:].float(), dim=-1)


# What a model is asked to believe, as it comes back: the table, and what was captured beside it.


@dataclass(frozen=True, repr=False)
class Beliefs:
    """What `LanguageModel.beliefs` returns. It unpacks into the table and the residuals."""

    beliefs: pd.DataFrame
    """A belief table: one row per conversation and option; then, of each branch of edits, the same under it, with the
    branch at the end of its method's name."""
    residuals: np.ndarray | None = None
    """[read-out, layer, d_model] float32 residual stream, in the order of the table, where one site was captured at one
    token of each read-out; else None: see `captured`."""
    captured: Captured | None = None
    """Everything that was captured, and of which tokens."""
    edits: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Branch -> what was edited, with the digests of the vectors."""

    def __iter__(self) -> Iterator[Any]:
        return iter((self.beliefs, self.residuals))

    def __repr__(self) -> str:
        n = self.beliefs["readout_id"].nunique()
        first = self.beliefs[self.beliefs["readout_id"] == self.beliefs["readout_id"].iloc[0]]
        first_few = first[["option", "prob"]][:4].itertuples(index=False)
        chances = ", ".join(f"{name} {shown(p)}" for name, p in first_few)
        more = "; .captured" if self.captured else ""
        return f"Beliefs({n} read-outs; first: {chances}, coverage {shown(first['coverage'].iloc[0])}; .beliefs{more})"

    def _repr_html_(self) -> str:
        table = self.beliefs[["item", "method", "option", "prob", "coverage", "status"]]
        return table.to_html(index=False, max_rows=20, float_format=shown)


def one_row_each(captured: Captured | None, n: int) -> np.ndarray | None:
    """[n, layers, width], where n read-outs have a row each of one site."""
    if captured is None or len(captured.residuals) != 1 or len(captured.rows) != n:
        return None
    (values,) = captured.residuals.values()
    return values.float().numpy() if captured.rows["readout_id"].is_unique else None
