"""Of how many items the response to evidence is: planted agents that respond on a part of them."""

from typing import Any

import numpy as np
import pytest
from scipy.special import expit, log_softmax, logit
from scipy.stats import binomtest, multinomial

from doxascope.benchmarks.agents.testimony import Partly
from doxascope.experiments.materials.questions import urns
from doxascope.metrics import (
    Resampling,
    belief_gate,
    evidence_responding,
    evidence_slope,
    items_responding,
    readout_gate,
    responds,
)
from doxascope.metrics.inference.means import share_difference


def judged(agent: Partly, items: int, seed: int) -> tuple[bool, bool]:
    """Whether it is shown to respond by the pooled slope, and by the share of items."""
    shown = agent.sample(items, seed)
    slope = evidence_slope(*shown, how=Resampling(draws=100))
    return slope.ci_lo > 0, responds(responding=evidence_responding(*shown)).state == "responds"


@pytest.mark.parametrize(("share", "noise"), [(0.1, 0.03), (0.25, 0.03), (0.33, 0.1), (0.45, 0.1), (0.5, 0.05)])
def test_who_responds_on_half_of_fifty_items_or_fewer_fails(share: float, noise: float) -> None:
    found = np.mean([judged(Partly(share, noise=noise), 50, seed) for seed in range(40)], axis=0)
    assert found[0] >= 0.5 or share < 0.2  # by the slope alone, a fourth is enough
    assert found[1] <= 0.1


@pytest.mark.parametrize(
    ("agent", "items"),
    [
        (Partly(noise=0), 15),
        (Partly(noise=0, spread=6), 40),
        (Partly(noise=0.03, spread=6), 40),
        (Partly(noise=0.1), 30),
        (Partly(noise=0.03, levels=3), 20),
        (Partly(slope=0.3, noise=0.02), 20),
    ],
)
def test_who_responds_on_all_of_them_passes(agent: Partly, items: int) -> None:
    """Also with few items, few levels, noise, a weak response, and beliefs near 0 and 1."""
    assert np.mean([judged(agent, items, seed) for seed in range(40)], axis=0)[1] >= 0.9


@pytest.mark.parametrize("surer", [2.0, 4.0])
def test_who_is_surer_than_bayes_responds_though_beliefs_near_the_ends_hardly_move(surer: float) -> None:
    """Log-odds are a multiple of those of the posterior in every item: none is ignored, whatever the pooled slope."""
    for seed in range(5):
        _, truth, items = Partly(spread=3).sample(20, seed)
        belief = expit(surer * logit(truth))
        assert evidence_responding(belief, truth, items).share == 1
        mixed = np.where(items % 2, belief, expit(np.random.default_rng(seed).normal(size=len(truth))))
        assert evidence_responding(mixed, truth, items).at(0.9).ci_lo < 0.5


