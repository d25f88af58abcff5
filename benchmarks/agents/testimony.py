"""Agents that hear testimony and evidence: of known reliability, of a user whom they flatter, and on some of their
items only.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import expit, logit

from doxascope.experiments.materials.scenarios.scenario import Known, worlds
from doxascope.metrics.tables.samples import Told

from .updates import Floats, Seed

EDGE = 0.01
"""By default the agent says no certainties."""


@dataclass(frozen=True)
class Listener:
    """Plants an excess of `flattery` nats: what the user says moves the belief further than the same word of an agent.

    It is a Bayesian in worlds with stated chances. `trust` moves it towards whatever anybody says, which is no
    sycophancy. Scenarios differ in their flattery by an SD of `spread`; every reading has normal noise of SD `blur`, in
    units of probability, and flattery 0 with any spread is the null.
    """

    flattery: float = 0.0
    trust: float = 0.0
    spread: float = 0.0
    blur: float = 0.0
    edge: float = EDGE
    """No reading is nearer to 0 or 1."""

    def meets(self, known: Known, seed: Seed) -> "Mind":
        """Its mind in one world, where all its readings are drawn from the seed."""
        rng = np.random.default_rng(seed)
        of_user = self.trust + rng.normal(self.flattery, self.spread)
        return Mind(known, self.trust, of_user, self.blur, self.edge, rng)

    def sample(self, n: int, seed: Seed) -> Told:
        """Testimony both ways in n worlds, without evidence and with either piece of it, six arms a world."""
        rng = np.random.default_rng(seed)
        rows: dict[str, list[float]] = {name: [] for name in ("user", "licensed_user", "agent", "licensed_agent")}
        of = []
        for i, world in enumerate(worlds(n, int(rng.integers(2**31)))):
            assert world.known is not None
            mind = self.meets(world.known, rng)
            for evidence in ("none", "for", "against"):
                base = mind.reads(evidence=evidence)
                rates = {s: [mind.reads(f"{s} says", given) for given in ("x", "not x")] for s in ("agent", "user")}
                for says_x in (True, False):
                    of.append(i)
                    for speaker in ("agent", "user"):
                        told = mind.reads(evidence=evidence, speaker=speaker, says="x" if says_x else "not x")
                        x, not_x = (rate if says_x else 1 - rate for rate in rates[speaker])
                        licensed = base * x / (base * x + (1 - base) * not_x)
                        for name, p in ((speaker, told), (f"licensed_{speaker}", licensed)):
                            rows[name].append(p if says_x else 1 - p)
        beliefs: dict[str, Any] = {name: np.array(values) for name, values in rows.items()}
        return Told(clusters=np.array(of), **beliefs)


@dataclass(frozen=True)
class Mind:
    """A listener in one world."""

    known: Known
    of_agent: float
    """Nats beyond what is licensed, towards what an agent says."""
    of_user: float
    blur: float
    edge: float
    rng: Generator = field(repr=False)

    def reads(
        self, quantity: str = "x", given: str = "", evidence: str = "none", speaker: str = "none", says: str = ""
    ) -> float:
        """One reading of a belief, in the words of the experiment's contexts: of X after evidence and testimony, of
        evidence after testimony, or that somebody will say X.
        """
        belief = self._belief(quantity, given, evidence, speaker, says)
        return float(np.clip(belief + self.blur * self.rng.standard_normal(), self.edge, 1 - self.edge))

    def _belief(self, quantity: str, given: str, evidence: str, speaker: str, says: str) -> float:
        known = self.known
        if quantity == "x":
            p = known.posterior(None if evidence == "none" else evidence, says == "x" if says else None)  # type: ignore
            beyond = {"none": 0.0, "agent": self.of_agent, "user": self.of_user}[speaker]
            return float(expit(logit(p) + (beyond if says == "x" else -beyond)))
        x, not_x = (
            (known.says_given_x, known.says_given_not_x)
            if quantity.endswith("says")
            else (known.y_given_x, known.y_given_not_x)
        )
        p_x = self._belief("x", "", "none", speaker, says)
        p = {"x": x, "not x": not_x}.get(given, p_x * x + (1 - p_x) * not_x)
        return 1 - p if quantity == "y against" else p


# An agent that says what the user seems to want.


@dataclass(frozen=True)
class Testimonies:
    """One belief read three times; all [n]."""

    scenario: NDArray[np.int64]
    base: Floats
    """Before the testimony."""
    user: Floats
    """After it, asked by the user."""
    third: Floats
    """After it, asked by a neutral third party."""


@dataclass(frozen=True)
class Sycophantic:
    """Plants a mean change of the log-odds of `shift` after a testimony, and a persistence of `kept`.

    `kept` is the share of the shift that a third party still finds: 1 if the belief moved, 0 if only the
    answer did. Scenarios differ in their shift by an SD of `spread`, so rows of one scenario are not
    independent; every reading has noise of SD `noise`. shift 0 with any spread is the null of no mean effect.
    """

    shift: float = 0.3
    kept: float = 0.5
    spread: float = 0.3
    noise: float = 0.2
    rows: int = 4
    """Elicitations per scenario."""

    def sample(self, n: int, seed: Seed) -> Testimonies:
        """Draw n scenarios."""
        rng = np.random.default_rng(seed)
        scenario = np.repeat(np.arange(n), self.rows)
        moved = rng.normal(self.shift, self.spread, n)[scenario]
        level = rng.normal(0, 1, n)[scenario] + rng.normal(0, 0.5, len(scenario))
        noise = self.noise * rng.standard_normal((3, len(scenario)))
        base, user, third = expit(level + np.stack([0 * moved, moved, self.kept * moved]) + noise)
        return Testimonies(scenario=scenario, base=base, user=user, third=third)


# An agent that answers to evidence on some of its items, and on the others not at all.


@dataclass(frozen=True)
class Partly:
    """Plants the share of the items that respond, `share`: exactly so many of those that are drawn, rounded.

    Each item has `levels` true posteriors, a walk of log-odds. Where it responds, the belief moves by `slope` times as
    much as they do, about their mean; else it stands there. Every belief has noise of its own, of SD `noise`. Who is
    `surer` than Bayes' rule has log-odds so many times those of the posteriors, about whose mean such beliefs move.
    """

    share: float = 1.0
    slope: float = 1.0
    noise: float = 0.05
    levels: int = 5
    spread: float = 1.0
    """SD of the log-odds at which items begin; of 6 most posteriors lie within a thousandth of 0 or 1."""
    surer: float = 1.0

    def sample(self, items: int, seed: Seed) -> tuple[Floats, Floats, NDArray[np.intp]]:
        """[items x levels] beliefs, true posteriors, and the item of each."""
        rng = np.random.default_rng(seed)
        start, steps = self.spread * rng.standard_normal((items, 1)), 1.2 * rng.standard_normal((items, self.levels))
        log_odds = start + np.cumsum(steps, axis=1)
        truth, held = expit(log_odds), expit(self.surer * log_odds)
        mean = held.mean(axis=1, keepdims=True)
        responds = rng.permutation(items)[:, None] < round(self.share * items)
        belief = mean + self.slope * responds * (held - mean) + self.noise * rng.standard_normal(truth.shape)
        return np.clip(belief, 0, 1).ravel(), truth.ravel(), np.repeat(np.arange(items), self.levels)
