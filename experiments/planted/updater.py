"""An agent that gives evidence too much weight, too little, or the right one."""

from dataclasses import dataclass

import numpy as np
from scipy import integrate, stats
from scipy.special import expit, logit

from .trajectories import Floats, Seed, Trajectories


@dataclass(frozen=True, kw_only=True)
class SignalUpdates(Trajectories):
    """Single updates with the likelihoods and the right answer."""

    bayes: Floats
    """[n], the posterior that the evidence warrants."""
    like_x: Floats
    """[n], P(signal | true)."""
    like_not_x: Floats
    """[n], P(signal | false)."""


@dataclass(frozen=True)
class Updater:
    """Plants a Grether regression of (const, evidence, prior) = (0, gain, 1), and the sign of M.

    A statement is true with the probability that the agent believes (Beta(a, a) over statements); a signal
    points the right way with one of the `hits` rates. The agent moves its log-odds by `gain` times what the
    signal is worth. gain 1 is Bayes: M = 0 and every update exact. Above 1 every update is `over` and M < 0,
    below 1 every update is `under` and M > 0. `noise` is the SD of the posterior's log-odds.
    """

    gain: float = 1.0
    a: float = 4.0
    hits: tuple[float, ...] = (0.6, 0.75, 0.9)
    noise: float = 0.0

    @property
    def slope(self) -> float:
        """M without noise: Cov(E[update | prior], prior) / Var(prior), by quadrature over the priors."""
        prior = stats.beta(self.a, self.a)

        def expected_update(p: float) -> float:
            total = 0.0
            for hit in self.hits:
                for like_x, like_not_x in ((hit, 1 - hit), (1 - hit, hit)):
                    post = expit(logit(p) + self.gain * np.log(like_x / like_not_x))
                    total += (p * like_x + (1 - p) * like_not_x) * (post - p)
            return total / len(self.hits)

        value = integrate.quad(lambda p: prior.pdf(p) * expected_update(p) * (p - 0.5), 0, 1)[0]
        return float(value / prior.var())

    def sample(self, n: int, seed: Seed) -> SignalUpdates:
        """Draw n statements, each with one signal."""
        rng = np.random.default_rng(seed)
        prior = rng.beta(self.a, self.a, n)
        truth = rng.random(n) < prior
        hit = rng.choice(self.hits, n)
        points_up = (rng.random(n) < hit) == truth
        like_x = np.where(points_up, hit, 1 - hit)
        worth = np.log(like_x / (1 - like_x))
        post = expit(logit(prior) + self.gain * worth + self.noise * rng.standard_normal(n))
        belief = np.column_stack([prior, post])
        return SignalUpdates(
            read=belief,
            belief=belief,
            outcome=truth.astype(np.float64),
            bayes=expit(logit(prior) + worth),
            like_x=like_x,
            like_not_x=1 - like_x,
        )
