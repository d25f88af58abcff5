"""Agents that revise a belief: a Bayesian who draws balls from an urn, the same pulled, read with noise or by a judge
who has seen the end, one who guesses afresh, and one who gives evidence another weight.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from scipy import integrate, stats
from scipy.special import expit, logit

from ...metrics import hindsight_slope
from .trajectories import Floats, Seed, Trajectories


@dataclass(frozen=True)
class Bayesian:
    """Plants M = 0, intercept 0, drift 0, and calibrated beliefs (calibration slope 1).

    The share of red balls has a Beta(a, b) distribution that the agent knows. Its belief is that the next ball is red:
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
        """Var(belief) at a step, from the Beta-binomial distribution; not defined with `extra`."""
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


@dataclass(frozen=True)
class Anchored:
    """Plants M = -pull and, in the first step, a mean update of pull (anchor - E prior) + shift.

    In each step it adds the Bayesian update to its belief, and ends (1 - pull) times there plus pull times at the
    anchor. `shift` moves every posterior by a constant, which leaves M at 0. `bend` adds a U shape,
    bend (8 (prior - 1/2)^2 - 1), to which M is blind as well if priors are symmetric about one half.
    """

    pull: float = 0.1
    anchor: float = 0.5
    shift: float = 0.0
    bend: float = 0.0
    of: Bayesian = field(default_factory=Bayesian)

    @property
    def slope(self) -> float:
        """M, for symmetric priors."""
        return -self.pull

    def variance(self, step: int) -> float:
        """Var(belief) before the update."""
        if step:
            raise ValueError("step: only the variance of the prior, at step 0, is known")
        return self.of.variance(0)

    def sample(self, n: int, seed: Seed) -> Trajectories:
        """Draw n questions."""
        fair = self.of.sample(n, seed)
        path = [fair.belief[:, 0]]
        for update in np.diff(fair.belief).T:
            bent = self.bend * (8 * (path[-1] - 0.5) ** 2 - 1)
            path.append((1 - self.pull) * (path[-1] + update) + self.pull * self.anchor + self.shift + bent)
        belief = np.column_stack(path)
        return replace(fair, read=belief, belief=belief)


@dataclass(frozen=True)
class PriorNoise:
    """Plants M = (1 + M of the agent) lam - 1: for a Bayesian, M = -(1 - lam) with no fault of its own.

    Every reading has its own noise, uniform within `half_width`; lam = Var(belief) / Var(reading) is the
    reliability. The split-reading IV slope of two readings of the prior is that of the agent itself.
    """

    half_width: float = 0.14
    of: Bayesian | Anchored = field(default_factory=Bayesian)

    @property
    def reliability(self) -> float:
        """Share of the variance of the first reading that is the belief's."""
        variance = self.of.variance(0)
        return variance / (variance + self.half_width**2 / 3)

    @property
    def slope(self) -> float:
        """M of the readings."""
        return (1 + self.of.slope) * self.reliability - 1

    def reading(self, belief: Floats, seed: Seed) -> Floats:
        """Read beliefs once more, with fresh noise."""
        return belief + np.random.default_rng(seed).uniform(-self.half_width, self.half_width, belief.shape)

    def sample(self, n: int, seed: Seed) -> Trajectories:
        """Draw n questions."""
        rng = np.random.default_rng(seed)
        silent = self.of.sample(n, rng)
        return replace(silent, read=self.reading(silent.belief, rng))


@dataclass(frozen=True)
class LeakyJudge:
    """Plants M = w (1 - w) r / (1 + w^2 r) on a Bayesian, with r = Var(update) / Var(prior).

    A belief is read as b + w d, where d is the update that is yet to come. The last one has no future and is
    read as it is.
    """

    leak: float = 0.1
    of: Bayesian | Anchored = field(default_factory=Bayesian)

    @property
    def slope(self) -> float:
        """M of the readings of a Bayesian, for one step."""
        prior, post = self.of.variance(0), self.of.variance(1)
        return hindsight_slope(self.leak, (post - prior) / prior)  # updates of a martingale are uncorrelated

    def sample(self, n: int, seed: Seed) -> Trajectories:
        """Draw n questions."""
        honest = self.of.sample(n, seed)
        read = honest.belief.copy()
        read[:, :-1] += self.leak * (honest.belief[:, 1:] - honest.belief[:, :-1])
        return replace(honest, read=read)


@dataclass(frozen=True)
class Guessing:
    """Plants M = -1 with an intercept of 1/2, and a calibration slope of 0."""

    steps: int = 1

    @property
    def slope(self) -> float:
        """M."""
        return -1.0

    def sample(self, n: int, seed: Seed) -> Trajectories:
        """Draw n questions, answered uniformly at random."""
        rng = np.random.default_rng(seed)
        belief = rng.random((n, self.steps + 1))
        return Trajectories(read=belief, belief=belief, outcome=rng.binomial(1, 0.5, n).astype(np.float64))


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
