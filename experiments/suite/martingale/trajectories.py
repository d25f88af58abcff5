"""Trajectories beyond those of a plain run: those that an earlier run has written, and continuations of prefixes,
whose final beliefs are the negative control (METRICS A9); and those of a run, to be looked at.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ....base.documents import user_path
from ....base.errors import UserError
from ....base.settings import parse, read_yaml
from ....base.text import or_dash
from ....hooks.exact.option_beliefs import option_rows
from ....hooks.generation.generated_texts import GeneratedText, Request
from ....hooks.generation.sampling import Sampling
from ....hooks.lm import LanguageModel
from ....hooks.prompts.chat import Message, Prompt
from ....metrics.tables.belief_parts import BeliefTable
from ...materials.trajectories import ChainRequest, Trajectory, chain, sampling_request
from ...report.findings import Drawn, Gallery, Instance, Transcript
from ...run.experiment import Item, Transcripts
from ...run.folder import RunFolder
from ...run.galleries import gallery
from ...run.readouts import compile_questions
from ...run.stated_beliefs import BeliefPlace
from .ask import chain_request, exact_questions, options_of
from .config import MartingaleConfig
from .readings import CELL, TRAJECTORY, trajectory_statuses

SAME = ("wording", "generation", "debate")
"""Settings that decide what is said; questions and system prompts are compared as they stand."""
WHERE = {"threads", "device", "device_map", "dtype", "kernel", "backend", "sampler"}
"""Settings of a model that leave it what it is."""


class StoredTrajectories:
    """The trajectories of a run."""

    def __init__(self, lines: Iterable[Transcript], where: str) -> None:
        kept = {line["readout_id"]: line for line in lines if any("ids" in drawn for drawn in line["answers"])}
        self.where = where
        self._messages = {name: line["messages"] for name, line in kept.items()}
        self._samples = {
            (text.readout_id, text.draw): text for line in kept.values() for text in map(_sample, line["answers"])
        }

    def sample(
        self, requests: Sequence[Request], sampling: Sampling, *, seed: int, until: Sequence[int] = ()
    ) -> list[GeneratedText]:
        """As `LanguageModel.sample`. Raises UserError, naming it, for a draw that the run has not."""
        wanted = [(request.readout_id, draw) for request in requests for draw in request.draws]
        if absent := [key for key in wanted if key not in self._samples]:
            name, draw = absent[0]
            raise UserError(
                f"trajectories: {self.where} has no draw {draw} of {name}; ask for what it has, or run anew"
            )
        return [self._samples[key] for key in wanted]

    def check(self, trajectory: Trajectory) -> None:
        """Raise UserError if the run's trajectory of that name was asked for, or was parted, in another way."""
        if (
            trajectory.samples
            and as_transcript(trajectory)["messages"] != self._messages[f"{trajectory.name}/{trajectory.draw}"]
        ):
            raise UserError(
                f"trajectories: {self.where} asked for {trajectory.name} in other words; take its domains and prompts"
            )


@lru_cache(maxsize=1)
def stored_trajectories(config_json: str) -> StoredTrajectories:
    """The run that a configuration names.

    Raises UserError if it is none of this experiment, not complete, or of another model, wording or sampling.
    """
    config = MartingaleConfig.model_validate_json(config_json)
    assert config.trajectories
    folder = RunFolder.open(user_path(config.trajectories))
    where = str(folder.config)
    theirs = parse(MartingaleConfig, read_yaml(Path(where)), where)
    other = [key for key in SAME if getattr(theirs, key) != getattr(config, key)]
    if theirs.model.model_dump(exclude=WHERE) != config.model.model_dump(exclude=WHERE):
        other = ["model"]
    if other:
        raise UserError(f"trajectories: {where} has another `{other[0]}`; give it the same, or run anew")
    if folder.missing:
        raise UserError(f"trajectories: {folder.path} has {folder.missing} batches still to read; go on with it first")
    return StoredTrajectories(folder.said(), str(folder.path))


