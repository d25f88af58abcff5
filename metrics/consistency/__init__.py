"""Does the ratio of two options survive the rejection of a third? (METRICS B)"""

from .rejection import *
from .sampling_bias import *

__all__ = ["ChanceCorrected", "Consistency", "ConsistencyKappa", "InvalidAssociation", "LogoddsChange", "RatioBounds"]
__all__ += ["Switch", "belief_consistency", "calibration_consistency", "chance_corrected", "consistency_kappa"]
__all__ += ["counts_to_probabilities", "expected_jsd_binomial", "invalid_association"]
__all__ += ["jsd_plugin_bias", "ratio_bounds", "readout_agreement", "rms_logodds_change", "switch"]
