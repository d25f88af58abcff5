"""Tables of beliefs that should stand: under a perturbation, and wherever an implanted one bears (METRICS B13, B14)."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from ..contract import Resampling
from ..inference.means import UNIT, cluster_mean, cluster_share
from ..metric import Line, clusters_of, mean_of, metric
from ..tables.checks import Implanted, Perturbed

DIRECT = "direct"
"""The facet that others are compared with."""


@metric("B13", "belief, perturbed", Perturbed, place=285)
def stability_lines(sample: Perturbed, how: Resampling) -> Iterator[Line]:
    """How many beliefs that are held true are given up under a perturbation, and how many new ones are taken up."""
    clusters = clusters_of(sample)
    lost = np.isnan(sample.belief) | np.isnan(sample.perturbed)
    for name, rows, turned, what in (
        ("retraction", ~(sample.belief <= 0.5), sample.perturbed <= 0.5, "held true and then given up"),
        ("expansion", ~(sample.belief > 0.5), sample.perturbed > 0.5, "not held true and then taken up"),
    ):
        share = cluster_share(np.where(lost, np.nan, turned)[rows], clusters[rows], how=how)
        yield Line(name, f"share of beliefs {what}", share)
    moved = np.abs(sample.perturbed - sample.belief)
    yield Line("perturbation_size", "mean size of the change", mean_of(sample, moved, how, UNIT))


@metric("B14", "claim, facet, belief (in what was implanted)", Implanted, place=287)
def belief_depth_lines(sample: Implanted, how: Resampling) -> Iterator[Line]:
    """In how many readings of each facet what was implanted is believed, and how much less than if asked directly."""
    clusters = clusters_of(sample)
    sided = np.where(np.isnan(sample.belief), np.nan, sample.belief > 0.5)
    by_cluster = pd.Series(sided).groupby([clusters, sample.facet]).mean().unstack()
    facets = dict.fromkeys(sample.facet.tolist())
    for facet in facets:
        here = sample.facet == facet
        known = sample.belief[here][np.isfinite(sample.belief[here])]
        beside = {"mean belief": f"{known.mean():.3f}"} if known.size else {}
        share = cluster_share(sided[here], clusters[here], how=how)
        yield Line("implanted_rate", "share of readings that believe it", share, beside, part=str(facet))
    for facet in facets if DIRECT in facets else ():
        if facet != DIRECT:
            gap = (by_cluster[facet] - by_cluster[DIRECT]).to_numpy()
            score = cluster_mean(gap, by_cluster.index.to_numpy(), within=(-1.0, 1.0), how=how)
            yield Line("implanted_gap", "the same minus that when asked directly, by cluster", score, part=str(facet))
