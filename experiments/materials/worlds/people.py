"""The worlds that a table of people is: shares among those who are alike, or a network whose tables are learnt from
it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ....base.errors import UserError
from ....metrics.contract import Floats
from .networks import Network, make_network
from .world import Description, Evidence, Variable

EMPTY = ("", "nan")
"""Cells that say nothing."""


@dataclass(frozen=True)
class TableWorld:
    """Its truth is the weighted share of the target among the rows that agree with the evidence."""

    description: Description
    codes: Mapping[str, np.ndarray]
    """Variable -> [n] number of the state in the order of the description; -1: unknown."""
    positive: np.ndarray
    """[n] whether the target is so."""
    weights: np.ndarray
    """[n]"""
    support: int
    """Rows below which a share is not known."""

    def draw(self, rng: np.random.Generator) -> dict[str, str]:
        """The states of a row, drawn by its weight; what is unknown of it is left out."""
        row = int(np.searchsorted(self._cumulative, rng.random() * self._cumulative[-1], side="right"))
        states = {name: tuple(self.description.variables[name].states) for name in self.codes}
        return {name: states[name][codes[row]] for name, codes in self.codes.items() if codes[row] >= 0}

    def chance(self, evidence: Evidence) -> float:
        """NaN if fewer rows than `support` agree with the evidence."""
        rows = self._rows(evidence)
        if np.count_nonzero(rows) < self.support:
            return float("nan")
        weights = self.weights[rows]
        return float(weights[self.positive[rows]].sum() / weights.sum())

    def shares(self, variable: str, evidence: Evidence) -> Floats:
        """The weighted shares of the states among the rows that agree, of those in which it is known."""
        rows = self._rows(evidence) & (self.codes[variable] >= 0)
        n = len(self.description.variables[variable].states)
        counts = np.bincount(self.codes[variable][rows], self.weights[rows], minlength=n)
        return counts / counts.sum() if counts.sum() > 0 else np.full(n, np.nan)

    @property
    def _cumulative(self) -> np.ndarray:
        return np.cumsum(self.weights)

    def _rows(self, evidence: Evidence) -> np.ndarray:
        kept = np.ones(len(self.positive), dtype=bool)
        for name, state in evidence.items():
            kept &= self.codes[name] == tuple(self.description.variables[name].states).index(state)
        return kept


def table_world(
    description: Description, table: pd.DataFrame, *, support: int, prevalence: float | None = None, where: str
) -> TableWorld:
    """The world of a table of texts or numbers.

    Args:
        description: its variables in words, and the columns and codes that they have.
        prevalence: share of the target in the population, where the table's own is another: rows are weighted.

    Raises UserError for a column that is missing, a value without words, a target that never or always holds, or a
    prevalence without both.
    """
    columns = {name: _column(table, name, variable, where) for name, variable in description.variables.items()}
    codes = {name: _codes(column, name, description.variables[name], where) for name, column in columns.items()}
    target = description.target
    if target.variable not in codes:
        raise UserError(f"{where}: target {target.variable!r} is none of the variables; add it with its words")
    description.require_words({name: tuple(variable.states) for name, variable in description.variables.items()}, where)
    known = codes[target.variable] >= 0
    codes = {name: code[known] for name, code in codes.items()}
    states = tuple(description.variables[target.variable].states)
    positive = codes[target.variable] == states.index(target.state)
    share = float(positive.mean()) if len(positive) else float("nan")
    if not 0 < share < 1:
        raise UserError(f"{where}: target {target.variable!r} is {target.state!r} in every row, or in none")
    weights = np.ones(len(positive))
    if prevalence is not None:
        weights = np.where(positive, prevalence / share, (1 - prevalence) / (1 - share))
    observable = {name: code for name, code in codes.items() if name in description.observable}
    if len(positive) < support:
        raise UserError(f"{where}: has {len(positive)} rows, fewer than support={support}; lower it")
    return TableWorld(description, observable, positive, weights, support)


def _column(table: pd.DataFrame, name: str, variable: Variable, where: str) -> pd.Series:
    column = name if variable.column is None else variable.column
    if column not in table.columns:
        raise UserError(f"{where}: has no column {column!r}, only {', '.join(map(str, table.columns[:30]))}")
    return table[column]


def _codes(column: pd.Series, name: str, variable: Variable, where: str) -> np.ndarray:
    """[n] number of the state, -1 where the cell is empty."""
    if variable.cut is not None:
        numbers = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64)
        if (odd := column[np.isnan(numbers) & ~column.astype(str).str.strip().isin(EMPTY)]).size:
            raise UserError(f"{where}: variable {name!r} is cut, and {odd.iloc[0]!r} is no number; leave it empty")
        edges = variable.cut
        if isinstance(edges, int):
            edges = tuple(np.nanquantile(numbers, np.arange(1, edges) / edges))
        codes = np.searchsorted(np.array(edges), numbers, side="right")
        return np.where(np.isnan(numbers), -1, codes).astype(np.int16)
    texts, values = pd.factorize(column.astype(str).str.strip())
    numbers = np.full(len(values), -1, dtype=np.int16)
    for i, text in enumerate(values):
        state = _state(str(text), variable)
        if state is not None:
            numbers[i] = tuple(variable.states).index(state)
        elif text not in EMPTY:
            raise UserError(f"{where}: variable {name!r} has no words for its state {text!r}; add a template")
    return numbers[texts]


def _state(text: str, variable: Variable) -> str | None:
    """The state of a cell; a whole number may be written with a point."""
    for spelling in (text, text.removesuffix(".0")):
        if spelling in variable.codes:
            return variable.codes[spelling]
        if not variable.codes and spelling in variable.states:
            return spelling
    return None


# A network whose arrows are given and whose tables are learnt from a table of people by maximum likelihood.


@dataclass(frozen=True)
class LearntWorld:
    """The truth is the network's; a context counts only if enough rows agree with it."""

    description: Description
    rows: TableWorld
    network: Network

    def draw(self, rng: np.random.Generator) -> dict[str, str]:
        """The states of a row."""
        return self.rows.draw(rng)

    def chance(self, evidence: Evidence) -> float:
        """NaN if fewer rows than the support agree with the evidence."""
        if np.isnan(self.rows.chance(evidence)):
            return float("nan")
        target = self.description.target
        posterior = self.network.posterior(target.variable, evidence)
        return float(posterior[self.network.index(target.variable, target.state)])

    def shares(self, variable: str, evidence: Evidence) -> Floats:
        """By the network."""
        return self.network.posterior(variable, evidence)


