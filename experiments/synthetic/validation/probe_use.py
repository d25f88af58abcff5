"""Whether what a probe reads is used: causal gains beside random directions, belief surgery, and a probe of what is
not used (PROBES 9), in organisms."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from ....hooks.lm import LanguageModel
from ....hooks.prompts.options import make_options
from ....metrics import Resampling
from ....metrics.contract import Floats
from ....metrics.inference.means import ClusterMean, cluster_mean
from ....probes.causal.plan import CausalPlan
from ....probes.estimators import LinearReadout, RidgeOnLogOdds
from ...probing.causal import (
    Background,
    CausalCheck,
    CausalContext,
    CausalPlace,
    CausalQuestion,
    WithoutFold,
    causal_check,
)
from ..organisms.network import HELD_AT
from ..organisms.readouts import SUMMARY_POSITION
from ..organisms.world import Contexts, UrnQuestion, draw_contexts
from .beliefs import ANSWER, BET, BETS, REGISTERED, WHICH, Effort, Probed, states_and_answers

PLAN = CausalPlan(directions=("pattern",), doses=(0.5, 1.0), dose=1.0, erase=False)
"""The dose at which directions are compared is the larger one."""
FOLDS = 10
"""Without each of which the probe of the opinion is fitted anew."""


class CheckedProbe(NamedTuple):
    """A probe, what its directions are made of, and both without each fold."""

    readout: LinearReadout
    background: Background
    without: Sequence[WithoutFold]

    @property
    def rest(self) -> Floats:
        """[n, d] the background less what goes along with the probe's score: of an organism's states at one prior the
        belief is .94 to .98 of the variance, and directions drawn from all of it would be the belief's own."""
        x = self.background.x
        score = self.readout.score(x) - self.readout.score(x).mean()
        return x - np.outer(score / score.var(), self.readout.pattern(x))


def checks_of_belief(lm: LanguageModel, probed: Probed, effort: Effort) -> Iterator[tuple[str, CausalCheck]]:
    """(reading, check of the probe on it), in contexts that the probe was not trained on.

    All of them have one prior: a probe's pattern carries what covaries with the belief, the prior among it, and what
    says the prior would follow it there.
    """
    fits = probed.crossed.readouts
    known = _of_one_prior(effort.contexts, [effort.seed, 7])
    x, folds = states_and_answers(lm, known)[1][REGISTERED], np.arange(len(known)) % len(fits)
    background = _background(x, expit(known.logit))
    mean = LinearReadout.from_direction(
        np.mean([one.direction for one in fits], axis=0), float(np.mean([one.offset for one in fits]))
    )
    without = [WithoutFold(one, _rows(background, folds != k)) for k, one in enumerate(fits)]
    plan = PLAN.model_copy(
        update={"random": effort.random, "random_contexts": effort.checked // 3, "surgery": (0.1, 0.3, 0.7, 0.9)}
    )
    contexts = _of_one_prior(effort.checked, [effort.seed, 3])
    names = [f"{i:05}" for i in range(len(contexts))]
    for reading, ask in ((ANSWER, WHICH), (BET, BETS[0])):
        yield reading, _check(lm, contexts, ask, names, CheckedProbe(mean, background, without), plan, effort)


def check_of_opinion(lm: LanguageModel, effort: Effort) -> CausalCheck:
    """Of a probe of the user's opinion, on the answer.

    Every context stands under both opinions, and the direction is the mean difference between them, so that none of the
    evidence is in it. The probe's pattern would not do: ridge leaves a little of the evidence in the score, and what
    covaries with that is used.
    """
    contexts, _ = draw_contexts(effort.trained, [effort.seed, 4])
    states = [states_and_answers(lm, contexts.with_opinion(o))[1][REGISTERED] for o in (-1, 1)]
    pairs = np.tile(np.arange(effort.trained), 2)
    background = _background(np.concatenate(states), np.repeat([0.0, 1.0], effort.trained))

    def fitted(rows: Background) -> LinearReadout:
        return RidgeOnLogOdds().fit(rows.x, rows.target)

    rest = [_rows(background, pairs % FOLDS != k) for k in range(FOLDS)]
    found = CheckedProbe(fitted(background), background, [WithoutFold(fitted(one), one) for one in rest])
    half = draw_contexts(effort.checked // 2, [effort.seed, 5])[0]
    both = [half.with_opinion(o) for o in (-1, 1)]
    columns = ("warm_left", "prior", "draws", "opinion")
    checked = Contexts(*(np.concatenate([getattr(one, name) for one in both]) for name in columns))
    plan = PLAN.model_copy(update={"directions": ("means",), "random": 0, "surgery": ()})
    return _check(lm, checked, WHICH, [f"{i:05}" for i in range(len(half))] * 2, found, plan, effort)


def random_gain(check: CausalCheck, effort: Effort) -> ClusterMean:
    """Mean over random directions of the size of what a step as long as the probe's does to the belief, for each nat
    that the probe reads after its own step: on that scale the probe's own direction has its causal gain. The signs of
    random directions are arbitrary, and would cancel.
    """
    band = check.numbers.band
    assert band is not None
    read = check.numbers.slopes["probe"].ratio * PLAN.dose
    return cluster_mean(np.abs(band.effects / read), np.arange(len(band.effects)), how=Resampling(seed=effort.seed))


def _of_one_prior(n: int, seed: Sequence[int]) -> Contexts:
    return replace(draw_contexts(n, seed)[0].with_opinion(0), prior=np.full(n, 50))


def _background(x: Floats, target: Floats) -> Background:
    return Background(x, target, np.arange(len(x)))


def _rows(known: Background, kept: np.ndarray) -> Background:
    return Background(*(column[kept] for column in known))


def _check(
    lm: LanguageModel,
    contexts: Contexts,
    ask: UrnQuestion,
    groups: list[str],
    fitted: CheckedProbe,
    plan: CausalPlan,
    effort: Effort,
) -> CausalCheck:
    options = make_options(ask.options)
    named = [
        CausalContext(
            f"{i:05}", group, CausalQuestion(contexts.conversation(i, ask), options, (1.0, 0.0)), target=float(p)
        )
        for i, (group, p) in enumerate(zip(groups, expit(contexts.logit), strict=True))
    ]
    return causal_check(
        lm,
        named,
        fitted.readout,
        CausalPlace(HELD_AT, SUMMARY_POSITION),
        plan.model_copy(update={"seed": effort.seed}),
        background=fitted.background,
        without=fitted.without,
        random_from=fitted.rest,
    )
