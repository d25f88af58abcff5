"""The version of doxascope, which everything that is written bears."""

__version__ = "0.1.0"
