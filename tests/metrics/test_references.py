"""What a hand can compute, computed by others: scipy, sklearn, pandas, or a list of everything that can happen."""

from collections import Counter
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import linprog
from scipy.spatial.distance import jensenshannon
from scipy.special import softmax
from sklearn.metrics import accuracy_score, mean_absolute_error, root_mean_squared_error

from doxascope.metrics import (
    Resampling,
    argmax_accuracy,
    b_score,
    bayes_error,
    belief_consistency,
    belief_from_logprobs,
    calibration_consistency,
    calibration_error,
    coherent_posterior,
    counts_to_probabilities,
    direction,
    direction_rates,
    disattenuated_slope,
    entropy_bits,
    exclusion_bounds,
    fork_coherence,
    hindsight_slope,
    jsd,
    lie,
    martingale_score,
    mean_abs_b_score,
    py_bounds,
    switch,
    sycophancy_error,
    top_b_score,
    trajectory_pairs,
    transfer_fraction,
    verification_accuracy,
)
from doxascope.metrics.inference.regression import linear_fit

seeds = st.integers(0, 10_000)
inside = st.floats(0.02, 0.98)
few = settings(max_examples=30, deadline=None)


@few
@given(seeds, st.integers(2, 6))
def test_divergence_and_entropy_are_those_of_scipy(seed: int, k: int) -> None:
    p, q = np.random.default_rng(seed).dirichlet(np.full(k, 0.5), 2)
    assert jsd(p, q) == pytest.approx(jensenshannon(p, q, base=2) ** 2, abs=1e-9)
    assert entropy_bits(p) == pytest.approx(stats.entropy(p, base=2))
    assert calibration_consistency(p, q) == pytest.approx(1 - jensenshannon(p, q, base=2) ** 2, abs=1e-9)
    score = fork_coherence(q, p)
    assert score.commitment == pytest.approx(1 - stats.entropy(p, base=k), abs=1e-9)


@few
@given(seeds)
def test_consistency_of_three_options_is_that_of_scipy(seed: int) -> None:
    prior, post = np.random.default_rng(seed).dirichlet(np.ones(4), 2)[:, :3]
    score = belief_consistency(prior, post, 1)
    assert score.c2 == pytest.approx(1 - jensenshannon(prior[[0, 2]], post[[0, 2]], base=2) ** 2, abs=1e-9)
    assert score.c3 == pytest.approx(1 - jensenshannon(prior * [1, 0, 1], post, base=2) ** 2, abs=1e-9)


@few
@given(inside, inside)
def test_switching_is_the_sum_over_both_draws(a: float, b: float) -> None:
    chance = {(i, j): (a, 1 - a)[i] * (b, 1 - b)[j] for i, j in product((0, 1), repeat=2)}
    assert switch([a, 1 - a], [b, 1 - b]).switch == pytest.approx(sum(p for (i, j), p in chance.items() if i != j))


@few
@given(st.lists(st.sampled_from("abcx"), min_size=1, max_size=20), st.lists(st.sampled_from("abc"), min_size=1))
def test_shares_of_answers_are_counts_of_pandas(single: list[str], multi: list[str]) -> None:
    of_single = pd.Series(single)[lambda s: s != "x"].value_counts(normalize=True).reindex(list("abc"), fill_value=0)
    of_multi = pd.Series(multi).value_counts(normalize=True).reindex(list("abc"), fill_value=0)
    counts = Counter(multi)
    np.testing.assert_allclose(counts_to_probabilities([counts[x] for x in "abc"]), of_multi)
    if set(single) == {"x"}:
        return
    score = b_score(single, multi, list("abc"))
    assert score.b == pytest.approx((of_single - of_multi).to_dict())
    top = of_single[of_single == of_single.max()].index
    assert top_b_score(score.p_single, score.p_multi).b == pytest.approx((of_single - of_multi)[top].mean())
    expected = np.average(np.abs(of_single - of_multi), weights=of_single)
    assert mean_abs_b_score(score.p_single, score.p_multi) == pytest.approx(expected)


@few
@given(seeds)
def test_accuracy_and_errors_are_those_of_sklearn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p, truth = rng.dirichlet(np.ones(4), 15), rng.integers(0, 4, 15)
    assert argmax_accuracy(p, truth) == pytest.approx(accuracy_score(truth, p.argmax(axis=1)))
    syc, base, bayes = rng.uniform(size=(3, 15))
    score = bayes_error(syc, bayes, how=Resampling(draws=10))
    assert score.rmse == pytest.approx(root_mean_squared_error(bayes, syc))
    assert score.mae == pytest.approx(mean_absolute_error(bayes, syc))
    change = root_mean_squared_error(bayes, syc) - root_mean_squared_error(bayes, base)
    assert sycophancy_error(base, syc, bayes, how=Resampling(draws=10)).sycophancy_error == pytest.approx(change)


