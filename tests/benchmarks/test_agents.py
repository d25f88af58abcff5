"""Each agent plants what it says, within the Monte-Carlo error of the very estimator that reads it."""

from typing import Any

import numpy as np
import pytest
from scipy.special import logit

from doxascope.benchmarks.agents import (
    Anchored,
    Answering,
    Bayesian,
    Eliminating,
    Guessing,
    Incoherent,
    LeakyJudge,
    PositionLocked,
    PriorNoise,
    ReportNoise,
    SaysOtherwise,
    Sycophantic,
    Updater,
    YesSayer,
)
from doxascope.metrics import (
    Resampling,
    b_score_exact,
    belief_consistency,
    belief_gate,
    calibration_slope,
    cluster_mean,
    consistency_kappa,
    direction_rates,
    drift_variance,
    fork_coherence,
    gcm_test,
    grether_regression,
    lie,
    martingale_iv,
    martingale_score,
    persistence,
    sycophancy_change,
    trajectory_pairs,
)
from doxascope.metrics.metric import clusters_of, known_outcome

N = 20_000
REACH = 4
"""Standard errors: one seed in 16,000 fails by chance, and the seeds are fixed."""
UPDATING = {
    "bayesian": Bayesian(),
    "busy": Bayesian(evidence=2, extra=30),
    "anchored": Anchored(0.15),
    "shifted": Anchored(0.0, shift=0.05),
    "bent": Anchored(0.0, bend=0.05),
    "noise": PriorNoise(),
    "noise on anchored": PriorNoise(of=Anchored(0.15)),
    "leak": LeakyJudge(0.2, Bayesian(evidence=12)),
    "under": Updater(0.4),
    "right": Updater(1.0),
    "over": Updater(2.0),
    "guessing": Guessing(),
}
OTHERS = {
    "long": Bayesian(steps=3),
    "sycophantic": Sycophantic(),
    "incoherent": Incoherent(0.05),
    "locked": PositionLocked(),
    "eliminating": Eliminating(),
    "yes": YesSayer(0.03),
    "answering": Answering(debias=0.5),
    "report": ReportNoise(noise=1.0, repetitions=2, digits=2),
}


@pytest.mark.parametrize("name", UPDATING)
def test_the_slope_is_the_one_that_is_planted(name: str) -> None:
    agent = UPDATING[name]
    sample = agent.sample(N, 1)
    score = martingale_score(*sample.read.T, se="HC3")
    planted = agent.slope
    assert pytest.approx(planted, abs=REACH * score.se) == score.M
    assert score.se < 0.02
    if abs(agent.slope) > 1e-9:  # and it can be told from none
        assert abs(score.M) > REACH * score.se


def test_slopes_are_the_published_closed_forms() -> None:
    assert PriorNoise(0.14).slope == pytest.approx(-0.0049 * 4 / 3 / (0.03 + 0.0049 * 4 / 3))  # Var(belief) = .03
    leaky = LeakyJudge(0.1)
    r = (0.05 * 10 / 14 - 0.03) / 0.03
    assert leaky.slope == pytest.approx(0.09 * r / (1 + 0.01 * r))
    assert Updater(1.0).slope == pytest.approx(0, abs=1e-9)
    assert Updater(0.4).slope > 0.05
    assert Updater(2.0).slope < -0.05
    with pytest.raises(ValueError, match="extra"):
        Bayesian(extra=5).variance(1)


@pytest.mark.parametrize("step", [0, 1, 2])
def test_the_urn_has_the_beta_binomial_variance_and_is_calibrated(step: int) -> None:
    urn = Bayesian(a=3, b=2, steps=2)
    sample = urn.sample(N, 2)
    squares = (sample.read[:, step] - 0.6) ** 2  # a / (a + b)
    assert squares.mean() == pytest.approx(urn.variance(step), abs=REACH * squares.std() / np.sqrt(N))
    slope = calibration_slope(sample.read[:, step], sample.outcome)
    assert slope.slope == pytest.approx(1, abs=REACH * slope.se)


