"""Agents that say one thing and hold another: what they compute, say and hold of the same words and urns, each kind as
incoherent as it is planted.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import softmax

from doxascope.metrics.consistency.rejection import belief_consistency
from doxascope.metrics.tables.samples import Options

from .choices import contexts_of_triples
from .updates import Anchored, Floats, Seed, Trajectories

METHODS = {"exact": "words", "verbal": "unit numbers", "probe": "words/held"}
"""Kind of what is computed, said and held, in this order -> its method, as a run names it."""
NODES = 48
"""Of the quadrature of each normal distribution."""


@dataclass(frozen=True)
class SaysOtherwise:
    """Plants the same incoherence in what is computed and held, and another in what is said.

    In the word game each kind keeps the ratio of the words that remain but for a step of their log-odds of root mean
    square `waver` (`rms_logodds`; c2 follows), along urns each is pulled to one half (M = -pull). Half of the variance
    of a step is shared by the kinds, and they see the same balls; each is read with noise of its own.
    """

    computed: float = 0.0
    """How incoherent the exact and the probed belief are: `waver` in nats, or `pull`."""
    said: float = 0.0
    """The same of the stated belief."""
    taste: float = 0.8
    """SD of the log-odds between words."""
    noise: float = 0.05
    """Half-width of the uniform noise of the belief at the end of an urn."""

    @property
    def planted(self) -> dict[str, float]:
        """Kind -> `waver`, or `pull`."""
        return dict(zip(METHODS, (self.computed, self.said, self.computed), strict=True))

    def words(self, n: int, seed: Seed) -> dict[str, Options]:
        """Kind -> n triples, each a cluster of three contexts that share the prior, whose rows have the same names."""
        rng = np.random.default_rng(seed)
        triple, rejected = contexts_of_triples(n)
        level = self.taste * rng.standard_normal((n, 3))[triple]
        shared, gone, names = rng.standard_normal(level.shape), np.eye(3)[rejected], np.arange(len(triple))
        found = {}
        for kind, waver in self.planted.items():
            step = (shared + rng.standard_normal(level.shape)) / 2 * waver  # the difference of two has SD waver
            post = softmax(level + step - 1e3 * gone, axis=1)
            found[kind] = Options(
                kind=kind,
                method=METHODS[kind],
                prior=softmax(level, axis=1),
                posterior=post,
                rejected=rejected,
                clusters=triple,
                keys=names,
            )
        return found

    def urns(self, n: int, seed: int) -> dict[str, Trajectories]:
        """Kind -> the same n urns."""
        found = {}
        for kind, pull in self.planted.items():
            belief = Anchored(pull=pull).sample(n, seed)
            rng = np.random.default_rng([seed, list(METHODS).index(kind)])
            end = belief.read[:, 1] + rng.uniform(-self.noise, self.noise, n)
            found[kind] = replace(belief, read=np.column_stack([belief.read[:, 0], end]))
        return found

    def c2(self, kind: str) -> float:
        """Its mean in the word game, by quadrature over taste and step."""
        nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
        before, step = (grid.ravel() for grid in np.meshgrid(self.taste * np.sqrt(2) * nodes, nodes))

        def shares(odds: Floats) -> Floats:
            return softmax(np.column_stack([odds, np.zeros_like(odds), np.full_like(odds, -1e3)]), axis=1)

        after = shares(before + self.planted[kind] * step)
        found = belief_consistency(shares(before), after, np.full(len(before), 2)).c2
        weight = np.outer(weights, weights).ravel()
        return float(np.asarray(found) @ weight / weight.sum())
