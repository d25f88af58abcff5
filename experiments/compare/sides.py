"""What is compared: each a run or a table, with its samples, its gates and its name, the kinds that are read inside
the model, and whether tables say the same of what is true.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from ...base.errors import UserError
from ...metrics import INNER_KINDS
from ...metrics.beliefs import read_exactly
from ...metrics.claims import Verdict, verdicts
from ...metrics.consistency.competence import GATE
from ...metrics.contract import Resampling
from ...metrics.forms.recognition import understand
from ...metrics.number import Number
from ...metrics.scoring.engine import chosen, measured
from ...metrics.tables.harness_logs import model_of
from ...metrics.tables.sample_rows import GLUE, Updates, label_text, with_key
from ...metrics.tables.samples import Multiclass, Sample, sample_name
from ...probes.evidence.calibration import reach
from ...probes.features import OF_OPTION
from ..run.addons.inner_readouts import ReadInside, named_apart, profiles
from ..run.addons.passive_beliefs import applied, by_exact_method, left_out, unreadable
from ..run.experiment import RunConfig
from ..run.folder import like_a_run, run_at
from ..run.joint_scores import Run, flat, model_names, opened, short
from ..run.manifest import ITEMS, item_digests
from ..run.scores import resampling

OF_ONE_OPTION = 2
"""Options of a read-out whose beliefs one number holds."""
LENS = "lens"
"""The condition of an inner read-out that the exact one does not have."""


@dataclass(frozen=True, kw_only=True)
class Admitted:
    """What a run holds that may be compared; nothing of a table."""

    beliefs: pd.DataFrame = field(default_factory=pd.DataFrame)
    """Its belief table, with the rows of inner kinds that are admitted, each under a method of its own."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Name of an inner kind -> why it is no belief here."""
    doubted: Mapping[str, str] = field(default_factory=dict)
    """Name of a sample -> why it is no belief, by the report card of its probe."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Name of a sample -> how what its probe reads is off in spread."""
    untold: Mapping[str, str] = field(default_factory=dict)
    """Name of a sample -> that too few groups were read to say whether its probe is so."""


def inner_beliefs(run: Run, every: pd.DataFrame) -> Admitted:
    """The rows that are not inner, the best layer of each method that was read inside, and those of probes.

    The layer is the one with the largest partial correlation among those that pass. It is chosen on the clusters that
    judge, and holds those that do not, so that the choice has no part in its scores.
    """
    outer = every[~every["kind"].isin(INNER_KINDS)]
    admitted = dict(_probes(run, outer))
    if (every["kind"] == "lens").any() and isinstance(run.experiment, ReadInside):
        admitted |= dict(_layers(run, run.experiment, every))
    rows = [outer, *(table for table in admitted.values() if isinstance(table, pd.DataFrame))]
    texts = ("method", "kind", "readout_id")
    together = pd.concat([part.astype(dict.fromkeys(texts, str)) for part in rows], ignore_index=True)
    refused = {name: table for name, table in admitted.items() if isinstance(table, str)} | left_out(run.folder)
    doubted, notes, untold = dict[str, str](), dict[str, str](), dict[str, str]()
    for meta, table in applied(run.folder):
        if isinstance(rows := admitted.get(f"probe {meta.name}"), pd.DataFrame):
            names = [sample_name("probe", str(method), "") for method in rows["method"].unique()]
            why, off = unreadable(meta), reach(meta.target, table, outer)
            doubted |= dict.fromkeys(names, why) if why else {}
            notes |= dict.fromkeys(names, off.text) if off.wrong else {}
            untold |= dict.fromkeys(names, off.text) if off.text and not off.wrong else {}
    return Admitted(beliefs=together, refused=refused, doubted=doubted, notes=notes, untold=untold)


