"""What a run may add to its experiment: inner layers, noise floors. The engine goes through `ADDONS`."""

from .addon import AddOn
from .floors import NoiseFloors
from .inner.addon import InnerLayers

ADDONS: tuple[AddOn, ...] = (NoiseFloors(), InnerLayers())
"""In the order of their sections on a page."""
