"""The statistics of causal checks: on simulated contexts with a known gain, few and in unequal groups."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import kendalltau

from doxascope.benchmarks.causal import along_an_estimate
from doxascope.metrics.inference.intervals import t_interval
from doxascope.probes.causal.claims import NEEDED_FOR_USE, judged
from doxascope.probes.causal.erasure import dependence
from doxascope.probes.causal.plan import ACTION, OUTCOMES, PLAIN, Arm, CausalData, CausalPlan, CausalThresholds
from doxascope.probes.causal.steering import causal_gain, control, exceeded_by_few, kendall, per_dose, random_band
from doxascope.probes.report_card import weakest

PLAN = CausalPlan(directions=("d",), draws=200, erase=False, surgery=(), random=39)
SIZES = (1, 1, 2, 2, 3, 3, 5, 8, 8, 12)
"""Contexts in each group."""


def simulated(
    seed: int, gain: float, *, spread: float = 0.5, noise: float = 0.3, random: float = 0.0, lift: float = 0.2
) -> CausalData:
    """Groups have gains of their own about `gain`; any disturbance lifts the belief by `lift` times its square; random
    directions have effects of a standard deviation `random`."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(len(SIZES)), SIZES)
    n = len(groups)
    gains = gain + spread * rng.normal(size=len(SIZES))[groups]
    step = np.exp(0.2 * rng.normal(size=n))
    readings = {PLAIN: np.full((n, len(OUTCOMES)), np.nan)}
    readings[PLAIN][:, :2] = rng.normal(size=(n, 2))
    for dose in PLAN.signed:
        values = readings[PLAIN].copy()
        values[:, 0] += dose * step
        values[:, 1] += gains * dose * step + lift * dose**2 + noise * rng.normal(size=n)
        readings[Arm("steer", "d", dose)] = values
    for i in range(PLAN.random):
        effect = random * rng.normal()
        for sign in (1.0, -1.0):
            values = readings[PLAIN].copy()
            values[:, 1] += sign * effect
            readings[Arm("random", f"{i}", sign * PLAN.dose)] = values
    blank = np.full(n, np.nan)
    return CausalData(groups, readings, blank, np.zeros(n), blank)


@pytest.mark.parametrize("gain", [0.0, 1.0])
def test_the_interval_of_the_gain_holds_a_planted_one_in_few_unequal_groups(gain: float) -> None:
    """Ten groups of 1 to 12 contexts: 95% intervals hold the gain in at least 88% of 150 data sets, three standard
    errors below their level."""
    estimates = [causal_gain(simulated(seed, gain), "d", PLAN) for seed in range(150)]
    covered = np.mean([estimate.ci_lo <= gain <= estimate.ci_hi for estimate in estimates])
    assert covered >= 0.88
    assert np.mean([estimate.ratio for estimate in estimates]) == pytest.approx(gain, abs=0.08)
    assert {estimate.status for estimate in estimates} <= {"few_clusters", "few_effective_clusters"}


def test_the_interval_of_the_gain_along_an_estimate_carries_its_estimation() -> None:
    """Of 200 probes of what is not used, intervals over contexts alone hold 0 in hardly any; with the fits without each
    fold, in at least 90%, three standard errors below their level. The estimate is the same."""
    worlds = [along_an_estimate(seed, PLAN) for seed in range(200)]
    alone = [causal_gain(replace(world, by_fold={}), "d", PLAN) for world in worlds]
    whole = [causal_gain(world, "d", PLAN) for world in worlds]
    assert np.mean([estimate.ci_lo <= 0 <= estimate.ci_hi for estimate in alone]) < 0.2
    assert 0.9 <= np.mean([estimate.ci_lo <= 0 <= estimate.ci_hi for estimate in whole]) < 0.99
    assert [estimate.ratio for estimate in alone] == [estimate.ratio for estimate in whole]
    assert {estimate.params["folds"] for estimate in whole} == {10}


def test_a_fold_that_was_not_read_leaves_no_interval_and_no_claim() -> None:
    world = along_an_estimate(0, PLAN, 5, 2.0)
    arms = {
        arm: np.full_like(values, np.nan) if arm[:2] == ("fold", "2") else values
        for arm, values in world.readings.items()
    }
    by_fold = {k: np.nan if k == "2" else read for k, read in world.by_fold.items()}
    whole, holed = (judged(data, PLAN) for data in (world, replace(world, readings=arms, by_fold=by_fold)))
    assert (whole.verdict("causal gain"), holed.verdict("causal gain")) == ("supported", "not shown")
    assert np.isnan(holed.numbers.gains["d"].ci_lo)
    assert holed.numbers.gains["d"].ratio == whole.numbers.gains["d"].ratio


