"""`doxascope score`: slopes by leaving out questions, within cells, over wordings; differences; claims."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit

from doxascope.base.errors import UserError
from doxascope.experiments.report.cells import adjusted_p
from doxascope.experiments.report.score_files import page_of
from doxascope.experiments.report.terminal import to_text
from doxascope.metrics import (
    PairedDifference,
    belief_consistency,
    coherence_claim,
    drift_variance,
    factor_regression,
    martingale_within,
    paired_slope_difference,
    ratio_bounds,
    wording_study,
)
from doxascope.metrics.contract import Resampling
from doxascope.metrics.metric import WITHHELD
from doxascope.metrics.number import Number
from doxascope.metrics.scoring.engine import score_samples, score_table
from doxascope.metrics.tables.sample_rows import Chains, Pairs, Updates
from doxascope.metrics.tables.samples import Options

Write = Callable[..., Path]
Estimates = Callable[..., dict[str, Any]]
Beside = Callable[..., Mapping[str, str]]
HOW = Resampling(draws=200)


def by_metric(*samples: Any, metric: str = "all") -> dict[str, Number]:
    return {number.metric: number for number in score_samples(samples, HOW, metric).all}


def test_the_slope_within_cells_leads_and_the_decomposition_is_exact(
    table: Write, estimates: Estimates, beside: Beside
) -> None:
    rng = np.random.default_rng(0)
    domain = np.tile(["a", "b", "c"], 40)
    prior = np.clip(np.array([0.2, 0.5, 0.8] * 40) + rng.uniform(-0.15, 0.15, 120), 0, 1)
    posterior = np.clip(prior - 0.4 * (prior - np.array([0.2, 0.5, 0.8] * 40)) + rng.uniform(-0.02, 0.02, 120), 0, 1)
    scored = score_table(
        table(prior=prior, posterior=posterior, factor_domain=domain, question=np.repeat(np.arange(40), 3))
    )
    score = estimates(scored)["M, within cells"]
    expected = martingale_within(prior, posterior, np.repeat(np.arange(40), 3), domain)
    assert (score.estimate, score.ci_lo, score.p) == (expected.M_within, expected.ci_lo, expected.p)
    share = score.between_share
    assert share * score.M_between + (1 - share) * score.M_within == pytest.approx(score.M_pooled)
    assert score.M_pooled > -0.15 > -0.35 > score.M_within  # pooled, the cells' levels hide what happens in each
    note = beside(scored, "M, within cells")
    assert note["over all rows, which mixes the two,"] == f"{score.M_pooled:.3f}"
    assert note["reliability of the prior at which noise alone makes this M"] == f"{1 + score.M_within:.2f}"
    assert note["reliability over wordings"] == "not measured"
    assert note["effective number of clusters"].endswith("of 40")


@pytest.mark.parametrize("noise", [0.02, 1.0])
def test_a_slope_is_withheld_where_the_wordings_do_not_read_one_belief(noise: float) -> None:
    rng = np.random.default_rng(1)
    belief = rng.uniform(0.3, 0.7, 60)
    wordings = np.clip(
        belief[:, None] * (noise < 1) + 0.5 * (noise == 1) + noise * rng.uniform(-0.3, 0.3, (60, 5)), 0, 1
    )
    pairs = Pairs(prior=wordings.mean(axis=1), posterior=belief, wordings=wordings, keys=np.arange(60))
    one, two = (Updates(views={"": pairs}, kind="exact", method=name) for name in ("words", "letters"))
    found = score_samples([one, two], HOW, "martingale")
    (m,) = [number for number in found.numbers if number.metric == "M" and number.method == "words"]
    study = wording_study(wordings, how=Resampling(draws=200))
    if noise < 1:
        assert m.score.status == "ok"
        assert m.beside["reliability over wordings"].startswith(f"{study.reliability_one:.3f} ")
        assert len(found.differences) == 1
    else:
        assert study.ci_lo <= 0
        assert (m.score.status, np.isnan(m.score.estimate)) == (WITHHELD, True)
        assert m.score.n_rows == 60
        tests = by_metric(one, metric="martingale-tests")["tests"].score
        assert (tests.status, np.isnan([tests.estimate, tests.p]).all()) == (WITHHELD, True)
        assert not found.differences


def test_reliability_over_wordings_is_within_cells() -> None:
    """Wordings that agree on the cells' levels and on nothing else do not read the beliefs that the slope is of."""
    rng = np.random.default_rng(2)
    cell = np.repeat(["low", "high"], 50)
    wordings = np.clip(np.where(cell == "low", 0.2, 0.8)[:, None] + rng.uniform(-0.1, 0.1, (100, 5)), 0, 1)
    pairs = Pairs(prior=wordings.mean(axis=1), posterior=rng.uniform(size=100), wordings=wordings)
    with_factor = Updates(views={"": replace(pairs, cell=cell)}, factors={"cell": cell})
    levels = score_samples([with_factor], HOW, "martingale-factors").numbers
    assert {(number.score.status, np.isnan(number.score.estimate)) for number in levels} == {(WITHHELD, True)}
    assert len({number.beside["reliability over wordings"] for number in levels if number.metric != "M_pooled"}) == 1
    alone = by_metric(Updates(views={"": pairs}), metric="martingale")["M"].score
    split = by_metric(Updates(views={"": replace(pairs, cell=cell)}, factors={"cell": cell}), metric="martingale")[
        "M"
    ].score
    assert (alone.status, split.status) == ("ok", WITHHELD)


