"""`doxascope collect`: the numbers of many runs in one table, of any experiments, models, seeds and settings; seeds are
pooled (METRICS F10). It reads what the runs have written, and needs neither a model nor their beliefs.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...base.documents import user_path
from ...base.errors import UserError, in_one_line, nearest, told_briefly
from ...base.settings import read_yaml
from ...base.text import shown
from ...metrics import SeedMean, mean_over_seeds
from ...metrics.claims import in_words
from ...metrics.consistency.competence import UNREADABLE
from ...metrics.number import interval_text, of_share
from ...metrics.tables.samples import ALL
from ..report.findings import Figure
from ..run.folder import RunFolder, run_at
from ..run.joint_scores import flat, named_models, short
from ..run.questions import EVERY_ITEM
from .collection_figures import OF_GROUP, called, each, forest_of, lines_of, mark_of, no_belief
from .sides import UNNAMED

COLUMNS = (
    *("experiment", "model", "adapter", "seed", "setting", "metric", "method", "kind", "subset"),
    *("estimate", "ci_lo", "ci_hi", "ci_method", "se", "n", "clusters", "status", "readable", "verdict", "run"),
)
"""Of a row for each number of each run."""
SETTLED = UNNAMED | {"model", "seed", "experiment"}
"""Settings that are told elsewhere, or are of scoring and of speed."""


@dataclass(frozen=True)
class CollectedRun:
    """A run that is whole and scored."""

    path: Path
    experiment: str
    model: str
    adapter: str
    seed: int
    settings: Mapping[str, str]
    """By full names, without those of the model."""
    setting: str
    """Those in which runs of its experiment and model differ."""
    n_parameters: float
    headline: tuple[str, str, str]
    """Metric, method and kind of the number that it is made for; empty where the experiment alone names the metric."""
    coherent: float
    """Its value for a coherent belief; NaN: none is registered."""
    verdicts: Mapping[tuple[str, str], str]
    """(method, kind) -> what is said of it."""
    readable: Mapping[tuple[str, str], str]
    """(method, kind) -> whether it can be read."""
    scores: Sequence[Mapping[str, Any]]
    conditions: Mapping[str, str]
    """All that changes its numbers, as text by full names."""
    config: Mapping[str, Any]
    """Its settings as they are stored."""


@dataclass(frozen=True)
class Collection:
    """The numbers of many runs."""

    runs: Sequence[CollectedRun]
    rows: pd.DataFrame
    """A row for each number of each run, with the columns of `COLUMNS`."""
    pooled: pd.DataFrame
    """The same over seeds: `sd` is the standard deviation between them, `seeds` how many there are."""
    left_out: Sequence[str] = ()
    """What is not in it, and why, in a line each."""
    scores: Mapping[tuple[str, ...], SeedMean] = field(default_factory=dict, repr=False)
    """Of each row that is pooled, by the columns of `OF_GROUP`."""

    def __repr__(self) -> str:
        kinds = {name: self.rows[name].nunique() for name in ("experiment", "model", "seed")}
        counts = ", ".join(f"{n} {name}{'s' * (n != 1)}" for name, n in kinds.items())
        return f"Collection({len(self.runs)} runs: {counts}; .table(), .plot(), .rows, .pooled)"

    def _repr_html_(self) -> str:
        return f"<p>{self!r}</p>{self.table().to_html()}"

    def named(self, metrics: Sequence[str] = ()) -> pd.DataFrame:
        """The pooled rows that are shown: of the whole data, by these metrics, or by those that the runs are made for.

        Raises UserError for a metric that no run has.
        """
        known = self.pooled["metric"].unique().tolist()
        for name in metrics:
            if name not in known:
                raise UserError(f"metric {name!r}: no run has it; {nearest(name, known)}")
        made_for = {(run.experiment, run.headline[0]) for run in self.runs}
        wanted = [
            metric in metrics if metrics else (experiment, metric) in made_for
            for experiment, metric in zip(self.pooled["experiment"], self.pooled["metric"], strict=True)
        ]
        return self.pooled[np.array(wanted) & (self.pooled["subset"] == ALL)]

    def table(self, *metrics: str) -> pd.DataFrame:
        """Models as rows, and a column for each experiment, metric and method: estimate and interval as text, with † at
        what cannot be read. Without metrics those that the runs are made for. `pooled` has the numbers.
        """
        rows = self.named(metrics)
        texts = [
            f"{shown(row.estimate)}{mark_of(row)} {interval_text(row.ci_lo, row.ci_hi)}".strip() for row in each(rows)
        ]
        titles = [f"{row.experiment} {row.metric} {called(row)}" for row in each(rows)]
        wide = rows.assign(text=texts, title=titles)
        index = ["model", "setting"] if (rows["setting"] != "").any() else ["model"]
        cells = wide.pivot(index=index, columns="title", values="text").fillna("")
        return cells.reindex(columns=list(dict.fromkeys(titles))).rename_axis(columns=None)

    def scalars(self, *metrics: str) -> dict[str, float]:
        """`experiment/model/setting/method/metric` -> the estimate over seeds, as `log_metrics` of MLflow and `log` of
        W&B take it: of the numbers that the runs are made for, or of these metrics. `unreadable` stands before the
        metric of a number about beliefs that cannot be read. Signs that MLflow refuses are `-`.
        """
        rows = self.named(metrics).dropna(subset="estimate")
        names = [
            [row.experiment, row.model, row.setting, called(row), no_belief(row) * UNREADABLE, row.metric]
            for row in each(rows)
        ]
        keys = [re.sub(r"[^\w\-. :/]", "-", "/".join(filter(None, parts))) for parts in names]
        return dict(zip(keys, rows["estimate"].astype(float), strict=True))

    def plot(self, *metrics: str, over: str | None = None) -> Figure:
        """A forest of these numbers, or, `over` size, step or a setting, a line plot; `.save("figure.pdf")` writes it.
        Raises UserError where there is nothing to draw.
        """
        drawn = forest_of(self, metrics) if over is None else lines_of(self, metrics, over)
        if drawn is None:
            why = "" if over is None else f" over {over!r}: fewer than two of its values are known"
            raise UserError(f"there is nothing to draw{why}")
        return drawn


@told_briefly
def collect(*paths: Path | str | RunFolder) -> Collection:
    """The numbers of many runs in one table, over seeds, as `doxascope collect` has them. What is not whole or not
    scored is left out, and named.

    Args:
        paths: of runs, or of folders of runs; or what `run` and `sweep` return.

    The result prints as a table: `.table()` has models as rows, `.plot()` draws them, `.rows` is each number of each
    run, `.pooled` each over seeds. Raises UserError for a path that holds no run, for a run that is named itself and is
    not as it was written, and if nothing is left.
    """
    places = [user_path(str(path if isinstance(path, Path | str) else path.path)) for path in paths]
    left_out: list[str] = []
    opened: dict[Path, tuple[CollectedRun, Mapping[str, Any]]] = {}
    for folder, named in (run for place in places for run in _runs_in(place)):
        try:
            opened.setdefault(folder.path.resolve(), _opened(folder))
        except UserError as error:
            if named and not isinstance(error, NotReadyError):
                raise
            left_out.append(f"{folder.path} is left out: {str(error).removeprefix(f'{folder.path}: ')}.")
    left_out = list(dict.fromkeys(left_out))
    if not opened:
        raise UserError(f"{places[0]}: no run is whole and scored; " + " ".join(left_out))
    names = named_models([recorded for _, recorded in opened.values()])
    several = [replace(run, model=name) for (run, _), name in zip(opened.values(), names, strict=True)]
    runs, further = _settings(several)
    runs, twice = _apart(runs)
    left_out += twice
    every = [row for run in runs for row in _rows(run)]
    rows = pd.DataFrame(every, columns=[*COLUMNS])
    groups: dict[Any, list[Mapping[str, Any]]] = {}
    for row in every:
        groups.setdefault(tuple(row[name] for name in OF_GROUP), []).append(row)
    scores = {key: _pooled(alike) for key, alike in groups.items()}
    pooled = pd.DataFrame([_row(key, alike, scores[key]) for key, alike in groups.items()])
    return Collection(runs, rows, pooled, [*left_out, *further, *_alike(every)], scores)


def _alike(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A line for each model of which several seeds have read the same."""
    seeds: dict[tuple[str, ...], dict[str, None]] = {}
    for row in rows:
        known = tuple(row[name] for name in ("experiment", "model", "setting", "read"))
        seeds.setdefault(known, {}).setdefault(str(row["seed"]))
    for (experiment, model, *_), alike in seeds.items():
        if len(alike) > 1:
            named = ", ".join(sorted(alike, key=int))
            yield f"{experiment}, {model}: seeds {named} have read the same, and count as one."


