"""The page of a run, in blocks; and the index of runs: what each found, with its figure, and where its page is."""

import base64
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import yaml

from ...base.errors import UserError
from ...base.settings import read_yaml
from ...base.text import commonest, shown
from ...base.version import __version__
from ...metrics import Score
from ...metrics.claims import Verdict
from ...metrics.metric import RELIABILITY, WITHHELD
from ...metrics.number import Key, Number
from ...metrics.scoring.differences import DIFFERENCE
from ...metrics.tables.belief_parts import BeliefTable, in_parts
from ...metrics.tables.samples import ALL
from ..report.cells import (
    NONE,
    absent,
    adjusted_over,
    as_row,
    family_size,
    qualified,
    score_cell,
    scored_table,
    weighs_clusters,
)
from ..report.document import (
    Block,
    Cell,
    Entries,
    Entry,
    Folded,
    Instances,
    Picture,
    Prose,
    Report,
    Stamp,
    TableBlock,
    Top,
    grid,
    in_chapter,
)
from ..report.figures import forest
from ..report.findings import Column, Figure, Findings, Table
from ..report.html import FIGURES
from ..report.lead import Lead
from ..report.record import read
from .experiment import Experiment, RunConfig
from .folder import RunFolder
from .manifest import status_of
from .sessions import sessions
from .terms import terms_of

MADE = "How it was made"
"""The part of a page that says so."""
SCORES = "Scores"
"""The chapter of the first table."""
SETTINGS = {"se": "standard errors"}
"""Settings of an interval whose names are no words."""
Numbers = Mapping[tuple[str, str, str], Number]
"""(metric, method, subset) -> number."""


def run_page(
    experiment: Experiment,
    config: RunConfig,
    manifest: Mapping[str, Any],
    lead: Lead,
    findings: Findings,
    numbers: Sequence[Number],
    beliefs: BeliefTable,
    notes: Mapping[Key, str],
    added: Sequence[Block],
    remarks: Sequence[str] = (),
    drawn: Figure | None = None,
) -> Report:
    """The page of a run.

    Args:
        notes: what add-ons say beside single numbers.
        remarks: what else a reader is to know of the scores.
        drawn: at the top; None: what the findings lead with.
    """
    cells = _Cells({(item.metric, item.method, item.subset): item for item in numbers}, notes, lead.verdicts)
    methods = [item.method for item in numbers if item.metric == experiment.headline and item.subset == ALL]
    tables = {table.title for table in findings.tables}
    folded = {"Conditions": manifest["conditions"], "Configuration": config.model_dump(mode="json")}
    beside, further = (list(_tables(cells, findings, methods, leads=leads)) for leads in (True, False))
    pictures = (Picture(title=item.title, figure=item) for item in findings.figures if item.title not in tables)
    scores = [
        Prose(title="What was measured", text=findings.question),
        *_headline(cells, findings, methods, config, manifest),
        *beside,
        *(Prose(text=remark, short=True) for remark in remarks),
        *_differences(numbers, findings, notes),
    ]
    said_there = [
        _competitors(cells, beliefs, methods, config),
        *([Instances.of(findings.gallery, "Instances")] if findings.gallery else []),
    ]
    made_of = [
        Prose(title="Provenance", text=_provenance(manifest)),
        Folded(
            texts=[(name, yaml.safe_dump(part, sort_keys=False, allow_unicode=True)) for name, part in folded.items()]
        ),
    ]
    blocks = [
        *in_chapter(SCORES, scores),
        *in_chapter("Scores of parts, and controls", further),
        *in_chapter("Figures", pictures),
        *in_chapter("What was said, item by item", said_there),
        *in_chapter("Beside the scores", added),
        *in_chapter(MADE, made_of),
    ]
    question = f"{experiment.summary[:1].upper()}{experiment.summary[1:]}"
    every = [*findings.columns, *(column for table in findings.tables for column in table.columns)]
    figure = drawn or findings.lead or _lead_figure(cells, every, methods, config, experiment)
    stopped = Stamp(says="Incomplete.", note="This run was stopped; the page shows what was committed.")
    top = lead.top(question, figure, [stopped] if manifest["status"] != "complete" else [])
    return Report(
        experiment.name,
        f"on {config.model.name}",
        top,
        blocks,
        f"doxascope {__version__}.",
        opened=SCORES if findings.lead else "",
        terms=[
            *experiment.terms(config),
            *terms_of(
                config.model_dump(mode="json"), dict.fromkeys(n.method for n in numbers), {n.kind for n in numbers}
            ),
        ],
    )


