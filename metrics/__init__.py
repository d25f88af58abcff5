"""What coherence means: pure functions of arrays, and the belief table. No torch, no files, no models."""

from .agreement import Agreement, judge_agreement
from .attenuation import Disattenuated, MartingaleIV, disattenuated_slope, hindsight_slope, martingale_iv
from .battery import MartingaleTests, martingale_tests
from .beliefs import COLUMNS, KINDS, STATUSES, belief_table, check_belief_table
from .consistency import (
    Consistency,
    ExclusionBounds,
    Switch,
    belief_consistency,
    counts_to_probabilities,
    exclusion_bounds,
    switch,
)
from .divergence import entropy_bits, jsd, jsd_chain, jsd_leak
from .drift import Drift, drift_covariance, drift_variance
from .equivalence import MARGINS, Equivalence, tost
from .factors import FactorRegression, Term, factor_regression
from .icm import BinnedUpdates, ConditionalMoment, binned_updates, martingale_icm_test
from .martingale import (
    CalibrationSlope,
    JointTest,
    MartingaleScore,
    calibration_slope,
    martingale_joint_test,
    martingale_score,
)
from .multiplicity import Adjusted, adjust
from .paired import PairedDifference, paired_difference, paired_difference_moments, paired_family
from .permutation import SignFlip, sign_flip_test
from .pooling import Pooled, random_effects_pool
from .readout import LogprobBelief, belief_from_logprobs, framing_bias
from .reliability import Reliability, reliability_icc
from .resampling import ClusterMean, bca_interval, bootstrap_moments, bootstrap_rows, cluster_mean
from .score import Score
from .scoring import (
    Brier,
    BrierRegression,
    BrierUpdate,
    brier,
    brier_on_abs_martingale,
    brier_update,
)
from .split import SplitRegression, brier_on_split_martingale
from .trajectories import TrajectoryPairs, trajectory_pairs
from .wild import WildTest, wild_cluster_test

__all__ = [
    "COLUMNS",
    "KINDS",
    "MARGINS",
    "STATUSES",
    "Adjusted",
    "Agreement",
    "BinnedUpdates",
    "Brier",
    "BrierRegression",
    "BrierUpdate",
    "CalibrationSlope",
    "ClusterMean",
    "ConditionalMoment",
    "Consistency",
    "Disattenuated",
    "Drift",
    "Equivalence",
    "ExclusionBounds",
    "FactorRegression",
    "JointTest",
    "LogprobBelief",
    "MartingaleIV",
    "MartingaleScore",
    "MartingaleTests",
    "PairedDifference",
    "Pooled",
    "Reliability",
    "Score",
    "SignFlip",
    "SplitRegression",
    "Switch",
    "Term",
    "TrajectoryPairs",
    "WildTest",
    "adjust",
    "bca_interval",
    "belief_consistency",
    "belief_from_logprobs",
    "belief_table",
    "binned_updates",
    "bootstrap_moments",
    "bootstrap_rows",
    "brier",
    "brier_on_abs_martingale",
    "brier_on_split_martingale",
    "brier_update",
    "calibration_slope",
    "check_belief_table",
    "cluster_mean",
    "counts_to_probabilities",
    "disattenuated_slope",
    "drift_covariance",
    "drift_variance",
    "entropy_bits",
    "exclusion_bounds",
    "factor_regression",
    "framing_bias",
    "hindsight_slope",
    "jsd",
    "jsd_chain",
    "jsd_leak",
    "judge_agreement",
    "martingale_icm_test",
    "martingale_iv",
    "martingale_joint_test",
    "martingale_score",
    "martingale_tests",
    "paired_difference",
    "paired_difference_moments",
    "paired_family",
    "random_effects_pool",
    "reliability_icc",
    "sign_flip_test",
    "switch",
    "tost",
    "trajectory_pairs",
    "wild_cluster_test",
]
