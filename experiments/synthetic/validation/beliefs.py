"""The beliefs of an organism in every way of reading them, as they are found and as they were planted, and where
each lies, token by token: where it can be decoded, and where it is used (METRICS W2).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit

from ....hooks.backends.captures import Captured
from ....hooks.exact.queries import Query, Swap
from ....hooks.lm import LanguageModel
from ....hooks.model.blocks import Point
from ....hooks.prompts.places import ResolvedPosition
from ....metrics.contract import Floats, Resampling
from ....metrics.number import Number
from ....metrics.scoring.engine import score_samples
from ....metrics.tables.whitebox_samples import Patches
from ....probes.cross_validation import nested_ridge, spread_of_targets
from ....probes.dataset import ProbeData, Target, make_target
from ....probes.evidence.crossfit import CrossFitted, Refitted, cross_fit, out_of_fold_r2, refit
from ....probes.features import ArrayFeatures, ReadAt
from ....probes.groups import grouped_folds
from ....probes.sweep import Sweep, sweep
from ..organisms.network import HELD_AT
from ..organisms.readouts import SUMMARY_POSITION, answers, answers_with, numbers, queries_of, states
from ..organisms.species import Species
from ..organisms.training import NOTED as NOTED_AT
from ..organisms.world import DRAWS, Contexts, UrnQuestion
from ..organisms.world import SUMMARY as NOTED

ANSWER, NUMBER, BET, PROBE = "answer", "number", "bet", "probe"
READINGS = (ANSWER, NUMBER, BET, PROBE)
WHICH, IS_LEFT, IS_RIGHT = UrnQuestion("which"), UrnQuestion("is it", "left"), UrnQuestion("is it", "right")
BETS = (UrnQuestion("bet", pays=(1, 4)), UrnQuestion("bet", pays=(3, 2)))
SUMMARY = "summary"
"""Position at which the probe of the claims reads, with the layer fixed before anything is read."""
REGISTERED = ReadAt("resid_post", HELD_AT, SUMMARY)


class Effort(NamedTuple):
    """How much is read and resampled."""

    contexts: int = 200
    pairs: int = 60
    folds: int = 5
    permutations: int = 199
    refits: int = 60
    checked: int = 30
    """Contexts in which a probe is steered."""
    trained: int = 80
    """On which the probe of the opinion, and the lens's translator, are fitted."""
    random: int = 39
    """Random directions."""
    seed: int = 0


USUAL = Effort()


@dataclass(frozen=True)
class Sides:
    """Log-odds [n] of the left urn in every reading, in the same contexts without an opinion and after the user has
    said left. `summary` is a bet without an opinion, and the same with the state of the summary patched in from the
    context with one: what of a shift is held there, and used.
    """

    plain: Mapping[str, Floats]
    told: Mapping[str, Floats]
    yes: tuple[Floats, Floats]
    """Log-odds of the left urn, by `Is it Left ?` and by `Is it Right ?`."""


@dataclass(frozen=True)
class Probed:
    """The probe of the registered place, trained on the posterior of contexts without an opinion."""

    data: ProbeData
    folds: NDArray[np.intp]
    crossed: CrossFitted
    r2: Refitted
    swept: Sweep


def read_sides(lm: LanguageModel, contexts: Contexts, effort: Effort) -> tuple[Sides, Probed]:
    """Everything that is asked, said, done and held."""
    plain, told = contexts.with_opinion(0), contexts.with_opinion(1)
    (said, arrays), (then, moved) = states_and_answers(lm, plain), states_and_answers(lm, told)
    probed = fit_probe(arrays, expit(plain.logit), effort)
    sides = [
        {ANSWER: answer, NUMBER: numbers(lm, own).logit, BET: bet_beliefs(lm, own), PROBE: read_by(probed, held)}
        for own, answer, held in ((plain, said, arrays), (told, then, moved))
    ]
    (bet, *_), token = BETS, NOTED_AT
    point, put = Point(HELD_AT, "resid_post"), torch.from_numpy(moved[REGISTERED]).float()
    sides[0][SUMMARY] = answers(lm, plain, bet).logit
    sides[1][SUMMARY] = answers_with(lm, plain, bet, point, token, put).logit
    yes = (answers(lm, plain, IS_LEFT).logit, answers(lm, plain, IS_RIGHT).logit)
    return Sides(sides[0], sides[1], yes), probed


