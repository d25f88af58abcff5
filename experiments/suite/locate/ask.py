"""One pair read: its contexts, and its base and donor with each other's rows in each cell of the map."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ....hooks.backends.captures import Captured, CapturePlan
from ....hooks.exact.option_beliefs import PackedReading
from ....hooks.exact.queries import PromptReader, Query, Swap
from ....hooks.lm import LanguageModel
from ....hooks.model.blocks import Point, blocks, layer_numbers
from ....hooks.prompts.places import ResolvedPosition
from ....hooks.tree.memory import sum_costs
from ...run.experiment import Item, Question, Read
from ...run.readouts import compile_questions, question_transcript
from .config import LocateConfig
from .pairs import MinimalPair, Spans, align

if TYPE_CHECKING:
    import torch

NAME = "locate"
EMBEDDING = Point(0, "resid_pre")
DONOR, EVERYTHING = "donor", "everything"
BASE, PATCHED = "base", "patched"
UNDECIDED = ("base, undecided", "donor, undecided")
"""Scenarios of base and donor with a reply that decides nothing."""


class Patch(NamedTuple):
    """One patched read-out."""

    into: str
    """`base` or `donor`."""
    donor: str
    """`donor`, for the other of the two, or the name of a control."""
    source: str
    """The context that gives the rows."""
    span: str
    tokens: tuple[int, ...]
    points: tuple[Point, ...]

    @property
    def point(self) -> Point | None:
        """None: of everything at once."""
        return self.points[0] if len(self.points) == 1 else None

    @property
    def name(self) -> str:
        """As in the read-out's name."""
        where = f"{self.point.site}-{self.point.layer}" if self.point else "all"
        return f"{self.into}/{self.donor}/{self.span}/{where}"

    @property
    def columns(self) -> dict[str, Any]:
        """Of the belief table."""
        site, layer = (self.point.site, {"layer": self.point.layer}) if self.point else (None, {})
        conditions = {"into": self.into, "donor": self.donor, "span": self.span, "site": site}
        return {"scenario": PATCHED, **conditions, **layer}


def context_questions(_: LocateConfig, item: Item) -> list[Question]:
    """The contexts of a pair as they are, and those in which nothing was decided."""
    pair = MinimalPair.from_content(item.content)
    undecided = dict(zip(UNDECIDED, pair.undecided or (), strict=bool(pair.undecided)))
    return [
        Question(
            readout_id=f"{item.id}/{name}",
            method="prefill" if pair.prefill else "free",
            scenario=name,
            conversation=conversation,
            prefill=pair.prefill,
            options=pair.options,
        )
        for name, conversation in (pair.contexts | undecided).items()
    ]


class Interchange(NamedTuple):
    """What is to be read of a pair, once its contexts are."""

    questions: list[Question]
    """The contexts, then those in which nothing was decided."""
    plain: PackedReading
    """What was read of the contexts."""
    patches: list[Patch]
    queries: list[Query]
    """Of what is undecided, then of the patches."""


def interchange(config: LocateConfig, item: Item, lm: LanguageModel) -> Interchange:
    """Read the contexts of a pair, and put their rows into each other.

    Raises UserError for a pair that cannot be aligned.
    """
    pair = MinimalPair.from_content(item.content)
    spans = align(pair, lm.reader)
    questions = context_questions(config, item)
    queries, undecided = _contexts(questions, lm.reader)
    patches = _all_patches(config, pair, spans, len(blocks(lm.model)))
    layers = {point.layer for patch in patches for point in patch.points}
    streams = _Streams(queries, spans, sorted({EMBEDDING.layer, *layers}))
    plain = lm.read(streams.queries, budget=config.budget, capture=streams.plan)
    assert plain.captured is not None
    swapped = []
    for patch in patches:
        rows = {point: streams.rows(plain.captured, patch.source, patch.tokens, point) for point in patch.points}
        swapped.append(_put(item, queries[patch.into], patch, rows))
    return Interchange(questions, plain, patches, [*undecided, *swapped])


