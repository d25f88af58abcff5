"""What coherence means: pure functions of arrays, and the belief table. No torch, no files, no models.

A folder holds a family of metrics that ask one question; `inference` holds the statistics that all of them use.
Every public name can be imported from here or from its family.
"""

from . import bayes, bscore, consistency, decision, inference, martingale, whitebox
from .bayes import *
from .beliefs import COLUMNS, INNER_KINDS, KINDS, STATUSES, belief_table, check_belief_table
from .bscore import *
from .consistency import *
from .decision import *
from .divergence import entropy_bits, jsd, jsd_chain, jsd_leak
from .inference import *
from .martingale import *
from .score import Score
from .whitebox import *

__all__ = [
    "COLUMNS",
    "INNER_KINDS",
    "KINDS",
    "STATUSES",
    "Score",
    "belief_table",
    "check_belief_table",
    "entropy_bits",
    "jsd",
    "jsd_chain",
    "jsd_leak",
]
__all__ += inference.__all__
__all__ += martingale.__all__
__all__ += consistency.__all__
__all__ += bscore.__all__
__all__ += bayes.__all__
__all__ += decision.__all__
__all__ += whitebox.__all__
