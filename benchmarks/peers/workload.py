"""The work that all are measured on, and what we say of it: contexts of the consistency experiment, read freely."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
import torch
from numpy.typing import NDArray

from doxascope.experiments.run.config import load_config
from doxascope.hooks.exact.option_beliefs import QueryTree, read_packed
from doxascope.hooks.exact.queries import Query
from doxascope.hooks.lm import LanguageModel
from doxascope.hooks.model.blocks import body
from doxascope.hooks.prompts.options import Option, OptionPaths, Terminators, make_options
from doxascope.hooks.tree.attention import pack_masks
from doxascope.hooks.tree.memory import CPU_PACK
from doxascope.hooks.tree.token_tree import cut_into_packs

METHOD = "free"
CONTROLS = "mention"
"""The scenario that tells nothing of a word it names: two in three contexts of a run, much like those that are read."""
ONE_FORM = ("{option}",)

Group = Sequence[Query]
"""The contexts of one triple of words: one tree."""


def compiled(lm: LanguageModel, triples: int, forms: Sequence[str] | None = None) -> list[Group]:
    """The queries of so many triples, controls left out, with these surface forms, or the configured ones."""
    experiment, config = load_config("consistency", [f"items={triples}"])

    def written(options: tuple[Option, ...]) -> tuple[Option, ...]:
        return make_options([option.name for option in options], forms) if forms else options

    return [
        [
            lm.reader.query(q.readout_id, q.conversation, written(q.options), q.prefill)
            for q in experiment.questions(config, item)
            if q.method == METHOD and q.scenario != CONTROLS
        ]
        for item in experiment.items(config)
    ]


def first_tokens(groups: Sequence[Group]) -> list[Group]:
    """The same work with the first token of each path in its place."""

    def cut(query: Query) -> Query:
        paths = tuple(tuple(dict.fromkeys(path[:1] for path in forms)) for forms in query.paths.paths)
        return replace(query, paths=OptionPaths(query.paths.options, paths))

    return [[cut(query) for query in group] for group in groups]


def log_probabilities(lm: LanguageModel, groups: Sequence[Group]) -> NDArray[np.float64]:
    """Ours of every path of every query, in order, whatever follows the path."""
    anything = Terminators(lm.tokenizer, ["a"], [], known=["a"] * len(lm.head.weight))  # every token closes an option
    open_ended = [[replace(query, terminators=anything) for query in group] for group in groups]
    readings = [read_packed(group, lm.backend, lm.head, budget=CPU_PACK).readings for group in open_ended]
    return np.concatenate([forms for reading in chain.from_iterable(readings) for forms in reading.form_logp])


def unique_tokens(group: Group) -> int:
    """Distinct beginnings of all prompts with all paths: what must be run, counted without our tree."""
    texts = [query.prompt.ids + path for query in group for path in chain.from_iterable(query.paths.paths)]
    return len({text[:n] for text in texts for n in range(1, len(text) + 1)})


def bare(lm: LanguageModel, groups: Sequence[Group]) -> Callable[[], None]:
    """The forward passes of our packs and nothing else: the tree and the masks are there, the head is not run."""
    passes = []
    for group in groups:
        built = QueryTree(group)
        passes += [
            {
                "input_ids": torch.from_numpy(one.tokens)[None],
                "position_ids": torch.from_numpy(one.positions)[None],
                "attention_mask": pack_masks(one, lm.model.config, lm.model.dtype, lm.model.device),
            }
            for one in cut_into_packs(built.tree, built.read_nodes, CPU_PACK)
        ]

    def run() -> None:
        with torch.inference_mode():
            for one in passes:
                body(lm.model)(**one, use_cache=False)

    return run


def matrix_share(lm: LanguageModel, groups: Sequence[Group], seconds: float) -> float:
    """The rate at which forward passes of so many seconds multiply, over that of a large matrix product."""
    model = body(lm.model)
    weights = sum(p.numel() for p in model.parameters()) - lm.model.get_input_embeddings().weight.numel()  # type: ignore
    tokens = sum(len(QueryTree(group).tree) for group in groups)
    side, repeats = 2048, 5
    square = torch.ones(side, side)
    torch.mm(square, square)
    began = time.perf_counter()
    for _ in range(repeats):
        torch.mm(square, square)
    rate = repeats * side**3 / (time.perf_counter() - began)
    return weights * tokens / seconds / rate
