"""The activation store: residuals on the disk, in immutable HDF5 parts. Reading them needs no torch."""

from .export import export_store
from .header import Header, store_header
from .pack import pack_store
from .reader import Activations, ActivationStore
from .writer import ActivationWriter

__all__ = ["ActivationStore", "ActivationWriter", "Activations", "Header", "export_store", "pack_store", "store_header"]