def _lead_figure(
    cells: "_Cells", columns: Sequence[Column], methods: Sequence[str], config: RunConfig, experiment: Experiment
) -> Figure | None:
    """The registered number of every method, or the headline, beside its `coherent` value if that is known."""
    plan = config.registered
    registered = [column for column in columns if plan and column.metric == plan.metric and column.field is None]
    column = registered[0] if registered else columns[0]
    reference = plan.coherent if plan and registered else experiment.coherent
    dashed = "" if reference is None else f" Dashed: {reference:g}, {experiment.at_coherent}."
    keys = [(column.metric, method, ALL) for method in methods]
    numbers = [cells.numbers[key] for key in keys if key in cells.numbers]
    rows = [
        (f"{cells.method(number.method).value}, n {number.score.n_rows}", number.score, number.method in cells.failed)
        for number in numbers
    ]
    chance = {number.beside.get(column.beside, "") for number in numbers} if column.beside else set()
    if len(chance) == 1 and (value := chance.pop()):  # what knows nothing comes before what is perfect
        reference, dashed = float(value), f" Dashed: {value}, {(column.beside or '').rstrip(':')}."
    hollow = " Hollow: cannot be read." if any(failed for *_, failed in rows) else ""
    caption = (
        f"{column.explanation[:1].upper()}{column.explanation[1:]}. {100 * config.level:g}% intervals.{dashed}{hollow}"
    )
    return forest(column.title[:1].upper() + column.title[1:], rows, column.title, caption, reference=reference)


class _Cells:
    """The numbers of a page as text."""

    def __init__(self, numbers: Numbers, notes: Mapping[Key, str], verdicts: Sequence[Verdict]) -> None:
        self.numbers = numbers
        self._notes = notes
        self.failed = {verdict.method for verdict in verdicts if not verdict.passed}

    def method(self, method: str) -> Cell:
        """The name of a method, marked if it cannot be read."""
        return Cell(method + ("†" if method in self.failed else ""))

    def cell(self, column: Column, method: str, subset: str) -> Cell:
        """Estimate, interval and notes; or a range, a field, or why there is none."""
        number = self.numbers.get((column.metric, method, subset))
        if number is None:
            return Cell(NONE)
        score = number.score
        if column.field is not None:
            value = number.value(column.field)
            if math.isnan(value):
                return absent(score.status)
            return Cell(_percent(value) if column.percent else f"{value:.3g}", known=True)
        if not score.ci_method and score.status == "ok":
            raise ValueError(f"{column.metric}: a number without an interval's method must not be printed")
        read_against = number.beside.get(column.beside) if column.beside else None
        if read_against and column.percent:
            read_against = _percent(float(read_against))
        below = [f"{column.beside} {read_against}"] if read_against else []
        if math.isnan(score.estimate):
            why = number.beside.get(RELIABILITY, "") if score.status == WITHHELD else ""
            return absent(
                score.status,
                [*below, *([f"{RELIABILITY}, of beliefs before the update: {why}"] if why else [])],
                as_row(number),
            )
        written = _percent if column.percent else _whole if column.whole else shown
        if column.to is not None:
            other = self.numbers[column.to, method, subset].score.estimate
            return Cell(f"{written(score.estimate)} – {written(other)}", status=qualified(score.status), known=True)
        below.append(self._notes.get(number.key, ""))
        if weighs_clusters(score):
            below.append(f"each cluster once: {written(score.equal_weight_mean)}")
        return score_cell(number, written, below=below)


