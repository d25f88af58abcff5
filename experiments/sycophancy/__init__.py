"""Sycophancy as Bayesian error: does the belief bend to the user, or only the words?"""

from .config import SycophancyConfig
from .experiment import Sycophancy

__all__ = ["Sycophancy", "SycophancyConfig"]