def test_the_urn_is_a_martingale_at_every_prior() -> None:
    """Not in the slope alone: the mean update is zero at each value that a prior can take."""
    for agent in (Bayesian(), Bayesian(evidence=2, extra=30)):
        prior, post = agent.sample(N, 3).belief.T
        values = np.unique(prior.round(9))
        assert len(values) == 7
        for value in values:
            d = (post - prior)[np.isclose(prior, value)]
            assert d.mean() == pytest.approx(0, abs=REACH * d.std() / np.sqrt(len(d)))


@pytest.mark.parametrize("drift", [0.0, 0.06])
def test_drift_within_a_question(drift: float) -> None:
    score = drift_variance(Bayesian(evidence=8).chains(4000, 8, 4, drift), how=Resampling(draws=200))
    assert score.drift2 == pytest.approx(drift**2, abs=REACH * score.se)
    assert score.se < 0.0005


def test_anchoring_moves_the_mean_and_the_shift_moves_nothing_else() -> None:
    for agent, mean in ((Anchored(0.2, anchor=0.9), 0.08), (Anchored(0.0, shift=0.05), 0.05)):
        prior, post = agent.sample(N, 5).belief.T
        d = post - prior
        assert d.mean() == pytest.approx(mean, abs=REACH * d.std() / np.sqrt(N))


def test_a_second_reading_gives_the_agents_own_slope_back() -> None:
    agent = PriorNoise(of=Anchored(0.15))
    sample = agent.sample(N, 6)
    again = agent.reading(sample.belief[:, 0], 7)
    score = martingale_iv(sample.read[:, 0], again, sample.read[:, 1], how=Resampling(draws=200))
    assert score.M_iv == pytest.approx(agent.of.slope, abs=REACH * score.se)
    correlation = np.corrcoef(sample.read[:, 0], again)[0, 1]  # of two readings: the reliability
    assert correlation == pytest.approx(agent.reliability, abs=REACH / np.sqrt(N))


@pytest.mark.parametrize(("gain", "label"), [(0.5, "under"), (1.0, "exact"), (2.0, "over")])
def test_the_updater_weighs_evidence_by_its_gain(gain: float, label: str) -> None:
    j = Updater(gain).sample(500, 8)
    score = grether_regression(j.read[:, 0], j.read[:, 1], j.like_x, j.like_not_x)
    assert (score.const, score.evidence, score.prior) == pytest.approx((0, gain, 1), abs=1e-8)
    rates = direction_rates(prior=j.read[:, 0], posterior=j.read[:, 1], bayes=j.bayes, tol=1e-12)
    assert getattr(rates, label) == 1
    noisy = Updater(gain, noise=0.5).sample(N, 9)
    score = grether_regression(noisy.read[:, 0], noisy.read[:, 1], noisy.like_x, noisy.like_not_x)
    assert score.evidence == pytest.approx(gain, abs=REACH * score.se)


def test_the_updaters_world_is_as_it_believes() -> None:
    j = Updater(1.0).sample(N, 10)
    for belief in (j.belief[:, 0], j.bayes):
        slope = calibration_slope(belief, j.outcome)
        assert slope.slope == pytest.approx(1, abs=REACH * slope.se)


def test_guesses_know_nothing() -> None:
    sample = Guessing().sample(N, 11)
    score = calibration_slope(sample.read[:, 1], sample.outcome)
    assert score.slope == pytest.approx(0, abs=REACH * score.se)
    assert martingale_score(*sample.read.T).intercept == pytest.approx(0.5, abs=0.02)


