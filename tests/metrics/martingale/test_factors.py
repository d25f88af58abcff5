import numpy as np
import pytest
import statsmodels.formula.api as smf
from pandas import DataFrame
from scipy import stats

from doxascope.metrics import factor_regression, martingale_score, wild_cluster_test


def noisy(seed: int = 0) -> DataFrame:
    rng = np.random.default_rng(seed)
    n = 180
    table = DataFrame(
        {
            "b": rng.uniform(0.3, 0.7, n),
            "domain": rng.choice(["forecast", "code", "law"], n),
            "technique": rng.choice(["cot", "debate"], n),
            "question": rng.integers(0, 30, n),
        }
    )
    slope = table["domain"].map({"forecast": 0.05, "code": 0.2, "law": -0.1})
    table["d"] = slope * table["b"] + rng.uniform(-0.1, 0.1, n)
    return table


def test_noise_free_coefficients_come_back() -> None:
    b = np.tile([0.1, 0.3, 0.5, 0.7, 0.9], 4)
    domain, technique = np.repeat(["F", "F", "C", "C"], 5), np.tile(np.repeat(["cot", "debate"], 5), 2)
    coding, debating = domain == "C", technique == "debate"
    delta = -0.02 + 0.05 * b + coding * (0.01 + 0.04 * b) + debating * (0.005 - 0.03 * b)
    fit = factor_regression(delta, b, {"domain": domain, "technique": technique}, {"domain": "F", "technique": "cot"})
    expected = {
        "const": -0.02,
        "b": 0.05,
        "domain[C]": 0.01,
        "b:domain[C]": 0.04,
        "technique[debate]": 0.005,
        "b:technique[debate]": -0.03,
    }
    assert fit.coefficients == pytest.approx(expected)
    assert fit["b:domain[C]"] == fit.as_dict()["b:domain[C]"] == fit.terms["b:domain[C]"].estimate
    assert (fit.status, fit.terms["b"].se) == ("perfect_fit", 0)
    assert np.isnan(fit.terms["b"].p)
    # Half of the rows debate, so a domain's mean slope carries half of that contrast.
    assert fit.marginal["domain[F]"].estimate == pytest.approx(0.05 - 0.015)
    assert fit.marginal["technique[debate]"].estimate == pytest.approx(0.05 + 0.02 - 0.03)


def test_it_is_the_treatment_coded_regression_with_clustered_errors() -> None:
    table = noisy()
    fit = factor_regression(
        table["d"],
        table["b"],
        {"domain": table["domain"], "technique": table["technique"]},
        {"domain": "forecast", "technique": "cot"},
        table["question"],
        se="CR1",
    )
    reference = smf.ols("d ~ b * C(domain, Treatment('forecast')) + b * C(technique)", table).fit(
        cov_type="cluster", cov_kwds={"groups": table["question"]}, use_t=True
    )
    named = {
        "b": "b",
        "domain[law]": "C(domain, Treatment('forecast'))[T.law]",
        "b:domain[code]": "b:C(domain, Treatment('forecast'))[T.code]",
        "b:technique[debate]": "b:C(technique)[T.debate]",
    }
    for ours, theirs in named.items():
        term = fit.terms[ours]
        assert (term.estimate, term.se, term.p) == pytest.approx(
            (reference.params[theirs], reference.bse[theirs], reference.pvalues[theirs])
        )
        assert (term.ci_lo, term.ci_hi) == pytest.approx(tuple(reference.conf_int().loc[theirs]))
        assert (term.n_rows, term.n_clusters, term.ci_method) == (180, 30, "t(29), CR1 over 30 clusters")
    assert (fit.slope, fit.se, fit.ci_lo, fit.n_clusters) == (fit["b"], fit.terms["b"].se, fit.terms["b"].ci_lo, 30)


def test_few_questions_get_the_wild_bootstrap_and_fewer_are_said_to_be_few() -> None:
    table = noisy(4)
    for n, status in ((30, "ok"), (10, "few_clusters")):
        rows = table[table["question"] < n]
        arm = {"technique": rows["technique"]}
        fit = factor_regression(rows["d"], rows["b"], arm, {"technique": "cot"}, rows["question"], se="CR1")
        debate = (rows["technique"] == "debate").to_numpy(dtype=float)
        design = np.column_stack([np.ones(len(rows)), rows["b"], debate, debate * rows["b"]])
        term = fit.terms["b:technique[debate]"]
        assert term.p_wild == wild_cluster_test(rows["d"], design, rows["question"], 3).p
        assert (fit.status, term.status, np.isnan(fit.terms["b"].p_wild)) == (status, status, True)


def test_one_saturated_factor_equals_separate_fits() -> None:
    table = noisy(1)
    fit = factor_regression(table["d"], table["b"], {"domain": table["domain"]}, {"domain": "law"})
    for level, rows in table.groupby("domain"):
        alone = martingale_score(rows["b"], rows["b"] + rows["d"])
        assert fit.marginal[f"domain[{level}]"].estimate == pytest.approx(alone.M)
    assert fit["b:domain[code]"] == pytest.approx(
        fit.marginal["domain[code]"].estimate - fit.marginal["domain[law]"].estimate
    )


def test_the_baseline_moves_coefficients_but_no_contrast() -> None:
    table = noisy(2)
    fits = {
        baseline: factor_regression(
            table["d"], table["b"], {"domain": table["domain"]}, {"domain": baseline}, table["question"]
        )
        for baseline in ("law", "code")
    }
    assert fits["law"]["b:domain[code]"] == pytest.approx(-fits["code"]["b:domain[law]"])
    for name in ("estimate", "se", "p"):
        one, two = (getattr(fit.marginal["domain[forecast]"], name) for fit in fits.values())
        assert one == pytest.approx(two)


