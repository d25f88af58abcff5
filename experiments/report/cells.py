"""Numbers as cells of a page: estimate, interval, and whatever qualifies it."""

import math
from collections.abc import Callable, Sequence

from ...metrics import Score
from ..scoring.number import shown
from .blocks import Cell

NONE = "–"
OK = "ok"


def score_cell(
    score: Score, written: Callable[[float], str] = shown, *, below: Sequence[str] = (), struck: bool = False
) -> Cell:
    """The estimate with its interval; grey without one; with its status where that is not `ok`. What is undefined is a
    dash.
    """
    if math.isnan(score.estimate):
        return absent(score.status)
    bare = math.isnan(score.ci_lo)
    interval = (score.ci_method or "no interval") if bare else f"[{written(score.ci_lo)}, {written(score.ci_hi)}]"
    return Cell(
        written(score.estimate),
        [interval, *below],
        struck=struck,
        grey=bare,
        status=qualified(score.status),
        known=True,
    )


def absent(status: str, below: Sequence[str] = ()) -> Cell:
    """No number, and why."""
    return Cell(NONE, below, status=qualified(status) or "undefined", known=False)


def qualified(status: str) -> str:
    """A status that a reader must see; empty if it is `ok`."""
    return "" if status == OK else status