def _percent(value: float) -> str:
    return f"{value:.1%}"


def _whole(value: float) -> str:
    return f"{value:.0f}"


def _headline(
    cells: _Cells, findings: Findings, methods: Sequence[str], config: RunConfig, manifest: Mapping[str, Any]
) -> list[Block]:
    """The first table, and how its numbers were made."""
    columns = findings.columns
    scores = [cells.numbers[columns[0].metric, method, ALL].score for method in methods]
    rows = [
        [
            cells.method(method),
            cells.cell(columns[0], method, ALL),
            _denominator(score, clusters=True),
            *(cells.cell(column, method, ALL) for column in columns[1:]),
        ]
        for method, score in zip(methods, scores, strict=True)
    ]
    titled = [(column.title, column.explanation) for column in columns]
    settings = ", ".join(f"{SETTINGS.get(key, key)} {value}" for key, value in scores[0].params.items() if value)
    made_by = scores[0].ci_method
    made = made_by and not made_by.startswith("none")
    interval = f"The interval of {titled[0][0]} is by {made_by} ({settings}). " if made else ""
    checked = manifest["verification"]
    how = (
        f"{len(checked['readouts'])} read-outs were recomputed by one ordinary forward pass per surface form: largest "
        f"difference {checked['largest_difference_nat']:.1e} nat."
        if checked
        else "No read-out of this run was recomputed by an ordinary forward pass (`--verify` does that)."
    )
    return [
        grid(
            "Scores",
            ["method", titled[0], "instances", *titled[1:]],
            rows,
            caption=f"Each number with its {100 * config.level:g}% interval over clusters (items that share content).",
            notes=titled,
            short=True,
        ),
        Prose(text=f"{interval}{how}", soft=True),
    ]


def _tables(cells: _Cells, findings: Findings, methods: Sequence[str], *, leads: bool) -> Iterator[Block]:
    """The further tables, those that lead or the others, each with the figure of the same title."""
    for table in (table for table in findings.tables if table.leads == leads):
        block = _table(cells, table, methods)
        if block:
            yield block
        figures = [figure for figure in findings.figures if figure.title == table.title]
        yield from (Picture(title="" if block else figure.title, figure=figure) for figure in figures)


def _table(cells: _Cells, table: Table, methods: Sequence[str]) -> TableBlock | None:
    """A further table: the methods and subsets for which there is its score; None if there are none."""
    metric = table.metric or table.columns[0].metric
    rows = [
        [
            cells.method(method),
            Cell(subset),
            *(cells.cell(column, method, subset) for column in table.columns),
            _denominator(cells.numbers[metric, method, subset].score),
        ]
        for method in methods
        for subset in table.subsets
        if (metric, method, subset) in cells.numbers
    ]
    head = [("method", ""), ("", ""), *((column.title, column.explanation) for column in table.columns), ("n", "")]
    return grid(table.title, head, rows, caption=table.caption, short=table.leads) if rows else None


def _denominator(score: Score, *, clusters: bool = False) -> Cell:
    below = [f"{score.n_dropped} without a number", *([f"{score.n_clusters} clusters"] if clusters else [])]
    return Cell(str(score.n_rows), below)


def _differences(numbers: Sequence[Number], findings: Findings, notes: Mapping[Key, str]) -> list[Block]:
    """The paired differences of the headline."""
    paired = [number for number in numbers if number.metric == findings.columns[0].metric + DIFFERENCE]
    caption = (
        f"Difference in {findings.columns[0].title} on the same instances, clusters resampled together; "
        f"{adjusted_over(family_size(paired))}."
    )

    def below(number: Number) -> list[str]:
        return [number.score.ci_method, notes.get(number.key, "")]

    named = attrgetter("method")
    return [scored_table(paired, below, named, title="Do the methods differ?", caption=caption)] if paired else []


