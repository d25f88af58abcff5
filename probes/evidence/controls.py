"""What a probe of the same capacity finds where there is nothing, and what the surface of the text gives away
(PROBES 5).
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ...metrics.contract import Floats
from ...metrics.inference.clusters import cluster_codes
from ..cross_validation import nested_ridge, spread_of_targets
from ..groups import MIN_FOLDS

WORDS = 2000
"""Most words of a bag."""
ONE_HOT = ("template", "option_position", "method", "scenario")
"""Columns that say how a row was asked, not what it says."""


class Selectivity(NamedTuple):
    """Hewitt and Liang (2019): the real task against random targets that were drawn once per group."""

    control: float
    """Mean out-of-fold R2 of the random targets on held-out groups, where nothing can be learnt of them. One that came
    out the same for every group has none, and is left out; NaN if all did."""
    selectivity: float
    """R2 of the real target less that."""
    memorised: float
    """Mean R2 of random targets on held-out rows of groups that were trained on: what the capacity can learn by heart.
    NaN if no group has two rows."""

    @property
    def told(self) -> str:
        """In a sentence, with what cannot be computed and why."""
        above = _or_why(self.selectivity, "no random target varies")
        return (
            f"selectivity {above} (R2 less that of random targets on held-out groups: {self.told_control}); that of "
            f"random targets on held-out rows of known groups: {self.told_memorised}"
        )

    @property
    def told_control(self) -> str:
        """`control`, or why there is none."""
        return _or_why(self.control, "no random target varies")

    @property
    def told_memorised(self) -> str:
        """`memorised`, or why there is none."""
        return _or_why(self.memorised, "each group has one row, or no random target varies")


def _or_why(value: float, why: str) -> str:
    return f"{value:.3f}" if np.isfinite(value) else f"cannot be computed: {why}"


def selectivity(
    x: Floats,
    y: Floats,
    groups: ArrayLike,
    folds: NDArray[np.intp],
    penalties: Sequence[float],
    *,
    draws: int,
    seed: int,
) -> Selectivity:
    """Of log-odds [n] by features [n, d] in grouped folds."""
    codes, n_groups = cluster_codes(groups, len(y))
    rng = np.random.default_rng(seed)
    random = rng.choice(y, size=(n_groups, draws))[codes]
    random = random[:, np.ptp(random, axis=0) > 0]
    every = np.column_stack([y, random])
    real, *control = _r2(x, every, folds, penalties)
    n_folds = int(folds.max()) + 1
    within = np.empty(len(y), dtype=np.intp)
    for rows in np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes, minlength=n_groups))[:-1]):
        within[rows] = (rng.integers(n_folds) + np.arange(len(rows))) % n_folds
    repeated = bool((np.bincount(codes) > 1).any())
    memorised = float(np.mean(_r2(x, random, within, penalties))) if repeated and control else float("nan")
    mean = float(np.mean(control)) if control else float("nan")
    return Selectivity(mean, real - mean, memorised)


def baseline_r2(x: Floats, y: Floats, folds: NDArray[np.intp], penalties: Sequence[float]) -> float:
    """R2 of log-odds [n] by other features [n, d], through the same pipeline."""
    return _r2(x, y[:, None], folds, penalties)[0]


def _r2(x: Floats, y: Floats, folds: NDArray[np.intp], penalties: Sequence[float]) -> list[float]:
    fit = nested_ridge(x, y, folds, penalties, keep=False)
    spread = spread_of_targets(y, folds).sum(axis=0)
    varies = spread > 0
    return np.where(varies, 1 - fit.outer.sum(axis=0) / np.where(varies, spread, 1.0), np.nan).tolist()


LENGTH, BAG = "prompt length", "bag of words"
LAYER_0, UNTRAINED = "layer-0 embeddings", "untrained model of the same shape"
OWN_CONTROLS = frozenset({LENGTH, BAG, LAYER_0, UNTRAINED, *(name.replace("_", " ") for name in ONE_HOT)})
"""Names of what a probe is compared with anyway: no rival may take the place of one."""


def surface_features(rows: pd.DataFrame) -> Mapping[str, Floats]:
    """Name -> [n, d] of what needs no model: the words of `text`, its length, and how the row was asked. Of a row that
    is about one option, which a probe reads where that option's own text ends, those of this text (`option_text`) are
    counted by themselves besides.

    A bag of words is counted over all rows: it knows no target.
    """
    features: dict[str, Floats] = {}
    if texts := [rows[name].astype(str) for name in ("text", "option_text") if name in rows.columns]:
        lengths = np.column_stack([n for each in texts for n in (each.str.len(), each.str.count(r"\S+"))])
        features[LENGTH] = np.column_stack([lengths, np.log1p(lengths)]).astype(np.float64)
        features[BAG] = np.hstack([_bag(each.tolist()) for each in texts])
    for name in ONE_HOT:
        if name in rows.columns and rows[name].nunique() > 1:
            features[name.replace("_", " ")] = pd.get_dummies(rows[name].astype(str)).to_numpy(dtype=np.float64)
    return features


def _bag(texts: Sequence[str]) -> Floats:
    """[n, words] counts of the words that occur in two texts or more, digits one by one."""
    split = [re.findall(r"[^\W\d_]+|\d", text.casefold()) for text in texts]
    documents = Counter(word for words in split for word in set(words))
    known = {word: i for i, (word, n) in enumerate(documents.most_common(WORDS)) if n > 1}
    counts = np.zeros((len(texts), max(1, len(known))))
    for row, words in enumerate(split):
        for word in words:
            if word in known:
                counts[row, known[word]] += 1
    return counts


class CurvePoint(NamedTuple):
    """One size of a learning curve."""

    groups: int
    r2: float


def learning_curve(
    x: Floats,
    y: Floats,
    groups: ArrayLike,
    folds: NDArray[np.intp],
    penalties: Sequence[float],
    *,
    shares: Sequence[float] = (0.125, 0.25, 0.5, 1.0),
    repeats: int = 5,
    seed: int = 0,
) -> list[CurvePoint]:
    """R2 by nested fits on ever more groups, mean over draws of them: still rising means that groups are missing."""
    codes, n_groups = cluster_codes(groups, len(y))
    rng = np.random.default_rng(seed)
    curve = []
    for size in dict.fromkeys(max(MIN_FOLDS, round(share * n_groups)) for share in shares):
        r2 = []
        for _ in range(repeats if size < n_groups else 1):
            chosen = np.isin(codes, rng.permutation(n_groups)[:size])
            present, renumbered = np.unique(folds[chosen], return_inverse=True)
            if len(present) >= MIN_FOLDS and np.ptp(y[chosen]) > 0:
                r2.append(baseline_r2(x[chosen], y[chosen], renumbered, penalties))
        if r2:
            curve.append(CurvePoint(size, float(np.mean(r2))))
    return curve
