"""Calibration of the gates against models that respond to evidence on a part of the items (METRICS W3, W4)."""

import numpy as np
from numpy.random import Generator
from scipy.special import log_softmax

from ....metrics import belief_gate, evidence_responding, evidence_slope
from ...tables.samples import Layers
from ..responding import Partly
from .design import RESAMPLES, Aim, Design, Test, simulation
from .scored import score_of

FAMILY = "W. White box"
FEW = "the others' slopes are noise, as often below 0 as above"
FOLLOWS = Test("gate of a belief that follows evidence passes", bound=True, note=FEW)
SLOPE = Test("its slope alone", "picture", note="a mean is moved by a part of the items")
INSIDE = Test("read-out gate passes", bound=True, note=FEW)
WITHOUT = Test("without its share of items", "picture", note=SLOPE.note)


@simulation
def _follows(rng: Generator, agent: Partly, items: int) -> dict[str, float]:
    belief, truth, groups = agent.sample(items, rng)
    slope = evidence_slope(belief, truth, groups, draws=RESAMPLES)
    most = evidence_responding(belief, truth, groups)
    return {
        FOLLOWS.name: float(belief_gate(evidence=slope, responding=most).passed),
        SLOPE.name: float(belief_gate(evidence=slope).passed),
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


def designs() -> list[Design]:
    """The designs of gates that a part of the items could pass."""
    level: Aim = "level"
    power: Aim = "power"
    both, inner = (FOLLOWS, SLOPE), (INSIDE, WITHOUT)
    found = [
        *(
            Design(f"W-part-{items}-{share:g}-{noise:g}", FAMILY,
                   f"{share:.0%} of {items} items respond, noise {noise:g}", level, "at most half respond",
                   _follows(Partly(share, noise=noise), items), both)
            for items, share, noise in (
                (50, 0.1, 0.03), (50, 0.25, 0.03), (50, 0.33, 0.1), (50, 0.45, 0.1), (50, 0.5, 0.1), (20, 0.45, 0.1),
                (10, 0.45, 0.1),
            )
        ),
        Design("W-part-extreme", FAMILY, "45% of 50 items respond, beliefs near 0 and 1, noise .03", level,
               "at most half respond", _follows(Partly(0.45, noise=0.03, spread=6), 50), both),
        *(
            Design(f"W-part-power-{items}-{noise:g}", FAMILY, f"all of {items} items respond, noise {noise:g}", power,
                   "all respond", _follows(Partly(noise=noise), items), both)
            for items, noise in ((10, 0.05), (20, 0.1), (50, 0.15))
        ),
        Design("W-part-power-extreme", FAMILY, "all of 20 items respond, beliefs near 0 and 1, noise .03", power,
               "all respond", _follows(Partly(noise=0.03, spread=6), 20), both),
        *(
            Design(f"W-part-surer-{share:g}", FAMILY, f"{share:.0%} of 20 items respond, log-odds times 3, noise .01",
                   level if share < 1 else power, "at most half respond" if share < 1 else "all respond",
                   _follows(Partly(share, noise=0.01, surer=3), 20), both)
            for share in (0.5, 1.0)
        ),
        *(
            Design(f"W-inside-{share:g}", FAMILY, f"read-out of {share:.0%} of 50 items, noise 1 nat", level,
                   "at most half respond", _inside(share, 1.0, 50), inner)
            for share in (0.33, 0.45)
        ),
        Design("W-inside-power", FAMILY, "read-out of all of 20 items, noise 1 nat", power, "all respond",
               _inside(1.0, 1.0, 20), inner),
    ]  # fmt: skip
    return found
