"""What is read of the questions of one item: exact beliefs, and beside them what sampled answers say."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from ..hooks import verbalised
from ..hooks.exact import ExactReading, Query, exact_rows
from ..hooks.generation import Request, Sample
from ..hooks.lm import LanguageModel
from ..hooks.memory import Cost
from ..hooks.mentions import Mentions
from ..hooks.reader import PromptReader
from .protocol import Experiment, Item, Question, RunConfig

SAMPLED, EXPECTED = "sampled", "expected"
"""What is added to a method's name when its answers are sampled and matched, and when the exact chances along them are
summed."""


class Read(NamedTuple):
    """Rows of the belief table, transcripts, and what the exact part took."""

    rows: list[dict[str, Any]]
    transcripts: list[dict[str, Any]]
    cost: Cost


def compile_questions(reader: PromptReader, questions: Sequence[Question]) -> list[Query]:
    """Questions to token paths, in the same order."""
    return [reader.query(q.readout_id, q.conversation, q.options, q.prefill) for q in questions]


def read_item(experiment: Experiment, config: RunConfig, item: Item, lm: LanguageModel) -> Read:
    """Read all questions of an item. No pack and no sampling spans items: what one reads does not depend on others."""
    questions = experiment.questions(config, item)
    queries = compile_questions(lm.reader, questions)
    readings, cost = lm.read(queries, budget=config.token_budget, temperatures=config.temperatures)
    answers = _sample(config, questions, queries, lm)
    rows: list[dict[str, Any]] = []
    transcripts: list[dict[str, Any]] = []
    for question, query, reading in zip(questions, queries, readings, strict=True):
        where = {
            "experiment": experiment.name,
            "item": item.id,
            "cluster": item.cluster,
            "scenario": question.scenario,
            "step": question.step,
        }
        said = answers.get(question.readout_id, [])
        rows += [where | row for row in _exact(config, question, reading, lm)]
        rows += [where | row for row in _sampled(config, question, query, said, lm)]
        transcripts.append(
            {
                "readout_id": question.readout_id,
                "messages": list(question.conversation),
                "prefill": question.prefill,
                "options": [option.name for option in question.options],
                "answers": [
                    {key: value for key, value in asdict(one).items() if key in ("draw", "text", "status")}
                    for one in said
                ],
            }
        )
    return Read(rows, transcripts, cost)


def _exact(config: RunConfig, question: Question, reading: ExactReading, lm: LanguageModel) -> list[dict[str, Any]]:
    """The belief as it is, and as it would be at other temperatures."""
    own = lm.option_rows(reading, question.options, config.low_coverage)
    rows = [_named(question) | row for row in own]
    for temperature, logp in reading.tempered.items():
        named = _named(question, f"@T={temperature:g}", temperature=temperature) | {"method": question.method}
        rows += [named | row for row in exact_rows(logp, question.options, config.low_coverage)]
    return rows


def _sample(
    config: RunConfig, questions: Sequence[Question], queries: Sequence[Query], lm: LanguageModel
) -> dict[str, list[Sample]]:
    """The answers to each question that wants some."""
    requests = [
        Request(question.readout_id, query.prompt, range(question.draws))
        for question, query in zip(questions, queries, strict=True)
        if question.draws
    ]
    answers: dict[str, list[Sample]] = {request.readout_id: [] for request in requests}
    for sample in lm.sample(requests, config.sampling, seed=config.seed) if requests else []:
        answers[sample.readout_id].append(sample)
    return answers


def _sampled(
    config: RunConfig, question: Question, query: Query, said: Sequence[Sample], lm: LanguageModel
) -> list[dict[str, Any]]:
    """What answers say by the string match, and which option they are expected to name first."""
    if not said:
        return []
    names = [option.name for option in question.options]
    told = verbalised.tally((verbalised.what_is_said(sample, names) for sample in said), len(names))
    rows = verbalised.option_rows(told, names, config.low_coverage)
    rows = [_named(question, SAMPLED, draws=len(said)) | row for row in rows]
    if question.mentioned and config.sampling.faithful and not config.sampling.stop:
        spoken = lm.reader.query(question.readout_id, question.conversation, question.mentioned, question.prefill)
        expected = _expected(lm.mentions(said, spoken, config.sampling), question, config.low_coverage)
        rows += [_named(question, EXPECTED, draws=len(said)) | row for row in expected]
    return rows


def _expected(found: Mentions, question: Question, low_coverage: float) -> list[dict[str, Any]]:
    """The Rao-Blackwell estimate as a belief. By chance it can sum to more than 1; then it is scaled to 1."""
    prob = found.rao_blackwell.prob
    with np.errstate(divide="ignore"):
        logp = np.log(prob / max(1.0, prob.sum()))
    return [row | {"kind": "verbal"} for row in exact_rows(logp, question.options, low_coverage)]


def _named(question: Question, suffix: str = "", **condition: float) -> dict[str, Any]:
    """The names of a read-out that is derived from a question's."""
    readout_id, method = question.readout_id, question.method
    return {
        "readout_id": f"{readout_id}/{suffix}" if suffix else readout_id,
        "method": f"{method} {suffix}" if suffix else method,
        "variant": json.dumps({**question.variant, **condition}, sort_keys=True),
    }
