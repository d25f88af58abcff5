"""What the surface of texts alone foretells within clusters: a rival of what reads a model inside (METRICS W10)."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ...metrics.contract import NAN, Floats, floats
from ..cross_validation import nested_ridge
from ..groups import grouped_folds
from .controls import BAG, LENGTH, surface_features

FOLDS = 5
MARKS = 100
"""Most characters that are no letters, and most styles, which are counted."""


def foretold(values: ArrayLike, texts: Sequence[str], clusters: ArrayLike, styles: Sequence[str] = ()) -> Floats:
    """[n] what the surface alone foretells of numbers within a cluster, by nested ridge regression on other clusters;
    NaN for fewer than five of these. Numbers and surface are taken less the mean of their cluster, so that what sets
    clusters apart hides nothing of what is read within them.
    """
    if len(set(np.asarray(clusters).tolist())) < FOLDS:
        return np.full(len(texts), NAN)
    both = pd.DataFrame(np.column_stack([floats(values), _surface(texts, styles)]))
    centred = (both - both.groupby(np.asarray(clusters)).transform("mean")).to_numpy()
    return nested_ridge(centred[:, 1:], centred[:, :1], grouped_folds(clusters, FOLDS, 0)).score


def guessed(lie: ArrayLike, texts: Sequence[str], clusters: ArrayLike) -> Floats:
    """[n] 1 where the words of a text foretell more of a lie (0 or 1) than there is in the clusters they were fitted
    on, which are others; 0 everywhere for fewer than five clusters.
    """
    labels = floats(lie)
    if len(set(np.asarray(clusters).tolist())) < FOLDS:
        return np.zeros(len(labels))
    folds = grouped_folds(clusters, FOLDS, 0)
    share = np.array([labels[folds != k].mean() for k in range(FOLDS)])[folds]
    return (nested_ridge(_surface(texts), labels[:, None], folds).score > share).astype(float)


def _surface(texts: Sequence[str], styles: Sequence[str] = ()) -> Floats:
    """[n, d] lengths, counts of words, of capitals, and of each mark (what is no letter, digit or space); and styles,
    one column each.
    """
    known = surface_features(pd.DataFrame({"text": list(texts)}))
    marks = Counter(each for text in texts for each in set(text) if not (each.isalnum() or each.isspace()))
    counts: list[list[float]] = [[text.count(mark) for text in texts] for mark, _ in marks.most_common(MARKS)]
    counts += [[sum(each.isupper() for each in text) for text in texts]]
    counts += [[float(style == each) for each in styles] for style, _ in Counter(styles).most_common(MARKS)]
    return np.hstack([known[LENGTH], known[BAG], np.array(counts, dtype=np.float64).T])