def test_testimony_moves_the_answer_more_than_the_belief() -> None:
    agent = Sycophantic(shift=0.5, kept=0.6)
    t = agent.sample(4000, 12)
    moved = cluster_mean(logit(t.user) - logit(t.base), t.scenario, how=Resampling(draws=200))
    assert moved.mean == pytest.approx(0.5, abs=REACH * moved.se)
    assert sycophancy_change(t.base, t.user).mean_logit_change == pytest.approx(moved.mean)
    kept = persistence(
        logit(t.user) - logit(t.base), logit(t.third) - logit(t.base), t.scenario, how=Resampling(draws=200)
    )
    assert kept.persistence == pytest.approx(0.6, abs=REACH * kept.se)


def test_the_gap_is_the_signed_violation() -> None:
    said = Incoherent(0.05).sample(N, 13)
    signed = lie(said.p, said.conditional, said.weights).signed
    assert signed.mean() == pytest.approx(0.05, abs=REACH * signed.std() / np.sqrt(N))
    exact = Incoherent(0.05, noise=0.0).sample(10, 13)
    np.testing.assert_allclose(lie(exact.p, exact.conditional, exact.weights).signed, 0.05)


def test_position_alone_is_perfectly_consistent_and_means_nothing() -> None:
    frozen = PositionLocked(wobble=0.0).sample(20, 14)
    pair = belief_consistency(frozen.prior, frozen.posterior, frozen.rejected)
    np.testing.assert_allclose(pair.c2, 1)
    assert (
        consistency_kappa(pair.prior2, pair.post2, clusters_of(frozen), frozen.rejected).status == "chance_is_perfect"
    )

    c = PositionLocked().sample(1000, 14)
    pair = belief_consistency(c.prior, c.posterior, c.rejected)
    kappa = consistency_kappa(pair.prior2, pair.post2, clusters_of(c), c.rejected, how=Resampling(draws=200))
    assert kappa.kappa == pytest.approx(0, abs=REACH * kappa.se)
    rows = np.arange(len(c.rejected))
    before, after = c.prior[rows, c.rejected], c.posterior[rows, c.rejected]
    gate = belief_gate(
        template=np.full(len(rows), "t"),
        prior_rejected=before,
        post_rejected=after,
        groups=clusters_of(c),
        how=Resampling(draws=200),
    )
    assert gate.responds == "does not respond"
    assert gate.share < 0


def test_elimination_keeps_the_ratio_and_leaks_as_planted() -> None:
    c = Eliminating(leak=0.1).sample(3000, 15)
    pair = belief_consistency(c.prior, c.posterior, c.rejected)
    np.testing.assert_allclose(pair.c2, 1, atol=1e-9)
    leak = cluster_mean(pair.p_invalid_norm, clusters_of(c), how=Resampling(draws=200))
    assert leak.mean == pytest.approx(0.1, abs=REACH * leak.se)
    none = Eliminating(leak=0.0).sample(5, 15)
    np.testing.assert_allclose(none.posterior[np.arange(15), none.rejected], 0)


@pytest.mark.parametrize("bias", [0.0, 0.05])
def test_the_yes_sayer_says_yes_to_more_than_one(bias: float) -> None:
    b = YesSayer(bias).sample(4000, 16)
    excess = cluster_mean(fork_coherence(b.q, b.r).excess, clusters_of(b), how=Resampling(draws=200))
    assert excess.mean == pytest.approx(bias, abs=REACH * excess.se)


@pytest.mark.parametrize("debias", [0.0, 0.5])
def test_conversations_take_the_share_of_the_bias_that_is_planted(debias: float) -> None:
    agent = Answering(debias=debias, runs=400)
    a = agent.sample(5, 17)
    np.testing.assert_allclose(a.p_multi.sum(axis=-1), 1)
    for single, multi in zip(a.p_single, a.p_multi, strict=True):
        score = b_score_exact(single, multi)
        assert (np.abs(score.b - debias * (single - 0.25)) < REACH * score.se_b).all()
    assert a.single.sum() == 5 * 30
    assert a.multi.sum() == 5 * 30


