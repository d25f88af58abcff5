"""Do beliefs drift where the prior points? METRICS A, on the model's own belief after every step of reasoning.

An item is a question; its trajectories, under each kind of reasoning and system prompt, are made once and read by every
kind of belief, from a context that holds the steps so far and nothing later.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import chain, groupby
from operator import itemgetter
from typing import Any

from ....base.errors import UserError
from ....hooks.backends.captures import join_captures
from ....hooks.lm import LanguageModel
from ....hooks.tree.memory import sum_costs
from ....metrics.consistency.competence import COVERAGE, PARSED, RESPONDING
from ...materials.questions import BinaryQuestion
from ...materials.trajectories import SampleSource, Trajectory, chains, debates, thoughts
from ...report.papers.martingale import tables
from ...run.experiment import Experiment, Item, Question, Read, delegated
from ...run.readouts import read_questions
from ...run.stated_beliefs import judge_rows, stated_rows
from .ask import (
    along,
    cells,
    chain_request,
    debate_request,
    evidence,
    exact_questions,
    loaded,
    question_of,
    questions,
    shown,
    starts,
    thought_request,
)
from .config import GATE, MartingaleConfig, Reasoning
from .page import findings
from .readings import rated
from .samples import own_scores, samples
from .trajectories import as_transcript, control_rows, stored_trajectories

Key = tuple[Reasoning, str]


class Martingale(Experiment):
    """The experiment."""

    name = "martingale"
    summary = "can the update of a belief be foreseen from the belief before it?"
    unit = "questions; `items` counts those of one domain"
    headline = "M"
    material = "questions"
    gate = (COVERAGE, PARSED, RESPONDING)
    config_type = MartingaleConfig
    by_parts = True
    conditions = frozenset({"generation", "debate", "sampling", "stated.draws", "thoughts"})
    choices = frozenset(
        {"domains", "reasoning", "chains", "trajectories", "doob", "most_unparsed", "gate_urns"}
        | {"stated.numbers", "stated.greedy", "stated.sampled"}
    )

    def settle(self, config: MartingaleConfig, lm: LanguageModel) -> tuple[MartingaleConfig, Mapping[str, Any]]:
        """Raises UserError, before anything is read, if a judge is asked for and none is named."""
        if config.requires_judge and not config.stated.judges:
            raise UserError(
                "stated.judges: none is named, and this design has a judge read the beliefs; name one at least as "
                "strong as the model (-o 'stated.judges={Qwen/Qwen3-4B: {query: trajectory}}'), or set "
                "requires_judge=false"
            )
        return config, {}

    def size(self, config: MartingaleConfig) -> str:
        """How many questions are read of each domain that is not computed."""
        of_files = {name: source for name, source in config.sources.items() if source.kind != "computed"}
        told = []
        for name, source in of_files.items():
            n, most = len(loaded(name, source)), config.most(source)
            why = "by `items`" if config.items else "to try it; `items` sets how many"
            told.append(
                f"{name}: all {n} questions are read"
                if most is None or n <= most
                else f"{name}: {most} of {n} questions are read, {why}"
            )
        return "; ".join(told)

    def scored(self, item: Item) -> bool:
        """Not the urns of the gate."""
        return item.content["domain"] != GATE

    def items(self, config: MartingaleConfig) -> list[Item]:
        """The questions, domain by domain."""
        if config.trajectories:
            # a run that does not fit is found out before the model is loaded
            stored_trajectories(config.model_dump_json())
        numbers: dict[str, int] = {}
        items = []
        asked = questions(config)
        if {*config.reasoning} == {"evidence"}:
            _require_evidence(asked)
        for domain, question in asked:
            i = numbers[domain] = numbers.get(domain, -1) + 1
            told = {name: value for name, value in asdict(question).items() if name != "among" or value}
            content = {"domain": domain, "question": told}
            items.append(Item(f"{domain}-{i:04}", f"{domain} {question.cluster}", content))
        return items

    def questions(self, config: MartingaleConfig, item: Item) -> list[Question]:
        """The exact read-outs at every start, and along evidence."""
        return exact_questions(config, self.places(config, item))

    places = delegated(starts)

    def read(self, config: MartingaleConfig, item: Item, lm: LanguageModel) -> Read:
        """Make the trajectories, then read all kinds of belief after each of their steps."""
        by_key = trajectories(config, item, lm)
        every = [each for several in by_key.values() for each in several]
        places = [each for key, several in by_key.items() for each in along(config, item, *key, several)]
        exact = read_questions(self.name, config, item, exact_questions(config, places), lm)
        rows, spoken, taken, costs = stated_rows(config, places, lm)
        judged, heard = judge_rows(config, lambda judge: shown(item, every, places, whole=judge.sees_all), lm)
        rows += judged
        if config.doob.continuations:
            for (reasoning, prompt), several in by_key.items():
                rows += control_rows(config, item, prompt, several, lm) if reasoning == "cot" else []
        where = {"experiment": self.name, "item": item.id, "cluster": item.cluster}
        outcome = {"outcome": question_of(item).outcome}
        return Read(
            [*({**row, **outcome} for row in exact.rows), *({**where, **row, **outcome} for row in rows)],
            [*map(as_transcript, every), *exact.transcripts, *spoken, *heard],
            sum_costs([exact.cost, *costs]),
            join_captures([exact.captured, *taken]) if exact.captured else None,
        )

    samples = delegated(samples)
    own_scores = delegated(own_scores)
    rated = delegated(rated)
    tables = delegated(tables)
    findings = delegated(findings)


def _require_evidence(asked: Sequence[tuple[str, BinaryQuestion]]) -> None:
    """Raise UserError for a domain of which no question has any."""
    shown_in = {domain for domain, question in asked if question.evidence}
    if bare := [domain for domain, _ in asked if domain not in shown_in]:
        raise UserError(
            f"domains.{bare[0]}: none of its questions has evidence, and `reasoning` is evidence alone; give columns "
            "evidence_1, evidence_2, ..., or add `cot` to reasoning"
        )


def trajectories(config: MartingaleConfig, item: Item, lm: LanguageModel) -> dict[Key, list[Trajectory]]:
    """Those of an item; all of a kind of reasoning are sampled together, or taken from the run that has them."""
    kept = stored_trajectories(config.model_dump_json()) if config.trajectories else None
    by_key: dict[Key, list[Trajectory]] = {}
    for kind, keys in groupby(cells(config, item), key=itemgetter(0)):
        prompts = [prompt for _, prompt in keys]
        of_kind = _of_kind(config, item, kind, prompts, lm, kept or lm)
        by_key |= {(kind, prompt): several for prompt, several in zip(prompts, of_kind, strict=True)}
    if kept:
        for trajectory in chain.from_iterable(by_key.values()):
            kept.check(trajectory)
    return by_key


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
            asked = [chain_request(config, item, prompt) for prompt in prompts]
            return chains(lm, source, asked, sampling, draws=draws, seed=seed)
        case "thought":
            asked = [thought_request(config, item, prompt) for prompt in prompts]
            return thoughts(lm, source, asked, sampling, draws=draws, seed=seed)
        case "debate":
            asked = [debate_request(config, item, prompt) for prompt in prompts]
            speech = sampling.model_copy(update={"max_new_tokens": config.debate.max_new_tokens})
            return debates(lm, source, asked, speech, turns=config.debate.turns, draws=draws, seed=seed)
        case "evidence":
            return [[evidence(config, item, prompt)] for prompt in prompts]


__all__ = ["Martingale", "MartingaleConfig"]