def _runs_in(path: Path) -> Iterator[tuple[RunFolder, bool]]:
    """The run of a path, or those at most two levels below it, each with whether it is named itself."""
    if run := run_at(path):
        yield run, True
        return
    inside = sorted({*path.glob("*/manifest.json"), *path.glob("*/*/manifest.json")})
    if not inside:
        raise UserError(f"{path}: is no run, and no folder of runs; see `doxascope ls --out {path}`")
    yield from ((RunFolder(manifest.parent), False) for manifest in inside)


class NotReadyError(UserError):
    """A run that is not whole, or not scored."""


def _opened(folder: RunFolder) -> tuple[CollectedRun, Mapping[str, Any]]:
    """A run, and what is recorded of its model. Raises NotReadyError, and UserError for one that is malformed."""
    with in_one_line(folder.path, "is no record of a run, or of another version: `doxascope report` writes it again"):
        content = folder.written("scores.json")
        if folder.missing or content is None:
            why = (
                f"{folder.missing} batches are still to be read"
                if folder.missing
                else "is not scored; give its command again"
            )
            raise NotReadyError(why)
        config, stored = read_yaml(folder.config), json.loads(content)
        run = _collected(folder, config, stored)
        if not list(_rows(run)):
            raise NotReadyError("holds no number")
        thinking = config.get("model", {}).get("thinking", "off")
        return run, {**folder.manifest["conditions"]["model"], "name": run.model, "thinking": thinking}


