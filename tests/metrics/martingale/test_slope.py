import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from doxascope.metrics import (
    Resampling,
    calibration_slope,
    martingale_joint_test,
    martingale_moments,
    martingale_score,
    martingale_slope,
)

# Six questions, four beliefs of each.
PRIOR = np.array(
    [
        [0.78, 0.578, 0.418, 0.929],
        [0.157, 0.466, 0.595, 0.539],
        [0.779, 0.723, 0.367, 0.162],
        [0.738, 0.955, 0.935, 0.78],
        [0.066, 0.202, 0.594, 0.028],
        [0.7, 0.361, 0.059, 0.167],
    ]
).ravel()
POST = np.array(
    [
        [0.706, 0.583, 0.413, 0.986],
        [0.043, 0.439, 0.665, 0.493],
        [0.862, 0.808, 0.243, 0.076],
        [0.825, 1.0, 1.0, 0.792],
        [0.029, 0.322, 0.594, 0.024],
        [0.697, 0.334, 0.064, 0.059],
    ]
).ravel()
QUESTION = np.repeat(np.arange(6), 4)


def sandwich(b: np.ndarray, d: np.ndarray, groups: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coefficients, HC3 and CR1 covariances from the textbook sums."""
    x = np.column_stack([np.ones_like(b), b])
    bread = np.linalg.inv(x.T @ x)
    beta = bread @ x.T @ d
    e = d - x @ beta
    h = np.einsum("ij,jk,ik->i", x, bread, x)
    hc3 = bread @ (x.T * (e / (1 - h)) ** 2) @ x @ bread
    if groups is None:
        return beta, hc3, hc3
    n, g = len(b), len(set(groups))
    scores = np.array([x[groups == q].T @ e[groups == q] for q in np.unique(groups)])
    cr1 = g / (g - 1) * (n - 1) / (n - 2) * bread @ scores.T @ scores @ bread
    return beta, hc3, cr1


def beliefs(min_rows: int = 4) -> st.SearchStrategy[list[tuple[int, int, int]]]:
    """Rows of (prior, post, question) on a grid, with a prior that varies enough to have a slope."""
    row = st.tuples(st.integers(0, 100), st.integers(0, 100), st.integers(0, 5))
    return st.lists(row, min_size=min_rows, max_size=25).filter(lambda rows: len({r[0] for r in rows}) > 1)


def columns(rows: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    prior, post, question = np.array(rows).T
    return prior / 100, post / 100, question


def test_four_points_by_hand() -> None:
    # Updates -.1, 0, .1, .1 on priors .2 to .8: Sxx = .2, Sxy = .07, M = .35, r2 = .07^2 / (.2 x .0275).
    score = martingale_score([0.2, 0.4, 0.6, 0.8], [0.1, 0.4, 0.7, 0.9])
    assert score.M == score.estimate == pytest.approx(0.35)
    assert score.mean_delta == pytest.approx(0.025)
    assert score.intercept == pytest.approx(0.025 - 0.35 * 0.5)
    assert score.r2 == pytest.approx(0.0049 / 0.0055)
    assert score.se == pytest.approx(np.sqrt(0.003 / 2 / 0.2))
    assert score.t == pytest.approx(0.35 / score.se)
    assert score.p == pytest.approx(2 * stats.t.sf(score.t, 2))
    assert score.ci_hi - score.M == pytest.approx(stats.t.ppf(0.975, 2) * score.se)
    assert score.ci_lo == pytest.approx(-0.022620656762549762)
    assert (score.n, score.n_rows, score.n_dropped, score.status) == (4, 4, 0, "ok")
    assert (score.se_iid, score.p_iid) == (score.se, score.p)


def test_iid_agrees_with_linregress() -> None:
    score, fit = martingale_score(PRIOR, POST), stats.linregress(PRIOR, POST - PRIOR)
    assert (score.M, score.se, score.p) == pytest.approx((fit.slope, fit.stderr, fit.pvalue))
    assert (score.intercept, score.r2) == pytest.approx((fit.intercept, fit.rvalue**2))


def test_hc3_agrees_with_its_formula_and_a_worked_value() -> None:
    score = martingale_score(PRIOR, POST, se="HC3")
    beta, hc3, _ = sandwich(PRIOR, POST - PRIOR, None)
    assert (score.M, score.se) == pytest.approx((beta[1], np.sqrt(hc3[1, 1])))
    assert (score.se, score.p) == pytest.approx((0.04362185729348391, 0.018721575242740696))
    assert score.ci_method == "t(22), HC3"


def test_cr1_has_t_on_clusters_less_one() -> None:
    score = martingale_score(PRIOR, POST, QUESTION, se="CR1")
    beta, _, cr1 = sandwich(PRIOR, POST - PRIOR, QUESTION)
    assert (score.M, score.se) == pytest.approx((beta[1], np.sqrt(cr1[1, 1])))
    assert score.p == pytest.approx(2 * stats.t.sf(score.M / score.se, 5))
    assert (score.p, score.ci_lo) == pytest.approx((0.10996875210809515, -0.03593802351772511))
    wald = beta @ np.linalg.solve(cr1, beta) / 2
    assert (score.joint_F, score.joint_p) == pytest.approx((wald, stats.f.sf(wald, 2, 5)))
    assert score.joint_p == pytest.approx(0.13470189094202353)
    assert (score.G, score.n_clusters, score.ci_method) == (6, 6, "t(5), CR1 over 6 clusters")


def test_wild_bootstrap_enumerates_six_questions() -> None:
    prior = [0.1, 0.2, 0.35, 0.3, 0.55, 0.5, 0.62, 0.7, 0.8, 0.9, 0.15, 0.85]
    post = [0.05, 0.25, 0.3, 0.2, 0.6, 0.45, 0.7, 0.85, 0.82, 0.97, 0.2, 0.8]
    groups = np.repeat(np.arange(6), 2)
    score = martingale_score(prior, post, groups, p="wild")
    assert score.p == score.p_wild == 26 / 64
    assert score.t_abs == abs(score.t) == pytest.approx(0.9191591537512362)
    beside = martingale_score(prior, post, groups, se="CR1")
    assert beside.p_wild == score.p
    assert beside.p == pytest.approx(2 * stats.t.sf(score.t_abs, 5))


def test_forty_questions_need_no_bootstrap_unless_asked() -> None:
    rng = np.random.default_rng(0)
    prior, post, groups = rng.random(80), rng.random(80), np.repeat(np.arange(40), 2)
    assert np.isnan(martingale_score(prior, post, groups, se="CR1").p_wild)
    one, two = (martingale_score(prior, post, groups, p="wild", how=Resampling(seed=s, draws=99)).p for s in (1, 1))
    assert one == two
    assert one in {k / 100 for k in range(1, 101)}


def test_missing_beliefs_are_dropped_with_their_groups_and_counted() -> None:
    prior, post = PRIOR.copy(), POST.copy()
    prior[20:] = np.nan
    post[0] = np.nan
    score = martingale_score(prior, post, QUESTION)
    whole = martingale_score(PRIOR[1:20], POST[1:20], QUESTION[1:20])
    assert (score.n, score.n_dropped, score.G, score.reasons) == (19, 5, 5, {"undefined": 5})
    assert (score.M, score.se, score.p) == (whole.M, whole.se, whole.p)


NOTHING = ("se", "t", "p", "ci_lo", "ci_hi")


@pytest.mark.parametrize(
    ("prior", "post"),
    [([], []), ([0.5], [0.6]), ([0.5, np.nan], [0.6, 1])],
)
def test_fewer_than_two_rows_have_nothing(prior: list[float], post: list[float]) -> None:
    score = martingale_score(prior, post)
    assert score.status == "too_few"
    assert np.isnan([getattr(score, f) for f in (*NOTHING, "M", "intercept", "mean_delta", "r2")]).all()


@pytest.mark.parametrize("prior", [[0.3] * 3, [0.1 + 0.2, 0.3, 0.3]])
def test_a_prior_that_does_not_vary_has_no_slope_but_a_mean_update(prior: list[float]) -> None:
    score = martingale_score(prior, [0.4, 0.5, 0.6])
    assert (score.status, score.mean_delta) == ("zero_variance_prior", pytest.approx(0.2))
    assert np.isnan([getattr(score, f) for f in (*NOTHING, "M", "intercept", "r2")]).all()


def test_two_rows_have_a_slope_and_no_inference() -> None:
    score = martingale_score([0.2, 0.6], [0.1, 0.7])
    assert (score.status, score.M) == ("no_df", pytest.approx(0.5))
    assert np.isnan([getattr(score, f) for f in NOTHING]).all()


@pytest.mark.parametrize("groups", [None, [0, 0, 1, 1]])
def test_an_exact_fit_has_no_error_and_no_test(groups: list[int] | None) -> None:
    prior = np.array([0.2, 0.4, 0.6, 0.8])
    score = martingale_score(prior, 0.5 + 0.5 * (prior - 0.5), groups)
    assert (score.status, score.M, score.se) == ("perfect_fit", pytest.approx(-0.5), 0)
    assert score.ci_lo == score.ci_hi == score.M
    assert np.isnan([score.t, score.p]).all()
    constant = martingale_score(prior, prior + 0.1, groups)
    assert (constant.status, constant.se, constant.mean_delta) == (
        "zero_variance_update",
        0,
        pytest.approx(0.1),
    )
    assert constant.M == constant.ci_lo == constant.ci_hi == pytest.approx(0, abs=1e-12)
    assert np.isnan([constant.t, constant.p, constant.r2]).all()


def test_one_cluster_and_full_leverage_and_cancelling_clusters_are_named() -> None:
    one = martingale_score(PRIOR, POST, np.zeros(24))
    assert (one.status, one.M) == ("one_cluster", martingale_score(PRIOR, POST).M)
    lone = martingale_score([0.2, 0.2, 0.2, 0.8], [0.1, 0.2, 0.3, 0.9], se="HC3")
    assert lone.status == "leverage_one"
    # In each question the residuals are +.1 and -.1 at the same prior, so every cluster's score is zero.
    cancelling = martingale_score([0.2, 0.2, 0.8, 0.8], [0.1, 0.3, 0.7, 0.9], [0, 0, 1, 1], se="CR1")
    unmoved = martingale_score([0.2, 0.2, 0.5, 0.5, 0.8, 0.8], [0.1, 0.3, 0.4, 0.6, 0.7, 0.9], [0, 0, 1, 1, 2, 2])
    assert cancelling.status == unmoved.status == "zero_cluster_variance"
    carried = martingale_score([0.2, 0.2, 0.2, 0.8], [0.1, 0.2, 0.3, 0.9], [0, 1, 2, 3])
    assert (carried.status, carried.effective_clusters < 2) == ("leverage_one", True)
    for score in (one, lone, cancelling, unmoved, carried):
        assert np.isnan([getattr(score, f) for f in NOTHING]).all()


@settings(deadline=None)
@given(beliefs())
def test_slope_of_post_on_prior_is_one_more_than_m(rows: list[tuple[int, int, int]]) -> None:
    prior, post, _ = columns(rows)
    assert pytest.approx(stats.linregress(prior, post).slope - 1, abs=1e-9) == martingale_score(prior, post).M


@settings(deadline=None)
@given(beliefs(), st.sampled_from(["iid", "HC3", "CR1", "CR3"]))
def test_complement_keeps_the_slope_and_its_test(rows: list[tuple[int, int, int]], se: str) -> None:
    prior, post, groups = columns(rows)
    plain = martingale_score(prior, post, groups, se=se, how=Resampling(draws=19))
    turned = martingale_score(1 - prior, 1 - post, groups, se=se, how=Resampling(draws=19))
    assert turned.status == plain.status
    assert turned.intercept == pytest.approx(-(plain.intercept + plain.M), abs=1e-9)
    for name in ("M", "se", "p", "ci_lo", "r2", "p_wild"):
        assert getattr(turned, name) == pytest.approx(getattr(plain, name), abs=1e-7, nan_ok=True)


@settings(deadline=None)
@given(beliefs(), st.randoms(use_true_random=False))
def test_row_order_does_not_matter(rows: list[tuple[int, int, int]], random: object) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore
    one, two = (martingale_score(*columns(r), how=Resampling(draws=19)) for r in (rows, shuffled))
    for name in ("M", "se", "p", "joint_F"):
        assert getattr(two, name) == pytest.approx(getattr(one, name), rel=1e-6, abs=1e-9, nan_ok=True)


@settings(deadline=None)
@given(beliefs(), st.integers(2, 4))
def test_copies_within_clusters_add_no_information(rows: list[tuple[int, int, int]], times: int) -> None:
    prior, post, groups = columns(rows)
    once = martingale_score(prior, post, groups, se="CR1")
    many = martingale_score(*(np.repeat(x, times) for x in (prior, post, groups)), se="CR1")
    if not once.se > 0:
        return
    n, m = len(prior), len(prior) * times
    # All that is left is the factor (n-1)/(n-2), which counts rows.
    factor = np.sqrt((m - 1) / (m - 2) * (n - 2) / (n - 1))
    assert pytest.approx(once.M, abs=1e-9) == many.M
    assert many.se == pytest.approx(once.se * factor, rel=1e-6)
    assert many.G == once.G


def test_a_posterior_that_ignores_the_prior_scores_minus_one() -> None:
    rng = np.random.default_rng(1)
    score = martingale_score(rng.random(4000), rng.random(4000), se="HC3")
    assert score.ci_lo < -1 < score.ci_hi
    assert score.se < 0.02


def test_weights_of_one_over_rows_equal_rows_averaged_within_equal_priors() -> None:
    # Question 0 has three rows at one prior; balanced, it counts as one row at their mean.
    prior, post = np.array([0.2, 0.2, 0.2, 0.5, 0.9]), np.array([0.1, 0.2, 0.6, 0.4, 0.95])
    balanced = martingale_score(prior, post, weights=[1 / 3, 1 / 3, 1 / 3, 1, 1])
    averaged = martingale_score([0.2, 0.5, 0.9], [0.3, 0.4, 0.95])
    assert (balanced.M, balanced.mean_delta) == pytest.approx((averaged.M, averaged.mean_delta))


def test_mde_is_found_with_its_power() -> None:
    rng = np.random.default_rng(2)
    b = rng.random(60)
    plain = martingale_score(b, np.clip(b + rng.normal(0, 0.01, 60), 0, 1))
    shift = stats.nct.sf(stats.t.ppf(0.975, 58), 58, plain.mde / plain.se)
    assert shift == pytest.approx(0.8, abs=0.005)


def test_iid_errors_are_too_timid_under_a_true_martingale_and_hc3_is_not() -> None:
    """Updates spread as b (1 - b): the size of the paper's test falls well below its level."""
    rng = np.random.default_rng(3)
    rejected = np.zeros(2)
    for _ in range(300):
        b = rng.beta(0.6, 0.6, 80)
        q = rng.beta(8 * b + 1e-9, 8 * (1 - b) + 1e-9)
        score = martingale_score(b, q, se="HC3")
        rejected += [score.p_iid < 0.05, score.p < 0.05]
    assert rejected[0] / 300 < 0.025
    assert 0.02 < rejected[1] / 300 < 0.09


def test_joint_test_is_an_f_test_on_two_coefficients() -> None:
    test = martingale_joint_test(PRIOR, POST)
    d = POST - PRIOR
    residuals = d - np.polyval(np.polyfit(PRIOR, d, 1), PRIOR)
    rss = residuals @ residuals
    f = (d @ d - rss) / 2 / (rss / 22)
    assert (test.F, test.p, test.df1, test.df2) == pytest.approx((f, stats.f.sf(f, 2, 22), 2, 22))
    assert pytest.approx(3.3561959947239646) == test.F
    clustered = martingale_joint_test(PRIOR, POST, QUESTION, se="CR1")
    score = martingale_score(PRIOR, POST, QUESTION, se="CR1")
    assert (clustered.F, clustered.df2, clustered.p_F) == (score.joint_F, 5, score.joint_p)
    assert clustered.p == score.joint_p_wild


def test_the_joint_wild_bootstrap_holds_its_level_where_f_does_not() -> None:
    """Fifteen questions of three steps, each step as uncertain as the question is."""
    rejected = np.zeros(2)
    for seed in range(400):
        rng = np.random.default_rng(seed)
        b, groups = rng.uniform(0.3, 0.7, 45), np.repeat(np.arange(15), 3)
        q = b + rng.uniform(-0.1, 0.1, 15)[groups] + rng.uniform(-0.05, 0.05, 45)
        test = martingale_joint_test(b, q, groups, se="CR1", how=Resampling(draws=199))
        rejected += [test.p <= 0.05, test.p_F <= 0.05]
    assert rejected[0] / 400 < 0.05 + 2 * np.sqrt(0.05 * 0.95 / 400) < rejected[1] / 400


@pytest.mark.parametrize(("questions", "status"), [(14, "few_clusters"), (15, "ok")])
def test_few_questions_are_said_to_be_few(questions: int, status: str) -> None:
    rng = np.random.default_rng(0)
    prior, post, groups = rng.random(2 * questions), rng.random(2 * questions), np.repeat(np.arange(questions), 2)
    score = martingale_score(prior, post, groups, se="CR1", how=Resampling(draws=19))
    assert score.status == status
    assert np.isfinite([score.p, score.p_wild, score.ci_lo]).all()


def test_joint_test_sees_the_drift_that_the_slope_is_blind_to() -> None:
    rng = np.random.default_rng(4)
    b = rng.uniform(0.2, 0.8, 200)
    q = b + 0.05 + rng.normal(0, 0.05, 200)
    assert martingale_score(b, q).p > 0.05
    assert martingale_joint_test(b, q).p < 1e-6


@pytest.mark.parametrize(
    ("prior", "post", "groups", "status"),
    [
        ([0.5], [0.5], None, "too_few"),
        ([0.5, 0.5, 0.5], [0.5, 0.6, 0.4], None, "zero_variance_prior"),
        ([0.2, 0.6], [0.1, 0.7], None, "no_df"),
        ([0.2, 0.4, 0.6], [0.3, 0.5, 0.7], None, "zero_variance_update"),
        ([0.2, 0.4, 0.6, 0.5], [0.3, 0.1, 0.7, 0.6], [0, 0, 1, 1], "too_few_clusters"),
    ],
)
def test_joint_test_without_a_test(prior: list, post: list, groups: list | None, status: str) -> None:
    test = martingale_joint_test(prior, post, groups)
    assert test.status == status
    assert np.isnan([test.F, test.p]).all()


def test_the_covariance_of_three_clusters_of_which_one_fits_exactly_cannot_bear_a_joint_test() -> None:
    prior, update, groups = [0.3] * 4 + [0.7] * 2, [0.05, 0.05, -0.05, -0.05, 0, 0], [0, 0, 1, 1, 2, 2]
    post = np.add(prior, update)
    assert martingale_joint_test(prior, post, groups, se="CR1").status == "singular_covariance"
    assert martingale_joint_test(prior, post, [0, 0, 1, 1, 1, 1], se="CR1").status == "too_few_clusters"


def test_calibration_slope_is_that_of_the_outcome_and_is_tested_against_one() -> None:
    rng = np.random.default_rng(5)
    p = rng.random(3000)
    y = rng.random(3000) < p
    score = calibration_slope(p, y)
    assert score.slope == pytest.approx(stats.linregress(p, y).slope)
    assert score.ci_lo < 1 < score.ci_hi
    assert calibration_slope(0.25 + p / 2, y).p < 1e-6


def test_calibration_says_when_too_few_surprises_are_to_be_expected() -> None:
    rng = np.random.default_rng(7)
    fair = np.tile([0.45, 0.55], 40)
    m2, m4 = 0.55 * 0.45, 0.55 * 0.45**4 + 0.45 * 0.55**4
    assert calibration_slope(fair, rng.random(80) < fair).effective_surprises == pytest.approx(80 * m2**2 / m4)
    sure = np.tile([0.001, 0.999], 500)
    assert calibration_slope(sure, rng.random(1000) < sure).effective_surprises == pytest.approx(1, rel=0.01)
    rejected = np.zeros(2)
    for seed in range(200):
        rng = np.random.default_rng(seed)
        p = rng.choice([0.01, 0.5, 0.99], 60)
        score = calibration_slope(p, rng.random(60) < p)
        rejected += [score.p <= 0.05, score.p <= 0.05 and score.status == "ok"]
    assert rejected[0] / 200 > 0.1
    assert rejected[1] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"prior": [0.5, 1.2], "post": [0.5, 0.5]}, "prior: .*not a probability"),
        ({"prior": [0.5], "post": [0.5, 0.5]}, "lengths differ: prior 1, post 2"),
        ({"prior": [[0.5]], "post": [[0.5]]}, r"prior: shape \(1, 1\)"),
        ({"prior": [0.5, 0.6], "post": [0.5, 0.5], "groups": [0]}, "clusters: shape"),
        ({"prior": [0.5, 0.6], "post": [0.5, 0.5], "groups": [0, None]}, "row 1 has none"),
        (
            {"prior": [0.5, 0.6], "post": [0.5, 0.5], "se": "HC2"},
            "'HC2' is unknown; use one of iid, HC3",
        ),
        ({"prior": [0.5, 0.6], "post": [0.5, 0.5], "se": "CR1"}, "give groups"),
        ({"prior": [0.5, 0.6], "post": [0.5, 0.5], "p": "wild"}, "give groups"),
        ({"prior": [0.5, 0.6], "post": [0.5, 0.5], "weights": [1, 0]}, "weights: give 2 positive"),
    ],
)
def test_malformed_input_is_refused(arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        martingale_score(**arguments)


def test_an_outcome_must_be_zero_or_one() -> None:
    with pytest.raises(ValueError, match=r"y: 0\.5 is not an outcome"):
        calibration_slope([0.5, 0.6], [0, 0.5])


def test_joint_test_does_not_mind_priors_that_lie_close_together() -> None:
    rng = np.random.default_rng(6)
    spread, d = rng.random(50), rng.normal(0, 0.01, 50)
    wide = martingale_joint_test(0.4 + 0.2 * spread, 0.4 + 0.2 * spread + d)
    close = martingale_joint_test(0.9 + 2e-4 * spread, 0.9 + 2e-4 * spread + d)
    assert pytest.approx(wide.F, rel=1e-5) == close.F


def test_the_slope_of_moments_is_the_score_and_missing_rows_are_seen() -> None:
    rng = np.random.default_rng(5)
    prior, post = rng.random(50), rng.random(50)
    prior[3] = post[4] = np.nan
    moments = martingale_moments(prior, post)
    assert np.flatnonzero(np.isnan(moments).all(axis=1)).tolist() == [3, 4]
    sums = np.nansum(moments, axis=0)[None]
    assert martingale_slope(sums)[0] == pytest.approx(martingale_score(prior, post).M, rel=1e-12)
    assert np.isnan(martingale_slope(martingale_moments([0.3, 0.3], [0.1, 0.6]).sum(axis=0)[None]))


@pytest.mark.parametrize("outcome", [0.0, 1.0])
def test_outcomes_that_are_all_the_same_have_no_calibration_slope(outcome: float) -> None:
    score = calibration_slope([0.2, 0.4, 0.6, 0.5], [outcome] * 4, ["a", "a", "b", "c"])
    assert (score.status, score.n_rows, score.n_clusters) == ("one_outcome", 4, 3)
    assert np.isnan([score.slope, score.ci_lo, score.ci_hi, score.p]).all()
