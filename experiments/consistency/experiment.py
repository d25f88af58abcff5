"""Belief consistency (20 questions with three words): METRICS B, on exact beliefs.

Per item, an ordered triple of words, there is one prior (the word is asked for at once) and nine posteriors:
three that reject one word ("Is it X?" "No."), six that keep two ("Is it either X or Y?" "Yes.", both orders).
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import permutations

import pandas as pd

from ...metrics.whitebox.competence import BELOW_MENTIONED, COVERAGE, FALLS, GAIN
from ..experiment import Experiment, Findings, Item, Question, Transcripts
from ..materials.entities import Window, Words, entities, triples, window_name
from ..scoring.number import Number
from ..tables.belief_parts import BeliefTable
from ..tables.samples import Sample
from .config import ConsistencyConfig
from .dialogue import dialogue_questions, fork_questions
from .findings import findings
from .inside import INNER
from .own import own_scores
from .published import published
from .samples import samples

ORDERS = {
    "one": [(0, 1, 2)],
    "latin": [(0, 1, 2), (1, 2, 0), (2, 0, 1)],
    "all": list(permutations(range(3))),
}


class BeliefConsistency(Experiment):
    """The experiment."""

    name = "consistency"
    summary = "does the ratio of two options survive the rejection of a third?"
    unit = "triples of words, in each of their orders"
    headline = "kappa_word"
    gate = (FALLS, BELOW_MENTIONED, COVERAGE, GAIN)
    config_type = ConsistencyConfig
    inner = INNER
    by_parts = True

    def items(self, config: ConsistencyConfig) -> list[Item]:
        """Triples of words of each window, in each of their orders; a triple, whatever its order, is a cluster."""
        windows = config.entities.windows
        return [item for w in windows for item in _items(config, w, f"{window_name(w)}:" if len(windows) > 1 else "")]

    def questions(self, config: ConsistencyConfig, item: Item) -> list[Question]:
        """One prior and nine posteriors under each method, and the forks."""
        words: Words = item.content["words"]
        return dialogue_questions(config, item.id, words) + fork_questions(config, item.id, words)

    def samples(self, config: ConsistencyConfig, beliefs: BeliefTable) -> Iterable[Sample]:
        """Instances (METRICS B) of each method, in all their parts, and the forks (W1)."""
        return samples(config, beliefs)

    def own_scores(self, config: ConsistencyConfig, beliefs: BeliefTable) -> Iterable[Number]:
        """Coverage, orders, and second rejections."""
        return own_scores(config, beliefs)

    def published(self, numbers: Sequence[Number]) -> pd.DataFrame:
        """The paper's Tables 1 to 9."""
        return published(numbers)

    def findings(
        self, config: ConsistencyConfig, beliefs: BeliefTable, numbers: Sequence[Number], transcripts: Transcripts
    ) -> Findings:
        """Tables, figures, and the instances."""
        return findings(config, beliefs, numbers, transcripts)


def _items(config: ConsistencyConfig, window: Window | None, mark: str) -> Iterator[Item]:
    """Those of a window, whose names begin with the mark."""
    words, ranking = entities(config.entities, window)
    for i, triple in enumerate(triples(words, config.items, config.seed)):
        for order in ORDERS[config.orders]:
            yield Item(
                id=f"{mark}t{i:04}-{''.join(str(k) for k in order)}",
                cluster="+".join(sorted(triple)),
                content={"words": tuple(triple[k] for k in order), "ranking": ranking},
            )
