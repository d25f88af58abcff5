"""The language models of the belief-consistency paper as simulated agents, made of the figures of its tables.

`published_models.csv` has, of 36 models, entropy and verbal error before (Table 1), and of each of two templates
consistency on two and three classes, share of the rejected option, entropy and verbal error after (Tables 5 and 6); and
the rank correlation of the rejected option's shares before and after (Table 8). What no table says is assumed, alike
for all: half of what an item's contexts differ by is the item's, the mass on any option varies between contexts, and a
mere mention moves a word by `NAMED` nat.
"""

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import betaincinv, expit, ndtr, softmax
from scipy.stats import rankdata

from doxascope.benchmarks.agents.choices import NAMED as CONTEXTS
from doxascope.benchmarks.agents.updates import Floats
from doxascope.metrics import jsd

FIGURES = Path(__file__).with_name("published_models.csv")
TEMPLATES = ("reject", "narrow")
TEMPLATE = np.array([TEMPLATES[kind != "is it"] for kind, _ in CONTEXTS])
NAMES_WORD = np.array([np.isin(np.arange(3), words) for _, words in CONTEXTS])
REJECTED = np.where((TEMPLATE == "reject")[:, None], NAMES_WORD, ~NAMES_WORD).argmax(axis=1)
"""[9] the rejected word of each context of a triple."""
OTHERS = np.array([[word for word in range(3) if word != gone] for gone in REJECTED])
"""[9, 2] the words that remain."""
ANSWERS = {"yes": 50, "no": 5000}
"""Sampled answers to each context of a model that thinks, or does not."""
NAMED, BLUR, CONTROLS = 0.3, 0.3, ("hedge", "yes", "no")
SHARED = 0.5
"""Of the variance between contexts, what a triple's have in common."""
SPREAD = 4.0
"""Of the Beta distribution of the mass on any option."""
GRID = np.linspace(-6, 6, 4001)
"""Normal scores between which quantiles are interpolated."""
FITTED_ON = 3000
"""Triples on which the figures are matched."""


@dataclass(frozen=True)
class Read:
    """What is read of triples: [n, 9] in each context, [n, 3] before."""

    prior: Floats
    """[n, 3] shares."""
    post: Floats
    """[n, 9, 3] shares; NaN where no answer was any of the words."""
    mentioned: Floats
    """[n, 9, controls] shares of the word that would be rejected, after replies that decide nothing."""
    before: Floats
    """[n] mass on any of the words."""
    after: Floats
    """[n, 9]"""


@dataclass(frozen=True)
class PublishedModel:
    """One of them, with what was fitted to its figures."""

    name: str
    thinks: str
    error: float
    """Verbal error before."""
    taste: float
    """SD of the log-odds of two words, before."""
    association: float
    after: Mapping[str, "AfterRejection"]

    def sample(self, n: int, rng: Generator) -> Read:
        """Draw n triples, with so many answers as were sampled of it."""
        answers = ANSWERS[self.thinks]
        level = self.taste / np.sqrt(2) * rng.standard_normal((n, 3))
        prior, post = softmax(level, axis=1), np.empty((n, 9, 3))
        own = rng.standard_normal((n, 1))  # of the triple
        before, after = _masses(1 - self.error, (n,), rng), np.empty((n, 9))
        for name, fit in self.after.items():
            at = np.flatnonzero(name == TEMPLATE)
            post[:, at] = fit.shares(level, prior, at, own, self.association, self.taste, rng)
            after[:, at] = _masses(1 - fit.error, (n, len(at)), rng)
        mentioned = mention_shares(level, rng)
        prior, before = _counted(prior, before, answers, rng)
        post, after = _counted(post, after, answers, rng)
        return Read(prior, post, mentioned, before, after)


@dataclass(frozen=True)
class AfterRejection:
    """Of one template."""

    error: float
    kept: float
    """Correlation of the log-odds of the two words that remain, before and after."""
    taste: float
    """SD of these after."""
    leak: float
    """Mean share of the rejected word."""
    even: float
    """Concentration of its Beta distribution over contexts."""

    def shares(
        self,
        level: Floats,
        prior: Floats,
        at: NDArray[np.intp],
        own: Floats,
        association: float,
        taste: float,
        rng: Generator,
    ) -> Floats:
        """[n, contexts, 3] after a rejection in each of the contexts `at`."""
        n, rows, columns = len(level), np.arange(len(level))[:, None], np.arange(len(at))
        first, second = OTHERS[at].T
        odds = level[:, first] - level[:, second]
        pair = rng.standard_normal((n, 3))[:, REJECTED[at]]  # the two that remain are named by the third
        new = np.sqrt(SHARED) * pair + np.sqrt(1 - SHARED) * rng.standard_normal(odds.shape)
        ratio = expit(self.taste * (self.kept * odds / taste + np.sqrt(1 - self.kept**2) * new))
        rank = rankdata(prior[:, REJECTED[at]], axis=0) / (n + 1)
        drawn = np.sqrt(SHARED) * own + np.sqrt(1 - SHARED) * rng.standard_normal(odds.shape)
        tied = association * np.interp(rank, ndtr(GRID), GRID) + np.sqrt(1 - association**2) * drawn
        leak = np.interp(tied, GRID, _quantiles(self.leak, self.even))
        post = np.empty((n, len(at), 3))
        post[rows, columns, REJECTED[at]] = leak
        post[rows, columns, first] = (1 - leak) * ratio
        post[rows, columns, second] = (1 - leak) * (1 - ratio)
        return post


