"""What a table is: its form, its clusters, and what will be scored."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ...base.errors import UserError, closest
from ..contract import Array
from ..tables.cells import complete, load_columns
from ..tables.copies import counted_once
from ..tables.sample_rows import Updates, joined
from ..tables.samples import Sample
from ..tables.source import TableSource, open_table, renamed
from . import FORMS, Form
from . import belief_table as belief_rows
from .form import Data
from .levels import Levels, implied, level_columns
from .synonyms import named_otherwise

BELIEFS = Form(
    "belief table",
    "readout_id, item, kind, method, option, prob [, option_index, cluster, layer, scenario, step, rejected, template, "
    "status, outcome]",
    belief_rows.columns,
    lambda path, data, clusters: Sample(),  # it holds several samples: see `understand`
    names=("readout_id", "item"),
    shares=True,
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
    factors: Sequence[str] = ()
    """What the table was scored by."""
    cells: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Run or subset of the samples of one combination of levels -> the level of each factor."""


def understand(
    path: Path,
    *,
    cluster: str | None = None,
    replicates: str | None = None,
    names: Mapping[str, str] | None = None,
    by: Sequence[str] = (),
) -> Understood:
    """Read a table and recognise its form (columns decide, not their order).

    Args:
        cluster: column that names what was sampled.
        replicates: column that says which reading of an item a row is; with a column `item`.
        names: name that a form wants -> the column that has it under another.
        by: columns whose levels, and whose combinations of levels, are scored by themselves; a `model` always is.

    Raises UserError: unreadable, no form fits (the nearest one is named), a cell is wrong (by row and column).
    """
    source, form, called = _opened(path, names or {}, [name for name in (cluster, *by) if name])
    ours = {theirs: ours for ours, theirs in called.items()}
    cluster = cluster and ours.get(cluster.strip().lower(), cluster)
    by = [ours.get(name.strip().lower(), name) for name in by]
    extra = {name: "label" for name in (cluster, replicates, *by) if name}
    extra = {name.strip().lower(): role for name, role in extra.items()}
    if absent := [name for name in extra if name not in source.columns]:
        raise UserError(f"{path}: has no column {absent[0]!r}; {_hint(absent[0], source.columns)}")
    roles = form.roles(source.columns)
    column = cluster.strip().lower() if cluster else _sampled(form, source.columns, [*extra, *roles])
    asked_for = [name.strip().lower() for name in by] or (level_columns(source.columns) if form.pools else [])
    by = implied(source.columns, asked_for, [*roles])
    _refuse_levels(path, by, None if form.pools else column, roles)
    item = next((name for name in ITEMS if by and name in source.columns and name not in by), None)
    extra |= dict.fromkeys([*by, *([item] if item else [])], "label")
    if form is not BELIEFS and "kind" in source.columns:
        extra["kind"] = "label"
    if replicates:
        extra["item"] = "label"
        _refuse_replicates(source, form)
    data = load_columns(source, {**dict.fromkeys([column] if column else [], "label"), **extra, **roles})
    n_rows = len(next(iter(data.values())))
    clusters = complete(path, column, data[column]) if column else None
    if "kind" not in by:
        _refuse_mixture(path, data if "kind" in extra else {})
    by = [name for name in by if name in asked_for or len(set(data[name])) > 1]
    make = _Reader(path, form, roles, set(data), replicates.strip().lower() if replicates else "", "kind" in extra)
    samples, levels, of_cells, rivals = ([] if by else make(data, clusters)), {}, {}, []
    if by:
        owners = data["item"] if form is BELIEFS and clusters is None else clusters
        split = Levels(path, form, data, {name: data[name] for name in by})
        apart = [data[name] for name in level_columns([*data]) if name not in by] if form.pools else []
        items = joined(*apart) if apart else np.zeros(n_rows) if form.pools else data[item] if item else None
        samples = split.samples(make, owners, items)
        levels = {name: len(set(values)) for name, values in split.of.items()}
        of_cells, rivals = split.cells, split.rivals(samples)
    samples = [counted_once(sample) for sample in samples]
    notes = [f"{theirs} taken for {ours}" for ours, theirs in called.items()]
    notes += [*make.events[:1], *filter(None, [samples[0].note])]
    if form is BELIEFS and (statuses := belief_rows.describe_statuses(data)):
        notes.append(f"read-outs: {statuses}")
    clustered = column or ("item" if form is BELIEFS or replicates else None)
    used = [*roles, *(name for name in extra if name not in roles)]
    unused = [name for name in source.columns if name not in used and name != column]
    line = f"{path.name}: {form.name} ({_named(used)}), {n_rows} rows, {_clusters(samples, clustered)}"
    if clustered is None and unused:
        notes.insert(
            0, f"if rows that share a {' or a '.join(unused[:3])} belong together, name it: --cluster {unused[0]}"
        )
    by_levels = [f"by {', '.join(f'{name} ({n})' for name, n in levels.items())}"] if levels else []
    line = "; ".join(
        [line, *notes, *by_levels, *([f"not used: {_named(unused)}{_meant(form, source)}"] if unused else [])]
    )
    return Understood(path, form.name, samples, line, rivals, [*levels], of_cells)


