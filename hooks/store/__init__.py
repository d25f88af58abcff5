"""The activation store: residuals on the disk, in immutable HDF5 parts. Reading them needs no torch."""

from .header import Header, describe
from .reader import Activations, ActivationStore
from .writer import ActivationWriter

__all__ = ["ActivationStore", "ActivationWriter", "Activations", "Header", "describe"]
