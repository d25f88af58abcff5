"""The experiments by name: one line each."""

from .consistency import Consistency
from .protocol import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    "consistency": Consistency(),
}