def _collected(folder: RunFolder, config: Mapping[str, Any], stored: Mapping[str, Any]) -> CollectedRun:
    conditions, lead = folder.manifest["conditions"], stored.get("lead") or {}
    recorded, plan = conditions["model"], lead.get("registered")
    states = {
        (verdict["method"], verdict["kind"]): [verdict[name] for name in ("readable", "responds", "coherent")]
        for verdict in lead.get("verdicts", [])
    }
    lead_number = plan or {"metric": stored.get("headline", ""), "method": "", "kind": ""}
    return CollectedRun(
        path=folder.path,
        experiment=str(stored["experiment"]),
        model=str(recorded["name"]),
        adapter=str(recorded.get("adapter") or ""),
        seed=_whole(config.get("seed") or 0),
        settings={key: text for key, text in flat(config).items() if key.split(".")[0] not in SETTLED},
        setting="",
        n_parameters=float(recorded.get("n_parameters") or np.nan),
        headline=(str(lead_number["metric"]), str(lead_number["method"]), str(lead_number["kind"])),
        coherent=float(plan["coherent"]) if plan else np.nan,
        verdicts={key: in_words(verdict) for key, verdict in states.items()},
        readable={key: verdict[0] for key, verdict in states.items()},
        scores=stored["scores"],
        conditions=flat(conditions),
        config=config,
    )


def _apart(runs: Sequence[CollectedRun]) -> tuple[list[CollectedRun], list[str]]:
    """Runs of which another has every column but other conditions are taken out, with a line each; copies stay."""
    kept: list[CollectedRun] = []
    lines: list[str] = []
    first: dict[tuple[str, str, str, str, int], CollectedRun] = {}
    for run in runs:
        other = first.setdefault((run.experiment, run.model, run.adapter, run.setting, run.seed), run)
        names = dict.fromkeys([*other.conditions, *run.conditions])
        differ = [name for name in names if other.conditions.get(name) != run.conditions.get(name)]
        if differ:
            lines.append(
                f"{run.path} is left out: is of the same experiment, model, settings and seed as {other.path}, and "
                f"differs in {', '.join(differ)}; collect it apart."
            )
        else:
            kept.append(run)
    return kept, lines


def _settings(runs: Sequence[CollectedRun]) -> tuple[list[CollectedRun], list[str]]:
    """The runs with the settings in which those of their experiment and model differ; and a line for each experiment
    whose models differ in settings that are the same within each.
    """
    named, notes = dict(enumerate(runs)), []
    for experiment in dict.fromkeys(run.experiment for run in runs):
        runs_of = {i: run for i, run in enumerate(runs) if run.experiment == experiment}
        models = len({run.model for run in runs_of.values()})
        names = dict.fromkeys(name for run in runs_of.values() for name in run.settings)
        values = {name: [run.settings.get(name, "") for run in runs_of.values()] for name in names}
        differ = [name for name in names if len(set(values[name])) > 1]
        pairs = {name: {(run.model, run.settings.get(name, "")) for run in runs_of.values()} for name in differ}
        within = [name for name in differ if len(pairs[name]) > models]
        shared = [name for name in differ if all(name in run.settings for run in runs_of.values())]
        told = [
            {tuple(run.settings.get(name) for name in names) for run in runs_of.values()}
            for names in ([name for name in within if name in shared], within)
        ]
        if len(told[0]) == len(told[1]):  # what some lack is told by what they have in its place
            within = [name for name in within if name in shared]
        for i, run in runs_of.items():
            texts = (_told(name, run.settings.get(name, "")) for name in within)
            named[i] = replace(run, setting=", ".join(texts))
        if between := [name for name in shared if name not in within]:
            notes.append(f"{experiment}: models differ in {', '.join(between)}, too.")
    return list(named.values()), notes


