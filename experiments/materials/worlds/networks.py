"""Discrete Bayesian networks, with exact posteriors by variable elimination, as the worlds that they are, and in the
Bayesian Interchange Format.
"""

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from heapq import heapify, heappop, heappush
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ....base.documents import read_text
from ....base.errors import UserError, nearest
from ....metrics.contract import Floats
from .world import Description

ROW_SLACK = 1e-6
"""How far the sum of a row of a table may be off 1, as printed figures are; rows are then normalised."""
MOST_FACTOR_CELLS = 2**26
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
            given = ", ".join(f"{name} = {state}" for name, state in evidence.items())
            raise UserError(f"evidence {given}: has probability zero; take some of it away")
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
        ancestors, waiting = set(), list(names)
        while waiting:
            if (name := waiting.pop()) not in ancestors:
                ancestors.add(name)
                waiting += self.parents[name]
        return ancestors

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
                if size > MOST_FACTOR_CELLS:
                    raise UserError(f"network: is too dense for exact posteriors ({size} cells at once)")
                merged = beside.pop(name) - {name}
                for neighbour in merged:
                    beside[neighbour] = (beside[neighbour] | merged) - {name}
                    if neighbour not in queries:
                        heappush(waiting, (self._cells(beside[neighbour]), neighbour))
                order.append(name)
            self._orders[key] = tuple(order)
        return self._orders[key]

    def _cells(self, names: Iterable[str]) -> int:
        """Cells of a table over these variables."""
        return prod(len(self.states[name]) for name in names)


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

    Raises UserError for a variable with fewer than two states or two of one name, an unknown parent, a cycle, a table
    of another size, or a row that is negative or does not sum to 1 within `ROW_SLACK`.
    """
    states_of = {name: tuple(map(str, some)) for name, some in states.items()}
    above = {name: tuple(parents.get(name, ())) for name in states_of}
    for name, some in states_of.items():
        if len(some) < 2 or len(set(some)) < len(some):
            raise UserError(f"{where}: variable {name!r} has states {list(some)}; give two or more that differ")
        if len(set(above[name])) < len(above[name]):
            raise UserError(f"{where}: variable {name!r} has a parent twice: {', '.join(above[name])}")
        for parent in above[name]:
            if parent not in states_of:
                raise UserError(f"{where}: parent {parent!r} of {name!r} is no variable; {nearest(parent, states_of)}")
    try:
        order = tuple(TopologicalSorter(above).static_order())
    except CycleError as error:
        raise UserError(f"{where}: has a cycle: {' -> '.join(reversed(error.args[1]))}; remove an arrow") from None
    return Network(
        states_of, above, {name: _table(name, states_of, above[name], tables, where) for name in states_of}, order
    )


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
    shape = [len(states[variable]) for variable in (*parents, name)]
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


# The world that a Bayesian network is.


@dataclass(frozen=True)
class NetworkWorld:
    """Its truth is exact."""

    description: Description
    network: Network
    where: str = "world"

    def __post_init__(self) -> None:
        self.description.require_words(self.network.states, self.where)

    def draw(self, rng: np.random.Generator) -> dict[str, str]:
        """A state of every variable."""
        return self.network.sample(rng)

    def chance(self, evidence: Evidence) -> float:
        """The exact posterior. Raises UserError as `Network.posterior` does."""
        target = self.description.target
        posterior = self.network.posterior(target.variable, evidence)
        return float(posterior[self.network.index(target.variable, target.state)])

    def shares(self, variable: str, evidence: Evidence) -> Floats:
        """The exact posterior, in the order of the description's states."""
        posterior = self.network.posterior(variable, evidence)
        states = self.description.variables[variable].states
        return np.array([posterior[self.network.index(variable, state)] for state in states])


def written_network(description: Description, where: str) -> Network:
    """The network whose figures a description holds. Raises UserError as `make_network` does."""
    variables = description.variables
    return make_network(
        {name: tuple(variable.states) for name, variable in variables.items()},
        {name: variable.parents for name, variable in variables.items()},
        {name: variable.table for name, variable in variables.items() if variable.table is not None},
        where,
    )


# Networks in the Bayesian Interchange Format, as the public repositories have them.

MOST_BYTES = 10_000_000
"""Of a file: the largest public networks take two."""
MOST_VARIABLES = 5000
"""The largest public networks have a thousand."""
MOST_CELLS = 2**24
"""Of all tables together: a default fills what no file could hold."""
# Whatever a text holds, each of these takes a time that grows as its length.
COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
INCLUDE = re.compile(r"^[ \t]*(?:#[ \t]*)?include\b.*$", re.MULTILINE)
NETWORK = re.compile(r"\bnetwork\s+(?:\"[^\"]*\"|\S+)\s*\{[^{}]*\}", re.DOTALL)
VARIABLE = re.compile(
    r"\bvariable\s+(?P<name>\"[^\"]*\"|[^\s{]+)\s*\{\s*type\s+discrete\s*\[\s*(?P<n>\d{1,9})\s*\]\s*"
    r"\{(?P<states>[^{}]*)\}\s*;(?:\s*property[^;]*;)*\s*\}",
    re.DOTALL,
)
PROBABILITY = re.compile(r"\bprobability\s*\((?P<of>[^()]*)\)\s*\{(?P<body>[^{}]*)\}", re.DOTALL)
ENTRY = re.compile(r"\s*(?:\((?P<given>[^()]*)\)|(?P<word>table|default)\b)(?P<numbers>.*)", re.DOTALL)
PROPERTY = "property"


