"""Do beliefs drift where the prior points? METRICS A, on the model's own belief after every step of reasoning.

An item is a question; its trajectories, under each kind of reasoning and system prompt, are made once and read by every
kind of belief, from a context that holds the steps so far and nothing later.
"""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain, groupby
from operator import itemgetter

import pandas as pd

from ...hooks.lm import LanguageModel
from ..experiment import Cell, Findings, Item, Question, Read, Transcripts
from ..materials.trajectories.chain import chains
from ..materials.trajectories.debate import debates
from ..materials.trajectories.thought import thoughts
from ..materials.trajectories.trajectory import Trajectory, Writer
from ..reading.exact import read_questions
from .config import MartingaleConfig, Reasoning
from .doob import control_rows
from .findings import findings
from .prefixes import along, cells, exact_questions, starts
from .prompts import evidence, matter, motion, question_of, thinking
from .published import published
from .scores import scores
from .sources import questions
from .stored import stored, told
from .verbal import judge_rows, verbal_rows

Key = tuple[Reasoning, str]


class Martingale:
    """The experiment."""

    name = "martingale"
    summary = "do beliefs drift where the prior points?"
    config_type = MartingaleConfig

    def items(self, config: MartingaleConfig) -> list[Item]:
        """The questions, domain by domain."""
        if config.trajectories:
            stored(config.model_dump_json())  # a run that does not fit is found out before the model is loaded
        numbers: dict[str, int] = {}
        found = []
        for domain, question in questions(config):
            i = numbers[domain] = numbers.get(domain, -1) + 1
            content = {"domain": domain, "question": asdict(question)}
            found.append(Item(f"{domain}-{i:04}", f"{domain} {question.cluster}", content))
        return found

    def questions(self, config: MartingaleConfig, item: Item) -> list[Question]:
        """The exact read-outs at every start, and along evidence."""
        return exact_questions(config, item, starts(config, item))

    def read(self, config: MartingaleConfig, item: Item, lm: LanguageModel) -> Read:
        """Make the trajectories, then read all kinds of belief after each of their steps."""
        made = trajectories(config, item, lm)
        prefixes = [one for key, own in made.items() for one in along(config, item, *key, own)]
        exact = read_questions(self.name, config, item, exact_questions(config, item, prefixes), lm)
        rows, said = verbal_rows(config, item, prefixes, lm)
        every = [one for own in made.values() for one in own]
        if config.judge:
            more, also = judge_rows(config, config.judge, item, every, prefixes, lm)
            rows, said = rows + more, said + also
        if config.doob.continuations:
            for (reasoning, prompt), own in made.items():
                rows += control_rows(config, item, prompt, own, lm) if reasoning == "cot" else []
        where = {"experiment": self.name, "item": item.id, "cluster": item.cluster}
        outcome = {"outcome": question_of(item).outcome}
        return Read(
            [*({**row, **outcome} for row in exact.rows), *({**where, **row, **outcome} for row in rows)],
            [*map(told, every), *exact.transcripts, *said],
            exact.cost,
            exact.captured,
        )

    def score(self, config: MartingaleConfig, beliefs: pd.DataFrame) -> list[Cell]:
        """METRICS A per cell and kind."""
        return scores(config, beliefs)

    def published(self, cells: Sequence[Cell]) -> pd.DataFrame:
        """The paper's Table 1."""
        return published(cells)

    def findings(
        self, config: MartingaleConfig, beliefs: pd.DataFrame, cells: Sequence[Cell], transcripts: Transcripts
    ) -> Findings:
        """Verdicts, tables, figures, and the trajectories."""
        return findings(config, beliefs, cells, transcripts)


def trajectories(config: MartingaleConfig, item: Item, lm: LanguageModel) -> dict[Key, list[Trajectory]]:
    """Those of an item; all of a kind of reasoning are sampled together, or taken from the run that has them."""
    kept = stored(config.model_dump_json()) if config.trajectories else None
    made: dict[Key, list[Trajectory]] = {}
    for kind, keys in groupby(cells(config, item), key=itemgetter(0)):
        prompts = [prompt for _, prompt in keys]
        found = _of_kind(config, item, kind, prompts, lm, kept or lm)
        made |= {(kind, prompt): own for prompt, own in zip(prompts, found, strict=True)}
    if kept:
        for one in chain.from_iterable(made.values()):
            kept.check(one)
    return made


def _of_kind(
    config: MartingaleConfig, item: Item, kind: Reasoning, prompts: Sequence[str], lm: LanguageModel, writer: Writer
) -> list[list[Trajectory]]:
    """Those under each system prompt."""
    law, draws, seed = config.generation, config.chains, config.seed
    match kind:
        case "cot":
            return chains(lm, writer, [thinking(config, item, one) for one in prompts], law, draws=draws, seed=seed)
        case "thought":
            return thoughts(lm, writer, [matter(config, item, one) for one in prompts], law, draws=draws, seed=seed)
        case "debate":
            motions = [motion(config, item, one) for one in prompts]
            speech = law.model_copy(update={"max_new_tokens": config.debate.max_new_tokens})
            return debates(lm, writer, motions, speech, turns=config.debate.turns, draws=draws, seed=seed)
        case "evidence":
            return [[evidence(config, item, one)] for one in prompts]