def _opened(path: Path, names: Mapping[str, str], kept: Sequence[str]) -> tuple[TableSource, Form, dict[str, str]]:
    """A table with its columns under the names of its form, what it calls them itself, and with a row for each thing
    that was asked, at each level of what is `kept`.
    """
    source = renamed(open_table(path), names)
    form, called = recognise(source)
    source = renamed(source, called)
    if form.gather is None:
        return source, form, called
    source = form.gather(source, [name.strip().lower() for name in kept])
    return source, next(form for form in FORMS if not form.missing(source.columns)), called


@dataclass(frozen=True)
class _Reader:
    """Makes what is scored of some rows of a table."""

    path: Path
    form: Form
    roles: Mapping[str, str]
    columns: Collection[str]
    """Those that were read; what else there is was made for the form."""
    replicates: str
    kinds: bool
    """Whether a plain table says what kind of belief it holds."""
    events: list[str] = field(default_factory=list)
    """What was taken for the belief, of each belief table."""

    def __call__(self, data: Data, clusters: Array | None) -> list[Sample]:
        """Raises UserError as `understand`."""
        columns = {name: values for name, values in data.items() if name in self.roles or name not in self.columns}
        if self.form is BELIEFS:
            samples, event = belief_rows.groups(self.path, columns, clusters)
            self.events.append(event)
            return samples
        built = self.form.build(self.path, columns, clusters)
        built = built if isinstance(built, list) else [built]
        if self.replicates:
            built = [_replicated(self.path, sample, data, self.replicates) for sample in built]
        return [replace(sample, kind=str(data["kind"][0] or "") if self.kinds else "") for sample in built]


SAMPLED = ("triple", "question", "item")
"""Columns that are taken for what was sampled where a form's own are not there; the first, which holds several items,
also before these, but for `cluster`."""
ITEMS = ("item", "question", "scenario", "trajectory", "cluster")
"""Columns by which rows of two levels are of one thing, in this order; else the cluster."""


def _sampled(form: Form, columns: Sequence[str], otherwise: Collection[str]) -> str | None:
    """The column that is taken for what was sampled: that of the form, else one of a usual name that nothing else uses
    (rows of a trajectory, and numbers of models, have the clusters of their form alone).
    """
    usual = () if form is BELIEFS or form.pools or "trajectory" in form.names else SAMPLED
    others = [name for name in usual if name not in otherwise]
    coarse = [name for name in ("cluster", SAMPLED[0]) if name in (*form.cluster, *others)]
    return next((name for name in (*coarse, *form.cluster, *others) if name in columns), None)


def _refuse_levels(path: Path, by: Sequence[str], column: str | None, roles: Mapping[str, str]) -> None:
    """Raise UserError for columns that have no levels to score by."""
    for at, name in enumerate(by):
        if name in by[:at]:
            raise UserError(f"{path}: --by names {name!r} twice")
        if name == column:
            raise UserError(f"{path}: --by {name}: is the cluster; name a column whose levels hold several")
        if roles.get(name, "label") != "label":
            raise UserError(f"{path}: --by {name}: is a number that is scored ({roles[name]}); name a column of labels")


def recognise(source: TableSource) -> tuple[Form, dict[str, str]]:
    """The form that the columns make, and which of its columns the table has under other names (none where it lacks
    nothing; else the form that uses most columns). UserError naming the nearest form, and what it lacks.
    """
    for form in ALL_FORMS:
        if not form.missing(source.columns):
            return form, {}

    others = {form.name: named_otherwise(form, source.columns) for form in ALL_FORMS}

    def lacks(form: Form) -> list[str]:
        return form.missing([*source.columns, *others[form.name]])

    def nearness(form: Form) -> tuple[float, int]:
        there = [*source.columns, *others[form.name]]
        return 1 - len(lacks(form)) / len(form.columns(there)[0]), len(form.roles(there))

    nearest = max(ALL_FORMS, key=nearness)
    if not lacks(nearest):
        return nearest, others[nearest.name]
    shown = _shown(source.columns)
    if nearness(nearest)[0] == 0:
        similar = max(ALL_FORMS, key=lambda form: sum(bool(_close(c, source.columns)) for c in form.missing([])))
        if not any(_close(c, source.columns) for c in similar.missing([])):
            raise UserError(f"{source.path}: columns {shown} fit no metric; `doxascope score --list` shows what would")
        nearest = similar
    missing = lacks(nearest)
    close = _close(missing[0], source.columns)
    raise UserError(
        f"{source.path}: columns {shown} fit no metric; nearest is {nearest.name!r} ({nearest.wants}), which lacks "
        f"{', '.join(map(repr, missing))}" + (f"; is it {close!r}? --map {missing[0]}={close}" if close else "")
    )


def _meant(form: Form, source: TableSource) -> str:
    """How what is not used would be, where it has another name of a column that the form takes."""
    meant = named_otherwise(form, source.columns) if form is not BELIEFS else {}
    return "".join(f" (or --map {ours}={theirs})" for ours, theirs in meant.items())


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
    distinct = {label for sample in samples if sample.clusters is not None for label in set(sample.clusters)}
    return f"clusters: {column} ({len(distinct)})"


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
