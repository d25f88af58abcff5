"""The page of a causal check: the verdict, the claims, the dose response, then all numbers."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....base.text import shown
from ....base.version import __version__
from ....metrics.contract import Score
from ....metrics.inference.regression import Contrast
from ....metrics.number import interval_text
from ....probes.causal.claims import FALSIFIER, NEEDED_FOR_USE, CausalCheck, told, told_slope
from ....probes.causal.plan import ACTION, COVERAGE, EXACT, PROBE, VERBAL, CausalPlan
from ....probes.probe import Probe
from ....probes.report_card import told as told_fit
from ...report.cells import NONE, score_cell
from ...report.document import Block, Cell, Primary, Prose, Report, Stamp, TableBlock, Top, grid
from ...report.figures import Panel, chart
from ...report.findings import Figure
from ...report.marks import Axis, line, ranges, rule
from ...report.plotting import INK
from ..page import claims_table
from ..settings import CausalJob

NAMES = {
    PROBE: "probe belief, log-odds",
    EXACT: "exact belief, log-odds",
    ACTION: "share of the action",
    VERBAL: "stated belief",
    COVERAGE: "coverage of the options",
}
UNITS = {PROBE: "nats", EXACT: "nats", ACTION: "share", VERBAL: "probability", COVERAGE: "probability"}
NOTHING = 1e-3
"""The largest change that is drawn as none: a panel of rounding errors would look like an effect."""
CONTROLS = {"unrelated": "another concept", "position": "the wrong token", "layer": "the wrong layer"}


def page(checked: CausalCheck, job: CausalJob, probe: Probe, model: str) -> Report:
    """The page: the verdict with what it lacks, causal gain, the dose response, and all that was tried."""
    gain, plan = checked.numbers.gains[job.plan.directions[0]], job.plan
    missing = [
        (claim.name, f"{claim.verdict}: {claim.evidence}")
        for claim in checked.claims
        if claim.name in NEEDED_FOR_USE and claim.verdict != "supported"
    ]
    top = Top(
        said=f"Whether the model uses what {probe.meta.name} reads at {probe.meta.at}.",
        verdict=Stamp(
            says=f"What this probe reads is used: {checked.used}", lines=missing, note=f"False if {FALSIFIER}."
        ),
        gate=claims_table("Claims", checked.claims, f"edited. The verdict needs {', '.join(NEEDED_FOR_USE)}."),
        primary=Primary(
            label=f"causal gain along the {plan.directions[0]}: change of the exact belief for each unit of what the "
            "probe reads, in log-odds",
            value=shown(gain.ratio),
            lines=[
                f"{interval_text(gain.ci_lo, gain.ci_hi) or 'no interval'} {gain.ci_method}",
                f"{checked.n_contexts} contexts in {checked.n_groups} groups; 1: the probe reads what the model uses, "
                "0: it does not",
            ],
        ),
        figure=dose_figure(checked, plan),
    )
    blocks: list[Block] = [
        Prose(title="What was done", text=_done(checked, job, probe)),
        _gains(checked),
        _controls(checked, plan),
        *_erased(checked, plan),
        *_surgery(checked),
    ]
    made_of = (
        f"Intervals over groups, level {plan.level:g}, {plan.draws} draws; seed {plan.seed}. doxascope {__version__}."
    )
    return Report(f"A causal check of {probe.meta.name}", f"of {model}", top, blocks, made_of)


def dose_figure(checked: CausalCheck, plan: CausalPlan) -> Figure:
    """Mean changes over the doses, a panel for each outcome; the band of random directions at the registered dose."""
    response, random = checked.numbers.response, checked.numbers.band
    panels = []
    for outcome, changes in response.changes.items():
        means, lo, hi = ([getattr(change, name) for change in changes] for name in ("mean", "ci_lo", "ci_hi"))
        marks = [rule(0)]
        if outcome == EXACT and random is not None:
            half, at = [random.half] * 2, [-plan.dose, plan.dose]
            marks.append(ranges(at, np.negative(half), half, "random directions", color=INK, width=5, alpha=0.35))
        marks += [ranges(response.doses, lo, hi, width=0.8), line(response.doses, means, "steered", width=1, dots=3)]
        largest = np.nanmax(np.abs([*means, *lo, *hi]), initial=0.0)
        y = Axis(f"change, {UNITS[outcome]}", (-NOTHING, NOTHING) if largest < NOTHING else None)
        panels.append(Panel(NAMES[outcome], marks, y=y))
    caption = (
        f"Mean change from the unedited branch, with intervals over groups. Grey, at the registered dose of "
        f"{plan.dose:g} SD: the range of {plan.level:.0%} of the random directions of the same length (half the "
        "difference of their two signs)."
        if random is not None
        else "Mean change from the unedited branch, with intervals over groups. No random direction was tried."
    )
    return chart("Dose response", panels, caption, x=Axis("dose, SD"), columns=3)


def _done(checked: CausalCheck, job: CausalJob, probe: Probe) -> str:
    plan = job.plan
    doses = ", ".join(f"{dose:g}" for dose in plan.doses)
    return (
        f"Activations at {probe.meta.at} were moved along {', '.join(plan.directions)} by {doses} standard deviations "
        "of their projection. Edited and unedited branches are read in one pass, so that each context is compared "
        "with itself; every dose is added and subtracted, so that the effect of any disturbance of that size cancels. "
        "The intervals of gains, of changes for each SD and of differences from controls include the estimation of "
        f"the {plan.directions[0]}, where the probe was fitted in folds; those of swaps, erasure and surgery take the "
        "direction as estimated."
    )


def _gains(checked: CausalCheck) -> TableBlock:
    rows = [_number(f"causal gain along the {name}", score) for name, score in checked.numbers.gains.items()]
    rows += [_number(f"{NAMES[name]}, for each SD", score) for name, score in checked.numbers.slopes.items()]
    rows.append(_number("Kendall's tau within contexts", checked.numbers.response.trend))
    rows.append(_number("share of the contexts that rise, minus the share that fall", checked.numbers.response.share))
    if checked.numbers.swapped is not None:
        rows.append(_number("transfer of what the probe reads, swapped between contexts", checked.numbers.swapped))
    return grid("Gains and slopes", ["", "estimate", "rows"], rows)


def _number(name: str, score: Score) -> list[Cell]:
    return [Cell(name), score_cell(score), Cell(str(score.n_rows))]


def _controls(checked: CausalCheck, plan: CausalPlan) -> TableBlock:
    band, off = checked.numbers.band, checked.numbers.off_target
    rows = [
        [Cell(CONTROLS[name]), Cell(told(control.effect)), Cell(told(control.more))]
        for name, control in checked.numbers.controls.items()
    ]
    if band is not None:
        rows.append(
            [
                Cell("random directions", [f"{len(band.effects)} in {band.n_contexts} contexts"]),
                Cell(
                    f"{plan.level:.0%} within ±{band.half:.3f}",
                    [f"the registered direction's effect {band.effect:.3f}"],
                ),
                Cell(f"p {band.p:.3g}"),
            ]
        )
    notes = []
    if off is not None:
        told_of = f"{off.kl:.4f} nat; random directions: median {off.median:.4f}, bound {off.bound:.4f}"
        notes.append((f"KL after {off.n_prompts} neutral prompts", told_of))
    return grid(
        "Controls",
        ["", "effect", "the registered direction's is larger by"],
        rows,
        caption=f"Mean effect on the exact belief's log-odds at {plan.dose:g} SD, by vectors of the same length.",
        notes=notes or ([] if rows else [("not tested", "no control was given")]),
    )


def _erased(checked: CausalCheck, plan: CausalPlan) -> list[Block]:
    if not checked.numbers.erased:
        return []
    rows: list[Sequence[Cell]] = []
    for name, erasure in checked.numbers.erased.items():
        rows += [
            [Cell(f"R2 {place}", [name]), *map(Cell, map(told_fit, (before, after, fall))), Cell(NONE)]
            for place, (before, after, fall) in erasure.decoded.items()
        ]
        rows += [
            [Cell(f"slope of {NAMES[outcome]} on the target's log-odds", [name]), *map(_slope(plan), depends)]
            for outcome, depends in erasure.depends.items()
        ]
    return [
        grid(
            "Erasure",
            ["", "before", "after", "fall", "before and after together"],
            rows,
            caption="In each context the concept was erased by an eraser fitted on the other folds' groups; R2 is "
            "that of a fresh probe of what is left.",
        )
    ]


def _slope(plan: CausalPlan) -> Any:
    def cell(contrast: Contrast) -> Cell:
        return Cell(told_slope(contrast, plan.level))

    return cell


def _surgery(checked: CausalCheck) -> list[Block]:
    surgery = checked.numbers.surgery
    if surgery is None:
        return []
    rows = [
        [
            Cell(f"{at.p:g}", [f"moved by {at.reach:.1f} SD"]),
            Cell(f"{at.asked:.3f}"),
            Cell(told(at.exact)),
            Cell(told(at.verbal) if at.verbal else "not asked"),
            Cell(told(at.action) if at.action else "not asked"),
        ]
        for at in surgery.grid
    ]
    notes = [("slope of the exact belief's log-odds on the target's", told(surgery.exact))]
    if surgery.verbal:
        notes.append(("slope of the stated belief on the target posterior", told(surgery.verbal)))
    if surgery.regret and surgery.unmoved:
        lost = f"{told(surgery.regret)}; without surgery {told(surgery.unmoved)}"
        notes.append(("expected utility that the action loses, of the stake", lost))
    return [
        grid(
            "Belief surgery",
            ["set to", "target", "exact", "stated", "action"],
            rows,
            caption="The probe's belief was set to p. The target is the posterior by Bayes' rule from p and the "
            "evidence that comes after.",
            notes=notes,
        )
    ]