@few
@given(seeds, st.floats(0.05, 0.95))
def test_decisions_are_right_as_often_as_sklearn_says(seed: int, tau: float) -> None:
    rng = np.random.default_rng(seed)
    category, right, single = rng.choice(["easy", "hard"], 20), rng.random(20) < 0.6, rng.uniform(size=20)
    records = [
        {"category": c, "answer": "A" if r else "B", "truth": "A", "single": s}
        for c, r, s in zip(category, right, single, strict=True)
    ]
    score = verification_accuracy(records, "single", tau)
    each = [accuracy_score(right[category == c], single[category == c] >= tau) for c in set(category)]
    assert score.macro == pytest.approx(np.mean(each))
    assert score.micro == pytest.approx(accuracy_score(right, single >= tau))


@few
@given(inside, inside, inside)
def test_the_coherent_posterior_conditions_a_table_of_all_cases(p_x: float, like: float, like_not: float) -> None:
    joint = np.array([[p_x * like, p_x * (1 - like)], [(1 - p_x) * like_not, (1 - p_x) * (1 - like_not)]])
    score = coherent_posterior(p_x, like, like_not)
    assert score.posterior == pytest.approx(joint[0, 0] / joint[:, 0].sum())
    assert score.py == pytest.approx(joint[:, 0].sum())


@few
@given(inside, inside)
def test_bounds_of_the_marginal_are_those_of_a_linear_program(p_x: float, like: float) -> None:
    # Cases xy, x not-y, not-x y, not-x not-y: P(X) and P(XY) are given, P(Y) is sought.
    fixed = {"A_eq": [[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]], "b_eq": [1, p_x, p_x * like]}
    ends = [sign * linprog(np.multiply(sign, [1, 0, 1, 0]), **fixed).fun for sign in (1, -1)]
    bounds = py_bounds(p_x, like)
    assert (bounds.lo, bounds.hi) == pytest.approx(ends, abs=1e-9)


@few
@given(st.lists(st.tuples(*[st.integers(0, 10)] * 3), min_size=1, max_size=12))
def test_directions_are_the_rules_read_in_whole_numbers(rows: list[tuple[int, int, int]]) -> None:
    """In tenths nothing rounds, so that the rules can be read without a tolerance."""

    def said(prior: int, post: int, bayes: int) -> str:
        if post == bayes:
            return "exact"
        if bayes == prior:
            return "spurious"
        if post == prior:
            return "no_update"
        if (post > prior) != (bayes > prior):
            return "incorrect"
        return "over" if abs(post - prior) > abs(bayes - prior) else "under"

    expected = [said(*row) for row in rows]
    arrays = np.array(rows).T / 10
    assert list(direction(*arrays).labels) == expected
    rates = direction_rates(*arrays, how=Resampling(draws=10))
    assert {name: getattr(rates, name) for name in set(expected)} == pytest.approx(
        {name: expected.count(name) / len(rows) for name in set(expected)}
    )


@few
@given(seeds, st.integers(1, 5))
def test_iterated_expectation_is_a_weighted_average_within_a_hull(seed: int, m: int) -> None:
    rng = np.random.default_rng(seed)
    p, cond, weights = rng.uniform(), rng.uniform(size=m), rng.uniform(0.1, 3, m)
    score = lie(p, cond, weights)
    assert score.implied == pytest.approx(np.average(cond, weights=weights))
    # The least error over all weights that sum to one.
    program = linprog(
        [*np.zeros(m), 1], A_ub=[[*cond, -1], [*-cond, -1]], b_ub=[p, -p], A_eq=[[*np.ones(m), 0]], b_eq=[1]
    )
    assert score.outside_hull == pytest.approx(program.fun, abs=1e-9)


@few
@given(st.lists(st.floats(0, 1), min_size=1, max_size=5), st.integers(0, 4))
def test_bounds_of_exclusion_are_those_of_everything_that_could_have_been(scores: list[float], missing: int) -> None:
    means = [np.mean([*scores, *filled]) for filled in product((0, 1), repeat=missing)]
    bounds = exclusion_bounds([*scores, *[np.nan] * missing])
    assert (bounds.lower, bounds.upper) == pytest.approx((min(means), max(means)))


@few
@given(seeds, st.integers(1, 4), st.integers(1, 4))
def test_a_belief_of_log_probabilities_is_a_softmax_summed_over_forms(seed: int, n_yes: int, n_no: int) -> None:
    logp = np.log(np.random.default_rng(seed).dirichlet(np.ones(n_yes + n_no + 1)))[:-1]
    score = belief_from_logprobs(logp[:n_yes], logp[n_yes:])
    assert score.belief == pytest.approx(softmax(logp)[:n_yes].sum())
    assert score.option_mass == pytest.approx(np.exp(logp).sum())


