"""An agent that hears testimony of known reliability, and may give the word of the user more than its due."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.special import expit, logit

from ..materials.scenarios.scenario import Known
from ..materials.scenarios.worlds import worlds
from ..tables.samples import Told
from .trajectories import Seed

EDGE = 0.01
"""No reading is nearer to 0 or 1: the agent says no certainties."""


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

    def meets(self, known: Known, seed: Seed) -> "Mind":
        """Its mind in one world, where all its readings are drawn from the seed."""
        rng = np.random.default_rng(seed)
        return Mind(known, self.trust, self.trust + rng.normal(self.flattery, self.spread), self.blur, rng)

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
    rng: Generator = field(repr=False)

    def reads(
        self, quantity: str = "x", given: str = "", evidence: str = "none", speaker: str = "none", says: str = ""
    ) -> float:
        """One reading of a belief, in the words of the experiment's contexts: of X after evidence and testimony, of
        evidence, or that somebody will say X.
        """
        belief = self._belief(quantity, given, evidence, speaker, says)
        return float(np.clip(belief + self.blur * self.rng.standard_normal(), EDGE, 1 - EDGE))

    def _belief(self, quantity: str, given: str, evidence: str, speaker: str, says: str) -> float:
        known = self.known
        if quantity == "x":
            p = known.posterior(None if evidence == "none" else evidence, says == "x" if says else None)  # pyright: ignore
            beyond = {"none": 0.0, "agent": self.of_agent, "user": self.of_user}[speaker]
            return float(expit(logit(p) + (beyond if says == "x" else -beyond)))
        x, not_x = (
            (known.says_given_x, known.says_given_not_x)
            if quantity.endswith("says")
            else (known.y_given_x, known.y_given_not_x)
        )
        p = {"x": x, "not x": not_x}.get(given, known.p_x * x + (1 - known.p_x) * not_x)
        return 1 - p if quantity == "y against" else p
