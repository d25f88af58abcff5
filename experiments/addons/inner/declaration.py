"""What an experiment says of itself so that its beliefs can be read inside."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import pandas as pd

from ....metrics.score import Score
from ...experiment import Column
from ...tables.samples import Sample

PRIOR, BESIDE = -1, -2
"""Of a context before there is any evidence, and of one that is scored but judges no layer."""


@dataclass(frozen=True)
class InnerScores:
    """One inner read-out's scores, or the exact one's on the same items."""

    scores: Mapping[str, Score]
    """By metric."""
    by_words: float
    """The headline of a read-out that knows the words and no context."""


@dataclass(frozen=True)
class Inner:
    """The declaration."""

    rejected: Callable[[str, Mapping[str, Any]], int | None]
    """From a read-out's scenario and variant to the option that its context is evidence about, one that it rejects or
    that was given as an answer; `PRIOR` before there is any, `BESIDE` if it is scored and judges nothing, None if it is
    neither."""
    columns: Sequence[Column]
    """The scores to show, the headline first."""
    score: Callable[[Any, pd.DataFrame], InnerScores]
    """From the configuration and the belief rows of one method, at one layer, to its scores."""
    beside: Callable[[Any, pd.DataFrame], Iterable[tuple[str, Iterable[Sample]]]] | None = None
    """From the configuration and a belief table in which inner read-outs are methods of their own, `<method>/<name>`,
    to the samples in which these meet the other beliefs, by the engine's metric that is to score them; None: in
    none."""


@runtime_checkable
class ReadInside(Protocol):
    """An experiment that has such a declaration."""

    @property
    def inner(self) -> Inner:
        """Its priors and posteriors, and what to score."""
        ...
