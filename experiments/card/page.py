"""The page of a card, and that of one card against another."""

import math
from collections.abc import Iterator, Mapping

from ... import __version__
from ...hooks.text import shown_error
from ...metrics import NOT_A_BELIEF
from ...probes.card.claims import Card
from ..comparing import Comparison, Group
from ..comparing.page import STRUCK, blocks_of, differences
from ..experiment import Figure
from ..report.blocks import Block, Cell, Primary, Prose, Stamp, TableBlock, Top
from ..report.cells import NONE, score_cell
from ..report.lead import Lead
from ..report.page import Page
from ..report.score_figure import forests
from ..report.text import adjusted_over
from ..scoring.number import Number, interval_text, shown
from .against import VALID, Against
from .card import ModelCard, registered


def card_page(card: ModelCard) -> Page:
    """Gates first; then what was said, held and done side by side; the claims of the probe; and where the runs are."""
    leads = {name: Lead(found.groups[0].sides[0].verdicts, ()) for name, found in card.within.items()}
    judged = {name: lead for name, lead in leads.items() if lead.verdicts}
    passing = [name for name, lead in judged.items() if any(one.passed for one in lead.verdicts)]
    failing = [name for name in judged if name not in passing]
    verdict: Prose | Stamp = Prose(
        text=f"Measured: {', '.join(passing) or 'nothing is judged by a gate'}.", strong=True
    )
    if failing:
        measured = f" Measured: {', '.join(passing)}." if passing else ""
        verdict = Stamp(
            says=f"{NOT_A_BELIEF.capitalize()}: {', '.join(failing)}.{measured}",
            lines=[(name, f"fails {', '.join(_conditions(judged[name]))}") for name in failing],
            note="What fails its gate is struck out below: it is about answers, not about beliefs.",
        )
    top = Top(
        said="What a model says, believes and does, by a fixed set of small experiments.",
        verdict=verdict,
        gate=_gates(leads),
        primary=Primary(
            title="Primary number",
            label="experiments of which a method passes the gate",
            value=f"{len(passing)} of {len(judged)}",
            lines=[
                f"{name}: {', '.join(one.method for one in judged[name].verdicts if one.passed)}" for name in passing
            ],
        ),
        figure=_lead_figure(card),
    )
    made = f"Set {card.chosen.name}, version {card.chosen.version}; seed {card.seed}; doxascope {__version__}."
    blocks = [_numbers(card), *_gaps(card), *_probe(card), _runs(card)]
    return Page("Card", f"of {card.model}", top, blocks, made)


def _conditions(lead: Lead) -> list[str]:
    """That fail under any method."""
    return list(dict.fromkeys(one.name for verdict in lead.verdicts for one in verdict.failures))


def _lead_figure(card: ModelCard) -> Figure | None:
    """The registered number of each experiment, a panel each, on scales of their own."""
    panels = []
    for name, found in card.within.items():
        (group,) = found.groups
        plan = group.sides[0].run.config.registered if group.sides[0].run else None
        rows = [
            (f"{one.kind}, {one.method}", one.score, one.name in group.failed)
            for one in registered(group)
            if math.isfinite(one.score.estimate)
        ]
        if rows and plan:
            panels.append((f"{name}: {plan.metric}", rows, plan.coherent))
    caption = (
        "The registered number of each experiment by kind of belief, with its interval. Dashed: coherent. Hollow: fails"
        " its gate, and is no belief."
    )
    return forests("What was registered", panels, caption) if panels else None


def _gates(leads: Mapping[str, Lead]) -> TableBlock:
    return TableBlock(
        title="Gates",
        caption="Whether a read-out measures a belief at all; the conditions are on the page of each run.",
        head=[("experiment", ""), ("passes", ""), ("fails", "")],
        rows=[
            [
                Cell(name),
                Cell(", ".join(one.method for one in lead.verdicts if one.passed) or NONE),
                Cell(*_told([f"{method}: {why}" for method, why in lead.failures])),
            ]
            for name, lead in leads.items()
        ],
    )


def _told(lines: list[str]) -> tuple[str, list[str]]:
    return (lines[0], lines[1:]) if lines else (NONE, [])


