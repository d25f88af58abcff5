"""Agents made of the tables of four more papers, and whether each is called coherent, by the functions that judge runs.

`published_papers.csv` has of each the figures that it is made of: `martingale-score`, the slope M of a model without a
prompt in a domain and a mode of reasoning (Table 1), and the standard error at `QUESTIONS` questions that its stars
allow; `b-score`, the mean B of the likeliest answer (Table 2); `sycophancy`, the mean belief without and with the
user's word (Table 2); `rational-agents`, the SD within a prompt and the RMSE to that of another score (Table 3).
What no table says is alike for all of a paper, and stands below.
"""

import csv
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.random import Generator
from scipy.optimize import brentq
from scipy.special import expit

from doxascope.benchmarks.agents.updates import Floats
from doxascope.benchmarks.calibration.design import names, number_of, updates
from doxascope.metrics import MARGINS
from doxascope.metrics.claims import Verdict, with_coherence
from doxascope.metrics.coherence import COHERENT, INCOHERENT, TRUSTED, beyond
from doxascope.metrics.consistency.competence import NOT_SHOWN
from doxascope.metrics.number import Number
from doxascope.metrics.tables.samples import Answers, Prizes, Sample, Told

FIGURES = Path(__file__).with_name("published_papers.csv")
POPULATION = 20_000
DRAWS = 499
"""Of a bootstrap."""
QUESTIONS = 150
"""Of the martingale paper, in a domain: there are more than a hundred."""
REPETITIONS = 5
TASTE, NOISE, SPREAD = 1.0, 0.3, 0.6
"""SD of scenarios' log-odds, of a reading, and of how far the user's word moves scenarios, in nats."""

PRIZE = "prize_effect"
MARGIN_OF: Mapping[str, float] = {
    "M": MARGINS["martingale"],
    "top_b": MARGINS["b_score"],
    "excess": MARGINS["logodds"],
    PRIZE: MARGINS["rmse"] ** 2,
}
"""Number -> its default margin, in its units: the effect of a prize is a mean square."""

Draw = Callable[[int, Generator], Sample]


@dataclass(frozen=True)
class PaperAgent:
    """One cell or row of a table."""

    name: str
    family: str
    metric: str
    """Of the engine, and the name of its number."""
    number: str
    draw: Draw
    slope: float | None
    """The true M; of other numbers the truth is that of a population."""

    def judged(self, n: int, rng: Generator, draws: int = DRAWS) -> tuple[Number, str]:
        """The number of n items, and whether it is called coherent."""
        number = number_of(self.metric, self.number, self.draw(n, rng), draws)
        if self.number == PRIZE:
            return number, _independent(number)
        found = with_coherence(Verdict(method=number.method, conditions=(), kind=number.kind), [number]).coherent
        return number, found.state if found else NOT_SHOWN

    def expected(self) -> dict[str, str]:
        """The true value, by a population, how it spreads between items, and the verdict that it calls for."""
        number, _ = self.judged(POPULATION, np.random.default_rng([1, zlib.crc32(self.name.encode())]), 99)
        score, margin = number.score, MARGIN_OF[self.number]
        value = float(score.estimate) if self.slope is None else self.slope
        exact = replace(number, score=replace(score, ci_lo=value, ci_hi=value))
        called = COHERENT if abs(value) < margin else INCOHERENT if beyond(exact, 0.0, margin) else NOT_SHOWN
        return {
            "agent": self.name,
            "family": self.family,
            "number": self.number,
            "value": f"{value:.4f}",
            "value_sd": f"{float(score.se) * np.sqrt(POPULATION):.4f}",
            "coherent": called,
        }


def _independent(number: Number) -> str:
    """Of the effect of another score on a belief, which no verdict of a run rests on: within the margin, beyond it, or
    neither is shown.
    """
    score = number.score
    beyond_margin = score.status in TRUSTED and score.ci_lo > MARGIN_OF[PRIZE]
    return COHERENT if getattr(score, "equivalent", False) else INCOHERENT if beyond_margin else NOT_SHOWN


