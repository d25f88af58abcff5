"""Do actions use the belief that is stated, and only that? (METRICS E)"""

from .dutch_book import DutchBook, dutch_book
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

__all__ = [
    "CmhTest",
    "Cmi",
    "DutchBook",
    "GcmTest",
    "KnnCmi",
    "Lie",
    "LoglossImprovement",
    "MedianCi",
    "MonotonePairwise",
    "MonotoneShares",
    "OrderTest",
    "PermutationCmi",
    "PrizeIndependence",
    "SufficiencyR2",
    "cmh_test",
    "dutch_book",
    "gcm_test",
    "isotonic_calibration",
    "knn_cmi",
    "lie",
    "logloss_improvement",
    "median_ci",
    "monotone_exact_shares",
    "monotone_order_test",
    "monotone_pairwise",
    "plugin_cmi",
    "prize_independence",
    "quantile_bins",
    "rao_blackwell_cmi",
    "stratified_permutation",
    "sufficiency_r2",
]