def planned_queries(config: LocateConfig, item: Item, reader: PromptReader, n_layers: int) -> list[Query]:
    """The queries of `interchange` without the rows that are put in, which only a model has."""
    pair = MinimalPair.from_content(item.content)
    queries, undecided = _contexts(context_questions(config, item), reader)
    patches = _all_patches(config, pair, align(pair, reader), n_layers)
    return [*undecided, *(_put(item, queries[patch.into], patch, {}) for patch in patches)]


def _contexts(questions: Sequence[Question], reader: PromptReader) -> tuple[dict[str, Query], list[Query]]:
    """Name -> query of each context; and the queries of those in which nothing was decided."""
    queries = {q.scenario: query for q, query in zip(questions, compile_questions(reader, questions), strict=True)}
    undecided = [queries.pop(name) for name in UNDECIDED if name in queries]
    return queries, undecided


def _all_patches(config: LocateConfig, pair: MinimalPair, spans: Spans, n_layers: int) -> list[Patch]:
    control_layers = layer_numbers(config.control_layers, n_layers, "control_layers")
    layers = sorted({*layer_numbers(config.layers, n_layers, "layers"), *control_layers})
    points, control_points = ([Point(n, "resid_post") for n in numbers] for numbers in (layers, control_layers))
    return list(_patches(pair, spans, [EMBEDDING, *points], control_points))


def read_pair(config: LocateConfig, item: Item, lm: LanguageModel) -> Read:
    """The contexts of a pair, and then all its patches in one tree. See `Experiment.read`."""
    asked = interchange(config, item, lm)
    patched = lm.read(asked.queries, budget=config.budget)
    names = {"experiment": NAME, "item": item.id, "cluster": item.cluster, "method": asked.questions[0].method}
    named = [names | {"scenario": question.scenario} for question in asked.questions]
    named += [names | patch.columns for patch in asked.patches]
    rows = [
        columns | {"readout_id": reading.readout_id} | row
        for columns, reading in zip(named, [*asked.plain.readings, *patched.readings], strict=True)
        for row in lm.option_rows(reading, asked.questions[0].options, config.low_coverage)
    ]
    transcripts = [question_transcript(lm.reader.chat, question) for question in asked.questions]
    return Read(rows, transcripts, sum_costs([asked.plain.cost, patched.cost]), None)


def _patches(
    pair: MinimalPair, spans: Spans, points: Sequence[Point], control_points: Sequence[Point]
) -> Iterator[Patch]:
    """Every patch of a pair, those that share a beginning together."""
    everywhere = tuple(sorted(token for tokens in spans.values() for token in tokens))
    for into, other in ((BASE, DONOR), (DONOR, BASE)):
        yield Patch(into, DONOR, other, EVERYTHING, everywhere, tuple(points))
        for span, tokens in spans.items():
            for point in points:
                yield Patch(into, DONOR, other, span, tokens, (point,))
            for name in pair.controls:
                for point in control_points:
                    yield Patch(into, name, f"{name} for {into}", span, tokens, (point,))


class _Streams:
    """The residual streams of contexts at all tokens of the spans."""

    def __init__(self, queries: Mapping[str, Query], spans: Spans, layers: Sequence[int]) -> None:
        self.tokens = sorted(token for tokens in spans.values() for token in tokens)
        self.contexts = list(queries)
        places = tuple(ResolvedPosition(str(token), token, 1) for token in self.tokens)
        self.queries = [replace(query, places=places) for query in queries.values()]
        self.plan = CapturePlan(sites=("resid_pre", "resid_post"), layers=tuple(layers))

    def rows(self, captured: Captured, context: str, tokens: Sequence[int], point: Point) -> "torch.Tensor":
        """[tokens, d_model] of a context at a point."""
        start = self.contexts.index(context) * len(self.tokens)
        at = [start + self.tokens.index(token) for token in tokens]
        return captured.residuals[point.site][at, captured.layers.index(point.layer)]


def _put(item: Item, query: Query, patch: Patch, rows: "Mapping[Point, torch.Tensor]") -> Query:
    """The query of a context with a patch's rows in place. Prefilled turns are not scored: they are then another
    context's.
    """
    prompt = replace(query.prompt, prefilled=())
    return replace(query, readout_id=f"{item.id}/{patch.name}", prompt=prompt, swap=Swap(patch.tokens, rows))
