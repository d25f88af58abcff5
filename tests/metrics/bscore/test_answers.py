from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from doxascope.metrics import (
    argmax_accuracy,
    b_score,
    b_score_exact,
    mean_abs_b_score,
    top_b_score,
    top_b_score_null_bias,
)

SINGLE = ["7"] * 21 + ["4"] * 9
MULTI = ["7"] * 3 + ["4"] * 3 + ["1"] * 24
P_SINGLE, P_MULTI = {"a": 0.5, "b": 0.3, "c": 0.2}, {"a": 0.3, "b": 0.3, "c": 0.4}
answers = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=12)


def test_score_of_every_option() -> None:
    score = b_score(single=SINGLE, multi=MULTI, options=["1", "4", "7"])
    assert score.b == pytest.approx({"1": -0.8, "4": 0.2, "7": 0.6})
    assert score.estimate is score.b
    assert (score.invalid_single, score.invalid_multi) == (0, 0)


def test_invalid_answers_leave_the_denominator_unless_asked_for() -> None:
    single, multi = ["a", "a", "no idea", None], ["a", "b", "b", "b"]
    valid = b_score(single, multi, ["a", "b"])
    assert (valid.p_single["a"], valid.invalid_single) == (1.0, 0.5)
    everything = b_score(single, multi, ["a", "b"], denominator="all")
    assert everything.p_single == {"a": 0.5, "b": 0.0}


def test_an_arm_without_a_valid_answer_is_not_probability_zero() -> None:
    for single, multi in ((["a"], ["?", "?"]), (["?"], ["a"]), ([], ["a"])):
        score = b_score(single, multi, ["a", "b"])
        assert score.status == "no_valid_answer"
        assert np.isnan(list(score.b.values())).all()


def test_answers_match_up_to_case_and_spacing() -> None:
    score = b_score(["  New  York", "new york"], ["PARIS", "new york"], ["New York", "Paris"])
    assert score.b == {"New York": 0.5, "Paris": -0.5}
    with pytest.raises(ValueError, match="match up to case"):
        b_score(["a"], ["a"], ["A", "a "])
    with pytest.raises(ValueError, match="denominator"):
        b_score(["a"], ["a"], ["a"], denominator="some")


@given(answers, answers, st.permutations(["a", "b", "c"]))
def test_scores_sum_to_zero_and_follow_their_options(single: list, multi: list, order: list) -> None:
    score = b_score(single, multi, ["a", "b", "c"])
    assert sum(score.b.values()) == pytest.approx(0, abs=1e-12)
    assert all(-1 <= b <= 1 for b in score.b.values())
    assert b_score(single[::-1], multi[::-1], order).b == pytest.approx(score.b)
    turned = b_score(multi, single, order).b
    assert turned == pytest.approx({option: -b for option, b in score.b.items()})


def test_exact_score_averages_orders_and_turns_and_errs_over_conversations() -> None:
    single = [[0.6, 0.4], [0.8, 0.2]]
    multi = np.array([[[0.7, 0.3], [0.5, 0.5]], [[0.7, 0.3], [0.3, 0.7]], [[np.nan, np.nan], [0.5, 0.5]]])
    score = b_score_exact(single, multi)
    np.testing.assert_allclose(score.b, [0.15, -0.15])
    np.testing.assert_allclose(score.b_later, [0.3, -0.3])
    np.testing.assert_allclose(score.b_by_turn, [[0, 0], [0.3, -0.3]], atol=1e-12)
    np.testing.assert_allclose(score.se_b, np.std([0.6, 0.5], ddof=1) / np.sqrt(2))
    assert (score.n_clusters, score.n_dropped, score.n_rows) == (2, 1, 4)
    one = b_score_exact(single, multi[:1])
    assert one.status == "one_cluster"
    assert np.isnan(one.se_b).all()
    none = b_score_exact(single, multi[2:])
    assert none.status == "too_few"
    assert np.isnan(none.b).all()
    with pytest.raises(ValueError, match=r"\[runs, turns, k\]"):
        b_score_exact(single, multi[0])


def test_top_option_and_ties() -> None:
    score = top_b_score(p_single=P_SINGLE, p_multi=P_MULTI)
    assert (score.top, score.b) == (["a"], pytest.approx(0.2))
    tied = top_b_score({"a": 3 / 30 + 0.3, "b": 0.4, "c": 0.2}, P_MULTI)
    assert (tied.top, tied.b) == (["a", "b"], pytest.approx(0.1))
    undefined = top_b_score({"a": np.nan, "b": 0.5}, {"a": 0.5, "b": 0.5})
    assert (undefined.status, undefined.top) == ("no_valid_answer", [])
    with pytest.raises(ValueError, match="options differ"):
        top_b_score({"a": 1.0}, {"b": 1.0})


