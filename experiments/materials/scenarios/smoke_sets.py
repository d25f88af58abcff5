"""The small sets that come with doxascope: to try a pipeline on, not to conclude from."""

from importlib.resources import files

from .scenario import Scenario
from .table import scenarios_of


def smoke_scenarios(task: str) -> list[Scenario]:
    """Those of a task: `conversations`, `morality` or `culture`."""
    name = f"{task}.yaml"
    text = (files("doxascope.experiments.materials.scenarios") / "smoke" / name).read_text(encoding="utf-8")
    return scenarios_of(name, text, name)
