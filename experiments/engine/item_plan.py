"""One item under the microscope: token ids, boundary, the tokens of every surface form and what each weighs."""

from collections.abc import Iterator, Sequence

import numpy as np

from ...hooks.errors import UserError, nearest
from ...hooks.exact.exact import ExactReading
from ...hooks.lm import LanguageModel, load
from ...hooks.prompts.query import Query
from ..experiment import Experiment, Question, RunConfig
from ..reading.exact import compile_questions
from .items import items_of


def describe_item(experiment: Experiment, config: RunConfig, name: str) -> Iterator[str]:
    """Lines about an item, or about one of its read-outs: then with its tokens. Loads and runs the model.

    Raises UserError for a name that is neither.
    """
    items = {item.id: item for item in items_of(experiment, config)}
    item = items.get(name) or items.get(name.split("/", maxsplit=1)[0])
    if item is None:
        raise UserError(f"--item {name}: no such item; {nearest(name, items)}")
    asked = experiment.questions(config, item)
    chosen = [question.readout_id for question in asked if name in (item.id, question.readout_id)]
    if not chosen:
        raise UserError(f"--item {name}: no such read-out; {nearest(name, [q.readout_id for q in asked])}")
    with load(config.model, terminators=config.terminators) as lm:
        queries = compile_questions(lm.reader, asked)
        readings, cost, _ = lm.read(queries, budget=config.budget)
        yield (
            f"{item.id}: {len(asked)} read-outs, {cost.tokens_tree} unique tokens, {cost.tokens_run} run in "
            f"{cost.packs} packs of at most {cost.budget}"
        )
        for question, query, reading in zip(asked, queries, readings, strict=True):
            if question.readout_id in chosen:
                yield from _masses(question, query, reading)
                if question.readout_id == name:
                    yield from _tokens(query, reading, lm)


def _masses(question: Question, query: Query, reading: ExactReading) -> Iterator[str]:
    """The read-out in two lines."""
    masses = ", ".join(
        f"{option.name} {np.exp(logp):.2%}" for option, logp in zip(question.options, reading.logp, strict=True)
    )
    yield f"\n{question.readout_id}: {len(query.prompt.ids)} tokens, coverage {reading.coverage:.2%}"
    yield f"  {masses}"


def _tokens(query: Query, reading: ExactReading, lm: LanguageModel) -> Iterator[str]:
    """The prompt's ids and boundary, and every path with its probability, the likeliest first."""
    yield f"  prompt: {' '.join(map(str, query.prompt.ids))}"
    yield f"  boundary: forms are tokenised after {query.prompt.boundary.tail!r}"
    if not np.isnan(reading.forced_logp):
        yield f"  prefilled turns: probability {np.exp(reading.forced_logp):.2%}"
    for option, paths, logp in zip(query.paths.options, query.paths.paths, reading.form_logp, strict=True):
        yield f"  {option.name}:"
        for i in np.argsort(-logp):
            yield f"    {np.exp(logp[i]):8.4%}  {_shown(paths[i], lm)}"


def _shown(path: Sequence[int], lm: LanguageModel) -> str:
    return " ".join(f"{lm.tokenizer.decode([token])!r}" for token in path)