def as_transcript(trajectory: Trajectory) -> Transcript:
    """What was asked, a message for each step, and the samples with all that it takes to read them again."""
    steps: list[Message] = [
        {"role": "assistant" if trajectory.samples else "user", "content": step} for step in trajectory.steps
    ]
    return {
        "readout_id": f"{trajectory.name}/{trajectory.draw}",
        "messages": [*trajectory.asked, *steps],
        "prefill": "",
        "options": [],
        "thoughts": [],
        "answers": [
            {"draw": s.draw, "text": s.text, "status": s.status, "readout_id": s.readout_id, "ids": s.ids}
            for s in trajectory.samples
        ],
    }


def _sample(drawn: Drawn) -> GeneratedText:
    assert "ids" in drawn
    assert "readout_id" in drawn
    status = "ok" if drawn["status"] == "ok" else "truncated"
    return GeneratedText(drawn["readout_id"], drawn["draw"], tuple(drawn["ids"]), drawn["text"], (), status)


# The negative control (METRICS A9): the expected final belief, given a prefix of a chain.
#
# By the tower rule E[final belief | prefix] is a martingale for any model and any way of reading the final belief; a
# pipeline that finds drift in it is broken. It is estimated from continuations of the very tokens of the prefix, in two
# disjoint halves; the final belief of each is read exactly, which takes the noise of a last drawn answer away.
#
# A prefix is a chain as it is after each quarter of the tokens that a chain may have, or its end if that comes first:
# these are stopping times, so the tower rule holds.

METHOD = "control"
QUARTERS = 4
CONTROL_START, CONTROL_END = 0, QUARTERS


