"""Calibration of what a sample does not show: differences that rest on what is rare, missing or copied (METRICS F3), or
on distances from the truth, and histories that move an answer without being heard (METRICS C1).
"""

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import expit

from doxascope.benchmarks.agents.updates import Floats
from doxascope.benchmarks.calibration.comparisons import FAMILY, SAFE, differences
from doxascope.benchmarks.calibration.design import (
    RESAMPLES,
    Aim,
    Design,
    Test,
    excludes,
    names,
    rejects,
    score_of,
    simulation,
    unless_flagged,
)
from doxascope.benchmarks.calibration.near_certainty import formerly, instead
from doxascope.metrics import paired_difference_moments
from doxascope.metrics.contract import Resampling
from doxascope.metrics.tables.samples import Answers, Forecasts, Sample, YesNo

TIES, MISSING, COPIED = (
    instead(f"called different, {now}", f"called different, {before}")
    for before, now in (
        ("by the spread that was seen", "reckoning with what was missed"),
        ("of the rows that both have", "reckoning with what is missing"),
        ("every name an item", "copies found by content"),
    )
)
HIGH = 0.9
"""What a kind says of a question where it is surest."""


def _before(first: Floats, second: Floats, clusters: Floats) -> float:
    """Whether two means differ by the rows that both have, each name a cluster."""
    kept = np.isfinite(first) & np.isfinite(second)
    one, two = (np.column_stack([np.ones(kept.sum()), values[kept]]) for values in (first, second))
    how = Resampling(draws=RESAMPLES)
    return rejects(paired_difference_moments(one, two, lambda s: s[:, 1] / s[:, 0], clusters[kept], how=how).p)


def _told(metric: str, pair: tuple[Sample, Sample], first: Floats, second: Floats, test: Test) -> dict[str, float]:
    """Both tests of one pair, of whose rows the metric is the mean."""
    keys = pair[0].keys
    assert keys is not None
    score = differences(pair, [metric])[metric].score
    return {test.instead_of: _before(first, second, keys), test.name: rejects(score.p)}


def _framed(excess: Floats, other: Floats, keys: Floats) -> dict[str, float]:
    """Beliefs and their complements, whose excess over one is the framing bias."""
    kinds = [
        YesNo(
            belief=0.5 + bias / 2, negated=0.5 + bias / 2, mass=np.ones(len(keys)), clusters=keys, keys=keys, kind=kind
        )
        for bias, kind in ((excess, "exact"), (other, "verbal"))
    ]
    return _told("framing_bias", (kinds[0], kinds[1]), excess, other, TIES)


DISTANT = Test("paired difference of the RMSE to the truth", bound=True, note=SAFE)


@simulation
def _distant(rng: Generator, contexts: int, off: float) -> dict[str, float]:
    """Two kinds that know the same chances, off by .5 nat the one and by `off` the other."""
    odds, keys = rng.normal(0, 2, contexts), names(contexts)
    beliefs = (expit(odds + by * rng.standard_normal(contexts)) for by in (0.5, off))
    kinds = [
        Forecasts(belief=belief, outcome=None, p_star=expit(odds), clusters=keys, keys=keys, kind=kind)
        for belief, kind in zip(beliefs, ("exact", "verbal"), strict=True)
    ]
    score = differences(kinds, ["rmse_truth"])["rmse_truth"].score
    return {DISTANT.name: unless_flagged(score, excludes(score, 0.0))}


@simulation
def _rarely_far(rng: Generator, items: int, shift: float | None = None) -> dict[str, float]:
    """Of 78% of the items two kinds say the same; of 2% one says .5 more, of 20% it says .05 less. Or they differ by
    normal amounts, in the mean by `shift` standard deviations.
    """
    apart = rng.choice([0.0, 0.5, -0.05], p=[0.78, 0.02, 0.2], size=items)
    if shift is not None:
        apart = np.clip(rng.normal(0.1 * shift, 0.1, items), -0.5, 0.5)
    base = rng.uniform(-0.2, 0.2, items)
    return _framed(base + apart, base, names(items))


