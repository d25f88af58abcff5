"""What numbers allow to be said: whether a method can be read, whether it responds, and whether it is coherent (METRICS
W4).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..base.text import listed, shown
from .coherence import COHERENT, INCOHERENT, Coherent, coherence_of
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
from .number import Number, interval_text
from .registration import Registered
from .tables.samples import ALL

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
        return f"is {self._reads}" if self.rare else ""

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
        """The three verdicts in words, with the reason where one is not shown to be readable or was not tested."""
        reads = self._reads if self.passed else self.readable
        responds = self._responds if self.responds == NOT_TESTED else WORDS[1].get(self.responds, self.responds)
        return _joined(self.states, reads, responds)

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
        named += f", in template {weakest.part}" if weakest.part else ""
        return f"{words} ({named}: {weakest.seen}){untested}"

    @property
    def _coherent(self) -> str:
        if not self.passed:
            return NOTHING
        words = WORDS[2].get(self.states[2], self.states[2])
        if self.coherent is None:
            return words
        meaning = ""
        if self.states[2] == COHERENT and self.responds != RESPONDS:
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


TAKEN_FOR_EASY = "accuracy on easy questions"
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


NOTHING = "nothing follows on coherence"
"""What is said of the coherence of what cannot be read."""


def in_words(states: Sequence[str]) -> str:
    """The states of the three verdicts, each said so that it stands by itself."""
    return _joined(states, *(WORDS[i].get(states[i], states[i]) for i in range(2)))


def _joined(states: Sequence[str], reads: str, responds: str) -> str:
    coherent = NOTHING if states[0] == UNREADABLE else WORDS[2].get(states[2], states[2])
    return ", ".join((reads, responds, coherent))


def _parts(conditions: Iterable[Condition], names: Mapping[str, str] | None = None) -> str:
    """`coverage: before and after; order of the options`: the parts of each."""
    parts: dict[str, list[str]] = {}
    required = ""
    for condition in conditions:
        part = condition.part
        if names and condition.name == PARSED:
            part = f"{condition.value:.1%}" + (f" ({part})" if part else "")
            required = f", where more than {condition.threshold:.0%} is required"
        name = condition.name
        if name == COVERAGE and math.isfinite(condition.median):
            name = RARE if condition.value < MOST and not names else name
            median = f"{'median' if name == COVERAGE and not names else 'median coverage'} {shown(condition.median)}"
            part = f"“{part}” ({median})" if part else median
        elif name == COVERAGE and names and part:
            part = f"“{part}”"
        parts.setdefault(name, []).append(part)
    texts = {name: listed(list(filter(None, several))) for name, several in parts.items()}
    texts |= {PARSED: texts[PARSED] + required} if required else {}
    before = {COVERAGE: ", in the readings "} if names else {}
    return "; ".join(
        (names or {}).get(name, name)
        + ((before.get(name, ": ") if text.startswith("“") else ": ") + text if text else "")
        for name, text in texts.items()
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
    return {"coherent": coherence_of(numbers, plan), "skill": _skill(numbers)}


def _skill(numbers: Sequence[Number]) -> str:
    known = {number.metric: number for number in numbers if number.subset == ALL}
    for name in SKILLS:
        if name in known and math.isfinite(float(known[name].score.estimate)):
            score = known[name].score
            name_of = known[name].quantity or name
            return f"{name_of} {shown(float(score.estimate))} {interval_text(score.ci_lo, score.ci_hi)}".rstrip()
    return ""