def paper_agents() -> list[PaperAgent]:
    """All of them, in the order of the figures."""
    with FIGURES.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [_agent(row["family"], row["agent"], float(row["first"]), float(row["second"] or 0)) for row in rows]


def _agent(family: str, name: str, first: float, second: float) -> PaperAgent:
    metric, number, made = MADE_BY[family]
    return PaperAgent(name, family, metric, number, made(first, second), first if number == "M" else None)


def _entrenched(slope: float, se: float) -> Draw:
    """Questions of one update each, away from 0 and 1, with what else moves a belief as wide as the error tells."""
    half = 0.2
    wide = min(se * np.sqrt(QUESTIONS) * half, 0.3 - half * abs(slope))  # of a uniform, as that of the prior

    def draw(n: int, rng: Generator) -> Sample:
        b = rng.uniform(0.5 - half, 0.5 + half, n)
        return updates(b, b + slope * (b - 0.5) + rng.uniform(-wide, wide, n), names(n))

    return draw


def _debiased(b: float, _: float) -> Draw:
    """The likeliest of four answers has .77 afresh, as in the paper; in conversations it loses B, unequally."""
    least, most = 0.62, 0.92
    share = b / ((least + most) / 2 - 1 / 4)

    def draw(n: int, rng: Generator) -> Sample:
        top = rng.uniform(least, most, n)
        loses = (top - 1 / 4) * share * (1 + 0.2 * rng.uniform(-1, 1, n))
        rest = rng.dirichlet(np.full(3, 5.0), n)
        afresh, later = (np.column_stack([p, (1 - p)[:, None] * rest]) for p in (top, top - loses))
        return Answers(options=("a", "b", "c", "d"), single=afresh, multi=later, invalid=(0.0, 0.0), clusters=names(n))

    return draw


def _told(base: float, syc: float) -> Draw:
    """The word of the user, who gives no reason, moves log-odds until the means are those of the table."""
    grid = np.random.default_rng(0).standard_normal((2, POPULATION))

    def mean(level: float, shift: float, spread: float) -> float:
        return float(expit(level + TASTE * grid[0] + shift + spread * grid[1]).mean())

    level = float(brentq(lambda x: mean(x, 0.0, 0.0) - base, -8, 8))  # pyright: ignore[reportArgumentType]
    shift = float(brentq(lambda x: mean(level, x, SPREAD) - syc, -8, 8))  # pyright: ignore[reportArgumentType]

    def draw(n: int, rng: Generator) -> Sample:
        odds = level + TASTE * rng.standard_normal(n)
        moved = shift + SPREAD * rng.standard_normal(n)
        user, licensed, agent, of_agent = (
            expit(odds + by + NOISE * rng.standard_normal(n)) for by in (moved, 0.0, 0.0, 0.0)
        )
        return Told(user=user, licensed_user=licensed, agent=agent, licensed_agent=of_agent, clusters=names(n))

    return draw


def _prompted(sd: float, rmse: float) -> Draw:
    """Five answers under either score; what the score itself moves is what the noise of their means leaves."""
    effect = float(np.sqrt(max(rmse**2 - 2 * sd**2 / REPETITIONS, 0.0)))

    def draw(n: int, rng: Generator) -> Sample:
        level = rng.uniform(0.4, 0.6, (n, 1))
        moved = level + effect * rng.choice([-1.0, 1.0], (n, 1))
        base, alt = (np.clip(x + sd * _bounded(rng, (n, REPETITIONS)), 0, 1) for x in (level, moved))
        return Prizes(base=base, alt=alt)

    return draw


def _bounded(rng: Generator, shape: tuple[int, int]) -> Floats:
    """Noise of SD 1 that goes no further than 1.7."""
    return np.sqrt(3) * rng.uniform(-1, 1, shape)


MADE_BY: Mapping[str, tuple[str, str, Callable[[float, float], Draw]]] = {
    "martingale-score": ("martingale", "M", _entrenched),
    "b-score": ("b-score", "top_b", _debiased),
    "sycophancy": ("licensed-testimony", "excess", _told),
    "rational-agents": ("prize", PRIZE, _prompted),
}
"""Paper -> the engine's metric, its number, and how an agent is made of the figures."""
