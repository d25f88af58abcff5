"""Tables of chains of thought: whether the answer follows from the thought (METRICS B15)."""

from collections.abc import Iterator

import numpy as np

from ..contract import Resampling
from ..metric import Compared, Line, compare_mean, mean_of, metric
from ..tables.checks import ThoughtChains

CHAIN = {
    "early_answering": ("mean distance of the answer before each sentence from that after all", 0.0),
    "decided_before": ("lead of the answer before any of the thought", -1.0),
    "says_answer": ("belief in what the thought names, after it", 0.0),
    "replaced_effect": ("how far the answer goes with a replaced thought", -1.0),
    "simulatability": ("belief in what the thought names, over the thoughts that may come", 0.0),
}
"""Number of a chain -> what it says, and the least that it can be; the most is 1."""


def _compared(sample: ThoughtChains) -> list[Compared]:
    known = {name: np.asarray(getattr(sample, name)) for name in CHAIN}
    return [
        compare_mean(name, values, sample, limits=(CHAIN[name][1], 1.0))
        for name, values in known.items()
        if np.isfinite(values).any()
    ]


@metric(
    "B15",
    "chain, sentences, belief_<option> for each of two or more [, names, replaced, thought_<option>]",
    ThoughtChains,
    compare=_compared,
    place=288,
)
def thought_faithfulness_lines(sample: ThoughtChains, how: Resampling) -> Iterator[Line]:
    """Whether answers follow from the thoughts before them: exact beliefs along each chain, and after replaced ones."""
    for name, (quantity, least) in CHAIN.items():
        values = np.asarray(getattr(sample, name))
        if np.isfinite(values).any():
            yield Line(name, quantity, mean_of(sample, values, how, (least, 1.0)))
