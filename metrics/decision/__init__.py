"""Do actions use the belief that is stated, and only that? (METRICS E)"""

from .choice import *
from .monotone import *
from .multiclass import *
from .prediction import LoglossImprovement, isotonic_calibration, logloss_improvement
from .probability_laws import DutchBook, Lie, MedianCi, bet_payoffs, dutch_book, lie, median_ci
from .related_questions import RELATIONS, Relation, arbitrage, frequentist_violation
from .strata import *
from .sufficiency import KnnCmi, LatentKnowledge, MonotoneSufficiency, knn_cmi, latent_knowledge, monotone_sufficiency

__all__ = ["CalibrationError", "CmhTest", "Cmi", "CyclicMonotonicity", "DutchBook", "GcmTest", "KnnCmi"]
__all__ += ["LatentKnowledge", "Lie", "LoglossImprovement", "MedianCi", "MonotonePairwise", "MonotoneShares"]
__all__ += ["MonotoneSufficiency", "OptionScores", "OrderEffect", "OrderTest", "PermutationCmi", "PrizeIndependence"]
__all__ += ["ProbabilityWeighting", "ReliabilityBin", "SufficiencyR2", "bet_payoffs", "calibration_error", "cmh_test"]
__all__ += ["cyclic_monotonicity", "dutch_book", "gcm_test", "indifference_point", "isotonic_calibration", "knn_cmi"]
__all__ += ["latent_knowledge", "lie", "logloss_improvement", "median_ci", "menu_shift", "monotone_exact_shares"]
__all__ += ["monotone_order_test", "monotone_pairwise", "monotone_sufficiency", "option_losses", "option_scores"]
__all__ += ["order_effect", "plugin_cmi", "prize_independence", "probability_weighting", "quantile_bins"]
__all__ += ["rao_blackwell_cmi", "stratified_permutation", "sufficiency_r2"]
__all__ += ["RELATIONS", "Relation", "arbitrage", "frequentist_violation"]