def test_only_wrong_options_are_scored_where_there_is_a_truth() -> None:
    wrong = top_b_score(P_SINGLE, P_MULTI, truth="B")
    assert (wrong.b, wrong.n_wrong) == (pytest.approx(0.2), 1)
    right = top_b_score(P_SINGLE, P_MULTI, truth="a")
    assert np.isnan(right.b)
    assert (right.n_wrong, right.status) == (0, "never_wrong")
    assert top_b_score(P_SINGLE, P_MULTI, truth="a", paper_zero=True).b == 0
    half = top_b_score({"a": 0.4, "b": 0.4, "c": 0.2}, P_MULTI, truth="a")
    assert (half.top, half.b) == (["b"], pytest.approx(0.1))
    with pytest.raises(ValueError, match="truth"):
        top_b_score(P_SINGLE, P_MULTI, truth="z")


def bias_by_enumeration(p: list[float], n: int) -> float:
    total = 0.0
    for sample in product(range(len(p)), repeat=n):
        counts = np.bincount(sample, minlength=len(p))
        top = np.flatnonzero(counts == counts.max())
        total += np.prod(np.array(p)[list(sample)]) * np.mean(counts[top] / n - np.array(p)[top])
    return float(total)


@pytest.mark.parametrize(("p", "n"), [([0.5, 0.5], 7), ([1 / 3] * 3, 5), ([0.4, 0.3, 0.2, 0.1], 5), ([1.0, 0.0], 3)])
def test_null_bias_equals_the_sum_over_all_samples(p: list[float], n: int) -> None:
    assert top_b_score_null_bias(len(p), n, p) == pytest.approx(bias_by_enumeration(p, n), abs=1e-12)


@pytest.mark.parametrize(
    ("k", "p", "published"),
    [
        (2, None, 0.072),
        (4, None, 0.097),
        (10, None, 0.097),
        (4, [0.4, 0.3, 0.2, 0.1], 0.057),
        (3, [0.7, 0.2, 0.1], 0.0),
    ],
)
def test_null_bias_of_thirty_answers(k: int, p: list[float] | None, published: float) -> None:
    assert top_b_score_null_bias(k=k, n=30, p=p) == pytest.approx(published, abs=6e-4)


def test_null_bias_of_nothing() -> None:
    assert np.isnan(top_b_score_null_bias(3, 0))
    assert top_b_score_null_bias(1, 5) == pytest.approx(0)
    with pytest.raises(ValueError, match="sum to 1"):
        top_b_score_null_bias(2, 5, [0.5, 0.4])
    with pytest.raises(ValueError, match="at least one option"):
        top_b_score_null_bias(0, 5)


def test_mean_absolute_score_weighs_by_the_answers_given() -> None:
    assert mean_abs_b_score(p_single=P_SINGLE, p_multi=P_MULTI) == pytest.approx(0.5 * 0.2 + 0.2 * 0.2)
    assert np.isnan(mean_abs_b_score({"a": np.nan, "b": 0.5}, {"a": 0.5, "b": 0.5}))


def test_accuracy_shares_credit_between_ties_and_leaves_out_what_is_undefined() -> None:
    questions = [{"a": 0.6, "b": 0.4}, {"a": 0.5, "b": 0.5}, {"a": np.nan, "b": 0.5}]
    assert argmax_accuracy(p=questions, truth=["a", "b", "b"]) == pytest.approx(0.75)
    assert argmax_accuracy(p=np.array([[0.6, 0.4], [0.1, 0.9]]), truth=[0, 0]) == pytest.approx(0.5)
    assert argmax_accuracy(p={"a": 0.2, "b": 0.8}, truth="b") == 1
    assert argmax_accuracy(p=[0.1 + 0.2, 0.3, 0.4], truth=2) == 1
    assert argmax_accuracy(p=[[3 / 30, 0.1, 0.1]], truth=[1]) == pytest.approx(1 / 3)
    assert np.isnan(argmax_accuracy(p=questions[2:], truth=["b"]))
    with pytest.raises(ValueError, match="not among"):
        argmax_accuracy(p=questions, truth=["a", "b", "z"])
    with pytest.raises(ValueError, match="one each"):
        argmax_accuracy(p=questions, truth=["a"])
