"""What all families share: rows, clusters, intervals, tests (METRICS F)"""

from .agreement import MethodCorrelation, MethodReliability, method_correlation, method_reliability
from .auroc import Auroc, auroc, auroc_difference
from .clusters import bootstrap_moments, bootstrap_rows
from .equivalence import *
from .intervals import Interval, moment_interval
from .means import *
from .paired import *
from .planning import claim_power, planned_n, study_design
from .pooling import CrossedMean, Pooled, SeedMean, crossed_mean, mean_over_seeds, random_effects_pool
from .randomisation import SignFlip, WildTest, sign_flip_test, wild_cluster_test
from .regression import effective_clusters
from .reliability import Reliability, WordingStudy, reliability_icc, wording_study

__all__ = [
    "LOSS",
    "MARGINS",
    "UNIT",
    "Adjusted",
    "Auroc",
    "ClusterMean",
    "CoherenceClaim",
    "CrossedMean",
    "Equivalence",
]
__all__ += ["ExclusionBounds", "Interval", "MethodCorrelation", "MethodReliability", "PairedDifference", "Pooled"]
__all__ += ["Ratio", "Reliability", "SeedMean", "SignFlip", "Surprises", "Unseen", "WildTest", "WordingStudy", "adjust"]
__all__ += [
    "auroc",
    "auroc_difference",
    "bootstrap_moments",
    "bootstrap_rows",
    "claim_clusters",
    "claim_power",
    "cluster_mean",
]
__all__ += ["cluster_share", "coherence_claim", "crossed_mean", "effective_clusters", "exclusion_bounds"]
__all__ += ["mean_over_seeds", "method_correlation", "method_reliability", "minimum_detectable", "moment_interval"]
__all__ += ["paired_difference", "paired_difference_moments", "paired_family", "planned_n", "random_effects_pool"]
__all__ += ["ratio_of_sums", "reliability_icc", "sign_flip_test", "studentised_bounds", "studentised_mean"]
__all__ += ["study_design", "surprises", "tost", "unless_missed", "unseen_opposites", "wild_cluster_test"]
__all__ += ["wording_study"]
