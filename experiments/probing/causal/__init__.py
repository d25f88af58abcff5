"""Causal checks of probes: contexts, interventions, and what they change."""

from ....probes.causal.claims import CausalCheck
from ....probes.causal.plan import CausalPlan, CausalThresholds
from .check import causal_check
from .contexts import Background, CausalContext, CausalPlace, CausalQuestion, WithoutFold

__all__ = ["Background", "CausalCheck", "CausalContext", "CausalPlace", "CausalPlan", "CausalQuestion"]
__all__ += ["CausalThresholds", "WithoutFold", "causal_check"]
