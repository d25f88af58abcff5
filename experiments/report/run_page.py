"""One HTML page for a run: nothing from a network, every byte that a model wrote escaped.

Without its one script, which filters the instances, all of it stands there.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import yaml
from markupsafe import Markup

from ...metrics.score import Score
from ..addons.inner.report import InnerPage
from ..addons.noise_floor import Floors, Key
from ..experiment import Cell, Column, Experiment, Findings, Gallery, RunConfig, Table
from .page import render_page


def render_report(
    experiment: Experiment,
    config: RunConfig,
    manifest: Mapping[str, Any],
    findings: Findings,
    cells: Sequence[Cell],
    beliefs: pd.DataFrame,
    floors: Floors | None,
    inner: InnerPage | None,
) -> str:
    """The page as text; `inner` is of a run that reads inner layers."""
    by_key = {(cell.metric, cell.method, cell.subset): cell.score for cell in cells}
    paired = [
        (cell.method, cell.score, _floor(floors, (cell.metric, cell.method, cell.subset), cell.score))
        for cell in cells
        if cell.metric == findings.differences
    ]
    cells = [cell for cell in cells if cell.metric != findings.differences]
    methods = list(dict.fromkeys(cell.method for cell in cells))
    headline = findings.columns[0]
    methods = [m for m in methods if (headline.metric, m, findings.headline_subset) in by_key]
    return render_page(
        "report.html.j2",
        script="filter.js",
        experiment=experiment,
        config=config,
        manifest=manifest,
        findings=findings,
        methods=methods,
        rows=[
            (m, [_cell(by_key, floors, column, m, findings.headline_subset) for column in findings.columns])
            for m in methods
        ],
        denominators={m: by_key[headline.metric, m, findings.headline_subset] for m in methods},
        tables=[(table, rows) for table in findings.tables if (rows := _rows(by_key, floors, table, methods))],
        floors=floors,
        paired=paired,
        competitors=_competitors(beliefs),
        low=_low_coverage(beliefs),
        choices=_choices(findings.gallery) if findings.gallery else [],
        inner=inner,
        svg=Markup(inner.figure.svg) if inner else "",
        figures=[(figure.title, Markup(figure.svg), figure.caption) for figure in findings.figures],
        config_text=yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True),
        conditions_text=yaml.safe_dump(manifest["conditions"], sort_keys=False, allow_unicode=True),
    )


def _rows(
    scores: Mapping[Key, Score], floors: Floors | None, table: Table, methods: Sequence[str]
) -> list[tuple[str, str, list[dict[str, str]], Score]]:
    """(method, subset, cells, the score that has the denominator) of the rows for which there is a score."""
    metric = table.metric or table.columns[0].metric
    return [
        (method, subset, [_cell(scores, floors, column, method, subset) for column in table.columns], scores[key])
        for method in methods
        for subset in table.subsets
        if (key := (metric, method, subset)) in scores
    ]


def _cell(
    scores: Mapping[Key, Score], floors: Floors | None, column: Column, method: str, subset: str
) -> dict[str, str]:
    """The text of a table cell: estimate and interval, or a range, or why there is none."""
    key = (column.metric, method, subset)
    score = scores.get(key)
    if score is None:
        return {"value": "–", "interval": "", "floor": ""}
    if column.field is not None:
        value = getattr(score, column.field)
        return {"value": "–" if math.isnan(value) else f"{value:.3g}", "interval": "", "floor": ""}
    if not score.ci_method and score.status == "ok":
        raise ValueError(f"{column.metric}: a number without an interval's method must not be printed")

    def written(value: float) -> str:
        return f"{value:.1%}" if column.percent else f"{value:.3f}"

    if math.isnan(score.estimate):
        return {"value": "–", "interval": score.status, "floor": ""}
    if column.to is not None:
        return {
            "value": f"{written(score.estimate)} – {written(scores[column.to, method, subset].estimate)}",
            "interval": "",
            "floor": "",
        }
    interval = score.ci_method if math.isnan(score.ci_lo) else f"[{written(score.ci_lo)}, {written(score.ci_hi)}]"
    return {"value": written(score.estimate), "interval": interval, "floor": _floor(floors, key, score)}


def _floor(floors: Floors | None, key: Key, score: Score) -> str:
    """How far arithmetic alone may move a score, and whether the score is no more than that."""
    if floors is None or math.isnan(score.estimate):
        return ""
    floor = floors.of[key]
    return ("within its " if abs(score.estimate) <= floor > 0 else "") + f"floor {floor:.0e}"


def _competitors(beliefs: pd.DataFrame) -> dict[str, list[tuple[str, float]]]:
    """Per method, the tokens that most often are likelier than any option's first, with their share of read-outs."""
    readouts = beliefs.drop_duplicates("readout_id")
    return {
        str(method): [
            (repr(token), share) for token, share in rows["competitor"].value_counts(normalize=True)[:3].items()
        ]
        for method, rows in readouts.groupby("method", sort=False)
    }


def _low_coverage(beliefs: pd.DataFrame) -> dict[str, float]:
    """Per method, the share of read-outs that are flagged."""
    readouts = beliefs.drop_duplicates("readout_id")
    flagged = readouts["status"] == "low_coverage"
    return {
        str(method): float(share) for method, share in flagged.groupby(readouts["method"], sort=False).mean().items()
    }


def _choices(gallery: Gallery) -> list[tuple[str, list[str]]]:
    """Each facet, with the values that it has among the instances."""
    columns = zip(*(instance.facets for instance in gallery.instances), strict=True)
    return [(name, list(dict.fromkeys(values))) for name, values in zip(gallery.facets, columns, strict=False)]
