"""What a run may add to its experiment: the engine goes through a list of these and knows none by name."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import pandas as pd

from ...hooks.lm import LanguageModel
from ...metrics import INNER_KINDS
from ..experiment import Experiment, Item, RunConfig
from ..report.blocks import Block
from ..runs.folder import RunFolder
from ..scoring.number import Key, Number
from ..tables.belief_parts import BeliefTable


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
    """Name -> what JSON can hold."""
    blocks: Sequence[Block] = ()
    """Sections of the page."""
    notes: Mapping[Key, str] = field(default_factory=dict)
    """What stands beside single numbers."""


class AddOn(Protocol):
    """One of them."""

    def begin(self, experiment: Experiment, config: RunConfig, items: Sequence[Item], lm: LanguageModel) -> Begun:
        """Before a run reads anything; may fit the model with what it reads by. Raises UserError for what it cannot."""
        ...

    def finish(self, run: ScoredRun) -> Added:
        """Once the experiment is scored; needs no model."""
        ...
