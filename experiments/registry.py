"""The experiments by name: one line each."""

from .consistency import Consistency
from .locate import Locate
from .martingale import Martingale
from .protocol import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    "consistency": Consistency(),
    "locate": Locate(),
    "martingale": Martingale(),
}
