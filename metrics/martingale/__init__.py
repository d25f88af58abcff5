"""Can the direction of an update be predicted before it happens? (METRICS A)"""

from .agreement import Agreement, judge_agreement
from .attenuation import (
    CorrectedSlope,
    Disattenuated,
    MartingaleIV,
    corrected_slope,
    disattenuated_slope,
    hindsight_slope,
    martingale_iv,
)
from .battery import MartingaleTests, martingale_tests
from .drift import Drift, DriftBound, drift_bound, drift_covariance, drift_variance
from .factors import FactorRegression, Term, factor_regression
from .icm import BinnedUpdates, ConditionalMoment, binned_updates, martingale_icm_test
from .paired import SlopeDifference, paired_slope_difference
from .scoring import Brier, BrierRegression, BrierUpdate, brier, brier_on_abs_martingale, brier_update
from .slope import (
    CalibrationSlope,
    JointTest,
    MartingaleScore,
    calibration_slope,
    martingale_joint_test,
    martingale_moments,
    martingale_score,
    martingale_slope,
)
from .split import SplitRegression, brier_on_split_martingale
from .trajectories import TrajectoryPairs, trajectory_pairs
from .within import MartingaleWithin, martingale_within

__all__ = [
    "Agreement",
    "BinnedUpdates",
    "Brier",
    "BrierRegression",
    "BrierUpdate",
    "CalibrationSlope",
    "ConditionalMoment",
    "CorrectedSlope",
    "Disattenuated",
    "Drift",
    "DriftBound",
    "FactorRegression",
    "JointTest",
    "MartingaleIV",
    "MartingaleScore",
    "MartingaleTests",
    "MartingaleWithin",
    "SlopeDifference",
    "SplitRegression",
    "Term",
    "TrajectoryPairs",
    "binned_updates",
    "brier",
    "brier_on_abs_martingale",
    "brier_on_split_martingale",
    "brier_update",
    "calibration_slope",
    "corrected_slope",
    "disattenuated_slope",
    "drift_bound",
    "drift_covariance",
    "drift_variance",
    "factor_regression",
    "hindsight_slope",
    "judge_agreement",
    "martingale_icm_test",
    "martingale_iv",
    "martingale_joint_test",
    "martingale_moments",
    "martingale_score",
    "martingale_slope",
    "martingale_tests",
    "martingale_within",
    "paired_slope_difference",
    "trajectory_pairs",
]
