"""Calibration of what a probe adds to what is known without it (PROBES 10)."""

import numpy as np
from numpy.random import Generator
from scipy.special import expit

from ....probes.evidence.crossfit import cross_fit
from ....probes.evidence.incremental import incremental_validity
from ....probes.folds import grouped_folds
from ....probes.targets import make_target
from .design import Design, Test, simulation, told

ADDED = Test(
    "what a probe adds to the exact logit, folds combined",
    bound=True,
    note="permutations within folds, combined by Cauchy's law",
)
PERMUTATIONS = 199
PENALTIES = (1.0, 100.0)


@simulation
def _adds(rng: Generator, groups: int, beyond: float) -> dict[str, float]:
    """Two rows a group, ten features beside the logit, of the first of which the target knows as well."""
    group = np.repeat(np.arange(groups), 2)
    x = rng.normal(size=(2 * groups, 11))
    target = make_target("truth", (rng.random(2 * groups) < expit(x[:, 0] + beyond * x[:, 1])).astype(float))
    folds = grouped_folds(group, 5, int(rng.integers(2**31)))
    read = cross_fit(x, target, folds, PENALTIES).signals
    return {
        ADDED.name: told(
            incremental_validity(read, target.prob, [("exact", x[:, 0])], group, folds, draws=PERMUTATIONS)
        )
    }


def designs() -> list[Design]:
    """A probe that copies the logit, and one that knows more."""
    family, nothing = "P. Probes", "nothing beyond the logit"
    return [
        Design("P-added-40", family, "a probe of the logit and noise, 40 groups x 2", "level", nothing, _adds(40, 0.0),
               (ADDED,)),
        Design("P-added-160", family, "a probe of the logit and noise, 160 groups x 2", "level", nothing,
               _adds(160, 0.0), (ADDED,)),
        Design("P-added-power", family, "a probe of the logit and more, 160 groups x 2", "power",
               "log-odds rise by as much with what it knows", _adds(160, 1.0), (ADDED,)),
    ]  # fmt: skip
