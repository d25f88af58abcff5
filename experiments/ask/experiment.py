"""These questions, each with its own options: what does the model believe, how sure is it, and is it right?"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ...hooks.errors import UserError
from ...hooks.lm import LanguageModel
from ...hooks.prompts.query import PromptReader
from ...metrics.whitebox.competence import COVERAGE, ORDER
from ..experiment import Experiment, Findings, Item, Question, Read, Transcripts
from ..runs.scores import gate, resampling
from ..scoring.families.multiclass import by_place
from ..scoring.number import Number
from ..tables.samples import ALL, Sample
from .asking import item_of, questions
from .config import AskConfig
from .findings import findings
from .fitting import fit_form
from .reading import read_item, readable
from .samples import multiclass, samples
from .table import answer_table, answered


class Ask(Experiment):
    """The experiment."""

    name = "ask"
    summary = "what does it believe about these questions, each with its own options, and is it right?"
    unit = "questions, each with its own options"
    headline = "accuracy"
    beside = ("brier_multiclass", "log_loss", "calibration_error", "coverage", "by_place", "order_effect")
    gate = (COVERAGE, ORDER)
    config_type = AskConfig
    material = "questions.file"
    scoring = frozenset({"by", "max_by_place"})
    choices = frozenset({"questions", "by", "fit", "answers", "max_by_place"})

    def items(self, config: AskConfig) -> list[Item]:
        """The questions, in the order of the seed."""
        return _drawn(config)[: config.items]

    def questions(self, config: AskConfig, item: Item) -> list[Question]:
        """The question in each order of its options, under every method."""
        return questions(config, item)

    def settle(self, config: AskConfig, lm: LanguageModel) -> tuple[AskConfig, Mapping[str, Any]]:
        """Choose how answers begin on questions that are not scored, if the settings ask for it.

        Raises UserError if the source has no questions left for that.
        """
        if config.fit is None:
            return config, {}
        rest = _drawn(config)[config.items :][: config.fit.items]
        if len(rest) < config.fit.items:
            raise UserError(
                f"fit.items: {config.fit.items} questions besides the {config.items} that are scored are needed, and "
                f"the source has {len(rest)}; lower items"
            )
        names = config.fit.methods or config.answers
        found = {name: fit_form(config, name, rest, lm, config.fit.candidates) for name in names}
        methods = {**config.methods, **{name: one.form for name, one in found.items()}}
        record = {name: one.as_dict() for name, one in found.items()}
        return config.model_copy(update={"methods": methods}), {"fitted_forms": record}

    def readable(self, config: AskConfig, item: Item, reader: PromptReader) -> list[Question]:
        """Those of its questions that are read: under a method that cannot ask it, an item has no number."""
        return readable(config, item, reader)[0]

    def read(self, config: AskConfig, item: Item, lm: LanguageModel) -> Read:
        """The exact beliefs, and beside each option whether it is true."""
        return read_item(self.name, config, item, lm)

    def samples(self, config: AskConfig, beliefs: pd.DataFrame) -> Iterable[Sample]:
        """Beliefs over options."""
        return samples(config, beliefs)

    def own_scores(self, config: AskConfig, beliefs: pd.DataFrame) -> Iterable[Number]:
        """The competence gate: coverage, and where orders were rotated that most beliefs do not follow the place."""
        for method, asked in answered(beliefs):
            whole = multiclass(method, ALL, asked)
            order = None if whole.by_order is None else by_place(whole, resampling(config))
            masses = np.concatenate([one.coverage for one in asked])
            yield gate(config, method, coverage={"options": masses}, order=order, max_order=config.max_by_place)

    def answers(self, beliefs: pd.DataFrame) -> pd.DataFrame:
        """A row for each question and method, with the user's further columns."""
        return answer_table(beliefs)

    def findings(
        self, config: AskConfig, beliefs: pd.DataFrame, numbers: Sequence[Number], transcripts: Transcripts
    ) -> Findings:
        """Scores, calibration, questions."""
        return findings(config, beliefs, numbers, transcripts)


def _drawn(config: AskConfig) -> list[Item]:
    """All questions of the source, in an order that the seed draws."""
    found = [item_of(one) for one in config.questions.questions()]
    return [found[i] for i in np.random.default_rng(config.seed).permutation(len(found))]
