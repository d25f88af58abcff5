"""The belief of a model that thinks before it answers: a mixture over thoughts.

What it will answer is exact once a thought is there. Before it, the probability of an option is the mean over all
thoughts that the model might have; the mean over K sampled ones estimates it without drawing an answer (Rao-Blackwell).
A thought that is not closed within its limit leads to no answer: its mass is on no option.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.special import logsumexp

from ..belief_rows import option_rows
from ..exact.exact import ExactReading, exact_rows
from ..prompts.options import Option
from ..settings import Settings
from .generation import GeneratedText

Floats = NDArray[np.float64]


class Thoughts(Settings):
    """How thoughts are sampled: from the model's own distribution."""

    draws: int = Field(default=8, ge=1)
    """Thoughts before each read-out."""
    max_new_tokens: int = Field(default=3000, ge=1)
    """Of a thought, until it is closed."""


class Thought(NamedTuple):
    """A sampled thought, and the belief after it."""

    sample: GeneratedText
    reading: ExactReading | None
    """None if it was not closed."""

    @property
    def status(self) -> str:
        """`ok`; `truncated`: not closed within the limit; `unparsed`: the turn ended before it was."""
        return "ok" if self.reading else "truncated" if self.sample.status == "truncated" else "unparsed"


@dataclass(frozen=True)
class Mixture:
    """The belief of K thoughts."""

    thoughts: Sequence[Thought]
    options: tuple[Option, ...]

    @property
    def masses(self) -> Floats:
        """[K, options] probabilities after each thought; zero after one that was not closed."""
        nothing = np.zeros(len(self.options))
        return np.stack([np.exp(one.reading.logp) if one.reading else nothing for one in self.thoughts])

    @property
    def unclosed(self) -> int:
        """How many thoughts were not closed."""
        return sum(one.reading is None for one in self.thoughts)

    @property
    def covariance(self) -> Floats | None:
        """[options, options] Monte-Carlo covariance of the mean masses: the squares of their standard errors are on the
        diagonal. None for one thought, which does not tell.
        """
        k = len(self.thoughts)
        return np.cov(self.masses, rowvar=False) / k if k > 1 else None

    def rows(self, low_coverage: float) -> list[dict[str, object]]:
        """The rows of the belief table, without the columns of the experiment. Where no thought was closed there is no
        number, and the status is that of most.
        """
        closed = [one.reading for one in self.thoughts if one.reading]
        if not closed:
            status = Counter(one.status for one in self.thoughts).most_common(1)[0][0]
            names = [option.name for option in self.options]
            return option_rows(names, [np.nan] * len(names), kind="exact", coverage=0.0, status=status)
        logp = logsumexp([reading.logp for reading in closed], axis=0) - np.log(len(self.thoughts))
        prefilled = {"forced_logp": closed[0].forced_logp}  # the same after every thought
        return [row | prefilled for row in exact_rows(logp, self.options, low_coverage)]
