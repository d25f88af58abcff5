"""What a page and a terminal lead with: is it a belief measurement at all, and the one number that was registered."""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ...base.text import shown
from ...metrics import CONDITIONS, NOT_A_BELIEF, Condition, claim_clusters
from ...metrics.claims import Registered, Verdict, verdicts
from ...metrics.number import Number, interval_text
from ...metrics.scoring.engine import ScoredTable
from .cells import NONE, aligned
from .document import Cell, Primary, Stamp, TableBlock, Top, grid, stamped
from .findings import Figure


@dataclass(frozen=True)
class Lead:
    """The verdict, the gate behind it, and the primary number."""

    verdicts: Sequence[Verdict]
    numbers: Sequence[Number]
    """All that the page has."""
    registered: Registered | None = None
    fixed: Collection[str] = ()
    """The conditions of the gate that were written down before anything was read."""

    @classmethod
    def of_table(cls, scored: ScoredTable) -> "Lead":
        """Of a table, or of runs that are scored together."""
        return cls(verdicts(scored.numbers), scored.all, scored.registered, scored.fixed)

    @property
    def sentence(self) -> str:
        """The verdict over all methods."""
        failed = [verdict.method for verdict in self.verdicts if not verdict.passed]
        passed = [verdict.method for verdict in self.verdicts if verdict.passed]
        if not self.verdicts:
            return "Whether this measures a belief was not judged: there is no gate."
        if not failed:
            return f"Passes the gate of a belief measurement: {_listed(passed)}."
        if not passed:
            return f"This is {NOT_A_BELIEF}: {'no method passes' if len(failed) > 1 else 'it fails'} the gate."
        return f"Not a belief measurement: {_listed(failed)}. Only {_listed(passed)} passed the gate."

    @property
    def failures(self) -> list[tuple[str, str]]:
        """(method, the conditions that failed)."""
        return [(verdict.called, f"fails {verdict.reason}") for verdict in self.verdicts if not verdict.passed]

    @property
    def when(self) -> str:
        """When the gate was fixed."""
        names = dict.fromkeys(one.name for verdict in self.verdicts for one in verdict.conditions)
        later = [name for name in names if name not in self.fixed]
        if not names:
            return ""
        if not later:
            said = "The conditions and their thresholds were fixed before anything was read. All have to hold."
        elif not self.fixed:
            said = "Nothing says that these conditions were fixed before anything was read. All have to hold."
        else:
            said = f"Added after this run was read: {_listed(later)}. All conditions have to hold."
        return " ".join([said, *self.withheld])

    @property
    def withheld(self) -> list[str]:
        """The conditions that could not be judged, a sentence for each reason."""
        why = {(name, why): [] for one in self.verdicts for name, why in one.withheld.items()}
        for verdict in self.verdicts:
            for pair in verdict.withheld.items():
                why[pair].append(verdict.method)
        return [f"Not judged of {_listed(methods)}: {name} ({said})." for (name, said), methods in why.items()]

    @property
    def primary(self) -> tuple[str, str, list[str]]:
        """What the registered number is called, its value, and what is to be read with it."""
        if self.registered is None:
            return "none was registered", "–", [f"All {len(self.numbers)} numbers here are exploratory."]
        plan, number = self.registered, self.registered.among(self.numbers)
        if number is None:
            others = f"All {len(self.numbers)} numbers here are exploratory."
            return plan.label, "–", ["Registered before reading, and not made by this run.", others]
        others = f"Everything else here is exploratory: {len(self.numbers) - 1} further numbers."
        return plan.label, shown(float(number.score.estimate)), [*self._told(plan, number), plan.inference, others]

    def _told(self, plan: Registered, number: Number) -> list[str]:
        score = number.score
        judged = [one for one in self.verdicts if (one.method, one.kind) == (number.method, number.kind)]
        interval = interval_text(score.ci_lo, score.ci_hi) or "no interval"
        short = "" if score.n_clusters >= plan.n else ", fewer than planned"
        clusters = f"{score.n_clusters} clusters of {plan.n} registered{short}"
        told = [f"Its method fails the gate: {NOT_A_BELIEF}."] if judged and not judged[0].passed else []
        told += [f"{interval} {score.ci_method}; {clusters}; status {score.status.replace('_', ' ')}"]
        if not math.isnan(score.p):
            adjusted = min(1.0, plan.family * score.p)
            family = f"{adjusted:.3g} over a family of {plan.family} (Bonferroni)"
            told.append(f"p {score.p:.3g} of zero, {'the only test' if plan.family == 1 else family}")
        if plan.margin is not None:
            told.append(_coherence(plan, number))
        return ["Registered before anything was read.", *told]

    def top(self, said: str, figure: Figure | None, alarms: Sequence[Stamp] = ()) -> Top:
        """The top of a page.

        Args:
            said: what the page is about.
            figure: the one that it leads with.
            alarms: what must be read before all.
        """
        label, value, lines = self.primary
        return Top(
            said=said,
            alarms=alarms,
            verdict=stamped(self.sentence, self.failures, "Methods that fail are marked † below."),
            gate=_table(self.verdicts, self.when) if self.verdicts else None,
            primary=Primary(label=label, value=value, lines=lines),
            figure=figure,
        )

    @property
    def lines(self) -> list[str]:
        """The same for a terminal."""
        label, value, lines = self.primary
        failed = [(verdict.called, one) for verdict in self.verdicts for one in verdict.failures]
        rows = [("  fails", "", "seen", "asked"), *((f"  {m}", c.label, c.seen, c.asked) for m, c in failed)]
        held = [f"  {one.called}: passes, {_counted(one)}" for one in self.verdicts if one.passed]
        gate = [self.sentence, *held, *(aligned(rows) if failed else ()), *([self.when] if self.when else [])]
        primary = f"primary: {label}: {value}" if self.registered else "No primary number was registered."
        return [*gate, "", primary, *(f"  {line}" for line in lines)]

    def as_dict(self) -> dict[str, Any]:
        """The same for `scores.json`."""
        gates = [
            {"method": one.method, "kind": one.kind, "passed": one.passed, "failed": [c.label for c in one.failures]}
            for one in self.verdicts
        ]
        plan = self.registered.model_dump(mode="json") if self.registered else None
        return {
            "verdict": self.sentence,
            "gates": gates,
            "fixed": sorted(self.fixed),
            "registered": plan,
            "said": self.lines,
        }


