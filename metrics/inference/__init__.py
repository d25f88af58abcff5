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

__all__ = ["LOSS", "MARGINS", "UNIT", "Adjusted", "Auroc", "ClusterMean", "CoherenceClaim", "CrossedMean"]
__all__ += ["Equivalence", "ExclusionBounds", "Interval", "MethodCorrelation", "MethodReliability", "PairedDifference"]
__all__ += ["Pooled", "Ratio", "Reliability", "SeedMean", "SignFlip", "Surprises", "Unseen", "WildTest", "WordingStudy"]
__all__ += ["adjust", "auroc", "auroc_difference", "bootstrap_moments", "bootstrap_rows", "claim_clusters"]
__all__ += ["claim_power", "cluster_mean", "cluster_share", "coherence_claim", "crossed_mean", "effective_clusters"]
__all__ += ["exclusion_bounds", "mean_over_seeds", "method_correlation", "method_reliability", "minimum_detectable"]
__all__ += ["moment_interval", "paired_difference", "paired_difference_moments", "paired_family", "planned_n"]
__all__ += ["random_effects_pool", "ratio_of_sums", "reliability_icc", "sign_flip_test", "studentised_bounds"]
__all__ += ["studentised_mean", "study_design", "surprises", "tost", "unless_missed", "unseen_opposites"]
__all__ += ["wild_cluster_test", "wording_study"]
