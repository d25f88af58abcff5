"""Does an answer become rarer once the model has seen itself give it? (METRICS C)"""

from .answers import *
from .settling import SettlingTurn, TurnSlope, settling_turn, turn_slopes
from .verification import *

__all__ = ["BScore", "ExactBScore", "ExcessBScore", "HeldOutVerification", "SettlingTurn", "ThresholdSearch"]
__all__ += ["TopBScore", "TurnSlope", "Verification", "VerificationBaselines"]
__all__ += ["argmax_accuracy", "b_score", "b_score_exact", "b_score_excess", "mean_abs_b_score", "settling_turn"]
__all__ += ["threshold_search", "top_b_score", "top_b_score_null_bias", "turn_slopes"]
__all__ += ["verification_accuracy", "verification_auroc", "verification_baselines", "verification_held_out"]
