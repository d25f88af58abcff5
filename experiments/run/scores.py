"""Every number of a run, from its settings and its belief table alone; and what an add-on is, which may add to them:
the runner goes through a list of these and knows none by name.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pandas as pd
from numpy.typing import ArrayLike

from ...base.errors import UserError
from ...hooks.lm import LanguageModel
from ...metrics import INNER_KINDS, belief_gate, cluster_mean
from ...metrics.consistency.competence import GATE
from ...metrics.contract import Resampling, Score
from ...metrics.number import Key, Number
from ...metrics.scoring.engine import require_unique, score_samples
from ...metrics.tables.belief_parts import BeliefTable, in_parts
from ...metrics.tables.samples import ALL
from ..report.document import Block
from ..report.findings import Figure
from .experiment import Experiment, Item, RunConfig
from .folder import RunFolder


def resampling(config: RunConfig) -> Resampling:
    """How a run's scores are resampled."""
    return Resampling(config.seed, config.bootstrap_draws, config.level)


def gate(config: RunConfig, method: str, kind: str = "exact", **readings: Any) -> Number:
    """Whether a method can be read, and whether it responds, for an experiment's `own_scores`: its page, the terminal
    and `scores.json` then lead with it (METRICS W4).

    Args:
        config: of the run. Coverage has to reach its `low_coverage`; bounds are of its `level`.
        readings: as `belief_gate` takes them; what is not given is not asked.
    """
    asked: dict[str, Any] = {"min_coverage": config.low_coverage, "how": resampling(config), **readings}
    score = belief_gate(**asked)
    return Number(
        metric=GATE,
        method=method,
        kind=kind,
        score=score,
        quantity="share of items that respond, the least of all templates",
        code="W4",
    )


def mean_number(
    config: RunConfig,
    metric: str,
    method: str,
    values: ArrayLike,
    clusters: ArrayLike,
    *,
    kind: str = "exact",
    subset: str = ALL,
    within: tuple[float, float] = (-math.inf, math.inf),
    quantity: str = "",
) -> Number:
    """A mean with its interval, for an experiment's `own_scores`; it may be the headline (METRICS F1).

    Args:
        config: of the run: its seed, draws and level.
        metric: the number's name, in `scores.json` and in a column.
        values: [n]; NaN is left out and counted.
        clusters: [n] the cluster of each.
        within: the least and the largest value that there can be, which no interval exceeds.
        quantity: the metric in words.
    """
    score = cluster_mean(values, clusters, within=within, how=resampling(config))
    words = quantity or metric.replace("_", " ")
    return Number(metric=metric, method=method, kind=kind, subset=subset, score=score, quantity=words, code="F1")


@dataclass(frozen=True)
class NumberMaker:
    """Makes the numbers of one method, for an experiment's `own_scores`."""

    config: RunConfig
    method: str
    kind: str = "exact"

    @property
    def how(self) -> Resampling:
        """How they are resampled."""
        return resampling(self.config)

    def number(self, metric: str, score: Score, subset: str = ALL, quantity: str = "", **fields: Any) -> Number:
        """A score under its name; `fields`: further ones of `Number`."""
        named: dict[str, Any] = {"method": self.method, "kind": self.kind, "subset": subset, **fields}
        return Number(metric=metric, score=score, quantity=quantity, **named)

    def mean(
        self,
        metric: str,
        values: ArrayLike,
        clusters: ArrayLike,
        subset: str = ALL,
        quantity: str = "",
        within: tuple[float, float] = (-math.inf, math.inf),
    ) -> Number:
        """Of values [n] in clusters [n], of which `within` are the least and the largest that there can be."""
        return self.number(metric, cluster_mean(values, clusters, within=within, how=self.how), subset, quantity)


def as_taken(experiment: Experiment, beliefs: BeliefTable) -> Any:
    """Beliefs as the experiment takes them: by parts, if it can."""
    return in_parts(beliefs) if experiment.by_parts else beliefs


def score_run(experiment: Experiment, config: RunConfig, beliefs: BeliefTable) -> list[Number]:
    """The engine's numbers of the experiment's samples, the paired differences of its headline, and its own numbers.

    Raises UserError for an experiment that breaks its contract: two numbers of one name, or no headline.
    """
    return score_and_tell(experiment, config, beliefs)[0]


def score_and_tell(
    experiment: Experiment, config: RunConfig, beliefs: BeliefTable
) -> tuple[list[Number], dict[str, str]]:
    """The same, and metric -> why it was left out of a run that is too large for it."""
    taken = as_taken(experiment, beliefs)
    scored = score_samples(experiment.samples(config, taken), resampling(config), compared={experiment.headline})
    numbers = [*scored.all, *experiment.own_scores(config, taken)]
    require_unique(numbers)
    if not any(number.metric == experiment.headline and number.subset == ALL for number in numbers):
        raise UserError(f"{experiment.name}: its headline {experiment.headline!r} is no number of the subset {ALL!r}")
    return numbers, {name: f"{scored.skipped[name]} of `doxascope score`" for name in scored.too_slow}


class Begun(NamedTuple):
    """What an add-on has made ready before anything is read."""

    config: RunConfig
    """With what it has settled."""
    conditions: Mapping[str, Any]
    """What of it changes the numbers, besides the settings."""


@dataclass(frozen=True)
class ScoredRun:
    """A run whose experiment has been scored."""

    folder: RunFolder
    experiment: Experiment
    config: RunConfig
    whole: Callable[[], pd.DataFrame]
    """Reads the belief table."""
    taken: BeliefTable
    """The rows of it that the experiment scores, as it takes them."""
    numbers: Sequence[Number]

    @property
    def every(self) -> pd.DataFrame:
        """The belief table."""
        return self.whole()

    @property
    def beliefs(self) -> pd.DataFrame:
        """The rows of it that the experiment scores."""
        return without_inner(self.every)


def without_inner(beliefs: pd.DataFrame) -> pd.DataFrame:
    """The rows that an experiment scores: what the model says, or what is said of it."""
    return beliefs[~beliefs["kind"].isin(INNER_KINDS)]


@dataclass(frozen=True)
class Added:
    """What an add-on gives to the scores and the page of a run."""

    numbers: Sequence[Number] = ()
    files: Mapping[str, Any] = field(default_factory=dict)
    """Name -> a text, or what JSON can hold."""
    blocks: Sequence[Block] = ()
    """Sections of the page."""
    lead: Figure | None = None
    """Takes the place of the figure of the headline at the top of the page."""
    notes: Mapping[Key, str] = field(default_factory=dict)
    """What stands beside single numbers."""


class AddOn(ABC):
    """One of them."""

    def begin(self, experiment: Experiment, config: RunConfig, items: Sequence[Item], lm: LanguageModel) -> Begun:
        """Before a run reads anything; may fit the model with what it reads by. Raises UserError for what it cannot."""
        return Begun(config, {})

    @abstractmethod
    def finish(self, run: ScoredRun) -> Added:
        """Once the experiment is scored; needs no model."""
