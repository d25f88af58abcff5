"""Agents that revise a belief: a Bayesian who draws balls from an urn, the same pulled, read with noise or by a
judge who has seen the end, one who guesses afresh, one who gives evidence another weight, one whose cases do not
add up, and exact Bayesians whose beliefs lie near 0 and 1.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy import integrate, stats
from scipy.special import expit, logit

from doxascope.metrics import hindsight_slope
from doxascope.metrics.tables.samples import Cases

Floats = NDArray[np.float64]
Seed = int | np.random.Generator
"""A number, or a generator to go on drawing from."""


@dataclass(frozen=True, kw_only=True)
class Trajectories:
    """Beliefs of one agent over questions and steps."""

    read: Floats
    """[questions, steps + 1], what an instrument reads."""
    belief: Floats
    """[questions, steps + 1], what the agent believes."""
    outcome: Floats
    """[questions], 0 or 1: what came true."""

    def updates(self) -> tuple[Floats, Floats, NDArray[np.int64] | None]:
        """Prior, posterior and question of each step of the readings; no question, where each has one step."""
        prior, posterior = self.read[:, :-1], self.read[:, 1:]
        n, steps = prior.shape
        return prior.ravel(), posterior.ravel(), np.repeat(np.arange(n), steps) if steps > 1 else None


# Agents that revise a belief: a Bayesian who draws balls from an urn, the same pulled, read with noise or by a judge
# who has seen the end, one who guesses afresh, and one who gives evidence another weight.


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


# Updates of exact Bayesians whose beliefs lie where those of language models do: near 0 and 1, few, and unequal.

Sample = tuple[Floats, Floats, NDArray[np.int64]]
"""Prior, posterior and question of each row."""


def log_odds(rng: Generator, questions: int) -> Floats:
    """[questions] prior log-odds N(-6, 3): a median of .25%, one in forty above .5."""
    return rng.normal(-6, 3, questions)


def signalled(rng: Generator, log_odds: Floats, steps: int = 1, strength: float = 0.7) -> Sample:
    """An exact Bayesian from prior `log_odds` [questions], who sees normal signals; log-odds vary by `strength`."""
    sign = np.where(rng.random(len(log_odds)) < expit(log_odds), 1, -1)
    chain = [log_odds]
    for _ in range(steps):
        chain.append(chain[-1] + rng.normal(sign * strength**2 / 2, strength))
    b = expit(np.stack(chain, axis=1))
    return b[:, :-1].ravel(), b[:, 1:].ravel(), np.repeat(np.arange(len(log_odds)), steps)


def witnessed(rng: Generator, log_odds: Floats, accuracy: float) -> Sample:
    """The same with one yes or no of known accuracy: from priors near 0, small steps down and rare jumps up."""
    true = rng.random(len(log_odds)) < expit(log_odds)
    says = rng.random(len(log_odds)) < np.where(true, accuracy, 1 - accuracy)
    post = log_odds + np.where(says, 1, -1) * logit(accuracy)
    return expit(log_odds), expit(post), np.arange(len(log_odds))


def unequal(rng: Generator, questions: int) -> Sample:
    """U-shaped beliefs; questions of 1 to 50 rows that share a heavy-tailed shift in either direction."""
    sizes = np.exp(rng.uniform(0, np.log(50), questions)).astype(int)
    question = np.repeat(np.arange(questions), sizes)
    b = np.clip(rng.beta(0.5, 0.5, questions)[question] + rng.normal(0, 0.03, len(question)), 0.01, 0.99)
    shift = np.clip(0.1 * rng.standard_cauchy(questions), -1, 1)[question]
    return b, b + np.minimum(b, 1 - b) * np.clip(0.5 * shift + rng.uniform(-0.5, 0.5, len(b)), -1, 1), question


def rounded(rng: Generator, questions: int) -> Sample:
    """Reports to the nearest .05, from .1 to .9, that move by one step or not at all; two of each question."""
    b = rng.choice(np.arange(0.1, 0.95, 0.05), questions * 2)
    up = rng.choice([-0.05, 0.0, 0.05], questions * 2)
    return b, np.asarray(np.round(b + up, 2), np.float64), np.repeat(np.arange(questions), 2)


GRID = np.array([0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0])


def absorbed(rng: Generator, questions: int) -> Sample:
    """Round beliefs, most of them 0, 1 or next to it, that move to the next with the chance that keeps the mean; at 0
    and 1 they stay, and so do a third of the others.
    """
    place = rng.choice(len(GRID), questions, p=np.array([6, 5, 3, 2, 1, 1, 1, 1, 1, 2, 3]) / 26)
    prior = GRID[place]
    low, high = GRID[np.maximum(place - 1, 0)], GRID[np.minimum(place + 1, len(GRID) - 1)]
    moves = (prior > 0) & (prior < 1) & (rng.random(questions) < 2 / 3)
    to = np.where(rng.random(questions) * (high - low) < prior - low, high, low)
    return prior, np.where(moves, to, prior), np.arange(questions)


def entrenched(rng: Generator, questions: int, slope: float) -> Sample:
    """Four updates per question, with a slope on the prior, and a shift that a question's updates share."""
    question = np.repeat(np.arange(questions), 4)
    b = rng.uniform(0.2, 0.8, len(question))
    shared = rng.uniform(-0.05, 0.05, questions)[question]
    return b, b + slope * (b - 0.5) + shared + rng.uniform(-0.05, 0.05, len(b)), question


# An agent whose belief is not the mean of its beliefs given each case.


@dataclass(frozen=True)
class Incoherent:
    """Plants a mean signed violation of iterated expectation of `gap`; 0 is coherent.

    Conditional beliefs lie within [0.2, 0.8]; `noise` is the half-width of a uniform error of the belief, so
    |gap| + noise must not exceed 0.2.
    """

    gap: float = 0.0
    noise: float = 0.1
    cases: int = 3

    def sample(self, n: int, seed: Seed) -> Cases:
        """Draw n beliefs with their conditionals."""
        rng = np.random.default_rng(seed)
        cond = rng.uniform(0.2, 0.8, (n, self.cases))
        weights = rng.dirichlet(np.ones(self.cases), n)
        p = (weights * cond).sum(axis=1) + self.gap + rng.uniform(-self.noise, self.noise, n)
        return Cases(p=p, conditional=cond, weights=weights)
