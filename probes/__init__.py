"""From stored activations to beliefs, with the statistics that make them worth the name; needs no torch."""

from .data.dataset import ProbeData
from .data.features import ArrayFeatures, ReadAt, StoreFeatures
from .estimators.attention import AttentionPooling
from .estimators.ccs import ContrastConsistentSearch
from .estimators.logistic import SoftLogistic
from .estimators.means import MeanDifference
from .estimators.readout import LinearReadout
from .estimators.ridge import RidgeOnLogOdds
from .plan import StudyPlan, Thresholds
from .probe import Probe, import_probe
from .targets import Target, make_target

__all__ = [
    "ArrayFeatures",
    "AttentionPooling",
    "ContrastConsistentSearch",
    "LinearReadout",
    "MeanDifference",
    "Probe",
    "ProbeData",
    "ReadAt",
    "RidgeOnLogOdds",
    "SoftLogistic",
    "StoreFeatures",
    "StudyPlan",
    "Target",
    "Thresholds",
    "import_probe",
    "make_target",
]
