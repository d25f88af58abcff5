"""Arbitrage and frequentist violation: the paper's example by hand, plain re-computations, and planted agents."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from doxascope.metrics import RELATIONS, arbitrage, dutch_book, frequentist_violation
from doxascope.metrics.contract import Resampling
from doxascope.metrics.decision.related_questions import QUESTIONS
from doxascope.metrics.scoring.engine import score_samples, score_table
from doxascope.metrics.tables.samples import Cases, YesNo

seeds = st.integers(0, 10_000)
Write = Callable[..., Path]


def coherent(relation: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """[n, questions] of random distributions over what P, Q and R can be."""
    worlds = [(p, q, r) for p in (True, False) for q in (True, False) for r in (True, False)]
    law = rng.dirichlet(np.ones(8), n)
    pays = np.array([[QUESTIONS[name](*world) for name in RELATIONS[relation].questions] for world in worlds], float)
    return law @ np.nan_to_num(pays) / (law @ np.isfinite(pays))


def test_both_parties_win_with_six_tenths() -> None:
    """The example of the paper: an arbitrageur forecasts one half of either."""
    (gain,) = arbitrage([[0.6, 0.6]], RELATIONS["negation"].payoffs)
    assert gain == pytest.approx(np.log(0.5 / 0.6) + np.log(0.5 / 0.4))
    assert frequentist_violation([[0.6, 0.6]], "negation") == pytest.approx(0.2 / np.sqrt(0.24 + 0.24 + 0.001))


@pytest.mark.parametrize(
    ("relation", "beliefs", "gap", "variance"),
    [
        ("conjunction", (0.5, 0.4, 0.6), 0.2, 0.6 * 0.4 + 0.4 * 0.6),  # above the smaller of the two
        ("conjunction", (0.9, 0.8, 0.5), 0.2, 0.09 + 0.16 + 0.25),  # below their sum less one
        ("disjunction", (0.2, 0.3, 0.7), 0.2, 0.16 + 0.21 + 0.21),
        ("disjunction", (0.5, 0.6, 0.4), 0.2, 0.24 + 0.24),
        ("consequence", (0.7, 0.5), 0.2, 0.21 + 0.25),
        ("and_or", (0.5, 0.5, 0.6, 0.2), 0.2, 0.25 + 0.25 + 0.24 + 0.16),
        ("but", (0.4, 0.3, 0.5), 0.2, 0.24 + 0.21 + 0.25),
        ("conditional", (0.5, 0.6, 0.1), 0.2, 0.36 * 0.25 + 0.25 * 0.24 + 0.09),
        ("paraphrase", (0.7, 0.5), 0.2, 0.21 + 0.25),
        ("expected_evidence", (0.7, 0.5, 0.8, 0.2), 0.2, 0.21 + 0.25 * 0.16 * 2 + 0.36 * 0.25),
    ],
)
def test_a_violation_is_in_errors_of_one_answer(
    relation: str, beliefs: tuple[float, ...], gap: float, variance: float
) -> None:
    found = frequentist_violation([beliefs], relation)
    assert found == pytest.approx(gap / np.sqrt(variance + 1e-3))


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_gain_is_the_best_of_an_arbitrageur_by_plain_search(relation: str) -> None:
    rng = np.random.default_rng(3)
    pays, k = RELATIONS[relation].payoffs, len(RELATIONS[relation].questions)
    for beliefs in rng.uniform(0.05, 0.95, (4, k)):

        def least(forecast: np.ndarray, beliefs: np.ndarray = beliefs) -> np.ndarray:
            won = np.where(pays == 1, np.log(forecast / beliefs), np.log((1 - forecast) / (1 - beliefs)))
            return np.where(np.isnan(pays), 0, won).sum(axis=1)

        best = 0.0
        for start in rng.uniform(0.2, 0.8, (3, k)):
            found = minimize(
                lambda z: -z[-1],
                np.append(start, -5),
                constraints={"type": "ineq", "fun": lambda z: least(z[:-1]) - z[-1]},
                bounds=[(1e-9, 1 - 1e-9)] * k + [(-50, 50)],
                method="SLSQP",
                options={"ftol": 1e-12},
            )
            best = max(best, float(least(found.x[:-1]).min()))
        assert arbitrage([beliefs], pays)[0] == pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize("relation", RELATIONS)
@settings(max_examples=5, deadline=None)
@given(seeds)
def test_who_is_coherent_loses_nothing_and_who_says_yes_does(relation: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    beliefs, pays = coherent(relation, 20, rng), RELATIONS[relation].payoffs
    assert arbitrage(beliefs, pays) == pytest.approx(0, abs=1e-6)
    assert frequentist_violation(beliefs, relation) == pytest.approx(0, abs=1e-9)
    off = rng.uniform(0, 1, beliefs.shape)
    loses = arbitrage(off, pays) > 1e-6
    assert (loses == (dutch_book(off, pays).loss > 1e-4)).mean() >= 0.95
    assert (loses == (frequentist_violation(off, relation) > 1e-3)).mean() >= 0.95


def test_a_belief_that_is_missing_has_neither() -> None:
    assert np.isnan(arbitrage([[np.nan, 0.5]], RELATIONS["negation"].payoffs)).all()
    assert np.isnan(frequentist_violation([[np.nan, 0.5]], "negation")).all()


def test_sure_answers_lose_a_finite_amount() -> None:
    (gain,) = arbitrage([[1.0, 1.0]], RELATIONS["negation"].payoffs)
    assert gain == pytest.approx(-2 * np.log(2 * np.sqrt(1e-6 * (1 - 1e-6))))


def test_a_table_is_scored_as_its_rows_are(table: Write) -> None:
    rng = np.random.default_rng(0)
    p, q = rng.uniform(0.1, 0.9, (2, 40))
    both = np.clip(p * q + rng.normal(0, 0.1, 40), 0, 1)
    outcome = (rng.uniform(size=40) < p).astype(int)
    frame = pd.DataFrame({"p": p, "Q": q, "p_and_q": both, "not_p": np.clip(1.1 - p, 0, 1), "outcome": outcome})
    numbers = {number.metric: number for number in score_table(table(**frame)).numbers}
    beliefs = np.column_stack([p, q, both])
    expected = {
        "arbitrage_conjunction": arbitrage(beliefs, RELATIONS["conjunction"].payoffs).mean(),
        "frequentist_conjunction": np.mean(
            [
                max((a + b - 1 - c) / np.sqrt(a * (1 - a) + b * (1 - b) + c * (1 - c) + 1e-3),
                    (c - min(a, b)) / np.sqrt(c * (1 - c) + min(a, b) * (1 - min(a, b)) + 1e-3), 0)
                for a, b, c in beliefs
            ]
        ),
        "frequentist_negation": np.mean(
            [abs(a + b - 1) / np.sqrt(a * (1 - a) + b * (1 - b) + 1e-3) for a, b in frame[["p", "not_p"]].to_numpy()]
        ),
        "brier": ((p - outcome) ** 2).mean(),
    }  # fmt: skip
    assert {name: numbers[name].score.estimate for name in expected} == pytest.approx(expected, rel=1e-6)
    assert numbers["arbitrage_negation"].score.ci_lo > 0
    assert "beliefs moved 1e-06 off 0 or 1" not in numbers["arbitrage_negation"].beside
    assert numbers["arbitrage_conjunction"].beside["beliefs moved 1e-06 off 0 or 1"] == str((both == 0).sum())
    assert "arbitrage_disjunction" not in numbers
    beside = numbers["arbitrage_conjunction"].beside
    assert -1 <= float(beside["rank correlation with the Brier score"]) <= 1
    assert float(beside["rank correlation with the sure loss of a Dutch book"]) > 0.9


def test_a_run_of_statements_and_one_of_cases_reach_it() -> None:
    """The samples that `truth` and `rationality` make, and two kinds compared on the same statements."""
    rng, n = np.random.default_rng(1), 30
    p, keys = rng.uniform(0.2, 0.8, n), np.arange(n).astype(str).astype(object)
    named: dict[str, Any] = {"method": "m", "clusters": keys, "keys": keys}
    exact, stated = (
        YesNo(belief=p, negated=1 - p + off, mass=np.ones(n), kind=kind, **named)
        for kind, off in (("exact", 0.0), ("verbal", 0.15))
    )
    scored = score_samples([exact, stated], Resampling(draws=200))
    found = {(number.metric, number.kind): number.score.estimate for number in scored.numbers}
    assert found["arbitrage_negation", "exact"] == pytest.approx(0, abs=1e-9)
    assert found["arbitrage_negation", "verbal"] > 0.02
    assert {"arbitrage_negation_difference", "frequentist_negation_difference"} <= {
        x.metric for x in scored.differences
    }
    given, weight = rng.uniform(0.1, 0.9, (n, 2)), rng.uniform(0.1, 0.9, n)
    weights = np.column_stack([weight, 1 - weight])
    cases = Cases(p=(given * weights).sum(axis=1) + 0.05, conditional=given, weights=weights, **named)
    lines = {x.metric: x.score.estimate for x in score_samples([cases], Resampling(draws=200)).numbers}
    plain = frequentist_violation(np.column_stack([cases.p, weight, given]), "expected_evidence").mean()
    assert lines["frequentist_expected_evidence"] == pytest.approx(plain)
    sure = YesNo(belief=np.ones(n), negated=np.zeros(n), mass=np.ones(n), kind="exact", **named)
    (line, _) = score_samples([sure], Resampling(draws=200), "related-negation").numbers
    assert line.beside["beliefs moved 1e-06 off 0 or 1"] == "60"
    assert line.score.estimate == pytest.approx(0, abs=1e-9)


def test_beliefs_at_the_ends_of_the_range_are_brought_to_the_bottom() -> None:
    """The value is that of a grid over all laws."""
    (gain,) = arbitrage([[1e-6, 0.999999, 0.01]], RELATIONS["conditional"].payoffs)
    assert gain == pytest.approx(0.00985, abs=2e-5)
