"""A user's mistake: one line that says what is wrong, where, and what to do."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(ValueError):
    """Something that the user can put right. The command line prints it as one line and exits with 2."""


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for an unknown name: the closest known one, or all of them when none is close.

    >>> nearest("layrs", ["layers", "sites"])
    "did you mean 'layers'?"
    """
    known = sorted(known)
    close = get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