def _forecasts(belief: Floats, outcome: Floats, keys: Floats, kind: str) -> Forecasts:
    return Forecasts(belief=belief, outcome=outcome, clusters=keys, keys=keys, kind=kind)


@simulation
def _refuses(rng: Generator, items: int, wrong: float = 0.15, other: float = 0.15) -> dict[str, float]:
    """Two kinds err alike, each on its own questions; the first refuses half of those on which it errs. Or the second
    errs more, and nothing is refused.
    """
    outcome = (rng.random(items) < 0.5).astype(float)
    errs = [rng.random(items) < share for share in (wrong, other)]
    sure = [rng.uniform(HIGH, 1, items) for _ in errs]
    first, second = (np.where((outcome == 1) != err, p, 1 - p) for err, p in zip(errs, sure, strict=True))
    if wrong == other:
        first = np.where(errs[0] & (rng.random(items) < 0.5), np.nan, first)
    keys = names(items)
    losses = [(p - outcome) ** 2 for p in (first, second)]
    pair = (_forecasts(first, outcome, keys, "exact"), _forecasts(second, outcome, keys, "verbal"))
    return _told("brier", pair, losses[0], losses[1], MISSING)


@simulation
def _copied(rng: Generator, items: int, times: int, apart: float = 0.0) -> dict[str, float]:
    """Two kinds that err alike, or by so much apart, about items that are there several times under new names."""
    belief = rng.uniform(0.05, 0.95, (2, items))
    belief[1] = belief[1] * (1 - apart) + 0.5 * apart
    outcome = (rng.random(items) < 0.5).astype(float)
    first, second, came = (np.repeat(x, times) for x in (*belief, outcome))
    keys = names(items * times)
    pair = (_forecasts(first, came, keys, "exact"), _forecasts(second, came, keys, "verbal"))
    return _told("brier", pair, (first - came) ** 2, (second - came) ** 2, COPIED)


EXCESS = instead("B beyond every control history, above 0", "B above 0")
CONTROLS, TURNS, TALKS, OPTIONS = ("other", "shuffled", "balanced"), 6, 4, 4


def _law(agent: str, fresh: Floats, said: Floats, last: Floats, turn: int) -> Floats:
    """[..., k] what an agent answers after so many turns.

    Args:
        agent: `ignores`, `avoids` its last answer, `flattens` with the turns, or `corrects` by the counts it hears.
        fresh: [..., k] afresh.
        said: [..., k] how often each option was heard.
        last: [..., k] 1 for the last one heard.
        turn: from 0.
    """
    if agent == "flattens":
        share = 1 - np.exp(-0.6 * turn)
        return (1 - share) * fresh + share / OPTIONS
    shares = said / np.maximum(said.sum(axis=-1, keepdims=True), 1)
    away = {"ignores": 0 * said, "avoids": 1.5 * last, "corrects": 2 * shares}[agent]
    kept = fresh * np.exp(-away)
    return kept / kept.sum(axis=-1, keepdims=True)


