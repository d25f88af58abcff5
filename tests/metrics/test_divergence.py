import numpy as np
import pytest

from doxascope.metrics.divergence import clipped_logit


def test_log_odds_of_certainty_are_finite_and_counted() -> None:
    value, n_clipped = clipped_logit([0.0, 0.5, 1.0, np.nan], "p")
    assert n_clipped == 2
    assert value[0] == pytest.approx(-value[2])
    assert value[1] == 0
    assert np.isnan(value[3])
