"""Agents that choose among options: which of three words they have in mind, before and after one is ruled out, and
the same question again and again, afresh or in one conversation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from doxascope.metrics.tables.samples import Options
from doxascope.metrics.tables.whitebox_samples import Forks

from .updates import Floats, Seed


def contexts_of_triples(triples: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Triple and rejected option of each context."""
    return np.repeat(np.arange(triples), 3), np.tile(np.arange(3), triples)


@dataclass(frozen=True)
class PositionLocked:
    """Plants a kappa of 0, a rejected option that keeps its mass on average, and a failing competence gate.

    Answers follow the place in the prompt alone; each reading has noise of SD `wobble` on its log scale.
    Without wobble the consistency is 1 and means nothing: `chance_corrected` is undefined there.
    With a `taste`, the SD of the log-odds of a triple's own words before and after, kappa is positive.
    """

    shares: tuple[float, float, float] = (0.5, 0.3, 0.2)
    wobble: float = 0.3
    taste: float = 0.0

    def sample(self, n: int, seed: Seed) -> Options:
        """Draw n triples, each a cluster of three contexts that share the prior, in the order of the prompt."""
        rng = np.random.default_rng(seed)
        triple, rejected = contexts_of_triples(n)
        level = np.log(self.shares) + self.taste * rng.standard_normal((n, 3))
        prior = softmax(level + self.wobble * rng.standard_normal((n, 3)), axis=1)[triple]
        post = softmax(level[triple] + self.wobble * rng.standard_normal((3 * n, 3)), axis=1)
        return Options(prior=prior, posterior=post, rejected=rejected, clusters=triple)


@dataclass(frozen=True)
class Eliminating:
    """Plants a rejected option whose share is `leak` on average, and two-class consistency of 1.

    The agent keeps the ratio of the other two. Its leak has a Beta distribution over triples and is shared by the
    contexts of a triple, so that contexts are not independent. A small `concentration` makes it lumpy.
    """

    leak: float = 0.1
    concentration: float = 10.0
    taste: float = 0.8
    """SD of the log-odds between words."""

    def sample(self, n: int, seed: Seed) -> Options:
        """Draw n triples, each a cluster of three contexts that share the prior, in the order of the prompt."""
        rng = np.random.default_rng(seed)
        triple, rejected = contexts_of_triples(n)
        prior = softmax(self.taste * rng.standard_normal((n, 3)), axis=1)[triple]
        leak = np.zeros(n)
        if self.leak > 0:
            leak = rng.beta(self.leak * self.concentration, (1 - self.leak) * self.concentration, n)
        gone = np.eye(3)[rejected]
        kept = prior * (1 - gone)
        kept /= kept.sum(axis=1, keepdims=True)
        share = leak[triple][:, None]
        post = (1 - share) * kept + share * gone
        return Options(prior=prior, posterior=post, rejected=rejected, clusters=triple)


PAIRS = tuple((i, j) for i in range(3) for j in range(3) if i != j)
NAMED = (*(("is it", (i,)) for i in range(3)), *(("either or", pair) for pair in PAIRS))
"""Template and words that are named, in the nine contexts of a triple."""


@dataclass(frozen=True)
class Naming:
    """Plants a copier, whose log-odds of words named recently gain `copies`, or who eliminates, or both.

    "Is it X?" "No." names the rejected word; "Is it X or Y?" "Yes." names the other two and rejects the third. After
    the mention control, the same question with a reply that decides nothing, words that were named gain as much.
    """

    copies: float = 0.0
    """In nats; below 0 it shuns recent words."""
    eliminates: float = 0.0
    """Nats that a rejected word loses."""
    taste: float = 0.7
    noise: float = 0.05

    def sample(self, n: int, seed: Seed) -> Options:
        """Draw n triples, each a cluster of nine contexts, one row each."""
        rng = np.random.default_rng(seed)
        named = np.tile([np.isin(np.arange(3), words) for _, words in NAMED], (n, 1))
        template = np.tile(np.array([name for name, _ in NAMED], dtype=object), n)
        rejected = np.where((template == "is it")[:, None], named, ~named).argmax(axis=1)
        triple = np.repeat(np.arange(n), len(NAMED))
        level = self.taste * rng.standard_normal((n, 3))[triple]
        recent = level + self.copies * named
        after = recent - self.eliminates * np.eye(3)[rejected]
        prior, mentioned, post = (
            softmax(x + self.noise * rng.standard_normal(x.shape), axis=1) for x in (level, recent, after)
        )
        return Options(
            prior=prior,
            posterior=post,
            mentioned=mentioned,
            rejected=rejected,
            template=template,
            clusters=triple,
        )


@dataclass(frozen=True)
class YesSayer:
    """Plants a fork excess of `bias`; 0 says yes exactly as often as it would reveal.

    The bias is spread evenly over three options. `spread` is the SD of an item's own bias, shared by its
    contexts (cut at two SD, which keeps the mean), `noise` the half-width of an error per answer;
    (bias + 2 spread) / 3 + noise must not exceed 0.1.
    """

    bias: float = 0.0
    spread: float = 0.04
    noise: float = 0.05
    contexts: int = 4

    def sample(self, n: int, seed: Seed) -> Forks:
        """Draw n items, each a cluster of contexts."""
        rng = np.random.default_rng(seed)
        item = np.repeat(np.arange(n), self.contexts)
        r = 0.1 + 0.7 * rng.dirichlet(np.ones(3), len(item))
        own = self.spread * np.clip(rng.standard_normal(n), -2, 2)
        q = r + (self.bias + own[item])[:, None] / 3 + rng.uniform(-self.noise, self.noise, r.shape)
        return Forks(q=q, r=r, clusters=item)


