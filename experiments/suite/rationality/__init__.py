"""Beliefs and actions (METRICS E): could these beliefs be the ones that drive the decisions?

An item is a context of a world whose truth is known: some of its covariates, the question whether its target holds, and
the true chance that it does. Belief and action are read in contexts of their own, on the trunk of one situation.
"""

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import lru_cache
from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd

from ....hooks.lm import LanguageModel
from ....metrics import INNER_KINDS, bayes_error
from ....metrics.consistency.competence import COVERAGE, RESPONDING
from ....metrics.contract import Score
from ....metrics.tables.samples import Sample
from ...materials.worlds.source import WorldSource, contexts
from ...report.findings import Column
from ...report.papers.rationality import tables
from ...run.addons.inner_readouts import PRIOR as NONE_YET
from ...run.addons.inner_readouts import Inner
from ...run.experiment import Experiment, Item, Read, delegated, moments_of
from ...run.readouts import read_questions
from ...run.scores import resampling
from .ask import BELIEF, CASE, PRIOR, acted_rows, asked_numbers, questions, stated
from .config import RationalityConfig
from .learners import require_learner
from .page import findings, terms
from .samples import actions, decisions, detailed, knowledge, methods, samples
from .scores import RESPONSE, own_scores, response

INNER_COLUMNS = (
    Column(RESPONSE, "response", "slope of the belief on the true chance; 0: the belief does not respond to evidence"),
    Column("rmse_truth", "error", "root mean square distance of the belief from the true chance"),
)


def against(scenario: str, conditions: Mapping[str, Any]) -> int | None:
    """The answer that the evidence speaks against; none yet before it; nothing of what is neither."""
    return NONE_YET if scenario == PRIOR else conditions.get("against") if scenario == BELIEF else None


def score_inner(config: RationalityConfig, beliefs: pd.DataFrame) -> dict[str, Score]:
    """How a belief answers to the evidence, and how far it is from the truth. The words alone answer to nothing."""
    table = detailed(beliefs)
    held_rows = table[(table["scenario"] == BELIEF) & (table["option_index"] == 0)]
    each = held_rows.groupby("item", sort=False).agg(belief=("prob", "mean"), truth=("truth", "first"))
    belief, truth = (each[name].to_numpy(dtype=np.float64) for name in ("belief", "truth"))
    names = each.index.to_numpy()
    error = bayes_error(belief, truth, names, how=resampling(config))
    return {RESPONSE: response(truth, belief, names, config), "rmse_truth": error}


def beside_inner(config: RationalityConfig, beliefs: pd.DataFrame) -> Iterator[tuple[str, list[Sample]]]:
    """Could an inner belief be the one acted on, and what do it, the choice and the words know beyond each other?"""
    table = detailed(beliefs)
    acts = actions(config, table)
    every = list(methods(table, acts.items))
    acted = [decisions(config, kind, acts) for kind in every]
    yield "sufficiency", [*acted]
    yield "knows-more", [*acted]
    pairs = [pair for pair in permutations(every, 2) if len([kind for kind in pair if kind.kind in INNER_KINDS]) == 1]
    if pairs:  # what reads decisions alone holds no belief
        yield "latent", [knowledge(*pair, acts) for pair in pairs]


INNER = Inner(against, INNER_COLUMNS, score_inner, beside_inner)


class Rationality(Experiment):
    """The experiment."""

    name = "rationality"
    summary = "could these beliefs be the ones that drive the decisions?"
    unit = "contexts in which to act"
    headline = "sufficiency"
    gate = (COVERAGE, RESPONDING)
    config_type = RationalityConfig
    inner = INNER
    conditions = frozenset({"world", "sampling"})
    choices = frozenset(
        {"reveal", "pool", "iterated", "stakes", "learner", "depth", "iterations", "resamples"}
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

    questions = delegated(questions)
    numbers = delegated(asked_numbers)

    def moments(self, beliefs: pd.DataFrame) -> "pd.Series[str]":
        """Of beliefs, with nothing known and in a situation; of decisions neither."""
        scenario = beliefs["scenario"].astype(str)
        return moments_of(scenario == PRIOR, scenario.isin((BELIEF, CASE)))

    def read(self, config: RationalityConfig, item: Item, lm: LanguageModel) -> Read:
        """Exact beliefs and choices, then what is said. Raises UserError for a learner that scoring will not find."""
        require_learner(config)
        exact = read_questions(self.name, config, item, questions(config, item), lm)
        where = {"experiment": self.name, "item": item.id, "cluster": item.cluster}
        both = stated(config, item, lm).beside(exact, where)
        rows = [*both.rows, *acted_rows(config, item, exact.rows)]
        return both._replace(rows=[{**row, "outcome": item.content["outcome"]} for row in rows])

    samples = delegated(samples)
    own_scores = delegated(own_scores)
    tables = delegated(tables)
    findings = delegated(findings)
    terms = delegated(terms)


@lru_cache(maxsize=4)
def _contexts(
    world: str, _: tuple[int, ...], n: int, reveal: tuple[int, int], seed: int, pool: int
) -> list[tuple[str, dict]]:
    """(name, content) of each context. What comes true is drawn from its chance by the seed and its name."""
    drawn = contexts(WorldSource.model_validate_json(world), n, reveal=reveal, seed=seed, pool=pool)
    return [(case.name, {**asdict(case), "outcome": float(_luck(seed, case.name) < case.p_star)}) for case in drawn]


def _luck(seed: int, name: str) -> float:
    return float(np.random.default_rng([seed, zlib.crc32(name.encode())]).random())


__all__ = ["Rationality", "RationalityConfig"]
