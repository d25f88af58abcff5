"""What a page and a terminal lead with: three verdicts on each method, and the one number that was registered."""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ...base.text import listed, shown
from ...metrics import CONDITIONS, Condition, claim_clusters
from ...metrics.claims import NOTHING, WORDS, Verdict, barred, verdicts
from ...metrics.coherence import UPPER_BOUNDS, beyond
from ...metrics.consistency.competence import NOT_TESTED, ORDER, TITLES, WORDINGS
from ...metrics.metric import RELIABILITY, WITHHELD
from ...metrics.number import Number, interval_text, status_text
from ...metrics.registration import Registered
from ...metrics.scoring.engine import ScoredTable
from .cells import NONE
from .document import Cell, Primary, Stamp, TableBlock, Top, grid, stamped
from .findings import Figure


@dataclass(frozen=True)
class Lead:
    """The verdicts, the conditions behind them, and the primary number."""

    verdicts: Sequence[Verdict]
    numbers: Sequence[Number]
    """All that the page has."""
    registered: Registered | None = None
    fixed: Collection[str] = ()
    """The conditions of the verdicts that were written down before anything was read."""

    @classmethod
    def of_table(cls, scored: ScoredTable) -> "Lead":
        """Of a table, or of runs that are scored together."""
        return cls(verdicts(scored.numbers, scored.registered), scored.all, scored.registered, scored.fixed)

    @property
    def sentence(self) -> str:
        """Whether it can be read, responds and is coherent: of one method with what that rests on, else in words."""
        if not self.verdicts:
            return "Whether this can be read as a belief was not judged."
        if len(self.verdicts) == 1:
            said = self.verdicts[0].sentence
            return f"{said[:1].upper()}{said[1:]}."
        alike: dict[str, list[str]] = {}
        for verdict in self.verdicts:
            alike.setdefault(verdict.short, []).append(verdict.method)
        said = (
            (listed([f'"{name}"' if ", " in name else name for name in names]), part) for part, names in alike.items()
        )
        return " ".join(f"{names[:1].upper()}{names[1:]}: {part}." for names, part in said)

    @property
    def failures(self) -> list[tuple[str, str]]:
        """(methods, the conditions by which they cannot be read)."""
        alike: dict[str, list[str]] = {}
        for verdict in self.verdicts:
            if not verdict.passed:
                alike.setdefault(f"cannot be read: {verdict.reason}", []).append(verdict.called)
        return [(listed(methods), why) for why, methods in alike.items()]

    @property
    def when(self) -> str:
        """When the conditions were fixed."""
        judged = [condition.name for verdict in self.verdicts for condition in verdict.conditions]
        named = [label.partition("[")[0] for verdict in self.verdicts for label in verdict.withheld]
        names = dict.fromkeys([*judged, *named])
        later = [name for name in names if name not in self.fixed]
        if not names:
            return ""
        if not later:
            said = (
                "Conditions and thresholds were fixed before anything was read. A verdict needs all of its conditions."
            )
        elif not self.fixed:
            said = (
                "Nothing says that these conditions were fixed before anything was read. A verdict needs all of its "
                "conditions."
            )
        else:
            said = f"These were added after this run was read: {listed(later)}. A verdict needs all of its conditions."
        return " ".join([said, *self.withheld])

    @property
    def withheld(self) -> list[str]:
        """The conditions that could not be judged, a sentence for each reason."""
        why = {(name, why): [] for verdict in self.verdicts for name, why in verdict.withheld.items()}
        for verdict in self.verdicts:
            for pair in verdict.withheld.items():
                why[pair].append(verdict.method)
        alike: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        for (name, said), methods in why.items():
            alike.setdefault((said, tuple(methods)), []).append(name.replace("[", " (").replace("]", ")"))
        return [
            f"Not judged of {listed(methods)}: {listed(names)}, since {said}."
            for (said, methods), names in alike.items()
        ]

    @property
    def primary(self) -> tuple[str, str, list[str]]:
        """What the registered number is called, its value, and what is to be read with it."""
        if self.registered is None:
            return "none was registered", "", [f"All {len(self.numbers)} numbers here are exploratory."]
        plan, number = self.registered, self.registered.among(self.numbers)
        if number is None:
            others = f"All {len(self.numbers)} numbers here are exploratory."
            return plan.label, "–", ["Registered before reading, and not made by this run.", others]
        others = f"Everything else here is exploratory: {len(self.numbers) - 1} further numbers."
        value = shown(float(number.score.estimate))
        lines = [*self._told(plan, number, value), plan.inference, others]
        return plan.label, "–" if self._unreadable(number) and barred(number.metric, number.kind) else value, lines

    def _unreadable(self, number: Number) -> str:
        """Why the method of a number cannot be read; empty if it can."""
        own = (number.method, number.kind)
        return next((v.reason for v in self.verdicts if (v.method, v.kind) == own and not v.passed), "")

    def _told(self, plan: Registered, number: Number, value: str) -> list[str]:
        score = number.score
        ends = interval_text(score.ci_lo, score.ci_hi)
        interval = f"Its interval is {ends}" if ends else f"It has no interval{score.ci_method.removeprefix('none')}"
        reliability = number.beside.get(RELIABILITY, "") if score.status == WITHHELD else ""
        known = f": {RELIABILITY} {reliability}" if reliability else ""
        flag = "" if score.status == "ok" else f" ({status_text(score.status)}{known})"
        clusters = f"{score.n_clusters} of the {plan.n} clusters that are registered are in it{flag}"
        why = self._unreadable(number)
        parts = [f"Its method cannot be read: {why}."] if why else []
        shown_above = not barred(number.metric, number.kind) or math.isnan(score.estimate)
        parts += [] if not why or shown_above else [f"What was measured is {value}."]
        parts += [f"{interval}; {clusters}."]
        if not math.isnan(score.p):
            adjusted = min(1.0, plan.family * score.p)
            family = (
                f", and {adjusted:.3g} over a family of {plan.family} tests (Bonferroni)" if plan.family > 1 else ""
            )
            parts.append(f"Against zero p is {score.p:.3g}{family}.")
        if plan.margin is not None:
            parts.append(_coherence(plan, number))
        return ["Registered before anything was read.", *parts]

    def top(self, said: str, figure: Figure | None, alarms: Sequence[Stamp] = ()) -> Top:
        """The top of a page."""
        label, value, lines = self.primary
        return Top(
            said=said,
            alarms=alarms,
            verdict=stamped(self.sentence, self.failures, "What cannot be read is marked † below."),
            gate=_table(self.verdicts, self.when) if self.verdicts else None,
            primary=Primary(label=label, value=value, lines=lines),
            figure=figure,
        )

    def as_dict(self) -> dict[str, Any]:
        """The same for `scores.json`."""
        gates = [
            {
                "method": verdict.method,
                "kind": verdict.kind,
                **dict(zip(("readable", "responds", "coherent"), verdict.states, strict=True)),
                "said": verdict.sentence,
                "failed": [c.label for c in verdict.conditions if c.state == "fails"],
            }
            for verdict in self.verdicts
        ]
        plan = self.registered.model_dump(mode="json") if self.registered else None
        return {
            "verdict": self.sentence,
            "verdicts": gates,
            "fixed": sorted(self.fixed),
            "registered": plan,
        }


