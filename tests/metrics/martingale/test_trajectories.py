import numpy as np
import pytest

from doxascope.metrics import martingale_score, trajectory_pairs

NAN = float("nan")
BELIEFS = [[0.5, 0.6, 0.8], [0.3, NAN, 0.2, 0.1], [0.9]]


def test_steps_pair_with_the_next_and_a_gap_is_not_bridged() -> None:
    pairs = trajectory_pairs(BELIEFS, "per_step")
    np.testing.assert_array_equal(pairs.prior, [0.5, 0.6, 0.2])
    np.testing.assert_array_equal(pairs.post, [0.6, 0.8, 0.1])
    np.testing.assert_array_equal(pairs.group, [0, 0, 1])
    np.testing.assert_array_equal(pairs.weight, [0.5, 0.5, 1])
    assert (pairs.n_pairs, pairs.n_dropped, pairs.reasons) == (3, 2, {"missing_step": 2})
    assert pairs.n_without_pair == 1


def test_first_and_last_need_only_each_other() -> None:
    pairs = trajectory_pairs([*BELIEFS, [NAN, 0.2, 0.3], [0.1, 0.2, NAN]], "first_last")
    np.testing.assert_array_equal(pairs.prior, [0.5, 0.3])
    np.testing.assert_array_equal(pairs.post, [0.8, 0.1])
    assert (pairs.n_dropped, pairs.n_without_pair) == (2, 3)


def test_trajectories_of_one_question_share_its_weight() -> None:
    pairs = trajectory_pairs([[0.1, 0.2], [0.3, 0.4, 0.5], [0.6, 0.7]], groups=["x", "x", "y"])
    assert pairs.group.tolist() == ["x", "x", "x", "y"]
    np.testing.assert_allclose(pairs.weight, [1 / 3, 1 / 3, 1 / 3, 1])


def test_weights_keep_a_long_chain_from_dominating() -> None:
    """Half of the questions double their distance in one step; one long chain shrinks it at every step."""
    long = 0.5 + 0.4 * 0.9 ** np.arange(60)
    short = [[b, 0.5 + 2 * (b - 0.5)] for b in (0.3, 0.4, 0.45, 0.6, 0.7)]
    pairs = trajectory_pairs([long, *short])
    pooled = martingale_score(pairs.prior, pairs.post, pairs.group)
    balanced = martingale_score(pairs.prior, pairs.post, pairs.group, weights=pairs.weight)
    assert pooled.M < 0.2
    assert balanced.M > 0.4


def test_chaining_steps_compounds_the_slope() -> None:
    b = np.linspace(0.4, 0.6, 20)
    chains = [0.5 + (x - 0.5) * 1.1 ** np.arange(6) for x in b]
    step, whole = (trajectory_pairs(chains, mode) for mode in ("per_step", "first_last"))
    assert pytest.approx(0.1) == martingale_score(step.prior, step.post).M
    assert pytest.approx(1.1**5 - 1) == martingale_score(whole.prior, whole.post).M


def test_no_pairs_at_all() -> None:
    for nothing in ([], [[0.5], []], [[0.5, NAN]]):
        pairs = trajectory_pairs(nothing)
        assert (pairs.status, pairs.n_pairs, len(pairs.prior), len(pairs.weight)) == ("too_few", 0, 0, 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"trajectories": BELIEFS, "mode": "steps"}, "'steps' is unknown; use one of per_step, first_last"),
        ({"trajectories": [[0.5, 1.5]]}, r"trajectories\[0\]: .* not a probability"),
        ({"trajectories": [[[0.5]]]}, r"trajectories\[0\]: shape \(1, 1\)"),
        ({"trajectories": BELIEFS, "groups": [0, 1]}, "clusters: shape"),
    ],
)
def test_malformed_input_is_refused(arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        trajectory_pairs(**arguments)