def maximum_likelihood(world: TableWorld, where: str) -> LearntWorld:
    """The network with the arrows that the description's `parents` name, fitted to the rows in which all is known.

    A configuration of parents that no row has gets the same chance for every state, as it says nothing.

    Raises UserError if no variable has a parent, and as `make_network` does.
    """
    variables = world.description.variables
    parents = {name: variable.parents for name, variable in variables.items()}
    if not any(parents.values()):
        raise UserError(f"{where}: graph: no variable names its parents; add them, or leave graph out")
    target = world.description.target
    states = {name: tuple(variable.states) for name, variable in variables.items()}
    if len(states[target.variable]) != 2:
        raise UserError(f"{where}: graph: the target has {len(states[target.variable])} states; give it two")
    of_target = states[target.variable].index(target.state)
    codes = {**world.codes, target.variable: np.where(world.positive, of_target, 1 - of_target)}
    if hidden := [name for name in variables if name not in codes]:
        raise UserError(f"{where}: graph: variable {hidden[0]!r} is hidden, so its table cannot be learnt")
    known = np.logical_and.reduce([code >= 0 for code in codes.values()])
    tables = {}
    for name, above in parents.items():
        axes = (*above, name)
        if unknown := [parent for parent in above if parent not in codes]:
            raise UserError(f"{where}: parent {unknown[0]!r} of {name!r} is no variable")
        shape = tuple(len(states[axis]) for axis in axes)
        counts = np.zeros(shape)
        np.add.at(counts, tuple(codes[axis][known].astype(np.intp) for axis in axes), world.weights[known])
        total = counts.sum(axis=-1, keepdims=True)
        tables[name] = np.where(total > 0, counts / np.where(total > 0, total, 1), 1 / shape[-1])
    return LearntWorld(world.description, world, make_network(states, parents, tables, where))
