from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy.special import log_softmax, softmax

from doxascope.metrics import Resampling, belief_consistency, chance_corrected, readout_gate, word_identity_null

WORDS = np.array(["cat", "dog", "owl", "fox", "bee"])


def world(seed: int, n_items: int = 40) -> dict[str, Any]:
    """Two priors and three posteriors per item; a rejection lowers that option's exact log-probability."""
    rng = np.random.default_rng(seed)
    taste = dict(zip(WORDS, rng.normal(0, 2, 5), strict=True))
    option, item, rejected, exact = [], [], [], []
    for i in range(n_items):
        words = rng.choice(WORDS, 3, replace=False)
        belief = rng.normal(0, 1, 3)
        for r in (-1, -1, 0, 1, 2):
            scores = np.array([taste[w] for w in words]) + belief + rng.normal(0, 0.3, 3)
            if r >= 0:
                scores[r] -= 2
            option.append(words)
            item.append(i)
            rejected.append(r)
            exact.append(log_softmax(np.r_[scores, 0])[:3])
    arrays = {"exact_logp": exact, "option": option, "item": item, "rejected": rejected}
    return {name: np.array(x) for name, x in arrays.items()}


def words_alone(option: np.ndarray) -> np.ndarray:
    """A read-out whose value is a constant of the word."""
    constant = {w: -3 - 0.7 * i for i, w in enumerate(WORDS)}
    return np.vectorize(constant.get)(option).astype(float)


def test_a_faithful_readout_passes_and_its_correlation_is_that_of_a_word_effects_regression() -> None:
    data = world(0)
    rng = np.random.default_rng(1)
    inner = 0.8 * data["exact_logp"] + rng.normal(0, 0.2, data["exact_logp"].shape) - 0.5
    score = readout_gate(inner_logp=np.minimum(inner, 0), **data, how=Resampling(draws=300))
    assert score.passed
    assert score.failures == ()
    assert score.evidence_response < 0 > score.evidence_exact

    inner = np.minimum(inner, 0)
    frame = pd.DataFrame(
        {
            "x": log_softmax(inner, axis=1).ravel(),
            "y": log_softmax(data["exact_logp"], axis=1).ravel(),
            "word": data["option"].ravel(),
            "context": np.arange(len(inner)).repeat(3),
        }
    )
    residuals = [smf.ols(f"{name} ~ C(word) + C(context)", frame).fit().resid for name in ("x", "y")]
    assert score.partial_corr == pytest.approx(np.corrcoef(*residuals)[0, 1])
    assert score.coverage == pytest.approx(np.median(np.exp(inner).sum(axis=1)))


def test_contexts_may_have_fewer_options() -> None:
    """Every third context lacks its last option: the regression on words and contexts is then of the cells there."""
    data = world(0)
    rng = np.random.default_rng(1)
    some = data["item"] % 3 == 0
    data = {name: x[~(some & (data["rejected"] == 2))] for name, x in data.items()}
    short = data["item"] % 3 == 0
    inner = np.minimum(0.8 * data["exact_logp"] + rng.normal(0, 0.2, data["exact_logp"].shape) - 0.5, 0)
    option = data["option"].astype(object)
    option[short, 2], inner[short, 2], data["exact_logp"][short, 2] = None, np.nan, np.nan
    score = readout_gate(inner, data["exact_logp"], option, data["item"], data["rejected"], how=Resampling(draws=100))
    assert (score.n_dropped, score.passed) == (0, True)
    there = ~pd.isna(option)
    shares = [
        np.where(there, log_softmax(np.where(there, x, -np.inf), axis=1), np.nan) for x in (inner, data["exact_logp"])
    ]
    names = {"word": option.ravel(), "context": np.arange(len(inner)).repeat(3)}
    frame = pd.DataFrame({"x": shares[0].ravel(), "y": shares[1].ravel(), **names}).dropna()
    residuals = [smf.ols(f"{name} ~ C(word) + C(context)", frame).fit().resid for name in ("x", "y")]
    assert score.partial_corr == pytest.approx(np.corrcoef(*residuals)[0, 1])


