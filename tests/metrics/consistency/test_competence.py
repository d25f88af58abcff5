"""Two verdicts, readable and responds: shares of items instead of means, and what was not tested (METRICS W4)."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, norm

from doxascope.benchmarks.agents import Naming
from doxascope.metrics import (
    Resampling,
    belief_consistency,
    belief_gate,
    chance_corrected,
    cluster_mean,
    kappa_word,
    readable,
    responding_share,
    responds,
    word_identity_null,
)
from doxascope.metrics.inference.means import few_status, share_difference

ITEMS = 60


def contexts(seed: int, copies: float = 0.0, eliminates: float = 0.0) -> dict[str, Any]:
    """Nine contexts of each item, of a copier or an eliminator, as `responds` takes them."""
    made = Naming(copies=copies, eliminates=eliminates).sample(ITEMS, seed)
    rows = np.arange(len(made.rejected)), made.rejected
    return {
        "template": made.template,
        "groups": made.clusters,
        "prior_rejected": made.prior[rows],
        "post_rejected": made.posterior[rows],
        "mentioned": {name: masses[rows] for name, masses in made.mentions.items()},
    }


@pytest.mark.parametrize("copies", [0.25, 1.0, 2.0])
def test_a_copier_does_not_respond_though_the_average_over_templates_falls(copies: float) -> None:
    for seed in range(10):
        made = contexts(seed, copies=copies)
        found = responds(**made)
        assert found.state == "does not respond"
        average = cluster_mean(made["post_rejected"] - made["prior_rejected"], made["groups"], how=Resampling(draws=99))
        assert average.ci_hi < 0
        assert "rejected halves[is it]" in [
            condition.label for condition in found.conditions if condition.state == "fails"
        ]


@pytest.mark.parametrize("copies", [0.0, 0.5])
def test_an_eliminator_responds_every_time(copies: float) -> None:
    for seed in range(10):
        found = responds(**contexts(seed, copies=copies, eliminates=3.0))
        assert (found.state, found.withheld) == ("responds", {})


@pytest.mark.parametrize("nats", [0.05, 0.1, 0.2, 0.5])
def test_whoever_lowers_the_rejected_word_a_little_everywhere_does_not_respond(nats: float) -> None:
    """By sign alone it would, in all items."""
    for seed in range(10):
        assert responds(**contexts(seed, eliminates=nats)).state == "does not respond"


def test_a_copier_of_what_was_not_named_is_caught_by_the_mention_control() -> None:
    """It shuns recent words: the rejected one halves where it is named, and as much where nothing was decided."""
    made = contexts(0, copies=-3.0)
    here = made["template"] == "is it"
    part = {name: value[here] for name, value in made.items() if name != "mentioned"}
    found = responds(**part, mentioned=made["mentioned"][""][here])
    assert [condition.label for condition in found.conditions if condition.state == "fails"] == [
        "below a mention[is it]"
    ]
    assert found.conditions[0].held


def test_a_rare_leak_is_no_reason_to_doubt_elimination() -> None:
    """The rejected word keeps its share in one triple of fifty, and goes in all others: its mean was no bound of."""
    for leaks in (0, 1, 2):
        prior, post, item = np.full(300, 1 / 3), np.zeros(300), np.repeat(np.arange(100), 3)
        post[item < leaks] = 1 / 3
        found = responds(template=["is it"] * 300, prior_rejected=prior, post_rejected=post, groups=item)
        assert found.state == "responds"
        assert -1 <= found.conditions[0].ci_lo <= found.conditions[0].ci_hi <= 1


def test_shares_are_those_of_a_plain_count_and_the_interval_is_newcombe_s() -> None:
    """Recomputed row by row with pandas, and the interval from Newcombe's formulae on Wilson ends."""
    rng = np.random.default_rng(0)
    n = 90
    table = pd.DataFrame(
        {
            "item": rng.integers(0, 25, n), "template": rng.choice(["a", "b"], n), "prior": rng.random(n),
            "post": rng.random(n) ** 2, "hedge": rng.random(n), "no": rng.random(n),
        }
    )  # fmt: skip
    table.loc[::17, "post"] = np.nan
    found = responding_share(
        table["prior"], table["post"], {name: table[name] for name in ("hedge", "no")}, table["item"], table["template"]
    )
    for template in ("a", "b"):
        for control in ("prior", "hedge", "no"):
            own = table[table["template"] == template].dropna()
            step = (own["post"] <= own[control] / 2) * 1.0 - (own["post"] > own[control])
            sums = own.assign(given_up=own[control] * step).groupby("item")[[control, "post", "given_up"]].sum()
            follow = sum(post <= before / 2 < up for before, post, up in sums.to_numpy())
            sums = sums.drop(columns="given_up")
            turn = sum(post > before for before, post in sums.to_numpy())
            score = found.falls[template] if control == "prior" else found.below[template, control]
            assert (score.follow, score.turn, score.n_clusters) == (follow, turn, len(sums))
            p, q, z, m = follow / len(sums), turn / len(sums), norm.ppf(0.975), len(sums)
            ends = [
                ((x + z * z / (2 * m)) + s * z * np.sqrt(x * (1 - x) / m + z * z / (4 * m * m))) / (1 + z * z / m)
                for x in (p, q) for s in (-1, 1)
            ]  # fmt: skip
            phi = -np.sqrt(p * q / ((1 - p) * (1 - q)))
            down = np.sqrt((p - ends[0]) ** 2 - 2 * phi * (p - ends[0]) * (ends[3] - q) + (ends[3] - q) ** 2)
            up = np.sqrt((ends[1] - p) ** 2 - 2 * phi * (ends[1] - p) * (q - ends[2]) + (q - ends[2]) ** 2)
            missing = table.loc[table["template"] == template, "item"].nunique() - m
            least = (follow - turn) / (m + missing)
            assert (score.ci_lo, score.ci_hi) == pytest.approx((min(p - q - down, least), p - q + up))
    shares = [score.share for score in (*found.falls.values(), *found.below.values())]
    assert found.share == min(shares)


