"""Belief consistency: does the ratio of two options survive the rejection of a third?"""

from .config import ConsistencyConfig
from .experiment import Consistency
from .instances import instances

__all__ = ["Consistency", "ConsistencyConfig", "instances"]
