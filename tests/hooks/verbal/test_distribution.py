import numpy as np
import pytest
from scipy import stats

from doxascope.hooks.verbal.number_distributions import NumberDistribution
from doxascope.hooks.verbal.number_formats import UNIT, count_format
from doxascope.metrics import entropy_bits


def test_statistics_are_those_of_the_numbers_written_out() -> None:
    rng = np.random.default_rng(0)
    counts = rng.multinomial(999, rng.dirichlet(np.full(101, 0.1)))
    with np.errstate(divide="ignore"):
        told = NumberDistribution(UNIT.numbers, np.log(0.4 * counts / 999))
    said = np.repeat([number.value for number in UNIT.numbers], counts)
    assert told.coverage == pytest.approx(0.4)
    assert told.outside == pytest.approx(0.6)
    assert told.mean == pytest.approx(said.mean())
    assert told.sd == pytest.approx(said.std())
    assert told.median == np.median(said)
    assert told.mode == stats.mode(said).mode
    assert told.entropy == pytest.approx(stats.entropy(counts, base=2))
    assert told.entropy == pytest.approx(entropy_bits(told.prob))
    assert (told.status(0.3), told.status(0.5)) == ("ok", "low_coverage")


def test_of_several_medians_or_modes_the_smallest() -> None:
    even = NumberDistribution(count_format(3).numbers, np.log(np.full(4, 0.25)))
    assert (even.median, even.mode) == (1 / 3, 0)


def test_without_mass_there_is_no_number() -> None:
    none = NumberDistribution(count_format(3).numbers, np.full(4, -np.inf))
    assert np.isnan([none.mean, none.sd, none.mode, none.median, none.entropy]).all()
    assert (none.coverage, none.outside, none.status(0.5)) == (0, 1, "nan")


def test_what_is_unread_bounds_the_error() -> None:
    rng = np.random.default_rng(1)
    closest = 0.0
    for _ in range(500):
        kept, unread = rng.dirichlet(np.full(11, 0.2)), rng.dirichlet(np.full(11, 0.2))
        share = rng.uniform(0, 0.9)
        part = NumberDistribution(count_format(10).numbers, np.log((1 - share) * kept + 1e-300), share)
        whole = NumberDistribution(count_format(10).numbers, np.log((1 - share) * kept + share * unread + 1e-300))
        distance = np.abs(part.prob - whole.prob).sum() / 2
        assert distance <= part.error + 1e-12
        assert abs(part.mean - whole.mean) <= part.error + 1e-12
        closest = max(closest, distance / part.error)
    assert closest > 0.95
