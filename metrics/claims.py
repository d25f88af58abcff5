"""What numbers allow to be said: whether a method can be read, whether it responds, and whether it is coherent (METRICS
W4).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ..base.text import listed, shown
from .consistency.competence import (
    COVERAGE,
    EASY,
    FAILED,
    GATE,
    NOT_SHOWN,
    NOT_TESTED,
    PARSED,
    RARE,
    READABLE,
    READS,
    RESPONDS,
    SHARES,
    UNREADABLE,
    UNRESPONSIVE,
    BeliefGate,
    Condition,
)
from .consistency.evidence_response import MOST
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
BEHAVIOUR = frozenset(
    {"accuracy", "accuracy_single", "accuracy_multi", "log_loss"}
    | {"calibration", "calibration_top", "calibration_slope", "calibration_error"}
    | {"brier", "brier_prior", "brier_post", "brier_update", "brier_multiclass", "rmse_truth"}
)
"""Numbers of what a model does (its answers, how good and how calibrated they are), which are compared whatever the
verdicts say."""


def barred(metric: str, *kinds: str) -> bool:
    """Whether a number of what cannot be read is barred: of what a model does never, of what a probe reads always."""
    return metric not in BEHAVIOUR or "probe" in kinds


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
        beside = "" if math.isnan(self.constant) else f", a constant one {shown(self.constant)}"
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


def reach_of(metric: str, margin: float, noise: float = 0.0) -> float:
    """How far reading noise (here `noise`, if more) may take a coherent agent, or the margin if it is wider."""
    noise = max(noise, SPREADS[metric].off if metric in SPREADS else 0.0)
    return max(margin, noise + min(margin, noise))


TRUSTED = ("ok", "few_clusters")
"""Statuses of a number by whose interval something may be shown."""


@dataclass(frozen=True)
class Verdict:
    """What is said of one method: can it be read, does it respond, is it coherent? Each is another question."""

    method: str
    conditions: Sequence[Condition]
    """All that were judged, of the first two."""
    kind: str = "exact"
    withheld: Mapping[str, str] = field(default_factory=dict)
    """Conditions that could not be judged, and why."""
    rare: bool = False
    """Whether its options hold so little that a number is a ratio of rare answers."""
    readable: str = NOT_TESTED
    responds: str = NOT_TESTED
    coherent: Coherent | None = None
    """None: no number of coherence has a margin."""
    skill: str = ""
    """How well it knows what is true, in words: coherence by itself rewards emptiness."""

    @property
    def passed(self) -> bool:
        """Whether nothing shows it to be unreadable: what cannot be read is struck out of a comparison."""
        return self.readable != UNREADABLE

    @property
    def failures(self) -> list[Condition]:
        """The conditions by which it cannot be read."""
        return [condition for condition in self.conditions if condition.name in READS and condition.state == "fails"]

    @property
    def reason(self) -> str:
        """Why it cannot be read, in words; the parts of one condition together."""
        return _parts(self.failures, FAILED)

    @property
    def unread(self) -> str:
        """Why nothing is tested of it, as what is said of it; empty if something may be: it cannot be read, or is not
        shown to be readable since most of its readings have too little coverage.
        """
        if not self.passed:
            return f"cannot be read: {self.reason}"
        short = any(each.name == COVERAGE and not each.held and each.value < MOST for each in self.conditions)
        return f"is {self._reads}" if short else ""

    @property
    def unresponsive(self) -> str:
        """By which conditions it is shown not to respond; empty if it is not."""
        if self.responds != UNRESPONSIVE:
            return ""
        return _parts(each for each in self.conditions if each.name not in READS and each.state == "fails")

    @property
    def called(self) -> str:
        """The method, with what its numbers are called if its options are rare."""
        return f"{self.method} ({RARE})" if self.rare else self.method

    @property
    def states(self) -> tuple[str, str, str]:
        """The three verdicts, each in a word or two."""
        return self.readable, self.responds, self.coherent.state if self.coherent else NOT_TESTED

    @property
    def parts(self) -> tuple[str, str, str]:
        """The three verdicts, each with what it rests on."""
        return self._reads, self._responds, self._coherent

    @property
    def sentence(self) -> str:
        """The three verdicts."""
        return "; ".join(self.parts)

    @property
    def short(self) -> str:
        """The three verdicts in words alone."""
        return in_words(self.states)

    @property
    def _reads(self) -> str:
        words = WORDS[0].get(self.readable, self.readable)
        if self.readable == READABLE:
            return words
        left = self.reason or _parts(
            condition for condition in self.conditions if condition.name in READS and not condition.held
        )
        return words + (f" ({left})" if left else "") + self._untested(READS, self.readable)

    @property
    def _responds(self) -> str:
        words, untested = WORDS[1].get(self.responds, self.responds), self._untested((*SHARES, EASY), self.responds)
        asked = [condition for condition in self.conditions if condition.name not in READS]
        if not asked:
            return words + untested
        weakest = min(asked, key=_reach)
        share = weakest.name in SHARES
        if self.responds == RESPONDS and share:
            lo, value, hi = (f"{100 * x:.0f}" for x in (weakest.ci_lo, weakest.value, weakest.ci_hi))
            return f"responds in {value}% [{lo}, {hi}] of items"
        named = SHARES.get(weakest.name) or (TAKEN_FOR_EASY if weakest.name == EASY else weakest.name)
        named += f", with {weakest.part}" if weakest.part else ""
        return f"{words} ({named}: {weakest.seen}){untested}"

    @property
    def _coherent(self) -> str:
        words = WORDS[2].get(self.states[2], self.states[2])
        if self.coherent is None:
            return words
        meaning = ""
        if self.states[2] != NOT_SHOWN and not self.passed:
            meaning = ", from which nothing follows for beliefs, since none can be read"
        elif self.states[2] == COHERENT and self.responds != RESPONDS:
            meaning = f", as is everybody who ignores what they are told, and {IDLE[self.responds]}"
        return f"{words}{meaning} ({self.coherent.seen}{f'; how right it is: {self.skill}' if self.skill else ''})"

    def _untested(self, names: Sequence[str], state: str) -> str:
        names_of: dict[str, list[str]] = {}
        for name, why in self.withheld.items():
            if name.partition("[")[0] in names:
                names_of.setdefault(why, []).append(name)
        if len(names_of) == 1 and state == NOT_TESTED:
            return f" ({next(iter(names_of))})"
        missing = [f"{', '.join(several)} {NOT_TESTED}: {why}" for why, several in names_of.items()]
        return f" ({'; '.join(missing)})" if missing else ""


TAKEN_FOR_EASY = "accuracy on the questions that are taken for easy"
"""Of `truth` all that are asked, whoever wrote them; of `bscore` those of the category `easy`."""
WORDS = (
    {NOT_SHOWN: "not shown to be readable", NOT_TESTED: "readability not tested"},
    {NOT_SHOWN: "not shown to respond", NOT_TESTED: "response not tested"},
    {NOT_SHOWN: "not shown to be coherent", NOT_TESTED: "coherence not tested", INCOHERENT: "not coherent"},
)
"""The states of each verdict in a sentence, where they do not say it by themselves."""
IDLE = {
    UNRESPONSIVE: "this method does not respond",
    NOT_SHOWN: "this method is not shown to respond",
    NOT_TESTED: "whether this method responds was not tested",
}
"""Why coherence by itself is nothing to praise."""


def in_words(states: Sequence[str]) -> str:
    """The states of the three verdicts, each said so that it stands by itself."""
    said = ", ".join(WORDS[i].get(state, state) for i, state in enumerate(states))
    return said + " as answers" if states[0] == UNREADABLE and states[2] in (COHERENT, INCOHERENT) else said


def _parts(conditions: Iterable[Condition], names: Mapping[str, str] | None = None) -> str:
    """`coverage: before and after; order of the options`: the parts of each."""
    parts: dict[str, list[str]] = {}
    required = ""
    for condition in conditions:
        part = condition.part
        if names and condition.name == PARSED:
            part = f"{condition.value:.1%}" + (f" ({part})" if part else "")
            required = f", where more than {condition.threshold:.0%} is required"
        parts.setdefault(condition.name, []).append(part)
    quote = {COVERAGE: "“{}”"} if names else {}
    texts = {
        name: listed([quote.get(name, "{}").format(part) for part in several if part])
        for name, several in parts.items()
    }
    texts |= {PARSED: texts[PARSED] + required} if required else {}
    before = {COVERAGE: ", in the readings "} if names else {}
    return "; ".join(
        (names or {}).get(name, name) + (before.get(name, ": ") + text if text else "") for name, text in texts.items()
    )


def _reach(condition: Condition) -> float:
    """How far its bound lies above what is asked."""
    return -math.inf if math.isnan(condition.value) else condition.ci_lo - condition.threshold


SKILLS = ("truth_error", "brier_post", "brier", "brier_multiclass")
"""Numbers of how well a belief knows what is true, the first that there is; each has its constant belief's in words."""


