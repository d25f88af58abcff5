"""The package as a whole: what importing it costs, and that the house keeps its rules."""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

pytestmark = pytest.mark.place

ROOT = Path(__file__).parents[1]
ORDER = ("base", "metrics", "hooks", "probes", "experiments")
"""Each folder may import those before it."""


@pytest.mark.parametrize(
    "module",
    [
        "doxascope",
        "doxascope.metrics",
        "doxascope.hooks.store",
        "doxascope.probes.job",
        "doxascope.experiments.cli.main",
    ],
)
def test_what_needs_no_model_imports_no_torch(module: str) -> None:
    code = f"import sys, {module}; print({{'torch', 'transformers'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_what_lists_runs_loads_neither_torch_nor_statistics(tmp_path: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "doxascope", "ls"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "doxascope.experiments.run.manifest" in loaded
    assert not loaded & {"torch", "transformers", "scipy", "pandas", "matplotlib", "doxascope.experiments.suite"}


def test_the_metrics_load_heavy_libraries_only_where_they_use_them() -> None:
    heavy = {"scipy.stats", "statsmodels", "sklearn", "matplotlib"}
    code = f"import sys, doxascope.metrics; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_public_names_are_there_and_no_others() -> None:
    import doxascope

    assert all(getattr(doxascope, name) for name in doxascope.__all__)
    assert set(doxascope.__all__) <= set(dir(doxascope))
    assert (ROOT / "py.typed").is_file()
    assert '"py.typed"' in (ROOT / "pyproject.toml").read_text()
    with pytest.raises(AttributeError, match="no attribute 'laod'"):
        _ = doxascope.laod  # pyright: ignore[reportAttributeAccessIssue]


def test_the_package_is_the_folder_of_these_tests_whatever_its_name() -> None:
    import doxascope

    assert Path(doxascope.__path__[0]).resolve() == ROOT.resolve()


ROOMS = ("report", "run", "materials", "suite", "probing", "compare", "synthetic", "cli")
"""Of `experiments/`: each may import those before it."""


def imports(file: Path) -> Iterator[tuple[str, ...]]:
    """The modules of ours that a file imports when it runs, relative to the root, each with the name that it takes."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    blocks = (node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))
    for_types = {id(inner) for block in blocks for inner in ast.walk(block)}
    for node in (node for node in ast.walk(tree) if id(node) not in for_types):
        if isinstance(node, ast.ImportFrom) and node.level:
            here = file.relative_to(ROOT).parent.parts
            base = (*here[: len(here) - node.level + 1], *(node.module.split(".") if node.module else ()))
            yield from ((*base, alias.name) for alias in node.names)


def test_imports_run_one_way() -> None:
    for level, folder in enumerate(ORDER):
        for file in (ROOT / folder).glob("**/*.py"):
            for target in imports(file):
                if target[0] in ORDER:
                    assert target[0] in ORDER[: level + 1], f"{file}: imports {'.'.join(target)}"


def test_the_rooms_of_the_experiments_are_built_on_each_other() -> None:
    folder = ROOT / "experiments"
    assert {path.stem for path in folder.iterdir() if not path.name.startswith("__")} == set(ROOMS)
    for file in folder.glob("*/**/*.py"):
        room = file.relative_to(folder).parts[0]
        for target in imports(file):
            if target[0] == "experiments":
                assert ROOMS.index(target[1]) <= ROOMS.index(room), f"{file}: imports {'.'.join(target)}"


def test_no_experiment_imports_another() -> None:
    suite = ROOT / "experiments" / "suite"
    for file in suite.glob("*/*.py"):
        for target in imports(file):
            if target[:2] == ("experiments", "suite"):
                assert target[2] == file.parent.name, f"{file}: imports {'.'.join(target)}"


def test_the_rooms_of_metrics_import_one_way() -> None:
    folder = ROOT / "metrics"
    arrows: dict[str, set[str]] = {}
    for file in folder.glob("*/*.py"):
        for target in imports(file):
            if len(target) > 2 and (folder / target[1]).is_dir() and target[1] != file.parent.name:
                arrows.setdefault(file.parent.name, set()).add(target[1])
    tuple(TopologicalSorter(arrows).static_order())


def test_every_package_is_shipped() -> None:
    shipped = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    found = {
        ".".join(("doxascope", *file.parent.relative_to(ROOT).parts))
        for folder in ORDER
        for file in (ROOT / folder).glob("**/__init__.py")
    }
    assert shipped == found | {"doxascope"}


def test_no_two_public_classes_share_a_name() -> None:
    homes: dict[str, list[Path]] = {}
    for file in (file for folder in ORDER for file in (ROOT / folder).glob("**/*.py")):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(file)
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}


def test_the_rooms_of_hooks_import_one_way() -> None:
    arrows: dict[str, set[str]] = {}
    for file in (ROOT / "hooks").glob("**/*.py"):
        here = file.relative_to(ROOT).parent.parts
        room = here[1] if len(here) > 1 else file.stem
        for node in _imports_when_it_runs(ast.parse(file.read_text())):
            target = (*here[: len(here) - node.level + 1], *(node.module or "").split("."))
            if target[0] == "hooks" and len(target) > 1 and target[1] not in ("", room):
                arrows.setdefault(room, set()).add(target[1])
    tuple(TopologicalSorter(arrows).static_order())  # raises CycleError for a circle, and names it


def _imports_when_it_runs(node: ast.AST) -> Iterator[ast.ImportFrom]:
    """The relative imports below a node, without those that only type checkers see."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ImportFrom) and child.level:
            yield child
        elif not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
            yield from _imports_when_it_runs(child)


def test_the_statistics_know_no_family_of_metrics() -> None:
    for file in (ROOT / "metrics" / "inference").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level == 2:
                assert (ROOT / "metrics" / f"{node.module}.py").exists(), f"{file}: imports {node.module}"
