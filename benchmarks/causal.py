"""How often the interval of a causal gain holds a planted gain, and how often a claim stands though nothing is used.

    python benchmarks/causal.py --draws 500

Contexts are simulated: groups have gains of their own about the planted one, every disturbance lifts the belief by the
square of its dose, the reading is noisy, and random directions do something, too. Groups are alike, or of 1 to 12 rows.
Then directions that are estimates, of what is used by so much, or not: how often the intervals of the gain, of the
change of the action for each SD and of what the wrong token does less hold what a direction without error would give.
"""

import argparse
from typing import Any

import numpy as np
from scipy.stats import binomtest

from doxascope.probes.causal.claims import judged
from doxascope.probes.causal.plan import OUTCOMES, PLAIN, Arm, CausalData, CausalPlan
from doxascope.probes.estimators import ridge

UNEQUAL = (1, 1, 2, 2, 3, 3, 5, 8, 8, 12)
SHAPES = {
    "10 unequal groups": UNEQUAL,
    "10 groups of 4": (4,) * 10,
    "30 groups of 2": (2,) * 30,
    "5 groups of 8": (8,) * 5,
}
CLAIMS = ("causal gain", "dose response", "beyond random directions")
ROWS, CONTEXTS = 60, 12
"""That the probe of `along_an_estimate` is fitted on, and that are steered."""


def along_an_estimate(seed: int, plan: CausalPlan, folds: int = 10, used: float = 0.0) -> CausalData:
    """Plants the gain `used`, up to what the probe reads along the wrong entries.

    The exact belief is one entry of the activations, and the concept of the probe in another, independent of it, which
    goes into the belief `used` times. The action follows the belief at .1 for each nat. The control, another token,
    does nothing. Probe and direction, the difference of means, are fitted on sixty rows, and again without each fold.
    """
    rng = np.random.default_rng(seed)
    x, y, n = rng.normal(size=(ROWS, 6)) * [2, 1, 1, 1, 1, 1], np.tile([-1.0, 1.0], ROWS // 2), CONTEXTS
    x[:, 1] += y
    entries = np.array([1, used, 0, 0, 0, 0])

    def fitted(rows: np.ndarray) -> tuple[float, float]:
        """What a step makes the probe read, and the belief be, more."""
        step = x[rows][y[rows] > 0].mean(axis=0) - x[rows][y[rows] < 0].mean(axis=0)
        return float(ridge(x[rows], y[rows], 1.0)[0] @ step), float(entries @ step)

    values = np.full((n, len(OUTCOMES)), np.nan)
    values[:, :3] = rng.normal(size=(n, 3))
    readings: dict[Arm, Any] = {PLAIN: values}

    def steered(arm: Arm, read: float, moved: float) -> None:
        readings[arm] = values.copy()
        readings[arm][:, 0] += arm.dose * read
        rise = arm.dose * moved + 0.01 * rng.normal(size=n)
        readings[arm][:, 1:3] += rise[:, None] * [1, 0.1]

    of = np.arange(ROWS) // 2 % folds
    rest = {f"{k}": fitted(of != k) for k in range(folds)}
    for dose in plan.signed:
        steered(Arm("steer", "d", dose), *fitted(of >= 0))
    for sign in (1.0, -1.0):
        for k, (read, moved) in rest.items():
            steered(Arm("fold", k, sign * plan.dose), read, moved)
        steered(Arm("position", "", sign * plan.dose), 0.0, 0.0)
    blank = np.full(n, np.nan)
    by_fold = {k: plan.dose * read for k, (read, _) in rest.items()}
    return CausalData(np.arange(n), readings, blank, np.zeros(n), blank, by_fold=by_fold)


def expected(used: float) -> tuple[float, float]:
    """The gain, and how far a step moves the belief, along the direction that ever more rows would give.

    The means of the concept lie 2 apart in one entry, of which the probe then reads a half: its variance is 2, of which
    the concept makes 1.
    """
    return 2 * used, 2 * used


def world(seed: int, gain: float, sizes: tuple[int, ...], plan: CausalPlan) -> CausalData:
    """Contexts with a planted gain."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(len(sizes)), sizes)
    n = len(groups)
    own = gain + 0.5 * rng.normal(size=len(sizes))[groups]
    step = np.exp(0.2 * rng.normal(size=n))
    plain = np.full((n, len(OUTCOMES)), np.nan)
    plain[:, :2] = rng.normal(size=(n, 2))

    def moved(probe: np.ndarray, exact: np.ndarray) -> np.ndarray:
        values = plain.copy()
        values[:, 0] += probe
        values[:, 1] += exact
        return values

    readings = {PLAIN: plain}
    for dose in plan.signed:
        exact = own * dose * step + 0.2 * dose**2 + 0.3 * rng.normal(size=n)
        readings[Arm("steer", "d", dose)] = moved(dose * step, exact)
    for i in range(plan.random):
        other = 0.5 * rng.normal(size=len(sizes))[groups] * step  # as the planted direction, if its gain is 0
        for sign in (1.0, -1.0):
            noise = 0.3 * rng.normal(size=n)
            readings[Arm("random", f"{i}", sign * plan.dose)] = moved(np.zeros(n), sign * plan.dose * other + noise)
    blank = np.full(n, np.nan)
    return CausalData(groups, readings, blank, np.zeros(n), blank)


def main() -> None:
    """Print a line for each shape and gain."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=500, help="data sets")
    draws = parser.parse_args().draws
    plan = CausalPlan(directions=("d",), draws=500, erase=False, surgery=(), random=99)
    for name, sizes in SHAPES.items():
        for gain in (0.0, 1.0):
            found = [judged(world(seed, gain, sizes, plan), plan) for seed in range(draws)]
            held = sum(check.numbers.gains["d"].ci_lo <= gain <= check.numbers.gains["d"].ci_hi for check in found)
            told = [f"interval holds {rate(held, draws)}"]
            told += [
                f"{claim} {rate(sum(check.verdict(claim) == 'supported' for check in found), draws)}"
                for claim in CLAIMS
            ]
            print(f"{name}, gain {gain:g}: {'; '.join(told)}", flush=True)
    for folds in (5, 10):
        for used in (0.0, 0.5, 2.0):
            print(f"an estimate in {folds} folds, used by {used:g}: {estimated(folds, used, draws, plan)}", flush=True)


def estimated(folds: int, used: float, draws: int, plan: CausalPlan) -> str:
    """Coverage along estimated directions, and how often a dose response is claimed."""
    found = [judged(along_an_estimate(seed, plan, folds, used), plan) for seed in range(draws)]
    gain, moved = expected(used)
    held = {
        "gain": [(check.numbers.gains["d"], gain) for check in found],
        "action": [(check.numbers.slopes["action"], 0.1 * moved) for check in found],
        "wrong token": [(check.numbers.controls["position"].more, plan.dose * moved) for check in found],
    }
    told = [
        f"{name} holds {rate(sum(interval.ci_lo <= truth <= interval.ci_hi for interval, truth in pairs), draws)}"
        for name, pairs in held.items()
    ]
    claimed = sum(check.verdict("dose response") == "supported" for check in found)
    return "; ".join([*told, f"dose response {rate(claimed, draws)}"])


def rate(hits: int, n: int) -> str:
    """A share with its Clopper-Pearson interval."""
    lo, hi = binomtest(hits, n).proportion_ci(method="exact")
    return f"{hits / n:.3f} [{lo:.3f}, {hi:.3f}]"


if __name__ == "__main__":
    main()
