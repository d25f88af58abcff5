"""The orders in which options are listed: all of them, or a Latin square in which none has an advantage."""

from itertools import permutations

ALL_UP_TO = 4
"""Options of which every order is read; of more, those of a balanced Latin square."""
Order = tuple[int, ...]


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
    zigzag = [(i + 1) // 2 if i % 2 else -(i // 2) for i in range(k)]
    rows = [tuple((place + shift) % k for place in zigzag) for shift in range(k)]
    rows += [row[::-1] for row in rows] if k % 2 else []
    first = rows[0]  # options are renamed so that the given order is among them
    return [tuple(first.index(option) for option in row) for row in rows]
