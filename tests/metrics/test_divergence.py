import numpy as np
import pytest

from doxascope.metrics.divergence import clipped_logit, entropy_bits, jsd, jsd_leak


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
    assert float(jsd(before, after)) == pytest.approx(whole, abs=1e-12)
    leak = bits(np.array([m / 2, 1 - m / 2])) - bits(np.array([m, 1 - m])) / 2
    assert float(jsd_leak(m)) == pytest.approx(leak, abs=1e-12)
    assert float(entropy_bits(after)) == pytest.approx(bits(after), abs=1e-12)


def test_log_odds_are_moved_only_beyond_the_ends() -> None:
    assert clipped_logit([0.1, 0.9], "p", eps=0.1)[1] == 0
    assert clipped_logit([0.09, 0.91], "p", eps=0.1)[1] == 2
    for eps in (0.0, 0.5, 1.0):
        with pytest.raises(ValueError, match="eps"):
            clipped_logit([0.5], "p", eps=eps)


def test_the_divergence_is_that_of_its_definition_and_never_beyond_its_bounds() -> None:
    """Reference: the mean divergence from the mixture, in bits; 1 of what shares no option, 0 of what is alike."""
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet([0.5] * 4, (2, 300))
    mixture = (p + q) / 2
    plain = sum((x * np.log2(x / mixture)).sum(axis=1) / 2 for x in (p, q))
    assert jsd(p, q) == pytest.approx(plain, abs=1e-12)
    apart = jsd(np.hstack([p, 0 * q]), np.hstack([0 * p, q]))
    assert apart == pytest.approx(1, abs=1e-12)
    assert apart.max() <= 1
    assert jsd(p, p).tolist() == [0.0] * 300
