"""Exact option beliefs: the probability, under the model, of every text that counts as an option.

`read_packed` is the instrument: one tree, few forward passes. `plain.read_plain` is the same definition, one
ordinary forward pass per surface form; the two must agree.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from .backend import Backend
from .chat import Prompt
from .errors import UserError
from .head import Head
from .memory import Cost, run_packs
from .options import Option, OptionPaths, Terminators
from .tree import Pack, TokenTree

if TYPE_CHECKING:
    import torch

UNEMBED_ROWS = 512
"""Rows whose logits are held at once: 100 MB for a vocabulary of 50,000."""
ROUNDING_NAT = 1e-5
"""How far above one the float32 normaliser may put the sum of disjoint events; that much is taken off."""


@dataclass(frozen=True)
class Query:
    """One read-out: after this prompt, which option?"""

    readout_id: str
    prompt: Prompt
    paths: OptionPaths
    terminators: Terminators | None = None
    """What closes its forms; None: what closes those of all queries that are read with it."""


class Competitor(NamedTuple):
    """The likeliest next token with which no option begins."""

    token: int
    logp: float


@dataclass(frozen=True)
class ExactReading:
    """What a prompt's next-token distributions say about its options."""

    readout_id: str
    logp: NDArray[np.float64]
    """[options] natural log of the probability of the option's event, summed over its forms."""
    form_logp: tuple[NDArray[np.float64], ...]
    """[option][form], of which `logp` is the log-sum-exp."""
    competitor: Competitor
    forced_logp: float = np.nan
    """Log-probability of the assistant turns that the prompt puts into the model's mouth; NaN if it has none, or if
    the template hides them."""
    tempered: Mapping[float, NDArray[np.float64]] = field(default_factory=dict)
    """Temperature -> what `logp` would be at it."""
    residual: "torch.Tensor | None" = None
    """[n_layers, d_model] at the prompt's last token, if it was captured."""

    @property
    def coverage(self) -> float:
        """Total probability of the options, in [0, 1]."""
        return float(np.exp(logsumexp(self.logp)))

    @property
    def prob(self) -> NDArray[np.float64]:
        """[options], normalised over the options; NaN if none has any mass."""
        return normalised(self.logp)


@dataclass(frozen=True)
class _Placed:
    """Where a query lies in the tree."""

    last: int
    """The prompt's last node."""
    forced: tuple[int, ...] | None
    """The nodes of the turns that were put into the model's mouth."""
    forms: tuple[tuple[tuple[int, ...], ...], ...]
    """[option][form] -> nodes."""


class QueryTree:
    """The token tree of a set of queries, and the nodes at which it must be read."""

    def __init__(self, queries: Sequence[Query]) -> None:
        self.queries, self.tree = queries, TokenTree()
        self.placed: list[_Placed] = []
        for query in queries:
            prompt = self.tree.add(query.prompt.ids)
            last, turns = prompt[-1], query.prompt.forced
            forms = tuple(
                tuple(tuple(self.tree.add(path, below=last)) for path in paths) for paths in query.paths.paths
            )
            forced = None if turns is None else tuple(prompt[i] for turn in turns for i in turn)
            self.placed.append(_Placed(last, forced, forms))

    @property
    def read_nodes(self) -> set[int]:
        """Every node whose next-token distribution enters a number."""
        ends = {form[-1] for place in self.placed for forms in place.forms for form in forms}
        return {place.last for place in self.placed} | ends | {self.tree.parents[node] for node in self.wanted}

    @property
    def wanted(self) -> set[int]:
        """Every node whose own probability enters a number: the tokens of forms, and of forced turns."""
        nodes = {node for place in self.placed for forms in place.forms for form in forms for node in form}
        return nodes.union(*(place.forced or () for place in self.placed))


