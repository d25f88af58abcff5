"""Which experiments there are: those shipped and those installed by entry point, and what each asks, without importing
the shipped ones.
"""

import re
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

GROUP = "doxascope.experiments"
"""Of entry points: a package that is installed may bring experiments, each a name and a class."""
SHIPPED = tuple(
    EntryPoint(home.partition(":")[0], f"doxascope.experiments.suite.{home}", GROUP)
    for home in (
        "ask:Ask",
        "bscore:BScoreExperiment",
        "consistency:BeliefConsistency",
        "locate:Locate",
        "martingale:Martingale",
        "rationality:Rationality",
        "steer:SteerExperiment",
        "sycophancy:Sycophancy",
        "truth:Truth",
    )
)
"""Each is imported when it is asked for."""
SUMMARY = re.compile(r'^    summary = "(.+)"$', re.MULTILINE)
"""As a shipped experiment's class has it."""


@cache
def entry_points_of_experiments() -> dict[str, EntryPoint]:
    """Name -> where the experiment is; of two of one name the shipped one."""
    return {point.name: point for point in (*entry_points(group=GROUP), *SHIPPED)}


def summary_of_shipped(name: str) -> str:
    """What a shipped experiment asks, out of its source: importing it takes a second."""
    source = Path(__file__).parents[1] / "suite" / name / "__init__.py"
    return SUMMARY.findall(source.read_text(encoding="utf-8"))[0]
