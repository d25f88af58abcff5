"""What a causal check claims, each with its falsifier, and what it says of the criterion of use (PROBES 9, 11)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...base.text import shown
from ...metrics.consistency.evidence_response import MOST
from ...metrics.contract import Score
from ...metrics.inference.intervals import t_interval
from ...metrics.inference.means import Ratio
from ...metrics.inference.regression import Contrast
from ...metrics.whitebox.transfer import TransferFraction
from ..report_card import Claim, ClaimJudge, Verdict, weakest
from ..report_card import told as told_fit
from .erasure import ErasedBy, erasures
from .plan import EXACT, OUTCOMES, PROBE, Arm, CausalData, CausalPlan
from .steering import (
    Control,
    DoseResponse,
    OffTarget,
    RandomBand,
    Surgery,
    causal_gain,
    control,
    dose_response,
    enough,
    off_target,
    per_dose,
    random_band,
    surgery,
    swapped,
)

NEEDED_FOR_USE = (
    "causal gain",
    "dose response",
    "beyond random directions",
    "beyond another concept",
    "at its position",
    "off target",
)
"""The claims without which what a probe reads is not called used."""
FALSIFIER = "a needed claim of the causal check fails: " + ", ".join(NEEDED_FOR_USE)


class CausalNumbers(NamedTuple):
    """The numbers of a causal check."""

    gains: dict[str, Ratio]
    """Direction -> causal gain, the registered one first."""
    response: DoseResponse
    band: RandomBand | None
    controls: dict[str, Control]
    """`unrelated`, `layer`, `position`, those that were given."""
    slopes: dict[str, Ratio]
    """Outcome -> change for each standard deviation of the registered direction."""
    swapped: TransferFraction | None
    off_target: OffTarget | None
    erased: dict[str, ErasedBy]
    surgery: Surgery | None


def claims(numbers: CausalNumbers, n_groups: int, plan: CausalPlan) -> tuple[Claim, ...]:
    """All claims, those first that the criterion of use needs."""
    judge = ClaimJudge(n_groups, plan.thresholds.groups)
    # Tau's interval takes the direction as known, and tau is 1 of any effect, however small: a dose response is shown
    # where the gain, whose interval carries the estimation, is shown, too, and spoken against where that is none.
    gain, trend, band, off = numbers.gains[plan.directions[0]], numbers.response.trend, numbers.band, numbers.off_target
    share = numbers.response.share
    others = "; ".join(f"along the {name} {told(gain_of)}" for name, gain_of in list(numbers.gains.items())[1:])
    claims_of = [
        judge(
            "causal gain",
            "the exact belief follows what the probe reads",
            f"the interval of the causal gain reaches {plan.thresholds.gain:g}",
            gain.ci_lo > plan.thresholds.gain,
            f"gain {told(gain)}" + (f"; {others}" if others else ""),
            against=gain.ci_hi < plan.thresholds.gain,
        ),
        judge(
            "dose response",
            "more of the direction, more belief",
            "the interval of Kendall's tau within contexts reaches 0, that of the causal gain does or lies below "
            f"{plan.thresholds.gain:g}, that of the share of contexts that rise, less those that fall, reaches "
            f"{MOST:g}, or the mean turns back by more than {plan.thresholds.reversal:.0%} of its range",
            trend.ci_lo > 0
            and share.ci_lo > MOST
            and numbers.response.reversal <= plan.thresholds.reversal
            and gain.ci_lo > 0
            and gain.ci_hi >= plan.thresholds.gain,
            f"tau {told(trend)}; net share of contexts {share.withheld or told(share)}; the mean turns back by "
            f"{numbers.response.reversal:.0%} of its range; gain {told(gain)}",
            against=trend.ci_hi <= 0 and gain.ci_hi < plan.thresholds.gain,
        ),
        judge(
            "beyond random directions",
            f"at most {1 - plan.level:.0%} of random directions of the same length do as much",
            f"the effect lies where {plan.level:.0%} of {plan.random} directions lie that are drawn from the "
            "activations' covariance",
            band.outside if band is not None and enough(len(band.effects), plan.level) else None,
            "no random direction was tried"
            if band is None
            else f"effect {band.effect:+.3f} nat at {plan.dose:g} SD, {plan.level:.0%} of {len(band.effects)} random "
            f"directions within ±{band.half:.3f} in {band.n_contexts} contexts, p {band.p:.3g}",
            against=band is not None and band.effect < -band.half,
        ),
        _more(judge, "beyond another concept", "unrelated", "the direction of another concept", numbers, plan),
        _more(judge, "at its position", "position", "the same at the wrong token", numbers, plan),
        judge(
            "off target",
            "on neutral prompts it does not stand out among random directions",
            f"the mean KL after neutral prompts exceeds what {plan.level:.0%} of the random directions stay below",
            off.kl <= off.bound if off is not None and enough(off.n_random, plan.level) else None,
            "no neutral prompt was read under enough random directions"
            if off is None or not off.n_random
            else f"{off.kl:.4f} nat; random {off.median:.4f}, bound {off.bound:.4f}; {off.n_prompts} prompts",
            against=True,
        ),
        _more(judge, "at its layer", "layer", "the same at the wrong layer", numbers, plan),
        *(
            _moves(judge, numbers, name, what)
            for name, what in (("action", "what is done"), ("verbal", "what is said"))
        ),
        *_blinds(judge, numbers, plan),
        _obeys(judge, numbers.surgery, plan),
    ]
    return tuple(claims_of)


def use(claims_of: Sequence[Claim]) -> Verdict:
    """Of the criterion of use: as weak as the weakest claim that it needs."""
    return weakest([claim.verdict for claim in claims_of if claim.name in NEEDED_FOR_USE])


def told(score: Score) -> str:
    """A number with its interval."""
    return _told(score.estimate, score.ci_lo, score.ci_hi)


def told_slope(slope: Contrast, level: float) -> str:
    """A slope with its interval."""
    lo, hi = t_interval(slope.estimate, slope.se, slope.df, level)
    return _told(slope.estimate, lo, hi)


def _told(value: float, lo: float, hi: float) -> str:
    return f"{shown(value)} {f'[{shown(lo)}, {shown(hi)}]' if np.isfinite(lo) else '(no interval)'}"


def _more(judge: ClaimJudge, name: str, key: str, what: str, numbers: CausalNumbers, plan: CausalPlan) -> Claim:
    claim = f"it moves beliefs more than {what}"
    falsifier = f"the interval of the difference at {plan.dose:g} SD reaches 0"
    control = numbers.controls.get(key)
    if control is None:
        return judge(name, claim, falsifier, None, "none was given")
    evidence = f"{told(control.more)} nat more; {what} {told(control.effect)}"
    return judge(name, claim, falsifier, control.more.ci_lo > 0, evidence, against=control.more.ci_hi <= 0)


def _moves(judge: ClaimJudge, numbers: CausalNumbers, name: str, what: str) -> Claim:
    claim, falsifier = f"{what} follows", f"the interval of the change of {what} for each SD reaches 0"
    slope = numbers.slopes.get(name)
    if slope is None:
        return judge(f"moves the {name}", claim, falsifier, None, "it was not asked for")
    evidence = f"{told(slope)} for each SD"
    return judge(f"moves the {name}", claim, falsifier, slope.ci_lo > 0, evidence, against=slope.ci_hi <= 0)


def _blinds(judge: ClaimJudge, numbers: CausalNumbers, plan: CausalPlan) -> list[Claim]:
    blind = "a probe fitted on these contexts no longer finds what it is of"
    left = plan.thresholds.left
    reaches = (
        f"at the place or after the last block, the interval of R2 reaches {left:g}, or that of its fall reaches 0"
    )
    behave = "the belief depends less on what the probe is of"
    slopes = "the interval of the slope before, or of its fall, or that of its sum with the slope after, reaches 0"
    erasure = numbers.erased.get("leace")
    if erasure is None:
        why = "nothing was erased: there is no target, or too few groups"
        return [
            judge("erasure blinds", blind, reaches, None, why),
            judge("erasure changes behaviour", behave, slopes, None, why),
        ]
    evidence = "; ".join(
        f"{place} R2 {shown(before.value)} before, {told_fit(after)} after, fall {told_fit(fall)}"
        for place, (before, after, fall) in erasure.decoded.items()
    )
    blinded = all(fall.lo > 0 and after.hi < left for _, after, fall in erasure.decoded.values())
    sees = any(fall.hi <= 0 or after.lo >= left for _, after, fall in erasure.decoded.values())
    told_of = "; ".join(
        f"{outcome} {told_slope(dependence.before, plan.level)} to {told_slope(dependence.after, plan.level)}"
        for outcome, dependence in erasure.depends.items()
    )
    changed = erasure.depends[EXACT]
    sign = -1.0 if changed.before.estimate < 0 else 1.0
    bounds = [t_interval(sign * erasure.estimate, erasure.se, erasure.df, plan.level) for erasure in changed.weaker]
    lo, hi = bounds[1]
    less = all(low > 0 for low, _ in bounds)
    evidence_of_change = f"{told_of}; fall {_told(sign * changed.fall.estimate, lo, hi)}"
    return [
        judge("erasure blinds", blind, reaches, blinded, evidence, against=sees),
        judge("erasure changes behaviour", behave, slopes, less, evidence_of_change, against=hi <= 0),
    ]


def _obeys(judge: ClaimJudge, surgery: Surgery | None, plan: CausalPlan) -> Claim:
    claim = "set to p, the exact belief is what Bayes' rule makes of p"
    margin, most = plan.thresholds.obeys, plan.thresholds.error
    falsifier = (
        f"the interval of the slope on the log-odds that are asked for reaches beyond 1 ± {margin:g}, or that of the "
        f"mean distance from the posterior {most:g}"
    )
    if surgery is None:
        return judge("surgery", claim, falsifier, None, "no belief was set")
    acts = f"; the action loses {told(surgery.regret)} of the stake" if surgery.regret else ""
    evidence = f"slope {told(surgery.exact)}; mean error {told(surgery.error)}{acts}"
    obeys = 1 - margin <= surgery.exact.ci_lo and surgery.exact.ci_hi <= 1 + margin and surgery.error.ci_hi < most
    beyond = surgery.exact.ci_hi < 1 - margin or surgery.exact.ci_lo > 1 + margin or surgery.error.ci_lo >= most
    return judge("surgery", claim, falsifier, obeys, evidence, against=beyond)


# From what was read under interventions to numbers, claims and a verdict.


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
        controls={name: compared for name, arm in arms.items() if (compared := control(data, arm, plan))},
        slopes={name: per_dose(data, name, plan) for name in outcomes},
        swapped=swapped(data, plan),
        off_target=off_target(data, plan),
        erased=erasures(data, plan),
        surgery=surgery(data, plan, float(np.nanmean(data.effect(steered, PROBE))) / plan.dose),
    )
    n_groups = len(set(data.groups.tolist()))
    claims_of = claims(numbers, min(n_groups, numbers.gains[first].n_clusters), plan)
    return CausalCheck(numbers, claims_of, use(claims_of), len(data.groups), n_groups)
