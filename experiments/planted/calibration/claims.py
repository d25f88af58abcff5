"""Calibration of what a page leads with: gate, claim of coherence, a number over models (METRICS W4, F3, F8)."""

from dataclasses import replace

import numpy as np
from numpy.random import Generator
from scipy import stats
from scipy.special import expit

from ....metrics import Score, cluster_mean, tost
from ...scoring.engine import score_samples
from ...scoring.number import Number, Resampling
from ...scoring.registered import Registered
from ...tables.samples import Answers, Options, Told
from .. import extreme
from ..choosing import Naming
from ..trajectories import Floats
from .design import RESAMPLES, Design, Simulation, Test, misses, simulation, unless_flagged
from .extreme import FAMILY, formerly, instead
from .scored import names, number_of, score_of, updates

GATE = (
    formerly("gate over all templates together"),
    instead("gate by template, with mention control", "gate over all templates together"),
)


@simulation
def _gated(rng: Generator, agent: Naming, triples: int) -> dict[str, float]:
    """Does it pass? A rejection is a pass."""
    sample = agent.sample(triples, rng)
    pooled = replace(sample, template=None, mentioned=None)
    passed = [score_of("competence", "gate", one, RESAMPLES).passed for one in (pooled, sample)]
    return {test.name: float(value) for test, value in zip(GATE, passed, strict=True)}


LUMPY = (formerly("gate by template, BCa bounds"), replace(GATE[1], instead_of="gate by template, BCa bounds"))


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
    was = cluster_mean(change, triple, seed=0, draws=RESAMPLES, level=0.9)
    passed = score_of("competence", "gate", sample, RESAMPLES).passed
    return {LUMPY[0].name: float(was.ci_hi < 0), LUMPY[1].name: float(passed)}


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
