"""`doxascope mcp`: a server of the Model Context Protocol, by which an agent asks, runs, reports, compares and plans.

A client can read and run what this user can, and write into one folder. It can never allow code (SECURITY.md): no tool
has an argument of consent, and what would be one among settings is refused.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ...base.errors import UserError

if TYPE_CHECKING:
    from mcp.server import MCPServer  # pyright: ignore[reportMissingImports]

    from ..run.experiment import Experiment, RunConfig
    from ..suite.ask.askable_model import AskableModel

WIDTH = 100
"""Columns of a report as text."""
TOLD = (
    "Beliefs of open language models, read exactly: option probabilities, coherence tests, error bars. Call `plan` "
    "before `run`, which may take minutes or hours; the same `run` again resumes. A number counts as a belief only "
    "under a verdict that says so."
)
F = TypeVar("F", bound=Callable[..., Any])


def server(out: Path) -> "MCPServer":
    """The server, whose runs are in `out`. Raises UserError without the library."""
    try:
        from mcp.server import MCPServer  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise UserError(f"a server needs the library mcp ({error}); pip install 'doxascope[mcp]'") from None
    made = MCPServer("doxascope", instructions=TOLD)
    for tool in tools(out):
        made.tool()(_in_one_line(tool))
    return made


def tools(out: Path) -> Sequence[Callable[..., Any]]:
    """What a client can call; a model that was asked stays in memory for the next question."""
    loaded: dict[tuple[str, tuple[int, ...]], AskableModel] = {}

    def ask(model: str, questions: list[dict[str, Any]], answers: str = "letters") -> list[dict[str, Any]]:
        """The belief of a model in each option of questions: `[{"question": ..., "options": [...], "truth": ...}]`, the
        truth if it is known; `answers` is `letters` or `texts`. `coverage` is how much of the answer the options are.
        """
        from ...base.documents import user_path, version_of
        from ...hooks.model.spec import resolve_model
        from ..report.cells import jsonable
        from ..suite.ask.askable_model import load

        known = (model, version_of(user_path(model)))  # the files of a folder may change
        if known not in loaded:
            _refuse_servers(resolve_model(model))
            loaded.clear()
            loaded[known] = load(model)
        asked = loaded[known].ask(questions, answers)
        shown = ["id", "method", "answer", "prob", "coverage", "status"]
        columns = [name for name in shown if name in asked.table]
        options = asked.options.groupby(["id", "method"], sort=False)[["option", "prob"]]
        beliefs = {key: dict(zip(rows["option"], rows["prob"], strict=True)) for key, rows in options}
        rows = asked.table[columns].to_dict("records")
        return jsonable([{**row, "belief": beliefs[row["id"], row["method"]]} for row in rows])

    def plan(experiment: str, model: str | None = None, settings: dict[str, Any] | None = None) -> str:
        """What a run would read and cost; reads nothing of the model but its tokenizer."""
        from ..run.estimate import rates_of_runs
        from ..run.plan import make_plan

        chosen, config = _settled(experiment, settings, model)
        return "\n".join(make_plan(chosen, config).lines(chosen, rates_of_runs(out, chosen.name, config)))

    def run(experiment: str, model: str | None = None, settings: dict[str, Any] | None = None) -> str:
        """Run an experiment (`consistency`, `martingale`, `truth`, ...) with settings such as `{"items": 20}`, and
        return its report; the last line is the folder of the run.
        """
        from ..probing.kinds import run_kinds

        folder = run_kinds(*_settled(experiment, settings, model), out)
        return report(str(folder.path))

    def report(run: str, full: bool = False) -> str:
        """The report of a run, or of a folder with a `report.json`, as it was written."""
        from ..report.record import read
        from ..report.terminal import to_text
        from ..run.folder import run_at

        if (folder := run_at(Path(run))) and folder.written("report.json") is None:
            raise UserError(f"{run}: has no report yet; call `run` again, or `doxascope report`")
        return f"{to_text(read(Path(run) / 'report.json'), WIDTH, full)}\n{run}"

    def compare(paths: list[str], metrics: list[str] | None = None) -> str:
        """Compare runs, tables or logs on the items that they share, or the kinds of belief of one run."""
        from ..compare import compare as compared
        from ..compare.page import page
        from ..report.terminal import to_text

        if not paths:
            raise UserError("paths: none are given; name a run for its kinds of belief, or several runs or tables")
        return to_text(page(compared(*paths, metrics=metrics or ()), {}), WIDTH)

    return ask, plan, run, report, compare


def _settled(experiment: str, settings: Mapping[str, Any] | None, model: str | None) -> "tuple[Experiment, RunConfig]":
    """What a client chose. Raises UserError for what would allow code, or send prompts to another server."""
    from ...hooks.model.consent import KEY
    from ..run.config import as_overrides, load_config

    texts = list(as_overrides(settings or {}))
    if any(KEY in text for text in texts):
        raise UserError(f"{KEY}: a client cannot allow a model's code; who runs the server can, by `doxascope run`")
    chosen, config = load_config(experiment, texts, model)
    _refuse_servers(config)
    return chosen, config


def _refuse_servers(settings: object) -> None:
    from ...hooks.model.consent import forget_servers

    if servers := forget_servers(settings):
        raise UserError(f"model.server: a client cannot have prompts sent to {servers[0]}; `doxascope run` can")


def _in_one_line(tool: F) -> F:
    """A user's mistake as the error of a tool, which the client reads."""
    from mcp.server.mcpserver.exceptions import ToolError  # pyright: ignore[reportMissingImports]

    @functools.wraps(tool)
    def call(*given: Any, **named: Any) -> Any:
        try:
            return tool(*given, **named)
        except (UserError, ValueError) as error:  # a path with a NUL is no path to the system
            raise ToolError(str(error)) from None

    return call  # type: ignore


@click.command()
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs"), show_default=True, help="Folder of runs.")
def mcp(out: Path) -> None:
    """Serve agents by the Model Context Protocol, on standard input and output: ask, plan, run, report, compare.

    \b
    claude mcp add doxascope -- doxascope mcp --out runs
    """
    server(out).run()
