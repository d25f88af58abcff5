"""Kinds of belief, runs and tables side by side: what differs, whether it matters, and which items make it."""

from .compare import compare
from .found import Comparison, Group, Record
from .sides import Side

__all__ = ["Comparison", "Group", "Record", "Side", "compare"]