@given(st.integers(1, 60), st.data(), st.floats(0.5, 0.999))
@settings(deadline=None, max_examples=60)
def test_bounds_of_a_difference_of_shares_stay_within_bounds(n: int, data: st.DataObject, level: float) -> None:
    up = data.draw(st.integers(0, n))
    down = data.draw(st.integers(0, n - up))
    lo, hi = share_difference(up, down, n, level)
    assert -1 <= lo <= (up - down) / n <= hi <= 1
    assert share_difference(down, up, n, level) == pytest.approx((-hi, -lo))


@given(st.integers(0, 2**31))
@settings(deadline=None, max_examples=25)
def test_the_verdict_does_not_depend_on_the_order_of_rows_or_on_names(seed: int) -> None:
    made = contexts(seed, copies=0.3, eliminates=1.2)
    order = np.random.default_rng(seed).permutation(len(made["groups"]))
    mixed = {name: value[order] for name, value in made.items() if name != "mentioned"}
    mixed["groups"] = np.array([f"item {1000 - g}" for g in mixed["groups"]])
    first = responds(**made)
    second = responds(**mixed, mentioned={name: share[order] for name, share in made["mentioned"].items()})
    assert first.state == second.state
    by_label = {condition.label: condition for condition in second.conditions}
    assert all(by_label[condition.label].value == condition.value for condition in first.conditions)


def test_what_had_no_share_says_nothing_and_few_items_are_withheld() -> None:
    prior, post = np.r_[np.zeros(20), np.full(4, 0.4)], np.zeros(24)
    found = responding_share(prior, post)
    (score,) = found.falls.values()
    assert (score.n_clusters, score.reasons) == (4, {"no share before": 20})
    judged = responds(template=["a"] * 24, prior_rejected=prior, post_rejected=post)
    assert judged.state == "not tested"
    assert list(judged.withheld) == ["rejected halves[a]"]


def test_three_states_by_where_the_interval_lies() -> None:
    """Of 40 items: all give it up; 60% do; a fifth does."""
    for share, state in ((1.0, "responds"), (0.6, "not shown"), (0.2, "does not respond")):
        post = np.where(np.arange(40) < share * 40, 0.0, 0.3)
        found = responds(template=["a"] * 40, prior_rejected=np.full(40, 0.3), post_rejected=post)
        assert found.state == state


def test_what_was_not_tested_is_never_affirmed() -> None:
    good: dict[str, Any] = {"coverage": {"exact": [0.9, 0.8, 0.9, 0.7, 0.6]}}
    gate = belief_gate(**good)
    assert (gate.readable, gate.responds, gate.status) == ("readable", "not tested", "ok")
    gate = belief_gate(**good, untested={"order of the options": "one order was asked"})
    assert gate.readable == "not shown"
    assert gate.withheld == {"order of the options": "one order was asked"}
    gate = belief_gate(**good, responding=None, untested={"items that respond": "no urns"})
    assert (gate.readable, gate.responds) == ("readable", "not tested")


def test_unreadable_and_unresponsive_are_told_apart() -> None:
    made = contexts(0, copies=1.0)
    low = belief_gate(**made, coverage={"": [0.1, 0.2] * 3})
    assert (low.readable, low.responds, low.status, low.rare) == ("unreadable", "does not respond", "unreadable", ("",))
    high = belief_gate(**made, coverage={"": [0.9, 0.8] * 3})
    assert (high.readable, high.responds, high.status) == ("readable", "does not respond", "unresponsive")
    assert high.share == min(condition.value for condition in high.conditions.values() if condition.name != "coverage")


