"""The page of a probe: first what may be claimed, then what it rests on, with the curve over layers and the map of
heads.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.text import shown
from ...base.version import __version__
from ...metrics.number import interval_text
from ...probes.evidence.crossfit import METHOD, Recall, Refitted
from ...probes.evidence.estimator_comparison import DRAWS
from ...probes.evidence.study import Study
from ...probes.evidence.transfer import Transfer
from ...probes.features import NOTHING, TARGETS, TOO_FEW, UNSURE, UNTESTED, WHERE, ReadAt
from ...probes.job import Judged
from ...probes.report_card import NEEDED_FOR_BELIEF, Card, Claim, told
from ...probes.sweep import Sweep, layer_at
from ..report.document import Block, Cell, Picture, Primary, Prose, Report, Stamp, TableBlock, Top, grid, in_chapter
from ..report.figures import chart
from ..report.findings import Figure
from ..report.marks import Axis, cells, line, points, ranges, rule, span
from .data import Loaded, n_layers_of
from .settings import ProbeJob

BASELINE: Any = (0, (1, 2))


def curve_figure(swept: Sweep, study: Study) -> Figure:
    """R2 over layers, a panel for each site and position."""
    places: dict[str, list[int]] = {}
    for i, at in enumerate(swept.points):
        if at.head is None:
            places.setdefault(f"{at.site}, {at.position}", []).append(i)
    registered = study.numbers["r2"]
    floor = max(min(-0.05, float(swept.r2.min()), registered.lo), -1.0)
    best = max(study.baselines.values(), default=0.0)
    layers_seen = [at.layer for at in swept.points]
    highest = max(0.2, 1.1 * float(swept.r2.max()), 1.1 * best, registered.hi)
    margin = 0.06 * (highest - floor)
    panels = []
    for name, indices in places.items():
        band = span(2 * floor - highest, swept.band, f"best place of {swept.level:.0%} of permutations")
        marks = [
            *([] if swept.untested else [band]),
            rule(0, width=0.6, style="-"),
            rule(best, "best baseline", width=0.9, style=BASELINE),
            line(
                [swept.points[i].layer for i in indices],
                np.maximum(swept.r2[indices], floor),
                "probe",
                width=1,
                dots=2.5,
            ),
        ]
        if study.at in [swept.points[i] for i in indices]:
            here = [study.at.layer]
            marks.append(ranges(here, [max(registered.lo, floor)], [registered.hi], width=1.6))
            marks.append(points(here, [registered.value], "registered", size=36, marker="s", hollow=True))
        panels.append((name, marks))
    shaded = (
        f"In {swept.level:.0%} of the permutations the best of all {len(swept.points)} places stays within the shaded "
        "band; penalty and place are chosen anew in each."
    )
    caption = (
        f"R2 on held-out groups at every layer. {'' if swept.untested else shaded + ' '}The square is the "
        "registered layer with its interval, the dotted line the best baseline that needs no inner layer."
    )
    x = Axis("layer", (min(layers_seen) - 0.5, max(layers_seen) + 0.5), whole=True)
    y = Axis("out-of-fold R2", (floor - margin, highest + margin))
    return chart("R2 over layers", panels, caption, x=x, y=y, columns=3)


def head_maps(swept: Sweep) -> Figure | None:
    """R2 by layer and head; None without heads, or where no head has an R2 above 0."""
    maps: dict[str, dict[tuple[int, int], float]] = {}
    for at, r2 in zip(swept.points, swept.r2, strict=True):
        if at.head is not None:
            maps.setdefault(at.position, {})[at.layer, at.head] = float(r2)
    darkest = max((r2 for by_head in maps.values() for r2 in by_head.values()), default=0.0)
    if darkest <= 0:
        return None
    top = float(np.fmax(swept.band, darkest))
    panels = []
    for position, by_head in maps.items():
        layers, heads = (range(min(every), max(every) + 1) for every in zip(*by_head, strict=True))
        grid = [[by_head.get((layer, head), np.nan) for layer in layers] for head in heads]
        above = np.array([place for place, r2 in by_head.items() if r2 > swept.band]).reshape(-1, 2)
        frames = points(above[:, 0], above[:, 1], size=9, marker="s", hollow=True)
        panels.append((position, [cells(grid, at=(layers[0], heads[0]), top=top, upward=True), frames]))
    caption = f"R2 on held-out groups, from white (at most 0, or a layer that was not captured) to black ({top:.3f}). "
    caption += (
        "No permutation test was made."
        if swept.untested
        else f"Only framed cells are decodable: they lie above {swept.band:.3f}, and the best of all "
        f"{len(swept.points)} places stays below that in {swept.level:.0%} of the permutations."
    )
    x, y = Axis("layer", whole=True), Axis("head", whole=True)
    return chart("R2 of heads", panels, caption, x=x, y=y, columns=3)


def strongest(swept: Sweep) -> ReadAt:
    """The place of the highest R2."""
    return swept.points[int(np.argmax(swept.r2))]


WHY_NOT = {
    "read-out": "It is read where the answer is asked for or given. A probe recovers the logits there, and shows no "
    "belief that comes before them.",
    NOTHING: "The whole interval of R2 at the registered place lies at or below 0: a probe predicts the target of "
    "other groups no better than its mean does.",
    UNSURE: "Two tests have to agree that the target can be decoded at the registered place. Permutations of whole "
    "groups must give a small p, which shows that these groups have information about it; and the interval of R2 over "
    "resampled groups must lie above 0, which shows it for other groups. They do not agree here, and neither shows the "
    "opposite.",
    UNTESTED: "No permutation test of the target could be made; the claim that it can be decoded says why.",
    TOO_FEW: "Too few groups were read to say whether the target can be decoded at the registered place.",
    "decoded information": "A latent belief needs all of these claims; information about the target can be decoded "
    "without the model holding it as a belief.",
}
MEASURED, HELD_OUT = "What was measured", "On held-out groups"
"""Parts of the page."""
CONTROL = "random targets, drawn per group"


def page(judged: Judged, job: ProbeJob, loaded: Loaded, model: str) -> Report:
    """The page: the verdict with what it lacks, the criteria, R2 over layers and at the registered place, then all."""
    card, study, swept = judged.card, judged.study, judged.sweep
    r2 = study.numbers["r2"]
    interval = f"{interval_text(r2.lo, r2.hi)} {METHOD}" if r2.known else "no interval"
    top = Top(
        said=f"What does a probe of {TARGETS.get(loaded.data.target.name, loaded.data.target.name)} read in the "
        "residual stream, and what may it be called?",
        verdict=_verdict(card),
        gate=claims_table("Report card", card.claims, "read."),
        primary=Primary(
            label=f"R2 of log-odds on held-out groups at {study.at}, which was registered",
            value=shown(r2.value),
            lines=[interval, f"{card.n_groups} groups; R2 is relative to the mean of the training folds"],
        ),
        figure=curve_figure(swept, study),
    )
    blocks: list[Block] = [
        *in_chapter(MEASURED, [Prose(title=MEASURED, text=_asked(judged, job, loaded)), _criteria(card)]),
        Prose(
            title="Where it can be decoded",
            text=f"The registered place is {study.at}, {_depth(job, loaded)}. The highest R2 is "
            f"{shown(swept.r2.max())}, at {strongest(swept)}. If the place is chosen anew within each training fold, "
            f"R2 is {shown(swept.selected_r2)}"
            + ("." if swept.untested else f", with permutation p {swept.selected_p:.3g}."),
        ),
        *_heads(judged),
        *in_chapter(HELD_OUT, [_numbers(judged), _controls(judged)]),
        grid(
            "By other estimators",
            ["", "log-loss skill", "AUC"],
            [[estimate.estimator, _cell(estimate.skill), _cell(estimate.auc)] for estimate in judged.study.estimators],
            caption="Other estimators at the registered place, on the same folds. Here inner folds choose the penalty "
            "with the least log-loss; for the numbers above they choose that with the least squared error of "
            "log-odds, so that ridge, too, may differ from them. Intervals are from at most "
            f"{DRAWS} refits at the chosen penalties.",
            chapter=HELD_OUT,
        ),
        *in_chapter("Transfer", (_transfer(transfer) for transfer in study.transfers)),
        _added(judged),
        grid(
            "Learning curve",
            ["groups", "R2"],
            [[str(point.groups), shown(point.r2)] for point in judged.study.curve],
            caption=learnt([point.r2 for point in judged.study.curve]),
            chapter=HELD_OUT,
        ),
    ]
    made_of = (
        f"Intervals: {METHOD}, level {job.study.level:g}, {job.study.refits} draws; seed {job.study.seed}. "
        f"doxascope {__version__}."
    )
    return Report(f"A probe of {TARGETS.get(job.target, job.target)}", f"in {model}", top, blocks, made_of)


def _heads(judged: Judged) -> list[Block]:
    heads = [r2 for at, r2 in zip(judged.sweep.points, judged.sweep.r2, strict=True) if at.head is not None]
    if not heads:
        return []
    figure, title = head_maps(judged.sweep), "R2 of heads"
    if figure is not None:
        return [Picture(title=title, figure=figure)]
    return [Prose(title=title, text=f"None of {len(heads)} has an R2 above 0; the highest is {shown(max(heads))}.")]


def of_card(card: Card) -> Report:
    """The parts of the page that hang on the card alone."""
    return Report(
        "",
        "",
        Top(said="", verdict=_verdict(card), gate=claims_table("Report card", card.claims, "read.")),
        [_criteria(card)],
    )


def _verdict(card: Card) -> Stamp:
    missing: dict[str, list[str]] = {}
    for claim in card.claims:
        if claim.verdict != "supported" and claim.name in NEEDED_FOR_BELIEF:
            missing.setdefault(claim.verdict, []).append(claim.name)
    lines = [(str(verdict), ", ".join(names)) for verdict, names in missing.items()]
    return Stamp(says=f"What this probe reads: {card.headline}.", lines=lines, note=WHY_NOT.get(card.name, ""))


def _depth(job: ProbeJob, loaded: Loaded) -> str:
    n_layers = n_layers_of(loaded.header)
    asked = layer_at(job.study.depth, n_layers)
    nearest = "" if asked == loaded.at.layer else f" (layer {asked}; the nearest that was captured)"
    return f"relative depth {job.study.depth:g} of {n_layers} layers{nearest}"


def _asked(judged: Judged, job: ProbeJob, loaded: Loaded) -> str:
    target = loaded.data.target
    clipped = f" ({target.n_clipped} values clipped before their log-odds are taken)" if target.n_clipped else ""
    return (
        f"Target: {target.name}, {target.kind}{clipped}. {len(loaded.data.rows):,} rows in {judged.card.n_groups} "
        f"groups; what shares content shares a group, and no group is in two of the {job.study.folds} folds. Read at "
        f"{judged.study.at} of {judged.probe.meta.model.get('name', 'the model')} in {judged.probe.meta.dtype}; this "
        f"place {WHERE[judged.card.site]}."
    )


def claims_table(title: str, claims: Sequence[Claim], fixed: str) -> TableBlock:
    """Each claim with its falsifier, its verdict, and what that rests on; `fixed`: how the caption ends."""
    rows: list[list[Cell | str]] = []
    for claim in claims:
        first, *rest = claim.evidence.split("; ")
        rows.append([Cell(claim.name, [claim.claim, f"false if {claim.falsifier}"]), claim.verdict, Cell(first, rest)])
    caption = f"Each falsifier was fixed in the settings before anything was {fixed}"
    return grid(title, ["claim", "verdict", "evidence"], rows, caption=caption, short=True)


def _criteria(card: Card) -> TableBlock:
    return grid(
        "Criteria of belief",
        ["criterion", "verdict"],
        [[name, verdict] for name, verdict in card.criteria.items()],
        caption="Criteria of Herrmann and Levinstein; the weakest claim that bears on a criterion decides it.",
    )


def _numbers(judged: Judged) -> TableBlock:
    names = {
        "r2": "R2 of log-odds against the training folds' mean",
        "skill": "log-loss skill",
        "auc": "AUC",
        "slope": "calibration slope",
        "intercept": "calibration intercept",
        "gap": "mean p(X) + p(not X) - 1",
        "abs_gap": "mean |p(X) + p(not X) - 1|",
        "recall": "recall at 1% false alarms on neutral chat",
    }
    numbers = judged.study.numbers
    named = {names[name]: numbers[name] for name in names if name in numbers}
    named |= {name: refitted for name, refitted in numbers.items() if "[" in name}
    rows = [[Cell(name), _cell(refitted)] for name, refitted in named.items()]
    if (recall := judged.study.recall) is not None:
        rows.append([Cell("recall at 1% false alarms among false statements"), Cell(recalled(recall))])
    return grid("On held-out groups", ["", "estimate"], rows)


def recalled(recall: Recall) -> str:
    """The share that is found, or why it is not known."""
    return shown(recall.recall) if math.isfinite(recall.recall) else f"too few negatives ({recall.n_negatives})"


def _cell(refitted: Refitted) -> Cell:
    return Cell(
        shown(refitted.value), [interval_text(refitted.lo, refitted.hi) or "no interval"], grey=not refitted.known
    )


def _controls(judged: Judged) -> TableBlock:
    study = judged.study
    this = [[Cell("this probe"), Cell(shown(study.numbers["r2"].value)), Cell("")]]
    rivals = [
        [Cell(name), Cell(shown(r2)), Cell(told(study.numbers[f"above {name}"]))]
        for name, r2 in study.baselines.items()
    ]
    random = [
        [Cell(CONTROL, ["held-out groups"]), Cell(study.control.told_control), Cell("")],
        [Cell(CONTROL, ["held-out rows of known groups"]), Cell(study.control.told_memorised), Cell("")],
    ]
    return grid(
        "Controls",
        ["", "R2", "the probe is above it by"],
        [*this, *rivals, *random],
        caption="R2 by the same pipeline, from features that need no activations of this layer, and for random "
        "targets.",
    )


def _transfer(transfer: Transfer) -> TableBlock:
    return grid(
        f"Transfer by {transfer.by}",
        ["trained on", *(name for name in transfer.levels)],
        [[name, *map(_cell, row)] for name, row in zip(transfer.levels, transfer.cells, strict=True)],
        caption=f"{transfer.measure} of a probe that was trained on the level of the row and reads the level of the "
        f"column; no group is on both sides. The mean off the diagonal is {told(transfer.off_diagonal)}, chance is "
        f"{transfer.chance:g}.",
    )


def _added(judged: Judged) -> TableBlock:
    rows = [
        [
            Cell(name),
            Cell(f"{added.loss_without:.4f}"),
            Cell(f"{added.loss_with:.4f}"),
            Cell(f"{added.gain:+.4f}"),
            Cell(f"{added.p:.3g}"),
            Cell(str(added.n_rows)),
        ]
        for name, added in judged.study.added.items()
        if math.isfinite(added.p)
    ]
    undefined = [
        (f"added to {name}", f"not tested: {added.status}")
        for name, added in judged.study.added.items()
        if not math.isfinite(added.p)
    ]
    return grid(
        "What it adds to the model's own answers",
        ["predicted from", "loss without the probe", "loss with it", "gain", "permutation p of the gain", "rows"],
        rows,
        caption="Log-loss of the target in nats per row, on held-out groups. For p the part of the probe's reading "
        "that the model's own belief does not explain is exchanged between groups.",
        notes=undefined
        or ([] if rows else [("not measured", "the rows have no belief of the model besides the target")]),
    )


def learnt(r2: Sequence[float]) -> str:
    """What the end of a learning curve says of more groups."""
    if not r2 or not r2[-1] > 0:
        return "R2 is not above 0 with all groups, so that this does not say whether more groups would find more."
    if len(r2) > 1 and r2[-1] > r2[-2]:
        return "R2 still rises at the last step: more groups may find more."
    return "R2 does not rise at the last step: more groups need not find more."
