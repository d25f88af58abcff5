"""From log-probabilities to beliefs, and whether an inner read-out may be called one (METRICS G, W)"""

from .fork import ForkCoherence, fork_coherence
from .gates import CompetenceGate, ReadoutGate, WordIdentityNull, competence_gate, readout_gate, word_identity_null
from .query import QueryEffect, query_effect
from .readout import LogprobBelief, belief_from_logprobs, framing_bias
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
    "CompetenceGate",
    "ForkCoherence",
    "LogprobBelief",
    "MappedTransfer",
    "Persistence",
    "QueryEffect",
    "ReadoutGate",
    "TransferFraction",
    "TransferMap",
    "WordIdentityNull",
    "belief_from_logprobs",
    "competence_gate",
    "fork_coherence",
    "framing_bias",
    "persistence",
    "query_effect",
    "readout_gate",
    "transfer_fraction",
    "transfer_map",
    "word_identity_null",
]
