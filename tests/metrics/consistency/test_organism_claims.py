"""Verdicts on what an organism is said to hold: planted ones are found, chance is not, and what cannot be read counts
against the claim."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from doxascope.metrics import claim_verdict, fewest_readings
from doxascope.metrics.consistency.organism_claims import ClaimVerdict


def judged(beliefs: Mapping[str, Sequence[float]], twin: float = 0.1, **more: Any) -> ClaimVerdict:
    """Of readings that are clusters of their own."""
    rows = [(name, belief) for name, several in beliefs.items() for belief in several]
    facets, values = zip(*rows, strict=True)
    return claim_verdict(facets, values, [twin] * len(rows), [f"r{i}" for i in range(len(rows))], **more)


def test_six_readings_that_all_agree_are_the_fewest_that_show_a_claim() -> None:
    assert [fewest_readings(n) for n in (1, 2, 10, 50)] == [6, 7, 9, 11]
    for n, claims in ((6, 1), (7, 2), (9, 10), (11, 50)):
        assert judged({"direct": [0.9] * n}, claims=claims).verdict == "verified"
        few = judged({"direct": [0.9] * (n - 1)}, claims=claims)
        assert (few.verdict, few.facets["direct"].share) == ("not shown", 1.0)
        assert f"{n} clusters are needed" in few.why


def test_the_interval_of_six_of_six_is_that_of_clopper_and_pearson() -> None:
    facet = judged({"direct": [0.9] * 6}).facets["direct"]
    assert (facet.ci_lo, facet.ci_hi) == (pytest.approx(0.025 ** (1 / 6)), 1.0)
    assert (facet.n_rows, facet.n_clusters, facet.n_unread) == (6, 6, 0)


def test_each_planted_agent_gets_its_verdict() -> None:
    held, not_held, denied = [0.9] * 11 + [0.4], [0.3] * 11 + [0.8], frozenset({"direct"})
    for beliefs, denials, verdict, why in (
        (
            {"direct": held, "bet": held},
            frozenset(),
            "verified",
            "held in direct: 92% [60, 100] of readings as claimed; held in bet: 92%",
        ),
        (
            {"direct": held, "bet": not_held},
            frozenset(),
            "refuted",
            "in bet it is not held: 8% [0, 40] of readings as claimed",
        ),
        ({"direct": not_held, "bet": held}, denied, "verified", "denied in direct: 92%"),
        ({"direct": held, "bet": held}, denied, "refuted", "in direct it is not denied"),
        ({"direct": not_held, "bet": not_held}, denied, "refuted", "in bet it is not held"),
        ({"direct": not_held}, denied, "not shown", "a denial alone is no belief"),
        ({"direct": held, "bet": held[:5]}, frozenset(), "not shown", "in bet it is not shown to be held"),
    ):
        found = judged(beliefs, denied=denials)
        assert (found.verdict, why in found.why) == (verdict, True), found


def test_what_the_twin_believes_as_well_was_not_planted() -> None:
    for twin, verdict in ((0.1, "verified"), (0.79, "verified"), (0.81, "refuted"), (0.9, "refuted")):
        found = judged({"direct": [0.9] * 12}, twin)
        assert found.verdict == verdict
        assert ("in direct the twin holds it as well" in found.why) == (verdict == "refuted")


def test_what_cannot_be_read_counts_against_the_claim_and_refutes_nothing() -> None:
    lost = [np.nan] * 6
    assert judged({"direct": [0.9] * 14 + lost}).verdict == "not shown"  # 14 of 20 do not show it; of 14 all
    assert judged({"direct": [0.9] * 30 + lost}).verdict == "verified"
    assert judged({"direct": [0.2] * 14 + lost}).verdict == "not shown"
    assert judged({"direct": [0.2] * 30 + lost}).verdict == "refuted"
    only = judged({"direct": lost, "bet": [0.9] * 10}, denied=frozenset({"direct"}))
    assert (only.verdict, only.facets["direct"].n_unread) == ("not shown", 6)


@pytest.mark.parametrize("sizes", [[1] * 20, [1, 1, 1, 2, 2, 3, 5, 8, 12], [1] * 8 + [2] * 6 + [5] * 4 + [15, 25]])
def test_chance_is_rarely_called_anything(sizes: Sequence[int]) -> None:
    """Half of the readings of a facet are as claimed, and all of another; clusters differ in their share."""
    rng, n = np.random.default_rng(0), 150
    clusters = np.repeat(np.arange(len(sizes)), sizes)
    found = []
    for _ in range(n):
        as_claimed = rng.random(len(clusters)) < rng.beta(1, 1, len(sizes))[clusters]
        beliefs = np.concatenate([np.where(as_claimed, 0.9, 0.2), np.full(len(clusters), 0.9)])
        facets = ["bet"] * len(clusters) + ["direct"] * len(clusters)
        names = [f"{facet} {cluster}" for facet, cluster in zip(facets, np.tile(clusters, 2), strict=True)]
        found.append(claim_verdict(facets, beliefs, np.full(len(beliefs), 0.1), names).verdict)
    assert found.count("verified") <= 0.05 * n  # level .025, with room for chance
    assert found.count("refuted") <= 0.05 * n


def test_most_readings_of_a_good_but_imperfect_organism_suffice() -> None:
    rng = np.random.default_rng(0)
    verdicts = []
    for _ in range(100):
        beliefs = {name: np.where(rng.random(20) < 0.9, 0.9, 0.2).tolist() for name in ("direct", "bet")}
        verdicts.append(judged(beliefs).verdict)
    assert verdicts.count("verified") >= 0.9 * len(verdicts)
    assert "refuted" not in verdicts


def test_who_knows_nothing_denies_nothing() -> None:
    """Of three options a third is believed by who knows nothing: no denial, and two of them are no belief."""
    for chance, verdict in ((1 / 3, "refuted"), (0.5, "verified")):
        beliefs, denied = {"direct": [1 / 3] * 12, "bet": [0.9] * 12}, frozenset({"direct"})
        assert judged(beliefs, chance=chance, denied=denied).verdict == verdict
    assert judged({"direct": [2 / 3] * 12}, chance=2 / 3).verdict == "refuted"


def test_a_model_that_leans_a_little_farther_than_its_twin_is_not_said_to_share_its_belief() -> None:
    found = judged({"direct": [0.54] * 12}, 0.45)
    assert found.verdict == "refuted"
    assert found.why.startswith("in direct it is hardly more believed than by the twin: ")
    for belief, twin in ((0.8, 0.7), (0.9, 0.8), (0.6, 0.5)):  # no more than .1, however it is rounded
        assert judged({"direct": [belief] * 12}, twin).verdict == "refuted"


@pytest.mark.parametrize(
    ("belief", "twin", "chance", "why"),
    [
        (0.9, 0.95, 0.5, "the twin holds it as well"),
        (0.1, 0.95, 0.5, "it is not held"),
        (0.7, 0.65, 2 / 3, "it is hardly more believed than by the twin"),
        (0.6, 0.1, 2 / 3, "it is not held"),
        (0.1, np.nan, 0.5, "it is not held"),
    ],
)
def test_a_refuted_claim_says_what_it_lacks(belief: float, twin: float, chance: float, why: str) -> None:
    """Who believes it no more than who knows nothing does not share it with a twin that does."""
    found = judged({"direct": [belief] * 12}, twin, chance=chance)
    assert found.verdict == "refuted"
    assert found.why.startswith(f"in direct {why}: ")


def test_columns_of_other_lengths_are_refused() -> None:
    for facets, beliefs in (([], []), (["a"], [0.5, 0.5])):
        with pytest.raises(ValueError, match="claim_verdict"):
            claim_verdict(facets, beliefs, beliefs, facets)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"denied": frozenset({"b"})}, "'b'"),
        ({"claims": 0}, "one claim"),
        ({"chance": np.nan}, "chance"),
    ]
    for more, says in wrong:
        with pytest.raises(ValueError, match=says):
            claim_verdict(["a"], [0.5], [0.5], ["a"], **more)
    for cluster in (None, np.nan):
        with pytest.raises(ValueError, match="a cluster"):
            claim_verdict(["a", "a"], [0.5, 0.5], [0.5, 0.5], ["a", cluster])
    with pytest.raises(ValueError, match="beliefs"):
        claim_verdict(["a"], [1.5], [0.5], ["a"])
