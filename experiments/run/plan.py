"""What a run would do, found without the model's weights; and one item under the microscope: token ids, boundary,
the tokens of every surface form and what each weighs.
"""

import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ...base.errors import UserError, nearest
from ...base.text import listed
from ...hooks.exact.option_beliefs import ExactReading, QueryTree
from ...hooks.exact.queries import PromptReader, Query
from ...hooks.lm import LanguageModel, open_model
from ...hooks.model.loading import load_text_side, pick_device
from ...hooks.model.shape import ModelShape, shape_from, shape_of
from ...hooks.tree.memory import CPU_PACK, Budgets, budgets_within, memory_of
from ...hooks.tree.token_tree import cut_into_packs
from ...hooks.verbal.number_distributions import planned_trees
from ...metrics.claims import BEHAVIOUR
from ...metrics.coherence import COHERENCE
from ...probes.evidence.study import StudyPlan
from ...probes.features import TOO_FEW
from .estimate import BYTES, Counts, GpuCard, Rates, Taken, foresee, pass_bytes
from .experiment import Experiment, Item, Question, RunConfig, items_of
from .readouts import compile_questions
from .stated_beliefs import planned_answers, planned_numbers

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
    longest_pass: int
    """Tokens that go through the model at once, at most."""
    mask_bytes: int
    """Of the largest attention mask of a pass."""
    example: Sequence[Question]
    """The questions of the first item that can be read."""
    registered: Sequence[str] = ()
    """What `foreseen` says."""
    counts: Counts = field(kw_only=True)
    """What time, disk and memory depend on."""
    shape: ModelShape | None = None
    """Of the model; None for one whose size its configuration does not tell."""
    config: RunConfig = field(kw_only=True)
    """With the token budget of the device."""
    on_gpu: bool = False

    def takes(self, rates: Rates | None) -> Taken | None:
        """Time, disk and memory, where the model's size is known."""
        if self.shape is None:
            return None
        return foresee(self.counts, self.shape, self.config, rates, on_gpu=self.on_gpu)

    @property
    def record(self) -> dict[str, Any]:
        """For the manifest of the run."""
        return {"counts": asdict(self.counts), "together": self.config.together}

    def lines(self, experiment: Experiment, rates: Rates | None) -> Iterator[str]:
        """What it says."""
        items = f"{self.items} items ({experiment.unit})"
        yield f"{experiment.name} on {self.config.model.name}: {items}, {self.readouts} read-outs"
        more = self.tokens_one_by_one / self.tokens_run
        yield f"about {self.tokens_run:,} tokens through the model; one text at a time: {more:.1f} times as many"
        if self.tokens_sampled:
            yield f"and up to {self.tokens_sampled:,} tokens sampled, of thoughts and answers"
        yield f"longest forward pass {self.longest_pass:,} tokens, mask {self.mask_bytes / 1e6:.1f} MB"
        if taken := self.takes(rates):
            yield f"takes about {taken}"
            yield f"  the time is measured: {rates.where}" if rates else f"  {UNKNOWN}"
            if rates and self.tokens_sampled:
                yield f"  {'the time that sampling takes is not known' if math.isnan(taken.seconds) else SAMPLING}"
        yield from self.registered


UNKNOWN = "the time is known once a run of this model is finished in --out, or of a GPU by --card h200"
SAMPLING = "supposing batches as large as there, and answers as long as they may be; loading and scoring come on top"


