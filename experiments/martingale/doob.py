"""The negative control (METRICS A9): the expected final belief, given a prefix of a chain.

By the tower rule E[final belief | prefix] is a martingale for any model and any way of reading the final belief; a
pipeline that finds drift in it is broken. It is estimated from continuations of the very tokens of the prefix, in two
disjoint halves; the final belief of each is read exactly, which takes the noise of a last drawn answer away.

A prefix is a chain as it is after each quarter of the tokens that a chain may have, or its end if that comes first:
these are stopping times, so the tower rule holds.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...hooks.belief_rows import option_rows
from ...hooks.generation.generation import GeneratedText, Request
from ...hooks.lm import LanguageModel
from ...hooks.prompts.chat import Prompt
from ..experiment import Item
from ..materials.trajectories.chain import ChainRequest, chain, request
from ..materials.trajectories.trajectory import Trajectory
from ..reading.exact import compile_questions
from ..reading.place import BeliefPlace
from .config import MartingaleConfig
from .prefixes import exact_questions
from .prompts import chain_request, options_of

METHOD = "control"
QUARTERS = 4
START, END = 0, QUARTERS


def control_rows(
    config: MartingaleConfig, item: Item, prompt: str, chains: Sequence[Trajectory], lm: LanguageModel
) -> list[dict[str, Any]]:
    """The rows of the belief table for the chains of one system prompt: two halves after each quarter of each chain."""
    asked, k, limit = chain_request(config, item, prompt), config.doob.continuations, config.generation.max_new_tokens
    ids = {one.draw: one.samples[0].ids for one in chains}
    stops = [-(-limit * quarter // QUARTERS) for quarter in range(1, QUARTERS)]
    begun = {"start": ()} | {_name(draw, n): own[:n] for draw, own in ids.items() for n in stops if len(own) > n}
    root = request(lm, asked, range(k))
    requests = [
        Request(f"{asked.name}/control/{name}", Prompt((*root.prompt.ids, *given), root.prompt.boundary), root.draws)
        for name, given in begun.items()
    ]
    drawn = iter(lm.sample(requests, config.generation, seed=config.seed))
    continued = [_whole(lm, next(drawn), given, limit) for given in begun.values() for _ in range(k)]
    beliefs = _final_beliefs(config, item, asked, [*continued, *(one.samples[0] for one in chains)], lm)
    halves = beliefs[: len(continued)].reshape(len(begun), 2, -1).mean(axis=2)
    expected = dict(zip(begun, halves, strict=True))

    cell = {"domain": item.content["domain"], "reasoning": "cot", "prompt": prompt}
    scenario = f"{cell['domain']}, cot, {prompt}"
    rows = []
    for one, final in zip(chains, beliefs[len(continued) :], strict=True):
        known = np.array([final, final])
        path = [expected["start"], *(expected.get(_name(one.draw, n), known) for n in stops), known]
        for step, values in enumerate(path):
            name, variant = f"{asked.name}/{one.draw}.{step}", cell | {"draw": one.draw}
            place = BeliefPlace(name, scenario, step, (), options_of(item), variant)
            for half, value in enumerate(values.tolist()):
                rows += _rows(place, half, value)
    return rows


def _name(draw: int, given: int) -> str:
    return f"{draw}.{given}"


def _whole(lm: LanguageModel, sample: GeneratedText, given: Sequence[int], limit: int) -> GeneratedText:
    """The whole chain that a continuation makes: no longer than any other chain may be."""
    ids = (*given, *sample.ids)[:limit]
    return replace(sample, text=lm.sampler.text(ids[:-1] if ids[-1] in lm.sampler.end_ids else ids))


def _final_beliefs(
    config: MartingaleConfig, item: Item, asked: ChainRequest, samples: Sequence[GeneratedText], lm: LanguageModel
) -> np.ndarray:
    """[samples] P(yes) by the first method after each whole chain, the mean of its readings."""
    method = next(iter(config.methods))
    narrowed = config.model_copy(update={"methods": {method: config.methods[method]}})
    ends = [chain(lm, asked, one).contexts[-1] for one in samples]
    places = [BeliefPlace(f"{i}", "", END, context, options_of(item)) for i, context in enumerate(ends)]
    queries = compile_questions(lm.reader, exact_questions(narrowed, places))
    readings, *_ = lm.read(queries, budget=config.budget)
    return np.array([reading.prob[0] for reading in readings]).reshape(len(samples), -1).mean(axis=1)


def _rows(place: BeliefPlace, half: int, belief: float) -> list[dict[str, Any]]:
    names = {"readout_id": f"{place.name}/{METHOD}.{half}", "method": METHOD}
    status = "nan" if np.isnan(belief) else "ok"
    rows = option_rows(place.options, (belief, 1 - belief), kind="verbal", coverage=np.nan, status=status, **names)
    return [place.columns(reading=half, control=True) | row for row in rows]