@simulation
def _repeats(rng: Generator, agent: str, questions: int, noise: float = 0.1) -> dict[str, float]:
    """Conversations of six turns, four of a question, and each turn after the control histories; every reading is off
    by some noise. Four questions of a topic have the same options.
    """
    fresh = np.exp(0.7 * rng.standard_normal((questions, 1, OPTIONS)))
    fresh = np.repeat(fresh / fresh.sum(axis=-1, keepdims=True), TALKS, axis=1)
    eye, none = np.eye(OPTIONS), np.zeros_like(fresh)

    def after(said: list[NDArray[np.intp]], turn: int) -> Floats:
        heard = [eye[one] for one in said]
        return _law(agent, fresh, sum(heard, none), heard[-1] if heard else none, turn)

    answers: list[NDArray[np.intp]] = []
    laws = []
    for turn in range(TURNS):
        laws.append(after(answers, turn))
        drawn = rng.random((questions, TALKS, 1)) > laws[-1].cumsum(axis=-1)
        answers.append(drawn.sum(axis=-1).clip(max=OPTIONS - 1))
    partner = np.roll(np.arange(questions).reshape(-1, 4), -1, axis=1).ravel()
    every = np.broadcast_to(np.arange(OPTIONS), (questions, TALKS, OPTIONS))
    even = np.concatenate([rng.permuted(every, axis=-1) for _ in range(2)], axis=-1)
    controls: dict[str, list[Floats]] = {name: [fresh] for name in CONTROLS}
    for turn in range(1, TURNS):
        histories = {
            "other": [],
            "shuffled": [one[partner] for one in answers[:turn]],
            "balanced": [*(even[..., i] for i in range(turn - 1)), answers[turn - 1]],
        }
        for name, said in histories.items():
            controls[name].append(after(said, turn))

    def mean(read_at: list[Floats]) -> Floats:
        read = np.stack(read_at)
        read = read * np.exp(noise * rng.standard_normal(read.shape))
        return (read / read.sum(axis=-1, keepdims=True)).mean(axis=(0, 2))

    sample = Answers(
        options=tuple("abcd"),
        single=mean([fresh] * TURNS),
        multi=mean(laws),
        controls=np.stack([mean(controls[name]) for name in CONTROLS], axis=1),
        control_names=CONTROLS,
        chosen_by=fresh[:, 0],
        invalid=(0.0, 0.0),
        clusters=np.arange(questions),
    )
    was = score_of("b-score", "top_b", sample, RESAMPLES)
    now = score_of("b-excess", "b_excess", sample, RESAMPLES)
    return {EXCESS.instead_of: float(was.ci_lo > 0), EXCESS.name: float(now.ci_lo > 0)}


def designs() -> list[Design]:
    """The designs of differences, and of histories."""
    level: Aim = "level"
    power: Aim = "power"
    both = [(formerly(test.instead_of), test) for test in (TIES, MISSING, COPIED)]
    return [
        *(
            Design(f"F-missed-ties-{n}", FAMILY, f"{n} items: 78% tie, 2% differ by +.5, 20% by -.05", level,
                   "means alike", _rarely_far(n), both[0])
            for n in (20, 60, 150)
        ),
        Design("F-compare-rmse", FAMILY, "two kinds off by .5 nat from chances about .5, 40 contexts", level,
               "RMSE to the truth alike", _distant(40, 0.5), (DISTANT,)),
        Design("F-compare-rmse-power", FAMILY, "two kinds off by .5 and 1 nat from chances about .5, 60 contexts",
               power, "RMSE to the truth .06 apart", _distant(60, 1.0), (DISTANT,)),
        Design("F-missed-ties-power", FAMILY, "60 items that differ by half a standard deviation", power,
               "means apart", _rarely_far(60, 0.5), both[0]),
        *(
            Design(f"F-missing-{n}", FAMILY, f"{n} questions of which one kind refuses half where it errs", level,
                   "Brier scores alike", _refuses(n), both[1])
            for n in (60, 150)
        ),
        Design("F-missing-power", FAMILY, "150 questions, nothing refused", power, "errors of 5 and of 30%",
               _refuses(150, 0.05, 0.3), both[1]),
        *(
            Design(f"C-heard-{agent}", "C. B-score", f"36 questions, 4 conversations of 6 turns: {said}", level,
                   "nothing of what was answered before the last turn is heard", _repeats(agent, 36),
                   (formerly(EXCESS.instead_of), EXCESS))
            for agent, said in (
                ("ignores", "ignores its answers"), ("avoids", "avoids its last answer"),
                ("flattens", "flattens as the conversation grows"),
            )
        ),
        Design("C-heard-power", "C. B-score", "36 questions, 4 conversations of 6 turns: corrects by its counts", power,
               "what was answered is heard", _repeats("corrects", 36), (formerly(EXCESS.instead_of), EXCESS)),
        *(
            Design(f"F-copied-{n}", FAMILY, f"{n} items, each three times under new names", level,
                   "Brier scores alike", _copied(n, 3), both[2])
            for n in (20, 60)
        ),
        Design("F-copied-power", FAMILY, "200 items, each three times, one kind nearer to one half", power,
               "Brier scores apart", _copied(200, 3, 1.0), both[2]),
    ]  # fmt: skip
