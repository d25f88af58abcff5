"""A Bayesian who draws balls from an urn: the exact martingale."""

from dataclasses import dataclass

import numpy as np

from .trajectories import Floats, Seed, Trajectories


@dataclass(frozen=True)
class Bayesian:
    """Plants M = 0, intercept 0, drift 0, and calibrated beliefs (calibration slope 1).

    The share of red balls has a Beta(a, b) law that the agent knows. Its belief is that the next ball is red:
    (a + red) / (a + b + drawn). It draws `warmup` balls before the first reading and `evidence` per step, so
    that beliefs stay off 0 and 1 by a / (a + b + drawn) and noise can be added without cutting it.
    """

    a: float = 2.0
    b: float = 2.0
    warmup: int = 6
    evidence: int = 4
    steps: int = 1
    extra: int = 0
    """Balls that a first belief further than 0.2 from one half draws in addition. It changes where updates
    are large, and not that they are a martingale."""

    @property
    def slope(self) -> float:
        """M."""
        return 0.0

    def variance(self, step: int) -> float:
        """Var(belief) at a step, from the Beta-binomial law; not defined with `extra`."""
        if self.extra and step:
            raise ValueError("extra: the number of draws depends on the belief; it has no closed variance")
        total = self.a + self.b
        drawn = self.warmup + step * self.evidence
        return self.a * self.b / (total**2 * (total + 1)) * drawn / (total + drawn)

    def sample(self, n: int, seed: Seed) -> Trajectories:
        """Draw n questions, each an urn of its own."""
        rng = np.random.default_rng(seed)
        share = rng.beta(self.a, self.b, n)
        red, drawn = rng.binomial(self.warmup, share).astype(np.float64), np.full(n, float(self.warmup))
        path = [(self.a + red) / (self.a + self.b + drawn)]
        for step in range(self.steps):
            more = self.extra * (np.abs(path[0] - 0.5) > 0.2) if step == 0 else 0
            balls = np.broadcast_to(self.evidence + more, n)
            red, drawn = red + rng.binomial(balls, share), drawn + balls
            path.append((self.a + red) / (self.a + self.b + drawn))
        belief = np.column_stack(path)
        return Trajectories(read=belief, belief=belief, outcome=rng.binomial(1, share).astype(np.float64))

    def chains(self, n: int, chains: int, seed: Seed, drift: float = 0.0) -> Floats:
        """Updates [n, chains] of independent continuations of each question, for `drift_variance`.

        Each continuation draws its evidence from the agent's own forecast. `drift` is added with one random
        sign per question: it plants drift2 = drift^2, and needs room (at most a / (a + b + drawn)).
        """
        rng = np.random.default_rng(seed)
        red = rng.binomial(self.warmup, rng.beta(self.a, self.b, n))[:, None]
        share = rng.beta(self.a + red, self.b + self.warmup - red, (n, chains))
        before = (self.a + red) / (self.a + self.b + self.warmup)
        drawn = self.warmup + self.steps * self.evidence
        after = (self.a + red + rng.binomial(drawn - self.warmup, share)) / (self.a + self.b + drawn)
        return after + drift * rng.choice([-1.0, 1.0], (n, 1)) - before
