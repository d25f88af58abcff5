"""The beliefs of an organism in every way of reading them, as they are found and as they were planted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit

from ...hooks.lm import LanguageModel
from ...hooks.model.points import Point
from ...metrics.validation import Floats
from ...probes.data.dataset import ProbeData
from ...probes.data.features import ArrayFeatures, ReadAt
from ...probes.evidence.crossfit import CrossFitted, cross_fit
from ...probes.evidence.refit import Refitted, refit
from ...probes.evidence.skill import out_of_fold_r2
from ...probes.folds import grouped_folds
from ...probes.selection.sweep import Sweep, sweep
from ...probes.targets import Target, make_target
from ..planted.organisms.network import HELD_AT
from ..planted.organisms.reading import NOTED, answers, answers_with, numbers, states
from ..planted.organisms.species import Species
from ..planted.organisms.training import NOTED as NOTED_AT
from ..planted.organisms.world import Contexts, UrnQuestion

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
    found = answers(lm, contexts, WHICH, {SUMMARY: NOTED})
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
    return Sides(found[0], found[1], (found[0][ANSWER],) * 2)


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
        refit(statistic, data.groups, folds, draws=effort.refits, seed=effort.seed)["r2"],
        sweep(data, folds, draws=effort.permutations, seed=effort.seed),
    )


def read_by(probed: Probed, arrays: Mapping[ReadAt, Floats]) -> Floats:
    """[n] log-odds of the states of the same contexts, each by the fit that did not see its context."""
    x = arrays[REGISTERED]
    found = np.empty(len(x))
    for k, readout in enumerate(probed.crossed.readouts):
        found[probed.folds == k] = readout.logit(x[probed.folds == k])
    return found
