"""From stored activations to beliefs, with the statistics that make them worth the name; needs no torch."""

from .arrays import ArrayProbe, probe_arrays
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

__all__ = ["ArrayFeatures", "ArrayProbe", "AttentionPooling", "ContrastConsistentSearch", "LinearReadout"]
__all__ += ["MeanDifference", "Probe", "ProbeData", "ReadAt", "RidgeOnLogOdds", "SoftLogistic", "StoreFeatures"]
__all__ += ["StudyPlan", "Target", "Thresholds", "import_probe", "make_target", "probe_arrays"]
