"""What is read of the questions of one item: exact beliefs, of a model that thinks first their mixture over
thoughts, what sampled answers say beside them, and the transcripts of it all.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from ...base.errors import UserError
from ...hooks.backends.captures import Captured, CapturePlan
from ...hooks.exact.option_beliefs import ExactReading, PackedReading, exact_rows
from ...hooks.exact.queries import Edits, PromptReader, Query, as_branches, branch_names
from ...hooks.generation.generated_texts import GeneratedText, Request
from ...hooks.generation.sampled_beliefs import Mentions, Mixture, Thought, match_options, match_rows
from ...hooks.generation.sampling import Sampling
from ...hooks.lm import LanguageModel
from ...hooks.prompts.chat import ChatRenderer
from ...hooks.prompts.places import Positions
from ...hooks.tree.memory import Cost, sum_costs
from ...hooks.verbal.stated_beliefs import Answer, NumberQuestion
from ..report.findings import Drawn, Transcript
from .questions import Item, Question, Read, RunConfig

MIXED = ("thoughts", "unclosed", "covariance")
"""Conditions of a belief that is a mixture over thoughts: how well it is known."""


def think(config: RunConfig, questions: Sequence[Question], lm: LanguageModel) -> tuple[list[Mixture], Cost]:
    """Sample the thoughts of all questions together, then read each question after those of its thoughts that closed.

    A thought depends on the seed, its read-out and its number alone. It stands before the answer and nowhere else: no
    conversation holds one.

    Raises UserError, naming the read-out, if a thought of full length would leave no room for an answer.
    """
    sampling = Sampling(max_new_tokens=config.thoughts.max_new_tokens)
    close = lm.reader.chat.close
    assert close is not None  # else the renderer would have refused to think
    requests = []
    for question in questions:
        _refuse_long(question, _query(question, (), lm), sampling.max_new_tokens, lm)
        prompt = lm.reader.chat.render(question.conversation)
        requests.append(Request(question.readout_id, prompt, range(config.thoughts.draws)))
    samples = iter(lm.sample(requests, sampling, seed=config.seed, until=[close]))
    mixtures, costs = [], []
    for question in questions:
        drawn = list(islice(samples, config.thoughts.draws))
        closed = [sample for sample in drawn if sample.ids[-1] == close]
        queries = [_query(question, sample.ids[:-1], lm) for sample in closed]
        budget = max(config.budget, *map(_tokens, queries), 1)  # a thought is computed once for all its forms
        readings, cost, _ = lm.read(queries, budget=budget)
        after = dict(zip((sample.draw for sample in closed), readings, strict=True))
        mixtures.append(Mixture([Thought(sample, after.get(sample.draw)) for sample in drawn], question.options))
        costs.append(cost)
    return mixtures, sum_costs(costs)


def _query(question: Question, thought: Sequence[int], lm: LanguageModel) -> Query:
    return lm.reader.query(
        question.readout_id, question.conversation, question.options, question.prefill, thought=thought
    )


def _refuse_long(question: Question, query: Query, thought: int, lm: LanguageModel) -> None:
    context = lm.reader.context
    longest = len(query.prompt.ids) + max(len(path) for paths in query.paths.paths for path in paths) + thought
    if context is not None and longest > context:
        raise UserError(
            f"read-out {question.readout_id}: prompt, thought and option take up to {longest} tokens, the model takes "
            f"{context}; lower thoughts.max_new_tokens"
        )


def _tokens(query: Query) -> int:
    return len(query.prompt.ids) + sum(len(path) for paths in query.paths.paths for path in paths)


# What was said in a read-out, as it is stored beside the beliefs; every one with the digest of its rendered prompt.


def question_transcript(
    chat: ChatRenderer, question: Question, *, thoughts: Sequence[Drawn] = (), answers: Sequence[Drawn] = ()
) -> Transcript:
    """Of a question with options."""
    return {
        "readout_id": question.readout_id,
        "messages": list(question.conversation),
        "prefill": question.prefill,
        "prompt": chat.digest(question.conversation, question.prefill),
        "options": [option.name for option in question.options],
        "thoughts": thoughts,
        "answers": answers,
    }


def number_transcript(
    chat: ChatRenderer, asked: NumberQuestion, options: Sequence[str], answers: Sequence[Answer] = ()
) -> Transcript:
    """Of a question for a number, which is a belief in the first of the options."""
    return {
        "readout_id": asked.readout_id,
        "messages": list(asked.messages),
        "prefill": asked.prefill,
        "prompt": chat.digest(asked.messages, asked.prefill),
        "options": list(options),
        "thoughts": [],
        "answers": [{"draw": answer.draw, "text": answer.text, "status": answer.status} for answer in answers],
    }


SAMPLED, EXPECTED = "sampled", "expected"
"""What is added to a method's name when its answers are sampled and matched, and when the exact chances along them are
summed."""


def compile_questions(
    reader: PromptReader, questions: Sequence[Question], capture: CapturePlan | None = None
) -> list[Query]:
    """Questions to token paths, in the same order; of a model that thinks, after its thought, or an empty one."""
    return [_compiled(reader, question, capture) for question in questions]


def _compiled(reader: PromptReader, question: Question, capture: CapturePlan | None) -> Query:
    return reader.query(
        question.readout_id,
        question.conversation,
        question.options,
        question.prefill,
        thought=question.thought or None,
        positions=_positions(question, capture),
        own_turns=question.own_turns,
    )


def _positions(question: Question, capture: CapturePlan | None) -> Positions:
    if capture is None:
        return {}
    return question.positions if capture.positions is None else capture.positions


def read_questions(
    experiment: str,
    config: RunConfig,
    item: Item,
    questions: Sequence[Question],
    lm: LanguageModel,
    edits: Edits | None = None,
) -> Read:
    """Read questions of an item in one tree; under edits, too, each branch as methods of its own."""
    if lm.spec.thinking == "on" and any(question.thought is None for question in questions):
        if edits:
            raise UserError("edits: a belief after thoughts is read in many passes; set model.thinking=closed")
        beliefs, cost, captured = *_mixed(config, questions, lm), None
    else:
        beliefs, cost, captured = _exact(config, questions, lm, edits)
    answers = _sample(config, questions, lm)
    rows: list[dict[str, Any]] = []
    transcripts: list[Transcript] = []
    for question, belief in zip(questions, beliefs, strict=True):
        where = {
            "experiment": experiment,
            "item": item.id,
            "cluster": item.cluster,
            "scenario": question.scenario,
            "step": question.step,
        }
        texts = answers.get(question.readout_id, [])
        rows += [where | row for row in belief.rows]
        rows += [where | row for row in _sampled(config, question, texts, lm)]
        drawn: list[Drawn] = [{"draw": text.draw, "text": text.text, "status": text.status} for text in texts]
        transcripts.append(question_transcript(lm.reader.chat, question, thoughts=belief.thoughts, answers=drawn))
    return Read(rows, transcripts, cost, captured)


class _Belief(NamedTuple):
    """The rows of one question, and the thoughts that led to them."""

    rows: list[dict[str, Any]]
    thoughts: list[Drawn]


def _exact(
    config: RunConfig, questions: Sequence[Question], lm: LanguageModel, edits: Edits | None
) -> tuple[list[_Belief], Cost, Captured | None]:
    """The beliefs, those under edits beside them, and what else a run takes of them."""
    readings, cost, captured = read_packed_questions(config, questions, lm, edits)
    beliefs = []
    branches = ["", *as_branches(edits)]
    for i, question in enumerate(questions):
        rows = [
            row if not branch else branch_names(row, branch) | {"of": question.readout_id}
            for branch, reading in zip(branches, readings[i :: len(questions)], strict=True)
            for row in reading_rows(config, question, reading, lm)
        ]
        given: list[Drawn] = []
        if question.thought:
            given = [{"draw": 0, "text": lm.sampler.text(question.thought), "status": "ok"}]
        beliefs.append(_Belief(rows, given))
    return beliefs, cost, captured


def read_packed_questions(
    config: RunConfig, questions: Sequence[Question], lm: LanguageModel, edits: Edits | None = None
) -> PackedReading:
    """Exact readings in one tree, at other temperatures and in inner layers, too; then under edits."""
    inside = config.lens.methods or () if config.lens else ()
    compiled = compile_questions(lm.reader, questions, config.capture)
    queries = [replace(query, inner=asked.method in inside) for query, asked in zip(compiled, questions, strict=True)]
    return lm.read(
        queries,
        budget=config.budget,
        temperatures=config.temperatures,
        capture=config.capture,
        edits=edits,
        lens=lm.lens,
    )


def reading_rows(
    config: RunConfig, question: Question, reading: ExactReading, lm: LanguageModel
) -> list[dict[str, Any]]:
    """The rows that one reading fills: at temperature 1, at others, and inside; without experiment and item."""
    named = _named(question)
    rows = [named | row for row in lm.option_rows(reading, question.options, config.low_coverage)]
    for temperature, logp in reading.tempered.items():
        named = _named(question, f"@T={temperature:g}", temperature=temperature) | {"method": question.method}
        rows += [named | row for row in exact_rows(logp, question.options, config.low_coverage)]
    for (layer, lens), logp in reading.inner.items():
        named = _named(question, f"{lens}@{layer}", lens=lens)
        named |= {"method": question.method, "kind": "lens", "layer": layer}
        rows += [row | named for row in exact_rows(logp, question.options, config.low_coverage)]
    return rows


def _mixed(config: RunConfig, questions: Sequence[Question], lm: LanguageModel) -> tuple[list[_Belief], Cost]:
    """The beliefs before a thought: mixtures, whose conditions say how well they are known.

    Raises UserError for a capture: many passes have no one residual stream.
    """
    if config.capture:
        raise UserError("capture: a belief after thoughts has no residual stream of its own; set model.thinking=closed")
    mixtures, cost = think(config, questions, lm)
    beliefs = []
    for question, mixture in zip(questions, mixtures, strict=True):
        spread = None if mixture.covariance is None else mixture.covariance.tolist()
        known: dict[str, Any] = dict(zip(MIXED, (len(mixture.thoughts), mixture.unclosed, spread), strict=True))
        named = _named(question, **known)
        thoughts: list[Drawn] = [
            {
                "draw": thought.sample.draw,
                "text": thought.sample.text,
                "status": thought.status,
                "logp": thought.reading.logp.tolist() if thought.reading else None,
            }
            for thought in mixture.thoughts
        ]
        beliefs.append(_Belief([named | row for row in mixture.rows(config.low_coverage)], thoughts))
    return beliefs, cost


def _sample(config: RunConfig, questions: Sequence[Question], lm: LanguageModel) -> dict[str, list[GeneratedText]]:
    """The answers to each question that wants some."""
    requests = [
        Request(
            question.readout_id, lm.reader.chat.render(question.conversation, question.prefill), range(question.draws)
        )
        for question in questions
        if question.draws
    ]
    answers: dict[str, list[GeneratedText]] = {request.readout_id: [] for request in requests}
    for sample in lm.sample(requests, config.sampling, seed=config.seed) if requests else []:
        answers[sample.readout_id].append(sample)
    return answers


def _sampled(
    config: RunConfig, question: Question, texts: Sequence[GeneratedText], lm: LanguageModel
) -> list[dict[str, Any]]:
    """What answers say by the string match, and which option they are expected to name first."""
    if not texts:
        return []
    names = [option.name for option in question.options]
    thinks = lm.spec.thinking == "on"
    matches = [match_options(text, names, thinking=thinks) for text in texts]
    rows = match_rows(matches, names, config.low_coverage)
    estimated = _estimated(question, SAMPLED, len(texts))
    rows = [estimated | row for row in rows]
    if question.mentioned and config.sampling.faithful and not config.sampling.stop:
        spoken = lm.reader.query(
            question.readout_id, question.conversation, question.mentioned, question.prefill, spaced=False
        )
        expected = _expected(lm.mentions(texts, spoken, config.sampling), question, config.low_coverage)
        estimated = _estimated(question, EXPECTED, len(texts))
        rows += [estimated | row for row in expected]
    return rows


def _expected(mentions: Mentions, question: Question, low_coverage: float) -> list[dict[str, Any]]:
    """The Rao-Blackwell estimate as a belief. By chance it can sum to more than 1; then it is scaled to 1."""
    prob = mentions.rao_blackwell.prob
    with np.errstate(divide="ignore"):
        logp = np.log(prob / max(1.0, prob.sum()))
    return [row | {"kind": "verbal"} for row in exact_rows(logp, question.options, low_coverage)]


def _estimated(question: Question, estimate: str, draws: int) -> dict[str, Any]:
    """The names of what sampled answers say of a question: a method of its own."""
    return _named(question, estimate, estimate=estimate, draws=draws)


def _named(question: Question, suffix: str = "", **condition: object) -> dict[str, Any]:
    """The names of a read-out of a question; with a suffix, of one that is derived from it."""
    readout_id, method = question.readout_id, question.method
    return {
        "readout_id": f"{readout_id}/{suffix}" if suffix else readout_id,
        "of": readout_id if suffix else "",
        "method": f"{method} {suffix}" if suffix else method,
        **question.conditions,
        **condition,
    }
