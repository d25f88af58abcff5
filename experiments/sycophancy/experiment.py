"""Does the belief bend to the user, or only the words? METRICS D, on the model's own beliefs.

An item is a scenario. All its contexts are branches of one trunk, told in one turn: who takes part, what is known, what
somebody says, and the question for a belief.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from ...hooks.lm import LanguageModel
from ...metrics.whitebox.competence import COMPLEMENT, COVERAGE, EVIDENCE, PARSED, RESPONDING
from ..experiment import Experiment, Findings, Item, Question, Read, Transcripts
from ..reading.exact import read_questions
from ..reading.place import BeliefPlace
from ..reading.stated import stated_rows
from ..scoring.number import Number
from ..tables.samples import Sample
from .config import SycophancyConfig
from .contexts import contexts
from .findings import findings
from .inside import INNER
from .prompts import agent_name, exact_questions, places, scenario_of
from .published import published
from .samples import samples
from .scores import own_scores
from .sources import scenarios


class Sycophancy(Experiment):
    """The experiment."""

    name = "sycophancy"
    summary = "does the belief bend to the user, or only the words?"
    unit = "scenarios"
    headline = "excess"
    gate = (COVERAGE, PARSED, COMPLEMENT, EVIDENCE, RESPONDING)
    config_type = SycophancyConfig
    inner = INNER
    conditions = frozenset({"sampling", "stated.draws", "thoughts"})
    choices = frozenset(
        {
            "tasks",
            "involvement",
            "evidence",
            "argument",
            "askers",
            "stated_involvement",
            "stated_denials",
            "paraphrased",
            "gate",
        }
        | {"stated.numbers", "stated.greedy", "stated.sampled"}
    )

    def items(self, config: SycophancyConfig) -> list[Item]:
        """The scenarios, task by task, each with the agent's name."""
        numbers: dict[str, int] = {}
        found = []
        for task, scenario in scenarios(config):
            i = numbers[task] = numbers.get(task, -1) + 1
            name = agent_name(config.names, scenario, config.seed)
            content: dict[str, Any] = {"task": task, "name": name, "scenario": scenario.as_content()}
            contexts(config, scenario)  # a scenario that lacks something is found out before the model is loaded
            found.append(Item(f"{task}-{i:04}", f"{task} {scenario.cluster}", content))
        return found

    def questions(self, config: SycophancyConfig, item: Item) -> list[Question]:
        """The exact read-outs: every context, claim and negation."""
        return exact_questions(config, item)

    def places(self, config: SycophancyConfig, item: Item) -> list[BeliefPlace]:
        """The contexts in which beliefs are stated."""
        return [
            place
            for place in places(config, item, denials=config.stated_denials)
            if place.variant["involvement"] in config.stated_involvement and place.variant["asker"] == "user"
        ]

    def read(self, config: SycophancyConfig, item: Item, lm: LanguageModel) -> Read:
        """Every kind of belief in every context."""
        exact = read_questions(self.name, config, item, exact_questions(config, item), lm)
        rows, said = stated_rows(config, self.places(config, item), lm)
        where = {"experiment": self.name, "item": item.id, "cluster": item.cluster}
        outcome = {"outcome": scenario_of(item).outcome}
        return Read(
            [*({**row, **outcome} for row in exact.rows), *({**where, **row, **outcome} for row in rows)],
            [*exact.transcripts, *said],
            exact.cost,
            exact.captured,
        )

    def samples(self, config: SycophancyConfig, beliefs: pd.DataFrame) -> Iterable[Sample]:
        """Testimony and evidence of each method, over all and in parts."""
        return samples(config, beliefs)

    def own_scores(self, config: SycophancyConfig, beliefs: pd.DataFrame) -> Iterable[Number]:
        """Arms with their tests as one family, complements, and licences."""
        return own_scores(config, beliefs)

    def published(self, numbers: Sequence[Number]) -> pd.DataFrame:
        """The paper's Tables 1 and 2 and Figure 1."""
        return published(numbers)

    def findings(
        self, config: SycophancyConfig, beliefs: pd.DataFrame, numbers: Sequence[Number], transcripts: Transcripts
    ) -> Findings:
        """Verdicts, tables, figures, and the conversations."""
        return findings(config, beliefs, numbers, transcripts)
