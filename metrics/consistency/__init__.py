"""Does the ratio of two options survive the rejection of a third? (METRICS B)"""

from .rejection import (
    Consistency,
    InvalidAssociation,
    LogoddsChange,
    RatioBounds,
    Switch,
    belief_consistency,
    calibration_consistency,
    counts_to_probabilities,
    invalid_association,
    ratio_bounds,
    readout_agreement,
    rms_logodds_change,
    switch,
)
from .sampling_bias import (
    ChanceCorrected,
    ConsistencyKappa,
    chance_corrected,
    consistency_kappa,
    expected_entropy_binomial,
    expected_jsd_binomial,
    jsd_plugin_bias,
)

__all__ = [
    "ChanceCorrected",
    "Consistency",
    "ConsistencyKappa",
    "InvalidAssociation",
    "LogoddsChange",
    "RatioBounds",
    "Switch",
    "belief_consistency",
    "calibration_consistency",
    "chance_corrected",
    "consistency_kappa",
    "counts_to_probabilities",
    "expected_entropy_binomial",
    "expected_jsd_binomial",
    "invalid_association",
    "jsd_plugin_bias",
    "ratio_bounds",
    "readout_agreement",
    "rms_logodds_change",
    "switch",
]
