"""Tables of questions that follow from each other: what an arbitrageur surely gains, and how many standard errors the
beliefs are from coherence (METRICS W8, W9).
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy

from ..contract import Array, Resampling
from ..divergence import LOGIT_EPS
from ..inference.means import LOSS
from ..metric import Compared, Line, compare_mean, mean_of, metric
from ..tables.checks import Related
from ..tables.samples import Cases, Forecasts, Sample, YesNo
from .probability_laws import dutch_book
from .related_questions import RELATIONS, arbitrage, frequentist_violation

SIGMA, GAMMA, TOLERANCE = 0.05, 2.58, 0.01
"""The paper calls a tuple violated from `GAMMA * SIGMA` standard errors on, or from so many nats."""
LEAST_RANKED = 10
"""Rows that two numbers are correlated over."""

Answered = Sequence[tuple[str, Array]]
"""Relation -> [n, questions] beliefs."""


def _related(sample: Related) -> Answered:
    columns = dict(zip(sample.questions, sample.answers.T, strict=True))
    return [
        (name, np.column_stack([columns[question] for question in relation.questions]))
        for name, relation in RELATIONS.items()
        if columns.keys() >= set(relation.questions)
    ]


def _negation(sample: YesNo) -> Answered:
    assert sample.negated is not None
    return [("negation", np.column_stack([sample.belief, sample.negated]))]


def _cases(sample: Cases) -> Answered:
    assert sample.weight_of_first is not None
    return [("expected_evidence", np.column_stack([sample.p, sample.weight_of_first, sample.conditional]))]


def _compare(of: Callable[[Any], Answered]) -> Callable[[Any], list[Compared]]:
    def compare(sample: Any) -> list[Compared]:
        made = []
        for name, beliefs in of(sample):
            for metric_name, values in _violations(name, beliefs).items():
                worst = float(_violations(name, _CORNERS[beliefs.shape[1]])[metric_name].max())
                made.append(compare_mean(metric_name, values, sample, worst))
        return made

    return compare


_CORNERS = {k: np.array(np.meshgrid(*[[0.0, 1.0]] * k)).reshape(k, -1).T for k in (2, 3, 4)}


def _violations(name: str, beliefs: Array) -> dict[str, Array]:
    return {
        f"arbitrage_{name}": arbitrage(beliefs, RELATIONS[name].payoffs),
        f"frequentist_{name}": frequentist_violation(beliefs, name),
    }


def _lines(sample: Sample, answered: Answered, how: Resampling) -> Iterator[Line]:
    for name, beliefs in answered:
        about = RELATIONS[name].about
        quantities = (f"arbitrage on {about}, nats", f"violation by {about}, in standard errors of a sampled answer")
        half = _violations(name, np.full((1, beliefs.shape[1]), 0.5))
        for (metric_name, values), quantity, most in zip(
            _violations(name, beliefs).items(), quantities, (TOLERANCE, GAMMA * SIGMA), strict=True
        ):
            known = values[np.isfinite(values)]
            beside = {f"above {most:g}": f"{(known > most).mean():.1%}"} if known.size else {}
            beside["of one half, whatever is asked"] = f"{half[metric_name][0]:.3f}"
            if quantity is quantities[0]:
                beside |= _ranks(sample, beliefs, values, name)
                if clipped := int((np.abs(beliefs - 0.5) > 0.5 - LOGIT_EPS).sum()):
                    beside[f"beliefs moved {LOGIT_EPS:g} off 0 or 1"] = f"{clipped}"
            yield Line(metric_name, quantity, mean_of(sample, values, how, LOSS), beside)


def _ranks(sample: Sample, beliefs: Array, values: Array, name: str) -> dict[str, str]:
    """What it has in common with the Dutch book on the same bets, and with the Brier score of the first question."""
    others = {"rank correlation with the sure loss of a Dutch book": dutch_book(beliefs, RELATIONS[name].payoffs).loss}
    if isinstance(sample, Forecasts) and sample.outcome is not None:
        others["rank correlation with the Brier score"] = (beliefs[:, 0] - sample.outcome) ** 2
    found = {}
    for text, other in others.items():
        both = np.isfinite(values) & np.isfinite(other)
        if both.sum() >= LEAST_RANKED and np.ptp(values[both]) > 0 and np.ptp(other[both]) > 0:
            found[text] = f"{scipy.stats.spearmanr(values[both], other[both]).statistic:.3f}"
    return found


related_metric = partial(metric, "W8, W9", slow=True)


@related_metric(
    "p and not_p, para_p or cons_p; p, q and p_and_q or p_or_q; p, q_given_p and p_and_q; ... [, outcome]",
    Related,
    compare=_compare(_related),
    place=650,
)
def related_questions_lines(sample: Related, how: Resampling) -> Iterator[Line]:
    """What beliefs that follow from each other lose to an arbitrageur, and in standard errors of a sampled answer."""
    yield from _lines(sample, _related(sample), how)


NEGATED = "logp_yes, logp_no, logp_negated_yes, logp_negated_no"


@related_metric(NEGATED, YesNo, needs=("negated",), compare=_compare(_negation), place=651)
def related_negation_lines(sample: YesNo, how: Resampling) -> Iterator[Line]:
    """The same of a statement and its negation. 0: they sum to one."""
    yield from _lines(sample, _negation(sample), how)


@related_metric(
    "p, cond_1, weight_1, cond_2, weight_2", Cases, needs=("weight_of_first",), compare=_compare(_cases), place=652
)
def related_cases_lines(sample: Cases, how: Resampling) -> Iterator[Line]:
    """The same of a belief and the beliefs given either answer to another question. 0: it is their mean."""
    yield from _lines(sample, _cases(sample), how)
