"""What all families share: rows, clusters, intervals, tests (METRICS F)"""

from .agreement import MethodCorrelation, MethodReliability, method_correlation, method_reliability
from .clusters import bootstrap_moments, bootstrap_rows
from .equivalence import (
    MARGINS,
    CoherenceClaim,
    Equivalence,
    Surprises,
    claim_clusters,
    coherence_claim,
    surprises,
    tost,
    unless_missed,
)
from .intervals import Interval, bca_interval, moment_interval
from .means import (
    LOSS,
    UNIT,
    ClusterMean,
    ExclusionBounds,
    Ratio,
    cluster_mean,
    cluster_share,
    exclusion_bounds,
    ratio_of_sums,
    studentised_bounds,
    studentised_mean,
)
from .paired import (
    Adjusted,
    PairedDifference,
    adjust,
    minimum_detectable,
    paired_difference,
    paired_difference_moments,
    paired_family,
)
from .pooling import CrossedMean, Pooled, crossed_mean, random_effects_pool
from .randomisation import SignFlip, WildTest, sign_flip_test, wild_cluster_test
from .regression import effective_clusters
from .reliability import Reliability, WordingStudy, reliability_icc, wording_study

__all__ = [
    "LOSS",
    "MARGINS",
    "UNIT",
    "Adjusted",
    "ClusterMean",
    "CoherenceClaim",
    "CrossedMean",
    "Equivalence",
    "ExclusionBounds",
    "Interval",
    "MethodCorrelation",
    "MethodReliability",
    "PairedDifference",
    "Pooled",
    "Ratio",
    "Reliability",
    "SignFlip",
    "Surprises",
    "WildTest",
    "WordingStudy",
    "adjust",
    "bca_interval",
    "bootstrap_moments",
    "bootstrap_rows",
    "claim_clusters",
    "cluster_mean",
    "cluster_share",
    "coherence_claim",
    "crossed_mean",
    "effective_clusters",
    "exclusion_bounds",
    "method_correlation",
    "method_reliability",
    "minimum_detectable",
    "moment_interval",
    "paired_difference",
    "paired_difference_moments",
    "paired_family",
    "random_effects_pool",
    "ratio_of_sums",
    "reliability_icc",
    "sign_flip_test",
    "studentised_bounds",
    "studentised_mean",
    "surprises",
    "tost",
    "unless_missed",
    "wild_cluster_test",
    "wording_study",
]
