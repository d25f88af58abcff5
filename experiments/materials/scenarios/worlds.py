"""Worlds whose chances are stated: the rational answer to evidence, and to being told something, is known."""

from dataclasses import dataclass

import numpy as np

from .scenario import Known, Scenario

PROVENANCE = "computed: Bayes' rule for the stated chances; the outcome is drawn with the stated probability"
TENTHS = 10


@dataclass(frozen=True)
class Story:
    """The texts of a kind of world; numbers are tenths."""

    background: str
    """`{p}` of ten are X; `{a}` show Y where X is true, `{b}` where it is not; `{s}` and `{l}` are said to be X."""
    x: str
    not_x: str
    y: str
    not_y: str
    role: str


STORIES = (
    Story(
        "Urn A holds {a} red and {a_} blue balls, urn B {b} red and {b_} blue. A fair die with ten sides is thrown: at "
        "{p} or less urn A is taken, else urn B. One ball is drawn from it. Everybody here was shown the urn for a "
        "moment and will name it: people say A in {s} of 10 cases where it is urn A, and in {l} of 10 where it is B.",
        "the urn is urn A",
        "the urn is urn B",
        "the ball is red",
        "the ball is blue",
        "the person who drew the ball",
    ),
    Story(
        "Of 10 parcels on the shelf, {p} were packed by the day shift and the others by the night shift. The day shift "
        "seals {a} of 10 with tape, the night shift {b} of 10, and both close the rest with string. One parcel is "
        "taken at random. Everybody here has weighed it in the hand and will name a shift: people say day in {s} of 10 "
        "cases where it is a day parcel, and in {l} of 10 where it is a night parcel.",
        "the parcel was packed by the day shift",
        "the parcel was packed by the night shift",
        "the parcel is sealed with tape",
        "the parcel is closed with string",
        "the person who picked the parcel",
    ),
    Story(
        "In a harbour {p} of 10 boats belong to the north pier, the others to the south pier. Of the northern boats "
        "{a} of 10 carry a white sail, of the southern ones {b} of 10, and all others a brown one. One boat is out at "
        "sea. Everybody here has heard its horn and will name a pier: people say north in {s} of 10 cases where "
        "the boat is northern, and in {l} of 10 where it is southern.",
        "the boat belongs to the north pier",
        "the boat belongs to the south pier",
        "the boat carries a white sail",
        "the boat carries a brown sail",
        "the person who owns the boat",
    ),
)


def worlds(n: int, seed: int = 0) -> list[Scenario]:
    """`n` worlds, a story in its turn; their truths have the probabilities that they state. More of them begin with the
    same ones.
    """
    return [_world(i, np.random.default_rng([seed, i])) for i in range(n)]


def _world(i: int, rng: np.random.Generator) -> Scenario:
    story = STORIES[i % len(STORIES)]
    p = int(rng.integers(2, 9))
    b, a = (int(x) for x in np.sort(rng.choice(np.arange(1, TENTHS), size=2, replace=False)))
    lies, says = (int(x) for x in np.sort(rng.choice(np.arange(1, TENTHS), size=2, replace=False)))
    text = story.background.format(p=p, a=a, a_=TENTHS - a, b=b, b_=TENTHS - b, s=says, l=lies)
    return Scenario(
        id=f"world-{i}",
        cluster=f"world-{i}",
        background=text,
        x=story.x,
        not_x=story.not_x,
        evidence={"for": story.y, "against": story.not_y},
        role=story.role,
        provenance=PROVENANCE,
        outcome=float(rng.random() < p / TENTHS),
        known=Known(p / TENTHS, a / TENTHS, b / TENTHS, says / TENTHS, lies / TENTHS),
    )
