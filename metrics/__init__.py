"""What coherence means: pure functions of arrays, and the belief table; from tables to scores. No torch and no
models.

A folder holds a family of metrics that ask one question; `inference` holds the statistics that all of them use. A file
`<family>/*_metrics.py` says which columns its functions take and what is read beside a number; `tables`, `forms` and
`scoring` are imported by those who need them. Every public function can be imported from here or from its family.
"""

from . import bayes, bscore, consistency, decision, inference, martingale, whitebox
from .bayes import *
from .beliefs import COLUMNS, INNER_KINDS, KINDS, STATUSES, belief_table, check_belief_table
from .bscore import *
from .consistency import *
from .contract import Resampling, Score
from .decision import *
from .divergence import entropy_bits, jsd, jsd_leak
from .inference import *
from .martingale import *
from .whitebox import *

__all__ = ["COLUMNS", "INNER_KINDS", "KINDS", "STATUSES", "Resampling", "Score", "belief_table", "check_belief_table"]
__all__ += ["entropy_bits", "jsd", "jsd_leak"]
__all__ += inference.__all__
__all__ += martingale.__all__
__all__ += consistency.__all__
__all__ += bscore.__all__
__all__ += bayes.__all__
__all__ += decision.__all__
__all__ += whitebox.__all__

# Imported last, for what they register.
from .bayes import evidence_metrics, learning_metrics  # noqa: E402, F401
from .bscore import answer_metrics  # noqa: E402, F401
from .consistency import chain_metrics, reading_metrics, rejection_metrics, standing_metrics  # noqa: E402, F401
from .decision import action_metrics, forecast_metrics, label_metrics, law_metrics, related_metrics  # noqa: E402, F401
from .martingale import cell_metrics, update_metrics  # noqa: E402, F401
from .whitebox import readout_metrics  # noqa: E402, F401