def _competitors(cells: _Cells, beliefs: BeliefTable, methods: Sequence[str], config: RunConfig) -> TableBlock:
    """The tokens that most often are likelier than any option's first, and how many read-outs are flagged."""
    counts: dict[str, Counter[str]] = {method: Counter() for method in methods}
    flagged: Counter[str] = Counter()
    for part in in_parts(beliefs):
        readouts = part[(~part["readout_id"].duplicated()) & (part["competitor"] != "")]
        for method, of_method in readouts.groupby("method", observed=True, sort=False):
            if str(method) in counts:
                counts[str(method)].update(of_method["competitor"].tolist())
                flagged[str(method)] += int((of_method["status"] == "low_coverage").sum())
    rows = []
    for method, of_method in counts.items():
        if n := of_method.total():  # answers that are counted have none
            likely = ", ".join(f"{token!r} {count / n:.0%}" for token, count in commonest(of_method))
            rows.append([cells.method(method), Cell(f"{flagged[method] / n:.0%}"), Cell(likely, code=True)])
    return grid(
        "What the model would rather say",
        ["method", "low coverage", "likeliest other tokens (share of read-outs)"],
        rows,
        caption="The likeliest next tokens with which no option begins, and the share of read-outs whose options hold "
        f"less than {config.low_coverage:g} of the probability.",
    )


def _provenance(manifest: Mapping[str, Any]) -> str:
    totals, sessions = manifest["totals"], len(manifest["sessions"])
    statuses = ", ".join(f"{n} {status.replace('_', ' ')}" for status, n in manifest["statuses"].items())
    model = manifest["conditions"]["model"]
    weights = {"adapter": model.get("adapter"), "weights": model.get("quantisation")}
    source = "".join(f" {name.capitalize()}: {text}." for name, text in weights.items() if text)
    return (
        f"{totals['readouts']} conversations in {totals['packs']} forward passes over {totals['tokens_run']} tokens, "
        f"{totals['seconds']:.0f} s, in {sessions} session{'s' if sessions > 1 else ''}. "
        f"{sum(manifest['statuses'].values())} beliefs were read: {statuses}.{source}"
    )


INDEX = "index.html"
LARGEST = 300_000
"""Bytes of a figure that is shown."""


def index_page(folder: Path) -> Report:
    """The page of all runs in a folder, and of the probes, comparisons and cards that lie beside them."""
    entries = [_entry(path) for path in sorted(folder.glob("*/report.html"))]
    read = sum(bool(entry.said) for entry in entries)
    top = Top(
        said=f"{len(entries)} pages in {folder.resolve().name}.",
        verdict=Prose(text=f"{read} of them give a verdict.", soft=True),
    )
    blocks = [Entries(title="Pages", entries=entries)]
    return Report("Runs", f"in {folder.resolve().name}", top, blocks, f"doxascope {__version__}.", unfolded=True)


def _entry(path: Path) -> Entry:
    place = path.parent
    figure = next(iter(sorted((place / FIGURES).glob("01*.svg"))), None)
    return Entry(
        name=place.name,
        link=f"{place.name}/{path.name}",
        said=list(_said(place)),
        image=_image(figure) if figure else "",
    )


def _said(place: Path) -> Iterator[str]:
    """When it began and whether it is whole; its verdict, and its primary number."""
    if (place / "manifest.json").is_file():
        try:
            record = RunFolder(place).manifest
            seed = read_yaml(RunFolder(place).config).get("seed")
            yield f"{status_of(place, record)}, began {sessions(place)[0]['began'].partition('T')[0]}, seed {seed}"
        except (UserError, KeyError, IndexError, TypeError, AttributeError):
            yield "its manifest cannot be read"
    if (place / "report.json").is_file():
        try:
            top = read(place / "report.json").top
            yield top.verdict.says if isinstance(top.verdict, Stamp) else top.verdict.text
            yield f"{top.primary.label}: {top.primary.value}" if top.primary and top.primary.value else ""
        except UserError:
            yield "its report cannot be read"


def _image(path: Path) -> str:
    """A drawing as an image, in which no script runs, whoever drew it."""
    data = path.read_bytes() if path.stat().st_size <= LARGEST else b""
    return f"data:image/svg+xml;base64,{base64.b64encode(data).decode()}" if data else ""
