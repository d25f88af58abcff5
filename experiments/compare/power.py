"""How many clusters a study needs to find an effect, by the spread of a run that was made before it (METRICS I)."""

import json
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import scipy

from ...base.errors import UserError, nearest
from ...metrics.contract import Array, Resampling
from ...metrics.inference.clusters import cluster_codes, cluster_sums
from ...metrics.inference.paired import POWER
from ...metrics.scoring.engine import measured
from ...metrics.tables.samples import Sample
from .comparison import groups_of, pairs_between
from .sides import samples_of, sides_of

DRAWS = 999
MOST = 100_000
"""Clusters that are tried."""
STEP = 1.05
"""From one number of clusters that is tried to the next."""
ALPHA = 0.05


@dataclass(frozen=True)
class Needed:
    """What a number needs."""

    metric: str
    of: str
    """The sample, or the two that are compared."""
    effect: float
    pilot: int
    """Clusters of the run that was made before."""
    power: float
    """That so many have."""
    clusters: int | None
    """The fewest with 80% power; None: more than were tried."""
    sample: Sample | None = None
    """None of two that are compared."""

    @property
    def line(self) -> str:
        """In words."""
        wanted = f"more than {MOST:,}" if self.clusters is None else f"{self.clusters:,}"
        return (
            f"{self.metric} of {self.of}: {wanted} clusters find {self.effect:g} with {POWER:.0%} power "
            f"(the {self.pilot} of the pilot with {self.power:.0%})"
        )

    @property
    def registered(self) -> str:
        """The setting that registers a run of so many for this number; empty where there is none."""
        if self.sample is None or self.clusters is None:
            return ""
        design = {"metric": self.metric, "method": self.sample.method, "kind": self.sample.kind, "n": self.clusters}
        return f"-o 'registered={json.dumps(design)}'"


def needed(
    pilots: Sequence[Path], effects: Mapping[str, float], *, seed: int = 0, allow_code: Sequence[Path] = ()
) -> list[Needed]:
    """Of one pilot run each number by itself, of several what two of them differ by.

    Args:
        effects: number, as in `scores.json` -> the distance from what a coherent agent has, or from no difference, that
            is to be found.

    Raises UserError for runs that cannot be compared, and for a number that they do not have.
    """
    needs: list[Needed] = []
    known: set[str] = set()
    for group in groups_of(sides_of(pilots, allow_code=allow_code)).values():
        numbers = measured(samples_of(group), group[0].how or Resampling(seed), only_compared=True)
        known |= numbers.comparable.keys()
        if len(group) > 1:
            for pair in pairs_between(group, numbers):
                if pair.metric in effects:
                    size = effects[pair.metric]
                    needs.append(_needed(pair.metric, " - ".join(pair.names), size, *pair.moments, seed=seed))
            continue
        for metric, by_name in numbers.comparable.items():
            for name, (sample, compared) in by_name.items() if metric in effects else ():
                parts = (compared.moments, compared.clusters, compared.statistic)
                made_of = _needed(metric, name, effects[metric], *parts, seed=seed)
                needs.append(replace(made_of, sample=sample))
    if odd := [name for name in effects if name not in known]:
        raise UserError(f"--effect {odd[0]}: is no number of these runs; {nearest(odd[0], known)}")
    return needs


def _needed(
    metric: str,
    of: str,
    effect: float,
    moments: Array,
    clusters: Array,
    statistic: Callable[[Array], Array],
    *,
    seed: int,
) -> Needed:
    whole = np.isfinite(moments).all(axis=1)
    codes, pilot = cluster_codes(clusters[whole], int(whole.sum()))
    if pilot < 3:
        raise UserError(f"--power: {metric} of {of} has {pilot} clusters; a pilot has three or more")
    sums = cluster_sums(moments[whole], codes, pilot)
    rng = np.random.default_rng(seed)

    def power(n: int) -> float:
        """Share of resamples of n clusters whose test finds the effect."""
        counts = rng.multinomial(n, np.full(pilot, 1 / pilot), size=DRAWS)
        with np.errstate(divide="ignore", invalid="ignore"):
            drawn = statistic(counts @ sums)
            centre = float(statistic(sums.sum(axis=0)[None])[0])
        drawn = drawn[np.isfinite(drawn)]
        bar = float(scipy.stats.t.ppf(1 - ALPHA / 2, n - 1)) * float(drawn.std(ddof=1))
        return float((np.abs(drawn - centre + effect) > bar).mean())

    tried, n = [], 3
    while n <= MOST:
        tried.append(n)
        n = max(n + 1, int(n * STEP))
    # power rises with n, but for luck of the draw that a step outweighs
    at = bisect_left(tried, True, key=lambda n: power(n) >= POWER)
    return Needed(metric, of, effect, pilot, power(pilot), tried[at] if at < len(tried) else None)
