"""Verbal beliefs as rows of the belief table."""

from collections.abc import Sequence
from typing import NamedTuple

from .asking import NumberQuestion


class Stated(NamedTuple):
    """A verbal belief."""

    mean: float
    """P(yes), the mean of the stated numbers; NaN under a status of failure."""
    coverage: float
    """The share of answers that state a number."""
    status: str


def belief_rows(
    question: NumberQuestion, method: str, stated: Stated, options: Sequence[str]
) -> list[dict[str, object]]:
    """Two rows, for the options (yes, no), without the columns of an experiment. A mean is no event: no `logp`."""
    return [
        {
            "readout_id": f"{question.readout_id}/{method}",
            "kind": "verbal",
            "method": f"{question.format.name} {method}",
            "option": option,
            "option_index": index,
            "prob": prob,
            "coverage": stated.coverage,
            "status": stated.status,
        }
        for index, (option, prob) in enumerate(zip(options, (stated.mean, 1 - stated.mean), strict=True))
    ]