def _layers(run: Run, experiment: ReadInside, every: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame | str]]:
    """Name -> the rows of a layer, or why there are none."""
    for profile in profiles(experiment.inner, run.config, every):
        passed = {view: read for view, read in profile.inner.items() if read.gate.passed}
        if not passed:
            yield f"{profile.method}, inner layers", f"none of {len(profile.inner)} passes its gate"
            continue
        view = max(passed, key=lambda one: passed[one].gate.partial_corr)
        of_layer = every[
            (every["kind"] == "lens") & (every["method"] == profile.method) & (every["layer"] == view.layer)
        ]
        of_layer = of_layer[(of_layer[LENS] == view.lens) & ~of_layer["cluster"].isin(profile.judges)]
        name = f"{profile.method}/{view.lens}@{view.layer}"
        yield name, named_apart(of_layer, [name] * len(of_layer), (LENS,))


def _probes(run: Run, outer: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame | str]]:
    exact = read_exactly(outer)
    options = exact["readout_id"].astype(str).value_counts()
    for meta, table in applied(run.folder):
        alone = meta.options == OF_ONE_OPTION and meta.position != OF_OPTION
        if alone and (options.reindex(table["of"].unique()) > OF_ONE_OPTION).any():
            yield f"probe {meta.name}", "reads one option, and these beliefs are over more than two"
            continue
        yield f"probe {meta.name}", by_exact_method(meta, table, outer)


VERSIONS = ("doxascope", "code")
"""Conditions in which runs of one experiment must not differ: another version asks, or scores, something else."""
UNTOLD = frozenset({"config", "dataset", "prompts", "registered"})
"""Conditions that are digests of what is told in full beside them."""
DIFFERENCES_IN_A_NAME = 2
UNNAMED = frozenset(
    {"registered", "low_coverage", "bootstrap_draws", "level"} | {"token_budget", "batch_items", "together"}
)
"""Settings of scoring and of speed, which are no part of a run's name."""
COUNT = "items"
"""The setting by which runs are told apart last: they are compared on the items that both have."""
JUDGE = "competence"
"""The engine's metric that judges samples."""


@dataclass(frozen=True)
class Side(Admitted):
    """One of what is compared."""

    label: str
    """Unique among the sides of its group."""
    path: Path
    group: str
    """The experiment, or the form of a table: sides of one group are compared."""
    samples: Sequence[Sample]
    run: Run | None = None
    verdicts: Sequence[Verdict] = ()
    """Of a run, what is said of each method."""
    line: str = ""
    """What was understood of a table."""
    is_log: bool = False
    """Whether another harness wrote it."""

    @property
    def how(self) -> Resampling | None:
        """How a run's own scores are resampled."""
        return resampling(self.run.config) if self.run else None

    @property
    def headline(self) -> str | None:
        """The number that a run was made for: that which was registered, else the experiment's."""
        if self.run is None:
            return None
        plan = self.run.config.registered
        return plan.metric if plan else self.run.experiment.headline


def samples_of(sides: Sequence[Side]) -> list[Sample]:
    """Those of all sides."""
    return [sample for side in sides for sample in side.samples]


def sides_of(
    paths: Sequence[Path],
    *,
    cluster: str | None = None,
    names: Mapping[str, str] | None = None,
    allow_code: Sequence[Path] = (),
) -> list[Side]:
    """Open everything. Raises UserError for what cannot be read, is not whole, or is of another version."""
    folders = {path: folder for path in paths if (folder := run_at(path))}
    places = [(folders[path].path if path in folders else path).resolve() for path in paths]
    if len(set(places)) < len(places):
        twice = paths[next(i for i, place in enumerate(places) if place in places[:i])]
        raise UserError(f"{twice}: is given twice; give what it is to be compared with")
    runs = [opened(folder, allow_code) for folder in folders.values()]
    by_experiment: dict[str, list[Run]] = {}
    for run in runs:
        by_experiment.setdefault(run.experiment.name, []).append(run)
    for runs_of in by_experiment.values():
        _require_one_version(runs_of)
    tables = [path for path in paths if path not in folders]
    sides = [
        _of_run(run, label, len(runs_of) > 1 or bool(tables))
        for runs_of in by_experiment.values()
        for run, label in zip(runs_of, run_labels(runs_of), strict=True)
    ]
    return [*sides, *_of_tables(tables, cluster, names, len(paths) > 1)]


