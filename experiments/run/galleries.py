"""What every experiment's page has besides its tables: the gallery of what its numbers are made of."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from ..report.findings import Gallery, Instance, Transcript
from .experiment import Transcripts

MOST = 300
"""Instances on a page; of more, so many are drawn."""


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
        transcripts: of the run.
        facets: what a reader may choose instances by.
        score: what the score is called.
        ranking: what the instances are and which come first, for the caption.
        seed: of the sample.
        most: its size.
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