def test_kinds_differ_by_the_slopes_that_lose_a_question_together() -> None:
    rng = np.random.default_rng(3)
    question = np.repeat(np.arange(60), 2)
    prior = expit(rng.normal(-6, 3, 120))
    posts = [np.clip(prior * (1 + s * rng.uniform(-1, 1, 120)), 0, 1) for s in (0.5, 0.6)]
    kinds = [
        Updates(
            views={"": Pairs(prior=prior, posterior=post, clusters=question, keys=np.arange(120) + 1000)},
            kind="exact",
            method=name,
        )
        for name, post in zip(("words", "letters"), posts, strict=True)
    ]
    difference = next(number for number in score_samples(kinds, HOW, "martingale").differences)
    expected = paired_slope_difference((prior, posts[0]), (prior, posts[1]), question)
    assert isinstance(difference.score, PairedDifference)
    assert (difference.score.difference, difference.score.p) == pytest.approx((expected.difference, expected.p))
    assert difference.score.ci_method.startswith("t(")


def test_draws_follow_the_family_and_a_p_at_its_floor_is_a_bound(table: Write) -> None:
    """Eight kinds, 28 pairs: with 2,000 draws Holm's first step would be out of reach."""
    rng = np.random.default_rng(4)
    lines = ["readout_id,item,kind,method,option,prob,outcome"]
    for method in range(8):
        for item in range(40):
            truth = item % 2
            p = np.clip(truth + (1 - 2 * truth) * (0.1 * method + rng.uniform(0, 0.02)), 0, 1)
            lines += [
                f"{method}/{item},i{item},exact,m{method},{name},{x},{truth}" for name, x in (("yes", p), ("no", 1 - p))
            ]
    scored = score_table(table(*lines), "brier")
    scores = [number.score for number in scored.differences]
    assert len(scores) == 28
    for score in scores:
        assert isinstance(score, PairedDifference)
        assert (score.params["draws"], score.p_at_floor) == (800 * 28, True)
        assert score.p_adjusted < 0.05
        assert adjusted_p(score) == f"<= {score.p_adjusted:.3g}"
    assert to_text(page_of(scored, {})).count("<= ") == 28


def test_contrasts_against_any_level(table: Write, estimates: Estimates) -> None:
    rng = np.random.default_rng(5)
    prior, posterior = rng.uniform(size=(2, 90))
    domain = np.tile(["a", "b", "c"], 30)
    path = table(prior=prior, posterior=posterior, factor_domain=domain)
    found = estimates(score_table(path, references={"domain": "b"}))
    expected = factor_regression(posterior - prior, prior, {"domain": domain}, {"domain": "b"}, se="CR3")
    assert found["M at domain[c] minus M at b"].estimate == pytest.approx(expected["b:domain[c]"])
    assert "M at domain[b] minus M at a" not in found
    with pytest.raises(UserError, match="--reference arm=b: no such factor; known: domain"):
        score_table(path, references={"arm": "b"})
    with pytest.raises(UserError, match="--reference domain=d: no such level; known: a, b, c"):
        score_table(path, references={"domain": "d"})


