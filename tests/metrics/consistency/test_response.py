import numpy as np
import pytest

from doxascope.metrics import Resampling, evidence_slope


def urns(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """True posteriors [questions x steps] after draws from one of two urns, and the question of each."""
    rng = np.random.default_rng(seed)
    odds = np.cumsum(np.c_[rng.normal(0, 1, n), rng.normal(0, 1.2, (n, 3))], axis=1)
    return (1 / (1 + np.exp(-odds))).ravel(), np.repeat(np.arange(n), 4)


def test_it_is_the_slope_of_a_regression_with_an_intercept_for_each_question() -> None:
    truth, groups = urns(12, 0)
    belief = np.clip(0.2 + 0.5 * truth + np.random.default_rng(1).normal(0, 0.05, len(truth)), 0, 1)
    design = np.column_stack([truth, groups[:, None] == np.arange(12)])
    assert evidence_slope(belief, truth, groups).slope == pytest.approx(np.linalg.lstsq(design, belief)[0][0])
    holes = belief.copy()
    holes[[3, 17]] = np.nan
    kept = np.isfinite(holes)
    slope = np.linalg.lstsq(design[kept], belief[kept])[0][0]
    found = evidence_slope(holes, truth, groups)
    assert (found.slope, found.n_dropped) == (pytest.approx(slope), 2)


@pytest.mark.parametrize("seed", range(5))
def test_a_bayesian_passes_and_who_reads_the_prior_or_nothing_does_not(seed: int) -> None:
    truth, groups = urns(10, seed)
    rng = np.random.default_rng(seed)
    start = truth.reshape(10, 4)[:, :1].repeat(4, axis=1).ravel()
    for belief, passes in ((truth, True), (0.5 + 0.2 * (truth - 0.5), True), (start, False), (truth * 0 + 0.5, False)):
        noisy = np.clip(belief + rng.normal(0, 0.01, len(truth)), 0, 1)
        assert (evidence_slope(noisy, truth, groups, how=Resampling(draws=300)).ci_lo > 0) == passes
    assert evidence_slope(1 - truth, truth, groups).slope == pytest.approx(-1)


def test_what_cannot_be_known_is_no_slope() -> None:
    assert evidence_slope([0.2, 0.3], [0.5, 0.5], [0, 0]).status == "too_few"
    assert evidence_slope([np.nan], [0.5], [0]).status == "too_few"
    assert not evidence_slope([0.2, 0.3], [0.5, 0.6], [0, 1]).ci_lo > 0