@lru_cache(8)
def _quantiles(leak: float, even: float) -> Floats:
    """Of a Beta distribution, at normal scores."""
    if leak <= 0:
        return np.zeros_like(GRID)
    return betaincinv(leak * even, (1 - leak) * even, ndtr(GRID))


def mention_shares(level: Floats, rng: Generator, copies: float = NAMED) -> Floats:
    """[n, 9, controls] shares of the word in question after a reply that decides nothing: words that are named gain."""
    named = level[:, None] + copies * NAMES_WORD
    noise = BLUR * rng.standard_normal((len(level), 9, len(CONTROLS)))
    rest = np.log(np.exp(np.take_along_axis(named, OTHERS[None], axis=2)).sum(axis=2))
    own = np.take_along_axis(named, REJECTED[None, :, None], axis=2)[..., 0]
    return expit((own - rest)[..., None] + noise)


def _masses(mean: float, shape: tuple[int, ...], rng: Generator) -> Floats:
    mean = float(np.clip(mean, 1e-4, 1 - 1e-4))
    return rng.beta(mean * SPREAD, (1 - mean) * SPREAD, shape)


def _counted(shares: Floats, mass: Floats, answers: int, rng: Generator) -> tuple[Floats, Floats]:
    """Shares and masses of so many sampled answers."""
    valid = rng.binomial(answers, mass)
    p = np.clip(shares, 0, 1)
    counts = rng.multinomial(valid, p / p.sum(axis=-1, keepdims=True))
    return counts / np.where(valid > 0, valid, np.nan)[..., None], valid / answers


# Fitting the figures, by bisection on draws that are the same each time.


def model_names() -> list[str]:
    """All of the tables."""
    return [_name(row) for row in _figures()]


@cache
def model(number: int) -> PublishedModel:
    """One of them, by its place."""
    return _fitted(_figures()[number])


@cache
def _figures() -> list[dict[str, str]]:
    with FIGURES.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _name(row: Mapping[str, str]) -> str:
    return row["model"] + (", thinking" if row["thinks"] == "yes" else "")


def _fitted(row: Mapping[str, str]) -> PublishedModel:
    taste = _taste(float(row["entropy_prior"]))
    association = float(np.sin(np.pi / 6 * float(row["association"] or 0)) * 2)  # of normal scores, from ranks
    after = {name: _after(row, name, taste, association) for name in TEMPLATES}
    return PublishedModel(_name(row), row["thinks"], float(row["error_prior"]), taste, association, after)


def _after(row: Mapping[str, str], name: str, taste: float, association: float) -> AfterRejection:
    """First the ratio is matched, which the rejected word has no part in, then how evenly that leaks."""
    c2, c3, invalid, entropy, error = (
        float(row[f"{key}_{name}"]) for key in ("c2", "c3", "invalid", "entropy", "error")
    )
    leak, last = invalid / max(1 - error, 1e-9), _taste(entropy)

    def scores(kept: float, log_even: float) -> tuple[float, float]:
        fit = AfterRejection(error, kept, last, leak, float(np.exp(log_even)))
        return _consistency(taste, association, fit, name)

    kept = _bisect(lambda x: scores(x, 2.3)[0], -1, 1, c2)
    log_even = _bisect(lambda x: scores(kept, x)[1], -3, 7, c3) if leak > 0 else 2.3
    return AfterRejection(error, kept, last, leak, float(np.exp(log_even)))


def _taste(entropy: float) -> float:
    """SD of log-odds whose two shares have this mean entropy, in bits."""
    z = np.linspace(-8, 8, 40_001)
    weight = np.exp(-(z**2) / 2)

    def mean(log_sd: float) -> float:
        p = np.clip(expit(np.exp(log_sd) * z), 1e-300, 1)
        return float(-2 * (weight * p * np.log2(p)).sum() / weight.sum())

    return float(np.exp(_bisect(mean, -3, 6, entropy)))


def _consistency(taste: float, association: float, fit: AfterRejection, name: str) -> tuple[float, float]:
    """Mean consistency on two and on three classes, without sampling."""
    rng = np.random.default_rng(0)
    level = taste / np.sqrt(2) * rng.standard_normal((FITTED_ON, 3))
    prior, at = softmax(level, axis=1), np.flatnonzero(name == TEMPLATE)
    post = fit.shares(level, prior, at, rng.standard_normal((FITTED_ON, 1)), association, taste, rng)
    p, q = (np.take_along_axis(x, OTHERS[at][None], axis=2) for x in (prior[:, None].repeat(len(at), axis=1), post))
    p /= p.sum(axis=2, keepdims=True)
    left = q.sum(axis=2, keepdims=True)
    two = 1 - jsd(p, np.where(left > 0, q / np.where(left > 0, left, 1), np.nan))
    whole = np.concatenate([p, np.zeros_like(p[..., :1])], axis=2)
    three = 1 - jsd(whole, np.concatenate([q, 1 - left], axis=2))
    return float(np.nanmean(two)), float(np.nanmean(three))


def _bisect(of: Callable[[float], float], low: float, high: float, wanted: float, steps: int = 18) -> float:
    """Where a monotone function comes nearest to what is wanted."""
    at_low, at_high = of(low), of(high)
    rising = at_high > at_low
    for _ in range(steps):
        middle = (low + high) / 2
        if (of(middle) < wanted) == rising:
            low = middle
        else:
            high = middle
    return (low + high) / 2
