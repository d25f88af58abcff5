"""What may be claimed, and what a probe's values may be called."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from doxascope.hooks.prompts.places import LAST, Position
from doxascope.metrics import Resampling
from doxascope.probes.dataset import ProbeData
from doxascope.probes.evidence.study import StudyPlan, Thresholds, study
from doxascope.probes.features import (
    BELIEF,
    DECODED,
    NOTHING,
    READ_OUT,
    TOO_FEW,
    UNSURE,
    ReadingSite,
    name_of,
    reading_site,
)
from doxascope.probes.groups import grouped_folds
from doxascope.probes.report_card import NEEDED_FOR_BELIEF, Card, report_card
from doxascope.probes.sweep import sweep

PLAN = StudyPlan(permutations=39, refits=20, penalties=(1.0, 100.0), control_draws=5)


@pytest.mark.parametrize(
    ("position", "site"),
    [
        (LAST, "read-out"),
        (Position(at="before_answer"), "read-out"),
        (Position(at="end", message=2), "read-out"),
        (Position(at="mean", message=-1), "read-out"),
        (Position(at="end", message=1), "before the question"),
        (Position(at="mean", message=-3), "before the question"),
        (Position(at="before", message=2), "before the question"),
        (Position(at="end", message=7), "unknown"),
    ],
)
def test_the_position_where_the_answer_is_read_is_a_read_out(position: Any, site: ReadingSite) -> None:
    assert reading_site(position, n_messages=3) == site


def test_a_read_out_is_never_a_belief_whatever_it_shows() -> None:
    everything = [True] * len(NEEDED_FOR_BELIEF)
    assert name_of("before the question", "supported", everything) == BELIEF
    assert name_of("read-out", "supported", everything) == READ_OUT
    assert name_of("unknown", "supported", everything) == READ_OUT
    assert name_of("before the question", "supported", [*everything[:-1], False]) == DECODED
    assert name_of("before the question", "evidence against", [False, *everything[1:]]) == NOTHING
    assert name_of("before the question", "not shown", [False, *everything[1:]]) == UNSURE
    assert name_of("before the question", "not tested", [False] * len(everything)) == TOO_FEW


def card(data: ProbeData, site: ReadingSite = "before the question", plan: StudyPlan = PLAN) -> Card:
    folds = grouped_folds(data.groups, plan.folds, plan.seed)
    found = sweep(data, folds, how=Resampling(plan.seed, plan.permutations), penalties=plan.penalties)
    return report_card(found, study(data, data.points[1], folds, plan), site, data.n_groups, plan)


def beliefs(knows: float) -> Callable[[Any, Any], Any]:
    """The model's own belief in log-odds, that follows the truth by so much."""
    return lambda truth, rng: knows * (2 * truth - 1) + rng.normal(size=len(truth))


def test_a_probe_that_knows_more_than_the_model_says_is_told_so(planted: Callable[..., ProbeData]) -> None:
    found = card(planted({1: 3.0}, layers=2, exact=beliefs(0.5), verbal=beliefs(0.0)))
    for name in ("decodable", "selective", "beyond the surface", "coherent under negation", "uniform"):
        assert found.verdict(name) == "supported", name
    assert found.verdict("adds to the exact logit") == found.verdict("adds to both") == "supported"
    assert found.verdict("used") == "not tested"
    assert found.name == "decoded information"  # nothing was steered: it is no belief yet
    assert found.criteria == {
        "accuracy": "supported",
        "coherence": "supported",
        "uniformity": "supported",
        "use": "not tested",
    }
    assert all(claim.falsifier and claim.evidence for claim in found.claims)


def test_noise_supports_nothing_and_too_few_groups_support_no_claim(planted: Callable[..., ProbeData]) -> None:
    noise = card(planted({}, layers=2, exact=beliefs(0.5)), "read-out")
    assert noise.name == READ_OUT
    assert {claim.name for claim in noise.claims if claim.verdict == "supported"} == set()
    few = card(planted({1: 3.0}, layers=2), plan=PLAN.model_copy(update={"thresholds": Thresholds(groups=61)}))
    assert {claim.verdict for claim in few.claims if claim.name != "before the question"} == {"not tested"}
    assert few.claims[0].evidence.startswith("60 groups, and a verdict takes 61; R2 ")
    assert few.headline == "too few groups to say (60 of the 61 that are needed)"  # and not that nothing is there


def test_a_probe_that_repeats_the_logits_adds_nothing(planted: Callable[..., ProbeData]) -> None:
    data = planted({}, layers=2)
    own = np.random.default_rng(7).normal(size=len(data.rows)) + 2 * data.target.prob - 1
    data.features.arrays[data.points[1]][:, 0] = 3 * own  # type: ignore
    copied = ProbeData(data.rows.assign(exact=own), data.target, data.features, data.points)
    found = card(copied)
    assert found.verdict("decodable") == "supported"
    assert found.verdict("adds to the exact logit") == "not shown"
