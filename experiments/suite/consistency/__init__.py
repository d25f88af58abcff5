"""Belief consistency (20 questions with three words): METRICS B, on exact beliefs.

Per item, an ordered triple of words, there is one prior (the word is asked for at once) and nine posteriors:
three that reject one word ("Is it X?" "No."), six that keep two ("Is it either X or Y?" "Yes.", both orders).
"""

from collections.abc import Iterator, Mapping
from itertools import permutations
from typing import Any

import pandas as pd

from ....metrics.consistency.competence import BELOW_MENTIONED, COVERAGE, HALVES
from ....metrics.contract import Score
from ....metrics.scoring.engine import score_samples
from ...materials.entities import Window, Words, entities, triples, window_name
from ...report.findings import Column
from ...report.papers.consistency import tables
from ...run.addons.inner_readouts import PRIOR as NONE_YET
from ...run.addons.inner_readouts import Inner
from ...run.experiment import Experiment, Item, Question, delegated, moments_of
from ...run.scores import resampling
from ...run.stated_beliefs import BeliefPlace
from .ask import POSTERIOR, PRIOR, SECOND, dialogue_places, dialogue_questions, fork_questions
from .config import ConsistencyConfig
from .instances import INSTANCES, instances, stored_tables
from .page import findings, terms
from .samples import ABOUT, options, own_scores, samples

INNER_COLUMNS = (
    Column("kappa_word", "gain over words", "3-class consistency beyond the words alone: 0 is word taste, 1 coherent"),
    Column(
        "rms_logodds",
        "change of log-odds",
        "root mean square change of the log-odds of the two words that remain; 0 is a kept ratio",
    ),
    Column("c2", "consistency", "1 - JSD of the two words that remain, before and after; 1 is a kept ratio"),
    Column("kappa", "above chance", "(consistency - chance) / (1 - chance); chance: the posterior of another triple"),
)
INNER_FAMILIES = ("word-gain", "logodds-change", "consistency", "consistency-kappa")


def rejected(scenario: str, conditions: Mapping[str, Any]) -> int | None:
    """The word that is ruled out, of a prior none, and nothing of what is neither."""
    return NONE_YET if scenario == PRIOR else conditions["rejected"] if scenario == POSTERIOR else None


def score_inner(config: ConsistencyConfig, beliefs: pd.DataFrame) -> dict[str, Score]:
    """Gain over the words, which have none themselves, change of log-odds, and consistency."""
    tables, how = stored_tables(beliefs), resampling(config)
    (method,) = tables.methods(INSTANCES)
    sample = options(tables, method, tables.read(INSTANCES, method, ABOUT).reset_index(drop=True))
    scores = {
        number.metric: number.score for name in INNER_FAMILIES for number in score_samples([sample], how, name).numbers
    }
    return {column.metric: scores[column.metric] for column in INNER_COLUMNS}


INNER = Inner(rejected, INNER_COLUMNS, score_inner)


ORDERS = {"one": [(0, 1, 2)], "latin": [(0, 1, 2), (1, 2, 0), (2, 0, 1)], "all": list(permutations(range(3)))}


class BeliefConsistency(Experiment):
    """The experiment."""

    name = "consistency"
    summary = "does the ratio of two options survive the rejection of a third?"
    unit = "ordered triples of words"
    headline = "kappa_word"
    gate = (COVERAGE, HALVES, BELOW_MENTIONED)
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

    def places(self, config: ConsistencyConfig, item: Item) -> list[BeliefPlace]:
        """The same conversations, where the probabilities of the words are asked for."""
        return dialogue_places(config, item.id, item.content["words"])

    def moments(self, beliefs: pd.DataFrame) -> "pd.Series[str]":
        """Before and after a word is ruled out; after a reply that decides nothing neither."""
        scenario = beliefs["scenario"].astype(str)
        return moments_of(scenario == PRIOR, scenario.isin((POSTERIOR, SECOND)))

    samples = delegated(samples)
    own_scores = delegated(own_scores)
    tables = delegated(tables)
    findings = delegated(findings)
    terms = delegated(terms)


def _items(config: ConsistencyConfig, window: Window | None, mark: str) -> Iterator[Item]:
    """Those of a window, whose names begin with the mark."""
    for i, triple in enumerate(triples(entities(config.entities, window), config.items, config.seed)):
        for order in ORDERS[config.orders]:
            yield Item(
                id=f"{mark}t{i:04}-{''.join(str(k) for k in order)}",
                cluster="+".join(sorted(triple)),
                content={"words": tuple(triple[k] for k in order)},
            )


__all__ = ["BeliefConsistency", "ConsistencyConfig", "instances"]
