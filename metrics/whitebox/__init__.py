"""From log-probabilities to beliefs, and whether an inner read-out may be called one (METRICS G, W)"""

from ..consistency.competence import *
from ..consistency.evidence_response import *
from .detectors import *
from .gates import ReadoutGate, WordIdentityNull, readout_gate, word_identity_null
from .readout import *
from .transfer import *

__all__ = ["CONDITIONS", "RARE", "UNREADABLE", "BeliefGate", "Condition", "Detection", "DetectorPart", "DetectorReads"]
__all__ += ["EvidenceSlope", "ForkCoherence", "Judgement", "detection", "detection_gain", "detector_reads"]
__all__ += ["DirectionSimilarity", "mahalanobis_cosine"]
__all__ += ["KappaWord", "LogprobBelief", "MappedTransfer", "Persistence", "QueryEffect", "ReadoutGate", "Responding"]
__all__ += ["RespondingShare", "TransferFraction", "TransferMap", "WordIdentityNull", "belief_from_logprobs"]
__all__ += ["belief_gate", "evidence_responding", "evidence_slope", "fork_coherence", "framing_bias"]
__all__ += ["items_responding", "kappa_word", "persistence", "query_effect", "readable", "readout_gate"]
__all__ += ["responding_share", "responds", "transfer_fraction", "transfer_map", "word_identity_null"]
