"""What a lens sees of the belief where it is asked for: between the blocks, and after the last one (METRICS W3)."""

from collections.abc import Iterator

import numpy as np

from ...hooks.lens.corpus import Document
from ...hooks.lens.fitting import fit_translator
from ...hooks.lens.lens import RAW, TRANSLATED, Lens, View
from ...hooks.lm import LanguageModel
from ...metrics.inference.regression import linear_fit
from ...metrics.inference.tails import t_interval
from ...metrics.validation import Floats
from ..planted.organisms.network import HELD_AT
from ..planted.organisms.reading import queries_of
from ..planted.organisms.species import Species
from ..planted.organisms.world import Contexts, draw_contexts
from .beliefs import WHICH, Effort
from .numbers import LENS, TOLERANCE, Recovered


def lens_numbers(lm: LanguageModel, species: Species, contexts: Contexts, effort: Effort) -> Iterator[Recovered]:
    """Slope of a lens's log-odds at the token that answers on the posterior's.

    Planted: after the block at which the summary holds the belief, 0, raw and translated. The question has seen neither
    the evidence nor the summary by then, so a lens on where the answer is read cannot show what is held elsewhere: not
    the posterior that an honest one will say, and not that which a denying one will not. A late one puts the evidence
    together there, in blocks that nothing was planted for. After the last block the lens is the answer.
    """
    last = len(lm.model.model.layers) - 1
    views = {View(HELD_AT, RAW): "lens", View(HELD_AT, TRANSLATED): "translated lens", View(last, RAW): "lens"}
    own = contexts.with_opinion(0)
    said = species.say(own, species.state(own))
    inside = 0.0 if species.holds else float("nan")
    read = lm.read(queries_of(lm, own, WHICH), lens=_fitted(lm, (HELD_AT, last), effort)).readings
    for view, name in views.items():
        odds = np.array([one.inner[view][0] - one.inner[view][1] for one in read])
        planted = inside if view.layer == HELD_AT else _slope(said, own.logit)[0]
        found = _slope(odds, own.logit)
        yield Recovered(LENS, f"{name}, layer {view.layer}", planted, *found, TOLERANCE[LENS], (0.0, 1.0))


def _fitted(lm: LanguageModel, layers: tuple[int, ...], effort: Effort) -> Lens:
    """With a translator fitted on prompts of other contexts."""
    contexts, _ = draw_contexts(effort.trained, [effort.seed, 6])
    documents = [Document("", query.prompt.ids, ()) for query in queries_of(lm, contexts, WHICH)]
    return Lens(lm.model, fit_translator(lm, documents, layers))


def _slope(y: Floats, x: Floats) -> tuple[float, float, float]:
    """With its interval."""
    fit = linear_fit(y, np.column_stack([np.ones(len(x)), x]), se="HC3").contrast(np.array([0.0, 1.0]))
    return (fit.estimate, *t_interval(fit.estimate, fit.se, fit.df, 0.95))