def test_a_level_without_spread_has_no_slope() -> None:
    fit = factor_regression([0.1, 0.2, 0.0, 0.1], [0.2, 0.5, 0.4, 0.4], {"model": ["a", "a", "b", "b"]}, {"model": "a"})
    assert fit.status == "rank_deficient"
    assert np.isnan(list(fit.coefficients.values())).all()
    dropped = factor_regression([np.nan], [0.5], {"model": ["a"]}, {"model": "a"})
    assert (dropped.status, dropped.n_dropped) == ("rank_deficient", 1)


def test_a_level_within_one_cluster_has_no_error_of_its_own() -> None:
    table = noisy(3)
    table.loc[table["domain"] == "law", "question"] = 99
    fits = {
        baseline: factor_regression(
            table["d"], table["b"], {"domain": table["domain"]}, {"domain": baseline}, table["question"], se="CR1"
        )
        for baseline in ("code", "law")
    }
    # With one factor the baseline's own scores cancel in its only cluster, and no coefficient is free of it.
    assert [fit.status for fit in fits.values()] == ["one_cluster_level", "zero_cluster_variance"]
    by_code = fits["code"].terms
    assert np.isnan([by_code["domain[law]"].se, by_code["b:domain[law]"].p]).all()
    assert np.isfinite([by_code["b"].p, by_code["b:domain[forecast]"].p]).all()
    assert np.isnan([term.se for term in fits["law"].terms.values()]).all()
    assert fits["law"]["b"] == pytest.approx(fits["code"].marginal["domain[law]"].estimate)


def test_every_term_has_the_jackknife_error_of_refits_and_its_own_clusters() -> None:
    table = noisy(5)
    table.loc[table["domain"] == "law", "question"] %= 12
    factors = {"domain": table["domain"], "technique": table["technique"]}
    fit = factor_regression(
        table["d"], table["b"], factors, {"domain": "forecast", "technique": "cot"}, table["question"]
    )
    formula = "d ~ b * C(domain, Treatment('forecast')) + b * C(technique)"
    whole = smf.ols(formula, table).fit()
    left_out = [smf.ols(formula, table[table["question"] != g]).fit().params for g in table["question"].unique()]
    named = {
        "b": "b",
        "b:domain[law]": "b:C(domain, Treatment('forecast'))[T.law]",
        "domain[code]": "C(domain, Treatment('forecast'))[T.code]",
        "b:technique[debate]": "b:C(technique)[T.debate]",
    }
    design = DataFrame(whole.model.exog, columns=whole.model.exog_names)
    for ours, theirs in named.items():
        term = fit.terms[ours]
        moves = np.array([params[theirs] - whole.params[theirs] for params in left_out])
        assert term.se == pytest.approx(np.sqrt(29 / 30 * (moves**2).sum()))
        # Partial leverage: what is left of the column when the others are regressed out.
        others = design.drop(columns=theirs).to_numpy()
        column = design[theirs].to_numpy()
        rest = column - others @ np.linalg.lstsq(others, column, rcond=None)[0]
        share = DataFrame({"g": table["question"], "s": rest**2 / (rest**2).sum()}).groupby("g")["s"].sum()
        assert term.effective_clusters == pytest.approx(1 / (share**2).sum())
        assert term.p == pytest.approx(2 * stats.t.sf(abs(term.value / term.se), term.effective_clusters - 1))
    assert fit.terms["b:domain[law]"].effective_clusters < fit.terms["b"].effective_clusters
    assert fit.marginal["domain[law]"].status == "few_effective_clusters"
    assert fit.status == "ok"


def test_a_level_within_one_cluster_takes_no_error_from_the_others_under_the_jackknife() -> None:
    table = noisy(3)
    table.loc[table["domain"] == "law", "question"] = 99
    fit = factor_regression(table["d"], table["b"], {"domain": table["domain"]}, {"domain": "code"}, table["question"])
    rest = table[table["domain"] != "law"]
    without = factor_regression(rest["d"], rest["b"], {"domain": rest["domain"]}, {"domain": "code"}, rest["question"])
    assert np.isnan([fit.terms["domain[law]"].se, fit.terms["b:domain[law]"].p]).all()
    assert fit.terms["b"].effective_clusters == pytest.approx(without.terms["b"].effective_clusters)
    assert fit.terms["b"].se == pytest.approx(without.terms["b"].se, rel=0.03)  # factors of 30 and 29 clusters


@pytest.mark.parametrize(
    ("factors", "baselines", "message"),
    [
        ({"model": ["a", "b"]}, {}, "'model' is not in both"),
        ({"model": ["a", "b"]}, {"model": "c"}, "'c' is no level of it; the levels are a, b"),
        ({"model": ["a", None]}, {"model": "a"}, "row 1 has no level"),
        ({"model": ["a"]}, {"model": "a"}, r"shape \(1,\) for 2 rows"),
    ],
)
def test_factors_must_be_complete(factors: dict, baselines: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        factor_regression([0.1, 0.2], [0.4, 0.5], factors, baselines)


def test_an_update_beyond_one_is_refused() -> None:
    with pytest.raises(ValueError, match=r"delta: 1\.5 is no difference"):
        factor_regression([1.5], [0.4], {}, {})
