"""The tables of the papers from stored runs, one or many together."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...base.documents import read_json
from ...base.errors import UserError
from ...base.version import __version__
from ..report.papers.paper_tables import PaperTable, RunNumbers
from .folder import RunFolder
from .joint_scores import Run, model_names, opened

WORLD = "world"
"""The setting that says what a run was asked about."""
SOURCES, SMOKE = "sources", "smoke"
"""Where the questions of each domain are from, and that they are the few which come with doxascope."""


def tables_of(folders: Sequence[RunFolder], allow_code: Sequence[Path] = ()) -> list[PaperTable]:
    """The tables that runs hold anything of, experiment by experiment: a run is a row, or several by its methods.

    Raises UserError for a run that is not whole, or not as it was written, and if no experiment comes from a paper.
    """
    by_experiment: dict[str, list[Run]] = {}
    for folder in folders:
        run = opened(folder, allow_code)
        by_experiment.setdefault(run.experiment.name, []).append(run)
    tables = []
    for runs in by_experiment.values():
        stored = [read_json(run.folder.path / "scores.json") for run in runs]
        numbers = [
            numbers_of(name, run.config, record["scores"], record["lead"])
            for name, run, record in zip(model_names(runs), runs, stored, strict=True)
        ]
        of_paper = runs[0].experiment.tables(numbers)
        tables += [table for table in of_paper if not table.empty]
    if not tables:
        why = "; ".join([f"holds no number of a paper's table ({', '.join(by_experiment)})", *scored_earlier(folders)])
        raise UserError(f"{folders[0].path}: {why}")
    return tables


def scored_earlier(folders: Sequence[RunFolder]) -> list[str]:
    """A line for each run whose scores another version wrote, which may lack numbers of the tables."""
    written = {folder.path: read_json(folder.path / "scores.json").get("doxascope") for folder in folders}
    return [
        f"{path}: scored by an earlier version of doxascope: `doxascope report {path}` scores it anew"
        for path, version in written.items()
        if version != __version__
    ]


def numbers_of(model: str, config: Any, rows: Iterable[Mapping[str, Any]], lead: Mapping[str, Any]) -> RunNumbers:
    """The numbers of a run from what `scores.json` holds: its `scores`, and the verdicts of its `lead`."""
    world = getattr(config, WORLD, None)
    return RunNumbers(
        model=model,
        dataset=Path(world.of).stem if world is not None else "",
        thinking=config.model.thinking == "on",
        rows={(row["metric"], row["method"], row["subset"]): row for row in rows},
        readable={
            said["method"]: said["readable"] for said in [*lead.get("verdicts", ())][::-1]
        },  # the exact one counts
        smoke={domain for domain, source in getattr(config, SOURCES, {}).items() if source.kind == SMOKE},
    )
