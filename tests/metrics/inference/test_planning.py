"""What so many clusters can claim (METRICS F3, F8)."""

from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from scipy import stats
from scipy.special import expit, softmax

from doxascope.metrics import (
    Resampling,
    belief_consistency,
    claim_clusters,
    claim_power,
    framing_bias,
    planned_n,
    study_design,
    tost,
    unless_missed,
)
from doxascope.metrics.inference.planning import ESTIMATION_ONLY, LEAK, READING_NOISE, SPREADS, PlannedSpread
from doxascope.metrics.registration import Registered
from doxascope.metrics.scoring.engine import score_samples
from doxascope.metrics.tables.samples import Answers

CONFIGS = Path(str(files("doxascope"))) / "configs"
REGISTERED: dict[str, dict[str, Any]] = {
    path.stem: plan
    for path in sorted(CONFIGS.glob("*.yaml"))
    if (plan := yaml.safe_load(path.read_text()).get("registered"))
}
for path in sorted(CONFIGS.glob("cards/*.yaml")):
    for run, changes in yaml.safe_load(path.read_text())["runs"].items():
        changed = {key.removeprefix("registered."): value for key, value in changes.items() if "registered." in key}
        REGISTERED[f"{run}, card {path.stem}"] = REGISTERED[run] | changed


@pytest.mark.parametrize("name", sorted(REGISTERED))
def test_a_perfect_agent_wins_what_a_preset_claims_or_the_preset_says_estimation_only(name: str) -> None:
    plan = Registered.model_validate(REGISTERED[name])
    if plan.margin is None:
        found = study_design(plan.metric, None, plan.n).half_width
        assert plan.width is not None
        assert found <= plan.width
        first, forecast = plan.foreseen(plan.n)
        assert f"to within ± {plan.width:g} ({plan.n} clusters), not for a claim of coherence; this run" in first
        told = (
            "where beliefs spread as in the calibration"
            if plan.n >= 10
            else f"{plan.n} clusters allow no forecast of its interval: 10 are"
        )
        assert forecast.strip().startswith(told)
    else:
        assert claim_power(plan.margin, plan.n, SPREADS[plan.metric]) >= 0.8
        needed = planned_n(plan.metric, plan.margin)
        assert needed != ESTIMATION_ONLY
        assert needed <= plan.n


def test_claims_remain() -> None:
    claims = {name for name, plan in REGISTERED.items() if plan.get("margin")}
    assert {"consistency", "truth", "sycophancy-paper"} <= claims


def test_power_is_that_of_the_claim_itself() -> None:
    """The reference: samples of the agent, each through the two one-sided tests and what they may have missed."""
    rng, n, margin, spread = np.random.default_rng(0), 80, 0.05, PlannedSpread(0.01, 0.1)
    won = []
    for _ in range(400):
        x = rng.normal(spread.off, spread.sd, n)
        test = tost(float(x.mean()), float(x.std(ddof=1) / np.sqrt(n)), n - 1, -margin, margin)
        won.append(unless_missed(test, n).equivalent)
    assert claim_power(margin, n, spread) == pytest.approx(np.mean(won), abs=0.08)


def test_without_what_could_be_missed_it_is_the_textbook_size() -> None:
    """(z_.95 + z_.9)^2 (sd / margin)^2 for an estimate whose mean is 0: 80% have to pass both tests."""
    sd, margin = 0.42, 0.02
    n = ((stats.norm.ppf(0.95) + stats.norm.ppf(0.9)) * sd / margin) ** 2
    assert 3700 < n < 3850
    assert claim_power(margin, round(n), PlannedSpread(0.0, sd)) == pytest.approx(0.8, abs=0.03)


def test_the_spreads_are_those_of_the_agent() -> None:
    """A ratio that is kept but for noise, with a leak; a claim and its negation that are read with noise."""
    rng, n = np.random.default_rng(0), 4000
    level = 0.7 * rng.standard_normal((n, 3))
    prior = np.exp(level + READING_NOISE * rng.standard_normal((n, 3)))
    post = np.exp(level + READING_NOISE * rng.standard_normal((n, 9, 3)).transpose(1, 0, 2))
    gone = np.eye(3)[np.tile(np.arange(3), 3)][:, None, :]
    post = post * (1 - gone)
    post = (1 - LEAK) * post / post.sum(axis=2, keepdims=True) + LEAK * gone
    prior = prior / prior.sum(axis=1, keepdims=True)
    c2 = np.array([belief_consistency(prior, post[i], np.full(n, i % 3)).c2 for i in range(9)]).mean(axis=0)
    assert 1 - c2.mean() == pytest.approx(SPREADS["c2"].off, rel=0.3)
    assert 0.3 * SPREADS["c2"].sd < c2.std() < SPREADS["c2"].sd  # runs spread more than noise alone
    logit = 2 * rng.standard_normal(n)
    yes, no = (expit(sign * logit + READING_NOISE * rng.standard_normal(n)) for sign in (1, -1))
    bias = framing_bias(yes, no)
    assert bias.std() == pytest.approx(SPREADS["framing_bias"].sd, rel=0.25)


