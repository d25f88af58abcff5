"""The questions of each domain, from where the configuration says."""

from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from ...hooks.documents import user_path
from ..materials.questions.change_my_view import load_views
from ..materials.questions.computed import arithmetic, comparisons, weekdays
from ..materials.questions.forecastbench import load_forecastbench
from ..materials.questions.openreview import load_openreview
from ..materials.questions.question import BinaryQuestion
from ..materials.questions.table import load_table
from ..materials.questions.urn import urns
from .config import Computed, Domain, MartingaleConfig, QuestionSource, chosen
from .table import GATE

MAKERS: Mapping[Computed, Callable[..., list[BinaryQuestion]]] = {
    "urns": urns,
    "arithmetic": arithmetic,
    "weekdays": weekdays,
    "comparisons": comparisons,
}
USUAL: tuple[Computed, ...] = ("urns", "arithmetic", "weekdays")
GATE_DRAWS, GATE_SEED = 2, 20_000
RECALL = "recall"
"""The domain of events that a model may remember."""


def questions(config: MartingaleConfig) -> list[tuple[str, BinaryQuestion]]:
    """(domain, question), the same number of each; then the gate's urns, which are the same in all runs. More of them
    begin with the same ones.

    Raises UserError for a domain with fewer than asked for.
    """
    asked = [
        (_called(config, domain, one), one)
        for domain, source in config.domains.items()
        for one in _questions(config, domain, source)
    ]
    return asked + [(GATE, urn) for urn in urns(config.gate_urns, GATE_DRAWS, GATE_SEED)]


def _questions(config: MartingaleConfig, domain: Domain, source: QuestionSource) -> list[BinaryQuestion]:
    if source.kind == "computed":
        turns = zip(*(MAKERS[name](config.items, seed=config.seed) for name in source.make or USUAL), strict=True)
        return [one for turn in turns for one in turn][: config.items]
    found = _loaded(domain, source)
    drawn = chosen(np.random.default_rng(config.seed).permutation(len(found)).tolist(), config.items, domain)
    return [found[i] for i in drawn]


def _loaded(domain: Domain, source: QuestionSource) -> list[BinaryQuestion]:
    if source.file is None:
        return smoke(domain)
    path = user_path(source.file)
    if source.resolutions is not None:
        return load_forecastbench(path, user_path(source.resolutions))
    loaders: Mapping[str, Callable[[Path], list[BinaryQuestion]]] = {
        "table": load_table,
        "views": load_views,
        "openreview": load_openreview,
    }
    return loaders[source.kind](path)


def smoke(domain: str) -> list[BinaryQuestion]:
    """The small set of a domain that comes with doxascope: to try a pipeline on, not to conclude from."""
    text = (files("doxascope.experiments.martingale") / "smoke" / f"{domain}.yaml").read_text(encoding="utf-8")
    return [_written(f"{domain}-{i}", row) for i, row in enumerate(yaml.safe_load(text))]


def _written(name: str, row: Mapping[str, Any]) -> BinaryQuestion:
    lists = {key: tuple(row[key]) for key in ("evidence",) if key in row}
    return BinaryQuestion(**{"id": name, "cluster": name, **row, **lists})


def _called(config: MartingaleConfig, domain: Domain, question: BinaryQuestion) -> str:
    """A forecast is of what was open when training ended."""
    if domain != "forecasting":
        return domain
    after = config.cutoff is not None and question.resolved_on > config.cutoff.isoformat()
    return domain if after else RECALL