def load_bif(path: Path) -> Network:
    """The network of a `.bif` or `.bif.gz` file.

    Raises UserError if it cannot be read, is larger than `MOST_BYTES`, includes other files, or holds what is no
    discrete network; and as `make_network` does.
    """
    return parse_bif(read_text(path, MOST_BYTES), str(path))


def parse_bif(text: str, where: str = "BIF") -> Network:
    """The network that a text describes. Raises UserError as `load_bif` does."""
    text = COMMENT.sub(" ", text)
    if match := INCLUDE.search(text):
        raise UserError(f"{where}: line {match[0].strip()!r} includes another file; write the network into one")
    states: dict[str, list[str]] = {}
    for match in VARIABLE.finditer(text):
        name, listed = _bare(match["name"]), _names(match["states"])
        if len(listed) != int(match["n"]):
            raise UserError(f"{where}: variable {name!r} says {match['n']} states and lists {len(listed)}")
        if name in states:
            raise UserError(f"{where}: variable {name!r} is there twice; remove one")
        states[name] = listed
    if len(states) > MOST_VARIABLES:
        raise UserError(f"{where}: has {len(states):,} variables; give a network of at most {MOST_VARIABLES:,}")
    if not states:
        raise UserError(f"{where}: declares no discrete variable; give a network in BIF")
    parents: dict[str, list[str]] = {}
    tables: dict[str, np.ndarray] = {}
    cells = 0
    for match in PROBABILITY.finditer(text):
        of, _, given = match["of"].partition("|")
        name = _bare(of)
        unknown = [variable for variable in (name, *_names(given)) if variable not in states]
        if unknown:
            raise UserError(f"{where}: a probability names {unknown[0]!r}, which is no variable")
        if name in tables:
            raise UserError(f"{where}: probability of {name!r} is there twice; remove one")
        parents[name] = _names(given)
        cells += prod(len(states[variable]) for variable in (name, *parents[name]))
        if cells > MOST_CELLS:
            raise UserError(f"{where}: probability of {name!r}: the tables have more than {MOST_CELLS:,} cells")
        tables[name] = _rows(name, parents[name], match["body"], states, where)
    rest = PROBABILITY.sub("", VARIABLE.sub("", NETWORK.sub("", text))).split()
    if rest:
        raise UserError(f"{where}: cannot be understood from {' '.join(rest[:6])!r} on")
    return make_network(states, parents, tables, where)


def _rows(name: str, parents: list[str], body: str, states: dict[str, list[str]], where: str) -> np.ndarray:
    """[configurations of the parents, states]; rows may come in any order."""
    shape = [len(states[variable]) for variable in (*parents, name)]
    table, written = np.full(shape, np.nan), set[tuple[int, ...]]()
    place = f"{where}: probability of {name!r}"
    for word, given, numbers in _entries(body, place):
        if word == "default":
            table[np.isnan(table).any(axis=-1)] = _of_length(numbers, shape[-1], place)
        elif word == "table":
            # The one table of a variable with parents has the variable's own states slowest.
            values = _of_length(numbers, prod(shape), place)
            table[...] = np.moveaxis(values.reshape(shape[-1:] + shape[:-1]), 0, -1)
        else:
            given_states = _names(given)
            for parent, state in itertools.zip_longest(parents, given_states):
                if parent is None or state not in states[parent]:
                    raise UserError(f"{place}: state {state!r} of {parent!r} is unknown")
            at = tuple(states[parent].index(state) for parent, state in zip(parents, given_states, strict=True))
            if at in written:
                raise UserError(f"{place}: the row of {given.strip()!r} is there twice; remove one")
            written.add(at)
            table[at] = _of_length(numbers, shape[-1], place)
    if np.isnan(table).any():
        raise UserError(f"{place}: a row is missing; give one for each configuration of {', '.join(parents) or name}")
    return table


def _entries(body: str, place: str) -> Iterator[tuple[str, str, list[float]]]:
    """(`table`, `default` or nothing, the states of the parents, numbers) of each line that ends in a semicolon."""
    *parts, rest = body.split(";")
    if rest.strip():
        raise UserError(f"{place}: {rest.strip()!r} does not end in a semicolon")
    for part in filter(str.strip, parts):
        entry = ENTRY.fullmatch(part)
        if entry is None and part.split()[0] != PROPERTY:
            raise UserError(f"{place}: cannot be understood from {part.strip()!r} on")
        if entry is not None:
            try:
                numbers = [float(number) for number in entry["numbers"].replace(",", " ").split()]
            except ValueError:
                raise UserError(f"{place}: {entry['numbers'].strip()!r} are not numbers") from None
            yield entry["word"] or "", entry["given"] or "", numbers


def _of_length(numbers: list[float], n: int, place: str) -> np.ndarray:
    if len(numbers) != n:
        raise UserError(f"{place}: has {len(numbers)} numbers where {n} belong")
    return np.array(numbers)


def _names(text: str) -> list[str]:
    return [_bare(name) for name in text.split(",")] if text.strip() else []


def _bare(text: str) -> str:
    return text.strip().strip('"')
