"""The figures of a collection of runs: models side by side, and lines over sizes, steps or a setting."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ...base.errors import UserError, nearest
from ...metrics import SeedMean
from ...metrics.claims import barred
from ...metrics.consistency.competence import UNREADABLE
from ..report.figures import Panel, Row, chart, forests
from ..report.findings import Figure
from ..report.marks import AWAY, Axis, Mark, line, points, ranges, rule
from ..report.plotting import INK, MARK

if TYPE_CHECKING:
    from .collection import CollectedRun, Collection

OF_GROUP = ("experiment", "model", "adapter", "setting", "metric", "method", "kind", "subset")
"""What rows share that are pooled: all but the seed."""
STEP = re.compile(r"(?<![a-z])(?:checkpoint|step|iter|epoch)[-_ ]?(\d+)(?!\.?\d)", re.IGNORECASE)
SIZE, STEPS, SIZES = "size", "step", "size (parameters)"
"""What a line plot may be over, and the axis of sizes."""
COLOURS = (MARK, AWAY, INK, "#7a6bb0", "#4f8f5b", "#b08d3f")
MOST_ROWS = 40
"""Of a panel."""


def each(rows: pd.DataFrame) -> Iterator[Any]:
    """The rows, with their columns as attributes."""
    yield from rows.itertuples()


def called(row: Any) -> str:
    """The method of a row, with its kind unless that is the exact one."""
    return row.method if row.kind == "exact" else f"{row.method} ({row.kind})"


def named(row: Any) -> str:
    """The model of a row, with its settings."""
    return f"{row.model} ({row.setting})" if row.setting else row.model


UNREAD = "†"
LEGEND = f"{UNREAD} unreadable: no belief is measured"


def mark_of(row: Any) -> str:
    """What stands behind a number whose method some seed cannot read; nothing where there is no number."""
    return UNREAD if UNREADABLE in row.readable and np.isfinite(row.estimate) else ""


def no_belief(row: Any) -> bool:
    """Whether a number is about beliefs that some seed cannot read, and not of what the model does."""
    return UNREADABLE in row.readable and barred(row.metric, row.kind)


def forest_of(collection: "Collection", metrics: Sequence[str] = ()) -> Figure | None:
    """A panel for each experiment and metric, models as rows; of a registered number its method alone."""
    panels = []
    most = 0
    for experiment, metric, runs, rows in _shown(collection, metrics):
        methods = {called(row) for row in each(rows)}
        drawn: list[Row] = [
            (
                ", ".join([named(row), *([called(row)] if len(methods) > 1 else [])]),
                _score(collection, row),
                bool(mark_of(row)),
            )
            for row in each(rows)
            if np.isfinite(row.estimate)
        ]
        most = max(most, len(drawn))
        if drawn:
            method = f", {methods.pop()}" if len(methods) == 1 else ""
            panels.append((f"{experiment}: {metric}{method}", drawn[:MOST_ROWS], _coherent(runs, metric)))
    if not panels:
        return None
    hollow = any(failed for _, rows, _ in panels for *_, failed in rows)
    caption = "The mean over seeds, with its interval for other items and seeds."
    caption += f" Of {most} rows the first {MOST_ROWS} are drawn." if most > MOST_ROWS else ""
    caption += " The dashed line is the coherent value." if any(at is not None for *_, at in panels) else ""
    return forests("Models side by side", panels, caption + (" Hollow: cannot be read." if hollow else ""))


def _shown(
    collection: "Collection", metrics: Sequence[str]
) -> Iterator[tuple[str, str, "list[CollectedRun]", pd.DataFrame]]:
    """Experiment, metric, the runs, and the rows that are drawn."""
    for (experiment, metric), rows in collection.named(metrics).groupby(["experiment", "metric"], sort=False):
        runs = [run for run in collection.runs if run.experiment == experiment]
        yield str(experiment), str(metric), runs, _of_registered(rows, runs, str(metric))


def _of_registered(rows: pd.DataFrame, runs: "Sequence[CollectedRun]", metric: str) -> pd.DataFrame:
    plans = {run.headline for run in runs if run.headline[0] == metric and run.headline[1]}
    planned = rows[[(metric, row.method, row.kind) in plans for row in each(rows)]]
    return planned if len(planned) else rows


def _coherent(runs: "Sequence[CollectedRun]", metric: str) -> float | None:
    values = {run.coherent for run in runs if run.headline[0] == metric and np.isfinite(run.coherent)}
    return values.pop() if len(values) == 1 else None


def _score(collection: "Collection", row: Any) -> SeedMean:
    score = collection.scores[tuple(getattr(row, name) for name in OF_GROUP)]
    return SeedMean(mean=score.mean, ci_lo=row.ci_lo, ci_hi=row.ci_hi, n_rows=score.n_rows)


def lines_of(collection: "Collection", metrics: Sequence[str] = (), over: str | None = None) -> Figure | None:
    """Each number over the steps of checkpoints, the sizes of models, or a setting; None where no experiment
    has two values of it. Not said over what: steps where a name has one, else sizes. Raises UserError for what no run
    has.
    """
    places, axis = _places(collection, over)
    panels, hollow = [], False
    for experiment, metric, runs, rows in _shown(collection, metrics):
        here = {(model, setting): at for (of, model, setting), at in places.items() if of == experiment}
        families = _families(rows, here, axis.label)
        if families and len(set(here.values())) > 1:
            alone = "".join(f", {name}" for name in families if len(families) == 1)
            marks = list(_lines(families, here, named=len(families) > 1))
            hollow |= any(mark_of(row) for family in families.values() for row in family)
            reference = _coherent(runs, metric)
            marks += [rule(reference, "coherent")] if reference is not None else []
            panels.append(Panel(f"{experiment}: {metric}{alone}", marks))
    if not panels:
        return None
    caption = "The mean over seeds, with its interval." + " Hollow: cannot be read." * hollow
    return chart(f"Over {axis.label}", panels, caption, x=axis, columns=3, side=(2.2, 1.6))


def _places(collection: "Collection", over: str | None) -> tuple[Mapping[tuple[str, str, str], float], Axis]:
    """(experiment, model, setting) -> where it stands, and the axis."""
    names = collection.pooled[["experiment", "model", "setting"]].drop_duplicates()
    groups = {(row.experiment, row.model, row.setting) for row in each(names)}
    steps = {group: float(match[1]) for group in groups if (match := STEP.search(group[1]))}
    if over == STEPS or (over is None and len(set(steps.values())) > 1):
        return steps, Axis(STEPS, most=4)
    if over in (None, SIZE):
        known = {run.model: run.n_parameters for run in collection.runs if np.isfinite(run.n_parameters)}
        sizes = {group: float(np.log10(known[group[1]])) for group in groups if group[1] in known}
        ticks = sorted(set(sizes.values()))
        return sizes, Axis(SIZES, ticks=ticks, names=[_size(10**tick) for tick in ticks], size=7)
    known = {name for run in collection.runs for name in run.settings}
    if not any(f".{name}".endswith(f".{over}") for name in known):
        raise UserError(f"over {over!r}: is no setting of these runs; {nearest(str(over), {SIZE, STEPS, *known})}")
    named = [
        (run, text) for run in collection.runs for name, text in run.settings.items() if f".{name}".endswith(f".{over}")
    ]
    settings = {(run.experiment, run.model, run.setting): float(text) for run, text in named if NUMBER.fullmatch(text)}
    return settings, Axis(str(over), most=4)


NUMBER = re.compile(r"-?\d+(?:\.\d*)?(?:e[+-]?\d+)?")
"""Of a setting that is one."""


def _size(n: float) -> str:
    for unit, name in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if n >= unit:
            return f"{n / unit:.3g}{name}"
    return f"{n:.0f}"


def _families(rows: pd.DataFrame, places: Mapping[tuple[str, str], float], along: str) -> Mapping[str, Sequence[Any]]:
    """The rows of each line, in their order: of what is the same but for what the axis has."""
    families: dict[str, list[Any]] = {}
    for row in each(rows):
        if (row.model, row.setting) in places and np.isfinite(row.estimate):
            families.setdefault(", ".join(filter(None, (*_family(row, along), called(row)))), []).append(row)
    return {name: sorted(family, key=lambda row: places[row.model, row.setting]) for name, family in families.items()}


def _family(row: Any, along: str) -> Iterator[str]:
    """Of steps the model without its step, of sizes its step alone, else the model; and settings beside the axis's."""
    step = STEP.search(row.model)
    if along == STEPS:
        yield STEP.sub("", row.model).strip("-_ ,")
    elif along == SIZES:
        yield step[0] if step else ""
    else:
        yield row.model
    parts = [(part, part.removeprefix("all ").split(" ")[0]) for part in row.setting.split(", ")]
    yield ", ".join(part for part, name in parts if not f".{name}".endswith(f".{along}"))


