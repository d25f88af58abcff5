"""Every example in a docstring runs and gives what it says, and what users call first has one."""

import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("base", "metrics", "hooks", "probes", "experiments")
FILES = [ROOT / "__init__.py", *(file for room in ROOMS for file in sorted((ROOT / room).rglob("*.py")))]
SHOWN = [file.relative_to(ROOT) for file in FILES if ">>> " in file.read_text()]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WITH_EXAMPLES = ("doxascope.metrics.bscore", "doxascope.metrics.decision", "doxascope.metrics.divergence")
"""Modules all of whose public functions have an example."""


def module_of(file: Path) -> str:
    parts = file.with_suffix("").parts
    return ".".join(["doxascope", *(part for part in parts if part != "__init__")])


@pytest.mark.parametrize("file", SHOWN, ids=str)
def test_the_examples_of_a_module_hold(file: Path) -> None:
    module = importlib.import_module(module_of(file))
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for found in doctest.DocTestFinder(exclude_empty=True).find(module):
        runner.run(found)
    assert runner.tries > 0
    assert runner.failures == 0, f"{file}: see the output above"


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_every_public_function_has_an_example(name: str) -> None:
    module = importlib.import_module(name)
    public = getattr(module, "__all__", None) or [name for name in vars(module) if name[0] != "_"]
    functions = [function for name in public if inspect.isfunction(function := getattr(module, name))]
    functions = [function for function in functions if function.__module__.startswith(name)]
    assert len(functions) >= 3
    assert [function.__name__ for function in functions if ">>> " not in (function.__doc__ or "")] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_imports_is_there(page: Path) -> None:
    for module, names in re.findall(r"^from (doxascope[\w.]*) import ([\w, ]+)$", page.read_text(), flags=re.MULTILINE):
        for name in names.split(","):
            assert hasattr(importlib.import_module(module), name.strip()), f"{page.name}: {module} has no {name}"
