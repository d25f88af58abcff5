"""What all families share: rows, clusters, intervals, tests (METRICS F)"""

from .crossed import CrossedMean, crossed_mean
from .equivalence import MARGINS, CoherenceClaim, Equivalence, claim_clusters, coherence_claim, tost, unless_missed
from .gstudy import WordingStudy, wording_study
from .intervals import Interval, moment_interval
from .jackknife import effective_clusters
from .means import LOSS, UNIT, ClusterMean, cluster_mean
from .multimethod import MethodCorrelation, MethodReliability, method_correlation, method_reliability
from .multiplicity import Adjusted, adjust
from .paired import PairedDifference, paired_difference, paired_difference_moments, paired_family
from .permutation import SignFlip, sign_flip_test
from .pooling import Pooled, random_effects_pool
from .power import minimum_detectable
from .ratio import Ratio, ratio_of_sums
from .reliability import Reliability, reliability_icc
from .resampling import bootstrap_moments, bootstrap_rows
from .shares import cluster_share
from .studentised import studentised_bounds, studentised_mean
from .surprises import Surprises, surprises
from .tails import bca_interval
from .wild import WildTest, wild_cluster_test

__all__ = [
    "LOSS",
    "MARGINS",
    "UNIT",
    "Adjusted",
    "ClusterMean",
    "CoherenceClaim",
    "CrossedMean",
    "Equivalence",
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
