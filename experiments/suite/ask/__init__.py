"""These questions, each with its own options: what does the model believe, how sure is it, and is it right?"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from ....base.errors import UserError
from ....hooks.exact.queries import PromptReader
from ....hooks.lm import LanguageModel
from ....metrics.consistency.competence import COVERAGE, ORDER, PARSED, RESPONDING
from ....metrics.decision.forecast_metrics import by_place
from ....metrics.number import Number
from ....metrics.tables.samples import ALL
from ...run.experiment import Experiment, Item, Question, Read, delegated
from ...run.scores import gate, resampling
from .ask import fit_form, item_of, questions, read_item, readable, stated_places
from .config import AskConfig, AskForm
from .page import findings
from .samples import answer_table, answered, multiclass, samples, values_by

UNTOLD = {RESPONDING: "the questions hold no evidence that could move a belief"}
"""Of questions without evidence."""


class Ask(Experiment):
    """The experiment."""

    name = "ask"
    summary = "what does it believe about these questions, each with its own options, and is it right?"
    unit = "questions, each with its own options"
    headline = "accuracy"
    beside = ("brier_multiclass", "log_loss", "calibration_error", "coverage", "by_place", "order_effect")
    probed = "question"
    gate = (COVERAGE, PARSED, ORDER, RESPONDING)
    config_type = AskConfig
    material = "questions.file"
    scoring = frozenset({"by", "max_by_place"})
    choices = frozenset({"questions", "by", "fit", "answers", "max_by_place"})

    def items(self, config: AskConfig) -> list[Item]:
        """The questions, in the order of the seed."""
        return _drawn(config)[: config.items]

    questions = delegated(questions)
    places = delegated(stated_places)

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
        fitted = {name: fit_form(config, name, rest, lm, config.fit.candidates) for name in names}
        methods = {**config.methods, **{name: fit.form for name, fit in fitted.items()}}
        record = {name: fit.as_dict() for name, fit in fitted.items()}
        return config.model_copy(update={"methods": methods}), {"fitted_forms": record}

    def readable(self, config: AskConfig, item: Item, reader: PromptReader) -> list[Question]:
        """Those of its questions that are read: under a method that cannot ask it, an item has no number."""
        return readable(config, item, reader)[0]

    def read(self, config: AskConfig, item: Item, lm: LanguageModel) -> Read:
        """The exact beliefs, and beside each option whether it is true."""
        return read_item(self.name, config, item, lm)

    samples = delegated(samples)

    def own_scores(self, config: AskConfig, beliefs: pd.DataFrame) -> Iterable[Number]:
        """Whether it can be read: coverage, and where orders were rotated that most beliefs do not follow the place. Of
        questions without evidence nobody can say whether a belief responds.
        """
        for method, asked in answered(beliefs):
            whole = multiclass(method, ALL, asked)
            order = None if whole.by_order is None else by_place(whole, resampling(config))
            masses, of = zip(*((mass, each.cluster) for each in asked for mass in each.coverage), strict=True)
            untested = dict(UNTOLD)
            if config.orders == "none" and _form(config, method).yes_no is None:
                untested[ORDER] = "one order was asked, by `orders`"
            yield gate(
                config,
                method,
                coverage={"": masses},
                read_groups={"": of},
                order=order,
                max_order=config.max_by_place,
                untested=untested,
            )
        for method, asked in answered(beliefs, "verbal"):
            masses, of = zip(*((mass, each.cluster) for each in asked for mass in each.coverage), strict=True)
            parsed = {"parse_rate": {"numbers": masses}, "read_groups": {"numbers": of}}
            yield gate(config, method, "verbal", **parsed, untested=UNTOLD)

    answers = delegated(answer_table)

    def listed(self, config: AskConfig) -> list[str]:
        """Those of the table."""
        return config.questions.ids()

    findings = delegated(findings)


def _form(config: AskConfig, method: str) -> AskForm:
    """Of a method, which under a branch of edits is called `<method> <branch>`."""
    return config.methods[max((name for name in config.methods if f"{method} ".startswith(f"{name} ")), key=len)]


def _drawn(config: AskConfig) -> list[Item]:
    """All questions of the source, in an order that the seed draws."""
    every = config.questions.questions()
    values_by(config, [(each.choice.topic, each.more) for each in every])  # refused before a model is loaded
    items = [item_of(question) for question in every]
    return [items[i] for i in np.random.default_rng(config.seed).permutation(len(items))]


__all__ = ["Ask", "AskConfig"]