def test_a_probe_of_what_is_not_used_is_seldom_said_to_move_the_action() -> None:
    """Of 200 such probes the change of the action for each SD has an interval that holds 0 in at least 90%, three
    standard errors below its level, and in hardly any without the fits without each fold."""
    worlds = [along_an_estimate(seed, PLAN, 5) for seed in range(200)]
    alone = [per_dose(replace(world, by_fold={}), ACTION, PLAN) for world in worlds]
    whole = [per_dose(world, ACTION, PLAN) for world in worlds]
    assert np.mean([estimate.ci_lo <= 0 <= estimate.ci_hi for estimate in alone]) < 0.2
    assert 0.9 <= np.mean([estimate.ci_lo <= 0 <= estimate.ci_hi for estimate in whole]) < 0.99
    assert [estimate.ratio for estimate in alone] == [estimate.ratio for estimate in whole]


def test_a_direction_that_is_used_is_seldom_said_to_have_no_dose_response() -> None:
    """Of 80 probes of which three tenths are used, the estimated direction of some turns tau round in every context;
    at most one in 20, and three standard errors, has evidence against it."""
    judgements = [judged(along_an_estimate(seed, PLAN, 5, 0.3), PLAN) for seed in range(80)]
    turned = [judgement.numbers.response.trend.ci_hi <= 0 for judgement in judgements]
    against = [judgement.verdict("dose response") == "evidence against" for judgement in judgements]
    assert np.mean(against) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 80)
    assert sum(against) < sum(turned) / 2


def test_a_direction_that_is_not_used_is_seldom_said_to_have_a_dose_response() -> None:
    """Of 100 probes of what is not used, the estimated direction of half has a tau that lies above 0; at most one in
    twenty, and three standard errors, is said to have a dose response. Of those that are used, nearly all are."""
    not_used, used = (
        [judged(along_an_estimate(seed, PLAN, 5, gain), PLAN) for seed in range(100)] for gain in (0.0, 2.0)
    )
    assert np.mean([judgement.numbers.response.trend.ci_lo > 0 for judgement in not_used]) > 0.3
    claimed = [
        np.mean([judgement.verdict("dose response") == "supported" for judgement in judgements])
        for judgements in (not_used, used)
    ]
    assert claimed[0] <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 100)
    assert claimed[1] > 0.8


def test_a_mean_that_a_quarter_of_the_contexts_make_is_no_dose_response() -> None:
    """Of 45 contexts eleven rise by twice what the probe reads, the others not at all: mean tau and gain lie above 0.
    Where all rise by half of it, which is the same gain, the claim is made."""
    verdicts = []
    for follows in (0.25, 1.0):
        data = simulated(0, 0.5 / follows, spread=0, noise=0.1, lift=0)
        data = replace(data, groups=np.arange(len(data.groups)))
        still = np.arange(len(data.groups)) >= round(follows * len(data.groups))
        exact = OUTCOMES.index("exact")
        plain = data.readings[PLAIN]
        rng = np.random.default_rng(1)
        for arm, values in data.readings.items():
            if arm.kind == "steer":
                values[still, exact] = plain[still, exact] + 0.05 * rng.normal(size=int(still.sum()))
        judgement = judged(data, PLAN)
        assert judgement.numbers.response.trend.ci_lo > 0
        assert judgement.numbers.gains["d"].ci_lo > 0
        verdicts.append(judgement.verdict("dose response"))
    assert verdicts == ["not shown", "supported"]


def test_an_effect_below_the_smallest_of_interest_is_no_dose_response() -> None:
    """The belief follows a given direction at every step, by a fiftieth of what the probe reads."""
    (claim,) = (
        c for c in judged(simulated(0, 0.02, spread=0, noise=0, lift=0), PLAN).claims if c.name == "dose response"
    )
    assert claim.evidence.startswith("tau 1.000")
    assert claim.verdict == "not shown"


def test_what_controls_do_less_carries_the_estimation_of_the_direction() -> None:
    """Of 200 probes of what is not used, the difference from another token has an interval that holds 0 in at least
    90%, and in hardly any without the fits without each fold."""
    arm = Arm("position", "", PLAN.dose)
    worlds = [along_an_estimate(seed, PLAN, 5) for seed in range(200)]
    covered = [[], []]
    for world in worlds:
        for some, data in zip(covered, (replace(world, by_fold={}), world), strict=True):
            difference = control(data, arm, PLAN)
            assert difference is not None
            some.append(difference.more.ci_lo <= 0 <= difference.more.ci_hi)
    assert np.mean(covered[0]) < 0.2
    assert 0.9 <= np.mean(covered[1]) < 0.99


