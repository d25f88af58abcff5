"""Belief consistency: does the ratio of two options survive the rejection of a third?"""

from .config import ConsistencyConfig
from .experiment import BeliefConsistency
from .instances import instances

__all__ = ["BeliefConsistency", "ConsistencyConfig", "instances"]
