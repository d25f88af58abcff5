"""Does the answer bend to the model's own history? METRICS C, on exact beliefs (b-score).

An item is a question with options. It is read afresh in every order of its options, and in conversations in which it is
asked again and again: the answers are sampled, and at each turn the exact distribution given those before it is read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from ....hooks.exact.queries import PromptReader
from ....hooks.lm import LanguageModel
from ....metrics.consistency.competence import COVERAGE, EASY, PARSED
from ....metrics.contract import Score
from ....metrics.scoring.engine import score_samples
from ....metrics.tables.samples import ALL
from ...materials.choices.sources import Choice
from ...report.papers.bscore import tables
from ...run.addons.inner_readouts import BESIDE, PRIOR, Inner
from ...run.experiment import Experiment, Item, Read, delegated, moments_of
from ...run.scores import resampling
from ...run.stated_beliefs import AskedNumbers
from .ask import planned, planned_confidence, planned_tokens, read_item, written_rows
from .config import CATEGORY as DISTRIBUTION
from .config import BScoreConfig
from .page import SIZE, TOP, findings, terms
from .samples import exact_answers, parts, samples
from .scores import own_scores
from .turns import ALIKE, MULTI, SINGLE, single_questions
from .views import view_of

INNER_COLUMNS = (TOP, SIZE)


def answered(scenario: str, conditions: Mapping[str, Any]) -> int | None:
    """The option that the model gave last: its log-odds must move as in the exact answer. Afresh none was given, and a
    first turn judges nothing. A method without conversations, and a named distribution, have no part in it.
    """
    if scenario not in (SINGLE, MULTI) or "alone" in conditions or conditions["category"] == DISTRIBUTION:
        return None
    return PRIOR if scenario == SINGLE else conditions.get("before", BESIDE)


def score_inner(config: BScoreConfig, beliefs: pd.DataFrame) -> dict[str, Score]:
    """B of the option that is likeliest afresh at this layer, and mean |B|; words alone ignore history."""
    view = view_of(config, str(beliefs["method"].iloc[0]), beliefs)
    sample = exact_answers(view, parts(view.held)[""], ALL, slice(None))
    scores = {number.metric: number.score for number in score_samples([sample], resampling(config), "b-score").numbers}
    return {column.metric: scores[column.metric] for column in INNER_COLUMNS}


INNER = Inner(answered, INNER_COLUMNS, score_inner)


def _beside(choice: Choice, choices: Sequence[Choice], mark: str) -> dict[str, Any]:
    """The next question of the same options, where there is one."""
    same = [other for other in choices if sorted(other.options) == sorted(choice.options)]
    after = same[(same.index(choice) + 1) % len(same)]
    return {} if after == choice else {ALIKE: {"id": f"{mark}{after.id}", "content": asdict(after)}}


class BScoreExperiment(Experiment):
    """The experiment."""

    name = "bscore"
    summary = "does an answer become rarer once the model has seen itself give it?"
    unit = "questions"
    headline = "b_excess"
    probed = "question"
    gate = (COVERAGE, PARSED, EASY)
    config_type = BScoreConfig
    inner = INNER
    choices = frozenset(
        {"sources", "distributions", "runs", "cuts", "controls", "confidence", "per_question", "written"}
    )

    def items(self, config: BScoreConfig) -> list[Item]:
        """The questions of each source, then the named distributions."""
        items: list[Item] = []
        for name, source in config.sources.items():
            mark = f"{name}:" if len(config.sources) > 1 else ""
            choices = source.choices(config.items, config.seed)
            for choice in choices:
                beside = _beside(choice, choices, mark)
                items.append(Item(f"{mark}{choice.id}", f"{mark}{choice.cluster}", asdict(choice), beside))
        drawn = [law.choice(name) for name, law in config.distributions.items()]
        items += [Item(choice.id, choice.cluster, asdict(choice)) for choice in drawn]
        return items

    questions = delegated(single_questions)

    def moments(self, beliefs: pd.DataFrame) -> "pd.Series[str]":
        """Before and after the model has seen an answer of its own; of controls neither."""
        scenario = beliefs["scenario"].astype(str)
        seen = (scenario == MULTI) & (beliefs["step"] > 1)
        return moments_of(scenario.isin((SINGLE, MULTI)) & ~seen, seen)

    planned = delegated(planned)

    def size(self, config: BScoreConfig) -> str:
        """R, N, and what they are good for."""
        spread = 0.5 / np.sqrt(config.runs * (config.turns - 1))
        exact = (
            f"each question: R = {config.runs} conversations of N = {config.turns} turns under {len(config.held)} of "
            f"{len(config.methods)} methods, where counted answers would leave an error of {spread:.2f} at P = 1/2"
        )
        stated = "" if config.confidence is None else "; and how sure it is of each option"
        twice = "; each conversation once more, for what is read inside" if config.capture or config.lens else ""
        return exact + stated + twice

    def numbers(self, config: BScoreConfig, item: Item, reader: PromptReader) -> AskedNumbers:
        """How sure it is, and what it writes out."""
        asked = planned_confidence(config, item, reader)
        return asked._replace(written=asked.written + planned_tokens(config, item))

    def read(self, config: BScoreConfig, item: Item, lm: LanguageModel) -> Read:
        """Read the question afresh, hold its conversations, and ask how sure the model is of each option."""
        read = read_item(self.name, config, item, lm)
        rows, transcripts = written_rows(config, item, lm)
        where = {"experiment": self.name, "item": item.id, "cluster": item.cluster}
        rows = [*read.rows, *(where | row for row in rows)]
        return read._replace(rows=rows, transcripts=[*read.transcripts, *transcripts])

    samples = delegated(samples)
    own_scores = delegated(own_scores)
    tables = delegated(tables)
    findings = delegated(findings)
    terms = delegated(terms)


__all__ = ["BScoreConfig", "BScoreExperiment"]