# An agent that answers the same question again and again, afresh or in one conversation.


@dataclass(frozen=True)
class Conversations:
    """Sampled answers as counts, and the probabilities that they came from; q questions of k options."""

    p_single: Floats
    """[q, k] of a single turn."""
    single: Floats
    """[q, 2, k] counts of two halves of the single-turn answers."""
    p_multi: Floats
    """[q, runs, turns, k] at each turn given the history."""
    multi: Floats
    """[q, k] counts over the turns of the first conversation."""


@dataclass(frozen=True)
class Answering:
    """Plants B = debias (P_single - 1/k) for every option; debias 0 has no B-score at all.

    Each conversation has a mood of its own (SD `mood` on the log scale, around a distribution whose mean is kept), so
    that its turns are dependent.
    """

    options: int = 4
    queries: int = 30
    runs: int = 10
    turns: int = 8
    debias: float = 0.0
    skew: float = 0.5
    """SD of the single-turn log-probabilities over options."""
    mood: float = 0.15
    """Size of a conversation's deviation, as a share of the smallest probability: at most 1."""

    def sample(self, n: int, seed: Seed) -> Conversations:
        """Draw n questions."""
        rng = np.random.default_rng(seed)
        k = self.options
        p_single = softmax(self.skew * rng.standard_normal((n, k)), axis=1)
        mean = p_single - self.debias * (p_single - 1 / k)
        push = rng.uniform(-1, 1, (n, self.runs, 1, k))
        push -= push.mean(axis=-1, keepdims=True)  # within (-2, 2), and sums to zero
        room = mean.min(axis=1)[:, None, None, None] / 2
        multi = np.repeat(mean[:, None, None] + self.mood * room * push, self.turns, axis=2)
        single = rng.multinomial(self.queries // 2, np.repeat(p_single[:, None], 2, axis=1)).astype(np.float64)
        counts = rng.multinomial(self.queries, multi[:, 0, 0]).astype(np.float64)
        return Conversations(p_single=p_single, single=single, p_multi=multi, multi=counts)


# Agents that are asked the same question again and again, and see their own answers.


@dataclass(frozen=True)
class Repeating:
    """An agent whose distribution at a turn is (1 - weight) times that afresh plus weight times where history draws it.

    Afresh, the log-probability of an option has SD `taste` between options, and a place in the list adds `lean` for
    each place that it is further up; both are multiplied, so that the order matters. Where history draws it:

    - `nowhere`: it ignores history. B is 0, whatever the lean, and it settles at once.
    - `uniform`: it corrects itself. From turn 2 on, B(a) = weight (P_single(a) - 1/k).
    - `truth`: it leaks what is right. From turn 2 on, B(a) = weight P_single(a) of every wrong option.
    - `last`: it sticks to its last answer. Without a lean B is 0 in expectation, and the slope of the update on the
      belief is weight - 1 from turn 2 on, within a question.
    - `avoids`: away from its last answer, whose probability is (1 - weight) of what it was. B is above 0, and only the
      last answer is heard.
    - `counts`: it corrects itself by what it hears, P_single exp(-strength (share of the answers so far - 1/k)).
    - `urn`: it learns from its answers as from draws, (strength P_single + counts) / (strength + answers): a
      martingale without a lean, with B = 0 in expectation. Its `weight` says nothing.
    """

    drawn: Literal["nowhere", "uniform", "truth", "last", "avoids", "counts", "urn"] = "nowhere"
    weight: float = 0.5
    taste: float = 0.7
    lean: float = 0.0
    strength: float = 4.0

    def fresh(self, orders: Sequence[Sequence[int]], rng: np.random.Generator) -> Floats:
        """[orders, k] its distribution afresh, for a question with these orders of the options."""
        k = len(orders[0])
        liking = self.taste * rng.standard_normal(k)
        place: NDArray[np.int64] = np.array([np.argsort(order) for order in orders])
        return softmax(liking - self.lean * place, axis=1)

    def turn(self, fresh: Floats, history: Sequence[int], truth: int | None = None, elsewhere: int = 0) -> Floats:
        """[k] its distribution at a turn, from that afresh in the same order and its answers so far; or after so many
        answers to another question, of which it hears that there were some.
        """
        k = len(fresh)
        blind = self.drawn in ("uniform", "truth")
        if self.drawn == "nowhere" or not (history or (blind and elsewhere)):
            return fresh
        if self.drawn in ("avoids", "counts"):
            share = np.bincount(history, minlength=k) / len(history)
            away = share - 1 / k if self.drawn == "counts" else np.eye(k)[history[-1]]
            kept = np.exp(-self.strength * away) if self.drawn == "counts" else 1 - self.weight * away
            return fresh * kept / (fresh @ kept)
        if self.drawn == "urn":
            counts = np.bincount(history, minlength=k)
            return (self.strength * fresh + counts) / (self.strength + len(history))
        to = {"uniform": None, "last": history[-1] if history else None, "truth": truth}[self.drawn]
        return (1 - self.weight) * fresh + self.weight * (np.full(k, 1 / k) if to is None else np.eye(k)[to])
