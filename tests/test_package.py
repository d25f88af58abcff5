"""The package as a whole: what importing it costs, and that the house keeps its rules."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.place

ROOT = Path(__file__).parents[1]
ORDER = ("metrics", "hooks", "experiments")
"""Each folder may import those before it."""


@pytest.mark.parametrize(
    "module", ["doxascope", "doxascope.metrics", "doxascope.hooks.store", "doxascope.experiments.cli.main"]
)
def test_what_needs_no_model_imports_no_torch(module: str) -> None:
    code = f"import sys, {module}; print({{'torch', 'transformers'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_metrics_load_heavy_libraries_only_where_they_use_them() -> None:
    heavy = {"scipy.stats", "statsmodels", "sklearn", "matplotlib"}
    code = f"import sys, doxascope.metrics; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_public_names_are_there_and_no_others() -> None:
    import doxascope

    assert all(getattr(doxascope, name) for name in doxascope.__all__)
    with pytest.raises(AttributeError, match="no attribute 'laod'"):
        _ = doxascope.laod  # pyright: ignore[reportAttributeAccessIssue]


def test_the_package_is_the_folder_of_these_tests_whatever_its_name() -> None:
    import doxascope

    assert Path(doxascope.__path__[0]).resolve() == ROOT.resolve()


def test_imports_run_one_way() -> None:
    for level, folder in enumerate(ORDER):
        for file in (ROOT / folder).glob("**/*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.ImportFrom) and node.level and node.module:
                    here = file.relative_to(ROOT).parent.parts
                    target = (*here[: len(here) - node.level + 1], *node.module.split("."))[0]
                    assert target in ORDER[: level + 1], f"{file}: imports {node.module}"


def test_the_statistics_know_no_family_of_metrics() -> None:
    for file in (ROOT / "metrics" / "inference").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level == 2:
                assert (ROOT / "metrics" / f"{node.module}.py").exists(), f"{file}: imports {node.module}"
