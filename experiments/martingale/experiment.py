"""Do beliefs drift where the prior points? METRICS A, on the model's own belief after every step of reasoning.

An item is a question; its trajectories, under each kind of reasoning and system prompt, are made once and read by every
kind of belief, from a context that holds the steps so far and nothing later.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path

import pandas as pd

from ...hooks.lm import LanguageModel
from ...metrics.whitebox.competence import COVERAGE, EVIDENCE, PARSED, RESPONDING
from ..experiment import Experiment, Findings, Item, Question, Read, Transcripts
from ..materials.trajectories.chain import chains
from ..materials.trajectories.debate import debates
from ..materials.trajectories.thought import thoughts
from ..materials.trajectories.trajectory import SampleSource, Trajectory
from ..reading.exact import read_questions
from ..reading.judge import judge_rows
from ..reading.place import BeliefPlace
from ..reading.stated import stated_rows
from ..scoring.number import Number
from ..tables.belief_parts import BeliefTable
from ..tables.samples import Sample
from .config import MartingaleConfig, Reasoning
from .doob import control_rows
from .findings import findings
from .prefixes import along, cells, exact_questions, shown, starts
from .prompts import chain_request, debate_request, evidence, question_of, thought_request
from .published import published
from .ratings import rated
from .samples import samples
from .scores import own_scores
from .sources import questions
from .stored import as_transcript, stored_trajectories

Key = tuple[Reasoning, str]


class Martingale(Experiment):
    """The experiment."""

    name = "martingale"
    summary = "do beliefs drift where the prior points?"
    unit = "questions; `items` counts those of one domain"
    headline = "M"
    gate = (COVERAGE, PARSED, EVIDENCE, RESPONDING)
    config_type = MartingaleConfig
    by_parts = True
    conditions = frozenset({"generation", "debate", "sampling", "stated.draws", "thoughts"})
    choices = frozenset(
        {"domains", "reasoning", "chains", "trajectories", "doob", "most_unparsed", "gate_urns"}
        | {"stated.numbers", "stated.greedy", "stated.sampled"}
    )

    def items(self, config: MartingaleConfig) -> list[Item]:
        """The questions, domain by domain."""
        if config.trajectories:
            # a run that does not fit is found out before the model is loaded
            stored_trajectories(config.model_dump_json())
        numbers: dict[str, int] = {}
        found = []
        for domain, question in questions(config):
            i = numbers[domain] = numbers.get(domain, -1) + 1
            content = {"domain": domain, "question": asdict(question)}
            found.append(Item(f"{domain}-{i:04}", f"{domain} {question.cluster}", content))
        return found

    def questions(self, config: MartingaleConfig, item: Item) -> list[Question]:
        """The exact read-outs at every start, and along evidence."""
        return exact_questions(config, self.places(config, item))

    def places(self, config: MartingaleConfig, item: Item) -> list[BeliefPlace]:
        """Every start, and the prefixes of evidence."""
        return starts(config, item)

    def read(self, config: MartingaleConfig, item: Item, lm: LanguageModel) -> Read:
        """Make the trajectories, then read all kinds of belief after each of their steps."""
        made = trajectories(config, item, lm)
        every = [one for own in made.values() for one in own]
        places = [one for key, own in made.items() for one in along(config, item, *key, own)]
        exact = read_questions(self.name, config, item, exact_questions(config, places), lm)
        rows, said = stated_rows(config, places, lm)
        judged, heard = judge_rows(config, lambda judge: shown(item, every, places, whole=judge.sees == "whole"), lm)
        rows += judged
        if config.doob.continuations:
            for (reasoning, prompt), own in made.items():
                rows += control_rows(config, item, prompt, own, lm) if reasoning == "cot" else []
        where = {"experiment": self.name, "item": item.id, "cluster": item.cluster}
        outcome = {"outcome": question_of(item).outcome}
        return Read(
            [*({**row, **outcome} for row in exact.rows), *({**where, **row, **outcome} for row in rows)],
            [*map(as_transcript, every), *exact.transcripts, *said, *heard],
            exact.cost,
            exact.captured,
        )

    def samples(self, config: MartingaleConfig, beliefs: BeliefTable) -> Iterator[Sample]:
        """Updates and readings of each method, over all and per cell."""
        return samples(config, beliefs)

    def own_scores(self, config: MartingaleConfig, beliefs: BeliefTable) -> Iterator[Number]:
        """Distance from a known posterior, ends of trajectories, the negative control."""
        return own_scores(config, beliefs)

    def rated(self, beliefs: pd.DataFrame, path: Path) -> pd.DataFrame:
        """What people believe after each step, as judges."""
        return rated(beliefs, path)

    def published(self, numbers: Sequence[Number]) -> pd.DataFrame:
        """The paper's Table 1."""
        return published(numbers)

    def findings(
        self, config: MartingaleConfig, beliefs: BeliefTable, numbers: Sequence[Number], transcripts: Transcripts
    ) -> Findings:
        """Tables, figures, and the trajectories."""
        return findings(config, beliefs, numbers, transcripts)


def trajectories(config: MartingaleConfig, item: Item, lm: LanguageModel) -> dict[Key, list[Trajectory]]:
    """Those of an item; all of a kind of reasoning are sampled together, or taken from the run that has them."""
    kept = stored_trajectories(config.model_dump_json()) if config.trajectories else None
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
    config: MartingaleConfig,
    item: Item,
    kind: Reasoning,
    prompts: Sequence[str],
    lm: LanguageModel,
    source: SampleSource,
) -> list[list[Trajectory]]:
    """Those under each system prompt."""
    sampling, draws, seed = config.generation, config.chains, config.seed
    match kind:
        case "cot":
            asked = [chain_request(config, item, one) for one in prompts]
            return chains(lm, source, asked, sampling, draws=draws, seed=seed)
        case "thought":
            asked = [thought_request(config, item, one) for one in prompts]
            return thoughts(lm, source, asked, sampling, draws=draws, seed=seed)
        case "debate":
            asked = [debate_request(config, item, one) for one in prompts]
            speech = sampling.model_copy(update={"max_new_tokens": config.debate.max_new_tokens})
            return debates(lm, source, asked, speech, turns=config.debate.turns, draws=draws, seed=seed)
        case "evidence":
            return [[evidence(config, item, one)] for one in prompts]