def verdicts(numbers: Sequence[Number], registered: Registered | None = None) -> list[Verdict]:
    """Of each method that was judged among the numbers; where none was, of each that has a number of coherence. That is
    the registered one, if it has a margin, else the first in `COHERENCE` that has a default one.
    """
    of: dict[tuple[str, str, str], list[Number]] = {}
    for number in numbers:
        of.setdefault((number.method, number.kind, number.run), []).append(number)
    judged = []
    for number in numbers:
        score, name = number.score, ", ".join(filter(None, (number.method, number.run)))
        if number.metric == GATE and number.subset == ALL and isinstance(score, BeliefGate):
            coherence = _coherence(of[number.method, number.kind, number.run], registered)
            judged.append(Verdict(
                method=name, conditions=list(score.conditions.values()), kind=number.kind, withheld=score.withheld,
                rare=bool(score.rare), readable=score.readable, responds=score.responds, **coherence,
            ))  # fmt: skip
    if judged:
        return judged
    alone = []
    for (method, kind, run), numbers_of in of.items():
        name = ", ".join(filter(None, (method, run)))
        alone.append(Verdict(method=name, conditions=(), kind=kind, **_coherence(numbers_of, registered)))
    return [verdict for verdict in alone if verdict.coherent]


def with_coherence(verdict: Verdict, numbers: Sequence[Number], registered: Registered | None = None) -> Verdict:
    """The verdict with that on coherence by the numbers of its method, of one run."""
    numbers_of = [number for number in numbers if (number.method, number.kind) == (verdict.method, verdict.kind)]
    return replace(verdict, **_coherence(numbers_of, registered))


def _coherence(numbers: Sequence[Number], plan: Registered | None) -> dict[str, Any]:
    return {"coherent": _of_method(numbers, plan), "skill": _skill(numbers)}


def _of_method(numbers: Sequence[Number], plan: Registered | None) -> Coherent | None:
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


def _skill(numbers: Sequence[Number]) -> str:
    known = {number.metric: number for number in numbers if number.subset == ALL}
    for name in SKILLS:
        if name in known and math.isfinite(float(known[name].score.estimate)):
            score = known[name].score
            name_of = known[name].quantity or name
            return f"{name_of} {shown(float(score.estimate))} {interval_text(score.ci_lo, score.ci_hi)}".rstrip()
    return ""