def _coherence(plan: Registered, number: Number) -> str:
    test = plan.equivalence(number)
    within = f"within ±{plan.margin:g} of {plan.coherent:g}"
    if test is None:
        why = number.score.status.replace("_", " ")
        return f"{within}: cannot be tested" + (f", {why}" if why != "ok" else "")
    score, lo, hi = number.score, plan.coherent - test.params["hi"], plan.coherent + test.params["hi"]
    if score.ci_lo > hi or score.ci_hi < lo:
        return f"shown to lie outside ±{plan.margin:g} of {plan.coherent:g}: the whole interval does"
    needed = claim_clusters(test.params["hi"], number.worst)
    short = f"; a claim takes {needed} clusters" if number.score.n_clusters < needed else ""
    return f"{'' if test.equivalent else 'not shown to be '}{within} (TOST p {test.p:.3g}{short})"


def _table(verdicts: Sequence[Verdict], when: str) -> TableBlock:
    """Every condition by method."""
    conditions: dict[str, Condition] = {one.label: one for verdict in verdicts for one in verdict.conditions}
    judged = [{one.label: one for one in verdict.conditions} for verdict in verdicts]
    head = [("condition", ""), *((verdict.method, verdict.kind) for verdict in verdicts)]
    rows = [
        [Cell(one.name, [one.part, f"asked: {one.asked}"]), *(_judged(own.get(label)) for own in judged)]
        for label, one in conditions.items()
    ]
    names = dict.fromkeys(one.name for one in conditions.values())
    notes = [(name, CONDITIONS.get(name, "")) for name in names]
    return grid("The gate, condition by condition", head, rows, caption=when, notes=notes)


def gates(judged: Iterable[tuple[str, Sequence[Verdict]]]) -> TableBlock:
    """Of each name, which methods pass the gate of a belief measurement, and which conditions the others fail."""
    rows = []
    for name, found in judged:
        passed = ", ".join(one.called for one in found if one.passed)
        failed = [f"{one.called}: fails {one.reason}" for one in found if not one.passed] or [NONE]
        rows.append([name, passed or (NONE if found else "not judged"), Cell(failed[0], failed[1:])])
    return grid("Gates", ["", "passes", "fails"], rows, short=True)


def _judged(condition: Condition | None) -> Cell:
    if condition is None:
        return Cell("–", ["not asked"])
    return Cell("holds" if condition.held else "fails", [condition.seen])


def _counted(verdict: Verdict) -> str:
    n = len(verdict.conditions)
    return f"{n} of {n} conditions"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + f" and {names[-1]}" if len(names) > 1 else "".join(names)
