from typing import Any

import numpy as np
import pytest

from doxascope.experiments.synthetic.agents import Naming
from doxascope.metrics import (
    Resampling,
    belief_consistency,
    belief_gate,
    chance_corrected,
    cluster_mean,
    kappa_word,
    studentised_bounds,
    word_identity_null,
)
from doxascope.metrics.inference.means import few_status

ITEMS = 60


def contexts(seed: int, copies: float = 0.0, eliminates: float = 0.0) -> dict[str, Any]:
    """Nine contexts of each item, of a copier or an eliminator, as the gate takes them."""
    made = Naming(copies=copies, eliminates=eliminates).sample(ITEMS, seed)
    assert made.mentioned is not None
    rows = np.arange(len(made.rejected)), made.rejected
    return {
        "template": made.template,
        "groups": made.clusters,
        "prior_rejected": made.prior[rows],
        "post_rejected": made.posterior[rows],
        "mentioned": made.mentioned[rows],
    }


@pytest.mark.parametrize("copies", [0.25, 1.0, 2.0])
def test_a_copier_fails_every_time_and_passed_the_average(copies: float) -> None:
    for seed in range(10):
        made = contexts(seed, copies=copies)
        gate = belief_gate(**made, how=Resampling(draws=200))
        assert not gate.passed
        assert "rejected falls[is it]" in gate.failures
        average = cluster_mean(
            made["post_rejected"] - made["prior_rejected"], made["groups"], how=Resampling(draws=200)
        )
        assert average.ci_hi < 0
        assert gate.verdict == "not a belief measurement"
        assert gate.rejected_change > 0  # of the template where it rises


@pytest.mark.parametrize("copies", [0.0, 0.5])
def test_an_eliminator_passes_every_time(copies: float) -> None:
    for seed in range(10):
        gate = belief_gate(**contexts(seed, copies=copies, eliminates=3.0), how=Resampling(draws=200))
        assert (gate.passed, gate.failures, gate.verdict) == (True, (), "ok")


def test_a_copier_of_what_was_not_named_is_caught_by_the_mention_control() -> None:
    """It shuns recent words: the rejected one falls where it is named, and as much where nothing was decided."""
    made = contexts(0, copies=-1.0)
    here = made["template"] == "is it"
    gate = belief_gate(**{name: value[here] for name, value in made.items()}, how=Resampling(draws=200))
    assert gate.failures == ("rejected below mentioned[is it]",)


def test_each_bound_is_the_one_sided_one_of_its_template_with_what_was_missed() -> None:
    made = contexts(1, eliminates=1.0)
    gate = belief_gate(**made, how=Resampling(seed=4, draws=300))
    here = made["template"] == "either or"
    missed = 1 - 0.05 ** (1 / ITEMS)  # none of so many that rise by one is seen in one sample of twenty
    for other, name in (("prior_rejected", "rejected falls"), ("mentioned", "rejected below mentioned")):
        change = (made["post_rejected"] - made[other])[here]
        _, studentised, _ = studentised_bounds(change, made["groups"][here], how=Resampling(seed=4, draws=300))
        found = gate.conditions[f"{name}[either or]"]
        bound = max(studentised, (1 - missed) * change.mean() + missed)
        assert (found.value, found.threshold, found.n_clusters) == (pytest.approx(change.mean()), 0, ITEMS)
        assert found.bound == pytest.approx(bound)


def test_who_favours_the_rejected_word_in_items_that_a_small_sample_misses_does_not_pass() -> None:
    """Nineteen items in twenty fall by .05 and one rises by .95: nothing on average, and twelve hold none of it."""
    fell: dict[str, Any] = {"prior_rejected": np.full(12, 0.3), "post_rejected": np.linspace(0.24, 0.26, 12)}
    assert not belief_gate(template=["is it"] * 12, **fell).passed
    many: dict[str, Any] = {name: np.tile(share, 10) for name, share in fell.items()}
    assert belief_gate(template=["is it"] * 120, **many).passed


