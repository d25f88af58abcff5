"""Discrete Bayesian networks, with exact posteriors by variable elimination."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from heapq import heapify, heappop, heappush
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ....hooks.errors import UserError, nearest
from ....metrics.validation import Floats

ROW_SLACK = 1e-6
"""How far the sum of a row of a table may be off 1, as printed figures are; rows are then normalised."""
MOST_CELLS = 2**26
"""Of an intermediate factor: above this, elimination would take more memory than it is worth."""
Evidence = Mapping[str, str]
"""Variable -> state."""
Factor = tuple[tuple[str, ...], Floats]
"""Variables, and a table with an axis for each."""


@dataclass(frozen=True)
class Network:
    """A network; made by `make_network`, which checks it."""

    states: Mapping[str, tuple[str, ...]]
    parents: Mapping[str, tuple[str, ...]]
    tables: Mapping[str, Floats]
    """Variable -> P(variable | parents), an axis for each parent and the last for the variable."""
    order: tuple[str, ...]
    """Parents before children."""
    _orders: dict[tuple[frozenset[str], frozenset[str]], tuple[str, ...]] = field(
        default_factory=dict, repr=False, compare=False
    )
    """(queries, observed) -> order of elimination."""

    def posterior(self, variable: str, evidence: Evidence) -> Floats:
        """[states] P(variable | evidence).

        Raises UserError for an unknown variable or state, evidence about the variable itself, or evidence of
        probability zero.
        """
        joint = self.joint([variable], evidence)
        total = float(joint.sum())
        if not total > 0:
            raise UserError(f"evidence {_told(evidence)}: has probability zero; take some of it away")
        return joint / total

    def joint(self, variables: Sequence[str], evidence: Evidence) -> Floats:
        """P(variables, evidence), an axis for each variable. Raises UserError as `posterior`, but not for zero."""
        for name, state in evidence.items():
            self.index(name, state)
        for name in variables:
            self._require(name)
            if name in evidence:
                raise UserError(f"target {name!r}: is among the evidence; leave it out there")
        kept = self._ancestors([*variables, *evidence])
        factors = [self._reduced(name, evidence) for name in self.order if name in kept]
        for name in self._elimination(frozenset(variables), frozenset(evidence), factors):
            touched = [factor for factor in factors if name in factor[0]]
            factors = [factor for factor in factors if name not in factor[0]]
            factors.append(_product(touched, without=name))
        return _arranged(_product(factors), variables)

    def sample(self, rng: np.random.Generator) -> dict[str, str]:
        """One state of every variable, drawn from the joint distribution."""
        drawn: dict[str, int] = {}
        for name in self.order:
            row = self.tables[name][tuple(drawn[parent] for parent in self.parents[name])]
            drawn[name] = int(np.searchsorted(np.cumsum(row), rng.random() * row.sum(), side="right"))
        return {name: self.states[name][i] for name, i in drawn.items()}

    def index(self, variable: str, state: str) -> int:
        """The number of a state. Raises UserError if the variable or the state is unknown."""
        self._require(variable)
        states = self.states[variable]
        if state not in states:
            raise UserError(f"variable {variable!r}: state {state!r} is unknown; {nearest(state, states)}")
        return states.index(state)

    def _require(self, variable: str) -> None:
        if variable not in self.states:
            raise UserError(f"variable {variable!r}: is not in the network; {nearest(variable, self.states)}")

    def _ancestors(self, names: Iterable[str]) -> set[str]:
        found, waiting = set(), list(names)
        while waiting:
            if (name := waiting.pop()) not in found:
                found.add(name)
                waiting += self.parents[name]
        return found

    def _reduced(self, name: str, evidence: Evidence) -> Factor:
        axes = (*self.parents[name], name)
        at = tuple(self.index(axis, evidence[axis]) if axis in evidence else slice(None) for axis in axes)
        return tuple(axis for axis in axes if axis not in evidence), self.tables[name][at]

    def _elimination(
        self, queries: frozenset[str], observed: frozenset[str], factors: Sequence[Factor]
    ) -> tuple[str, ...]:
        """Hidden variables, always next the one that leaves the smallest factor."""
        key = (queries, observed)
        if key not in self._orders:
            beside: dict[str, set[str]] = defaultdict(set)  # what shares a factor with a variable, itself among it
            for names, _ in factors:
                for name in names:
                    beside[name].update(names)
            waiting = [(self._cells(beside[name]), name) for name in beside if name not in queries]
            heapify(waiting)
            order: list[str] = []
            while waiting:
                size, name = heappop(waiting)
                if name not in beside or size != self._cells(beside[name]):
                    continue  # it has gone, or another entry has its new size
                if size > MOST_CELLS:
                    raise UserError(f"network: is too dense for exact posteriors ({size} cells at once)")
                merged = beside.pop(name) - {name}
                for one in merged:
                    beside[one] = (beside[one] | merged) - {name}
                    if one not in queries:
                        heappush(waiting, (self._cells(beside[one]), one))
                order.append(name)
            self._orders[key] = tuple(order)
        return self._orders[key]

    def _cells(self, names: Iterable[str]) -> int:
        """Cells of a table over these variables."""
        return prod(len(self.states[one]) for one in names)


def make_network(
    states: Mapping[str, Sequence[str]],
    parents: Mapping[str, Sequence[str]],
    tables: Mapping[str, ArrayLike],
    where: str = "network",
) -> Network:
    """A network of checked parts.

    Args:
        states: variable -> its states.
        parents: variable -> its parents; a variable that is left out has none.
        tables: variable -> P(variable | parents), an axis for each parent, the last for the variable; or rows
            [configurations of the parents, states], the first parent slowest.
        where: what is named in errors.

    Raises UserError for a variable with fewer than two states or two of one name, an unknown parent, a cycle, a table
    of another size, or a row that is negative or does not sum to 1 within `ROW_SLACK`.
    """
    own = {name: tuple(map(str, some)) for name, some in states.items()}
    above = {name: tuple(parents.get(name, ())) for name in own}
    for name, some in own.items():
        if len(some) < 2 or len(set(some)) < len(some):
            raise UserError(f"{where}: variable {name!r} has states {list(some)}; give two or more that differ")
        if len(set(above[name])) < len(above[name]):
            raise UserError(f"{where}: variable {name!r} has a parent twice: {', '.join(above[name])}")
        for parent in above[name]:
            if parent not in own:
                raise UserError(f"{where}: parent {parent!r} of {name!r} is no variable; {nearest(parent, own)}")
    try:
        order = tuple(TopologicalSorter(above).static_order())
    except CycleError as error:
        raise UserError(f"{where}: has a cycle: {' -> '.join(reversed(error.args[1]))}; remove an arrow") from None
    return Network(own, above, {name: _table(name, own, above[name], tables, where) for name in own}, order)


def _table(
    name: str,
    states: Mapping[str, tuple[str, ...]],
    parents: Sequence[str],
    tables: Mapping[str, ArrayLike],
    where: str,
) -> Floats:
    if name not in tables:
        raise UserError(f"{where}: variable {name!r} has no table of probabilities; give one")
    try:
        given = np.asarray(tables[name], dtype=np.float64)
    except (TypeError, ValueError):
        raise UserError(f"{where}: the table of {name!r} has rows of different lengths, or no numbers") from None
    shape = [len(states[one]) for one in (*parents, name)]
    if given.size != prod(shape) or given.shape[-1:] != (shape[-1],):
        raise UserError(f"{where}: the table of {name!r} has {given.size} numbers; its states and parents want {shape}")
    rows = given.reshape(-1, shape[-1])
    sums = rows.sum(axis=1)
    wrong = ~((rows >= 0).all(axis=1) & (np.abs(sums - 1) <= ROW_SLACK * (1 + 1e-9)))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise UserError(f"{where}: row {row + 1} of the table of {name!r} sums to {sums[row]:.9g}; it must be 1")
    return (rows / sums[:, None]).reshape(shape)


def _product(factors: Sequence[Factor], without: str | None = None) -> Factor:
    """The product of factors, summed over one variable."""
    names = list(dict.fromkeys(name for scope, _ in factors for name in scope))
    label = {name: i for i, name in enumerate(names)}
    left = [name for name in names if name != without]
    operands: list[Any] = [part for scope, table in factors for part in (table, [label[name] for name in scope])]
    # `optimize` pairs the factors up: all at once would be a loop over every cell and factor.
    return tuple(left), np.einsum(*operands, [label[name] for name in left], optimize=len(factors) > 2)


def _arranged(factor: Factor, variables: Sequence[str]) -> Floats:
    names, table = factor
    return np.transpose(table, [names.index(name) for name in variables])


def _told(evidence: Evidence) -> str:
    return ", ".join(f"{name} = {state}" for name, state in evidence.items())
