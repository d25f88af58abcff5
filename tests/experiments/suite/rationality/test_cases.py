"""Worked cases of the metrics through the experiment's own table (METRICS E).

Where the experiment chooses what a case is given (neighbourhoods of its own, a learner's predictions, folds), the case
is one of the metric alone.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest

from doxascope.benchmarks.agents.decisions import Decided
from doxascope.experiments.run.scores import score_run
from doxascope.metrics.number import Number

Scored = Callable[..., Mapping[tuple[str, str, str], Number]]


@pytest.fixture(scope="module")
def scored(configured: Any, planted: Callable[..., pd.DataFrame]) -> Scored:
    """(metric, method, subset) -> number of contexts with a belief, a certain action, and a true chance."""
    experiment, config = configured("iterations=1")

    def score(belief: Any, action: Any = 1.0, truth: Any = 0.5, **more: Any) -> Any:
        belief = np.asarray(belief, dtype=np.float64)
        acted, true = (np.broadcast_to(np.asarray(one, dtype=np.float64), belief.shape) for one in (action, truth))
        tree = np.column_stack([1 - acted, np.zeros(len(acted)), acted])
        one = Decided(true, true.round(), belief, belief[:, None], tree, np.column_stack([acted, 1 - acted]))
        return {(n.metric, n.method, n.subset): n for n in score_run(experiment, config, planted(one, **more))}

    return score


def test_information_beyond_the_belief(worked: Any, scored: Scored) -> None:
    given, expected = worked("E1-001")
    found = scored(given["p"], given["action"], given["theta"])["cmi", "words", "all"]
    assert found.beside["by nearest neighbours"] == f"{expected['cmi']:.4f}"
    given, expected = worked("E2-001")
    belief, action, theta = (np.tile(given[name], 16) for name in ("stratum", "action", "theta"))
    belief = 0.2 + 0.6 * belief
    belief[np.argmin(belief)] = 0.19  # an edge below the first neighbourhood
    found = scored(belief, action, theta)["cmi", "words", "all"]  # of a distribution, however many rows say it
    assert found.beside["neighbourhoods of the belief"] == "2"
    assert found.beside["before its mean under permutation is taken off"].startswith(f"{expected['cmi']:.4f} minus ")


def test_the_order_of_choices(worked: Any, scored: Scored) -> None:
    given, expected = worked("E7-003")
    belief = np.array([0.1, 0.5, 0.9])[given["bins"]]
    belief[0] = 0.05
    action = np.array(given["actions"]) == given["a1"]
    beside = scored(belief, action)["order_deviance", "words", "all"].beside
    assert beside["shares of action 1 from the lowest beliefs up"] == ", ".join(f"{x:.2f}" for x in expected["shares"])
    assert beside["pairs against the order"].startswith(f"{expected['n_violations']} of {expected['n_pairs']}, ")


def test_a_prompt_that_pays(worked: Any, scored: Scored) -> None:
    given, expected = worked("E8-001")
    base, alt = np.array(given["p_base"]), np.array(given["p_alt"])
    methods = {"unit sampled": {"standard": base, "squared": alt}}
    found = scored(base[:, 0], methods=methods)["prize_effect", "unit sampled", "prompt squared"].score.as_dict()
    assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-10)


def test_cases_of_a_covariate(worked: Any, scored: Scored) -> None:
    given, expected = worked("E9-001")
    n = 3
    found = scored(np.full(n, given["p"]), cases=tuple(np.tile(given[one], (n, 1)) for one in ("cond", "weights")))
    told = {"lie": "signed", "lie_size": "delta", "lie_ratio": "ratio", "outside_hull": "outside_hull"}
    for metric, field in told.items():
        assert found[metric, "words", "all"].score.estimate == pytest.approx(expected[field], abs=1e-10)
    given, expected = worked("E9-006")
    ratio, half = np.array(given["x"]), np.full((len(given["x"]), 2), 0.5)
    score = scored(half[:, 0], cases=(half * (1 - ratio[:, None]), half))["lie_ratio", "words", "all"].score
    assert (score.estimate, score.ci_lo, score.ci_hi) == pytest.approx([expected[x] for x in ("median", "lo", "hi")])


def test_equal_actions_and_a_constant_belief_are_no_numbers(scored: Scored) -> None:
    n = 20
    spread, half = np.linspace(0.1, 0.9, n), np.full(n, 0.5)
    equal = scored(spread, 1.0, np.arange(n) % 2)
    constant = scored(half, np.arange(n) % 2, spread)
    for found, metric in ((equal, "sufficiency"), (equal, "cyclic"), (constant, "cyclic")):
        score = found[metric, "words", "all"].score
        assert (score.status, np.isnan(score.estimate)) == ("constant", True)
    assert equal["knows_more", "words", "all"].score.status == "nothing_left"
    assert constant["sufficiency", "words", "all"].score.estimate < 0.1
    assert constant["logloss_gain", "words", "with the outcome"].score.as_dict()["ll1"] == pytest.approx(
        np.log(2), abs=0.1
    )
