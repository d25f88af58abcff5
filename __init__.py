"""doxascope: measure whether open language models hold coherent beliefs, from the inside.

>>> from doxascope import load
>>> with load("smollm2-135m") as lm:
...     beliefs, _ = lm.beliefs("Is the sky green?", options=["yes", "no"])
>>> beliefs["option"].tolist(), round(float(beliefs["prob"].sum()), 6)
(['yes', 'no'], 1.0)

Everything in `__all__` is public, and so is every name of `doxascope.metrics`. What lies deeper may change.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .base.errors import told_briefly
from .base.version import __version__ as __version__

if TYPE_CHECKING:
    from . import metrics
    from .base.errors import UserError
    from .experiments.compare.collection import collect
    from .experiments.compare.comparison import compare
    from .experiments.materials.choices.tables import AskedSource
    from .experiments.report.findings import Column, Figure, Findings, Table
    from .experiments.run.experiment import Experiment, Item, Question, RunConfig
    from .experiments.run.exports import export
    from .experiments.run.folder import RunFolder
    from .experiments.run.measured import Measured
    from .experiments.run.scores import gate, mean_number
    from .experiments.suite.ask.askable_model import AskableModel, AskedTable, load
    from .experiments.suite.ask.config import Candidate
    from .hooks.backends.captures import Captured, CapturePlan
    from .hooks.checks.certificate import certify
    from .hooks.edits.changes import Edit, add_vector, project_out, replace_rows
    from .hooks.edits.directions import Clamp, Erase, Eraser, PatchAlong, leace, projection
    from .hooks.edits.interventions import Ablate, Replace, Steer
    from .hooks.edits.vectors import Vector
    from .hooks.exact.option_beliefs import Beliefs
    from .hooks.exact.queries import Query, Swap
    from .hooks.exact.query_tree import swap_edits
    from .hooks.generation.sampling import Sampling
    from .hooks.lm import LanguageModel
    from .hooks.model.blocks import Every, Point
    from .hooks.model.spec import ModelSpec
    from .hooks.prompts.options import Option, make_options
    from .hooks.prompts.places import Position
    from .hooks.store import Activations, ActivationStore, ActivationWriter, export_store, pack_store, store_header
    from .hooks.verbal.number_distributions import read_numbers
    from .hooks.verbal.number_formats import FORMATS, NumberFormat, WrittenNumber, count_format, parse_answer
    from .hooks.verbal.stated_beliefs import NumberQuestion, answer_rows, ask_number, ask_options, write_answers
    from .metrics.claims import Verdict
    from .metrics.number import Number
    from .metrics.scoring.engine import ScoredTable
    from .metrics.tables.samples import Forecasts, Multiclass, YesNo
    from .probes.arrays import ArrayProbe, probe_arrays

__all__ = ["Ablate", "ActivationStore", "ActivationWriter", "Activations", "ArrayProbe", "AskableModel"]
__all__ += ["AskedSource", "AskedTable", "Beliefs", "Candidate", "CapturePlan", "Captured", "Clamp", "Column", "Edit"]
__all__ += ["FORMATS", "Erase", "Eraser", "Every", "Experiment", "Figure", "Findings", "Forecasts", "Item"]
__all__ += ["LanguageModel", "Measured", "ModelSpec", "Multiclass", "Number", "NumberFormat", "NumberQuestion"]
__all__ += ["Option", "PatchAlong", "Point", "Position", "Query", "Question", "Replace", "RunConfig", "Sampling"]
__all__ += ["Steer", "Swap", "Table", "UserError", "Vector", "Verdict", "WrittenNumber", "YesNo"]
__all__ += ["add_vector", "answer_rows", "ask_number", "ask_options", "certify", "collect", "compare", "count_format"]
__all__ += ["export", "export_store", "gate", "leace", "load", "make_options", "mean_number", "metrics", "open_run"]
__all__ += ["pack_store", "parse_answer", "probe_arrays", "project_out", "projection", "read_numbers", "replace_rows"]
__all__ += ["run", "score", "store_header", "swap_edits", "sweep", "write_answers"]

_HOMES = {
    "base.errors": ("UserError",),
    "experiments.compare.collection": ("collect",),
    "experiments.compare.comparison": ("compare",),
    "experiments.materials.choices.tables": ("AskedSource",),
    "experiments.report.findings": ("Column", "Figure", "Findings", "Table"),
    "experiments.run.experiment": ("Experiment", "Item", "Question", "RunConfig"),
    "experiments.run.exports": ("export",),
    "experiments.run.measured": ("Measured",),
    "experiments.run.scores": ("gate", "mean_number"),
    "experiments.suite.ask.askable_model": ("AskableModel", "AskedTable", "load"),
    "experiments.suite.ask.config": ("Candidate",),
    "hooks.backends.captures": ("CapturePlan", "Captured"),
    "hooks.checks.certificate": ("certify",),
    "hooks.edits.changes": ("Edit", "add_vector", "project_out", "replace_rows"),
    "hooks.edits.directions": ("Clamp", "Erase", "PatchAlong", "Eraser", "leace", "projection"),
    "hooks.edits.interventions": ("Ablate", "Replace", "Steer"),
    "hooks.edits.vectors": ("Vector",),
    "hooks.exact.option_beliefs": ("Beliefs",),
    "hooks.exact.queries": ("Query", "Swap"),
    "hooks.exact.query_tree": ("swap_edits",),
    "hooks.generation.sampling": ("Sampling",),
    "hooks.lm": ("LanguageModel",),
    "hooks.model.blocks": ("Every", "Point"),
    "hooks.model.spec": ("ModelSpec",),
    "hooks.prompts.options": ("Option", "make_options"),
    "hooks.prompts.places": ("Position",),
    "hooks.store": ("Activations", "ActivationStore", "ActivationWriter", "export_store", "store_header", "pack_store"),
    "hooks.verbal.number_distributions": ("read_numbers",),
    "hooks.verbal.number_formats": ("FORMATS", "NumberFormat", "WrittenNumber", "count_format", "parse_answer"),
    "hooks.verbal.stated_beliefs": ("answer_rows", "write_answers", "NumberQuestion", "ask_number", "ask_options"),
    "metrics.claims": ("Verdict",),
    "metrics.number": ("Number",),
    "metrics.tables.samples": ("Forecasts", "Multiclass", "YesNo"),
    "probes.arrays": ("ArrayProbe", "probe_arrays"),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


@told_briefly
def run(
    target: str,
    model: str | None = None,
    *,
    overrides: Mapping[str, Any] | Sequence[str] = (),
    out: Path | str = "runs",
    verify: int = 0,
    allow_code: Sequence[Path | str] = (),
) -> "RunFolder":
    """Run an experiment, or go on with it, and write its scores and its report, as `doxascope run` does.

    Args:
        target: the name of an experiment or of a preset, or a YAML file.
        model: replaces the configured model.
        overrides: changes of settings, `{"items": 6, "model.dtype": "bfloat16"}`, or `key=value` as after `-o`.
        out: the folder in which the run gets a folder of its own.
        verify: number of read-outs that are computed again by plain forward passes.
        allow_code: files of experiments of your own that may be run.

    Raises UserError for a setting that is wrong, and for a folder that holds a run under other conditions.
    """
    from .experiments.probing.kinds import run_kinds
    from .experiments.run.config import as_overrides, load_config

    allowed = tuple(Path(file) for file in allow_code)
    experiment, config = load_config(target, as_overrides(overrides), model, allowed)
    return run_kinds(experiment, config, Path(out), verify=verify, allow_code=allowed)


@told_briefly
def sweep(
    *targets: str,
    models: Sequence[str] = (),
    seeds: int | Sequence[int] | None = None,
    overrides: Mapping[str, Any] | Sequence[str] = (),
    vary: Mapping[str, Sequence[Any]] | None = None,
    out: Path | str = "runs",
    allow_code: Sequence[Path | str] = (),
) -> "list[RunFolder]":
    """Run experiments on several models, with several seeds and settings, each combination a run, as `doxascope sweep`
    does; what is finished is not run again.

    Args:
        targets: names of experiments or presets, or YAML files; or one plan, whose models, seeds and varied settings
            those that are given here take the place of.
        models: none: those that the experiments, or the plan, are configured for.
        seeds: how many, from 0, or which; None: those of the plan, or one.
        overrides: changes of settings of all runs, as of `run`.
        vary: setting -> its values.
        out: the folder of the runs.
        allow_code: files of experiments of your own, and models, whose code may be run.

    Raises UserError for a setting that is wrong, before anything is run, and for runs that failed, after the others.
    """
    from .experiments.compare.combinations import load_plan
    from .experiments.compare.sweep import sweep as run_all
    from .experiments.run.config import as_overrides

    given: dict[str, Any] = {"models": list(models)} if models else {}
    given |= {} if seeds is None else {"seeds": seeds if isinstance(seeds, int) else list(seeds)}
    plan = load_plan(targets, given | ({"vary": dict(vary)} if vary else {}))
    allowed = [Path(file) for file in allow_code]
    return run_all(plan, Path(out), overrides=as_overrides(overrides), allow_code=allowed)


@told_briefly
def score(
    *tables: Path | str,
    metric: str = "all",
    cluster: str | None = None,
    replicates: str | None = None,
    seed: int | None = None,
) -> "ScoredTable":
    """Score a table of beliefs from anywhere, or runs together, as `doxascope score` does.

    Args:
        tables: a CSV, Parquet or JSONL table; or the folders of runs of one experiment.
        metric: one of `doxascope score --list`, or `all` that fit.
        cluster: of a table, the column that names what was sampled.
        replicates: of a table, the column that says which reading of its item a row is.
        seed: of all resampling; if not given 0, or the runs' own.
    """
    from .base.settings import as_seed
    from .experiments.run.folder import run_at
    from .metrics.scoring.engine import score_table

    seed = None if seed is None else as_seed(seed)
    paths = [Path(table) for table in tables]
    runs = [run for path in paths if (run := run_at(path))]
    if len(runs) == len(paths) and runs:
        from .experiments.run.joint_scores import score_runs

        return score_runs(runs, metric, seed=seed)
    (path,) = paths
    return score_table(path, metric, cluster=cluster, replicates=replicates, seed=seed or 0)


@told_briefly
def open_run(folder: Path | str) -> "RunFolder":
    """Open a run by its folder, without a model: what `run` returned. Raises UserError for a folder without one."""
    from .experiments.run.folder import RunFolder

    return RunFolder.open(Path(folder))


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that `import doxascope.metrics` needs no torch."""
    if name == "metrics":
        return import_module(".metrics", __name__)
    if name not in _HOME_OF:
        raise AttributeError(f"module 'doxascope' has no attribute {name!r}")
    return getattr(import_module(f".{_HOME_OF[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
