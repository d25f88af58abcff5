"""Where a belief lies, token by token: where it can be decoded, and where it is used (METRICS W2)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ...hooks.backends.captured import Captured
from ...hooks.lm import LanguageModel
from ...hooks.model.points import Point
from ...hooks.prompts.places import ResolvedPosition
from ...hooks.prompts.query import Query, Swap
from ...metrics.validation import Floats
from ...probes.selection.nested import nested_ridge, spread_of_targets
from ..planted.organisms.language import SUMMARY as NOTED
from ..planted.organisms.network import HELD_AT
from ..planted.organisms.reading import queries_of
from ..planted.organisms.world import DRAWS, Contexts, UrnQuestion
from ..scoring.engine import score_samples
from ..scoring.number import Number, Resampling
from ..tables.samples import Patches
from .beliefs import SUMMARY, WHICH, Probed

BALLS, QUESTION, READ = "balls", "question", "answer"
PARTS = (BALLS, SUMMARY, QUESTION, READ)
DECODED = 0.95
"""R2 of the final posterior from which on a token is said to hold it: five balls of six say .85 of it."""


class Token(NamedTuple):
    """One token of the prompt of `Which urn ?`."""

    at: int
    word: str
    part: str
    """Of the prompt; empty before the balls."""


def tokens_of(lm: LanguageModel, contexts: Contexts) -> list[Token]:
    """The tokens of the prompts, which are as long as each other and have the same parts."""
    query = queries_of(lm, contexts.take([0]), WHICH)[0]
    words = [str(word) for word in lm.tokenizer.convert_ids_to_tokens(list(query.prompt.ids))]
    noted, first = words.index(NOTED), words.index("drew") + 1
    parts = [""] * first + [BALLS] * DRAWS + [""] * (noted - first - DRAWS) + [SUMMARY]
    parts += [QUESTION] * (len(words) - len(parts) - 1) + [READ]
    return [Token(*one) for one in zip(range(len(words)), words, parts, strict=True)]


def decodable(lm: LanguageModel, contexts: Contexts, probed: Probed) -> Floats:
    """[tokens, layers] out-of-fold R2 of the final posterior by a ridge probe at each token after each block."""
    captured = _streams(lm, queries_of(lm, contexts.with_opinion(0), WHICH))
    target = probed.data.target.logit[:, None]
    spread = spread_of_targets(target, probed.folds).sum()
    stream = captured.residuals["resid_post"].double().numpy()
    values = stream.reshape(len(contexts), -1, *stream.shape[1:])
    return np.array(
        [
            [
                1 - nested_ridge(values[:, token, layer], target, probed.folds, keep=False).outer.sum() / spread
                for layer in range(values.shape[2])
            ]
            for token in range(values.shape[1])
        ]
    )


def held_from(r2: Floats, tokens: Sequence[Token]) -> Token | None:
    """The first token that holds the final posterior after any block."""
    best = r2.max(axis=1)
    return next((token for token in tokens if token.part and best[token.at] >= DECODED), None)


def planted_from(running: Floats | None, holds: bool, posterior: Floats) -> str:
    """The part of the prompt at which a belief that was planted first tells the final posterior as well."""
    if running is not None:
        r2 = [np.corrcoef(one, posterior)[0, 1] ** 2 for one in running.T]
        if max(r2) >= DECODED:
            return BALLS
    return SUMMARY if holds else QUESTION


def mirrored(contexts: Contexts) -> tuple[Contexts, Contexts]:
    """Minimal pairs of one word: which urn is the warm one. The first speaks for the right urn, the second for the left
    one.
    """
    own = contexts.with_opinion(0)
    other = replace(own, warm_left=-own.warm_left)
    swap = own.logit > other.logit
    base = replace(own, warm_left=np.where(swap, other.warm_left, own.warm_left))
    return base, replace(base, warm_left=-base.warm_left)


def used_at_summary(lm: LanguageModel, contexts: Contexts, ask: UrnQuestion, how: Resampling) -> Number:
    """The share of the posterior's update that moves with the state of the summary at the registered layer: the whole
    residual there is exchanged between contexts, both ways.
    """
    return _transfers(lm, contexts, ask, [(SUMMARY, HELD_AT)], how)[0]


def transfer_map(lm: LanguageModel, contexts: Contexts, layers: int, how: Resampling) -> list[Number]:
    """The same of every part of the prompt after every block, of the answer."""
    return _transfers(lm, contexts, WHICH, [(part, layer) for part in PARTS for layer in range(layers)], how)


def _transfers(
    lm: LanguageModel, contexts: Contexts, ask: UrnQuestion, cells: Sequence[tuple[str, int]], how: Resampling
) -> list[Number]:
    """Share of the update that moves, of each cell (part, layer)."""
    base, donor = mirrored(contexts)
    informative = np.flatnonzero(donor.logit - base.logit > 0.5)
    base, donor = base.take(informative), donor.take(informative)
    asked = [queries_of(lm, one, ask) for one in (base, donor)]
    streams = [_streams(lm, queries) for queries in asked]
    places = {part: [t.at for t in tokens_of(lm, contexts) if t.part == part] for part in PARTS}
    length = len(asked[0][0].prompt.ids)
    plain = [_odds(lm, queries) for queries in asked]
    update = donor.logit - base.logit
    columns: dict[str, list[Floats]] = {"patched": [], "patched_reverse": []}
    for part, layer in cells:
        for name, into, source in (("patched", 0, 1), ("patched_reverse", 1, 0)):
            put = [
                replace(query, swap=_swap(streams[source], i * length, places[part], layer))
                for i, query in enumerate(asked[into])
            ]
            columns[name].append(_odds(lm, put))
    n = len(informative)
    names = np.array([f"{i:05}" for i in informative])
    # What moves is told as a share of what Bayes' rule says should move, whatever the answer does with it.
    away = columns["patched_reverse"]
    sample = Patches(
        kind="exact",
        method=ask.text,
        base=np.tile(plain[0], len(cells)),
        donor=np.tile(plain[0] + update, len(cells)),
        patched=np.concatenate(columns["patched"]),
        patched_reverse=np.concatenate([back - plain[1] + plain[0] + update for back in away]),
        clusters=np.tile(names, len(cells)),
        pair=np.tile(names, len(cells)) if len(cells) > 1 else None,
        cell=np.repeat([cell_name(part, layer) for part, layer in cells], n) if len(cells) > 1 else None,
    )
    return [one for one in score_samples([sample], how, "transfer").numbers if one.metric == "transfer"]


def cell_name(part: str, layer: int) -> str:
    """As a cell of the map is called."""
    return f"{part}, layer {layer}"


def _swap(stream: Captured, start: int, tokens: Sequence[int], layer: int) -> Swap:
    rows = [start + token for token in tokens]
    values = stream.residuals["resid_post"][rows, stream.layers.index(layer)]
    return Swap(tuple(tokens), {Point(layer, "resid_post"): values})


def _streams(lm: LanguageModel, queries: Sequence[Query]) -> Captured:
    """The residual stream after every block at every token."""
    every = [
        replace(query, places=tuple(ResolvedPosition("prompt", i, 1) for i in range(len(query.prompt.ids))))
        for query in queries
    ]
    captured = lm.read(every, capture={"layers": "all"}).captured
    assert captured is not None
    return captured


def _odds(lm: LanguageModel, queries: Sequence[Query]) -> Floats:
    """[n] log-odds of the first answer."""
    return np.array([one.logp[0] - one.logp[1] for one in lm.read(queries).readings])
