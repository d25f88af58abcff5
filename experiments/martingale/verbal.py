"""What is said after each prefix: numbers exactly, the likeliest answer, sampled answers; and what a judge says."""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from ...hooks.errors import UserError
from ...hooks.generation.sampling import Sampling
from ...hooks.lm import LanguageModel, load
from ...hooks.model.spec import ModelSpec
from ...hooks.prompts.chat import Message
from ...hooks.verbal.answers import Answer, answer_rows, write_answers
from ...hooks.verbal.asking import Asked, ask
from ...hooks.verbal.formats import FORMATS, UNIT
from ...hooks.verbal.reading import read_numbers
from ..experiment import Item, Transcript
from ..materials.questions.question import Question
from ..materials.trajectories.trajectory import Trajectory
from .config import Judge, MartingaleConfig
from .prefixes import Prefix
from .prompts import question_of

ANSWER_TOKENS = 24
"""Room for the longest form of every format, and what closes it."""
Rows = list[dict[str, Any]]


def verbal_rows(
    config: MartingaleConfig, item: Item, prefixes: Sequence[Prefix], lm: LanguageModel
) -> tuple[Rows, list[Transcript]]:
    """The rows of the belief table for all verbal methods, and what was asked and said."""
    question = question_of(item)
    options = (question.option_yes, question.option_no)
    rows: Rows = []
    said: list[Transcript] = []
    for name in dict.fromkeys((*config.numbers, *config.greedy, *config.sampled)):
        worded = FORMATS[name].worded(*options)
        asked = [ask(lm.reader, f"{one.name}/{name}", one.context, worded, thought=one.thought) for one in prefixes]
        answers: list[list[Answer]] = [[] for _ in asked]
        if name in config.numbers:
            told = read_numbers(lm, asked, budget=config.token_budget)
            for prefix, one in zip(prefixes, told, strict=True):
                rows += [place(prefix) | row for row in one.rows(options, config.low_coverage)]
        if name in config.greedy:
            law = Sampling(temperature=0, max_new_tokens=ANSWER_TOKENS)
            for i, one in enumerate(write_answers(lm, asked, law)):
                made = answer_rows(asked[i], "greedy", one, options, config.low_coverage)
                rows += [place(prefixes[i]) | row for row in made]
                answers[i] += one
        if name in config.sampled:
            law = config.sampling.model_copy(update={"max_new_tokens": ANSWER_TOKENS})
            for i, one in enumerate(write_answers(lm, asked, law, draws=config.draws, seed=config.seed)):
                rows += _halves(config, prefixes[i], asked[i], one, options)
                answers[i] += one
        said += [_transcript(one, options, written) for one, written in zip(asked, answers, strict=True)]
    return rows, said


def _halves(
    config: MartingaleConfig, prefix: Prefix, asked: Asked, answers: Sequence[Answer], options: tuple[str, str]
) -> Rows:
    """Two readings, each of half of the answers: their noise is independent."""
    middle = len(answers) // 2
    rows: Rows = []
    for reading, half in enumerate((answers[:middle], answers[middle:])):
        for row in answer_rows(asked, "sampled", half, options, config.low_coverage):
            rows.append(place(prefix, reading=reading) | row | {"readout_id": f"{row['readout_id']}.{reading}"})
    return rows


def judge_rows(
    config: MartingaleConfig,
    judge: Judge,
    item: Item,
    trajectories: Sequence[Trajectory],
    prefixes: Sequence[Prefix],
    lm: LanguageModel,
) -> tuple[Rows, list[Transcript]]:
    """The judge's number after each prefix: the mean of the exact distribution, so without the noise of sampling. A
    model that judges itself is loaded once.

    Raises UserError for a judge that has no chat template.
    """
    itself = judge.model.model_copy(update={"threads": config.model.threads}) == config.model
    lm, question = lm if itself else _loaded(judge.model.model_dump_json()), question_of(item)
    options = (question.option_yes, question.option_no)
    places = _judged(judge, trajectories, prefixes)
    asked = []
    for prefix, shown in places:
        told = judge.prompt.format(question=_told(question), steps=_numbered(shown), step=prefix.step)
        message: Message = {"role": "user", "content": told}
        asked.append(ask(lm.reader, f"{prefix.name}/judge", [message], UNIT.worded(*options)))
    rows: Rows = []
    for (prefix, _), one in zip(places, read_numbers(lm, asked, budget=config.token_budget), strict=True):
        named = {"kind": "judge", "method": f"judge {judge.model.name}"}
        rows += [place(prefix) | row | named for row in one.rows(options, config.low_coverage)]
    return rows, [_transcript(one, options, []) for one in asked]


def _judged(
    judge: Judge, trajectories: Sequence[Trajectory], prefixes: Sequence[Prefix]
) -> list[tuple[Prefix, tuple[str, ...]]]:
    """Where the judge is asked, and what it sees. With the whole in view even the start is of one trajectory."""
    of_name: dict[str, list[Trajectory]] = {}
    for one in trajectories:
        of_name.setdefault(one.name, []).append(one)
    places: list[tuple[Prefix, tuple[str, ...]]] = []
    for prefix in prefixes:
        name = prefix.name.rpartition("/")[0]
        whole = judge.sees == "whole"
        if prefix.step:
            steps = next(one.steps for one in of_name[name] if one.draw == prefix.variant["draw"])
            places.append((prefix, steps if whole else steps[: prefix.step]))
        elif whole:
            places += [
                (replace(prefix, name=f"{name}/{one.draw}.0", variant={**prefix.variant, "draw": one.draw}), one.steps)
                for one in of_name.get(name, [])
            ]
        else:
            places.append((prefix, ()))
    return places


@lru_cache(maxsize=1)
def _loaded(settings: str) -> LanguageModel:
    """The judge, which stays in memory beside the model."""
    spec = ModelSpec.model_validate_json(settings)
    try:
        return load(spec)
    except UserError as error:
        raise UserError(f"judge {spec.name}: {error}") from error


def place(prefix: Prefix, **condition: object) -> dict[str, Any]:
    """The columns that say where a row was read."""
    variant = json.dumps({**prefix.variant, **condition}, sort_keys=True)
    return {"scenario": prefix.scenario, "step": prefix.step, "variant": variant}


def _told(question: Question) -> str:
    return "\n\n".join(filter(None, (question.background, question.text)))


def _numbered(steps: Sequence[str]) -> str:
    return "\n\n".join(f"[{i}] {step}" for i, step in enumerate(steps, 1)) or "(none yet)"


def _transcript(asked: Asked, options: tuple[str, str], answers: Sequence[Answer]) -> Transcript:
    return {
        "readout_id": asked.readout_id,
        "messages": list(asked.messages),
        "prefill": asked.prefill,
        "options": list(options),
        "thoughts": [],
        "answers": [{"draw": one.draw, "text": one.text, "status": one.status} for one in answers],
    }