def _told(name: str, text: str) -> str:
    """A setting as it is told, without commas, which part settings: `a/b` of the list `['a', 'b']`."""
    if (name, text) == ("items", str(EVERY_ITEM)):
        return "all items"
    plain = re.sub(r"^\[(.*)\]$", r"\1", text).replace("'", "").replace(", ", "/")
    return f"{name} {'none' if plain in ('', 'None') else short(plain)}"


def _rows(run: CollectedRun) -> Iterator[dict[str, Any]]:
    """Its numbers, each with `read`, by which runs are known that have read the same, but for the last digits, which
    the order of the items changes. Raises TypeError and ValueError for what is of another type than a run writes.
    """
    about = {"experiment": run.experiment, "model": run.model, "adapter": run.adapter, "seed": run.seed}
    read = [[score[name] for name in ("estimate", "n_rows", "n_clusters")] for score in run.scores]
    about["read"] = repr([[None if value is None else f"{round(value, 9):.9g}" for value in score] for score in read])
    for score in run.scores:
        named = {name: str(score[name]) for name in ("metric", "method", "kind", "subset", "ci_method", "status")}
        numbers = {name: score[name] for name in ("estimate", "ci_lo", "ci_hi", "se")}
        numbers = {name: np.nan if value is None else float(value) for name, value in numbers.items()}
        yield {
            **about, "setting": run.setting, **named, **numbers, "n": _whole(score["n_rows"]),
            "clusters": _whole(score["n_clusters"]), "run": run.path.name,
            "readable": run.readable.get((score["method"], score["kind"]), ""),
            "verdict": run.verdicts.get((score["method"], score["kind"]), ""),
        }  # fmt: skip


def _whole(value: Any) -> int:
    """A whole number that a column can hold. Raises OverflowError for a larger one, and what `int` does."""
    return int(np.int64(int(value)))


NUMBERS = ("estimate", "se", "clusters", "n")
"""Of a row, those by which seeds are pooled."""
Rows = Sequence[Mapping[str, Any]]
"""Those of one number; lists of them, since a data frame for each of thousands takes seconds."""


def _by_seed(rows: Rows) -> Rows:
    """The first row of each seed."""
    return list({row["seed"]: row for row in reversed(rows)}.values())[::-1]


def _pooled(rows: Rows) -> SeedMean:
    """Over seeds. A run given twice counts once, and so do seeds that changed none of its numbers."""
    once = {row["read"]: row for row in _by_seed(rows)}
    estimate, se, clusters, n = ([row[name] for row in once.values()] for name in NUMBERS)
    return mean_over_seeds(estimate, se, clusters, n)


def _row(key: Any, rows: Rows, score: SeedMean) -> dict[str, Any]:
    """Of one seed, or of several that are all alike, the interval of a run; that of a share stays within 0 and 1."""
    seeds = [row for row in _by_seed(rows) if not math.isnan(row["estimate"])]
    alone = score.status == "one_seed" or (score.within == 0 and score.between == 0)
    lo, hi = (seeds[0][name] if alone else getattr(score, name) for name in ("ci_lo", "ci_hi"))
    if all(of_share(row["ci_method"]) for row in seeds):
        lo, hi = np.clip([lo, hi], 0, 1)
    statuses = [status for status in dict.fromkeys(row["status"] for row in rows) if status != "ok"]
    statuses += [score.status] if not alone and score.status != "ok" and (score.n_seeds or not statuses) else []
    return dict(zip(OF_GROUP, key, strict=True)) | {
        "estimate": score.mean,
        "ci_lo": float(lo),
        "ci_hi": float(hi),
        "sd": score.sd,
        "seeds": score.n_seeds,
        "n": score.n_rows,
        "clusters": score.n_clusters,
        "ci_method": "of one run" if alone else score.ci_method,
        "status": ", ".join(statuses) or "ok",
        "readable": _of_seeds(rows, "readable"),
        "verdict": _of_seeds(rows, "verdict"),
    }


def _of_seeds(rows: Rows, name: str) -> str:
    """A verdict of all seeds, or each with how many have it."""
    verdicts = Counter(row[name] for row in _by_seed(rows))
    n = verdicts.total()
    words = (str(text) if count == n else f"{text} ({count} of {n} seeds)" for text, count in verdicts.items() if text)
    return "; ".join(words)