def read_packed(
    queries: Sequence[Query],
    backend: Backend,
    head: Head,
    terminators: Terminators,
    *,
    budget: int,
    temperatures: Sequence[float] = (),
    capture: bool = False,
) -> tuple[list[ExactReading], Cost]:
    """Read all queries through packs of at most `budget` tokens, smaller ones when memory runs out.

    Other temperatures are read off the same logits, rescaled: they cost no pass.

    Raises UserError if the model's log-probabilities are not finite, naming the read-out.
    """
    built = QueryTree(queries)
    tree = built.tree
    laws = (1.0, *temperatures)
    closing = [query.terminators or terminators for query in queries]
    step_logp = np.full((len(laws), len(tree)), np.nan)  # log P(this token | its ancestors)
    end_logp = {ends: np.full((len(laws), len(tree)), np.nan) for ends in closing}  # log P(a terminator follows)
    residuals: dict[int, torch.Tensor] = {}
    competitors: dict[int, Competitor] = {}
    barred = {place.last: query.paths.first_ids for place, query in zip(built.placed, queries, strict=True)}
    children = _children(tree, built)

    def take(one: Pack) -> int:
        """Run a pack, and keep what is read in it."""
        output = backend.run(one, capture=capture)
        for start in range(0, len(one.rows), UNEMBED_ROWS):
            nodes = one.nodes[start : start + UNEMBED_ROWS].tolist()
            logp = head.log_probs(output.hidden[start : start + UNEMBED_ROWS])
            edges = [(row, child) for row, node in enumerate(nodes) for child in children.get(node, ())]
            rows, kids = [row for row, _ in edges], [child for _, child in edges]
            tokens = [tree.tokens[kid] for kid in kids]
            for law, temperature in enumerate(laws):
                rescaled = logp if temperature == 1 else (logp / temperature).log_softmax(dim=1)
                step_logp[law, kids] = rescaled[rows, tokens].double().cpu().numpy()
                for ends, logps in end_logp.items():
                    logps[law, nodes] = _terminator_logp(rescaled, ends)
            for row, node in enumerate(nodes):
                if node in barred:
                    competitors[node] = best_competitor(logp[row], barred[node])
                    if output.residuals is not None:
                        residuals[node] = output.residuals[start + row].cpu()
        return output.tokens_run

    cost = run_packs(tree, built.read_nodes, budget, take)
    readings = [
        _reading(query, place, temperatures, step_logp, end_logp[ends], competitors, residuals)
        for query, place, ends in zip(queries, built.placed, closing, strict=True)
    ]
    return readings, cost


def normalised(logp: NDArray[np.float64]) -> NDArray[np.float64]:
    """[options] probabilities among the options alone; NaN if none has any mass."""
    total = logsumexp(logp)
    return np.exp(logp - total) if np.isfinite(total) else np.full(len(logp), np.nan)


def exact_rows(logp: NDArray[np.float64], options: Sequence[Option], low_coverage: float) -> list[dict[str, object]]:
    """The rows of the belief table that a distribution fills, without the columns of its experiment."""
    prob, coverage = normalised(logp), float(np.exp(logsumexp(logp)))
    status = "nan" if np.isnan(prob).any() else "low_coverage" if coverage < low_coverage else "ok"
    return [
        {
            "kind": "exact",
            "option": option.name,
            "option_index": index,
            "logp": logp[index],
            "prob": prob[index],
            "coverage": coverage,
            "status": status,
        }
        for index, option in enumerate(options)
    ]


def difference(one: ExactReading, other: ExactReading) -> float:
    """Largest difference in nats between two readings of a query, over all forms and the forced turns."""
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


def _children(tree: TokenTree, built: QueryTree) -> dict[int, list[int]]:
    """The nodes below each node whose probability is wanted."""
    children: dict[int, list[int]] = {}
    for node in sorted(built.wanted):
        children.setdefault(tree.parents[node], []).append(node)
    return children


def _reading(
    query: Query,
    place: _Placed,
    temperatures: Sequence[float],
    step_logp: NDArray[np.float64],
    end_logp: NDArray[np.float64],
    competitors: dict[int, Competitor],
    residuals: "dict[int, torch.Tensor]",
) -> ExactReading:
    by_law = [
        tuple(np.array([step[list(form)].sum() + end[form[-1]] for form in forms]) for forms in place.forms)
        for step, end in zip(step_logp, end_logp, strict=True)
    ]
    reading = make_reading(query.readout_id, by_law[0], competitors[place.last])
    return replace(
        reading,
        forced_logp=float(step_logp[0, list(place.forced)].sum()) if place.forced else np.nan,
        tempered={t: _sum_forms(forms) for t, forms in zip(temperatures, by_law[1:], strict=True)},
        residual=residuals.get(place.last),
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
