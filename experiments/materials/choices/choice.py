"""A question with two or more options, and all that is known of it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ....hooks.errors import UserError, nearest

SUBJECTIVE, RANDOM, EASY, HARD = "subjective", "random", "easy", "hard"
CATEGORIES = (SUBJECTIVE, RANDOM, EASY, HARD)
"""Of the paper: an opinion, a choice at random, questions that have a true answer. A benchmark is a category itself."""
WITHOUT_TRUTH = (SUBJECTIVE, RANDOM)
OPTIONS = "{options}"
"""Where a text lists its options itself."""
SUM_SLACK = 1e-6
"""How far the probabilities of a target may be from summing to one."""


@dataclass(frozen=True)
class Choice:
    """A question that is answered by one of its options.

    Raises UserError for an empty text, fewer than two options, options that are empty or alike, a truth that is no
    option, or a target that is no distribution over the options.
    """

    id: str
    cluster: str
    """Questions that share content share a cluster."""
    category: str
    text: str
    """`{options}` is where it lists them; without it, whoever asks lists them, unless they are not `listed`."""
    options: tuple[str, ...]
    provenance: str
    """Where it comes from."""
    truth: str = ""
    """The option that is right; empty if none is, or none is known."""
    topic: str = ""
    listed: bool = True
    """Whether the options are shown at all: digits need not be."""
    target: tuple[float, ...] = ()
    """The distribution over the options that is asked for, where one is."""

    def __post_init__(self) -> None:
        where = f"question {self.id}"
        if not self.text.strip():
            raise UserError(f"{where}: has no text")
        if len(self.options) < 2:
            raise UserError(f"{where}: has {len(self.options)} options; give two or more")
        if same := alike(self.options):
            raise UserError(f"{where}: options {same[0]!r} and {same[1]!r} are the same; give each a text of its own")
        if self.truth and self.truth not in self.options:
            raise UserError(f"{where}: truth {self.truth!r} is no option; {nearest(self.truth, self.options)}")
        if self.truth and self.category in WITHOUT_TRUTH:
            raise UserError(f"{where}: category {self.category!r} has no truth; take {self.truth!r} away")
        if self.target and (
            len(self.target) != len(self.options)
            or min(self.target) < 0
            or not np.isclose(sum(self.target), 1, atol=SUM_SLACK)
        ):
            raise UserError(f"{where}: target is no distribution over the {len(self.options)} options")

    @property
    def right(self) -> int | None:
        """The index of the truth."""
        return self.options.index(self.truth) if self.truth else None


def option_text(option: object) -> str:
    """An option of a file as a text; a number is one, too.

    Raises ValueError for anything else: YAML makes truth values of yes and no.
    """
    if isinstance(option, bool) or not isinstance(option, str | int | float):
        raise ValueError(f"option {option!r} is no text; quote it")
    return str(option).strip()


def alike(options: Sequence[str]) -> tuple[str, str] | None:
    """The first two options that differ in case or space alone, or of which one is empty; None if all differ."""
    seen: dict[str, str] = {}
    for option in options:
        plain = " ".join(option.split()).casefold()
        if not plain or plain in seen:
            return seen.get(plain, ""), option
        seen[plain] = option
    return None
