"""Where a belief changes: the interchange map of minimal pairs."""

from .config import LocateConfig
from .experiment import Locate

__all__ = ["Locate", "LocateConfig"]
