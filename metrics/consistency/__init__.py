"""Does the ratio of two options survive the rejection of a third? (METRICS B)"""

from .faithfulness import Faithfulness, chain_faithfulness
from .organism_claims import ClaimedFacet, ClaimVerdict, claim_verdict, fewest_readings
from .rejection import *
from .sampling_bias import *

__all__ = ["ChanceCorrected", "Consistency", "ConsistencyKappa", "Faithfulness", "InvalidAssociation", "LogoddsChange"]
__all__ += ["RatioBounds", "Switch", "belief_consistency", "calibration_consistency", "chain_faithfulness"]
__all__ += ["chance_corrected", "consistency_kappa", "counts_to_probabilities", "expected_jsd_binomial"]
__all__ += ["invalid_association", "jsd_plugin_bias", "ratio_bounds", "readout_agreement", "rms_logodds_change"]
__all__ += ["switch"]
__all__ += ["ClaimVerdict", "ClaimedFacet", "claim_verdict", "fewest_readings"]
