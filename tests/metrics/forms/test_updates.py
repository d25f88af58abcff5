"""`doxascope score`: updates by factor and by the model's own chains, by examples that a hand can check."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from doxascope.base.errors import UserError
from doxascope.metrics import (
    Resampling,
    adjust,
    brier_on_split_martingale,
    factor_regression,
    martingale_score,
    martingale_within,
    random_effects_pool,
)
from doxascope.metrics.scoring.engine import score_table

Write = Callable[..., Path]
Estimates = Callable[..., dict[str, Any]]
Beside = Callable[..., Mapping[str, str]]


def test_slopes_by_factor(table: Write, estimates: Estimates) -> None:
    # Code: updates rise by .1 a step of .2 in the prior. Law: they fall as much.
    lines = ("0.2,0.1,code", "0.4,0.4,code", "0.6,0.7,code", "0.2,0.3,law", "0.4,0.4,law", "0.6,0.5,law")
    found = estimates(scored := score_table(table("prior,posterior,factor_domain", *lines)))
    assert found["M at domain[code]"].estimate == pytest.approx(0.5)
    assert found["M at domain[law]"].estimate == pytest.approx(-0.5)
    assert found["M at domain[law] minus M at code"].estimate == pytest.approx(-1)
    assert found["M at domain[code]"].status == "perfect_fit"
    assert found["M, within cells"].estimate == pytest.approx(0)
    plain = score_table(table("prior,posterior,domain", *lines))
    assert plain.skipped["martingale-factors"] == "needs a column factor_<name>"
    assert "not used" not in scored.understood.line


def test_two_factors_are_those_of_the_metric_and_adjusted_together(
    table: Write, estimates: Estimates, beside: Beside
) -> None:
    rng = np.random.default_rng(0)
    prior, domain, arm = rng.uniform(0.2, 0.8, 120), rng.choice(["b", "a", "c"], 120), rng.choice(["x", "y"], 120)
    posterior, question = (
        prior + 0.3 * (domain == "c") * (prior - 0.5) + rng.uniform(-0.1, 0.1, 120),
        np.arange(120) // 4,
    )
    scored = score_table(
        table(prior=prior, posterior=posterior, question=question, factor_domain=domain, factor_arm=arm)
    )
    expected = factor_regression(
        posterior - prior, prior, {"domain": domain, "arm": arm}, {"domain": "a", "arm": "x"}, question
    )
    found = estimates(scored)
    score = found["M at domain[c] minus M at a"]
    assert (score.estimate, score.ci_hi, score.p) == pytest.approx(
        (expected["b:domain[c]"], expected.terms["b:domain[c]"].ci_hi, expected.terms["b:domain[c]"].p)
    )
    assert (score.n_rows, score.n_clusters) == (120, 30)
    assert score.ci_method.endswith("CR3 over 30 clusters")
    p = adjust([expected.terms[f"b:{name}"].p for name in ("domain[b]", "domain[c]", "arm[y]")]).p_adjusted[1]
    assert beside(scored, "M at domain[c] minus M at a")["adjusted by Holm over 3"] == f"{p:.3g}"
    assert found["M at arm[y]"].estimate == pytest.approx(expected.marginal["arm[y]"].estimate)


def test_without_clusters_each_row_is_left_out_in_turn(table: Write, estimates: Estimates) -> None:
    rng = np.random.default_rng(1)
    prior, posterior = rng.uniform(size=(2, 40))
    found = estimates(score_table(table(prior=prior, posterior=posterior, factor_arm=["x", "y"] * 20)))
    alone = martingale_score(prior[1::2], posterior[1::2], se="CR3")
    assert found["M at arm[y]"].estimate == pytest.approx(alone.M)
    # A saturated fit is two separate ones; only the factor (G - 1) / G is that of all rows.
    assert found["M at arm[y]"].se == pytest.approx(alone.se * np.sqrt(39 / 40 * 20 / 19))
    assert found["M at arm[y]"].effective_clusters == pytest.approx(alone.effective_clusters)
    within = martingale_within(prior, posterior, None, ["x", "y"] * 20)
    assert found["M, within cells"].as_dict() == within.as_dict()


def test_cells_of_their_own_questions_are_pooled(table: Write, estimates: Estimates, beside: Beside) -> None:
    rng = np.random.default_rng(2)
    prior, posterior = rng.uniform(size=(2, 60))
    domain = np.repeat(["a", "b", "c"], 20)
    columns = {"prior": prior, "posterior": posterior, "factor_domain": domain}
    scored = score_table(table(**columns))
    cells = [martingale_score(prior[domain == d], posterior[domain == d], se="CR3") for d in "abc"]
    expected = random_effects_pool([one.M for one in cells], [one.se for one in cells])
    score = estimates(scored)["M over 3 cells of domain"]
    assert (score.estimate, score.ci_lo, score.tau2) == pytest.approx((expected.pooled, expected.ci_lo, expected.tau2))
    assert (
        beside(scored, "M over 3 cells of domain")["M of a new cell"] == f"{expected.pi_lo:.3f}, {expected.pi_hi:.3f}"
    )
    shared = estimates(score_table(table(question=np.tile(np.arange(20), 3), **columns)))["M over cells"]
    assert (shared.status, np.isnan(shared.estimate)) == ("shared_clusters", True)


def test_the_brier_score_on_m_over_cells(table: Write, estimates: Estimates) -> None:
    rng = np.random.default_rng(3)
    question, cell = np.tile(np.arange(40), 6), np.repeat(list("abcdef"), 40)
    prior, posterior = rng.uniform(size=(2, 240))
    outcome = (rng.uniform(size=40) < 0.5)[question].astype(int)
    columns = {"prior": prior, "posterior": posterior, "outcome": outcome, "question": question}
    score = estimates(score_table(table(**columns, factor_cell=cell), seed=4))[
        "change of the Brier score per unit of M"
    ]
    expected = brier_on_split_martingale(prior, posterior, outcome, question, cell, how=Resampling(seed=4))
    assert (score.estimate, score.ci_hi, score.n_cells) == pytest.approx((expected.coef, expected.ci_hi, 6))


CHAINS = ("question,chain,prior,posterior", "q,1,0.5,0.7", "q,2,0.5,0.6", "r,1,0.4,0.2", "r,2,0.4,0.5", "s,1,0.3,0.9")


def test_drift_of_the_models_own_chains(table: Write, estimates: Estimates, beside: Beside) -> None:
    # Products of the two updates of a question: .2 * .1 and -.2 * .1; s has a single chain.
    scored = score_table(table(*CHAINS))
    score = estimates(scored)["mean square drift"]
    assert score.estimate == pytest.approx((0.02 - 0.02) / 2)
    assert (score.n_rows, dict(score.reasons)) == (2, {"too_few_chains": 1})
    note = beside(scored, "mean square drift")
    assert (note["chains"], note["mean drift"]) == ("4", "+0.050")
    assert estimates(scored)["M"].n_clusters == 3


def test_drift_from_two_readings_of_the_prior_is_a_product_of_halves(table: Write, estimates: Estimates) -> None:
    lines = ("q,1,0.5,0.7,a", "q,2,0.5,0.6,a", "q,3,0.4,0.6,b", "r,1,0.3,0.2,a", "r,2,0.4,0.6,b")
    score = estimates(score_table(table("question,chain,prior,posterior,half", *lines)))["mean square drift"]
    assert score.estimate == pytest.approx((0.15 * 0.2 - 0.1 * 0.2) / 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("question,chain,prior,posterior|q,1,.5,.6|q,1,.5,.6", "row 2: question 'q/1' has this chain twice"),
        ("question,chain,prior,posterior|q,1,.5,.6|q,2,.4,.6", "row 2, prior: differs within question 'q'"),
        (
            "question,chain,prior,posterior,half|q,1,.5,.6,a|q,2,.4,.6,a|q,3,.4,.6,b",
            "row 2, prior: differs within question 'q/a'",
        ),
        ("question,chain,prior,posterior,half|q,1,.5,.6,a", "half: has 1 values"),
        ("question,chain,prior,posterior|q,,.5,.6", "row 1, chain: is missing"),
        ("prior,posterior,factor_model|.5,.6,x|.5,.6,", "row 2, factor_model: is missing"),
    ],
)
def test_a_mistake_is_one_line_that_says_where(table: Write, text: str, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)) as caught:
        score_table(table(*text.split("|")))
    assert "\n" not in str(caught.value)
