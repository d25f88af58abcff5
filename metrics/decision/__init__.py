"""Do actions use the belief that is stated, and only that? (METRICS E)"""

from .choice import (
    CyclicMonotonicity,
    ProbabilityWeighting,
    cyclic_monotonicity,
    menu_shift,
    probability_weighting,
)
from .dutch_book import DutchBook, bet_payoffs, dutch_book
from .iterated_expectation import Lie, MedianCi, lie, median_ci
from .knn import KnnCmi, knn_cmi
from .monotone import (
    MonotonePairwise,
    MonotoneShares,
    OrderTest,
    monotone_exact_shares,
    monotone_order_test,
    monotone_pairwise,
)
from .multiclass import (
    CalibrationError,
    OptionScores,
    OrderEffect,
    ReliabilityBin,
    calibration_error,
    option_losses,
    option_scores,
    order_effect,
)
from .prediction import LoglossImprovement, isotonic_calibration, logloss_improvement
from .prize import PrizeIndependence, prize_independence
from .strata import (
    CmhTest,
    Cmi,
    GcmTest,
    PermutationCmi,
    SufficiencyR2,
    cmh_test,
    gcm_test,
    plugin_cmi,
    quantile_bins,
    rao_blackwell_cmi,
    stratified_permutation,
    sufficiency_r2,
)
from .sufficiency import (
    LatentKnowledge,
    MonotoneSufficiency,
    latent_knowledge,
    monotone_sufficiency,
)

__all__ = [
    "CalibrationError",
    "CmhTest",
    "Cmi",
    "CyclicMonotonicity",
    "DutchBook",
    "GcmTest",
    "KnnCmi",
    "LatentKnowledge",
    "Lie",
    "LoglossImprovement",
    "MedianCi",
    "MonotonePairwise",
    "MonotoneShares",
    "MonotoneSufficiency",
    "OptionScores",
    "OrderEffect",
    "OrderTest",
    "PermutationCmi",
    "PrizeIndependence",
    "ProbabilityWeighting",
    "ReliabilityBin",
    "SufficiencyR2",
    "bet_payoffs",
    "calibration_error",
    "cmh_test",
    "cyclic_monotonicity",
    "dutch_book",
    "gcm_test",
    "isotonic_calibration",
    "knn_cmi",
    "latent_knowledge",
    "lie",
    "logloss_improvement",
    "median_ci",
    "menu_shift",
    "monotone_exact_shares",
    "monotone_order_test",
    "monotone_pairwise",
    "monotone_sufficiency",
    "option_losses",
    "option_scores",
    "order_effect",
    "plugin_cmi",
    "prize_independence",
    "probability_weighting",
    "quantile_bins",
    "rao_blackwell_cmi",
    "stratified_permutation",
    "sufficiency_r2",
]
