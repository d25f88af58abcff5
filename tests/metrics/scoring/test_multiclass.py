"""A table of beliefs over several options is scored as such, and never as the first option alone."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from doxascope import UserError, score
from doxascope.metrics import option_scores

RNG = np.random.default_rng(0)
P, TRUTH = RNG.dirichlet(np.ones(5), 40), RNG.integers(0, 5, 40)


def table(tmp_path: Path, outcome: np.ndarray) -> Path:
    """A belief table of 40 questions with five options."""
    rows = [
        {"readout_id": f"q{i}", "item": f"q{i}", "kind": "exact", "method": "mine", "option": f"o{k}", "prob": P[i, k]}
        | {"outcome": outcome[i, k]}
        for i in range(len(P))
        for k in range(P.shape[1])
    ]
    path = tmp_path / "beliefs.csv"
    pd.DataFrame(rows).to_csv(path, index=False)
    return path


def test_five_options_with_outcomes_are_scored_over_all_of_them(tmp_path: Path) -> None:
    found = score(table(tmp_path, np.eye(5)[TRUTH]))
    numbers = {number.metric: number.score.estimate for number in found.numbers}
    wanted = option_scores(P, TRUTH)
    assert numbers["accuracy"] == pytest.approx(wanted.correct.mean())
    assert numbers["brier_multiclass"] == pytest.approx(wanted.brier.mean())
    assert numbers["log_loss"] == pytest.approx(wanted.log_loss.mean())
    assert not {"brier", "calibration", "logloss_gain"} & set(numbers)
    assert "first option" not in found.understood.line


def test_an_outcome_that_does_not_name_one_option_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"readout_id 'q0': outcome is 1 for 5 of its 5 options; give 1 in the row"):
        score(table(tmp_path, np.ones((40, 5))))


def test_a_question_whose_truth_is_not_known_is_dropped_and_counted(tmp_path: Path) -> None:
    outcome = np.eye(5)[TRUTH]
    outcome[:7] = np.nan
    (accuracy,) = (number for number in score(table(tmp_path, outcome)).numbers if number.metric == "accuracy")
    assert (accuracy.score.n_rows, accuracy.score.n_dropped) == (33, 7)


def test_brier_and_calibration_of_two_methods_are_compared_question_by_question(tmp_path: Path) -> None:
    other = RNG.dirichlet(np.full(5, 2), 40)
    both = [
        pd.read_csv(table(tmp_path, np.eye(5)[TRUTH])).assign(
            method=method, prob=p.ravel(), readout_id=[f"{method}{i}" for i in range(len(p)) for _ in range(5)]
        )
        for method, p in (("mine", P), ("other", other))
    ]
    pd.concat(both).to_csv(tmp_path / "both.csv", index=False)
    found = {number.metric: number.score for number in score(tmp_path / "both.csv").differences}
    first, second = option_scores(P, TRUTH), option_scores(other, TRUTH)
    assert found["brier_multiclass_difference"].estimate == pytest.approx((first.brier - second.brier).mean())
    slopes = [np.polyfit(each_method.confidence, each_method.hit, 1)[0] for each_method in (first, second)]
    calibration = found["calibration_top_difference"]
    assert [calibration.first, calibration.second] == pytest.approx(slopes)  # type: ignore
    assert calibration.estimate == pytest.approx(slopes[0] - slopes[1])
    assert calibration.ci_lo < calibration.estimate < calibration.ci_hi
