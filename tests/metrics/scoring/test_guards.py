"""Agents whose number of coherence is within its margin, and who are not coherent: another number of the same readings
sees what it cannot.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, softmax

from doxascope.benchmarks.agents.choices import NAMED
from doxascope.metrics.claims import Verdict, verdicts, with_coherence
from doxascope.metrics.coherence import Coherent
from doxascope.metrics.contract import Array, Resampling
from doxascope.metrics.inference.means import cluster_mean
from doxascope.metrics.number import Number
from doxascope.metrics.registration import Registered
from doxascope.metrics.scoring.differences import paired_differences, pairs_of
from doxascope.metrics.scoring.engine import measured, score_samples
from doxascope.metrics.tables.sample_rows import STEPWISE, WHOLE, Pairs, Updates
from doxascope.metrics.tables.samples import Cases, Options, Sample, YesNo

HOW = Resampling(draws=199)
TEMPLATE = np.array([name for name, _ in NAMED], dtype=object)
REJECTED = np.array(
    [words[0] if len(words) == 1 else next(i for i in range(3) if i not in words) for _, words in NAMED]
)
REVERSED = np.array([len(words) == 2 and words[0] > words[1] for _, words in NAMED])


def options(rng: np.random.Generator, n: int, loss: Array, *, taste: float = 0.8, afresh: bool = False) -> Options:
    """Triples in nine contexts, where the rejected word loses so many nats [9], after noise or with another taste."""
    level = taste * rng.standard_normal((n, 1, 3))
    noise = rng.standard_normal((n, 9, 3))
    later = taste * noise if afresh else level + 0.3 * noise
    prior = np.repeat(softmax(level, axis=2), 9, axis=1)
    post = softmax(later - loss[:, None] * np.eye(3)[REJECTED], axis=2)
    return Options(
        prior=prior.reshape(-1, 3), posterior=post.reshape(-1, 3), mentioned=prior.reshape(-1, 3),
        rejected=np.tile(REJECTED, n), clusters=np.repeat(np.arange(n), 9), template=np.tile(TEMPLATE, n),
    )  # fmt: skip


def judged(sample: Sample, *metrics: str, plan: Registered | None = None) -> Coherent:
    numbers = [number for name in metrics for number in score_samples([sample], HOW, name).numbers]
    found = with_coherence(Verdict(method="", conditions=(), kind=""), numbers, plan).coherent
    assert found is not None
    return found


@pytest.mark.parametrize(("taste", "afresh", "state"), [(0.3, True, "not shown"), (0.3, False, "coherent")])
def test_ratios_that_are_drawn_afresh_are_not_coherent_though_they_differ_little(
    taste: float, afresh: bool, state: str
) -> None:
    sample = options(np.random.default_rng(0), 80, np.full(9, 5.0), taste=taste, afresh=afresh)
    plan = Registered(metric="c2", method="", kind="", coherent=1, margin=0.05, n=80)
    found = judged(sample, "consistency", "consistency-kappa", plan=plan)
    assert (found.metric, found.state) == ("c2", state)
    assert found.ci_lo > 0.97
    assert ("but consistency beyond chance" in found.seen) == afresh


def updates(prior: Array, posterior: Array) -> Updates:
    clusters = np.arange(len(prior))
    pairs = Pairs(prior=prior, posterior=posterior, clusters=clusters, keys=clusters)
    return Updates(views={"": pairs}, clusters=clusters, keys=clusters)


def test_who_always_gains_is_not_coherent_though_the_slope_is_zero() -> None:
    rng, n = np.random.default_rng(1), 600
    prior = rng.uniform(0.1, 0.9, n)
    update = 0.02 * rng.standard_normal(n)
    assert judged(updates(prior, prior + update), "martingale").state == "coherent"
    found = judged(updates(prior, prior + update + 0.05), "martingale")
    assert (found.metric, found.state) == ("M", "not shown")
    assert "but mean update 0.049" in found.seen


def test_noise_of_narrow_priors_is_not_called_incoherent_and_entrenchment_is() -> None:
    """Log-odds of SD 1, each read with .3 nat of noise: a slope of -.08 is that of the readings."""
    rng, n = np.random.default_rng(2), 2000
    odds = rng.standard_normal(n)
    prior, posterior = (expit(odds + 0.3 * rng.standard_normal(n)) for _ in range(2))
    found = judged(updates(prior, posterior), "martingale")
    assert found.ci_hi < -0.042
    assert found.state == "not shown"
    away = np.clip(prior + 0.15 * (prior - 0.5) + 0.01 * rng.standard_normal(n), 0, 1)
    assert judged(updates(prior, away), "martingale").state == "incoherent"


def test_biases_that_cancel_are_not_coherent() -> None:
    rng, n = np.random.default_rng(3), 240
    p, side = rng.uniform(0.3, 0.7, n), rng.permutation(np.repeat([-0.15, 0.15], n // 2))
    yes = YesNo(belief=p + side, negated=1 - p + side, mass=np.ones(n), clusters=np.arange(n))
    found = judged(yes, "readout", "dutch-book-complement")
    assert (found.metric, found.state, round(found.value, 9)) == ("framing_bias", "not shown", 0)
    assert "but sure loss on a statement and its negation, cents per euro 30.0" in found.seen
    noisy = [expit(sign * np.log(p / (1 - p)) + 0.3 * rng.standard_normal(n)) for sign in (1, -1)]
    honest = replace(yes, belief=noisy[0], negated=noisy[1])
    assert judged(honest, "readout", "dutch-book-complement").state == "coherent"
    of = rng.uniform(0.2, 0.8, (n, 2))
    cases = Cases(p=of.mean(axis=1) + side, conditional=of, weights=np.full((n, 2), 0.5), clusters=np.arange(n))
    assert (judged(cases, "lie").metric, judged(cases, "lie").state) == ("lie", "not shown")
    assert judged(replace(cases, p=of.mean(axis=1)), "lie").state == "coherent"


def test_who_eliminates_in_one_order_of_the_words_does_not_respond() -> None:
    """In the other order the rejected word loses .1 nat, so that its sum over both is less than half."""
    for loss, state in ((6.0, "responds"), (0.1, "does not respond")):
        sample = options(np.random.default_rng(4), 40, np.where(REVERSED, loss, 6.0))
        (verdict,) = verdicts(score_samples([sample], HOW, "competence").numbers)
        assert (verdict.readable, verdict.responds) == ("readable", state)


def test_what_cannot_be_read_in_one_template_is_unreadable() -> None:
    """Six of nine contexts are of the other template, so that most readings have coverage enough."""
    sample = options(np.random.default_rng(5), 40, np.full(9, 6.0))
    rare = np.where(np.tile([name == "is it" for name in TEMPLATE], 40), 0.02, 1.0)[:, None]
    (verdict,) = verdicts(
        score_samples([replace(sample, posterior=rare * sample.posterior)], HOW, "competence").numbers
    )
    assert (verdict.readable, verdict.reason) == (
        "unreadable",
        "most of the probability is on answers that are none of the options, in the readings “after” (median coverage "
        "0.020)",
    )


def test_posteriors_that_one_side_lacks_are_told_of_a_difference_of_slopes() -> None:
    rng, n = np.random.default_rng(6), 60
    prior = rng.uniform(0, 1, n)
    kinds = [
        replace(updates(prior, np.clip(prior + 0.1 * rng.standard_normal(n), 0, 1)), kind=kind)
        for kind in ("exact", "verbal")
    ]
    lacking = replace(kinds[0].views[""], posterior=np.where(np.arange(n) < 6, np.nan, kinds[0].views[""].posterior))
    for first, status in ((kinds[0], "ok"), (replace(kinds[0], views={"": lacking}), "missing_rows")):
        both = [first, kinds[1]]
        found = measured(both, HOW, compared={"M"}, only_compared=True)
        (number,) = paired_differences(pairs_of(found.comparable, (), both), HOW)
        assert number.score.status == status


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ([0.985, 0.99, 0.995] * 4, "its interval lies within this margin, but 12 clusters are too few: 60 are needed"),
        ([0.9, 0.95, 1.0] * 4, "its interval reaches beyond this margin"),
        ([0.9], "it has no interval"),
    ],
)
def test_why_coherence_is_not_shown_is_said(values: list[float], why: str) -> None:
    number = Number(metric="c2", method="a", quantity="consistency", score=cluster_mean(values, range(len(values))))
    plan = Registered(metric="c2", method="a", n=60, coherent=1, margin=0.05)
    (verdict,) = verdicts([number], plan)
    assert verdict.coherent is not None
    assert verdict.coherent.seen.startswith("consistency (c2) 0.9")
    assert verdict.sentence.endswith(f"; {why})")


def test_tests_of_single_steps_have_a_name_of_their_own() -> None:
    prior, posterior = np.random.default_rng(0).uniform(0.2, 0.8, (2, 40))
    sample = updates(prior, posterior)
    (pairs,) = sample.views.values()
    numbers = score_samples([replace(sample, views={STEPWISE: pairs, WHOLE: pairs})], HOW, "martingale-tests").numbers
    assert [(number.metric, number.quantity.rpartition(", ")[2]) for number in numbers] == [
        ("tests_step", STEPWISE),
        ("tests", WHOLE),
    ]
