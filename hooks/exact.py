"""Exact option beliefs: the probability, under the model, of every text that counts as an option.

`read_packed` is the instrument: one tree, few forward passes. `plain.read_plain` is the same definition, one
ordinary forward pass per surface form; the two must agree.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from .backend import Backend
from .chat import Prompt
from .errors import UserError
from .head import Head
from .memory import Cost, run_packs
from .options import OptionPaths, Terminators
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
    residual: "torch.Tensor | None" = None
    """[n_layers, d_model] at the prompt's last token, if it was captured."""

    @property
    def coverage(self) -> float:
        """Total probability of the options, in [0, 1]."""
        return float(np.exp(logsumexp(self.logp)))

    @property
    def prob(self) -> NDArray[np.float64]:
        """[options], normalised over the options; NaN if none has any mass."""
        total = logsumexp(self.logp)
        return np.exp(self.logp - total) if np.isfinite(total) else np.full(len(self.logp), np.nan)


@dataclass(frozen=True)
class _Placed:
    """Where a query lies in the tree."""

    last: int
    """The prompt's last node."""
    forms: tuple[tuple[tuple[int, ...], ...], ...]
    """[option][form] -> nodes."""


class QueryTree:
    """The token tree of a set of queries, and the nodes at which it must be read."""

    def __init__(self, queries: Sequence[Query]) -> None:
        self.queries, self.tree = queries, TokenTree()
        self.placed: list[_Placed] = []
        for query in queries:
            last = self.tree.add(query.prompt.ids)[-1]
            forms = tuple(
                tuple(tuple(self.tree.add(path, below=last)) for path in paths) for paths in query.paths.paths
            )
            self.placed.append(_Placed(last, forms))

    @property
    def read_nodes(self) -> set[int]:
        """Every node whose next-token distribution enters a number."""
        nodes = {place.last for place in self.placed}
        nodes.update(node for place in self.placed for forms in place.forms for form in forms for node in form)
        return nodes


def read_packed(
    queries: Sequence[Query],
    backend: Backend,
    head: Head,
    terminators: Terminators,
    *,
    budget: int,
    capture: bool = False,
) -> tuple[list[ExactReading], Cost]:
    """Read all queries through packs of at most `budget` tokens, smaller ones when memory runs out.

    Raises UserError if the model's log-probabilities are not finite, naming the read-out.
    """
    built = QueryTree(queries)
    tree = built.tree
    step_logp = np.full(len(tree), np.nan)  # log P(this token | its ancestors)
    end_logp = np.full(len(tree), np.nan)  # log P(a terminator follows)
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
            step_logp[kids] = logp[rows, [tree.tokens[kid] for kid in kids]].double().cpu().numpy()
            end_logp[nodes] = _terminator_logp(logp, terminators)
            for row, node in enumerate(nodes):
                if node in barred:
                    competitors[node] = best_competitor(logp[row], barred[node])
                    if output.residuals is not None:
                        residuals[node] = output.residuals[start + row].cpu()
        return output.tokens_run

    cost = run_packs(tree, built.read_nodes, budget, take)
    readings = [
        _reading(query, place, step_logp, end_logp, competitors, residuals)
        for query, place in zip(queries, built.placed, strict=True)
    ]
    return readings, cost


def difference(one: ExactReading, other: ExactReading) -> float:
    """Largest difference in nats between two readings of a query, over all forms."""
    gaps = [np.abs(a - b) for a, b in zip(one.form_logp, other.form_logp, strict=True)]
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
    """The nodes below each node that are tokens of a form: those whose probability is wanted."""
    wanted = {node for place in built.placed for forms in place.forms for form in forms for node in form}
    children: dict[int, list[int]] = {}
    for node in sorted(wanted):
        children.setdefault(tree.parents[node], []).append(node)
    return children


def _reading(
    query: Query,
    place: _Placed,
    step_logp: NDArray[np.float64],
    end_logp: NDArray[np.float64],
    competitors: dict[int, Competitor],
    residuals: "dict[int, torch.Tensor]",
) -> ExactReading:
    form_logp = tuple(
        np.array([step_logp[list(form)].sum() + end_logp[form[-1]] for form in forms]) for forms in place.forms
    )
    return make_reading(query.readout_id, form_logp, competitors[place.last], residuals.get(place.last))


def make_reading(
    readout_id: str,
    form_logp: tuple[NDArray[np.float64], ...],
    competitor: Competitor,
    residual: "torch.Tensor | None" = None,
) -> ExactReading:
    """Sum the forms of each option. Raises UserError for NaN: a broken model gives no belief."""
    if any(np.isnan(forms).any() for forms in form_logp):
        raise UserError(f"read-out {readout_id}: the model's logits are NaN; try dtype float32, or check the weights")
    logp = np.array([logsumexp(forms) for forms in form_logp])
    excess = float(logsumexp(logp))
    if 0 < excess < ROUNDING_NAT:
        logp -= excess
    return ExactReading(readout_id, logp, form_logp, competitor, residual)
