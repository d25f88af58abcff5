"""The world that a Bayesian network is."""

from dataclasses import dataclass

import numpy as np

from ....metrics.validation import Floats
from .description import Description
from .network import Evidence, Network, make_network


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
        found = self.network.posterior(target.variable, evidence)
        return float(found[self.network.index(target.variable, target.state)])

    def shares(self, variable: str, evidence: Evidence) -> Floats:
        """The exact posterior, in the order of the description's states."""
        found = self.network.posterior(variable, evidence)
        states = self.description.variables[variable].states
        return np.array([found[self.network.index(variable, state)] for state in states])


def written_network(description: Description, where: str) -> Network:
    """The network whose figures a description holds. Raises UserError as `make_network` does."""
    variables = description.variables
    return make_network(
        {name: tuple(one.states) for name, one in variables.items()},
        {name: one.parents for name, one in variables.items()},
        {name: one.table for name, one in variables.items() if one.table is not None},
        where,
    )