def _lines(
    families: Mapping[str, Sequence[Any]],
    places: Mapping[tuple[str, str], float],
    *,
    named: bool,
) -> Iterator[Mark]:
    """A line of dots for each family, hollow where it cannot be read; what would hide another stands beside it."""
    drawn: set[tuple[float, float]] = set()
    beside = 0.02 * float(np.ptp([*places.values()]))
    for i, (name, family) in enumerate(families.items()):
        x, y = np.array([places[row.model, row.setting] for row in family]), [row.estimate for row in family]
        while drawn & {*zip(x.tolist(), y, strict=True)}:
            x = x + beside
        drawn.update(zip(x.tolist(), y, strict=True))
        colour, known = COLOURS[i % len(COLOURS)], [not mark_of(row) for row in family]
        yield ranges(x, [row.ci_lo for row in family], [row.ci_hi for row in family], color=colour, alpha=0.6)
        if all(known) or len(x) > 2:
            yield line(x, y, name if named and all(known) else "", color=colour, dots=4 * all(known))
        if not all(known):
            yield points(x[known], np.array(y)[known], name if named and any(known) else "", size=16, color=colour)
            x, y = x[np.logical_not(known)], np.array(y)[np.logical_not(known)]
            yield points(x, y, name if named and not any(known) else "", size=16, color=colour, hollow=True)
