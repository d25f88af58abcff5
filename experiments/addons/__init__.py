"""What a run may add to its experiment: fitted settings, inner layers, numerical error, probes. The engine goes through
`ADDONS`.
"""

from .addon import AddOn
from .floors import NoiseFloors
from .inner.addon import InnerLayers
from .passing import LensInPassing
from .probed import ProbeBeliefs
from .settled import Settled

ADDONS: tuple[AddOn, ...] = (Settled(), NoiseFloors(), InnerLayers(), ProbeBeliefs(), LensInPassing())
"""In the order of their sections on a page."""
