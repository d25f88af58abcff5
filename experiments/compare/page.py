"""The page of a comparison, in blocks."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...base.files import OutputFolder
from ...base.text import listed, quoted, shown
from ...base.version import __version__
from ...metrics import Equivalence, belief_consistency, counts_to_probabilities
from ...metrics.claims import barred
from ...metrics.contract import RESAMPLING
from ...metrics.number import STATUSES, Number, interval_text, status_text
from ...metrics.tables.samples import Options
from ..report.cells import NONE, absent, adjusted_over, adjusted_p, qualified, score_cell
from ..report.document import (
    Block,
    Cell,
    Instances,
    Picture,
    Primary,
    Prose,
    Report,
    Stamp,
    TableBlock,
    Top,
    grid,
    in_chapter,
    stamped,
)
from ..report.figures import chart
from ..report.findings import Figure, Gallery
from ..report.html import FIGURES
from ..report.lead import gates
from ..report.marks import DENSITY_KEY, density, diagonal, unit
from ..report.score_files import prepared
from ..run.terms import numbers_named, terms_of
from .findings import Comparison, Group, Matrix, Record, instances_of
from .sides import adapters_said

MOST_INSTANCES = 60
MOST_SIDES = 4
"""Sides in the figure that shows them beside each other."""
DIFFER, ITEMS = "Do they differ?", "Which items make the difference"
"""Parts of the page."""
STRUCK = (
    "One of the two cannot be read, or is not shown to be readable, or comes from a probe whose readings distort such "
    "numbers. Nothing follows from these."
)


NO_RIVAL = (
    "`M_behind`, on the page of the run, is not compared: the errors that it takes out of a probe's slope are fitted "
    "on the exact beliefs, so that it is no second number beside theirs."
)
SAID = 3
"""Settings that differ and are named at the top."""
FILES = ("report.json", "report.html", FIGURES)


def prepare(folder: Path) -> OutputFolder:
    """The folder that a comparison is to be written into. Raises UserError if it holds anything else."""
    return prepared(folder, FILES, "Comparison", "comparison")


def page(comparison: Comparison, settings: Mapping[str, Any]) -> Report:
    """One page: what was compared and what differs there, the findings, and what they are made of."""
    labels = dict.fromkeys(quoted(side.label) for group in comparison.groups for side in group.sides)
    chosen = "".join(f", {key} {value}" for key, value in settings.items())
    beside, differ = _side_by_side(comparison), comparison.drawn
    top = Top(
        said=f"What differs on the items that both have, and by how much.{_set_apart(comparison)}",
        verdict=_verdict(comparison),
        alarms=_alarms(comparison),
        further=[Prose(text=sentence(record)) for record in comparison.confirmed[1:]],
        gate=gates((side.label, side.verdicts) for group in comparison.groups for side in group.sides),
        primary=_primary(comparison),
        figure=beside or differ,
    )
    below = [Picture(title=differ.title, figure=differ, chapter=DIFFER)] if beside and differ else []
    made_with = f"doxascope {__version__}{chosen}."
    return Report(
        "Comparison", f"of {listed([*labels])}", top, [*blocks_of(comparison), *below], made_with,
        terms=_terms(comparison),
    )  # fmt: skip


def blocks_of(comparison: Comparison) -> list[Block]:
    """The sections of a page, for this one and for others that hold a comparison."""
    named = [record for record in comparison.struck if record.pair.metric in comparison.family]
    rest = [record for record in comparison.struck if record.pair.metric not in comparison.family]
    tested: list[Block] = []
    if comparison.confirmed:
        tested.append(differences(DIFFER, family_caption(comparison), comparison.confirmed, short=True))
    else:
        tested.append(Prose(title=DIFFER, text=family_caption(comparison), short=True))
    if named:
        tested.append(differences("Struck out", STRUCK, named, short=True))
    if comparison.explored:
        fixed = "These numbers were not named before comparing, so that nothing here is confirmed"
        caption = f"{fixed}; {adjusted_over(_tests(comparison.explored), 'Benjamini and Hochberg')}."
        tested.append(differences("Exploratory differences", caption, comparison.explored))
    if rest:
        tested.append(differences("Exploratory, and struck out", STRUCK, rest))
    numbers = [_numbers(group) for group in comparison.groups]
    numbers += [_matrix(group, group.matrix) for group in comparison.groups if group.matrix]
    return [
        *in_chapter("What is compared", (block for group in comparison.groups for block in _head(group))),
        *in_chapter("What is compared", _strays(comparison.left_out)),
        *in_chapter(DIFFER, tested),
        *in_chapter("Each number by itself", numbers),
        *in_chapter(ITEMS, _drivers(comparison, [*comparison.confirmed, *named])),
    ]


def _set_apart(comparison: Comparison) -> str:
    """In what the runs that are compared are not the same."""
    names = list(
        dict.fromkeys(name.removeprefix("settings.") for group in comparison.groups for name, _ in group.differs)
    )
    more = f", and {len(names) - SAID} more" if len(names) > SAID else ""
    return f" The runs differ in {', '.join(names[:SAID])}{more}." if names else ""


def _verdict(comparison: Comparison) -> Prose | Stamp:
    """The first finding in words, and what is struck out."""
    says = sentence(comparison.confirmed[0]) if comparison.confirmed else _nothing(comparison)
    idle = list(
        dict.fromkeys(f"{record.pair.metric}: {record.named}." for record in comparison.confirmed if record.named)
    )
    says = " ".join([says, *idle])
    note = (
        "What cannot be read as a belief, or is not shown to be readable, is shown below, struck out, and in no test; "
        "how well a model answers (accuracy, Brier, log-loss) is compared all the same, though not with what a probe "
        "reads."
    )
    return stamped(says, comparison.failures, note)


def _nothing(comparison: Comparison) -> str:
    why = "in each pair a side cannot be read as a belief, or is not shown to be"
    return f"There is no finding on {', '.join(comparison.family)}: {why}."


def _alarms(comparison: Comparison) -> list[Stamp]:
    """Tables that do not agree on what is true."""
    lines = [(line, "") for group in comparison.groups for line in group.disagreements]
    return [Stamp(says="Outcomes disagree.", lines=lines)] if lines else []


def _primary(comparison: Comparison) -> Primary | None:
    """The first difference of the family."""
    if not comparison.confirmed:
        return None
    record, score = comparison.confirmed[0], comparison.confirmed[0].score
    ends = interval_text(score.ci_lo, score.ci_hi)
    notes = [
        f"interval {ends}, by {score.ci_method}" if ends else "no interval",
        status_text(qualified(score.status)),
    ]
    tested = f"adjusted p {adjusted_p(score)}" if adjusted_p(score) else "not tested"
    return Primary(
        title="Primary number",
        label=f"{record.pair.metric}: {' minus '.join(record.pair.names)}",
        value=shown(score.difference),
        lines=[
            "; ".join(filter(None, notes)),
            tested,
            f"{score.n_clusters} clusters; why this number: {comparison.named_by}",
        ],
    )


def _side_by_side(comparison: Comparison) -> Figure | None:
    """Where one of three options is ruled out: the shares of the other two, and of that one, before and after."""
    sides = [side for group in comparison.groups for side in group.sides]
    several = len(sides) > 1
    shown = [(sample.run if several else sample.name, sample) for side in sides for sample in side.samples]
    panels = []
    for name, sample in shown:
        if isinstance(sample, Options) and sample.whole_run and sample.three is not None:
            scored = belief_consistency(sample.prior, sample.posterior, sample.rejected)
            before = counts_to_probabilities(sample.prior)[np.arange(len(sample.prior)), sample.rejected]
            panels.append((name, [density(scored.prior2[:, 0], scored.post2[:, 0]), diagonal()]))
            panels.append(("the option ruled out", [density(before, scored.p_invalid_norm), diagonal()]))
    if not 2 < len(panels) <= 2 * MOST_SIDES:
        return None
    caption = (
        "Under each name stands the share of the first of the two options that remain, before and after the third is "
        "ruled out; a coherent belief lies on the dashed line. Beside it stands the share of the option that is ruled "
        "out, which is 0 after a coherent update."
    )
    return chart(
        "Before and after", panels, caption, x=unit("before"), y=unit("after"), columns=2,
        further=DENSITY_KEY,
    )  # fmt: skip


def sentence(record: Record) -> str:
    """A finding in words."""
    score, (left, right) = record.score, record.pair.names
    if math.isnan(score.difference):
        both = listed([quoted(left), quoted(right)])
        return f"{record.pair.metric}: {both} cannot be compared ({status_text(score.status)})."
    p = adjusted_p(score)
    tested = [f"adjusted p {p}"] if p else []
    test = record.number.equivalence
    tested += [f"equivalence margin ±{test.params['hi']:g}"] if isinstance(test, Equivalence) else []
    tested += [] if math.isnan(score.mde) else [f"minimum detectable effect {shown(score.mde)} at 80% power"]
    method, *alone = left.split(", ")
    of, shared = (f" of {method}", f"{method}, ") if alone and right.startswith(f"{method}, ") else ("", "")
    first, second = (quoted(name.removeprefix(shared)) for name in (left, right))
    interval = interval_text(score.ci_lo, score.ci_hi)
    level = f"{100 * score.params.get('level', RESAMPLING.level):g}%"
    alone = "of this number alone" + (", not adjusted" if p and score.family_size > 1 else "")
    apart = shown(score.difference) + (f", with the {level} interval {interval} {alone}" if interval else "")
    return (
        f"{record.pair.metric}{of}: {first} has {shown(score.first)} and "
        f"{second} {shown(score.second)}: {record.finding}. The first minus the second is {apart}"
        + (f" ({'; '.join(tested)})." if tested else ".")
        + (
            f" There is no test: {STATUSES[score.status][1]}."
            if record.finding == "no test" and score.status in STATUSES
            else ""
        )
    )


def _head(group: Group) -> Iterator[Block]:
    """What is compared, and what differs there."""
    rows = []
    for side in group.sides:
        kinds = dict.fromkeys(sample.kind for sample in side.samples if sample.kind)
        rows.append([Cell(side.label), Cell(side.path.name), Cell(", ".join(kinds) or "not said")])
    head = ["", "folder or file", "kinds of belief"]
    lines = " ".join(side.line for side in group.sides if side.line)
    yield grid(f"What is compared: {group.name}", head, rows, caption=lines, short=True)
    yield from left_out(group)
    if group.unpaired:
        text = (
            f"{group.unpaired} pairs of numbers have no item in common (as in runs whose seeds drew other items), and "
            "are not compared. `doxascope collect` pools seeds."
        )
        yield Prose(text=text, short=True)
    if any(sample.kind == "probe" and "M" in group.comparable for side in group.sides for sample in side.samples):
        yield Prose(text=NO_RIVAL, soft=True, short=True)
    yield from (Prose(text=line, short=True) for line in adapters_said(group.sides))
    if group.differs:
        yield grid(
            "What differs",
            ["", *(side.label for side in group.sides)],
            [[name, *(Cell(value, code=True) for value in values)] for name, values in group.differs],
            caption="Only conditions and settings in which the runs differ are listed.",
            short=True,
        )
    elif len(group.sides) > 1 and all(side.run for side in group.sides):
        yield Prose(text="Conditions and settings of the runs are the same.", soft=True)


def _terms(comparison: Comparison) -> list[tuple[str, str]]:
    """What the methods of the runs ask, and what their kinds are; of what differs between runs, with each run."""
    terms: dict[str, dict[str, list[str]]] = {}
    for name_of, side in ((group.name, side) for group in comparison.groups for side in group.sides):
        methods = list(dict.fromkeys(sample.method for sample in side.samples))
        config = side.run.config.model_dump(mode="json") if side.run else {}
        declared = side.run.experiment.terms(side.run.config) if side.run else ()
        label = quoted(side.label) + f" in {name_of}" * (len(comparison.groups) > 1)
        usual = dict(terms_of(config, methods, {sample.kind for sample in side.samples}))
        # What the experiment declares comes first, and has the last word.
        for name, means in (dict(declared) | usual | dict(declared)).items():
            terms.setdefault(name, {}).setdefault(means, []).append(label)
    told = []
    for name, by_means in terms.items():
        each = [f"{listed(labels)}: {means}" for means, labels in by_means.items()]
        told.append((name, "; ".join(each if len(each) > 1 else by_means)))
    numbers = (n for group in comparison.groups for n in group.numbers if n.metric in group.comparable)
    return [*told, *numbers_named((n.metric, n.quantity, n.family) for n in numbers)]


def _strays(paths: Sequence[Path]) -> Iterator[Prose]:
    if paths:
        yield Prose(text=f"Left out, since they are no runs: {listed([path.name for path in paths])}.", short=True)


def left_out(group: Group) -> Iterator[Prose]:
    """What is no belief, and why; and of what it cannot be told."""
    for side in group.sides:
        for name, text in side.untold.items():
            yield Prose(
                text=f"{side.label}: {name}: {text}. If its readings are drawn together, differences in numbers of "
                "spread (such as c2 and rms_logodds) are due to that.",
                short=True,
            )
        for name, why in side.refused.items():
            yield Prose(text=f"{side.label}: {name}: left out, for {why}.", soft=True, short=True)


def family_caption(comparison: Comparison) -> str:
    """What was named before reading, by what, and how it was tested."""
    family = f"Tested: {', '.join(comparison.family)} ({comparison.named_by})."
    if not comparison.confirmed:
        return f"{family} {_nothing(comparison)}"
    return (
        f"{family} Rows are paired on common items, and the clusters of both sides are resampled together; "
        f'{adjusted_over(_tests(comparison.confirmed))}. "The same" is tested by two one-sided tests within the '
        "margin, adjusted in the same way."
    )


def _tests(records: Sequence[Record]) -> int:
    return max((record.score.family_size for record in records), default=0)


def differences(title: str, caption: str, records: Sequence[Record], *, short: bool = False) -> TableBlock:
    """A table of comparisons, a row each."""
    head = [
        "",
        ("first", "on common items"),
        ("second", "on common items"),
        ("difference", "first minus second"),
        ("adjusted p", "adjusted p of no difference"),
        ("p of the same", "adjusted p of two one-sided tests: below 0.05 the two are the same within the margin"),
        "finding",
        ("minimum detectable effect", "smallest difference that would be found with 80% power"),
        ("rows", "that both have"),
    ]
    notes = [titled for titled in head if not isinstance(titled, str)]
    return grid(title, head, [_row(record) for record in records], caption, notes=notes, short=short)


def _row(record: Record) -> list[Cell]:
    score, test, out = record.score, record.number.equivalence, bool(record.struck)
    same = Cell(NONE, ["" if out else "no margin was given for it"])
    if isinstance(test, Equivalence):
        same = Cell(f"{test.p:.3g}" if math.isfinite(test.p) else NONE, [f"within ±{test.params['hi']:g}"])
    alone = f"{score.n_only_first} rows are only in the first, {score.n_only_second} only in the second"
    return [
        Cell(" - ".join(record.pair.names), [record.pair.metric]),
        Cell(shown(score.first), struck=out),
        Cell(shown(score.second), struck=out),
        score_cell(record.number, below=[score.ci_method], struck=out),
        Cell(adjusted_p(score) or NONE),
        same,
        Cell(record.finding, [record.struck] if out else []),
        Cell(shown(score.mde)),
        Cell(str(score.n_rows), [f"{score.n_clusters} clusters", f"{score.n_dropped} without a number", alone]),
    ]


def _numbers(group: Group) -> TableBlock:
    """Metric x kind: every number by itself, on all rows that its kind has."""
    metrics = dict.fromkeys(number.metric for number in group.numbers if number.metric in group.comparable)
    names = list(dict.fromkeys(number.name for number in group.numbers))
    at = {(number.metric, number.name): number for number in group.numbers}
    words = {number.metric: number.quantity for number in reversed(group.numbers)}
    return grid(
        f"Each number by itself: {group.name}",
        ["", *((name, group.failed.get(name, "")) for name in names)],
        [
            [
                Cell(metric, [words[metric]]),
                *(_cell(at.get((metric, name)), failed=name in group.failed) for name in names),
            ]
            for metric in metrics
        ],
        caption="Each number is of all rows that its side has, with its interval; differences above use common rows "
        "alone. What is struck out is no readable belief; accuracy, Brier and log-loss are compared even then.",
    )


def _cell(number: Number | None, *, failed: bool) -> Cell:
    if number is None:
        return Cell(NONE)
    return score_cell(number, struck=failed and barred(number.metric, number.kind))


def _matrix(group: Group, matrix: Matrix) -> TableBlock:
    n = len(matrix.names)
    return grid(
        f"Do they order the same things alike? {group.name}",
        ["", *(name for name in matrix.names)],
        [
            [
                row_name,
                *(replace(_entry(group, matrix, i, j), known=None) for j in range(n)),
            ]  # all rows stay: it is square
            for i, row_name in enumerate(matrix.names)
        ],
        caption="On the diagonal stands the reliability of each kind over its readings; below it are correlations as "
        "read, above it what they would be without noise of reading, supposing that the noise of two kinds is "
        "independent. There 1 means that both order the items identically, apart from noise. Struck out: one of the "
        "two is no readable belief.",
        notes=[("left out", f"{matrix.left_out} further kinds")] if matrix.left_out else [],
    )


def _entry(group: Group, matrix: Matrix, i: int, j: int) -> Cell:
    struck = matrix.names[i] in group.failed or matrix.names[j] in group.failed
    if i == j:
        return score_cell(matrix.reliabilities[i], below=["reliability"], struck=struck)
    score = matrix.correlations[min(i, j), max(i, j)]
    if i < j:
        return _correlation(score.disattenuated, score.ci_lo, score.ci_hi, qualified(score.status), struck=struck)
    return _correlation(score.correlation, score.correlation_lo, score.correlation_hi, struck=struck)


def _correlation(value: float, lo: float, hi: float, status: str = "", *, struck: bool) -> Cell:
    if math.isnan(value):
        return absent(status)
    interval = interval_text(lo, hi)
    return Cell(shown(value), [interval], struck=struck, grey=not interval, status=status)


def _drivers(comparison: Comparison, records: Sequence[Record]) -> Iterator[Block]:
    """Which items make each difference of the family, and what was said there."""
    rows = [
        [
            Cell(" - ".join(record.pair.names), [record.pair.metric]),
            Cell(shown(record.score.difference)),
            Cell(", ".join(f"{driver.cluster} ({shown(driver.moves)})" for driver in record.drivers)),
        ]
        for record in records
        if record.drivers
    ]
    if rows:
        yield grid(
            ITEMS,
            ("", "difference", "items"),
            rows,
            caption="The clusters without which a difference changes most, and by how much it falls without each.",
        )
    shown_here = [
        instance
        for record in records
        for group in comparison.groups
        if any(record.pair.one is sample for side in group.sides for sample in side.samples)
        for instance in instances_of(record.pair, record.drivers, group.sides)
    ][:MOST_INSTANCES]
    if shown_here:
        gallery = Gallery(
            caption=f"The {len(shown_here)} read-outs of these items in which the two beliefs are furthest apart, with "
            "their transcripts.",
            facets=("number", "compared", "item"),
            score="moves the difference by",
            instances=shown_here,
        )
        yield Instances.of(gallery, "What was said and believed")
