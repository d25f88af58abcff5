"""How well is the ratio of two words known, where it was sampled? In independent answers that would tell as much."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...metrics.validation import Floats
from ..reading.exact import SAMPLED


def answers_worth(readouts: pd.DataFrame, masses: Floats, rejected: NDArray[np.int64]) -> Floats:
    """[n] for each read-out: of sampled answers, those that name either word; of thoughts, the number of answers whose
    share would vary as the mean over the thoughts does; NaN of an exact belief, which knows.

    Args:
        readouts: [n] with `estimate`, `draws` and `covariance` of their variants.
        masses: [n, 3] of the words.
        rejected: [n] the word that is left out.
    """
    kept = np.where(np.arange(3) == rejected[:, None], 0.0, masses)
    total = kept.sum(axis=1)
    counted = readouts["draws"].where(readouts["estimate"] == SAMPLED).to_numpy(dtype=float) * total
    share = kept / np.where(total > 0, total, np.nan)[:, None]
    first = np.argmax(np.arange(3) != rejected[:, None], axis=1)
    rows = np.arange(len(kept))
    alpha = share[rows, first]
    # d alpha / d masses: of the first word (1 - alpha) / total, of the second -alpha / total, of the rejected none.
    slope = (np.eye(3)[first] - alpha[:, None]) / np.where(total > 0, total, np.nan)[:, None]
    slope[rows, rejected] = 0.0
    blank = np.full((3, 3), np.nan)
    covariance = np.stack([np.array(one) if isinstance(one, list) else blank for one in readouts["covariance"]])
    variance = np.einsum("ni,nij,nj->n", slope, covariance, slope)
    with np.errstate(divide="ignore", invalid="ignore"):
        worth = np.where(variance > 0, alpha * (1 - alpha) / variance, np.where(variance == 0, np.inf, np.nan))
    return np.where(np.isnan(counted), worth, counted)
