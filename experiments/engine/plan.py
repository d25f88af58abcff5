"""What a run would do, found without the model's weights."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from ...hooks.errors import UserError
from ...hooks.exact.exact import QueryTree
from ...hooks.model.loading import load_text_side
from ...hooks.prompts.query import PromptReader
from ...hooks.tree.tree import cut_into_packs
from ..experiment import Experiment, Item, LeavesOut, PlansByItself, PlansQueries, Question, RunConfig
from ..reading.exact import compile_questions
from ..reading.stated import AskedNumbers, AsksNumbers, StatesBeliefs, planned_answers, planned_numbers
from .items import items_of

log = logging.getLogger("doxascope")

MASK_BYTES = 4
PLANNED_ITEMS = 8
"""Items whose trees are built, evenly spread; the rest is extrapolated."""


@dataclass(frozen=True)
class Plan:
    """The size of a run."""

    items: int
    """What is sampled, and what a cluster of the uncertainty is made of."""
    readouts: int
    tokens_run: int
    """That go through the model; estimated from some of the items."""
    tokens_one_by_one: int
    """That would, if each surface form were a forward pass of its own."""
    tokens_sampled: int
    """At most: of thoughts, of sampled answers, and of stated ones."""
    longest_pack: int
    mask_bytes: int
    """Of the longest pack's attention mask."""
    example: Sequence[Question]
    """The questions of the first item that can be read."""
    size: str = ""
    """How much is asked of an item, in a line, where an experiment says so."""


def make_plan(experiment: Experiment, config: RunConfig) -> Plan:
    """Build the token trees of some of the items. Raises UserError for what the run itself would refuse."""
    items = items_of(experiment, config)
    text = load_text_side(config.model)
    reader = PromptReader(config.model, text, config.terminators)
    thoughts = config.thoughts.draws * config.thoughts.max_new_tokens if config.model.thinking == "on" else 0
    readouts = run = alone = longest = sampled = 0
    first = items[:: max(1, len(items) // PLANNED_ITEMS)][:PLANNED_ITEMS]
    example: Sequence[Question] = ()
    for item in first:
        asked = _asked(experiment, config, item, reader)
        example = example or asked
        questions = experiment.planned(config, item) if isinstance(experiment, PlansByItself) else asked
        places = experiment.places(config, item) if isinstance(experiment, StatesBeliefs) else ()
        sampled += sum(thoughts for one in questions if one.thought is None)
        sampled += sum(one.draws * config.sampling.max_new_tokens for one in questions)
        own = experiment.numbers(config, item, reader) if isinstance(experiment, AsksNumbers) else AskedNumbers((), 0)
        sampled += planned_answers(config, places) + own.written
        trees = [compile_questions(reader, questions), *planned_numbers(config, places, reader), own.queries]
        if isinstance(experiment, PlansQueries) and text.n_layers is not None:
            trees.append(experiment.planned_queries(config, item, reader, text.n_layers))
        for queries in filter(None, trees):
            built = QueryTree(queries)
            packs = cut_into_packs(built.tree, built.read_nodes, config.budget)
            readouts += len(queries)
            run += sum(len(one) for one in packs)
            longest = max(longest, *(len(one) for one in packs))
            alone += sum(len(q.prompt.ids) + len(path) for q in queries for paths in q.paths.paths for path in paths)
    if not readouts:
        raise UserError(f"none of {len(first)} items that were looked at can be read; see the lines above")
    scale = len(items) / len(first)
    return Plan(
        items=len(items),
        readouts=round(readouts * scale),
        tokens_run=round(run * scale),
        tokens_one_by_one=round(alone * scale),
        tokens_sampled=round(sampled * scale),
        longest_pack=longest,
        mask_bytes=MASK_BYTES * longest**2,
        example=example,
        size=experiment.size(config) if isinstance(experiment, PlansByItself) else "",
    )


def _asked(experiment: Experiment, config: RunConfig, item: Item, reader: PromptReader) -> Sequence[Question]:
    """The questions of an item that a run reads; of one from which it leaves something out, a line says what."""
    if not isinstance(experiment, LeavesOut):
        return experiment.questions(config, item)
    try:
        compile_questions(reader, asked := experiment.questions(config, item), config.capture)
    except UserError as error:
        log.warning("left out, of item %s: %s", item.id, error)
        return experiment.readable(config, item, reader)
    return asked
