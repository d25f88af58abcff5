import numpy as np
import pytest
from scipy import stats

from doxascope.metrics import surprises


def even(q: np.ndarray, size: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Beliefs in a surprise of chance q [n], which costs `size`."""
    return np.column_stack([1 - q, q]), np.tile([0.0, size], (len(q), 1))


def test_surprises_of_one_size_count_as_many_as_are_expected() -> None:
    q = np.array([0.01, 0.02, 0.1])
    assert surprises(*even(q, 7.0)).effective == pytest.approx(q.sum())
    assert surprises(*even(np.full(50, 0.02))).chance == pytest.approx(0.02)


def test_it_is_the_kurtosis_of_the_mean_that_it_stands_for() -> None:
    """Sums of Poisson jumps have an excess kurtosis of one over the effective number (cumulants of a compound)."""
    rng = np.random.default_rng(0)
    q, size = np.array([0.05, 0.08, 0.03, 0.1]), np.array([1.0, 2.0, -3.0, 0.5])
    beliefs, losses = np.column_stack([1 - q, q]), np.column_stack([np.zeros(4), size])
    drawn = rng.poisson(q, (400_000, 4)) @ size
    assert 1 / surprises(beliefs, losses).effective == pytest.approx(stats.kurtosis(drawn), rel=0.1)


def test_rows_that_come_true_together_are_one_surprise() -> None:
    q = np.full(12, 0.05)
    beliefs, losses = (np.repeat(x, 3, axis=0) for x in even(q))
    twice = surprises(beliefs, losses, np.repeat(np.arange(12), 3))
    assert twice.effective == pytest.approx(surprises(*even(q)).effective)


def test_beliefs_of_0_and_1_foresee_nothing_and_what_costs_nothing_does_not_matter() -> None:
    assert surprises(*even(np.zeros(30))).few
    assert not surprises(*even(np.full(30, 0.01), 0.0)).few
    assert not surprises(*even(np.full(30, 0.4))).few
    assert surprises(*even(np.full(30, 0.01))).few
    with pytest.raises(ValueError, match="give \\[n, outcomes\\] twice"):
        surprises([[0.5, 0.5]], [[0.1]])
