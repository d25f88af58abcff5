"""Can the direction of an update be predicted before it happens? (METRICS A)"""

from ..inference.agreement import Agreement, judge_agreement
from .attenuation import *
from .brier import *
from .conditional_moments import *
from .contrasts import *
from .slope import *
from .trajectories import *

__all__ = ["Agreement", "BinnedUpdates", "Brier", "BrierRegression", "BrierUpdate", "CalibrationSlope"]
__all__ += ["ConditionalMoment", "CorrectedSlope", "Disattenuated", "Drift", "DriftBound", "FactorRegression"]
__all__ += ["JointTest", "MartingaleIV", "MartingaleScore", "MartingaleTests", "MartingaleWithin", "SlopeDifference"]
__all__ += ["SplitRegression", "Term", "TrajectoryPairs", "binned_updates", "brier", "brier_on_abs_martingale"]
__all__ += ["brier_on_split_martingale", "brier_update", "calibration_slope", "corrected_slope", "disattenuated_slope"]
__all__ += ["drift_bound", "drift_covariance", "drift_variance", "factor_regression", "hindsight_slope"]
__all__ += ["judge_agreement", "martingale_icm_test", "martingale_iv", "martingale_joint_test", "martingale_moments"]
__all__ += ["martingale_score", "martingale_slope", "martingale_tests", "martingale_within", "paired_slope_difference"]
__all__ += ["trajectory_pairs"]
