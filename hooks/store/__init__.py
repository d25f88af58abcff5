"""The activation store: residuals on the disk, in immutable HDF5 parts. Reading them needs no torch."""

from .header import Header, store_header
from .reader import Activations, ActivationStore, export_store
from .writer import ActivationWriter, pack_store

__all__ = ["ActivationStore", "ActivationWriter", "Activations", "Header", "export_store", "pack_store", "store_header"]
