"""What a run may add to its experiment: numerical error, inner layers, probes. The runner goes
through `ADDONS`.
"""

from ..scores import AddOn
from .inner_layers import InnerLayers
from .noise_floors import NoiseFloors
from .passive_beliefs import LensInPassing, ProbeBeliefs

ADDONS: tuple[AddOn, ...] = (NoiseFloors(), InnerLayers(), ProbeBeliefs(), LensInPassing())
"""In the order of their sections on a page."""
