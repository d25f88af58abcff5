"""Beliefs in questions that follow from each other: the arbitrage and the frequentist violation (METRICS W8, W9)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..contract import Floats, floats, probabilities
from ..divergence import LOGIT_EPS

QUESTIONS: Mapping[str, Callable[[bool, bool, bool], float]] = {
    "p": lambda p, q, r: p,
    "not_p": lambda p, q, r: not p,
    "para_p": lambda p, q, r: p,
    "cons_p": lambda p, q, r: p or q,
    "q": lambda p, q, r: q,
    "p_and_q": lambda p, q, r: p and q,
    "p_or_q": lambda p, q, r: p or q,
    "q_and_not_p": lambda p, q, r: q and not p,
    "q_given_p": lambda p, q, r: q if p else np.nan,
    "p_given_q": lambda p, q, r: p if q else np.nan,
    "p_given_not_q": lambda p, q, r: np.nan if q else p,
    "r_given_p_and_q": lambda p, q, r: r if p and q else np.nan,
    "p_and_q_and_r": lambda p, q, r: p and q and r,
}
"""Question about events P, Q and R -> whether its answer is yes, by what is true of them; NaN: it is called off."""


@dataclass(frozen=True)
class Relation:
    """Questions that follow from each other, and what their probabilities must fulfil."""

    about: str
    questions: tuple[str, ...]
    equal: Callable[..., Any] | None = None
    """Of the probabilities, each an array: 0 if they are coherent."""
    at_most: tuple[Callable[..., Any], ...] = ()
    """The same, none of them above 0."""

    @property
    def payoffs(self) -> Floats:
        """[worlds, questions] of 1, 0, or NaN where a question is called off: all that can be true."""
        truths = product([True, False], repeat=3)
        worlds = {tuple(float(QUESTIONS[name](*truth)) for name in self.questions) for truth in truths}
        return np.array(sorted(worlds, key=str))


RELATIONS: Mapping[str, Relation] = {
    "negation": Relation("a statement and its negation", ("p", "not_p"), lambda p, n: p + n - 1),
    "paraphrase": Relation("a statement in other words", ("p", "para_p"), lambda p, s: p - s),
    "consequence": Relation("a statement and what follows from it", ("p", "cons_p"), None, (lambda p, c: p - c,)),
    "conjunction": Relation(
        "two statements and both",
        ("p", "q", "p_and_q"),
        None,
        (lambda p, q, b: p + q - 1 - b, lambda p, q, b: b - p, lambda p, q, b: b - q),
    ),
    "disjunction": Relation(
        "two statements and either",
        ("p", "q", "p_or_q"),
        None,
        (lambda p, q, e: p - e, lambda p, q, e: q - e, lambda p, q, e: e - p - q),
    ),
    "and_or": Relation(
        "two statements, either and both", ("p", "q", "p_or_q", "p_and_q"), lambda p, q, e, b: p + q - e - b
    ),
    "but": Relation(
        "a statement, another without it, and either", ("p", "q_and_not_p", "p_or_q"), lambda p, o, e: p + o - e
    ),
    "conditional": Relation(
        "a statement, another given it, and both", ("p", "q_given_p", "p_and_q"), lambda p, g, b: p * g - b
    ),
    "chain": Relation(
        "a statement, a second given it, a third given both, and all",
        ("p", "q_given_p", "r_given_p_and_q", "p_and_q_and_r"),
        lambda p, g, h, a: p * g * h - a,
    ),
    "expected_evidence": Relation(
        "a statement, another, and the first given either answer",
        ("p", "q", "p_given_q", "p_given_not_q"),
        lambda p, q, y, n: p - q * y - (1 - q) * n,
    ),
}
"""The checks of `Consistency Checks for Language Model Forecasters` (arXiv 2412.18544)."""

ENOUGH = 1e-8
"""Nats between what an arbitrageur has for certain and the most that there can be."""
MOST_STEPS, TINY = 10_000, 1e-300


def arbitrage(p: ArrayLike, payoffs: ArrayLike) -> Floats:
    """[n] what an arbitrageur surely gains who is paid by the logarithmic score, in nats (METRICS W8).

    Args:
        p: [n, questions] beliefs, moved to [1e-6, 1 - 1e-6], where the score is finite; a NaN makes its row NaN.
        payoffs: [worlds, questions] as of `dutch_book`: all that can be true.

    >>> round(float(arbitrage([[0.6, 0.6]], [[1, 0], [0, 1]])[0]), 4)  # either party wins with .6
    0.0408

    0 if and only if a distribution has these probabilities. The gain is that of the nearest coherent forecasts: the
    least sum of their divergences from p, each question weighing as much as it is probable that it stands.
    """
    prices, pays = np.atleast_2d(probabilities(p, "p")), floats(payoffs)
    yes, no = pays == 1, pays == 0
    gains = np.full(len(prices), np.nan)
    rows = np.flatnonzero(np.isfinite(prices).all(axis=1))
    kept = np.clip(prices[rows], LOGIT_EPS, 1 - LOGIT_EPS)
    stated = np.log(kept) @ yes.T + np.log(1 - kept) @ no.T  # [rows, worlds] the score of the beliefs

    def paid(law: Floats, stated: Floats) -> Floats:
        """[rows, worlds] what the coherent forecasts of a law [rows, worlds] score above the beliefs."""
        true, false = np.maximum(law @ yes, TINY), np.maximum(law @ no, TINY)
        return np.log(true / (true + false)) @ yes.T + np.log(false / (true + false)) @ no.T - stated

    law = np.full(stated.shape, 1 / len(pays))
    gain, step = paid(law, stated), np.full((len(rows), 1), 1 / pays.shape[1])
    for _ in range(MOST_STEPS):  # mirror descent: mass leaves the worlds that pay most
        most, sure = (law * gain).sum(axis=1, keepdims=True), gain.min(axis=1, keepdims=True)
        gains[rows] = np.maximum(sure[:, 0], 0)
        left = ((most - sure > ENOUGH) & (step > ENOUGH))[:, 0]
        if not left.any():
            break
        rows = rows[left]
        stated, law, gain, step, most, sure = (x[left] for x in (stated, law, gain, step, most, sure))
        moved = law * np.exp(step * (sure - gain))
        moved /= moved.sum(axis=1, keepdims=True)
        better = paid(moved, stated)
        falls = (moved * better).sum(axis=1, keepdims=True) <= most + 1e-15  # its rounding
        law, gain, step = np.where(falls, moved, law), np.where(falls, better, gain), step * np.where(falls, 1.5, 0.25)
    return gains


BETA = 1e-3
"""Added to the variance, so that sure answers are not infinitely wrong."""


def frequentist_violation(p: ArrayLike, relation: str) -> Floats:
    """[n] how far beliefs are from coherence, in standard errors of one answer to each question (METRICS W9).

    Args:
        p: [n, questions] beliefs, as `RELATIONS` orders them; a NaN makes its row NaN.
        relation: a name of `RELATIONS`.

    >>> round(float(frequentist_violation([[0.6, 0.6]], "negation")[0]), 4)  # .2 / sqrt(.24 + .24 + .001)
    0.2884
    """
    x, checked = np.atleast_2d(probabilities(p, "p")), RELATIONS[relation]

    def in_errors(law: Callable[..., Any]) -> Floats:
        gap = law(*x.T)
        slopes = [law(*(x.T + 1e-30j * unit[:, None])).imag / 1e-30 for unit in np.eye(x.shape[1])]
        return gap / np.sqrt((np.column_stack(slopes) ** 2 * x * (1 - x)).sum(axis=1) + BETA)

    if checked.equal is not None:
        return np.abs(in_errors(checked.equal))
    return np.maximum(np.max([in_errors(law) for law in checked.at_most], axis=0), 0)
