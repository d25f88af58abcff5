"""The difference of two kinds in a number is that of their numbers, whatever the number is made of."""

from dataclasses import replace

import numpy as np
import pytest

from doxascope.experiments.compare.findings import Record
from doxascope.experiments.compare.page import sentence
from doxascope.metrics import b_score_excess, paired_difference
from doxascope.metrics.contract import Resampling
from doxascope.metrics.scoring.differences import SAME, paired_differences, pairs_of
from doxascope.metrics.scoring.engine import measured, score_samples
from doxascope.metrics.tables.samples import Answers, Evidence, Forecasts, Multiclass, Records, Sample

HOW = Resampling(draws=99)
KEYS = np.arange(40)


def evidence(kind: str, both: bool) -> Sample:
    rng = np.random.default_rng(len(kind))
    p_x, like, like_not, posterior = rng.uniform(0.1, 0.9, (4, 40))
    p_y = p_x * like + (1 - p_x) * like_not
    return Evidence(
        p_x=p_x, p_y=p_y, p_y_given_x=like, p_y_given_not_x=like_not if both else None, posterior=posterior,
        clusters=KEYS, keys=KEYS, kind=kind,
    )  # fmt: skip


def with_keys(belief: np.ndarray, kind: str) -> Sample:
    names = np.arange(len(belief))
    return Forecasts(belief=belief, outcome=np.ones(len(belief)), clusters=names, keys=names, kind=kind)


def answers(kind: str) -> Sample:
    rng = np.random.default_rng(len(kind))
    single, multi, control = rng.dirichlet(np.ones(4), (3, 40))
    return Answers(
        options=tuple("abcd"), single=single, multi=multi, invalid=(0.0, 0.0), controls=control[:, None],
        control_names=("other",), clusters=KEYS, keys=KEYS, kind=kind,
    )  # fmt: skip


@pytest.mark.parametrize("metric", ["rmse_clip", "rmse_coherent", "b_excess"])
def test_a_difference_is_that_of_two_numbers(metric: str) -> None:
    kinds = [answers(kind) if metric == "b_excess" else evidence(kind, both=True) for kind in ("exact", "verbal")]
    found = measured(kinds, HOW, compared={metric}, only_compared=True)
    (difference,) = paired_differences(pairs_of(found.comparable, (), kinds), HOW)
    first, second = (number.score for number in score_samples(kinds, HOW).numbers if number.metric == metric)
    assert float(difference.score.estimate) == pytest.approx(float(first.estimate) - float(second.estimate))


def test_a_difference_of_accuracies_of_few_items_ends_where_there_is_none_larger() -> None:
    right, wrong = np.array([[0.9, 0.1]] * 3), np.array([[0.1, 0.9]] * 2 + [[0.9, 0.1]])
    names = np.arange(3)
    kinds = [
        Multiclass(belief=belief, truth=np.zeros(3), sizes=np.full(3, 2), clusters=names, keys=names, kind=kind)
        for kind, belief in (("exact", right), ("verbal", wrong))
    ]
    found = measured(kinds, HOW, compared={"accuracy"}, only_compared=True)
    (difference,) = paired_differences(pairs_of(found.comparable, (), kinds), HOW)
    score = difference.score
    assert (score.estimate, score.ci_hi) == (pytest.approx(2 / 3), 1.0)
    assert -1 <= score.ci_lo < 0


def test_where_every_cluster_differs_alike_the_reason_for_no_test_is_said() -> None:
    score = paired_difference([np.ones(5)], [np.zeros(5)], np.mean, np.arange(5))
    assert (score.difference, score.ci_lo, score.ci_hi, score.status) == (1, 1, 1, "zero_cluster_variance")
    first, second = (with_keys(np.full(5, value), kind) for value, kind in ((0.8, "exact"), (0.4, "verbal")))
    found = measured([first, second], HOW, compared={"brier"}, only_compared=True)
    (pair,) = pairs_of(found.comparable, (), [first, second])
    (number,) = paired_differences([pair], HOW)
    said = sentence(Record(pair, number))
    assert np.isnan([number.score.ci_lo, number.score.ci_hi]).all()
    assert "interval [" not in said
    assert said.endswith("There is no test: every cluster has the same value, so that the interval has no length.")