def test_the_conditions_of_readable() -> None:
    rng = np.random.default_rng(0)
    follows, ignores = (cluster_mean(rng.random(40) < share, np.arange(40)) for share in (0.95, 0.05))
    ten = cluster_mean(np.zeros(5), np.arange(5))
    assert readable(order=ignores).state == "readable"
    assert readable(order=follows).state == "unreadable"
    assert readable(order=ten).state == "not shown"  # of five questions nothing is said
    answers = np.arange(200) % 100
    for share, state in ((95, "readable"), (79, "not shown"), (70, "unreadable")):
        assert readable(parse_rate={"verbal": answers < share}).state == state
    assert readable(parse_rate={"verbal": 1.0}).state == "not shown"  # a share without its answers
    assert readable(wordings=cluster_mean(rng.normal(0, 1, 40), np.arange(40))).state == "not shown"
    assert readable(coverage={"x": [np.nan]}).state == "unreadable"
    assert readable().state == "not tested"


@pytest.mark.parametrize("n", [1, 4, 5, 12, 40])
def test_coverage_is_a_median_whose_side_of_the_threshold_an_exact_sign_test_shows(n: int) -> None:
    """Item by item the verdict is that of the binomial test of one half, one-sided at 5%."""
    for k in range(n + 1):
        masses = np.where(np.arange(n) < k, 0.9, 0.1)
        found = readable(coverage={"": masses})
        above, below = (binomtest(count, n, 0.5, "greater").pvalue <= 0.05 for count in (k, n - k))
        assert found.state == ("readable" if above else "unreadable" if below else "not shown")
        assert f"the median coverage is {np.median(masses):.3f}" in found.conditions[0].seen


def test_readings_of_one_item_are_no_items() -> None:
    """Nine contexts of each of six triples: what one triple holds in all of them is said once."""
    masses = np.where(np.arange(54) // 9 < 5, 0.9, 0.1)
    alone, together = (readable(coverage={"": masses}, read_groups={"": of}) for of in (range(54), np.arange(54) // 9))
    assert (alone.state, together.state) == ("readable", "not shown")
    item = np.r_[np.zeros(50), np.arange(1, 7)]  # all are alike, and nearly all of them are of one item
    assert readable(coverage={"": np.ones(56)}, read_groups={"": item}).state == "not shown"
    with pytest.raises(ValueError, match=r"read_groups\[''\]: shape \(2,\) for \(3,\) readings"):
        readable(coverage={"": [0.1, 0.2, 0.3]}, read_groups={"": [0, 1]})


@pytest.mark.parametrize("share", [0.5, 0.56])
def test_who_lies_near_the_threshold_is_seldom_called_the_opposite(share: float) -> None:
    """Triples whose nine coverages have most in common; the median is reached by so many."""
    rng, states = np.random.default_rng(3), []
    for _ in range(400):
        z = np.sqrt(0.7) * rng.standard_normal((60, 1)) + np.sqrt(0.3) * rng.standard_normal((60, 9))
        masses, of = norm.cdf(norm.ppf(share) + z).ravel(), np.repeat(np.arange(60), 9)
        states.append(readable(coverage={"": masses}, read_groups={"": of}).state)
    assert states.count("unreadable") <= 0.05 * 400 + 2 * np.sqrt(0.05 * 0.95 * 400)
    assert share > 0.5 or states.count("readable") <= 0.05 * 400 + 2 * np.sqrt(0.05 * 0.95 * 400)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "no condition was given"),
        ({"template": ["a"]}, "give prior_rejected and post_rejected"),
        ({"template": ["a", "b"], "prior_rejected": [0.1], "post_rejected": [0.1]}, r"shape \(2,\) for \(1,\)"),
        ({"template": [None], "prior_rejected": [0.1], "post_rejected": [0.1]}, "a context has none"),
        ({"easy_correct": [1, 0]}, "chance: nan"),
    ],
)
def test_malformed_readings_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        belief_gate(**arguments)
    with pytest.raises(TypeError, match="coverige"):
        belief_gate(coverige=1)


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


def test_an_interval_that_few_clusters_carry_shows_nothing() -> None:
    """One cluster of 91 rows that are right and nine of one row: as many rows as a coin gives one time in two."""
    groups = np.array([0] * 91 + list(range(1, 10)))
    right = np.ones(100)
    assert responds(easy_correct=right, easy_groups=np.arange(100), chance=0.5).state == "responds"
    assert responds(easy_correct=right, easy_groups=groups, chance=0.5).state == "not shown"
    for rows in (1, 20):
        five, ten = (np.repeat(np.arange(n), rows) for n in (5, 10))
        assert responds(easy_correct=np.ones(len(five)), easy_groups=five, chance=0.5).state == "not shown"
        assert responds(easy_correct=np.ones(len(ten)), easy_groups=ten, chance=0.5).state == "responds"


def test_ten_equal_clusters_are_ten_effective_ones() -> None:
    assert few_status(np.repeat(np.arange(10), 4)) == "ok"
    assert few_status(np.repeat(np.arange(9), 4)) == "few_effective_clusters"
