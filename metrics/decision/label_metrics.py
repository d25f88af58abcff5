"""Tables of labels and scores: which score tells the classes apart, and which does so better (METRICS F11)."""

from collections.abc import Iterator
from itertools import combinations

from ..contract import Resampling
from ..inference.auroc import auroc, auroc_difference
from ..inference.paired import paired_family
from ..metric import Line, clusters_of, metric
from ..tables.checks import Labelled

MOST_PAIRS = 45
"""Pairs of scores that are compared: of more scores than ten each is given by itself."""


@metric("F11", "label (1 or 0), or label_type; score, or score_<name>", Labelled, place=295)
def label_auroc_lines(sample: Labelled, how: Resampling) -> Iterator[Line]:
    """The chance that a row of label 1 scores higher than one of label 0; of each two scores the difference."""
    clusters, scores = clusters_of(sample), dict(zip(sample.names, sample.scores.T, strict=True))
    for name, values in scores.items():
        yield Line("label_auroc", f"AUROC of {name}", auroc(values, sample.label, clusters, how=how), part=name)
    pairs = list(combinations(scores, 2))
    if len(pairs) > MOST_PAIRS:
        return
    differences = {
        pair: auroc_difference(
            *(scores[name] for name in pair), sample.label, clusters, family_size=len(pairs), how=how
        )
        for pair in pairs
    }
    for (first, second), difference in paired_family(differences).items():
        beside = {"adjusted p (Holm, all pairs)": f"{difference.p_adjusted:.3g}"} if len(pairs) > 1 else {}
        words = f"AUROC of {first} minus that of {second}"
        yield Line("label_auroc_difference", words, difference, beside, part=f"{first} minus {second}")
