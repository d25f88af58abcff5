"""Kinds of belief, runs and tables side by side: what differs, whether it matters, and which items make it."""

from .compare import compare
from .found import Comparison

__all__ = ["Comparison", "compare"]
