"""The scenarios of each task, from where the configuration says."""

import numpy as np

from ...hooks.documents import user_path
from ...hooks.errors import UserError
from ..materials.scenarios.published_sets import load_casino, load_fortune_dial, load_moral_stories, load_normad
from ..materials.scenarios.scenario import Scenario
from ..materials.scenarios.smoke_sets import smoke_scenarios
from ..materials.scenarios.stored_evidence import with_evidence
from ..materials.scenarios.table import load_scenarios
from ..materials.scenarios.worlds import worlds
from .config import ScenarioSource, SycophancyConfig, Task


def scenarios(config: SycophancyConfig) -> list[tuple[Task, Scenario]]:
    """(task, scenario), the same number of each task, drawn by the seed. More of them begin with the same ones.

    Raises UserError for a task with fewer than asked for.
    """
    return [(task, one) for task, source in config.tasks.items() for one in drawn(config, task, source)]


def drawn(config: SycophancyConfig, task: Task, source: ScenarioSource) -> list[Scenario]:
    """Those of a task."""
    if source.kind == "computed":
        return worlds(config.items, config.seed)
    found = loaded(task, source, config.seed)
    if source.evidence is not None:
        found = with_evidence(found, user_path(source.evidence))
    if len(found) < config.items:
        raise UserError(f"tasks.{task}: has {len(found)} scenarios, fewer than items={config.items}; ask for fewer")
    order = np.random.default_rng(config.seed).permutation(len(found))
    return [found[i] for i in order[: config.items].tolist()]


def loaded(task: Task, source: ScenarioSource, seed: int) -> list[Scenario]:
    """All scenarios of a source that is not computed, in their order, without evidence that was written for them."""
    if source.file is None:
        return smoke_scenarios(task)
    path = user_path(source.file)
    match source.kind:
        case "casino":
            return load_casino(path, seed)
        case "moral_stories":
            return load_moral_stories(path, seed)
        case "normad":
            return load_normad(path)
        case "fortune_dial":
            return load_fortune_dial(path, source.x or "", source.not_x or "", seed)
        case _:
            return load_scenarios(path)