def control_rows(
    config: MartingaleConfig, item: Item, prompt: str, chains: Sequence[Trajectory], lm: LanguageModel
) -> list[dict[str, Any]]:
    """The rows of the belief table for the chains of one system prompt: two halves after each quarter of each chain."""
    asked, k, limit = chain_request(config, item, prompt), config.doob.continuations, config.generation.max_new_tokens
    ids = {trajectory.draw: trajectory.samples[0].ids for trajectory in chains}
    stops = [-(-limit * quarter // QUARTERS) for quarter in range(1, QUARTERS)]
    begun = {"start": ()} | {
        _name(draw, n): tokens[:n] for draw, tokens in ids.items() for n in stops if len(tokens) > n
    }
    root = sampling_request(lm, asked, range(k))
    requests = [
        Request(f"{asked.name}/control/{name}", Prompt((*root.prompt.ids, *given), root.prompt.boundary), root.draws)
        for name, given in begun.items()
    ]
    drawn = iter(lm.sample(requests, config.generation, seed=config.seed))
    continued = [_whole(lm, next(drawn), given, limit) for given in begun.values() for _ in range(k)]
    beliefs = _final_beliefs(config, item, asked, [*continued, *(trajectory.samples[0] for trajectory in chains)], lm)
    halves = beliefs[: len(continued)].reshape(len(begun), 2, -1).mean(axis=2)
    expected = dict(zip(begun, halves, strict=True))

    cell = {"domain": item.content["domain"], "reasoning": "cot", "prompt": prompt}
    scenario = f"{cell['domain']}, cot, {prompt}"
    rows = []
    for trajectory, final in zip(chains, beliefs[len(continued) :], strict=True):
        known = np.array([final, final])
        path = [expected["start"], *(expected.get(_name(trajectory.draw, n), known) for n in stops), known]
        for step, values in enumerate(path):
            name, conditions = f"{asked.name}/{trajectory.draw}.{step}", cell | {"draw": trajectory.draw}
            place = BeliefPlace(name, scenario, step, (), options_of(item), conditions)
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
    ends = [chain(lm, asked, sample).contexts[-1] for sample in samples]
    places = [BeliefPlace(f"{i}", "", CONTROL_END, context, options_of(item)) for i, context in enumerate(ends)]
    queries = compile_questions(lm.reader, exact_questions(narrowed, places))
    readings, *_ = lm.read(queries, budget=config.budget)
    return np.array([reading.prob[0] for reading in readings]).reshape(len(samples), -1).mean(axis=1)


def _rows(place: BeliefPlace, half: int, belief: float) -> list[dict[str, Any]]:
    names = {"readout_id": f"{place.name}/{METHOD}.{half}", "method": METHOD}
    status = "nan" if np.isnan(belief) else "ok"
    rows = option_rows(place.options, (belief, 1 - belief), kind="verbal", coverage=np.nan, status=status, **names)
    return [place.columns(reading=half, control=True) | row for row in rows]


# The trajectories that a reader can look at.


def paths(config: MartingaleConfig, table: pd.DataFrame, beliefs: BeliefTable, transcripts: Transcripts) -> Gallery:
    """Every trajectory, or a sample; those that move the first method's belief most come first."""
    key = TRAJECTORY[2:]
    statuses = trajectory_statuses(beliefs)
    statuses["draw"] = statuses.groupby([*CELL, "item"], sort=False).cumcount()
    status = statuses.set_index(key)["status"]
    first = table[table["method"] == table["method"].iloc[0]]
    moved = first.groupby(key, sort=False)["belief"].agg(lambda course: course.iloc[-1] - course.iloc[0])
    keys = [*moved.index]
    names = [f"{item}/{reasoning}-{prompt}/{int(draw)}" for _, reasoning, prompt, item, draw in keys]
    rows = dict(list(table.groupby(key, sort=False)))
    form, method = next(iter(config.methods.items()))
    reading = f"{form}.0.0" if len(method.ask) > 1 else f"{form}.0"
    last = [f"{name}.{int(rows[each]['step'].max())}/{reading}" for name, each in zip(names, keys, strict=True)]

    def instance(i: int, said: Mapping[str, Transcript]) -> Instance:
        facets = [*keys[i][:3], str(status[keys[i]])]
        shown = _instance(said[names[i]], rows[keys[i]], facets, float(moved.iloc[i]))
        put = [(f"as the method “{form}” asks after the last step", said[last[i]])] if last[i] in said else []
        return replace(shown, conversations=[*shown.conversations, *put])

    return gallery(
        moved.abs(),
        lambda i: [names[i], last[i]],
        instance,
        transcripts,
        facets=["domain", "reasoning", "prompt", "status"],
        score="update",
        ranking=f"trajectories; those in which the belief by {first['method'].iloc[0]} moves most come",
        seed=config.seed,
    )


def _instance(transcript: Transcript, rows: pd.DataFrame, facets: list[str], moved: float) -> Instance:
    """The question with the belief before any step, then each step with the belief after it."""
    n = int(rows["step"].max())
    messages = list(transcript["messages"])
    asked, steps = messages[: len(messages) - n], messages[len(messages) - n :]
    courses = rows.groupby("method", sort=False)["belief"]
    by_step = [of_step for _, of_step in rows.groupby("step", sort=True)]
    parts: list[list[Message]] = [asked, *([step] for step in steps)]
    headings = ["before any step", *(f"after step {k}" for k in range(1, n + 1))]
    return Instance(
        facets=facets,
        score=moved,
        facts="P(first answer) " + "; ".join(f"by {name} {' → '.join(map(or_dash, path))}" for name, path in courses),
        conversations=[
            (f"{heading}: {_beliefs(by_step[k])}", {**transcript, "messages": part, "answers": []})
            for k, (heading, part) in enumerate(zip(headings, parts, strict=True))
        ],
    )


def _beliefs(rows: pd.DataFrame) -> str:
    return ", ".join(
        f"{method} {or_dash(belief)}" + (f" ({status})" if np.isnan(belief) else "")
        for method, belief, status in zip(rows["method"], rows["belief"], rows["status"], strict=True)
    )
