"""`doxascope doctor`: what this machine can do."""

import json
import platform
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ... import __version__
from ...hooks.errors import UserError
from .echo import echo

if TYPE_CHECKING:
    from ...hooks.doctor.finding import Finding

WIDTH = 26


@click.command()
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs"), show_default=True, help="Folder of runs.")
@click.option("--json", "as_json", is_flag=True, help="The same as JSON.")
def doctor(out: Path, as_json: bool) -> None:
    """Say what is installed, what reads a tiny model rightly, where files go, and the line that brings what is missing.

    Needs no network. Exits with 2 if nothing can be run.

    \b
    doxascope doctor
    doxascope doctor --json > machine.json    to attach to a bug report
    """
    found: list[Finding] = []
    for one in _diagnosis(out):
        if not as_json:
            if not found or found[-1].section != one.section:
                echo(one.section)
            mark = "" if one.state == "ok" else f"{one.state}: "
            echo(f"  {one.name:<{WIDTH}}{mark}{one.told}" + (f"\n  {'':<{WIDTH}}-> {one.advice}" if one.advice else ""))
        found.append(one)
    lacking = [one for one in found if one.needed and one.state != "ok"]
    usable = not lacking and any(one.section == "reading" and one.state == "ok" for one in found)
    if as_json:
        told = {"doxascope": __version__, "python": platform.python_version(), "platform": platform.platform()}
        echo(json.dumps({**told, "usable": usable, "findings": [asdict(one) for one in found]}, indent=1))
    if not usable:
        first = next((one for one in [*lacking, *found] if one.advice and one.state != "ok"), None)
        raise UserError("nothing can be run here" + (f": {first.name} {first.told}; {first.advice}" if first else ""))


def _diagnosis(out: Path) -> "Iterator[Finding]":
    """Section by section; without torch and transformers only the libraries can be told."""
    from ...hooks.doctor.libraries import libraries

    found = list(libraries())
    yield from found
    if any(one.needed and one.state == "missing" for one in found):
        return
    from ...hooks.doctor.places import folders, models
    from ...hooks.doctor.reading import devices, readings

    there = list(devices())
    yield from there
    yield from readings([one.name for one in there if one.state == "ok"])
    yield from models()
    yield from folders(out)
