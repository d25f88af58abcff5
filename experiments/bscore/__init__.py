"""Does the answer bend to the model's own history? (METRICS C; b-score)"""

from .config import BScoreConfig
from .experiment import BScoreExperiment

__all__ = ["BScoreConfig", "BScoreExperiment"]
