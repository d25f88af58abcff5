"""The negative control (METRICS A9): the expected final belief, given a prefix of a chain.

By the tower rule E[final belief | prefix] is a martingale for any model and any way of reading the final belief; a
pipeline that finds drift in it is broken. It is estimated from continuations of the very tokens of the prefix, in two
disjoint halves; the final belief of each is read exactly, which takes the noise of a last drawn answer away.

A prefix is read at the start, at the first step (the first token after which a paragraph is closed, or the end) and
at the end: these are stopping times, so the tower rule holds.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...hooks.generation.generation import Request, Sample
from ...hooks.lm import LanguageModel
from ...hooks.prompts.chat import Prompt
from ..protocol import Item
from ..readouts import compile_questions
from ..trajectories.chain import Thinking, chain, request
from ..trajectories.paragraphs import ends
from ..trajectories.trajectory import Trajectory
from .config import MartingaleConfig
from .prefixes import Prefix, exact_questions
from .prompts import question_of, thinking
from .verbal import place

METHOD = "control"
START, FIRST, END = range(3)


def control_rows(
    config: MartingaleConfig, item: Item, prompt: str, chains: Sequence[Trajectory], lm: LanguageModel
) -> list[dict[str, Any]]:
    """The rows of the belief table for the chains of one system prompt: two halves at the start and at the first step
    of each chain, and its end.
    """
    asked, k = thinking(config, item, prompt), config.doob.continuations
    root = request(lm, asked, range(k))
    cuts = [first_step(lm, one.samples[0]) for one in chains]
    requests = [replace(root, readout_id=f"{asked.name}/control")]
    requests += [_onward(root, one, cut, k) for one, cut in zip(chains, cuts, strict=True) if cut]
    limits = {one.readout_id: config.generation.max_new_tokens - _given(one, root) for one in requests}
    law = config.generation.model_copy(update={"max_new_tokens": max(limits.values())})
    finals = {one.readout_id: list[Sample]() for one in requests}
    given = {one.readout_id: one.prompt.ids[len(root.prompt.ids) :] for one in requests}
    for sample in lm.sample(requests, law, seed=config.seed):
        name = sample.readout_id
        finals[name].append(_whole(lm, sample, given[name], limits[name]))
    beliefs = _final_beliefs(config, item, asked, [s for own in finals.values() for s in own], lm)
    after = dict(zip(finals, np.split(beliefs, np.cumsum([len(own) for own in finals.values()])[:-1]), strict=True))
    ended = _final_beliefs(config, item, asked, [one.samples[0] for one in chains], lm)

    cell = {"domain": item.content["domain"], "reasoning": "cot", "prompt": prompt}
    scenario = f"{cell['domain']}, cot, {prompt}"
    rows = []
    for one, cut, belief in zip(chains, cuts, ended.tolist(), strict=True):
        here = after[_name(asked.name, one.draw)] if cut else np.array([belief] * 2)
        for step, values in ((START, after[requests[0].readout_id]), (FIRST, here), (END, np.array([belief] * 2))):
            for half, mean in enumerate(values.reshape(2, -1).mean(axis=1).tolist()):
                prefix = Prefix(f"{asked.name}/{one.draw}.{step}", scenario, step, (), cell | {"draw": one.draw})
                rows += _rows(item, prefix, half, mean)
    return rows


def first_step(lm: LanguageModel, sample: Sample) -> int:
    """How many tokens close the first paragraph; 0 if none is closed before the end."""
    for n in range(1, len(sample.ids)):
        text = lm.sampler.text(sample.ids[:n])
        if (stops := ends(text)) and text[stops[0] :].count("\n") > 1:
            return n
    return 0


def _onward(root: Request, one: Trajectory, cut: int, k: int) -> Request:
    """Continuations of the very tokens that a chain began with."""
    prompt = Prompt((*root.prompt.ids, *one.samples[0].ids[:cut]), root.prompt.boundary)
    return Request(_name(root.readout_id, one.draw), prompt, range(k))


def _name(name: str, draw: int) -> str:
    return f"{name}/control/{draw}"


def _given(one: Request, root: Request) -> int:
    return len(one.prompt.ids) - len(root.prompt.ids)


def _whole(lm: LanguageModel, sample: Sample, given: Sequence[int], limit: int) -> Sample:
    """The whole chain that a continuation makes: no longer than any other chain may be."""
    ids = sample.ids[:limit]
    said = ids[:-1] if ids and ids[-1] in lm.sampler.end_ids else ids
    return replace(sample, text=lm.sampler.text([*given, *said]))


def _final_beliefs(
    config: MartingaleConfig, item: Item, asked: Thinking, samples: Sequence[Sample], lm: LanguageModel
) -> np.ndarray:
    """[samples] P(yes) by the first method after each whole chain, the mean of both orders."""
    method = next(iter(config.methods))
    narrowed = config.model_copy(update={"methods": {method: config.methods[method]}})
    prefixes = [Prefix(f"{i}", "", END, chain(lm, asked, one).contexts[-1]) for i, one in enumerate(samples)]
    queries = compile_questions(lm.reader, exact_questions(narrowed, item, prefixes))
    readings, *_ = lm.read(queries, budget=config.token_budget)
    return np.array([reading.prob[0] for reading in readings]).reshape(-1, 2).mean(axis=1)


def _rows(item: Item, prefix: Prefix, half: int, belief: float) -> list[dict[str, Any]]:
    question = question_of(item)
    return [
        place(prefix, reading=half, control=True)
        | {
            "readout_id": f"{prefix.name}/{METHOD}.{half}",
            "kind": "verbal",
            "method": METHOD,
            "option": option,
            "option_index": index,
            "prob": prob,
            "status": "nan" if np.isnan(prob) else "ok",
        }
        for index, (option, prob) in enumerate(((question.option_yes, belief), (question.option_no, 1 - belief)))
    ]
