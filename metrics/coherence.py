"""Whether one number shows coherence (METRICS W4): what a coherent belief has, and what else it may be taken for."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..base.text import shown
from .consistency.competence import NOT_SHOWN
from .contract import NAN
from .inference.equivalence import MARGINS, CoherenceClaim, Equivalence, claim_clusters
from .inference.planning import SPREADS
from .metric import WORTH_BOUNDS
from .number import Number, interval_text, status_text
from .registration import Registered, equivalence_to
from .tables.samples import ALL

COHERENT, INCOHERENT = "coherent", "incoherent"


class Ends(NamedTuple):
    """Two agents that need no reading."""

    coherent: float
    """The number of who is coherent."""
    constant: float
    """The number of a belief that is the same whatever it is told: .5, or the same for every option."""
    margin: str = ""
    """Its default one (`MARGINS`), where the metric has no test of its own."""


COHERENCE: Mapping[str, Ends] = {
    "c2": Ends(1, 1),
    "c3": Ends(1, 0.8091254953788901),  # (1/2, 1/2, 0) before, (1/3, 1/3, 1/3) after
    "kappa_word": Ends(1, 0),
    "rms_logodds": Ends(0, 0),
    "M": Ends(0, NAN, "martingale"),
    "framing_bias": Ends(0, 0),
    "framing_logodds": Ends(0, 0),
    "excess": Ends(0, 0, "logodds"),
    "b_excess": Ends(0, 0, "b_score"),
    "top_b": Ends(0, 0, "b_score"),
    "lie": Ends(0, 0),
    "lie_logodds": Ends(0, 0),
    "dutch_book_complement": Ends(0, 0),
    "dutch_book_cases": Ends(0, 0),
    "dutch_book_rejection": Ends(0, 400 / 9),
}
"""Numbers of coherence, those first that the noise of a reading moves least: what a coherent belief has, and what a
constant one has. NaN: it has none."""
UPPER_BOUNDS = frozenset({"sufficiency"})
"""Numbers whose coherent value is the most that there can be: utilities that vary between contexts lower them as
incoherence does, so that less is `not shown` and never `incoherent` (METRICS E4)."""


@dataclass(frozen=True, kw_only=True)
class Coherent:
    """Whether one number shows coherence (METRICS W4): a result of what can be read, and no condition of it."""

    state: str
    """`coherent`: shown to lie within the margin, by two one-sided tests or by the bounds of a claim. `incoherent`: its
    whole interval lies `beyond`. Else `not shown`."""
    metric: str
    called: str
    """The metric in words."""
    value: float
    ci_lo: float
    ci_hi: float
    target: float
    """Its value for a coherent belief."""
    margin: float
    constant: float
    """Its value for a constant belief; NaN: it has none, or it is not known."""
    missing: float = 0.0
    """Share of the rows that are missing, where they might have shown otherwise."""
    otherwise: str = ""
    """What shows otherwise, where the number is within its margin: a form of the question, or a number beside it."""
    why: str = ""
    """Why it is neither, where nothing shows otherwise and no row is missing."""

    @property
    def seen(self) -> str:
        """The number, what was asked of it, and what it is beside."""
        same = shown(self.constant) == shown(self.target)
        beside = (
            ""
            if math.isnan(self.constant)
            else f"; a belief of even odds everywhere would have {shown(self.constant)}{' as well' if same else ''}"
        )
        interval = interval_text(self.ci_lo, self.ci_hi)
        asked = f"a coherent belief has {self.target:g} ± {self.margin:g}"
        lacking = f"; {self.missing:.0%} of its rows are missing" if self.missing else ""
        said = f"{self.called} {shown(self.value)} {interval}".rstrip()
        return f"{said}; {asked}{beside}{lacking}{self.otherwise}" + (f"; {self.why}" if self.why else "")


class Guard(NamedTuple):
    """What a number of coherence cannot see, and another of the same readings does."""

    metric: str
    most: float = math.inf
    """It shows otherwise where its whole interval lies farther from 0: its margin, and of a size what noise makes."""
    least: float = -math.inf
    """It shows otherwise where its interval does not lie above this."""


SIZE_OF_NOISE = 0.085  # mean size of the difference of two readings of one half, each off by .3 nat
GUARDS: Mapping[str, Guard] = {
    "c2": Guard("kappa", least=0.0),
    "M": Guard("mean_update", most=MARGINS["intercept"]),
    "framing_bias": Guard("dutch_book_complement", most=100 * SIZE_OF_NOISE + MARGINS["dutch_book"]),
    "lie": Guard("lie_size", most=SIZE_OF_NOISE + MARGINS["lie"]),
}
"""Number of coherence -> its guard (METRICS W4): ratios drawn afresh may differ little, and signed errors cancel."""


def coherent(
    number: Number,
    target: float,
    margin: float,
    test: Equivalence | CoherenceClaim | None,
    others: Sequence[Number] = (),
) -> Coherent:
    """The verdict on one number.

    Args:
        number: of a coherence.
        target: its value for a coherent belief.
        margin: the distance from it that would matter, fixed before reading.
        test: of its equivalence to that value; None, where it cannot be tested.
        others: of the same readings, among them its guard (`GUARDS`).

    Where more than 2% of the rows are missing, coherence is shown only if it would be so with each of these as far off
    as it can be: a model that refuses where it errs is else coherent. What is read and incoherent stays so. Nor is it
    shown by a mean over several forms of the question where the interval of one form lies outside, nor where its guard
    shows otherwise.
    """
    score = number.score
    value, lo, hi = float(score.estimate), float(score.ci_lo), float(score.ci_hi)
    same = test is not None and (test.equivalent if isinstance(test, Equivalence) else test.claimed)
    missing = score.n_dropped / max(score.n_rows + score.n_dropped, 1)
    worst = (1 - missing) * max(abs(lo - target), abs(hi - target)) + missing * number.worst
    hidden = missing if same and missing > WORTH_BOUNDS and not worst < margin else 0.0
    broken = [
        f"; with {name} alone {shown(float(part.estimate))} {interval_text(part.ci_lo, part.ci_hi)}"
        for name, part in number.by_wording.items()
        if same and part.status in TRUSTED and beyond(replace(number, score=part), target, margin)
    ]
    guard = GUARDS.get(number.metric, Guard(""))
    broken += [
        f"; but {other.quantity} {shown(float(seen.estimate))} {interval_text(seen.ci_lo, seen.ci_hi)}"
        for other, seen in ((other, other.score) for other in others)
        if same and (other.metric, other.subset) == (guard.metric, number.subset)
        and seen.status in (*TRUSTED, "zero_cluster_variance")
        and (seen.ci_lo <= guard.least or seen.ci_lo > guard.most or seen.ci_hi < -guard.most)
    ]  # fmt: skip
    same = same and not hidden and not broken
    outside = score.status in TRUSTED and beyond(number, target, margin)
    state = COHERENT if same else INCOHERENT if outside else NOT_SHOWN
    constant = COHERENCE[number.metric].constant if number.metric in COHERENCE else NAN
    why = _undecided(number, target, margin, test) if state == NOT_SHOWN and not hidden and not broken else ""
    return Coherent(
        state=state, metric=number.metric, called=number.called, value=value, ci_lo=lo, ci_hi=hi, target=target,
        margin=margin, constant=constant, missing=hidden, otherwise="".join(broken), why=why,
    )  # fmt: skip


def _undecided(number: Number, target: float, margin: float, test: Equivalence | CoherenceClaim | None) -> str:
    """Why a number shows neither coherence nor incoherence."""
    score = number.score
    lo, hi = float(score.ci_lo), float(score.ci_hi)
    if math.isnan(lo):
        return "it has no interval"
    if test is None or (score.status not in TRUSTED and score.status != "zero_cluster_variance"):
        return f"its interval cannot be relied on ({status_text(score.status)})"
    if hi < target - margin or lo > target + margin:
        return "its interval lies outside this margin, but not farther than noise of reading may take a coherent belief"
    if lo < target - margin or hi > target + margin:
        return "its interval reaches beyond this margin"
    needed = claim_clusters(margin, number.worst)
    if score.n_clusters < needed:
        return f"its interval lies within this margin, but {score.n_clusters} clusters are too few: {needed} are needed"
    return "its interval lies within this margin, but too few of the clusters carry it"


def beyond(number: Number, target: float, margin: float) -> bool:
    """Whether the whole interval of a number lies where that of no coherent agent does (METRICS W4): outside its
    margin and what the noise of a reading alone takes a coherent agent off, up to twice the latter; a margin that is
    wider than that is all that counts. Never of a number whose coherent value is an upper bound.
    """
    if number.metric in UPPER_BOUNDS:
        return False
    above, below = (reach_of(number.metric, margin, noise) for noise in (0.0, number.noise))
    return bool(number.score.ci_lo > target + above or number.score.ci_hi < target - below)


def reach_of(metric: str, margin: float, noise: float) -> float:
    """How far reading noise (here `noise`, if more) may take a coherent agent, or the margin if it is wider."""
    noise = max(noise, SPREADS[metric].off if metric in SPREADS else 0.0)
    return max(margin, noise + min(margin, noise))


TRUSTED = ("ok", "few_clusters")
"""Statuses of a number by whose interval something may be shown."""


def coherence_of(numbers: Sequence[Number], plan: Registered | None) -> Coherent | None:
    """That of the registered number, if it has a margin, else of the first in `COHERENCE` that has a default one."""
    if plan is not None and plan.margin is not None:
        for number in numbers:
            if (number.metric, number.subset) == (plan.metric, plan.subset):
                return coherent(number, plan.coherent, plan.margin, plan.equivalence(number), numbers)
    judged: list[tuple[bool, int, Coherent]] = []
    for number in numbers:
        if number.metric in COHERENCE and number.subset == ALL and math.isfinite(float(number.score.estimate)):
            ends, test = COHERENCE[number.metric], number.equivalence
            if isinstance(test, Equivalence):
                margin = float(test.params["hi"])
            elif test is not None:
                margin = float(test.params["margin"])
            elif ends.margin:
                margin = MARGINS[ends.margin]
                test = equivalence_to(number, ends.coherent, margin)
            else:
                continue
            untested_slope = number.metric == "M" and test is None  # after what is tested
            place = [*COHERENCE].index(number.metric)
            judged.append((untested_slope, place, coherent(number, ends.coherent, margin, test, numbers)))
    return min(judged, key=lambda ranked: ranked[:2])[2] if judged else None