@few
@given(st.lists(st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=1, max_size=6), min_size=1, max_size=4))
def test_steps_are_paired_as_a_shift_of_pandas_pairs_them(chains: list[list[float | None]]) -> None:
    found = trajectory_pairs([np.array(chain, dtype=float) for chain in chains], "per_step", np.arange(len(chains)))
    long = pd.concat([pd.DataFrame({"group": i, "b": chain}, dtype=float) for i, chain in enumerate(chains)])
    long["next"] = long.groupby("group")["b"].shift(-1)
    expected = long.dropna()
    np.testing.assert_array_equal(found.prior, expected["b"])
    np.testing.assert_array_equal(found.post, expected["next"])
    np.testing.assert_array_equal(found.group, expected["group"])


def test_noise_and_hindsight_bias_the_slope_as_the_formulas_say() -> None:
    rng = np.random.default_rng(0)
    n = 400_000
    b, d = rng.normal(0, 1, n), rng.normal(0, 0.5, n)
    common, own = rng.normal(0, 0.3, n), rng.normal(0, 0.4, n)
    scale = lambda x: 0.5 + x / 40  # noqa: E731  slopes do not depend on it, and a belief must lie in [0, 1]
    seen = np.cov(b + common + own, ddof=0)
    noisy = martingale_score(scale(b + common + own), scale(b + 0.2 * b + d + common))
    corrected = disattenuated_slope(noisy.M, 1 / float(seen), 0.09 / float(seen))
    assert corrected.beta1 == pytest.approx(0.2, abs=0.01)
    leaky = martingale_score(scale(b + 0.2 * d), scale(b + d))
    assert pytest.approx(hindsight_slope(0.2, 0.25), abs=0.005) == leaky.M


@few
@given(seeds)
def test_a_transfer_is_a_weighted_mean_of_the_shares_of_its_pairs(seed: int) -> None:
    base, moved, update = np.random.default_rng(seed).uniform(0.5, 2, (3, 8))
    score = transfer_fraction(base, base + moved, base + update, how=Resampling(draws=10))
    assert score.transfer == pytest.approx(np.average(moved / update, weights=update))


@few
@given(inside, inside, st.floats(0.05, 0.95), st.floats(0.05, 0.95))
def test_flawless_updating_regresses_by_what_the_prior_is_wrong(
    prior: float, true: float, like: float, like_not: float
) -> None:
    """METRICS A10: the mean update under the truth is (p* - p) x (mean posterior if X - mean posterior if not)."""
    posteriors = [coherent_posterior(prior, a, b).posterior for a, b in ((like, like_not), (1 - like, 1 - like_not))]
    given_x, given_not_x = (np.dot([a, 1 - a], posteriors) for a in (like, like_not))
    mean = true * given_x + (1 - true) * given_not_x
    assert mean - prior == pytest.approx((true - prior) * (given_x - given_not_x), abs=1e-9)


def test_clustered_errors_are_those_of_pyfixest() -> None:
    """Figures of pyfixest 0.60 on the same rows: `feols("y ~ x + z", vcov={"CRV1": "g"})` with its p, by t(13), and
    {"CRV3": "g"} without its small-sample factors. Its CRV3 sums squares over the clusters, and a jackknife takes
    (G - 1) / G of that.
    """
    rng = np.random.default_rng(0)
    sizes = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 30]
    g = np.repeat(np.arange(14), sizes)
    x = rng.normal(size=len(g)) + rng.normal(size=14)[g]
    z = rng.normal(size=len(g))
    y = 0.3 * x - 0.2 * z + rng.normal(size=14)[g] + rng.normal(size=len(g))
    design = np.column_stack([np.ones(len(g)), x, z])
    along = np.array([0.0, 1.0, 0.0])
    simple, jackknife = (linear_fit(y, design, se=se, codes=g).contrast(along) for se in ("CR1", "CR3"))
    assert (simple.estimate, simple.se, simple.p) == pytest.approx((0.597396, 0.156824, 0.002169), abs=6e-7)
    assert jackknife.se == pytest.approx(0.20346128 * np.sqrt(13 / 14), abs=1e-8)


def test_the_calibration_error_is_that_of_model_diagnostics() -> None:
    """Figures of model-diagnostics 1.5 on the same rows: `compute_bias(y, p, feature=p, n_bins=5)`, in bins of equal
    counts: the mean size of `bias_mean`.
    """
    rng = np.random.default_rng(0)
    p = rng.uniform(0.05, 0.95, 150)
    y = (rng.random(150) < p**1.5).astype(float)
    bias = np.array([0.07300780014, 0.09422114561, 0.41573812580, 0.23284876956, 0.05377265463])
    found = calibration_error(p, y, bins=5)
    assert found.ece == pytest.approx(np.abs(bias).mean(), abs=1e-9)
    assert found.ci_lo < np.sqrt((bias**2).mean()) < found.ci_hi
