"""Differences reckon with what is rare, missing or copied (METRICS F3)."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from doxascope.metrics import PairedDifference, unseen_opposites
from doxascope.metrics.contract import Array, Resampling
from doxascope.metrics.scoring.differences import paired_differences, pairs_of
from doxascope.metrics.scoring.engine import measured
from doxascope.metrics.tables.samples import Forecasts, Sample

HOW = Resampling(draws=499)


def _difference(samples: Sequence[Sample], metric: str = "brier") -> PairedDifference:
    found = measured(samples, HOW, compared={metric}, only_compared=True)
    (number,) = paired_differences(pairs_of(found.comparable, (), samples), HOW)
    assert isinstance(number.score, PairedDifference)
    return number.score


def _pair(first: Array, second: Array, outcome: Array) -> list[Sample]:
    keys = np.arange(len(first)) + 1000
    return [
        Forecasts(belief=p, outcome=outcome, clusters=keys, keys=keys, kind=kind)
        for p, kind in ((first, "exact"), (second, "verbal"))
    ]


def test_none_of_the_other_sign_leaves_what_the_rule_of_three_leaves() -> None:
    """Ten of sixty differ by +.3: a share .05 of all could be off by -1, which none of sixty shows with chance
    .95^60.
    """
    values = np.where(np.arange(60) < 10, 0.3, 0.0)
    found = unseen_opposites(values)
    assert found.p == pytest.approx(0.95**60)
    assert found.lo == pytest.approx(0.05 - (1 - 0.05 ** (1 / 60)))
    assert unseen_opposites(-values) == pytest.approx((found.p, -found.hi, -found.lo))


def test_one_seen_counts_as_the_exact_binomial_bound() -> None:
    values = np.array([0.5] * 12 + [-1.0] + [0.0] * 47)
    share = stats.binomtest(1, 60, alternative="less").proportion_ci(0.95).high
    assert unseen_opposites(values).lo == pytest.approx(6 / 60 - share)


def test_ties_keep_an_interval_from_resting_on_what_was_seen_alone() -> None:
    """A fifth of fifty items differ a little, the others not at all."""
    rng = np.random.default_rng(0)
    p, outcome = rng.uniform(0.2, 0.8, 50), np.zeros(50)
    moved = np.where(np.arange(50) < 10, p + 0.02, p)
    found = _difference(_pair(moved, p, outcome))
    assert found.status == "ties_dominate"
    assert found.p > 0.05
    assert found.ci_lo < 0 < found.ci_hi
    assert np.isnan(_difference(_pair(p, p, outcome)).mde)  # nothing tells how far another item would differ
    every = _difference(_pair(p + 0.02, p, outcome))
    assert every.status == "ok"
    assert every.p < 0.01


def test_missing_rows_span_all_that_they_could_be() -> None:
    """The reference: the mean difference with the refused rows at a loss of 0 and of 1."""
    rng = np.random.default_rng(1)
    first, second, outcome = rng.uniform(size=80), rng.uniform(size=80), (rng.random(80) < 0.5).astype(float)
    refused = np.where(np.arange(80) < 8, np.nan, first)
    found = _difference(_pair(refused, second, outcome))
    other = (second - outcome) ** 2
    bounds = [np.where(np.isnan(refused), x, (first - outcome) ** 2) - other for x in (0, 1)]
    assert found.status == "missing_rows"
    assert (found.lowest, found.highest) == pytest.approx(tuple(values.mean() for values in bounds))
    assert found.ci_lo < found.lowest < found.highest < found.ci_hi
    few = _difference(_pair(np.where(np.arange(80) < 1, np.nan, first), second, outcome))
    assert few.status == "ok"
    assert np.isnan(few.lowest)


def test_what_has_no_outcome_is_not_missing() -> None:
    rng = np.random.default_rng(2)
    outcome = np.where(np.arange(60) < 20, np.nan, (rng.random(60) < 0.5).astype(float))
    found = _difference(_pair(rng.uniform(size=60), rng.uniform(size=60), outcome))
    assert found.status == "ok"
    assert found.n_clusters == 40


def test_copies_under_new_names_are_no_further_evidence() -> None:
    rng = np.random.default_rng(3)
    p, q, outcome = rng.uniform(size=40), rng.uniform(size=40), (rng.random(40) < 0.5).astype(float)
    once = _difference(_pair(p, q, outcome))
    thrice = _difference(_pair(*(np.tile(x, 3) for x in (p, q, outcome))))
    assert (once.n_copies, thrice.n_copies) == (0, 80)
    assert thrice.n_clusters == 40
    assert thrice.se == pytest.approx(once.se)
    assert thrice.difference == pytest.approx(once.difference)


def test_rounded_values_that_coincide_are_no_copies_but_equal_content_is() -> None:
    """What a model says is on a grid, where different items meet; the digest of the content tells them apart."""
    rng = np.random.default_rng(4)
    p, q = (rng.integers(1, 4, 40) / 4 for _ in range(2))
    samples = _pair(p, q, (rng.random(40) < 0.5).astype(float))
    assert _difference(samples).n_copies == 0
    content = np.array([f"{i // 2:04x}" for i in range(40)], dtype=object)
    assert _difference([replace(sample, content=content) for sample in samples]).n_clusters == 20
