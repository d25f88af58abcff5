"""Could these beliefs be the ones that drive the decisions? (METRICS E)"""

from .config import RationalityConfig
from .experiment import Rationality

__all__ = ["Rationality", "RationalityConfig"]
