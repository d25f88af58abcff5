"""Does the answer bend to the model's own history? METRICS C, on exact beliefs (b-score).

An item is a question with options. It is read afresh in every order of its options, and in conversations in which it is
asked again and again: the answers are sampled, and at each turn the exact distribution given those before it is read.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict

import numpy as np
import pandas as pd

from ...hooks.lm import LanguageModel
from ...hooks.prompts.query import PromptReader
from ...metrics.whitebox.competence import COVERAGE, EASY
from ..addons.inner.declaration import Inner
from ..experiment import Experiment, Findings, Item, Question, Read, Transcripts
from ..reading.stated import AskedNumbers
from ..scoring.number import Number
from ..tables.samples import Sample
from .asking import single_questions
from .confidence import planned_confidence
from .config import BScoreConfig
from .conversations import planned
from .findings import findings
from .inside import INNER
from .own import own_scores
from .published import published
from .reading import read_item
from .samples import samples


class BScoreExperiment(Experiment):
    """The experiment."""

    name = "bscore"
    summary = "does an answer become rarer once the model has seen itself give it?"
    unit = "questions"
    headline = "top_b"
    gate = (COVERAGE, EASY)
    config_type = BScoreConfig
    choices = frozenset({"sources", "distributions", "runs", "cuts", "confidence", "per_question"})

    def items(self, config: BScoreConfig) -> list[Item]:
        """The questions of each source, then the named distributions."""
        found: list[Item] = []
        for name, source in config.sources.items():
            mark = f"{name}:" if len(config.sources) > 1 else ""
            for one in source.choices(config.items, config.seed):
                content = asdict(one)
                found.append(Item(f"{mark}{one.id}", f"{mark}{one.cluster}", content))
        drawn = [law.choice(name) for name, law in config.distributions.items()]
        found += [Item(one.id, one.cluster, asdict(one)) for one in drawn]
        return found

    def questions(self, config: BScoreConfig, item: Item) -> list[Question]:
        """The question afresh, in all its orders: what is known before the model has said anything."""
        return single_questions(config, item)

    def planned(self, config: BScoreConfig, item: Item) -> list[Question]:
        """The same, and conversations with answers in turns."""
        return planned(config, item)

    def size(self, config: BScoreConfig) -> str:
        """R, N, and what they are good for."""
        spread = 0.5 / np.sqrt(config.runs * (config.turns - 1))
        told = (
            f"each question: R = {config.runs} conversations of N = {config.turns} turns under {len(config.held)} of "
            f"{len(config.methods)} methods, where counted answers would leave an error of {spread:.2f} at P = 1/2"
        )
        stated = "" if config.confidence is None else "; and how sure it is of each option"
        twice = "; each conversation once more, for what is read inside" if config.capture or config.lens else ""
        return told + stated + twice

    def numbers(self, config: BScoreConfig, item: Item, reader: PromptReader) -> AskedNumbers:
        """How sure the model is of each option."""
        return planned_confidence(config, item, reader)

    @property
    def inner(self) -> Inner:
        """See `addons.inner.declaration`."""
        return INNER

    def read(self, config: BScoreConfig, item: Item, lm: LanguageModel) -> Read:
        """Read the question afresh, hold its conversations, and ask how sure the model is of each option."""
        return read_item(self.name, config, item, lm)

    def samples(self, config: BScoreConfig, beliefs: pd.DataFrame) -> Iterable[Sample]:
        """Answers afresh and in conversation, exact and counted, and answers to accept or reject."""
        return samples(config, beliefs)

    def own_scores(self, config: BScoreConfig, beliefs: pd.DataFrame) -> Iterable[Number]:
        """Coverage, orders, the course along the turns, distances and confidence."""
        return own_scores(config, beliefs)

    def published(self, numbers: Sequence[Number]) -> pd.DataFrame:
        """The paper's Tables 2 to 4 and T3 to T6."""
        return published(numbers)

    def findings(
        self, config: BScoreConfig, beliefs: pd.DataFrame, numbers: Sequence[Number], transcripts: Transcripts
    ) -> Findings:
        """Verdicts, tables, figures, and the conversations."""
        return findings(config, beliefs, numbers, transcripts)