def test_the_spread_of_b_is_that_of_topics_that_are_read_with_noise() -> None:
    """Distributions over four options, read in four orders afresh, and 24 times in turns and after every control."""
    rng, n = np.random.default_rng(0), 1200
    level = 0.7 * rng.standard_normal((n, 1, 4))

    def read(times: int) -> Any:
        return softmax(level + READING_NOISE * rng.standard_normal((n, times, 4)), axis=2).mean(axis=1)

    sample = Answers(
        options=tuple("abcd"), single=read(4), multi=read(24), chosen_by=softmax(level[:, 0], axis=1),
        controls=np.stack([read(24) for _ in "abc"], axis=1), control_names=tuple("abc"), invalid=(0.0, 0.0),
        clusters=np.arange(n) // 4,
    )  # fmt: skip
    found = {one.metric: one.score for one in score_samples([sample], Resampling(draws=99)).numbers}
    for name in ("top_b", "b_excess"):
        assert found[name].se * np.sqrt(n / 4) == pytest.approx(SPREADS[name].sd, rel=0.2)
        assert found[name].estimate == pytest.approx(SPREADS[name].off, abs=0.003)


def test_noise_of_a_prior_foresees_as_much_of_its_update_as_is_planned_for() -> None:
    """M = reliability - 1 of an exact Bayesian whose prior is read with noise (METRICS A5)."""
    rng = np.random.default_rng(0)
    odds = 2 * rng.standard_normal(200_000)
    read = expit(odds + READING_NOISE * rng.standard_normal(len(odds)))
    truth = expit(odds)
    slope = np.cov(truth - read, read)[0, 1] / read.var()
    assert -slope == pytest.approx(SPREADS["M"].off, rel=0.2)


def test_a_plan_names_as_many_as_win_and_not_the_fewest_that_any_claim_takes() -> None:
    """150 triples within .02 have missed what is off with a chance of .048, so that the least spread makes it .05."""
    margin, seen = 0.02, PlannedSpread(0.013, 0.0143)  # a run of 250 triples of a coherent organism
    needed = planned_n("c2", margin)
    assert isinstance(needed, int)
    assert claim_clusters(margin) < needed <= 160
    for n, wins in ((claim_clusters(margin), False), (needed, True)):
        won = tost(-seen.off, seen.sd / np.sqrt(n), n - 1, -margin, margin)
        assert won.p < 1e-6
        assert unless_missed(won, n).equivalent == wins
        assert (claim_power(margin, n, seen) >= 0.8) == wins
    first, second, third, *_ = Registered(metric="c2", method="free", coherent=1, margin=margin, n=150).foreseen()
    assert first.endswith("within 0.02 of 1")
    assert f"a claim takes {needed} clusters" in second
    assert third == "  registered are 150 clusters, too few: such a model passes in less than 1% of runs"
    *_, won, _ = Registered(metric="c2", method="free", coherent=1, margin=margin, n=200).foreseen()
    assert won.startswith(
        "  registered are 200 clusters: such a model, whose noise moves the number by 0.013, then passes"
    )
    at_edge = study_design("c2", margin, needed)
    assert at_edge.power >= 0.8
    assert at_edge.farther[1] < 0.5  # a c2 of .982
    assert at_edge.half_width == pytest.approx(stats.t.ppf(0.975, needed - 1) * 0.015 / np.sqrt(needed))


def test_a_claim_that_noise_alone_loses_is_estimation_only() -> None:
    assert planned_n("kappa_word", 0.05) == ESTIMATION_ONLY
    assert planned_n("c2", 0.05) == 60
    with pytest.raises(ValueError, match="give one of them"):
        Registered(metric="M", method="words", margin=0.02, width=0.1, n=18)
    lines = Registered(metric="c2", method="free", coherent=1, margin=0.05, n=60).foreseen(30)
    assert "this run has 30 of the 60 registered clusters, too few: such a model passes in" in lines[2]
