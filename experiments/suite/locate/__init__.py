"""Where does a belief change? Rows of the residual stream are interchanged between minimal pairs (METRICS W2)."""

from itertools import islice

from ....base.errors import UserError
from ....hooks.exact.queries import PromptReader
from ....hooks.model.loading import load_text_side
from ....metrics.consistency.competence import BELOW_MENTIONED, COVERAGE, HALVES, RESPONDING
from ...run.experiment import Experiment, Item, Question, delegated
from .ask import NAME, UNDECIDED, context_questions, planned_queries, read_pair
from .config import LocateConfig
from .page import findings
from .pairs import align
from .samples import UPDATE, own_scores, samples

TRIES = 200
"""Candidates that are looked at for each pair that is asked for."""


class Locate(Experiment):
    """The experiment."""

    name = NAME
    summary = "at which tokens and layers is the answer decided?"
    unit = "minimal pairs"
    headline = UPDATE
    gate = (COVERAGE, HALVES, BELOW_MENTIONED, RESPONDING)
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

    questions = delegated(context_questions)

    def planned(self, config: LocateConfig, item: Item) -> list[Question]:
        """The contexts that are read before anything is interchanged."""
        return [question for question in context_questions(config, item) if question.scenario not in UNDECIDED]

    planned_queries = delegated(planned_queries)

    def size(self, config: LocateConfig) -> str:
        """What the patched read-outs are."""
        return "an item is a minimal pair; base and donor are read with each other's rows in every cell of the map"

    read = delegated(read_pair)
    samples = delegated(samples)
    own_scores = delegated(own_scores)
    findings = delegated(findings)


__all__ = ["Locate", "LocateConfig"]
