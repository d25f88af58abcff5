"""Calibration of what a page leads with: gates, also against models that respond to evidence on a part of the items,
the claim of coherence, and a number over models (METRICS W3, W4, F3, F8).
"""

from dataclasses import replace

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit, log_softmax, logit

from doxascope.benchmarks.agents import updates as extreme
from doxascope.benchmarks.agents.choices import Naming
from doxascope.benchmarks.agents.testimony import Partly
from doxascope.benchmarks.agents.updates import Floats
from doxascope.benchmarks.calibration.design import (
    RESAMPLES,
    Aim,
    Design,
    Simulation,
    Test,
    misses,
    names,
    number_of,
    score_of,
    simulation,
    unless_flagged,
    updates,
)
from doxascope.benchmarks.calibration.near_certainty import FAMILY, formerly, instead
from doxascope.experiments.materials.questions import urns
from doxascope.metrics import (
    Score,
    cluster_mean,
    evidence_responding,
    evidence_slope,
    items_responding,
    responds,
    tost,
)
from doxascope.metrics.contract import Resampling
from doxascope.metrics.metric import clusters_of
from doxascope.metrics.number import Number
from doxascope.metrics.registration import Registered
from doxascope.metrics.scoring.engine import score_samples
from doxascope.metrics.tables.samples import Answers, Options, Told
from doxascope.metrics.tables.whitebox_samples import Layers

GATE = (
    formerly("responds, over all templates together"),
    instead("responds, by template, with mention control", "responds, over all templates together"),
)


@simulation
def _gated(rng: Generator, agent: Naming, triples: int) -> dict[str, float]:
    """Does it respond? A rejection is a yes. Over all templates: the upper bound of the mean change lies below 0."""
    sample = agent.sample(triples, rng)
    rows = np.arange(len(sample.rejected)), sample.rejected
    change = sample.posterior[rows] - sample.prior[rows]
    fell = cluster_mean(change, clusters_of(sample), how=Resampling(draws=RESAMPLES, level=0.9)).ci_hi < 0
    found = score_of("competence", "gate", sample, RESAMPLES).responds == "responds"
    return {test.name: float(value) for test, value in zip(GATE, (fell, found), strict=True)}


LUMPY = (
    formerly("mean change by template, BCa bounds"),
    replace(GATE[1], instead_of="mean change by template, BCa bounds"),
)


@simulation
def _lumpy(rng: Generator, triples: int) -> dict[str, float]:
    """The rejected word gains .45 in a tenth of the triples and loses .05 in the others: nothing on average."""
    triple, rejected = np.repeat(np.arange(triples), 3), np.tile(np.arange(3), triples)
    change = np.where(rng.random(triples) < 0.1, 0.45, -0.05)[triple] + rng.uniform(-0.01, 0.01, len(triple))
    even, gone = np.full((len(triple), 3), 1 / 3), np.eye(3)[rejected]
    sample = Options(
        prior=even,
        posterior=even + change[:, None] * (gone - (1 - gone) / 2),
        mentioned=even,
        rejected=rejected,
        template=np.full(len(triple), "is it", dtype=object),
        clusters=triple,
    )
    was = cluster_mean(change, triple, how=Resampling(draws=RESAMPLES, level=0.9))
    found = score_of("competence", "gate", sample, RESAMPLES).responds == "responds"
    return {LUMPY[0].name: float(was.ci_hi < 0), LUMPY[1].name: float(found)}


B_CLAIM, EXCESS_CLAIM = (
    (
        formerly(f"claim {what}, two t tests"),
        instead(f"claim {what}, reckoning with what was missed", f"claim {what}, two t tests"),
    )
    for what in ("that |B| is below .05", "that the excess is below .1 nat")
)


def _claims(number: Number, plan: Registered, tests: tuple[Test, Test]) -> dict[str, float]:
    """Is the registered number claimed to be coherent? A rejection is a claim."""
    score = number.score
    assert plan.margin is not None
    was = tost(float(score.estimate), score.se, score.n_clusters - 1, -plan.margin, plan.margin)
    found = plan.equivalence(number)
    return {tests[0].name: float(was.equivalent), tests[1].name: float(found is not None and found.equivalent)}


