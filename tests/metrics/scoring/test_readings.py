"""What two readings of a belief say of it, by agents whose readings have a stated bias."""

import numpy as np
import pytest

from doxascope.metrics.contract import Resampling
from doxascope.metrics.number import Number
from doxascope.metrics.scoring.engine import score_samples
from doxascope.metrics.tables.samples import Elicited


def reliability(belief: np.ndarray, bias: float) -> Number:
    """Of one reading, where the first order of the answers adds `bias`, and the second takes it away."""
    n = len(belief)
    sample = Elicited(
        method="words",
        kind="exact",
        belief=belief,
        coverage=np.ones(n),
        clusters=np.arange(n).astype(str),
        keys=np.arange(n).astype(str),
        readings=np.column_stack([belief + bias, belief - bias]),
    )
    scored = score_samples([sample], Resampling(draws=200), "elicited").numbers
    return next(one for one in scored if one.metric == "reliability")


def test_an_order_that_moves_all_beliefs_alike_is_no_reliability_below_zero() -> None:
    belief = np.random.default_rng(0).uniform(0.4, 0.6, 40)
    biased, fair = reliability(belief, 0.3), reliability(belief, 0.0)
    assert np.isnan(biased.score.estimate)
    assert biased.score.status == "not_estimable"
    assert (fair.score.estimate, fair.score.status) == (pytest.approx(1), "ok")
    for one in (biased, fair):  # the mean of both orders is the belief itself
        assert float(one.beside["of the mean, without the bias"].split()[0]) == pytest.approx(1)
