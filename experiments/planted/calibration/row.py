"""What one test did in one design, and the verdict on it."""

from dataclasses import dataclass

import numpy as np

TARGET_POWER = 0.8
OUTSIDE = ("timid", "too many")
"""Verdicts on a level that is not as it should be."""


@dataclass(frozen=True)
class Row:
    """One test of one design."""

    key: str
    """Of the design."""
    family: str
    agent: str
    aim: str
    truth: str
    test: str
    role: str
    nominal: float
    bound: bool
    """The nominal level is the most that is promised."""
    rate: float
    """Share of the seeds with a defined result in which the test rejected, or the interval missed."""
    se: float
    """Of the rate."""
    seeds: int
    undefined: int
    flagged: int
    """Seeds in which the status of the result said that the level is not promised."""
    verdict: str
    note: str
    instead_of: str
    """The test of the same design that it replaced; empty: none."""
    first_rate: float
    """Of the first stage, where the row was run again on fresh seeds; all else is then of these. Otherwise 0."""
    first_seeds: int


FLAGGED = "flagged"
"""Verdict on a level that is too high, but not where the status of the result is `ok`."""


def verdict(rate: float, n: int, nominal: float, aim: str, bound: bool = False) -> str:
    """Level: within two standard errors (at the nominal level) or not; of a bound, not above. Power: at least .8."""
    if not n:
        return "undefined"
    if aim == "power":
        return "found" if rate >= TARGET_POWER else "often missed"
    reach = 2 * float(np.sqrt(nominal * (1 - nominal) / n))
    if rate > nominal + reach + 1e-12:
        return "too many"
    return "holds" if bound or rate >= nominal - reach - 1e-12 else "timid"
