"""The experiments by name: one line each."""

from ..consistency import Consistency
from ..experiment import Experiment
from ..locate import Locate
from ..martingale import Martingale

EXPERIMENTS: dict[str, Experiment] = {
    "consistency": Consistency(),
    "locate": Locate(),
    "martingale": Martingale(),
}