def without_strays(paths: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """What is compared, and what lies beside two runs or more and is none: what a sweep, or its user, keeps in their
    folder. What looks like a run, and logs of other harnesses, are compared.
    """
    runs = [path for path in paths if run_at(path)]
    folders = Counter(path.resolve().parent for path in runs)
    strays = [
        path
        for path in paths
        if path.exists() and folders[path.resolve().parent] > 1
        and path not in runs and not like_a_run(path) and (path.is_dir() or model_of(path) is None)
    ]  # fmt: skip
    return [path for path in paths if path not in strays], strays


def _require_one_version(runs: Sequence[Run]) -> None:
    first = runs[0]
    for run in runs[1:]:
        for name in VERSIONS:
            was, now = first.conditions.get(name), run.conditions.get(name)
            if was != now:
                raise UserError(
                    f"{run.folder.path}: was read by another version ({name} {now}, not {was} as "
                    f"{first.folder.path}), which may ask something else; run it again"
                )


def _of_run(run: Run, label: str, several: bool) -> Side:
    """Inner kinds are compared within a run: a layer of one model is no layer of another."""
    every = run.folder.beliefs()
    outer = every[~every["kind"].isin(INNER_KINDS)]
    admitted = Admitted(beliefs=outer) if several else inner_beliefs(run, every)
    samples = list(run.experiment.samples(run.config, admitted.beliefs))
    gates = verdicts(_gates(run, outer, samples))
    if several:
        known = item_digests(run.folder.recorded(ITEMS))
        samples = [replace(with_key(sample, known), run=label) for sample in samples]
    return Side(label, run.folder.path, run.experiment.name, samples, run, gates, **vars(admitted))


def _gates(run: Run, outer: pd.DataFrame, samples: Sequence[Sample]) -> list[Number]:
    """As the run's own page has them: the experiment's, and those that its samples are judged by."""
    (judge,) = chosen(JUDGE)
    judged = [sample for sample in samples if sample.kind not in INNER_KINDS and judge.lacks(sample) is None]
    gates = measured(judged, resampling(run.config), JUDGE).numbers if judged else ()
    return [number for number in (*run.experiment.own_scores(run.config, outer), *gates) if number.metric == GATE]


def run_labels(runs: Sequence[Run]) -> list[str]:
    """A name for each run: its model with what tells it from others of that name; the folder where that is long."""
    names = model_names(runs)
    settings = [
        {key: text for key, text in flat(_settings(run.config)).items() if key.split(".")[0] not in ignored}
        for run in runs
        for ignored in [UNNAMED | run.experiment.scoring]
    ]
    labels = []
    for i, name in enumerate(names):
        alike = [j for j, other in enumerate(names) if other == name]
        differing = [key for key in settings[i] if any(settings[j].get(key) != settings[i][key] for j in alike)]
        apart = [key for key in differing if key != COUNT]
        if len({tuple(settings[j].get(key) for key in apart) for j in alike}) == len(alike):
            differing = apart
        few = differing if 0 < len(differing) <= DIFFERENCES_IN_A_NAME else []
        parts = [f"{key.rpartition('.')[2]} {short(_said(settings[i][key]))}" for key in few]
        labels.append(", ".join([name, *parts]) if len(alike) == 1 or parts else runs[i].folder.path.name)
    if len(set(labels)) < len(labels):
        labels = [run.folder.path.name for run in runs]
    return labels if len(set(labels)) == len(labels) else [str(run.folder.path) for run in runs]


def _said(text: str) -> str:
    """A setting as it is told: what is empty, or left out, is none."""
    return "none" if text in ("", "None") else text


def _settings(config: RunConfig) -> dict[str, object]:
    return config.model_dump(mode="json", exclude={"model"})


def what_differs(sides: Sequence[Side]) -> list[tuple[str, list[str]]]:
    """(condition or setting, its value on each side), of those in which the runs of one experiment differ."""
    runs = [side.run for side in sides if side.run is not None]
    described = [
        flat({key: value for key, value in run.conditions.items() if key not in UNTOLD})
        | {f"settings.{key}": value for key, value in flat(_settings(run.config)).items()}
        for run in runs
    ]
    names = sorted(dict.fromkeys(name for settings in described for name in settings), key=f"settings.{COUNT}".__eq__)
    differences = [(name, [_said(settings.get(name, "–")) for settings in described]) for name in names]
    return [(name, values) for name, values in differences if len(set(values)) > 1]


def adapters_said(sides: Sequence[Side]) -> list[str]:
    """A sentence for each run whose model has an adapter: what it is, and on which side's model."""
    models = {side.label: side.run.conditions.get("model", {}) for side in sides if side.run is not None}
    lines = []
    for label, model in models.items():
        if model.get("adapter"):
            bases = [other for other, known in models.items() if known.get("weights") == model.get("base")]
            if bases:
                of = f"{bases[0]} with the adapter {model['adapter']}; what differs is what that changed"
            else:
                of = f"a model with the adapter {model['adapter']}; that model without it is not compared here"
            lines.append(f"{label} is {of}.")
    return lines


def _of_tables(
    paths: Sequence[Path], cluster: str | None, names: Mapping[str, str] | None, several: bool
) -> list[Side]:
    """A log of another harness is called by its model."""
    tables = [understand(path, cluster=cluster, names=names) for path in paths]
    models = [model_of(path) for path in paths]
    labels = [model or path.stem for path, model in zip(paths, models, strict=True)]
    if len(set(labels)) < len(labels):
        stems = [
            path.stem if path.stem in label else f"{label}, {path.stem}"
            for path, label in zip(paths, labels, strict=True)
        ]
        labels = stems if len(set(stems)) == len(stems) else [str(path) for path in paths]
    sides = []
    for path, label, read, model in zip(paths, labels, tables, models, strict=True):
        samples = [_keyed(path, replace(sample, run=label if several else "")) for sample in read.samples]
        sides.append(Side(label, path, read.form, samples, line=read.line, is_log=model is not None))
    return sides


def _keyed(path: Path, sample: Sample) -> Sample:
    """The sample with a name for each row: of a plain table the cluster, where each row is one of its own."""
    if sample.keys_known:
        return sample
    rows = sample.whole if isinstance(sample, Updates) else sample
    if rows.clusters is None or len(np.unique(rows.clusters.astype(str))) < len(rows.clusters):
        raise UserError(f"{path}: its rows have no names to pair them by; give a column `item`, one row for each item")
    if not isinstance(sample, Updates):
        return replace(sample, keys=rows.clusters)
    whole = next(name for name, view in sample.views.items() if view is sample.whole)
    return replace(sample, views={**sample.views, whole: replace(sample.whole, keys=rows.clusters)})


# Whether tables that are compared say the same of what is true; runs do, since their rows pair by content.

Row = tuple[str, str, str]
"""Kind, method, key."""


def disagreements(sides: Sequence[Side]) -> list[str]:
    """Of every two tables whose outcomes differ for the same row, a line: how often, and the first such row."""
    known = [(side, dict(_outcomes(side.samples))) for side in sides if side.run is None]
    lines = []
    for (left, first), (right, second) in combinations(known, 2):
        common = [row for row in first if row in second]
        differ = [row for row in common if first[row] != second[row]]
        if differ:
            row = differ[0]
            key = GLUE.join(filter(None, row[-1].split(GLUE)))
            lines.append(
                f"{left.path} and {right.path}: {len(differ)} of {len(common)} common rows have another outcome, the "
                f"first {label_text(key)}: {first[row]} and {second[row]}; each file is scored by its own"
            )
    return lines


def _outcomes(samples: Sequence[Sample]) -> list[tuple[Row, str]]:
    """Each row whose outcome is known, with the outcome as the tables have it."""
    outcomes = []
    for sample in samples:
        rows = sample.whole if isinstance(sample, Updates) else sample
        outcome = getattr(rows, "truth" if isinstance(rows, Multiclass) else "outcome", None)
        if outcome is not None and rows.keys is not None:
            called = "option_index " if isinstance(rows, Multiclass) else ""
            there = np.flatnonzero(np.isfinite(outcome))
            outcomes += [((sample.kind, sample.method, str(rows.keys[i])), f"{called}{outcome[i]:g}") for i in there]
    return outcomes
