"""A network whose arrows are given and whose tables are learnt from a table of people by maximum likelihood."""

from dataclasses import dataclass

import numpy as np

from ....hooks.errors import UserError
from ....metrics.validation import Floats
from .description import Description
from .network import Network, make_network
from .of_table import TableWorld
from .world import Evidence


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
        found = self.network.posterior(target.variable, evidence)
        return float(found[self.network.index(target.variable, target.state)])

    def shares(self, variable: str, evidence: Evidence) -> Floats:
        """By the network."""
        return self.network.posterior(variable, evidence)


def maximum_likelihood(world: TableWorld, where: str) -> LearntWorld:
    """The network with the arrows that the description's `parents` name, fitted to the rows in which all is known.

    A configuration of parents that no row has gets the same chance for every state, as it says nothing.

    Raises UserError if no variable has a parent, and as `make_network` does.
    """
    variables = world.description.variables
    parents = {name: one.parents for name, one in variables.items()}
    if not any(parents.values()):
        raise UserError(f"{where}: graph: no variable names its parents; add them, or leave graph out")
    target = world.description.target
    states = {name: tuple(one.states) for name, one in variables.items()}
    if len(states[target.variable]) != 2:
        raise UserError(f"{where}: graph: the target has {len(states[target.variable])} states; give it two")
    of_target = states[target.variable].index(target.state)
    codes = {**world.codes, target.variable: np.where(world.positive, of_target, 1 - of_target)}
    if hidden := [name for name in variables if name not in codes]:
        raise UserError(f"{where}: graph: variable {hidden[0]!r} is hidden, so its table cannot be learnt")
    known = np.logical_and.reduce([own >= 0 for own in codes.values()])
    tables = {}
    for name, above in parents.items():
        axes = (*above, name)
        if unknown := [one for one in above if one not in codes]:
            raise UserError(f"{where}: parent {unknown[0]!r} of {name!r} is no variable")
        shape = tuple(len(states[one]) for one in axes)
        counts = np.zeros(shape)
        np.add.at(counts, tuple(codes[one][known].astype(np.intp) for one in axes), world.weights[known])
        total = counts.sum(axis=-1, keepdims=True)
        tables[name] = np.where(total > 0, counts / np.where(total > 0, total, 1), 1 / shape[-1])
    return LearntWorld(world.description, world, make_network(states, parents, tables, where))