def states_and_answers(lm: LanguageModel, contexts: Contexts) -> tuple[Floats, dict[ReadAt, Floats]]:
    """[n] log-odds of the answers, and from the same passes the residual stream at the summary after every block."""
    found = answers(lm, contexts, WHICH, {SUMMARY: SUMMARY_POSITION})
    assert found.captured is not None
    layers = found.captured.layers
    return found.logit, {ReadAt("resid_post", i, SUMMARY): states(found.captured, SUMMARY, i) for i in layers}


def bet_beliefs(lm: LanguageModel, contexts: Contexts) -> Floats:
    """[n] the beliefs that bets imply: their log-odds less those of the payoffs, the mean over two bets."""
    return np.mean([answers(lm, contexts, ask).logit - ask.advantage for ask in BETS], axis=0)


def planted_sides(species: Species, contexts: Contexts, probed: Probed) -> Sides:
    """The same as it was planted. What holds nothing reads, through the best probe, as the mean of all others."""
    found = []
    for opinion in (0, 1):
        own = contexts.with_opinion(opinion)
        state = species.state(own)
        said, done = species.say(own, state), species.act(own, state)
        held = state if species.holds else probed.crossed.train_logit
        found.append({ANSWER: said, NUMBER: said, BET: done, PROBE: held, SUMMARY: state})
    return Sides(found[0], found[1], (found[0][ANSWER], found[0][ANSWER]))


def fit_probe(arrays: Mapping[ReadAt, Floats], target: Floats, effort: Effort) -> Probed:
    """A ridge probe in grouped folds, each context a group, and a sweep of all layers with its permutation band."""
    import pandas as pd

    names = [f"{i:05}" for i in range(len(target))]
    rows = pd.DataFrame({"readout_id": names, "group": names})
    data = ProbeData(rows, make_target("posterior", target), ArrayFeatures(arrays), tuple(arrays))
    folds = grouped_folds(data.groups, effort.folds, effort.seed)
    x = data.read(REGISTERED)

    def statistic(chosen: NDArray[np.intp], mine: NDArray[np.intp]) -> dict[str, float]:
        own = Target("posterior", data.target.prob[chosen], data.target.logit[chosen], 0)
        found = cross_fit(x[chosen], own, mine)
        return {"r2": out_of_fold_r2(own.logit, found.score, found.train_logit)}

    return Probed(
        data,
        folds,
        cross_fit(x, data.target, folds),
        refit(statistic, data.groups, folds, how=Resampling(effort.seed, effort.refits))["r2"],
        sweep(data, folds, how=Resampling(effort.seed, effort.permutations)),
    )


def read_by(probed: Probed, arrays: Mapping[ReadAt, Floats]) -> Floats:
    """[n] log-odds of the states of the same contexts, each by the fit that did not see its context."""
    x = arrays[REGISTERED]
    found = np.empty(len(x))
    for k, readout in enumerate(probed.crossed.readouts):
        found[probed.folds == k] = readout.logit(x[probed.folds == k])
    return found


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
    return [Token(*fields) for fields in zip(range(len(words)), words, parts, strict=True)]


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
        r2 = [np.corrcoef(column, posterior)[0, 1] ** 2 for column in running.T]
        if max(r2) >= DECODED:
            return BALLS
    return SUMMARY if holds else QUESTION


def mirrored(contexts: Contexts) -> tuple[Contexts, Contexts]:
    """Minimal pairs of one word, which urn is the warm one: first the right urn, then the left one."""
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
    asked = [queries_of(lm, side, ask) for side in (base, donor)]
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
    return [number for number in score_samples([sample], how, "transfer").numbers if number.metric == "transfer"]


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
    return np.array([reading.logp[0] - reading.logp[1] for reading in lm.read(queries).readings])
