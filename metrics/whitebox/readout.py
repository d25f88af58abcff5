"""From log-probabilities of surface forms to a belief (METRICS G1), in branches of one context (METRICS W1), and
with or without being asked (METRICS W6).
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from ..contract import (
    NAN,
    RESAMPLING,
    TIE,
    Floats,
    Resampling,
    Score,
    floats,
    probabilities,
    refuse,
    row_counts,
    same_shape,
)
from ..divergence import clipped_logit, entropy_bits
from ..inference.clusters import complete_beliefs
from ..inference.means import cluster_mean
from ..inference.randomisation import sign_flip_test

LOW_COVERAGE = 0.5
MASS_SLACK = 1e-5
"""How far float32 log-probabilities may put a sum of probabilities above one."""


class LogprobBelief(Score, headline="belief"):
    """A yes/no belief. One read-out: floats; a batch: arrays."""

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
    values: dict[str, Any] = {
        "belief": belief,
        "logit": logit,
        "option_mass": np.minimum(mass, 1.0),
        "low_coverage": low,
    }
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


# Has the model made a choice that it has not told? Branches of one context (METRICS W1).


class ForkCoherence(Score, headline="rms"):
    """METRICS W1. Floats for one context, arrays [n] for a batch; a batch is aggregated by its clusters."""

    rms: Any
    """sqrt(mean (q - r)^2): 0 for a kept choice."""
    excess: Any
    """sum q - 1: positive when "yes" is said to more than one option."""
    corr: Any
    """Pearson over the options; NaN if either is constant."""
    commitment: Any
    """1 - H(r) / log2 k, in [0, 1]: 1 when one option would surely be revealed."""


def fork_coherence(q: ArrayLike, r: ArrayLike) -> ForkCoherence:
    """Compare "Is it d?", asked of every option in its own branch, with the reveal (METRICS W1).

    Args:
        q: [k] or [n, k], P(yes) / (P(yes) + P(no)) per option.
        r: the same shape, the mass of revealing each option; normalised here.

    A NaN, or a reveal without mass on the options, makes that context NaN. One option has no commitment.
    """
    q, r = probabilities(q, "q"), probabilities(r, "r")
    same_shape(q=q, r=r)
    if q.ndim not in (1, 2) or not q.shape[-1]:
        raise ValueError(f"q: shape {q.shape}; give [k] or [n, k]")
    k = q.shape[-1]
    total = r.sum(axis=-1, keepdims=True)
    r = r / np.where(total > 0, total, np.nan)
    bad = np.isnan(q + r).any(axis=-1)
    u, v = (x - x.mean(axis=-1, keepdims=True) for x in (q, r))
    flat = (np.ptp(q, axis=-1) <= TIE) | (np.ptp(r, axis=-1) <= TIE)
    scale = np.sqrt((u**2).sum(axis=-1) * (v**2).sum(axis=-1))
    commitment = np.clip(1 - entropy_bits(r) / np.log2(k), 0.0, 1.0) if k > 1 else np.full(bad.shape, np.nan)
    fields: dict[str, Any] = {
        "rms": np.sqrt(((q - r) ** 2).mean(axis=-1)),
        "excess": q.sum(axis=-1) - 1,
        "corr": (u * v).sum(axis=-1) / np.where(flat, np.nan, scale),
        "commitment": commitment,
    }
    fields = {name: np.where(bad, np.nan, value)[()] for name, value in fields.items()}
    n_bad = int(bad.sum())
    return ForkCoherence(
        **fields, **row_counts(bad.size - n_bad, n_bad), status="ok" if n_bad < bad.size else "undefined"
    )


# What asking does: beliefs read in passing against beliefs that were asked for (METRICS W6).


class QueryEffect(Score, headline="effect"):
    """METRICS W6."""

    effect: float = NAN
    """Mean of queried - passive, in [-1, 1]."""
    rms: float = NAN
    """Root mean square of it: effects that cancel in the mean do not here."""
    logit_effect: float = NAN
    """Mean difference of log-odds."""
    n_clipped: int = 0
    """Probabilities moved to 1e-6 off 0 or 1 so that their log-odds are finite."""


def query_effect(
    passive: ArrayLike, queried: ArrayLike, groups: ArrayLike | None = None, *, how: Resampling = RESAMPLING
) -> QueryEffect:
    """Difference between a belief that is asked for and the one that is there unasked (METRICS W6).

    Args:
        passive: [n] beliefs read at a position without a question (probe or lens).
        queried: [n] at the same position with the question appended.
        groups: [n] item, the unit of the interval and of the sign flips behind `p`. None: every row its own.

    What the passive read-out itself gets wrong is part of the difference: pass its gate first (`readout_gate`).
    """
    rows = complete_beliefs(groups, passive=passive, queried=queried)
    if not rows.n:
        return QueryEffect(status="too_few", **rows.counts)
    before, after = rows.columns
    (logit_before, clipped_before), (logit_after, clipped_after) = (
        clipped_logit(x, name) for x, name in ((before, "passive"), (after, "queried"))
    )
    mean = cluster_mean(after - before, rows.codes, how=how)
    flips = sign_flip_test(after - before, rows.codes, how=Resampling(how.seed))
    return QueryEffect(
        effect=mean.mean,
        rms=float(np.sqrt(np.mean((after - before) ** 2))),
        logit_effect=float(np.mean(logit_after - logit_before)),
        n_clipped=clipped_before + clipped_after,
        p=flips.p,
        p_method=flips.p_method,
        status=mean.status,
        **mean.interval(),
        **rows.counts,
    )
