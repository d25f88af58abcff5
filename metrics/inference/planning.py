"""What a study of so many clusters can claim, before anything is read (METRICS F3, F8): how many clusters a claim
takes, how often an agent wins it that is coherent but for noise, how wide an interval so many give, and the smallest
effect that they can show.
"""

from collections.abc import Mapping
from functools import cache
from typing import Literal, NamedTuple

import numpy as np
import scipy

from .equivalence import claim_clusters
from .intervals import t_interval
from .paired import POWER, minimum_detectable

READING_NOISE, LEAK = 0.3, 0.01
"""Of the agent that a claim is planned for: it is coherent, but each reading is off by so many nats (SD), and a
rejected option keeps so much of the answer."""
ESTIMATION_ONLY = "estimation only"
DRAWS = 2_000
ALPHA = 0.05


class PlannedSpread(NamedTuple):
    """What that agent makes of a number."""

    off: float
    """How far its mean lies from that of a coherent agent, because of noise and leak."""
    sd: float
    """Standard error of the number times the root of the clusters."""
    worst: float = 1.0
    """The farthest from coherence that a cluster can be."""
    padded: float = 0.0
    """A larger `sd`, if any, by which a claim is planned."""


SPREADS: Mapping[str, PlannedSpread] = {
    "c2": PlannedSpread(0.013, 0.015, padded=0.02),
    "kappa_word": PlannedSpread(0.088, 0.042),
    "framing_bias": PlannedSpread(0.0, 0.072),
    "excess": PlannedSpread(0.0, 0.83, 27.6),
    "sufficiency": PlannedSpread(0.077, 0.183),
    "M": PlannedSpread(0.022, 0.42),
    "control_iv": PlannedSpread(0.0, 0.46),
    "b_excess": PlannedSpread(0.0, 0.012, 2.0),
    "top_b": PlannedSpread(0.0, 0.022),
    "update": PlannedSpread(0.0, 2.05, 27.6),
}
"""Number -> its spread, by simulation of the agent through the metric: `excess` with two likelihoods and a prior that
are read with noise as well, B of topics of four questions, each read in four orders afresh and in four conversations of
six turns. The spread of M and of its control hangs on how far evidence moves a belief, and is that of runs: standard
errors of .021 of 400 questions and of .03 of 240; as is that of the `update` of minimal pairs, .59 nat of 12. How far
noise alone takes M is simulated (log-odds of SD 2). That of `c2` is what runs of coherent models reach, .012 to .017 of
20 to 250 triples, where the agent's own noise makes .008; a claim is planned by a little more. How many a margin of
.02 takes is an edge of the exact bound of what may be missed: of 150 triples none wins, of 155 most that are .013 off.
"""
FARTHER = 0.7
"""Of the way from where noise takes the agent to the margin: there a second one is, whose power is said as well."""


def claim_power(margin: float, clusters: int, spread: PlannedSpread) -> float:
    """How often the agent is shown to lie within the margin by so many clusters, as `Registered.equivalence` shows it.

    Two one-sided t tests, of a normal estimate and a chi-squared variance, and not less than the chance to have missed
    clusters that are off.
    """
    if clusters < 2:
        return 0.0
    rng, sd = np.random.default_rng(0), max(spread.sd, spread.padded)
    off = np.abs(spread.off + sd / np.sqrt(clusters) * rng.standard_normal(DRAWS))
    se = sd * np.sqrt(rng.chisquare(clusters - 1, DRAWS) / (clusters - 1) / clusters)
    inside = margin - off > scipy.stats.t.ppf(1 - ALPHA, clusters - 1) * se
    if margin < spread.worst:
        seen = clusters * np.minimum(off / spread.worst, clusters * (se / spread.worst) ** 2)
        kept = np.maximum(clusters - seen, 0.5)
        inside &= scipy.special.betainc(kept, seen + 1, 1 - margin / spread.worst) < ALPHA
    return float(inside.mean())


MOST = 20_000
"""Clusters above which a claim is out of reach."""


@cache
def planned_n(metric: str, margin: float) -> int | Literal["estimation only"]:
    """The fewest clusters with which a claim that `metric` lies within `margin` is won with 80% power by an agent that
    is coherent but for noise; "estimation only" where none do, because noise alone takes it out of the margin.

    Of a number whose spread is not known, those that `claim_clusters` takes.

    >>> planned_n("c2", 0.05)
    60
    """
    spread = SPREADS.get(metric)
    if spread is None:
        return claim_clusters(margin)
    if spread.off >= margin:
        return ESTIMATION_ONLY
    low = high = claim_clusters(margin, spread.worst) if margin < spread.worst else 2
    while claim_power(margin, high, spread) < POWER:
        low, high = high, 2 * high
        if high > MOST:
            return ESTIMATION_ONLY
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if claim_power(margin, middle, spread) >= POWER else (middle + 1, high)
    return high


class Design(NamedTuple):
    """What so many clusters can do."""

    clusters: int
    needed: int | Literal["estimation only"] | None
    """By a claim within the margin; None without one."""
    power: float
    """Of that claim; NaN without one, or where the spread is not known."""
    off: float
    """How far from coherence noise takes the agent that the power is of; NaN where the power is."""
    farther: tuple[float, float]
    """A larger distance, seven tenths of the way from there to the margin, and the power of an agent so far off."""
    half_width: float
    """Of a 95% interval; NaN where the spread is not known."""
    smallest: float
    """The smallest distance from coherence that is found with 80% power."""


def study_design(metric: str, margin: float | None, clusters: int) -> Design:
    """What a study of so many clusters can claim and show of a number, by the agent that reads with noise."""
    spread, needed = SPREADS.get(metric), None if margin is None else planned_n(metric, margin)
    if spread is None or clusters < 2:
        return Design(clusters, needed, np.nan, np.nan, (np.nan, np.nan), np.nan, np.nan)
    se = spread.sd / np.sqrt(clusters)
    lo, hi = t_interval(0.0, se, clusters - 1, 0.95)
    power = off = np.nan
    farther = (np.nan, np.nan)
    if margin is not None:
        power, off = claim_power(margin, clusters, spread), spread.off
        beyond = spread._replace(off=off + FARTHER * max(margin - off, 0.0))
        farther = (beyond.off, claim_power(margin, clusters, beyond))
    return Design(clusters, needed, power, off, farther, (hi - lo) / 2, minimum_detectable(lo, hi, se, clusters - 1))