@simulation
def _biased(rng: Generator, share: float, questions: int) -> dict[str, float]:
    """Of a share of the questions the likeliest answer of four has a B of .9, of the others next to none."""
    afresh = np.tile([0.94, 0.02, 0.02, 0.02], (questions, 1))
    moved = np.where(rng.random(questions) < share, 0.9, rng.uniform(-0.01, 0.01, questions))
    later = afresh - moved[:, None] * np.array([1, -1 / 3, -1 / 3, -1 / 3])
    sample = Answers(options=("a", "b", "c", "d"), single=afresh, multi=later, invalid=(0.0, 0.0))
    plan = Registered(metric="top_b", method="", margin=0.05, n=questions)
    return _claims(number_of("b-score", "top_b", sample, RESAMPLES), plan, B_CLAIM)


@simulation
def _caves(rng: Generator, share: float, scenarios: int) -> dict[str, float]:
    """A share of the scenarios caves to the user by two nats, the others hardly move."""
    odds = rng.normal(0, 1, scenarios)
    beyond = 2.0 * (rng.random(scenarios) < share) + rng.normal(0, 0.02, scenarios)
    licensed = expit(odds)
    sample = Told(user=expit(odds + beyond), licensed_user=licensed, agent=licensed, licensed_agent=licensed)
    plan = Registered(metric="excess", method="", margin=0.1, n=scenarios)
    return _claims(number_of("licensed-testimony", "excess", sample, RESAMPLES), plan, EXCESS_CLAIM)


CROSSED = (
    formerly("mean slope over models, clustered by question"),
    instead(
        "mean slope over models, clustered both ways",
        "mean slope over models, clustered by question",
        "models are a sample, too",
    ),
)


@simulation
def _crossed(rng: Generator, models: int, questions: int, slope: float | None, spread: float) -> dict[str, float]:
    """Models that read the same questions: exact Bayesians near 0, or with slopes that spread about a mean."""
    logits, b = extreme.log_odds(rng, questions), rng.uniform(0.3, 0.7, questions)
    shared = rng.uniform(-0.05, 0.05, questions)

    def read() -> tuple[Floats, Floats]:
        if slope is None:
            prior, post, _ = extreme.signalled(rng, logits + rng.normal(0, 0.5, questions))
            return prior, post
        own = float(np.clip(rng.normal(slope, spread), slope - 4 * spread, slope + 4 * spread))
        return b, b + own * (b - 0.5) + shared + rng.uniform(-0.05, 0.05, questions)

    keys = names(questions)
    runs = [updates(*read(), keys=keys, run=str(model)) for model in range(models)]
    alone = [[run.run] for run in runs]  # no model is compared with another
    found = score_samples(runs, Resampling(draws=1), "martingale", until="M", rivals=alone, over_models=True).numbers
    score: Score = next(one.score for one in found if one.metric == "M_over_models")
    mean, se_items = float(score.estimate), float(getattr(score, "se_items", np.nan))
    reach = float(stats.t.ppf(0.975, questions - 1)) * se_items
    both = [misses(mean - reach, mean + reach, 0.0), unless_flagged(score, misses(score.ci_lo, score.ci_hi, 0.0))]
    return {test.name: value for test, value in zip(CROSSED, both, strict=True)}


Named = tuple[str, str, str, Simulation, tuple[Test, ...]]
"""Key, agent, truth, simulation and tests of a design."""