def _coherence(plan: Registered, number: Number) -> str:
    test = plan.equivalence(number)
    within = f"within ±{plan.margin:g} of {plan.coherent:g}"
    if test is None:
        why = status_text(number.score.status)
        return f"Whether it is {within} cannot be tested" + (f": {why}." if why != "ok" else ".")
    if beyond(number, plan.coherent, test.params["hi"]):
        return f"It is shown to lie outside ±{plan.margin:g} of {plan.coherent:g}: the whole interval does."
    needed = claim_clusters(test.params["hi"], number.worst)
    short = f"; a claim takes {needed} clusters" if number.score.n_clusters < needed else ""
    varied = not test.equivalent and plan.metric in UPPER_BOUNDS
    lower = "; utilities that vary between contexts lower it as incoherence does" if varied else ""
    said = "is shown to be" if test.equivalent else "is not shown to be"
    return f"It {said} {within} (two one-sided tests, p {test.p:.3g}{short}{lower})."


def _table(verdicts: Sequence[Verdict], when: str) -> TableBlock:
    """Every condition by method."""
    conditions: dict[str, Condition] = {
        condition.label: condition for verdict in verdicts for condition in verdict.conditions
    }
    judged = [
        {condition.label: Cell(condition.state, [condition.seen]) for condition in verdict.conditions}
        | {label: Cell(NOT_TESTED, [why]) for label, why in verdict.withheld.items()}
        for verdict in verdicts
    ]
    open_ones = dict.fromkeys(label for verdict in verdicts for label in verdict.withheld if label not in conditions)
    head = [("condition", ""), *((verdict.method, verdict.kind) for verdict in verdicts)]
    rows = [
        [
            Cell(TITLES.get(condition.name, condition.name), [condition.part, f"required: {condition.asked}"]),
            *(own.get(label, NOT_ASKED) for own in judged),
        ]
        for label, condition in conditions.items()
    ]
    rows += [[_named(label), *(own.get(label, NOT_ASKED) for own in judged)] for label in open_ones]
    names = dict.fromkeys(name.partition("[")[0] for name in (*conditions, *open_ones))
    two_sided = [name for name in (ORDER, WORDINGS) if name in names]
    notes = [(TITLES.get(name, name), CONDITIONS.get(name, "")) for name in names]
    states = zip(*map(_states, verdicts), strict=True)
    said = [[name, *cells] for name, cells in zip(("readable", "responds", "coherent"), states, strict=True)]
    return grid(
        "The three verdicts, and their conditions",
        head,
        [*said, *rows],
        caption=" ".join([when, BOUNDS, *([f"Of {listed(two_sided)} they hold its interval."] if two_sided else [])]),
        notes=notes,
    )


BOUNDS = "Brackets hold the two one-sided bounds of a number, each of the level of the intervals on this page."


def _named(label: str) -> Cell:
    """`name[part]` as the cell of a condition."""
    name, _, part = label.rstrip("]").partition("[")
    return Cell(TITLES.get(name, name), [part])


def _states(verdict: Verdict) -> list[Cell]:
    """The three verdicts, each with what it rests on, unless that is the verdict again."""
    three = zip(WORDS, verdict.states, verdict.parts, strict=True)
    shown_states = [Cell(state, [] if said == words.get(state, state) else [said]) for words, state, said in three]
    return shown_states if verdict.passed else [*shown_states[:2], Cell(NONE, [NOTHING])]


def gates(judged: Iterable[tuple[str, Sequence[Verdict]]]) -> TableBlock:
    """Of each name, whether each method can be read, responds and is coherent."""
    rows: list[list[Cell | str]] = []
    for name, found in judged:
        for verdict in found:
            rows.append([Cell(name, [verdict.called]), *_states(verdict)])
        if not found:
            rows.append([name, "not judged", NONE, NONE])
    return grid("Verdicts", ["", "readable", "responds", "coherent"], rows, short=True)


NOT_ASKED = Cell(NONE, ["not asked"])