def _numbers(card: ModelCard) -> TableBlock:
    """The registered number of each experiment, by kind and method."""
    rows = []
    for name, found in card.within.items():
        (group,) = found.groups
        floors = card.floors(name)
        rows += [_number(name, group, one, floors.get((one.metric, one.method, one.kind))) for one in registered(group)]
    return TableBlock(
        title="Registered numbers",
        caption="The registered number of each experiment, as each kind of belief has it. Struck out: fails its gate.",
        head=[
            ("experiment", ""),
            ("kind", ""),
            ("estimate", ""),
            ("coherent", ""),
            ("numerical error", "how far arithmetic alone moves it, by the model's certificate"),
            ("n", ""),
        ],
        rows=rows,
    )


def _number(name: str, group: Group, one: Number, floor: float | None) -> list[Cell]:
    score, run = one.score, group.sides[0].run
    plan = run.config.registered if run else None
    return [
        Cell(name, [one.metric]),
        Cell(one.kind, [one.method]),
        score_cell(score, struck=one.name in group.failed),
        Cell(f"{plan.coherent:g}" if plan else NONE),
        Cell(NONE if floor is None else shown_error(floor)),
        Cell(str(score.n_rows), [f"{score.n_clusters} clusters"]),
    ]


def _gaps(card: ModelCard) -> Iterator[Block]:
    """What the kinds differ by on the same items."""
    for name, found in card.within.items():
        if found.confirmed:
            yield differences(f"Gaps: {name}", _family(found), found.confirmed)
        named = [record for record in found.struck if record.pair.metric in found.family]
        if named:
            yield differences(f"Gaps, struck out: {name}", STRUCK, named)


def _family(found: Comparison) -> str:
    return f"Paired on the same items; {adjusted_over(found.confirmed[0].score.family_size)}."


def _probe(card: ModelCard) -> Iterator[Block]:
    if not card.probed:
        return
    yield TableBlock(
        title="Probe",
        caption=f"What it reads: {Card.of(card.probed).headline}. Each falsifier was fixed before anything was read.",
        head=[("claim", ""), ("verdict", ""), ("evidence", "")],
        rows=[
            [Cell(one["name"], [one["claim"]]), Cell(one["verdict"]), Cell(one["evidence"])]
            for one in card.probed["claims"]
        ],
    )


def _runs(card: ModelCard) -> TableBlock:
    return TableBlock(
        title="Runs",
        caption="Each has a page of its own, with every number and what it is made of.",
        head=[("experiment", ""), ("folder", ""), ("settings other than the shipped ones", "")],
        rows=[
            [Cell(name), Cell(f"runs/{path.name}"), Cell(_settings(card, name), code=True)]
            for name, path in card.runs.items()
        ],
    )


def _settings(card: ModelCard, name: str) -> str:
    return ", ".join(f"{key}={value}" for key, value in card.chosen.runs[name].items()) or NONE


def against_page(found: Against) -> Page:
    """What is worse, what was tested, and the whole comparison."""
    lines = [(line, "") for line in found.regressions]
    verdict: Prose | Stamp = Prose(text=f"{found.passed.capitalize()}.", strong=True)
    if lines:
        verdict = Stamp(says=f"Worse: {len(lines)}.", lines=lines)
    head = [("experiment", ""), ("number", ""), ("before", ""), ("now", ""), ("change", ""), ("adjusted p", "")]
    table = TableBlock(
        title="Tested",
        caption=f"The registered number of each experiment that no gate strikes out, and the {VALID}: how much of what "
        "the model would say is one of the options, a mean over items. One family of tests, adjusted by Holm.",
        head=[*head, ("worse?", "")],
        rows=[
            [
                Cell(one.experiment),
                Cell(one.name, [f"coherent: {one.coherent:g}", one.note]),
                Cell(shown(one.score.first)),
                Cell(shown(one.score.second)),
                Cell(shown(-one.score.difference), [interval_text(-one.score.ci_hi, -one.score.ci_lo)]),
                Cell(f"{one.score.p_adjusted:.3g}" if one.score.p_adjusted >= 0 else one.score.status),
                Cell("worse" if one.regressed else "no"),
            ]
            for one in found.tested
        ],
    )
    whole = blocks_of(found.comparison) if found.comparison else []
    top = Top(said="Which registered numbers moved away from coherence.", verdict=verdict)
    title = f"{found.card.model} against {found.other.model}"
    return Page("Card against card", title, top, [table, *whole], f"doxascope {__version__}.")