def test_evidence_response_is_the_mean_change_of_the_rejected_word() -> None:
    data: dict[str, Any] = {
        "option": np.array([["cat", "dog"], ["dog", "cat"], ["cat", "dog"]]),
        "item": np.array(["a", "a", "a"]),
        "rejected": np.array([-1, -1, 0]),
    }
    logp = np.log([[0.5, 0.25], [0.2, 0.4], [0.1, 0.4]])
    score = readout_gate(logp, logp, **data)
    before = np.mean([np.log(0.5 / 0.25), np.log(0.4 / 0.2)])  # cat, wherever it stood
    assert score.evidence_response == pytest.approx(np.log(0.1 / 0.4) - before)
    assert score.evidence_exact == score.evidence_response
    assert not score.passed  # one item has no interval


def test_word_identity_fails_although_it_looks_perfectly_consistent() -> None:
    data = world(2)
    inner = words_alone(data["option"]) + np.linspace(-1, 0, len(data["option"]))[:, None]
    score = readout_gate(inner, **data, how=Resampling(draws=200))
    assert np.isnan(score.partial_corr)
    assert set(score.failures) == {"partial_corr", "evidence_response", "items_responding"}
    post = softmax(inner, axis=1)
    chosen = data["rejected"] >= 0
    prior = np.repeat(post[~chosen][::2], 3, axis=0)
    assert belief_consistency(prior, post[chosen], data["rejected"][chosen]).c2 == pytest.approx(1)


def test_word_identity_fails_even_if_the_exact_readout_is_mostly_word_taste() -> None:
    data = world(2)
    taste = np.array([data["exact_logp"][data["option"] == w].mean() for w in WORDS])
    inner = taste[np.argsort(WORDS)][np.searchsorted(np.sort(WORDS), data["option"])]
    rng = np.random.default_rng(3)
    score = readout_gate(np.minimum(inner + rng.normal(0, 0.01, inner.shape), 0), **data, how=Resampling(draws=200))
    plain = np.corrcoef(inner.ravel(), data["exact_logp"].ravel())[0, 1]
    assert plain > 0.5
    assert abs(score.partial_corr) < 0.2
    assert "partial_corr" in score.failures


def test_low_coverage_and_a_reversed_readout_fail() -> None:
    data = world(3)
    thin = readout_gate(data["exact_logp"] - 10, **data, how=Resampling(draws=200))
    assert thin.failures == ("coverage",)
    assert readout_gate(data["exact_logp"] - 10, **data, min_coverage=1e-6, how=Resampling(draws=200)).passed
    reversed_ = readout_gate(-data["exact_logp"] - 20, **data, min_coverage=0, how=Resampling(draws=200))
    assert set(reversed_.failures) == {"partial_corr", "evidence_response", "items_responding"}
    assert reversed_.params["min_corr"] == 0.5


def test_the_order_of_contexts_and_options_does_not_matter() -> None:
    data = world(4, 12)
    inner = data["exact_logp"] + np.random.default_rng(5).normal(0, 0.1, data["exact_logp"].shape) - 1
    plain = readout_gate(inner, **data, how=Resampling(draws=50))
    rows, columns = np.random.default_rng(6).permutation(len(inner)), [2, 0, 1]
    where = np.where(data["rejected"] < 0, -1, np.argsort(columns)[data["rejected"]])
    moved = readout_gate(
        inner[rows][:, columns],
        data["exact_logp"][rows][:, columns],
        data["option"][rows][:, columns],
        data["item"][rows],
        where[rows],
        how=Resampling(draws=50),
    )
    for name in ("coverage", "partial_corr", "evidence_response", "evidence_exact"):
        assert getattr(moved, name) == pytest.approx(getattr(plain, name))