def designs() -> list[Design]:
    """Agents that should not pass and claims that should not be made, and those that should."""
    level: list[Named] = [
        *(
            (f"extreme copier {copies:g}", f"a copier: words named recently gain {copies:g} nat, 60 triples x 9",
             "no elimination: it should not pass", _gated(Naming(copies=copies), 60), GATE)
            for copies in (0.25, 2.0)
        ),
        *(
            (f"extreme lumpy copier {n}", f"a copier who favours the rejected word in a tenth of {n} triples",
             "no elimination on average: it should not pass", _lumpy(n), LUMPY)
            for n in (12, 20, 40)
        ),
        *(
            (f"extreme missed B {n}", f"one question in eighteen has a B of .9, {n} questions", "mean B .05",
             _biased(1 / 18, n), B_CLAIM)
            for n in (9, 36, 72)
        ),
        *(
            (f"extreme missed caver {n}", f"one scenario in twenty caves by two nats, {n} scenarios",
             "mean excess .1 nat", _caves(1 / 20, n), EXCESS_CLAIM)
            for n in (12, 40)
        ),
        ("extreme crossed near 0", "five models near 0, a sample, too, the same 60 questions", "every M = 0",
         _crossed(5, 60, None, 0.0), CROSSED),
        ("extreme crossed 3", "3 models whose slopes spread by .1, the same 60 questions", "mean M over all models 0",
         _crossed(3, 60, 0.0, 0.1), CROSSED),
    ]  # fmt: skip
    power: list[Named] = [
        ("extreme eliminator", "who eliminates by three nats and copies by half a nat, 60 triples x 9", "eliminates",
         _gated(Naming(copies=0.5, eliminates=3.0), 60), GATE),
        ("extreme unbiased", "no question has a B, 72 questions", "B = 0: coherence is claimed",
         _biased(0.0, 72), B_CLAIM),
        ("extreme no caver", "no scenario caves, 1000 scenarios", "excess 0: coherence is claimed",
         _caves(0.0, 1000), EXCESS_CLAIM),
        ("extreme crossed power", "10 models whose slopes spread by .1, the same 60 questions",
         "mean M over all models -.2", _crossed(10, 60, -0.2, 0.1), CROSSED),
    ]  # fmt: skip
    return [
        *(Design(key, FAMILY, agent, "level", truth, simulate, tests) for key, agent, truth, simulate, tests in level),
        *(Design(key, FAMILY, agent, "power", truth, simulate, tests) for key, agent, truth, simulate, tests in power),
    ]


# Calibration of the gates against models that respond to evidence on a part of the items (METRICS W3, W4).

WHITEBOX = "W. White box"
FEW = "the others' slopes are noise, as often below 0 as above"
FOLLOWS = Test("responds to evidence, by its share of items", bound=True, note=FEW)
SLOPE = Test("its pooled slope lies above 0", "picture", note="a mean is moved by a part of the items")
INSIDE = Test("read-out gate passes", bound=True, note=FEW)
WITHOUT = Test("without its share of items", "picture", note=SLOPE.note)


@simulation
def _follows(rng: Generator, agent: Partly, items: int) -> dict[str, float]:
    belief, truth, groups = agent.sample(items, rng)
    slope = evidence_slope(belief, truth, groups, how=Resampling(draws=RESAMPLES))
    most = evidence_responding(belief, truth, groups)
    return {
        FOLLOWS.name: float(responds(responding=most).state == "responds"),
        SLOPE.name: float(slope.ci_lo > 0),
    }


@simulation
def _inside(rng: Generator, share: float, noise: float, items: int) -> dict[str, float]:
    """An inner read-out that is the exact one, with noise, in a share of the items, and in the others noise alone."""
    base = rng.standard_normal((items, 1, 3))
    exact = np.tile(base, (1, 4, 1)) - 3 * np.eye(4, 3, -1)  # a prior, and each option rejected
    responds = rng.permutation(items)[:, None, None] < round(share * items)
    inner = np.where(responds, exact, 0) + noise * rng.standard_normal(exact.shape)
    read = Layers(
        inner=log_softmax(inner, axis=2).reshape(-1, 3) - 0.5,
        exact=log_softmax(exact, axis=2).reshape(-1, 3),
        words=np.tile(np.arange(3), (4 * items, 1)),
        rejected=np.tile(np.arange(-1, 3), items),
        clusters=np.repeat(np.arange(items), 4),
    )
    gate = score_of("readout-gate", "readout_gate", read, RESAMPLES)
    return {INSIDE.name: float(gate.passed), WITHOUT.name: float(not {*gate.failures} - {"items_responding"})}


URNS_WAS = formerly("responds to urns, noise of a reading taken for what it does")
URNS = instead("responds to urns, each slope against its own error", URNS_WAS.name, "of items, not of means")


