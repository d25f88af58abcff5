"""What a table is: its form, its clusters, and what will be scored."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ...base.errors import UserError, closest
from ..contract import Array
from ..tables.cells import complete, load_columns
from ..tables.sample_rows import Updates
from ..tables.samples import Sample
from ..tables.source import TableSource, open_table, renamed
from . import FORMS, Form
from . import belief_table as belief_rows

BELIEFS = Form(
    "belief table",
    "readout_id, item, kind, method, option, prob [, option_index, cluster, layer, scenario, step, rejected, template, "
    "status, outcome]",
    belief_rows.columns,
    lambda path, data, clusters: Sample(),  # it holds several samples: see `understand`
)
ALL_FORMS = (BELIEFS, *FORMS)


@dataclass(frozen=True)
class Understood:
    """A table that was read."""

    path: Path
    form: str
    samples: Sequence[Sample]
    """One per kind of belief and method; of a plain form, one."""
    line: str
    """What was understood, for the user to check."""
    rivals: Sequence[Sequence[str]] = ()
    """Names of samples that are compared with each other; none: all are."""


def understand(
    path: Path, *, cluster: str | None = None, replicates: str | None = None, names: Mapping[str, str] | None = None
) -> Understood:
    """Read a table and recognise its form (columns decide, not their order).

    Args:
        path: the file.
        cluster: column that names what was sampled.
        replicates: column that says which reading of an item a row is; with a column `item`.
        names: name that a form wants -> the column that has it under another.

    Raises UserError: unreadable, no form fits (the nearest one is named), a cell is wrong (by row and column).
    """
    source = renamed(open_table(path), names or {})
    form = recognise(source)
    extra = {name: "label" for name in (cluster, replicates) if name}
    extra = {name.strip().lower(): role for name, role in extra.items()}
    if absent := [name for name in extra if name not in source.columns]:
        raise UserError(f"{path}: has no column {absent[0]!r}; {_hint(absent[0], source.columns)}")
    column = cluster.strip().lower() if cluster else next((c for c in form.cluster if c in source.columns), None)
    roles = form.roles(source.columns)
    if form is not BELIEFS and "kind" in source.columns:
        extra["kind"] = "label"
    if replicates:
        extra["item"] = "label"
        _refuse_replicates(source, form)
    data = load_columns(source, {**dict.fromkeys([column] if column else [], "label"), **extra, **roles})
    n_rows = len(next(iter(data.values())))
    clusters = complete(path, column, data[column]) if column else None
    _refuse_mixture(path, data if "kind" in extra else {})
    own = {name: data[name] for name in roles}
    note = ""
    if form is BELIEFS:
        samples, event = belief_rows.groups(path, own, clusters)
        statuses = belief_rows.describe_statuses(own)
        note = f"; {event}" + (f"; read-outs: {statuses}" if statuses else "")
        clustered = column or "item"
    else:
        sample = form.build(path, own, clusters)
        if replicates:
            sample = _replicated(path, sample, data, replicates.strip().lower())
            column = column or "item"
        kind = str(data["kind"][0] or "") if "kind" in extra else ""
        samples, clustered = [replace(sample, kind=kind)], column
        note = f"; {sample.note}" if sample.note else ""
    used = [*roles, *(name for name in extra if name not in roles)]
    unused = [name for name in source.columns if name not in used and name != column]
    line = f"{path.name}: {form.name} ({_named(used)}), {n_rows} rows, {_clusters(samples, clustered)}{note}"
    if unused:
        line += f"; not used: {_named(unused)}"
    return Understood(path, form.name, samples, line)


def recognise(source: TableSource) -> Form:
    """The form that the columns make, or UserError naming the nearest one and what it lacks."""
    for form in ALL_FORMS:
        if not form.missing(source.columns):
            return form

    def nearness(form: Form) -> float:
        used, missing = len(form.roles(source.columns)), len(form.missing(source.columns))
        return used / (used + missing)

    nearest = max(ALL_FORMS, key=nearness)
    shown = _shown(source.columns)
    if nearness(nearest) == 0:
        similar = max(ALL_FORMS, key=lambda form: sum(bool(_close(c, source.columns)) for c in form.missing([])))
        if not any(_close(c, source.columns) for c in similar.missing([])):
            raise UserError(f"{source.path}: columns {shown} fit no metric; `doxascope score --list` shows what would")
        nearest = similar
    missing = nearest.missing(source.columns)
    close = _close(missing[0], source.columns)
    raise UserError(
        f"{source.path}: columns {shown} fit no metric; nearest is {nearest.name!r} ({nearest.wants}), which lacks "
        f"{', '.join(map(repr, missing))}" + (f"; is it {close!r}?" if close else "")
    )


def _named(columns: Sequence[str]) -> str:
    return ", ".join(name or "(unnamed)" for name in columns)


def _shown(columns: Sequence[str]) -> str:
    return _named(columns[:12]) + (", ..." if len(columns) > 12 else "")


def _close(name: str, columns: Sequence[str]) -> str | None:
    return closest(name, columns, cutoff=0.75)


def _hint(name: str, columns: Sequence[str]) -> str:
    close = _close(name, columns)
    return f"is it {close!r}?" if close else f"it has: {_shown(columns)}"


def _clusters(samples: Sequence[Sample], column: str | None) -> str:
    first = samples[0]
    if column is None:
        along = isinstance(first, Updates) and first.clusters is not None
        return f"each {'trajectory' if along else 'row'} its own cluster"
    distinct = {label for sample in samples for label in set(_labels(sample))}
    return f"clusters: {column} ({len(distinct)})"


def _labels(sample: Sample) -> Array:
    return np.zeros(0) if sample.clusters is None else sample.clusters


def _refuse_mixture(path: Path, data: Mapping[str, Array]) -> None:
    kinds = sorted({str(kind) for kind in data.get("kind", ())})
    if len(kinds) > 1:
        raise UserError(
            f"{path}: mixes the kinds {', '.join(kinds)}; give one file each, or a belief table "
            f"({', '.join(belief_rows.REQUIRED)})"
        )


def _refuse_replicates(source: TableSource, form: Form) -> None:
    if not form.replicates:
        takes = ", ".join(repr(form.name) for form in FORMS if form.replicates)
        raise UserError(f"{source.path}: --replicates is for {takes}, and this is {form.name!r}")
    if "item" not in source.columns:
        raise UserError(f"{source.path}: --replicates needs a column 'item' that its readings share")


def _replicated(path: Path, sample: Sample, data: Mapping[str, Array], column: str) -> Sample:
    """The sample with its readings named; items are the clusters unless larger ones were given."""
    item, reading = complete(path, "item", data["item"]), complete(path, column, data[column])
    seen: set[tuple[str, str]] = set()
    for row, pair in enumerate(zip(item, reading, strict=True), 1):
        if pair in seen:
            raise UserError(f"{path}: row {row}: item {pair[0]!r} has reading {pair[1]!r} twice")
        seen.add(pair)
    clusters = item if sample.clusters is None else sample.clusters
    if isinstance(sample, Updates):
        sample = replace(sample, views={name: replace(x, clusters=clusters) for name, x in sample.views.items()})
    return replace(sample, clusters=clusters, item=item, replicate=reading)
