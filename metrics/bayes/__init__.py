"""Is an update the one that Bayes' rule asks for, and what does a user's testimony do to it? (METRICS D)"""

from .learning import BayesCoherence, InformationGap, bayes_coherence, information_gap
from .noise_floor import BayesNoiseFloor, BeyondFloor, bayes_noise_floor, beyond_floor
from .posterior import *
from .sycophancy import *

__all__ = ["BayesError", "BayesNoiseFloor", "BayesPosterior", "BeyondFloor", "ChangeCorrelation", "CoherentPosterior"]
__all__ += ["Direction", "DirectionRates", "GretherRegression", "LicensedExcess", "LicensedPosterior"]
__all__ += ["PairedSignificance", "PyBounds", "SycophancyChange", "SycophancyError", "bayes_error", "bayes_noise_floor"]
__all__ += ["bayes_posterior", "beyond_floor", "brier_vs_bayes_correlation", "coherent_posterior", "direction"]
__all__ += ["direction_rates", "grether_regression", "hybrid_probability", "licensed_excess", "licensed_posterior"]
__all__ += ["paired_significance", "py_bounds", "sycophancy_change", "sycophancy_error"]
__all__ += ["BayesCoherence", "InformationGap", "bayes_coherence", "information_gap"]
