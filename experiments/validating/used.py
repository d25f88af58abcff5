"""Whether what a probe reads is used: causal gains, belief surgery, and a probe of what is not used (PROBES 9)."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from scipy.special import expit

from ...hooks.lm import LanguageModel
from ...hooks.prompts.options import make_options
from ...probes.estimators.readout import LinearReadout
from ...probes.estimators.ridge import RidgeOnLogOdds
from ..planted.organisms.network import HELD_AT
from ..planted.organisms.reading import NOTED
from ..planted.organisms.world import Contexts, UrnQuestion, draw_contexts
from ..probing.causal import CausalCheck, CausalContext, CausalPlace, CausalPlan, CausalQuestion, causal_check
from .beliefs import ANSWER, BET, BETS, REGISTERED, WHICH, Effort, Probed, states_and_answers

PLAN = CausalPlan(
    directions=("pattern",), doses=(0.5, 1.0), dose=1.0, random=0, surgery=(0.1, 0.3, 0.7, 0.9), erase=False
)
CONTEXTS, TRAINED = 30, 80
"""In which a probe is checked, and on which that of the opinion is trained."""


def checks_of_belief(lm: LanguageModel, probed: Probed, effort: Effort) -> Iterator[tuple[str, CausalCheck]]:
    """(reading, check of the probe on it), in contexts that the probe was not trained on.

    All of them have one prior: a probe's pattern carries what covaries with the belief, the prior among it, and what
    says the prior would follow it there.
    """
    contexts, _ = draw_contexts(CONTEXTS, [effort.seed, 3])
    plain = replace(contexts.with_opinion(0), prior=np.full(CONTEXTS, 50))
    names = [f"{i:05}" for i in range(CONTEXTS)]
    for reading, ask in ((ANSWER, WHICH), (BET, BETS[0])):
        yield reading, _check(lm, plain, ask, names, probed.crossed.readouts[0], effort)


def check_of_opinion(lm: LanguageModel, effort: Effort) -> CausalCheck:
    """Of a probe of the user's opinion, on the answer. Evidence is the same under both opinions, so that neither the
    probe nor its pattern holds any of it.
    """
    contexts, _ = draw_contexts(TRAINED, [effort.seed, 4])
    states = [states_and_answers(lm, contexts.with_opinion(o))[1][REGISTERED] for o in (-1, 1)]
    readout = RidgeOnLogOdds().fit(np.concatenate(states), np.repeat([0.0, 1.0], TRAINED))
    half = draw_contexts(CONTEXTS // 2, [effort.seed, 5])[0]
    both = [half.with_opinion(o) for o in (-1, 1)]
    columns = ("warm_left", "prior", "draws", "opinion")
    pairs = Contexts(*(np.concatenate([getattr(one, name) for one in both]) for name in columns))
    return _check(lm, pairs, WHICH, [f"{i:05}" for i in range(len(half))] * 2, readout, effort)


def _check(
    lm: LanguageModel, contexts: Contexts, ask: UrnQuestion, groups: list[str], probe: LinearReadout, effort: Effort
) -> CausalCheck:
    options = make_options(ask.options)
    named = [
        CausalContext(
            f"{i:05}", group, CausalQuestion(contexts.conversation(i, ask), options, (1.0, 0.0)), target=float(p)
        )
        for i, (group, p) in enumerate(zip(groups, expit(contexts.logit), strict=True))
    ]
    plan = PLAN.model_copy(update={"seed": effort.seed})
    return causal_check(lm, named, probe, CausalPlace(HELD_AT, NOTED), plan)