@pytest.mark.parametrize("times", [1 + 2e-5, 2.0])
@pytest.mark.parametrize("lacks", [1e-6, 0.2])
@pytest.mark.parametrize("likely", [False, True])
def test_beliefs_are_the_same_by_their_size_and_not_by_their_difference(
    likely: bool, lacks: float, times: float
) -> None:
    """Of rare answers, and of almost certain ones, twice as much is no rounding."""
    first = lacks * np.random.default_rng(0).uniform(0.5, 1, 40)
    beliefs = (1 - first, 1 - times * first) if likely else (first, times * first)
    samples = [with_keys(belief, kind) for belief, kind in zip(beliefs, ("exact", "verbal"), strict=True)]
    found = measured(samples, HOW, compared={"brier"}, only_compared=True)
    (number,) = paired_differences(pairs_of(found.comparable, (), samples), HOW)
    assert (number.score.status == SAME) == (times < 2), number.score


def test_an_interval_that_is_widened_is_kept_where_no_cluster_differs() -> None:
    """The same likeliest option in all of forty questions; and forecasts that are missing, and may be anything."""
    rng = np.random.default_rng(0)
    belief = rng.dirichlet(np.ones(3), 40)
    sharper = belief**1.3 / (belief**1.3).sum(axis=1, keepdims=True)
    asked = [
        Multiclass(belief=each, truth=np.zeros(40), sizes=np.full(40, 3), clusters=KEYS, keys=KEYS, kind=kind)
        for kind, each in (("exact", belief), ("verbal", sharper))
    ]
    foretold = rng.uniform(0.2, 0.8, 40)
    missing = [with_keys(np.where(np.arange(40) < n, np.nan, foretold), k) for k, n in (("exact", 0), ("verbal", 4))]
    for samples, metric in ((asked, "accuracy"), (missing, "brier")):
        found = measured(samples, HOW, compared={metric}, only_compared=True)
        (number,) = paired_differences(pairs_of(found.comparable, (), samples), HOW)
        assert number.score.ci_lo < 0 < number.score.ci_hi, number.score


def test_without_the_other_likelihood_nothing_is_compared_with_a_coherent_posterior() -> None:
    kinds = [evidence(kind, both=False) for kind in ("exact", "verbal")]
    assert not measured(kinds, HOW, compared={"rmse_coherent"}, only_compared=True).comparable


def test_runs_are_told_over_their_models_only_where_these_are_a_sample() -> None:
    runs = [replace(answers("exact"), run=name) for name in ("first", "second")]
    over = [number.metric for number in score_samples(runs, HOW, over_models=True).numbers if not number.run]
    assert "b_excess_over_models" in over
    assert all(number.run for number in score_samples(runs, HOW).numbers)


def test_one_score_alone_is_a_rule_to_accept_by() -> None:
    rng = np.random.default_rng(0)
    category = np.array(["hard"] * 40, dtype=object)
    answer, truth = (rng.choice(["a", "b"], 40).astype(object) for _ in range(2))
    sample = Records(category=category, answer=answer, truth=truth, scores={"b": rng.uniform(-1, 1, 40)}, clusters=KEYS)
    found = {number.quantity for number in score_samples([sample], HOW).numbers}
    assert {"accuracy, accepting by b", "AUROC of accepting by b"} <= found


def test_the_interval_of_an_excess_ends_at_its_bounds() -> None:
    b = np.array([1, 1, 1, 0.9, 1, 0.2])
    high, low = b_score_excess(b, {"other": -b}, np.arange(6)), b_score_excess(-b, {"other": b}, np.arange(6))
    assert (high.ci_hi, low.ci_lo) == (2, -2)
