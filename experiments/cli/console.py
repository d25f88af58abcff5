"""What commands share: options and what their texts mean, and how lines are printed: names of strangers are shown,
not obeyed.
"""

import logging
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...base.errors import UserError
from ...base.text import visible

if TYPE_CHECKING:
    from ..report.document import Report


def _with_values(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    """Refuses a key without a value here, before what stands after it is taken for a file."""
    if bare := [setting for setting in given if "=" not in setting.lstrip("=")]:
        raise UserError(f"-o {bare[0]}: give key=value without blanks, for example -o items=10")
    return given


OVERRIDE = click.option(
    "-o",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    callback=_with_values,
    help="Change a setting, e.g. -o model.dtype=bfloat16.",
)
ALLOW_CODE = click.option(
    "--allow-code",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE|MODEL",
    help="Run the code of this experiment, metric, or model; without it no file is ever imported.",
)


def executor_option(*further: str, what: str = "What the workers run on: this machine, or Ray.") -> Any:
    """`--executor`, of this machine, of Ray, and of what else there is."""
    choice = click.Choice(["local", "ray", *further])
    return click.option("--executor", type=choice, default="local", show_default=True, help=what)


EXECUTOR = executor_option()
ADDRESS = click.option("--address", help="Of a running Ray cluster; by default $RAY_ADDRESS, or this machine alone.")
FULL = click.option("--full", is_flag=True, help="Print the whole report, not its first tables alone.")
MATERIAL = click.argument("material", metavar="[FILE]", required=False)
MODEL = click.option("-m", "--model", help="A preset, a local folder, a .gguf file, or a hub id.")


def require_ray(executor: str, **given: object) -> None:
    """Raise UserError for options of Ray that are given without it."""
    names = [f"--{name.replace('_', '-')}" for name, value in given.items() if value is not None]
    if executor != "ray" and names:
        raise UserError(f"{names[0]}: is for Ray; give it with --executor ray")


def named_values(option: str, given: tuple[str, ...]) -> dict[str, str]:
    """The values of NAME=VALUE by name, each name once."""
    values: dict[str, str] = {}
    for text in given:
        name, sign, value = (part.strip() for part in text.partition("="))
        if not (name and sign and value):
            raise UserError(f"{option} {text}: give NAME=VALUE")
        if name in values:
            raise UserError(f"{option} {text}: {name} has a value already, {values[name]}")
        values[name] = value
    return values


def number(option: str, name: str, text: str) -> float:
    """The number of NAME=VALUE, above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise UserError(f"{option} {name}={text}: give a number above 0")
    return value


# What the command line prints: names of strangers are shown, not obeyed.


def echo(text: object, err: bool = False) -> None:
    """Print a line; control characters in it are escaped."""
    click.echo(visible(str(text)), err=err)


def echo_report(document: "Report", folder: Path | None = None, full: bool = False) -> None:
    """Print a report by the width of the terminal, and where its page is."""
    from ..report.terminal import WIDTH, to_text

    echo(to_text(document, shutil.get_terminal_size((WIDTH, 24)).columns, full))
    if folder is not None:
        echo(f"\nreport: {folder / 'report.html'}")


def echo_stored(folder: Path, full: bool) -> None:
    """Print the report of a run, as it was written."""
    from ..report.record import read

    echo_report(read(folder / "report.json"), folder, full)


class VisibleFormatter(logging.Formatter):
    """The same for the log."""

    def format(self, record: logging.LogRecord) -> str:
        """The message alone."""
        return visible(super().format(record))