def test_the_other_conditions_by_name() -> None:
    rng = np.random.default_rng(0)
    nothing = rng.normal(0, 0.1, 40)
    gain, none = kappa_word(0.9 + nothing * 0, 0.5 + nothing * 0), kappa_word(0.5 + 0.1 * nothing, 0.5 + 0 * nothing)
    slope = cluster_mean(0.5 + nothing, np.arange(40))
    flat = cluster_mean(nothing, np.arange(40))
    good = belief_gate(
        coverage={"exact": [0.9, 0.8]}, kappa=gain, evidence=slope, parse_rate={"verbal": 0.9},
        easy_correct=np.ones(20), chance=0.25,
    )  # fmt: skip
    assert (good.passed, len(good.conditions)) == (True, 5)
    bad = belief_gate(
        coverage={"exact": [0.9, 0.8], "free": [0.1, 0.2, np.nan]}, kappa=none, evidence=flat,
        parse_rate={"verbal": 0.79}, easy_correct=rng.integers(0, 2, 30), chance=0.5,
    )  # fmt: skip
    assert bad.failures == (
        "coverage[free]",
        "gain over words",
        "response to evidence",
        "valid-answer rate[verbal]",
        "easy questions",
    )
    assert (bad.rare, bad.conditions["coverage[free]"].value) == (("free",), pytest.approx(0.15))


def test_what_is_undefined_fails() -> None:
    gate = belief_gate(
        template=["a"] * 3, prior_rejected=[np.nan] * 3, post_rejected=[0.1] * 3, coverage={"x": [np.nan]}
    )
    assert gate.failures == ("rejected falls[a]", "coverage[x]")
    one = belief_gate(template=["a"], prior_rejected=[0.9], post_rejected=[0.1])
    assert not one.passed
    assert belief_gate(kappa=kappa_word([0.9, 0.8], [1.0, 1.0])).failures == ("gain over words",)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "no condition was given"),
        ({"template": ["a"]}, "give prior_rejected and post_rejected"),
        ({"template": ["a", "b"], "prior_rejected": [0.1], "post_rejected": [0.1]}, r"shape \(1,\) for \(2,\)"),
        ({"template": [None], "prior_rejected": [0.1], "post_rejected": [0.1]}, "context 0 has none"),
        ({"easy_correct": [1, 0]}, "chance: nan"),
    ],
)
def test_malformed_readings_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        belief_gate(**arguments)


def test_gain_over_words_is_that_of_the_mean_scores() -> None:
    rng = np.random.default_rng(2)
    score, null, items = rng.uniform(0.5, 1, 60), rng.uniform(0.2, 0.6, 60), np.repeat(np.arange(20), 3)
    found = kappa_word(score, null, items)
    assert found.kappa_word == pytest.approx(chance_corrected(score.mean(), null.mean()).kappa)
    assert found.ci_lo < found.kappa_word < found.ci_hi
    assert (found.c, found.c_word) == pytest.approx((score.mean(), null.mean()))
    # Read-outs of words alone gain nothing, on three classes.
    words = np.log(rng.dirichlet(np.ones(3)))
    prior = np.tile(np.exp(words), (30, 1))
    null_prob = word_identity_null(np.tile(words, (30, 1)), ["a", "b", "c"], np.arange(30)).null_prob
    c3 = [belief_consistency(prior, x, np.arange(30) % 3).c3 for x in (prior, null_prob)]
    assert kappa_word(c3[0], c3[1]).kappa_word == pytest.approx(0, abs=1e-9)
    with pytest.raises(ValueError, match=r"score: 1\.2 exceeds 1"):
        kappa_word([1.2], [0.5])
    assert kappa_word([np.nan], [0.5]).status == "too_few"


def test_an_interval_that_few_clusters_carry_holds_no_condition() -> None:
    """One cluster of 91 rows that are right and nine of one row: as many rows as a coin gives one time in two."""
    groups = np.array([0] * 91 + list(range(1, 10)))
    right = np.ones(100)
    many = belief_gate(easy_correct=right, easy_groups=np.arange(100), chance=0.5)
    few = belief_gate(easy_correct=right, easy_groups=groups, chance=0.5)
    assert many.passed
    assert few.failures == ("easy questions",)


def test_ten_equal_clusters_are_ten_effective_ones() -> None:
    assert few_status(np.repeat(np.arange(10), 4)) == "ok"
    assert few_status(np.repeat(np.arange(9), 4)) == "few_effective_clusters"
