"""One pair read: its contexts, and its base and donor with each other's rows in each cell of the map."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ...hooks.backends.capture import CapturePlan, layer_numbers
from ...hooks.backends.captured import Captured
from ...hooks.backends.swap import Swap
from ...hooks.exact import Query
from ...hooks.lm import LanguageModel
from ...hooks.model.blocks import blocks
from ...hooks.model.points import Point
from ...hooks.prompts.places import Place
from ...hooks.tree.memory import together
from ..minimal_pair import MinimalPair, Spans, align
from ..protocol import Item, Question, Read, Transcript
from ..readouts import compile_questions
from .config import LocateConfig

if TYPE_CHECKING:
    import torch

NAME = "locate"
EMBEDDING = Point(0, "resid_pre")
DONOR, EVERYTHING = "donor", "everything"
BASE, PATCHED = "base", "patched"


class Cell(NamedTuple):
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
    def variant(self) -> dict[str, Any]:
        """Its conditions, but the layer, which is a column of the belief table."""
        return {"into": self.into, "donor": self.donor, "span": self.span, "site": self._one("site")}

    @property
    def layer(self) -> int | None:
        """Of everything at once, none."""
        return self._one("layer")

    @property
    def name(self) -> str:
        """As in the read-out's name."""
        where = f"{self.points[0].site}-{self.layer}" if self.layer is not None else "all"
        return f"{self.into}/{self.donor}/{self.span}/{where}"

    def _one(self, field: str) -> Any:
        return getattr(self.points[0], field) if len(self.points) == 1 else None


def context_questions(item: Item) -> list[Question]:
    """The contexts of a pair as they are."""
    pair = MinimalPair.from_content(item.content)
    return [
        Question(
            readout_id=f"{item.id}/{name}",
            method="prefill" if pair.prefill else "free",
            scenario=name,
            conversation=conversation,
            prefill=pair.prefill,
            options=pair.options,
        )
        for name, conversation in pair.contexts.items()
    ]


def read_pair(config: LocateConfig, item: Item, lm: LanguageModel) -> Read:
    """All cells of a pair, in one tree after that of its contexts. See `Experiment.read`."""
    pair = MinimalPair.from_content(item.content)
    spans = align(pair, lm.reader)
    questions = context_questions(item)
    queries = {q.scenario: query for q, query in zip(questions, compile_questions(lm.reader, questions), strict=True)}
    n_layers = len(blocks(lm.model))
    control_layers = layer_numbers(config.control_layers, n_layers, "control_layers")
    layers = sorted({*layer_numbers(config.layers, n_layers, "layers"), *control_layers})
    points, control_points = ([Point(n, "resid_post") for n in numbers] for numbers in (layers, control_layers))
    streams = _Streams(queries, spans, sorted({EMBEDDING.layer, *layers}))
    plain = lm.read(streams.queries, budget=config.token_budget, capture=streams.plan)
    assert plain.captured is not None
    cells = list(_cells(pair, spans, [EMBEDDING, *points], control_points))
    swapped = [_swapped(item, queries[cell.into], cell, streams, plain.captured) for cell in cells]
    patched = lm.read(swapped, budget=config.token_budget)

    names = {"experiment": NAME, "item": item.id, "cluster": item.cluster, "method": questions[0].method}
    rows: list[dict[str, Any]] = []
    for question, reading in zip(questions, plain.readings, strict=True):
        own = names | {"readout_id": reading.readout_id, "scenario": question.scenario, "variant": "{}"}
        rows += [own | row for row in lm.option_rows(reading, pair.options, config.low_coverage)]
    for cell, reading in zip(cells, patched.readings, strict=True):
        own = names | {"readout_id": reading.readout_id, "scenario": PATCHED}
        own |= {"variant": json.dumps(cell.variant, sort_keys=True)}
        own |= {} if cell.layer is None else {"layer": cell.layer}
        rows += [own | row for row in lm.option_rows(reading, pair.options, config.low_coverage)]
    return Read(rows, [_transcript(question) for question in questions], together([plain.cost, patched.cost]), None)


def _cells(pair: MinimalPair, spans: Spans, points: Sequence[Point], control_points: Sequence[Point]) -> Iterator[Cell]:
    """Every cell of a pair, those that share a beginning together."""
    everywhere = tuple(sorted(token for tokens in spans.values() for token in tokens))
    for into, other in ((BASE, DONOR), (DONOR, BASE)):
        yield Cell(into, DONOR, other, EVERYTHING, everywhere, tuple(points))
        for span, tokens in spans.items():
            for point in points:
                yield Cell(into, DONOR, other, span, tokens, (point,))
            for name in pair.controls:
                for point in control_points:
                    yield Cell(into, name, f"{name} for {into}", span, tokens, (point,))


class _Streams:
    """The residual streams of contexts at all tokens of the spans."""

    def __init__(self, queries: Mapping[str, Query], spans: Spans, layers: Sequence[int]) -> None:
        self.tokens = sorted(token for tokens in spans.values() for token in tokens)
        self.contexts = list(queries)
        places = tuple(Place(str(token), token, 1) for token in self.tokens)
        self.queries = [replace(query, places=places) for query in queries.values()]
        self.plan = CapturePlan(sites=("resid_pre", "resid_post"), layers=tuple(layers))

    def rows(self, captured: Captured, context: str, tokens: Sequence[int], point: Point) -> "torch.Tensor":
        """[tokens, d_model] of a context at a point."""
        start = self.contexts.index(context) * len(self.tokens)
        at = [start + self.tokens.index(token) for token in tokens]
        return captured.residuals[point.site][at, captured.layers.index(point.layer)]


def _swapped(item: Item, query: Query, cell: Cell, streams: _Streams, captured: Captured) -> Query:
    """The query of a context with a cell's rows in place. What was forced in it, this context has not said."""
    rows = {point: streams.rows(captured, cell.source, cell.tokens, point) for point in cell.points}
    prompt = replace(query.prompt, forced=())
    return replace(query, readout_id=f"{item.id}/{cell.name}", prompt=prompt, swap=Swap(cell.tokens, rows))


def _transcript(question: Question) -> Transcript:
    return {
        "readout_id": question.readout_id,
        "messages": list(question.conversation),
        "prefill": question.prefill,
        "options": [option.name for option in question.options],
        "thoughts": [],
        "answers": [],
    }
