import numpy as np
import pytest

from doxascope.metrics.divergence import clipped_logit, entropy_bits, jsd_chain, jsd_leak


def test_log_odds_of_certainty_are_finite_and_counted() -> None:
    value, n_clipped = clipped_logit([0.0, 0.5, 1.0, np.nan], "p")
    assert n_clipped == 2
    assert value[0] == pytest.approx(-value[2])
    assert value[1] == 0
    assert np.isnan(value[3])


@pytest.mark.parametrize("seed", range(5))
def test_a_leak_is_parted_from_the_move_among_what_remains(seed: int) -> None:
    """Reference: the divergence of the three classes, and entropies in bits by their definition."""
    q, r, m = np.random.default_rng(seed).uniform(0.05, 0.95, 3)
    before, after = np.array([q, 1 - q, 0]), np.array([(1 - m) * r, (1 - m) * (1 - r), m])

    def bits(p: np.ndarray) -> float:
        return float(-sum(x * np.log2(x) for x in p if x > 0))

    whole = bits((before + after) / 2) - (bits(before) + bits(after)) / 2
    assert float(jsd_chain(q, r, m)) == pytest.approx(whole, abs=1e-12)
    leak = bits(np.array([m / 2, 1 - m / 2])) - bits(np.array([m, 1 - m])) / 2
    assert float(jsd_leak(m)) == pytest.approx(leak, abs=1e-12)
    assert float(entropy_bits(after)) == pytest.approx(bits(after), abs=1e-12)
