"""The libraries that doxascope needs, and those that it can use, with their versions. This needs none of them: it is
what can be said where they are missing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Literal

from packaging.requirements import Requirement

State = Literal["ok", "missing", "fails"]


@dataclass(frozen=True)
class Finding:
    """One line of a diagnosis."""

    section: str
    """`libraries`, `devices`, `reading`, `models`, `folders`."""
    name: str
    state: State
    told: str
    """What was seen, in a line."""
    advice: str = ""
    """The line that brings what is missing, or what to do."""
    needed: bool = False
    """Whether nothing runs without it."""


DEVELOPMENT = "dev"
"""The extra that brings what tests and linters need, which a diagnosis leaves out."""


def libraries() -> Iterator[Finding]:
    """Those that are required, and those of the extras, each once."""
    try:
        listed = [Requirement(text) for text in requires("doxascope") or ()]
    except PackageNotFoundError:
        fault = "runs from a folder that is not installed, so that its requirements are not known"
        yield Finding("libraries", "doxascope", "missing", fault, "pip install -e .")
        return
    seen: set[str] = set()
    for requirement in listed:
        extra = _extra(requirement)
        if extra != DEVELOPMENT and requirement.name != "doxascope" and requirement.name not in seen:
            seen.add(requirement.name)
            yield _found(requirement, extra)


def _extra(requirement: Requirement) -> str:
    """The extra that a requirement belongs to; empty: it is needed by all."""
    marker = requirement.marker
    if marker is None or marker.evaluate({"extra": ""}):
        return ""
    return str(marker).rpartition('extra == "')[2].rstrip('"')


def _found(requirement: Requirement, extra: str) -> Finding:
    bring = f'pip install "doxascope[{extra}]"' if extra else f'pip install "{requirement.name}{requirement.specifier}"'
    try:
        there = version(requirement.name)
    except PackageNotFoundError:
        return Finding("libraries", requirement.name, "missing", "is not installed", bring, needed=not extra)
    if not requirement.specifier.contains(there, prereleases=True):
        fault = f"{there}, where {requirement.specifier} is wanted"
        return Finding("libraries", requirement.name, "fails", fault, bring, needed=not extra)
    return Finding("libraries", requirement.name, "ok", there)
