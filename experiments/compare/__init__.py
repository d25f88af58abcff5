"""Kinds of belief, runs and tables side by side: what differs, whether it matters, and which items make it."""

from .comparison import compare
from .findings import Comparison, Group, Record
from .sides import Side

__all__ = ["Comparison", "Group", "Record", "Side", "compare"]
