"""What coherence means: pure functions of arrays, and the belief table. No torch, no files, no models."""

from .beliefs import COLUMNS, KINDS, STATUSES, belief_table, check_belief_table
from .consistency import (
    Consistency,
    ExclusionBounds,
    Switch,
    belief_consistency,
    counts_to_probabilities,
    exclusion_bounds,
    switch,
)
from .divergence import entropy_bits, jsd, jsd_chain, jsd_leak
from .resampling import ClusterMean, bootstrap_moments, bootstrap_rows, cluster_mean
from .score import Score

__all__ = [
    "COLUMNS",
    "KINDS",
    "STATUSES",
    "ClusterMean",
    "Consistency",
    "ExclusionBounds",
    "Score",
    "Switch",
    "belief_consistency",
    "belief_table",
    "bootstrap_moments",
    "bootstrap_rows",
    "check_belief_table",
    "cluster_mean",
    "counts_to_probabilities",
    "entropy_bits",
    "exclusion_bounds",
    "jsd",
    "jsd_chain",
    "jsd_leak",
    "switch",
]
