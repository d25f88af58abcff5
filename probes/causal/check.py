"""From what was read under interventions to numbers, claims and a verdict."""

from dataclasses import dataclass

import numpy as np

from ..card.claims import Claim, Verdict
from .claims import CausalNumbers, claims, use
from .data import OUTCOMES, PROBE, Arm, CausalData
from .effects import causal_gain, control, dose_response, off_target, per_dose, random_band, swapped
from .erased import erasures
from .plan import CausalPlan
from .surgery import surgery


@dataclass(frozen=True)
class CausalCheck:
    """What a causal check found."""

    numbers: CausalNumbers
    claims: tuple[Claim, ...]
    used: Verdict
    """Of the criterion of use (Herrmann and Levinstein 2024): whether what the probe reads is what the model uses."""
    n_contexts: int
    n_groups: int

    def verdict(self, name: str) -> Verdict:
        """Of a claim by its name."""
        return next(claim.verdict for claim in self.claims if claim.name == name)


def judged(data: CausalData, plan: CausalPlan) -> CausalCheck:
    """The numbers and the claims of what was read."""
    first = plan.directions[0]
    outcomes = [name for name in OUTCOMES if data.asked(name)]
    steered = Arm("steer", first, plan.dose)
    arms = {
        "unrelated": Arm("unrelated", "", plan.dose),
        "layer": Arm("layer", "", plan.dose),
        "position": Arm("position", "", plan.dose),
    }
    numbers = CausalNumbers(
        gains={name: causal_gain(data, name, plan) for name in plan.directions},
        response=dose_response(data, outcomes, plan),
        band=random_band(data, plan),
        controls={name: one for name, arm in arms.items() if (one := control(data, arm, plan))},
        slopes={name: per_dose(data, name, plan) for name in outcomes},
        swapped=swapped(data, plan),
        off_target=off_target(data, plan),
        erased=erasures(data, plan),
        surgery=surgery(data, plan, float(np.nanmean(data.effect(steered, PROBE))) / plan.dose),
    )
    n_groups = len(set(data.groups.tolist()))
    made = claims(numbers, min(n_groups, numbers.gains[first].n_clusters), plan)
    return CausalCheck(numbers, made, use(made), len(data.groups), n_groups)