def make_plan(
    experiment: Experiment,
    config: RunConfig,
    lm: LanguageModel | None = None,
    *,
    items: Sequence[Item] = (),
    card: GpuCard | None = None,
    n: int = PLANNED_ITEMS,
) -> Plan:
    """Build the token trees of `n` of the items, as the device reads them, or a `card`. Raises UserError for what the
    run itself would refuse.

    `lm`: the model, and `items`: what is sampled, where they are there anyway.
    """
    items = items or items_of(experiment, config)
    reader = lm.reader if lm else PromptReader(config.model, load_text_side(config.model), config.terminators)
    text, shape = reader.text, _shape(reader, lm)
    on_gpu = card is not None or pick_device(config.model.device) != "cpu"
    config = config.on_device(_budgets(config, reader, shape, card))
    thoughts = config.thoughts.draws * config.thoughts.max_new_tokens if config.model.thinking == "on" else 0
    readouts = tokens_run = one_by_one = longest = mask = sampled = captured = 0
    times, operations = 1 + experiment.branches(config), 0.0
    looked_at = items[:: max(1, len(items) // n)][:n]
    example: Sequence[Question] = ()
    for item in looked_at:
        readable = _readable(experiment, config, item, reader)
        example = example or readable
        plans_more = type(experiment).planned is not Experiment.planned
        questions = experiment.planned(config, item) if plans_more else readable
        places, numbers = experiment.places(config, item), experiment.numbers(config, item, reader)
        sampled += sum(thoughts for question in questions if question.thought is None)
        sampled += sum(question.draws * config.sampling.max_new_tokens for question in questions)
        sampled += planned_answers(config, places) + numbers.written
        trees: list[Sequence[Query]] = [compile_questions(reader, questions, config.capture)]
        for together in [*planned_numbers(config, places, reader), *numbers.together]:
            trees += planned_trees(reader, together)
        if text.n_layers is not None:
            trees.append(experiment.planned_queries(config, item, reader, text.n_layers))
        for queries in filter(None, trees):
            built = QueryTree(queries)
            packs = cut_into_packs(built.tree, built.read_nodes, config.budget, continues=True)
            readouts += len(queries)
            tokens_run += (run := times * sum(map(len, packs)))
            captured += sum(len(query.places) for query in queries)
            if shape:
                above = times * sum(int(pack.positions.sum()) + len(pack) for pack in packs)
                operations += shape.operations(run, above, times * len(built.read_nodes))
            longest = max(longest, *(pack.widest[0] for pack in packs))
            mask = max(mask, *(math.prod(pack.widest) for pack in packs))
            one_by_one += times * sum(
                len(q.prompt.ids) + len(path) for q in queries for paths in q.paths.paths for path in paths
            )
    if not readouts:
        raise UserError(f"none of {len(looked_at)} items that were looked at can be read; see the lines above")
    scale = len(items) / len(looked_at)
    size = BYTES.get(config.model.dtype, 2)
    counts = Counts(
        tokens=round(tokens_run * scale),
        sampled=round(sampled * scale),
        operations=operations * scale,
        readouts=round(readouts * scale),
        captured=round(captured * scale * _captured_width(config, shape)),
        pass_bytes=pass_bytes(shape, text.config, longest, MASK_BYTES * mask, size, on_gpu=on_gpu)
        if shape and text.config
        else 0.0,
    )
    return Plan(
        items=len(items),
        readouts=counts.readouts,
        tokens_run=counts.tokens,
        tokens_one_by_one=round(one_by_one * scale),
        tokens_sampled=counts.sampled,
        longest_pass=longest,
        mask_bytes=MASK_BYTES * mask,
        example=example,
        registered=foreseen(experiment, config, items),
        counts=counts,
        shape=shape,
        config=config,
        on_gpu=on_gpu,
    )


def _shape(reader: PromptReader, lm: LanguageModel | None) -> ModelShape | None:
    """Of the model that a reader is for."""
    try:
        if lm:
            return shape_of(lm.model)
        return None if reader.text.config is None else shape_from(reader.text.config)
    except Exception:  # an architecture that was never tried, or code of its own: then no size is said
        return None


def _budgets(config: RunConfig, reader: PromptReader, shape: ModelShape | None, card: GpuCard | None) -> Budgets:
    """Of a card, or of the device that the settings name."""
    device, known = pick_device(config.model.device), reader.text.config
    if shape is None or known is None or (card is None and device == "cpu"):
        return Budgets(CPU_PACK, CPU_PACK, on_cpu=True)
    if card:
        return card.budgets(shape, known)
    size = BYTES.get(config.model.dtype, 2)
    return budgets_within(memory_of(device) - size * shape.parameters, known.get_text_config(), size)


def _captured_width(config: RunConfig, shape: ModelShape | None) -> int:
    """Numbers that are kept of each token that is captured."""
    if config.capture is None or shape is None:
        return 0
    return len(config.capture.sites) * len(config.capture.layer_numbers(shape.layers)) * shape.width


def foreseen(experiment: Experiment, config: RunConfig, items: Sequence[Item]) -> list[str]:
    """How much is asked, where the experiment says so; what these clusters can show of the registered number and, with
    `kinds: all`, whether they suffice for probes.
    """
    n, least = len({item.cluster for item in items if experiment.scored(item)}), StudyPlan().thresholds.groups
    plan, shown_first = config.registered, (experiment.headline, *experiment.beside)
    lines = [*filter(None, [experiment.size(config)]), *([] if plan is None else plan.foreseen(n))]
    if plan and experiment.makes is None and plan.metric not in {*shown_first, *COHERENCE, *BEHAVIOUR}:
        known = nearest(plan.metric, shown_first)
        lines.append(f"  whether {experiment.name} makes a number {plan.metric!r} is known once it is scored; {known}")
    methods = getattr(config, "methods", None)
    if plan and plan.kind == "exact" and methods and plan.method not in methods:
        known = f"the settings name {listed(list(methods))}"
        lines.append(f"  whether a method {plan.method!r} is read is known once it is scored; {known}")
    if config.kinds == "all" and n < least:
        lines.append(f"kinds: probes of {n} clusters are called {TOO_FEW!r} and struck out; {least} are needed")
    return lines


def _readable(experiment: Experiment, config: RunConfig, item: Item, reader: PromptReader) -> Sequence[Question]:
    """The questions of an item that a run reads; of one from which it leaves something out, a line says what."""
    readable = experiment.readable(config, item, reader)
    if type(experiment).readable is not Experiment.readable:
        try:
            compile_questions(reader, experiment.questions(config, item), config.capture)
        except UserError as error:
            log.warning("left out, of item %s: %s", item.id, error)
    return readable


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
    with open_model(config.model, terminators=config.terminators) as lm:
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
    if not np.isnan(reading.prefilled_logp):
        yield f"  prefilled turns: probability {np.exp(reading.prefilled_logp):.2%}"
    for option, paths, logp in zip(query.paths.options, query.paths.paths, reading.form_logp, strict=True):
        yield f"  {option.name}:"
        for i in np.argsort(-logp):
            tokens = " ".join(f"{lm.tokenizer.decode([token])!r}" for token in paths[i])
            yield f"    {np.exp(logp[i]):8.4%}  {tokens}"
