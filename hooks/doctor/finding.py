"""What was found of one thing."""

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "missing", "fails"]


@dataclass(frozen=True)
class Finding:
    """One line of a diagnosis."""

    section: str
    """`libraries`, `devices`, `reading`, `models`, `folders`."""
    name: str
    state: State
    told: str
    """What was seen, in a line."""
    advice: str = ""
    """The line that brings what is missing, or what to do."""
    needed: bool = False
    """Whether nothing runs without it."""
