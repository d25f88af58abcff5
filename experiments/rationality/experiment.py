"""Beliefs and actions (METRICS E): could these beliefs be the ones that drive the decisions?

An item is a context of a world whose truth is known: some of its covariates, the question whether its target holds, and
the true chance that it does. Belief and action are read in contexts of their own, on the trunk of one situation.
"""

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import lru_cache

import numpy as np
import pandas as pd

from ...hooks.lm import LanguageModel
from ...metrics.whitebox.competence import COVERAGE, EVIDENCE, RESPONDING
from ..experiment import Experiment, Findings, Item, Question, Read, Transcripts
from ..materials.worlds.source import WorldSource, contexts
from ..reading.exact import read_questions
from ..scoring.number import Number
from ..tables.samples import Sample
from .asking import questions
from .config import RationalityConfig
from .findings import findings
from .inside import INNER
from .learners import require_learner
from .own import own_scores
from .published import published
from .samples import samples
from .stated import stated_rows


class Rationality(Experiment):
    """The experiment."""

    name = "rationality"
    summary = "could these beliefs be the ones that drive the decisions?"
    unit = "contexts in which to act"
    headline = "sufficiency"
    gate = (COVERAGE, EVIDENCE, RESPONDING)
    config_type = RationalityConfig
    inner = INNER
    conditions = frozenset({"world", "sampling"})
    choices = frozenset(
        {"reveal", "pool", "iterated", "learner", "depth", "iterations", "resamples"}
        | {"said.numbers", "said.sampled", "said.repetitions", "said.auxiliary"}
    )

    def items(self, config: RationalityConfig) -> list[Item]:
        """Contexts, evenly over the true chance."""
        return [
            Item(name, name, dict(content))
            for name, content in _contexts(
                config.world.model_dump_json(),
                config.world.versions,
                config.items,
                config.reveal,
                config.seed,
                config.pool,
            )
        ]

    def questions(self, config: RationalityConfig, item: Item) -> list[Question]:
        """The exact beliefs and choices."""
        return questions(config, item)

    def read(self, config: RationalityConfig, item: Item, lm: LanguageModel) -> Read:
        """Exact beliefs and choices, then what is said. Raises UserError for a learner that scoring will not find."""
        require_learner(config)
        exact = read_questions(self.name, config, item, questions(config, item), lm)
        rows, said = stated_rows(config, item, lm)
        where = {"experiment": self.name, "item": item.id, "cluster": item.cluster}
        outcome = {"outcome": item.content["outcome"]}
        return Read(
            [*({**row, **outcome} for row in exact.rows), *({**where, **row, **outcome} for row in rows)],
            [*exact.transcripts, *said],
            exact.cost,
            exact.captured,
        )

    def samples(self, config: RationalityConfig, beliefs: pd.DataFrame) -> Iterable[Sample]:
        """Decisions, policies, prompts, cases and pairs of beliefs."""
        return samples(config, beliefs)

    def own_scores(self, config: RationalityConfig, beliefs: pd.DataFrame) -> Iterable[Number]:
        """The gate, what it judges, and published estimates."""
        return own_scores(config, beliefs)

    def published(self, numbers: Sequence[Number]) -> pd.DataFrame:
        """The paper's Tables 1 to 5."""
        return published(numbers)

    def findings(
        self, config: RationalityConfig, beliefs: pd.DataFrame, numbers: Sequence[Number], transcripts: Transcripts
    ) -> Findings:
        """Tables, figures, and the patients."""
        return findings(config, beliefs, numbers, transcripts)


@lru_cache(maxsize=4)
def _contexts(
    world: str, _: tuple[int, ...], n: int, reveal: tuple[int, int], seed: int, pool: int
) -> list[tuple[str, dict]]:
    """(name, content) of each context. What comes true is drawn from its chance by the seed and its name."""
    found = contexts(WorldSource.model_validate_json(world), n, reveal=reveal, seed=seed, pool=pool)
    return [(one.name, {**asdict(one), "outcome": float(_luck(seed, one.name) < one.p_star)}) for one in found]


def _luck(seed: int, name: str) -> float:
    return float(np.random.default_rng([seed, zlib.crc32(name.encode())]).random())
