"""The card of a model: a fixed, versioned set of small experiments and a probe, on one page, and as a gate for CI."""

from .against import Against, against
from .card import ModelCard
from .make import make_card

__all__ = ["Against", "ModelCard", "against", "make_card"]
