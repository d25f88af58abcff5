"""The card of a model: a fixed, versioned set of small experiments and a probe, on one page, and as a gate for CI."""

from .model_card import Against, ModelCard, against
from .output import make_card

__all__ = ["Against", "ModelCard", "against", "make_card"]
