"""Where does a belief change? Rows of the residual stream are interchanged between minimal pairs (METRICS W2)."""

from collections.abc import Iterable, Sequence
from itertools import islice

import pandas as pd

from ...hooks.errors import UserError
from ...hooks.lm import LanguageModel
from ...hooks.model.loading import load_text_side
from ...hooks.prompts.query import PromptReader, Query
from ...metrics.whitebox.competence import BELOW_MENTIONED, COVERAGE, EVIDENCE, FALLS, RESPONDING
from ..experiment import Experiment, Findings, Item, Question, Read, Transcripts
from ..scoring.number import Number
from ..tables.samples import Sample
from .config import LocateConfig
from .findings import findings
from .interchange import NAME, UNDECIDED, context_questions, planned_queries, read_pair
from .minimal_pair import align
from .samples import UPDATE, own_scores, samples

TRIES = 200
"""Candidates that are looked at for each pair that is asked for."""


class Locate(Experiment):
    """The experiment."""

    name = NAME
    summary = "at which tokens and layers is the answer decided?"
    unit = "minimal pairs"
    headline = UPDATE
    gate = (FALLS, BELOW_MENTIONED, COVERAGE, EVIDENCE, RESPONDING)
    config_type = LocateConfig

    def items(self, config: LocateConfig) -> list[Item]:
        """The first pairs whose contexts are of equal length to the model's tokenizer.

        Raises UserError if there are too few, with what is wrong with the first that was left out.
        """
        reader = PromptReader(config.model, load_text_side(config.model), config.terminators)
        items: list[Item] = []
        left_out: list[UserError] = []
        for pair in islice(config.pairs.candidates(config.seed), TRIES * config.items):
            try:
                align(pair, reader)
            except UserError as error:
                left_out.append(error)
                continue
            items.append(Item(pair.id, pair.cluster, pair.as_content()))
            if len(items) == config.items:
                return items
        raise UserError(f"pairs: {len(items)} of {config.items} can be aligned; the first that cannot: {left_out[0]}")

    def questions(self, config: LocateConfig, item: Item) -> list[Question]:
        """The contexts of a pair, before anything is interchanged."""
        return context_questions(item)

    def planned(self, config: LocateConfig, item: Item) -> list[Question]:
        """The contexts that are read before anything is interchanged."""
        return [question for question in context_questions(item) if question.scenario not in UNDECIDED]

    def planned_queries(self, config: LocateConfig, item: Item, reader: PromptReader, n_layers: int) -> list[Query]:
        """Every patched read-out, and the contexts in which nothing was decided."""
        return planned_queries(config, item, reader, n_layers)

    def size(self, config: LocateConfig) -> str:
        """What the patched read-outs are."""
        return "an item is a minimal pair; base and donor are read with each other's rows in every cell of the map"

    def read(self, config: LocateConfig, item: Item, lm: LanguageModel) -> Read:
        """The contexts, and every cell of the map."""
        return read_pair(config, item, lm)

    def samples(self, config: LocateConfig, beliefs: pd.DataFrame) -> Iterable[Sample]:
        """Everything at once, and the maps (METRICS W2)."""
        return samples(config, beliefs)

    def own_scores(self, config: LocateConfig, beliefs: pd.DataFrame) -> Iterable[Number]:
        """The update, and the competence gate."""
        return own_scores(config, beliefs)

    def findings(
        self, config: LocateConfig, beliefs: pd.DataFrame, numbers: Sequence[Number], transcripts: Transcripts
    ) -> Findings:
        """The map, its profiles and controls, and the pairs."""
        return findings(beliefs, numbers, transcripts)
