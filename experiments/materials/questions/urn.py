"""Draws from one of two urns, revealed one by one: the true posterior is known at every step."""

from collections.abc import Sequence

import numpy as np

from .question import BinaryQuestion

PROVENANCE = "computed: Bayes' rule for draws with replacement; the outcome is the urn that the draws were made from"
BALLS, CHANCES = 10, 6


def urns(n: int, draws: int = 6, seed: int = 0) -> list[BinaryQuestion]:
    """`n` questions with `draws` draws each, true with the probability that they state. More of them begin with the
    same ones.
    """
    return [_question(i, draws, np.random.default_rng([seed, i])) for i in range(n)]


def posterior(prior: float, red_in_a: float, red_in_b: float, red: Sequence[bool]) -> tuple[float, ...]:
    """[draws + 1] P(urn A) before and after each draw, from the shares of red balls in the urns."""
    odds = prior / (1 - prior)
    found = [prior]
    for is_red in red:
        odds *= red_in_a / red_in_b if is_red else (1 - red_in_a) / (1 - red_in_b)
        found.append(odds / (1 + odds))
    return tuple(found)


def _question(i: int, draws: int, rng: np.random.Generator) -> BinaryQuestion:
    a, b = (int(x) for x in rng.choice(np.arange(1, BALLS), size=2, replace=False))
    sides = int(rng.integers(1, CHANCES))
    is_a = bool(rng.random() < sides / CHANCES)
    red = [bool(x) for x in rng.random(draws) < (a if is_a else b) / BALLS]
    background = (
        f"Urn A holds {a} red and {BALLS - a} blue balls, urn B {b} red and {BALLS - b} blue. A fair die with "
        f"{CHANCES} sides is thrown: at {sides} or less urn A is taken, else urn B. Nobody sees which. Balls are then "
        "drawn from it at random, and each is put back before the next."
    )
    return BinaryQuestion(
        id=f"urn-{i}",
        cluster=f"urn-{i}",
        text="Are the balls drawn from urn A?",
        option_yes="Yes",
        option_no="No",
        provenance=PROVENANCE,
        outcome=float(is_a),
        background=background,
        evidence=tuple(f"Draw {k} is {'red' if x else 'blue'}." for k, x in enumerate(red, 1)),
        posterior=posterior(sides / CHANCES, a / BALLS, b / BALLS, red),
    )
