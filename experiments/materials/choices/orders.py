"""The orders in which options are listed: as given, a Latin square in which none has an advantage, or all."""

import math
from itertools import permutations
from typing import Literal

from ....hooks.errors import UserError

ALL_UP_TO = 4
"""Options of which every order is read; of more, those of a balanced Latin square."""
MOST_ORDERS = 120
"""Of `all`: those of five options."""
Order = tuple[int, ...]
Rotation = Literal["none", "latin", "all"]
"""Which orders a question is read in."""


def orders(k: int) -> list[Order]:
    """The orders of k options, the given one first; each option stands in each place equally often.

    Beyond four options they are the rows of a Williams design, in which each option also follows each other equally
    often: k orders if k is even, 2 k if it is odd.

    >>> orders(2)
    [(0, 1), (1, 0)]
    >>> len(orders(4)), len(orders(5)), len(orders(10))
    (24, 10, 10)
    """
    if k <= ALL_UP_TO:
        return list(permutations(range(k)))
    rows = _williams(k)
    return _renamed([*rows, *(row[::-1] for row in rows)] if k % 2 else rows)


def rotated(k: int, rotation: Rotation) -> list[Order]:
    """The orders of k options by the name of their design, the given one first: that alone, the k rows of a Latin
    square (each option once in each place), or every one.

    Raises UserError for `all` of more than five options.

    >>> rotated(3, "latin")
    [(0, 1, 2), (1, 2, 0), (2, 0, 1)]
    """
    if rotation == "none":
        return [tuple(range(k))]
    if rotation == "latin":
        return _renamed(_williams(k))
    if math.factorial(k) > MOST_ORDERS:
        raise UserError(f"orders 'all': {k} options have {math.factorial(k):,} orders; take `latin`, which has {k}")
    return list(permutations(range(k)))


def _williams(k: int) -> list[Order]:
    zigzag = [(i + 1) // 2 if i % 2 else -(i // 2) for i in range(k)]
    return [tuple((place + shift) % k for place in zigzag) for shift in range(k)]


def _renamed(rows: list[Order]) -> list[Order]:
    """The design with the options renamed so that the given order is its first."""
    first = rows[0]
    return [tuple(first.index(option) for option in row) for row in rows]