def test_an_item_counts_once_however_many_rows_it_has() -> None:
    """Ten items of two hundred rows respond, and forty of two do not."""
    rng = np.random.default_rng(0)
    items = np.repeat(np.arange(50), [200] * 10 + [2] * 40)
    evidence = np.tile([1.0, -1.0], len(items) // 2)
    change = np.where(items < 10, evidence, 0) + 0.01 * rng.normal(size=len(items))
    found = items_responding(change, evidence, items)
    assert (found.n_clusters, found.follow) == (50, 10)
    assert found.ci_hi < 0.5


def test_items_without_evidence_of_their_own_are_left_out_and_too_few_are_not_judged() -> None:
    items, evidence = np.repeat(np.arange(8), 2), np.tile([1.0, -1.0], 8)
    evidence[:4] = 0.01
    found = items_responding(evidence, evidence, items)
    assert (found.share, found.n_clusters, found.n_dropped) == (1, 6, 4)
    assert found.reasons == {"too little evidence": 4}
    few = items_responding(evidence[8:], evidence[8:], items[8:])
    assert few.withheld == "5 items are the fewest that are judged, and 4 can be read precisely enough"
    gate = belief_gate(coverage={"": [0.9] * 5}, responding=few)
    assert (gate.readable, gate.responds) == ("readable", "not tested")
    assert gate.withheld == {"items that respond": few.withheld}
    one_level = evidence_responding([0.2, 0.8, 0.5], [0.2, 0.8, 0.5], ["a", "b", "c"])
    assert (one_level.status, one_level.n_clusters) == ("too_few_items", 0)


def urn_readers(
    n: int, draws: int, noise: float, seed: int, *, turned: float = 0.0, slope: float = 1.0
) -> tuple[Any, Any, Any]:
    """Noisy readings in log-odds of the known posteriors of urns, the evidence of a share turned round."""
    truth = np.array([urn.posterior for urn in urns(n, draws, seed)])
    rng = np.random.default_rng(seed + 1)
    odds, side = logit(truth), np.where(rng.permutation(n) < round(turned * n), -slope, slope)[:, None]
    mean = odds.mean(axis=1, keepdims=True)
    belief = expit(mean + side * (odds - mean) + noise * rng.standard_normal(odds.shape))
    return belief.ravel(), truth.ravel(), np.repeat(np.arange(n), draws + 1)


@pytest.mark.parametrize(("n", "draws", "noise"), [(20, 6, 0.6), (40, 8, 1.0), (20, 6, 0.1)])
def test_honest_readers_of_urns_respond_though_each_reading_is_noisy(n: int, draws: int, noise: float) -> None:
    states = [
        [
            responds(responding=evidence_responding(*urn_readers(n, draws, noise, seed, turned=turned))).state
            for seed in range(100)
        ]
        for turned in (0.0, 0.2)
    ]
    assert states[0].count("responds") >= 91
    assert states[1].count("responds") <= 5
    ignores = [
        responds(responding=evidence_responding(*urn_readers(n, draws, noise, seed, slope=0.0))).state
        for seed in range(100)
    ]
    assert ignores.count("responds") == 0
    assert ignores.count("does not respond") >= 50


def test_which_items_are_too_noisy_is_told_by_what_their_lines_leave_and_by_nothing_else() -> None:
    """Recomputed with a fit per item; of a turned belief the same items are left out."""
    belief, truth, items = urn_readers(15, 6, 0.8, 3)
    found = evidence_responding(belief, truth, items)
    fits = [np.polyfit(logit(truth[items == i]), logit(belief[items == i]), 1, full=True) for i in range(15)]
    left = np.array([fit[1][0] for fit in fits])
    spread = np.array([((logit(t) - logit(t).mean()) ** 2).sum() for t in (truth[items == i] for i in range(15))])
    variance = (left + 4 * left.sum() / (15 * 5)) / (5 + 4)
    shares = [np.polyfit(truth[items == i], belief[items == i], 1, full=True)[1][0] for i in range(15)]
    own = np.array([((t - t.mean()) ** 2).sum() for t in (truth[items == i] for i in range(15))])
    of_shares = (np.array(shares) + 4 * np.sum(shares) / (15 * 5)) / (5 + 4)
    clear = (spread >= 4 * variance) | (own >= 4 * of_shares)
    told = np.array([(t - t.mean()) @ (t - t.mean()) for t in (truth[items == i] for i in range(15))]) / 7
    assert found.n_clusters == (clear & (told >= told.mean() / 16)).sum()
    assert 0 < found.n_clusters < 15
    turned = evidence_responding(1 - belief, truth, items)
    assert (turned.n_clusters, turned.follow, turned.turn) == (found.n_clusters, found.turn, found.follow)


@pytest.mark.parametrize("turned", [0.2, 0.25])
@pytest.mark.parametrize("n", [5, 8, 10])
def test_of_ten_items_or_fewer_no_response_is_shown(n: int, turned: float) -> None:
    """All of eight that follow are also had in one of ten samples by who turns a quarter of them round."""
    rng = np.random.default_rng(n)
    items, evidence = np.repeat(np.arange(n), 2), np.tile([1.0, -1.0], n)
    states = []
    for _ in range(100):
        side = np.where(rng.random(n) < turned, -1.0, 1.0)
        found = items_responding(evidence * side[items], evidence, items)
        states.append(responds(responding=found).state)
    assert "responds" not in states
    assert responds(responding=items_responding(evidence, evidence, items)).state == "not shown"
    assert responds(responding=items_responding(0 * evidence, evidence, items)).state == "does not respond"


def test_fewer_than_thirteen_items_are_shown_to_respond_in_one_of_twenty_at_most() -> None:
    """Exactly, by the probabilities of all counts whose true difference is one half."""
    for n in (5, 8, 11, 12):
        shown = [(a, b) for a in range(n + 1) for b in range(n + 1 - a) if share_difference(a, b, n, 0.9)[0] > 0.5]
        for q in np.linspace(0, 0.25, 11):
            shares = [0.5 + q, q, max(0.5 - 2 * q, 0.0)]
            assert sum(multinomial.pmf([a, b, n - a - b], n, shares) for a, b in shown) <= 0.05
    assert (11, 0) in [(a, 0) for a in range(12) if share_difference(a, 0, 11, 0.9)[0] > 0.5]


def test_who_is_loud_where_it_does_not_respond_is_not_heard_only_where_it_does() -> None:
    """A reader that follows a third of forty urns, and says anything in the others: these are too noisy to count."""
    states = []
    for seed in range(40):
        belief, truth, items = urn_readers(40, 8, 0.3, seed)
        rng = np.random.default_rng(seed)
        loud = (rng.random(40) > 1 / 3)[items]
        noise = expit(3 * rng.standard_normal(len(truth)))
        states.append(responds(responding=evidence_responding(np.where(loud, noise, belief), truth, items)).state)
    assert states.count("responds") <= 4


def test_a_constant_belief_does_not_respond() -> None:
    _, truth, items = Partly().sample(20, 0)
    found = evidence_responding(np.full(len(truth), 0.3), truth, items)
    assert (found.follow, found.turn, found.share) == (0, 0, 0)


def test_the_interval_is_that_of_one_share_where_there_is_no_third_kind() -> None:
    lo, hi = share_difference(16, 4, 20, 0.9)
    one = binomtest(16, 20).proportion_ci(confidence_level=0.9, method="wilson")
    assert (lo, hi) == pytest.approx((2 * one.low - 1, 2 * one.high - 1))
    assert share_difference(4, 16, 20, 0.9) == pytest.approx((-hi, -lo))
    with pytest.raises(ValueError, match="no counts"):
        share_difference(3, 3, 5)


def test_the_interval_holds_the_difference_of_shares() -> None:
    """Exactly, by summing over all counts of twenty: on average over shares it misses in one of 20, and never in more
    than one of 11."""
    n, missed = 20, []
    ends = {(a, b): share_difference(a, b, n) for a in range(n + 1) for b in range(n + 1 - a)}
    logs = np.array([np.log(np.arange(1, k + 1)).sum() for k in range(n + 1)])
    for p in np.linspace(0.05, 0.9, 12):
        for q in np.linspace(0.02, 0.95 - p, 4):
            rest = 1 - p - q
            missed.append(
                sum(
                    np.exp(logs[n] - logs[a] - logs[b] - logs[n - a - b]) * p**a * q**b * rest ** (n - a - b)
                    for (a, b), (lo, hi) in ends.items()
                    if not lo <= p - q <= hi
                )
            )
    assert abs(np.mean(missed) - 0.05) < 0.02
    assert max(missed) < 1 / 11


def read_out(share: float, seed: int, items: int = 30) -> dict[str, Any]:
    """The exact read-out in a share of the items, and noise in the others."""
    rng = np.random.default_rng(seed)
    exact = np.tile(rng.normal(size=(items, 1, 3)), (1, 4, 1)) - 3 * np.eye(4, 3, -1)
    inner = np.where(np.arange(items)[:, None, None] < share * items, exact, 0) + 0.3 * rng.normal(size=exact.shape)
    return {
        "inner_logp": log_softmax(inner, axis=2).reshape(-1, 3) - 0.1,
        "exact_logp": log_softmax(exact, axis=2).reshape(-1, 3),
        "option": list("abc"),
        "item": np.arange(items).repeat(4),
        "rejected": np.tile([-1, 0, 1, 2], items),
    }


def test_a_read_out_of_a_third_of_the_items_fails_by_them_alone_and_one_of_all_passes() -> None:
    for seed in range(5):
        part, whole = (readout_gate(**read_out(share, seed), how=Resampling(draws=100)) for share in (0.4, 1))
        assert part.failures == ("items_responding",)
        assert part.responding_ci[1] < 0.8
        assert whole.passed
    few = readout_gate(**read_out(1, 0, 4), how=Resampling(draws=100))
    assert few.withheld
    assert "items_responding" not in few.failures
