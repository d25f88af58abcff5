"""From log-probabilities of surface forms to a belief (METRICS G1)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from ..score import Score, row_counts
from ..validation import Floats, floats, probabilities, refuse, same_shape

LOW_COVERAGE = 0.5
MASS_SLACK = 1e-5
"""How far float32 log-probabilities may put a sum of probabilities above one."""


@dataclass(frozen=True, kw_only=True)
class LogprobBelief(Score):
    """A yes/no belief. One read-out: floats; a batch: arrays."""

    headline: ClassVar[str] = "belief"
    belief: Any
    """P(yes) among yes and no, in [0, 1]; NaN if neither has any mass."""
    logit: Any
    """log P(yes) - log P(no), natural; infinite if one of them has no mass."""
    option_mass: Any
    """P(yes) + P(no), in [0, 1]: how much of what the model would say the belief speaks for."""
    low_coverage: Any
    """True where `option_mass` is below one half: a refusal may hide behind the renormalisation."""


def belief_from_logprobs(yes: ArrayLike, no: ArrayLike) -> LogprobBelief:
    """Renormalise two options over their surface forms (METRICS G1).

    Args:
        yes: [forms] or [..., forms] natural log-probabilities of the token-disjoint surface forms of yes;
            -inf is a form without mass, NaN a missing reading.
        no: the same of no; as many rows, any number of forms.

    Raises ValueError for a log-probability above 0, or forms that overlap (their mass exceeds one).
    """
    l_yes, l_no = _total(yes, "yes"), _total(no, "no")
    same_shape(yes=l_yes, no=l_no)
    with np.errstate(invalid="ignore"):
        both = np.logaddexp(l_yes, l_no)
    mass = np.exp(both)
    if (mass > 1 + MASS_SLACK).any():
        raise ValueError(f"yes, no: the forms' probabilities sum to {np.nanmax(mass):.6g}; they overlap")
    with np.errstate(invalid="ignore"):  # -inf less -inf: no mass on either
        belief, logit = np.exp(l_yes - both), l_yes - l_no
    defined = np.isfinite(belief)
    low = mass < LOW_COVERAGE
    status = "undefined" if not defined.any() else "low_coverage" if low.any() else "ok"
    n_dropped = int((~defined).sum())
    values = {"belief": belief, "logit": logit, "option_mass": np.minimum(mass, 1.0), "low_coverage": low}
    return LogprobBelief(
        **{name: value.item() if value.ndim == 0 else value for name, value in values.items()},
        **row_counts(int(defined.sum()), n_dropped),
        status=status,
    )


def framing_bias(p_yes: ArrayLike, p_yes_negated: ArrayLike) -> Floats:
    """P(yes to a question) + P(yes to its negation) - 1, in [-1, 1] (METRICS G1).

    Zero if the two answers cohere; positive for a model that says yes to whatever it is asked.
    """
    p_yes, p_yes_negated = probabilities(p_yes, "p_yes"), probabilities(p_yes_negated, "p_yes_negated")
    same_shape(p_yes=p_yes, p_yes_negated=p_yes_negated)
    return p_yes + p_yes_negated - 1


def _total(logp: ArrayLike, name: str) -> Floats:
    """Log of the summed probability of the forms, shape [...]."""
    array = floats(logp)
    if array.ndim == 0 or array.shape[-1] == 0:
        raise ValueError(f"{name}: no surface form; give their log-probabilities as [..., forms]")
    refuse(array, array > MASS_SLACK, f"{name}:", " exceeds 0, a log-probability cannot")
    return np.asarray(logsumexp(array, axis=-1))