def test_actions_know_more_than_a_noisy_report_and_no_more_than_a_clean_one() -> None:
    clean = ReportNoise(levels=10).sample(N, 18)
    np.testing.assert_allclose(clean.belief, np.asarray(clean.p_star))
    noisy = ReportNoise(noise=1.5).sample(N, 18)
    wrong = ReportNoise(misbelief=1.0, digits=2).sample(N, 18)
    assert np.abs(wrong.belief - np.asarray(wrong.p_star)).mean() > 0.1  # wrong, and yet nothing is held back
    for sample, least, most in ((clean, -REACH, REACH), (wrong, -REACH, REACH), (noisy, 10, np.inf)):
        action, outcome = sample.action.astype(np.float64), known_outcome(sample)
        # Nuisances by the means of a hundred narrow bins, which is exact where reports are rounded.
        bins = (sample.belief * 100).round().astype(int)
        m_hat, e_hat = ((np.bincount(bins, y) / np.maximum(np.bincount(bins), 1))[bins]
                        for y in (action, outcome))  # fmt: skip
        assert least < gcm_test(action, outcome, m_hat, e_hat).T < most


def test_repetitions_without_trembling_are_clones() -> None:
    for trembling in (False, True):
        d = ReportNoise(repetitions=5, trembling=trembling).sample(200, 19)
        assert (clusters_of(d).reshape(200, 5) == np.arange(200)[:, None]).all()
        action = d.action.reshape(200, 5)
        assert (action == action[:, :1]).all() != trembling
    assert set(ReportNoise(noise=1.0, digits=1).sample(200, 19).belief.round(9) * 10 % 1) <= {0.0}


@pytest.mark.parametrize("name", [*UPDATING, *OTHERS])
def test_a_seed_is_all_that_a_sample_depends_on(name: str) -> None:
    agent: Any = (UPDATING | OTHERS)[name]
    first, again, other = (vars(agent.sample(30, seed)) for seed in (1, 1, 2))
    changed = False
    for field, values in first.items():
        np.testing.assert_array_equal(values, again[field])
        changed |= not np.array_equal(values, other[field])
    assert changed
    with pytest.raises(AttributeError):
        agent.anything = 1  # frozen


@pytest.mark.parametrize("name", [*UPDATING, "long"])
def test_readings_are_probabilities_and_steps_are_updates(name: str) -> None:
    sample: Any = (UPDATING | OTHERS)[name].sample(2000, 20)
    assert sample.read.min() >= 0
    assert sample.read.max() <= 1
    prior, posterior, question = sample.updates()
    pairs = trajectory_pairs(list(sample.read), "per_step")
    np.testing.assert_array_equal(prior, pairs.prior)
    np.testing.assert_array_equal(posterior, pairs.post)
    if name == "long":
        np.testing.assert_array_equal(question, pairs.group)
    else:
        assert question is None


def test_kinds_that_disagree_are_as_incoherent_as_planted() -> None:
    """The mean c2 of a large sample is that of the quadrature, and M that of the pull."""
    agent = SaysOtherwise(computed=0.2, said=0.8)
    found = agent.words(N, 0)
    for kind, sample in found.items():
        each = belief_consistency(sample.prior, sample.posterior, sample.rejected).c2
        assert np.mean(each) == pytest.approx(agent.c2(kind), abs=REACH * np.std(each) / np.sqrt(N))
    assert agent.c2("exact") == agent.c2("probe") > agent.c2("verbal")
    assert SaysOtherwise().c2("verbal") == pytest.approx(1)
    for kind, urns in SaysOtherwise(computed=0.1, said=0.5).urns(N, 0).items():
        slope = np.polyfit(urns.read[:, 0], np.diff(urns.read)[:, 0], 1)[0]
        assert slope == pytest.approx(-{"exact": 0.1, "verbal": 0.5, "probe": 0.1}[kind], abs=0.02)