def test_the_gain_is_that_of_least_squares_through_zero() -> None:
    data = simulated(3, 0.8)
    arms = [Arm("steer", "d", dose) for dose in PLAN.signed]
    x, y = (np.concatenate([data.change(arm, name) for arm in arms]) for name in ("probe", "exact"))
    expected = np.linalg.lstsq(x[:, None], y, rcond=None)[0][0]
    assert causal_gain(data, "d", PLAN).ratio == pytest.approx(expected)


def test_log_odds_without_end_are_dropped_and_counted() -> None:
    data = simulated(5, 1.0)
    values = data.readings[Arm("steer", "d", 4.0)]
    values[:3, 1] = np.inf
    gain = causal_gain(data, "d", PLAN)
    assert (gain.n_dropped, gain.reasons) == (3, {"not finite": 3})
    assert np.isfinite([gain.ratio, gain.ci_lo, gain.ci_hi]).all()


def test_trends_are_kendalls() -> None:
    values = np.random.default_rng(0).normal(size=(6, 9))
    values[2] = values[2, 0]
    tau: Any = [kendalltau(np.arange(9), row).statistic if np.ptp(row) else 0.0 for row in values]
    np.testing.assert_allclose(kendall(values), tau)


def test_claims_stand_with_an_effect_and_fall_without_one() -> None:
    data = simulated(1, 1.0, random=0.3)
    with_effect = judged(replace(data, groups=np.arange(len(data.groups))), PLAN)  # ten groups show no share
    for name in ("causal gain", "dose response", "beyond random directions"):
        assert with_effect.verdict(name) == "supported", name
    assert with_effect.used == "not tested"  # no other concept, no other token, no neutral prompt
    without = judged(simulated(1, 0.0, random=0.3), PLAN)
    assert without.verdict("beyond random directions") == "not shown"
    assert without.used == weakest([without.verdict(name) for name in NEEDED_FOR_USE])
    assert without.used in ("not shown", "evidence against")
    (gain,) = (claim for claim in without.claims if claim.name == "causal gain")
    assert (gain.verdict == "evidence against") == (without.numbers.gains["d"].ci_hi < PLAN.thresholds.gain)


def test_too_few_groups_test_nothing_and_are_told_apart_from_evidence() -> None:
    data = simulated(1, 0.0, random=0.3)
    n = len(set(data.groups.tolist()))
    few = judged(data, PLAN.model_copy(update={"thresholds": CausalThresholds(groups=n + 1)}))
    assert {claim.verdict for claim in few.claims} == {"not tested"}
    assert few.claims[0].evidence.startswith(f"{n} groups, and a verdict takes {n + 1}; gain ")


def test_a_useless_direction_is_outside_the_band_of_random_ones_at_the_level() -> None:
    """One of forty exchangeable directions: outside above, at most 5 of 200, and its p at most .05 in about as many
    twentieths."""
    rng = np.random.default_rng(0)
    outside, small = [], []
    for _ in range(200):
        effects = rng.normal(size=PLAN.random + 1)
        readings: dict[Arm, Any] = {}
        for i, effect in enumerate(effects):
            arm = Arm("random", f"{i}", PLAN.dose) if i else Arm("steer", "d", PLAN.dose)
            for sign in (1.0, -1.0):
                readings[arm._replace(dose=sign * PLAN.dose)] = np.full((2, len(OUTCOMES)), sign * effect)
        blank = np.full(2, np.nan)
        band = random_band(CausalData(np.arange(2), readings, blank, blank, blank), PLAN)
        assert band is not None
        outside.append(band.outside)
        small.append(band.p <= 0.05)
    assert np.mean(outside) < 0.025 + 3 * np.sqrt(0.025 / 200)
    assert abs(np.mean(small) - 0.05) < 3 * np.sqrt(0.05 / 200)


def test_one_more_that_is_exchangeable_exceeds_the_bound_at_most_at_the_level() -> None:
    """Whichever of n + 1 values is the one that is tried, at every n that is enough."""
    for n in range(19, 80):
        ranks = np.arange(n + 1.0)
        beyond = np.mean([rank > exceeded_by_few(np.delete(ranks, i), 0.95) for i, rank in enumerate(ranks)])
        assert 0.5 / (n + 1) < beyond <= 0.05, n


@pytest.mark.parametrize(
    ("before", "after", "less"), [(0.5, 0.0, True), (0.5, -0.5, False), (0.5, -1.0, False), (0.0, -0.3, False)]
)
def test_a_slope_that_turns_round_is_no_weaker_dependence(before: float, after: float, less: bool) -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(12), 4).astype(object)
    x, first, second = rng.normal(size=(3, 48))
    slopes = dependence(before * x + 0.1 * first, after * x + 0.1 * second, x, groups)
    sign = np.sign(slopes.before.estimate)
    assert all(t_interval(sign * gap.estimate, gap.se, gap.df, 0.95)[0] > 0 for gap in slopes.weaker) == less
