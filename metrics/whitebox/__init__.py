"""From log-probabilities to beliefs, and whether an inner read-out may be called one (METRICS G, W)"""

from ..consistency.competence import (
    CONDITIONS,
    NOT_A_BELIEF,
    RARE,
    BeliefGate,
    Condition,
    KappaWord,
    belief_gate,
    kappa_word,
)
from ..consistency.evidence_response import (
    EvidenceSlope,
    Responding,
    evidence_responding,
    evidence_slope,
    items_responding,
)
from .gates import ReadoutGate, WordIdentityNull, readout_gate, word_identity_null
from .readout import (
    ForkCoherence,
    LogprobBelief,
    QueryEffect,
    belief_from_logprobs,
    fork_coherence,
    framing_bias,
    query_effect,
)
from .transfer import (
    MappedTransfer,
    Persistence,
    TransferFraction,
    TransferMap,
    persistence,
    transfer_fraction,
    transfer_map,
)

__all__ = [
    "CONDITIONS",
    "NOT_A_BELIEF",
    "RARE",
    "BeliefGate",
    "Condition",
    "EvidenceSlope",
    "ForkCoherence",
    "KappaWord",
    "LogprobBelief",
    "MappedTransfer",
    "Persistence",
    "QueryEffect",
    "ReadoutGate",
    "Responding",
    "TransferFraction",
    "TransferMap",
    "WordIdentityNull",
    "belief_from_logprobs",
    "belief_gate",
    "evidence_responding",
    "evidence_slope",
    "fork_coherence",
    "framing_bias",
    "items_responding",
    "kappa_word",
    "persistence",
    "query_effect",
    "readout_gate",
    "transfer_fraction",
    "transfer_map",
    "word_identity_null",
]
