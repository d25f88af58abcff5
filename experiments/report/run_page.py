"""The page of a run, in blocks."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import yaml
from markupsafe import Markup

from ...metrics import PairedDifference, Score
from ..experiment import Column, Experiment, Findings, RunConfig, Table
from ..scoring.number import Key, Number
from ..scoring.paired import DIFFERENCE
from ..scoring.verdict import Verdict
from ..tables.samples import ALL
from .blocks import Block, Cell, Folded, Instances, Picture, Prose, Stamp, TableBlock
from .lead import Lead
from .page import render_page
from .text import adjusted_p, weighs_clusters

Numbers = Mapping[tuple[str, str, str], Number]
"""(metric, method, subset) -> number."""
NONE = "–"


def render_report(
    experiment: Experiment,
    config: RunConfig,
    manifest: Mapping[str, Any],
    lead: Lead,
    findings: Findings,
    numbers: Sequence[Number],
    beliefs: pd.DataFrame,
    notes: Mapping[Key, str],
    added: Sequence[Block],
) -> str:
    """The page as text.

    Args:
        experiment: whose run it is.
        config: of the run.
        manifest: of the run, with its totals.
        lead: what the page begins with.
        findings: what the experiment shows.
        numbers: of the experiment.
        beliefs: the rows that they were made of.
        notes: what add-ons say beside single numbers.
        added: the sections of add-ons.
    """
    told = _Told({(one.metric, one.method, one.subset): one for one in numbers}, notes, lead.verdicts)
    methods = [one.method for one in numbers if one.metric == experiment.headline and one.subset == ALL]
    blocks: list[Block] = [
        *_stamps(manifest),
        *lead.blocks,
        Prose(title="What was measured", text=f"{experiment.summary[:1].upper()}{experiment.summary[1:]}"),
        Prose(text=findings.question),
        *_headline(told, findings, methods, config, manifest),
        *(block for table in findings.tables if (block := _table(told, table, methods))),
        *_differences(numbers, findings, notes),
        *(Picture(title=one.title, svg=Markup(one.svg), caption=one.caption) for one in findings.figures),
        *added,
        _competitors(told, beliefs, methods, config),
        *([Instances(title="Instances", gallery=findings.gallery)] if findings.gallery else []),
        Prose(title="Provenance", text=_provenance(manifest)),
        Folded(texts=[("Conditions", _yaml(manifest["conditions"])), ("Configuration", _yaml(_settings(config)))]),
    ]
    return render_page(experiment.name, f"on {config.model.name}", blocks)


class _Told:
    """The numbers of a page as text."""

    def __init__(self, numbers: Numbers, notes: Mapping[Key, str], verdicts: Sequence[Verdict]) -> None:
        self.numbers = numbers
        self._notes = notes
        self._failed = {verdict.method for verdict in verdicts if not verdict.passed}

    def method(self, method: str) -> Cell:
        """The name of a method, marked if it fails the gate."""
        return Cell(method + ("†" if method in self._failed else ""))

    def cell(self, column: Column, method: str, subset: str) -> Cell:
        """Estimate, interval and notes; or a range, a field, or why there is none."""
        number = self.numbers.get((column.metric, method, subset))
        if number is None:
            return Cell(NONE)
        score = number.score
        if column.field is not None:
            value = number.value(column.field)
            return Cell(NONE if math.isnan(value) else _percent(value) if column.percent else f"{value:.3g}")
        if not score.ci_method and score.status == "ok":
            raise ValueError(f"{column.metric}: a number without an interval's method must not be printed")
        if math.isnan(score.estimate):
            return Cell(NONE, [score.status])
        written = _percent if column.percent else _whole if column.whole else _decimal
        if column.to is not None:
            other = self.numbers[column.to, method, subset].score.estimate
            return Cell(f"{written(score.estimate)} – {written(other)}")
        interval = score.ci_method if math.isnan(score.ci_lo) else f"[{written(score.ci_lo)}, {written(score.ci_hi)}]"
        below = [interval, _status(score), self._notes.get(number.key, "")]
        if weighs_clusters(score):
            below.append(f"clusters alike: {written(score.equal_weight_mean)}")
        return Cell(written(score.estimate), below)


def _status(score: Score) -> str:
    return "" if score.status == "ok" else score.status


def _percent(value: float) -> str:
    return f"{value:.1%}"


def _whole(value: float) -> str:
    return f"{value:.0f}"


def _decimal(value: float) -> str:
    return f"{value:.3f}"


def _stamps(manifest: Mapping[str, Any]) -> list[Block]:
    incomplete = manifest["status"] != "complete"
    note = "This run was stopped; the page shows what was committed."
    return [Stamp(says="Incomplete.", note=note)] if incomplete else []


def _headline(
    told: _Told, findings: Findings, methods: Sequence[str], config: RunConfig, manifest: Mapping[str, Any]
) -> list[Block]:
    """The first table, and how its numbers were made."""
    columns = findings.columns
    scores = [told.numbers[columns[0].metric, method, ALL].score for method in methods]
    rows = [
        [
            told.method(method),
            *(told.cell(column, method, ALL) for column in columns),
            _denominator(score, clusters=True),
        ]
        for method, score in zip(methods, scores, strict=True)
    ]
    made = "".join(f", {key} {value}" for key, value in scores[0].params.items())
    checked = manifest["verification"]
    how = (
        f"{len(checked['readouts'])} read-outs were recomputed by one ordinary forward pass per surface form: largest "
        f"difference {checked['largest_difference_nat']:.1e} nat."
        if checked
        else "No read-out was recomputed the plain way in this run (see --verify)."
    )
    return [
        TableBlock(
            title="Scores",
            caption=f"Mean over instances, {100 * config.level:g}% interval over clusters (items that share content).",
            head=[("method", ""), *((column.title, column.explanation) for column in columns), ("instances", "")],
            rows=rows,
            notes=[(column.title, column.explanation) for column in columns],
        ),
        Prose(text=f"Interval: {scores[0].ci_method}{made}. {how}", soft=True),
    ]


def _table(told: _Told, table: Table, methods: Sequence[str]) -> TableBlock | None:
    """A further table: the methods and subsets for which there is its score; None if there are none."""
    metric = table.metric or table.columns[0].metric
    rows = [
        [
            told.method(method),
            Cell(subset),
            *(told.cell(column, method, subset) for column in table.columns),
            _denominator(told.numbers[metric, method, subset].score),
        ]
        for method in methods
        for subset in table.subsets
        if (metric, method, subset) in told.numbers
    ]
    head = [("method", ""), ("", ""), *((column.title, column.explanation) for column in table.columns), ("n", "")]
    return TableBlock(title=table.title, caption=table.caption, head=head, rows=rows) if rows else None


def _denominator(score: Score, *, clusters: bool = False) -> Cell:
    below = [f"{score.n_dropped} undefined", *([f"{score.n_clusters} clusters"] if clusters else [])]
    return Cell(str(score.n_rows), below)


def _differences(numbers: Sequence[Number], findings: Findings, notes: Mapping[Key, str]) -> list[Block]:
    """The paired differences of the headline."""
    paired = [number for number in numbers if number.metric == findings.columns[0].metric + DIFFERENCE]
    rows = []
    for number in paired:
        score = number.score
        assert isinstance(score, PairedDifference)
        value, p = Cell(NONE, [score.status]), NONE
        if not math.isnan(score.difference):
            interval = f"[{score.ci_lo:+.3f}, {score.ci_hi:+.3f}] {score.ci_method}"
            value, p = (
                Cell(f"{score.difference:+.3f}", [interval, _status(score), notes.get(number.key, "")]),
                adjusted_p(score),
            )
        rows.append([Cell(number.method), value, Cell(p), _denominator(score, clusters=True)])
    caption = (
        f"Difference in {findings.columns[0].title} on the same instances, clusters resampled together; p adjusted for "
        f"all {len(paired)} comparisons (Holm)."
    )
    head = [(name, "") for name in ("methods", "difference", "adjusted p", "instances")]
    return [TableBlock(title="Do the methods differ?", caption=caption, head=head, rows=rows)] if paired else []


def _competitors(told: _Told, beliefs: pd.DataFrame, methods: Sequence[str], config: RunConfig) -> TableBlock:
    """The tokens that most often are likelier than any option's first, and how many read-outs are flagged."""
    readouts = beliefs.drop_duplicates("readout_id")
    rows = []
    for method in methods:
        own = readouts[(readouts["method"] == method) & (readouts["competitor"] != "")]
        if own.empty:  # answers that are counted have none
            continue
        shares = own["competitor"].value_counts(normalize=True)[:3]
        flagged = (own["status"] == "low_coverage").mean()
        likely = ", ".join(f"{token!r} {share:.0%}" for token, share in shares.items())
        rows.append([told.method(method), Cell(f"{flagged:.0%}"), Cell(likely, code=True)])
    return TableBlock(
        title="What the model would rather say",
        caption="The likeliest next token with which none of the options begins; and how many read-outs have a "
        f"coverage below {config.low_coverage:g}.",
        head=[("method", ""), ("low coverage", ""), ("most common competitors (share of read-outs)", "")],
        rows=rows,
    )


def _provenance(manifest: Mapping[str, Any]) -> str:
    totals, sessions = manifest["totals"], len(manifest["sessions"])
    statuses = ", ".join(f"{status} {n}" for status, n in manifest["statuses"].items())
    return (
        f"{totals['readouts']} read-outs in {totals['packs']} forward passes over {totals['tokens_run']} tokens, "
        f"{totals['seconds']:.0f} s, in {sessions} session{'s' if sessions > 1 else ''}. Statuses: {statuses}."
    )


def _settings(config: RunConfig) -> Mapping[str, Any]:
    return config.model_dump(mode="json")


def _yaml(data: Any) -> str:
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
