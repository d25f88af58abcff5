"""From stored activations to beliefs, with the statistics that make them worth the name; needs no torch."""

from .dataset import ProbeData, Target, make_target
from .estimators import (
    AttentionPooling,
    ContrastConsistentSearch,
    LinearReadout,
    MeanDifference,
    RidgeOnLogOdds,
    SoftLogistic,
)
from .evidence.study import StudyPlan, Thresholds
from .features import ArrayFeatures, ReadAt, StoreFeatures
from .probe import Probe, import_probe

__all__ = ["ArrayFeatures", "AttentionPooling", "ContrastConsistentSearch", "LinearReadout", "MeanDifference", "Probe"]
__all__ += ["ProbeData", "ReadAt", "RidgeOnLogOdds", "SoftLogistic", "StoreFeatures", "StudyPlan", "Target"]
__all__ += ["Thresholds", "import_probe", "make_target"]
