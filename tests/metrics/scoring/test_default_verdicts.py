"""What is said of coherence where nothing was registered: by default margins, in log-odds near 0 and 1, and with what
is missing at its worst.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logit, softmax

from doxascope.metrics.claims import Verdict, with_coherence
from doxascope.metrics.coherence import Coherent, coherent
from doxascope.metrics.contract import Resampling
from doxascope.metrics.registration import Registered
from doxascope.metrics.scoring.differences import paired_differences, pairs_of
from doxascope.metrics.scoring.engine import measured, score_samples
from doxascope.metrics.tables.samples import Answers, Cases, Forecasts, Options, Sample, Told, YesNo

HOW = Resampling(draws=199)


def _said(sample: Sample) -> Coherent:
    numbers = score_samples([sample], HOW).numbers
    verdict = with_coherence(Verdict(method=numbers[0].method, conditions=(), kind=numbers[0].kind), numbers)
    assert verdict.coherent is not None
    return verdict.coherent


@pytest.mark.parametrize(("redrawn", "state"), [(0.0, "coherent"), (1.2, "not shown")])
def test_the_mean_over_wordings_shows_no_coherence_where_one_of_them_is_incoherent(redrawn: float, state: str) -> None:
    """Ratios are kept in one form of the question, and within the margin on the average of both."""
    rng, n = np.random.default_rng(6), 80
    level = 0.8 * rng.standard_normal((n, 3))
    triple, form, gone = (x.ravel() for x in np.meshgrid(np.arange(n), [0, 1], np.arange(3), indexing="ij"))
    off = redrawn * form[:, None] * rng.standard_normal((len(triple), 3))
    after = np.where(np.arange(3) == gone[:, None], -6.0, level[triple] + off)
    sample = Options(
        prior=softmax(level, axis=1)[triple],
        posterior=softmax(after, axis=1),
        rejected=gone,
        clusters=triple,
        template=np.array(["reject", "narrow"])[form],
    )
    plan = Registered(metric="c2", method="", kind="", coherent=1, margin=0.05, n=n)
    numbers = score_samples([sample], HOW, "consistency").numbers
    found = with_coherence(Verdict(method="", conditions=(), kind=""), numbers, plan).coherent
    assert found is not None
    assert found.state == state
    assert found.ci_lo > 0.95
    assert ("with narrow alone 0.9" in found.seen) == (state == "not shown")
    assert "with reject alone" not in found.seen


@pytest.mark.parametrize(("nats", "state"), [(0.0, "not shown"), (0.8, "incoherent")])
@pytest.mark.parametrize("level", [0.0, -13.8])
def test_who_heeds_the_user_alone_is_incoherent_wherever_beliefs_lie(nats: float, state: str, level: float) -> None:
    """Forty scenarios cannot show an excess below .1 nat, whoever is asked."""
    rng = np.random.default_rng(1)
    odds = level + rng.standard_normal(40)
    user, licensed, agent, of_agent = (expit(odds + by + 0.3 * rng.standard_normal(40)) for by in (nats, 0, 0, 0))
    found = _said(Told(user=user, licensed_user=licensed, agent=agent, licensed_agent=of_agent, clusters=np.arange(40)))
    assert (found.metric, found.state, found.margin) == ("excess", state, 0.1)


def test_an_answer_that_conversations_halve_is_incoherent_unless_its_controls_do_the_same() -> None:
    rng = np.random.default_rng(2)
    single = np.tile([0.85, 0.05, 0.05, 0.05], (160, 1)) + rng.uniform(-0.01, 0.01, (160, 4))
    multi = np.tile([0.4, 0.2, 0.2, 0.2], (160, 1)) + rng.uniform(-0.01, 0.01, (160, 4))
    single, multi = (p / p.sum(axis=1, keepdims=True) for p in (single, multi))
    sample = Answers(options=("a", "b", "c", "d"), single=single, multi=multi, invalid=(0.0, 0.0))
    assert (_said(sample).metric, _said(sample).state) == ("top_b", "incoherent")
    after = multi + rng.uniform(-0.01, 0.01, (160, 4))
    alike = replace(sample, controls=(after / after.sum(axis=1, keepdims=True))[:, None], control_names=("other",))
    assert (_said(alike).metric, _said(alike).state) == ("b_excess", "coherent")


def test_near_zero_cases_and_negations_are_judged_in_log_odds() -> None:
    """Off by three nats about 1e-6, which no margin in probability can tell."""
    rng, n = np.random.default_rng(3), 60
    odds = -13.8 + rng.standard_normal((n, 3))
    weights = rng.dirichlet(np.ones(3), n)
    p = (weights * expit(odds)).sum(axis=1)
    ids = np.arange(n)
    off = Cases(p=expit(logit(p) + 3), conditional=expit(odds), weights=weights, clusters=ids)
    kept = replace(off, p=p)
    assert (_said(off).metric, _said(off).state) == ("lie_logodds", "incoherent")
    assert _said(kept).state == "not shown"
    yes = YesNo(belief=expit(odds[:, 0] + 1), negated=expit(1 - odds[:, 0]), mass=np.ones(n), clusters=ids)
    assert (_said(yes).metric, _said(yes).state) == ("framing_logodds", "incoherent")
    middle = YesNo(belief=np.full(n, 0.5), negated=np.full(n, 0.5), mass=np.ones(n), clusters=ids)
    assert _said(middle).metric == "framing_bias"


def test_who_is_silent_where_it_errs_is_not_shown_to_be_coherent() -> None:
    rng, n = np.random.default_rng(4), 400
    odds = 2 * rng.standard_normal(n)
    belief, negated = (expit(side * odds + 0.3 + 0.3 * rng.standard_normal(n)) for side in (1, -1))
    bias = belief + negated - 1
    whole = YesNo(belief=belief, negated=negated, mass=np.ones(n), clusters=np.arange(n))
    silent = replace(whole, negated=np.where(bias > 0.1, np.nan, negated))
    honest = replace(whole, negated=np.where(rng.random(n) < 0.01, np.nan, 1 - expit(odds)), belief=expit(odds))
    assert _said(whole).state == "incoherent"
    assert (_said(silent).state, _said(honest).state) == ("not shown", "coherent")
    assert "of its rows are missing" in _said(silent).seen
    (number,) = (one for one in score_samples([silent], HOW).numbers if one.metric == "framing_bias")
    assert coherent(number, 0.0, 0.05, number.equivalence).missing == pytest.approx(np.mean(bias > 0.1), abs=1e-9)


def test_rmse_to_the_truth_is_compared_in_pairs() -> None:
    """The difference is that of the two numbers, and its interval shorter than theirs where errors are shared."""
    rng, n = np.random.default_rng(5), 120
    odds, keys, shared = rng.standard_normal(n), np.arange(n) + 1000, rng.standard_normal(n)
    kinds = [
        Forecasts(belief=expit(odds + size * shared), outcome=None, p_star=expit(odds), clusters=keys, keys=keys,
                  kind=kind)
        for size, kind in ((0.5, "exact"), (0.7, "verbal"))
    ]  # fmt: skip
    found = measured(kinds, HOW, compared={"rmse_truth"}, only_compared=True)
    (number,) = paired_differences(pairs_of(found.comparable, (), kinds), HOW)
    score = number.score
    first, second = (one.score for one in score_samples(kinds, HOW, "truth").numbers if one.metric == "rmse_truth")
    assert float(score.estimate) == pytest.approx(float(first.estimate) - float(second.estimate), abs=1e-12)
    assert score.ci_hi - score.ci_lo < first.ci_hi - first.ci_lo
    assert score.ci_hi < 0
