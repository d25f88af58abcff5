"""The activation store: residuals on the disk, in immutable HDF5 parts. Reading them needs no torch."""

from .header import Header, make_header
from .reader import Activations, ActivationStore
from .writer import ActivationWriter

__all__ = ["ActivationStore", "ActivationWriter", "Activations", "Header", "make_header"]