def test_drift_is_clustered_by_what_was_sampled() -> None:
    rng = np.random.default_rng(6)
    question = np.repeat(np.arange(40), 8) + 100
    prior = np.repeat(rng.uniform(0.2, 0.8, 40), 8)
    shared = np.repeat(rng.uniform(-0.1, 0.1, 10), 32)  # four questions of a cluster drift alike
    posterior = prior + shared + rng.uniform(-0.05, 0.05, 320)
    clusters = np.repeat(np.arange(10), 32)
    views = {"": Pairs(prior=prior, posterior=posterior, clusters=clusters)}
    line = by_metric(Chains(views=views, question=question, clusters=clusters), metric="drift")["drift2"]
    deltas, begun = (posterior - prior).reshape(40, 8), prior.reshape(40, 8)[:, 0]
    expected = drift_variance(deltas, begun, np.repeat(np.arange(10), 4), how=Resampling(draws=200))
    assert (line.score.n_clusters, line.score.ci_lo) == (10, pytest.approx(expected.ci_lo))
    assert line.beside["questions that drift, after Holm"] == f"{expected.n_drifting} of 40"


def test_a_shift_of_extreme_beliefs_is_claimed_small_in_log_odds() -> None:
    rng = np.random.default_rng(7)
    prior = expit(rng.normal(-6, 1, 829))  # as many as three times 27.6 nats, of which one could be off, over .1
    doubled = expit(logit(prior) + np.log(2) + rng.normal(0, 0.01, 829))  # within .01 of the prior, twice as likely
    shift = by_metric(Updates(views={"": Pairs(prior=prior, posterior=doubled)}), metric="martingale")["mean_update"]
    assert not shift.is_none
    assert shift.equivalence
    assert shift.equivalence.params["unit"] == "nats of log-odds"
    still = expit(logit(prior) + rng.normal(0, 0.01, 829))
    for n in (829, 828):
        few = Updates(views={"": Pairs(prior=prior[:n], posterior=still[:n])})
        assert by_metric(few, metric="martingale")["mean_update"].is_none == (n == 829)
    even = rng.uniform(0.2, 0.8, 200)
    moved = by_metric(Updates(views={"": Pairs(prior=even, posterior=even + 0.03)}), metric="martingale")["mean_update"]
    assert not moved.is_none
    assert moved.equivalence
    assert moved.equivalence.params["unit"] == ""


def instances(n: int, factor: float, seed: int = 8) -> Options:
    """Rejections after which the odds of the two that remain are `factor` times what they were."""
    prior = np.random.default_rng(seed).dirichlet([2, 2, 2], n) * 0.9
    rejected = np.arange(n) % 3
    posterior = prior.copy()
    posterior[np.arange(n), rejected] = 0
    posterior[np.arange(n), (rejected + 1) % 3] *= factor
    posterior *= 0.6 / posterior.sum(axis=1, keepdims=True)
    return Options(prior=prior, posterior=posterior, rejected=rejected, clusters=np.arange(n))


def test_the_change_of_log_odds_and_what_coverage_leaves_open() -> None:
    sample = instances(60, 2.0)
    found = by_metric(sample, metric="logodds-change")
    assert found["rms_logodds"].score.estimate == pytest.approx(np.log(2))
    assert not found["rms_logodds"].is_none
    bounds = ratio_bounds(sample.prior, sample.posterior, sample.rejected)
    assert (found["rms_lower"].score.estimate, found["rms_upper"].score.estimate) == (bounds.rms_lo, bounds.rms_hi)
    assert bounds.rms_lo < np.log(2) < bounds.rms_hi
    assert "word-gain" not in {number.family for number in score_samples([sample], HOW).numbers}


def test_consistency_is_claimed_by_its_bound_and_clusters_enough(table: Write) -> None:
    kept, few = (by_metric(instances(n, 1.0), metric="consistency")["c2"] for n in (300, 299))
    assert (kept.is_none, few.is_none) == (True, False)  # none bad of 299 leaves up to 3 / 299 of them bad
    assert few.equivalence
    own = instances(299, 1.0)
    c2 = belief_consistency(own.prior, own.posterior, own.rejected).c2
    expected = coherence_claim(np.maximum(1 - c2, 0), own.clusters, 0.01, how=Resampling(draws=200))
    assert few.equivalence.as_dict()["failures"] == expected.failures == ("clusters",)
