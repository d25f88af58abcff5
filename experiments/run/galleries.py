"""What every experiment's page has besides its tables: the gallery of what its numbers are made of, each conversation
with the belief that was read in it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from ...base.text import shown
from ...metrics.beliefs import VALUED
from ...metrics.tables.belief_parts import BeliefTable, in_parts
from ..report.findings import Gallery, Instance, Transcript
from .experiment import Transcripts

MOST = 300
"""Instances on a page; of more, so many are drawn."""


def with_beliefs(transcripts: Mapping[str, Transcript], beliefs: BeliefTable) -> dict[str, Transcript]:
    """The transcripts of read-outs, with the belief that was read in each."""
    read = dict(transcripts)
    for part in in_parts(beliefs) if read else ():
        own = part[part["readout_id"].isin(read.keys())]
        for name, rows in own.groupby("readout_id", sort=False, observed=True):
            belief = in_words(rows["option"], rows["prob"], rows["coverage"].iloc[0], rows["status"].iloc[0])
            read[str(name)] = {**read[str(name)], "belief": belief}
    return read


def in_words(options: Iterable[str], shares: Iterable[float], coverage: float, status: str) -> str:
    """A belief in a line: the share of each option, and how much of the whole is on any of them."""
    if status not in VALUED:
        return f"none: {status.replace('_', ' ')}"
    listed = ", ".join(f"{option} {shown(float(share))}" for option, share in zip(options, shares, strict=True))
    return listed if np.isnan(coverage) else f"{listed}; of all probability {100 * coverage:.3g}% is on these"


def gallery(
    weights: ArrayLike,
    asked: Callable[[int], Sequence[str]],
    instance: Callable[[int, Mapping[str, Transcript]], Instance],
    transcripts: Transcripts,
    *,
    facets: Sequence[str],
    score: str,
    ranking: str,
    seed: int,
    most: int = MOST,
) -> Gallery:
    """Every instance, or a sample of them.

    Args:
        weights: [n] of the instances: the heaviest come first, NaN last.
        asked: number of an instance -> the read-outs that show it.
        instance: its number and these read-outs -> what a page shows.
        facets: what a reader may choose instances by.
        ranking: what the instances are and which come first, for the caption.
    """
    heavy = np.asarray(weights, dtype=np.float64)
    drawn = np.sort(np.random.default_rng(seed).permutation(len(heavy))[:most])
    order = [int(i) for i in drawn[np.argsort(-heavy[drawn], kind="stable")]]
    names = {i: asked(i) for i in order}
    texts = transcripts({name for several in names.values() for name in several})
    return Gallery(
        caption=f"{len(order)} of {len(heavy)} {ranking} first.",
        facets=facets,
        score=score,
        instances=[instance(i, {name: texts[name] for name in names[i] if name in texts}) for i in order],
    )