def test_gate_of_missing_or_malformed_readouts() -> None:
    data = world(7, 3)
    inner = data["exact_logp"].copy()
    inner[0, 0] = np.nan
    few = readout_gate(inner, **data)
    assert (few.n_dropped, few.ci_method) == (1, "jackknife, t(2)")
    empty = readout_gate(np.full_like(inner, np.nan), **data)
    assert (empty.status, empty.passed, len(empty.failures)) == ("too_few", False, 3)
    wrong_column: dict[str, Any] = {"rejected": np.full(15, 3)}
    two_words: dict[str, Any] = {"option": WORDS[:2]}
    with pytest.raises(ValueError, match="rejected"):
        readout_gate(inner, **(data | wrong_column))
    with pytest.raises(ValueError, match="no log-probability"):
        readout_gate(inner + 5, **data)
    with pytest.raises(ValueError, match="option: shape"):
        readout_gate(inner, **(data | two_words))
    with pytest.raises(ValueError, match="two or more"):
        readout_gate(inner[:, :1], inner[:, :1], ["cat"], data["item"], data["rejected"])


def test_word_null_keeps_the_words_and_drops_the_context() -> None:
    logp = np.log([[0.4, 0.2], [0.1, 0.1], [0.3, 0.3]])
    option = [["cat", "dog"], ["cat", "dog"], ["dog", "cat"]]
    score = word_identity_null(logp=logp, option=option, item=["a", "a", "b"])
    cat = (np.log([0.4, 0.1]).mean() + np.log(0.3)) / 2  # items weigh equally
    dog = (np.log([0.2, 0.1]).mean() + np.log(0.3)) / 2
    assert score.constants == pytest.approx({"cat": cat, "dog": dog})
    np.testing.assert_allclose(score.null_prob[0], softmax([cat, dog]))
    np.testing.assert_allclose(score.null_prob[2], score.null_prob[0][::-1])
    shifted = word_identity_null(logp - 3, option, ["a", "a", "b"])
    np.testing.assert_allclose(shifted.null_prob, score.null_prob)


def test_a_word_readout_is_its_own_null_and_scores_nothing_beyond_it() -> None:
    data = world(8)
    inner = words_alone(data["option"])
    null = word_identity_null(inner, data["option"], data["item"]).null_prob
    np.testing.assert_allclose(null, softmax(inner, axis=1))
    agreement = 1 - np.abs(softmax(inner, axis=1) - softmax(data["exact_logp"], axis=1)).mean()
    of_null = 1 - np.abs(null - softmax(data["exact_logp"], axis=1)).mean()
    assert chance_corrected(agreement, of_null).kappa == pytest.approx(0, abs=1e-9)


def test_two_class_consistency_is_perfect_under_the_words_alone_so_nothing_is_left_to_correct() -> None:
    data = world(9)
    before, after = np.arange(0, len(data["item"]), 5).repeat(3), np.flatnonzero(data["rejected"] >= 0)
    null = word_identity_null(data["exact_logp"], data["option"], data["item"]).null_prob
    of_words = belief_consistency(null[before], null[after], data["rejected"][after]).c2
    np.testing.assert_allclose(of_words, 1, atol=1e-12)
    shares = softmax(data["exact_logp"], axis=1)
    seen = belief_consistency(shares[before], shares[after], data["rejected"][after]).c2
    beyond = chance_corrected(np.mean(seen), np.mean(of_words))
    assert np.isnan(beyond.kappa)
    assert beyond.status == "chance_is_perfect"


def test_word_null_of_words_without_a_value() -> None:
    logp = np.array([[-1.0, -np.inf], [-2.0, np.nan], [-1.0, -1.0]])
    score = word_identity_null(logp, [["a", "b"], ["a", "b"], ["a", "c"]], [0, 1, 2])
    assert np.isnan(score.null_prob[:2]).all()
    assert (score.n_rows, score.n_dropped, score.reasons) == (1, 2, {"word_without_value": 2})
    assert word_identity_null([[-1.0, -2.0]], ["a", "b"], [0]).null_prob.shape == (1, 2)
    with pytest.raises(ValueError, match="item"):
        word_identity_null(logp, ["a", "b"], [0])