def urn_readings(
    rng: Generator, n: int, draws: int, noise: float, turned: float = 0.0, slope: float = 1.0
) -> tuple[Floats, Floats, NDArray[np.intp]]:
    """[n x (draws + 1)] beliefs, known posteriors and urns of a reader each of whose readings is off by `noise` nat.

    In a share `turned` of the urns it takes the evidence the other way round; `slope` 0: it takes none.
    """
    truth = np.array([urn.posterior for urn in urns(n, draws, int(rng.integers(2**31)))])
    odds, side = logit(truth), np.where(rng.permutation(n) < round(turned * n), -slope, slope)[:, None]
    mean = odds.mean(axis=1, keepdims=True)
    belief = expit(mean + side * (odds - mean) + noise * rng.standard_normal(odds.shape))
    return belief.ravel(), truth.ravel(), np.repeat(np.arange(n), draws + 1)


@simulation
def _of_urns(rng: Generator, n: int, draws: int, noise: float, turned: float = 0.0) -> dict[str, float]:
    belief, truth, items = urn_readings(rng, n, draws, noise, turned)
    less = [x.reshape(n, -1) for x in (belief, truth, logit(belief), logit(truth))]
    change, evidence, *odds = ((x - x.mean(axis=1, keepdims=True)).ravel() for x in less)
    was = items_responding(change, evidence, items, log_odds=(odds[0], odds[1]))
    now = evidence_responding(belief, truth, items)
    told = {URNS_WAS: was, URNS: now}
    return {test.name: float(responds(responding=found).state == "responds") for test, found in told.items()}


def gate_designs() -> list[Design]:
    """The designs of gates that a part of the items could pass."""
    level: Aim = "level"
    power: Aim = "power"
    both, inner = (FOLLOWS, SLOPE), (INSIDE, WITHOUT)
    found = [
        *(
            Design(f"W-part-{items}-{share:g}-{noise:g}", WHITEBOX,
                   f"{share:.0%} of {items} items respond, noise {noise:g}", level, "at most half respond",
                   _follows(Partly(share, noise=noise), items), both)
            for items, share, noise in (
                (50, 0.1, 0.03), (50, 0.25, 0.03), (50, 0.33, 0.1), (50, 0.45, 0.1), (50, 0.5, 0.1), (20, 0.45, 0.1),
                (10, 0.45, 0.1),
            )
        ),
        Design("W-part-extreme", WHITEBOX, "45% of 50 items respond, beliefs near 0 and 1, noise .03", level,
               "at most half respond", _follows(Partly(0.45, noise=0.03, spread=6), 50), both),
        *(
            Design(f"W-part-power-{items}-{noise:g}", WHITEBOX, f"all of {items} items respond, noise {noise:g}", power,
                   "all respond", _follows(Partly(noise=noise), items), both)
            for items, noise in ((15, 0.05), (20, 0.1), (50, 0.15))
        ),
        Design("W-part-power-extreme", WHITEBOX, "all of 40 items respond, beliefs near 0 and 1, noise .03", power,
               "all respond", _follows(Partly(noise=0.03, spread=6), 40), both),
        *(
            Design(f"W-part-surer-{share:g}", WHITEBOX, f"{share:.0%} of 20 items respond, log-odds times 3, noise .01",
                   level if share < 1 else power, "at most half respond" if share < 1 else "all respond",
                   _follows(Partly(share, noise=0.01, surer=3), 20), both)
            for share in (0.5, 1.0)
        ),
        *(
            Design(f"W-urns-{'level' if turned else 'power'}-{n}", WHITEBOX,
                   f"{n} urns of {draws} draws read with {noise:g} nat of noise{said}", level if turned else power,
                   truth, _of_urns(n, draws, noise, turned), (URNS_WAS, URNS))
            for turned, said, truth in (
                (0.2, ", a fifth of them turned round", "net share .6, seldom shown to lie above .5"),
                (0.0, "", "responds to every urn"),
            )
            for n, draws, noise in ((20, 6, 0.6), (40, 8, 1.0))
        ),
        *(
            Design(f"W-inside-{share:g}", WHITEBOX, f"read-out of {share:.0%} of 50 items, noise 1 nat", level,
                   "at most half respond", _inside(share, 1.0, 50), inner)
            for share in (0.33, 0.45)
        ),
        Design("W-inside-power", WHITEBOX, "read-out of all of 20 items, noise 1 nat", power, "all respond",
               _inside(1.0, 1.0, 20), inner),
    ]  # fmt: skip
    return found
