"""The martingale experiment: do beliefs drift where the prior points?"""

from .config import MartingaleConfig
from .experiment import Martingale

__all__ = ["Martingale", "MartingaleConfig"]
