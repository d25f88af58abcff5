"""Every test of the designs on their planted agents, over many seeds."""

import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from tqdm import tqdm

from doxascope.base.parallel import Spread
from doxascope.benchmarks.calibration import (
    beliefs,
    claims,
    comparisons,
    decisions,
    inside,
    martingale,
    near_certainty,
    unseen,
)
from doxascope.benchmarks.calibration.design import (
    AGAIN_SEEDS,
    FLAGGED,
    OUTSIDE,
    POWER_SEEDS,
    SEEDS,
    Design,
    Flagged,
    Row,
    Test,
    verdict,
)

CHUNK = 50
"""Seeds per task of a worker."""


def all_designs() -> list[Design]:
    """Every design of the page, in its order."""
    found = [
        *martingale.designs(),
        *beliefs.designs(),
        *decisions.designs(),
        *near_certainty.designs(),
        *near_certainty.mean_update_designs(),
        *claims.designs(),
        *comparisons.designs(),
        *comparisons.rate_designs(),
        *unseen.designs(),
        *inside.designs(),
        *claims.gate_designs(),
    ]
    return sorted(found, key=lambda design: design.family)


def run(
    designs: Sequence[Design],
    seeds: int = SEEDS,
    power_seeds: int = POWER_SEEDS,
    again: int = AGAIN_SEEDS,
    spread: Spread = map,
) -> list[Row]:
    """Simulate `designs`, `seeds` times where a level is at stake, and `again` times more where ours is in doubt."""
    n = {design.key: seeds if design.aim == "level" else power_seeds for design in designs}
    first = _rows(designs, {key: range(stop) for key, stop in n.items()}, spread)
    doubtful = {(row.key, row.test) for row in first if again and row.role == "ours" and row.verdict in OUTSIDE}
    keys = {key for key, _ in doubtful}
    fresh = _rows([d for d in designs if d.key in keys], {key: range(seeds, seeds + again) for key in keys}, spread)
    second = {(row.key, row.test): row for row in fresh}
    return [
        replace(second[row.key, row.test], first_rate=row.rate, first_seeds=row.seeds)
        if (row.key, row.test) in doubtful
        else row
        for row in first
    ]


def _rows(designs: Sequence[Design], seeds: Mapping[str, range], spread: Spread) -> list[Row]:
    """Every test of `designs`, each design on its own seeds."""
    tasks = [
        (design.key, start, min(start + CHUNK, seeds[design.key].stop))
        for design in designs
        for start in seeds[design.key][::CHUNK]
    ]
    totals: Counter[tuple[str, str, str]] = Counter()
    for part in tqdm(spread(_simulate, tasks), total=len(tasks), unit=f" x {CHUNK} seeds", disable=None):
        totals.update(part)
    return [_row(design, test, totals) for design in designs for test in design.tests]


def _simulate(task: tuple[str, int, int]) -> Counter[tuple[str, str, str]]:
    """Counts of one stretch of seeds. Designs travel by key: their functions do not pickle."""
    key, start, stop = task
    design = next(design for design in all_designs() if design.key == key)
    counts: Counter[tuple[str, str, str]] = Counter()
    for seed in range(start, stop):
        found = design.simulate(np.random.default_rng([zlib.crc32(key.encode()), seed]))
        for test in design.tests:
            value = found[test.name]
            kind = "undefined" if np.isnan(value) else "rejected" if value else "kept"
            counts[key, test.name, kind] += 1
            if isinstance(value, Flagged):
                counts[key, test.name, "flagged"] += 1
                counts[key, test.name, f"flagged {kind}"] += 1
    return counts


def _row(design: Design, test: Test, totals: Counter[tuple[str, str, str]]) -> Row:
    rejected, kept, undefined = (totals[design.key, test.name, kind] for kind in ("rejected", "kept", "undefined"))
    n = rejected + kept
    rate = rejected / n if n else float("nan")
    found = verdict(rate, n, test.nominal, design.aim, test.bound)
    if found == "too many" and totals[design.key, test.name, "flagged"]:
        told = rejected - totals[design.key, test.name, "flagged rejected"]
        silent = told + kept - totals[design.key, test.name, "flagged kept"]
        if not silent or verdict(told / silent, silent, test.nominal, design.aim, test.bound) != found:
            found = FLAGGED
    return Row(
        key=design.key,
        **_words(design, test),
        aim=design.aim,
        test=test.name,
        nominal=test.nominal,
        bound=test.bound,
        rate=rate,
        se=float(np.sqrt(rate * (1 - rate) / n)) if n else float("nan"),
        seeds=n + undefined,
        undefined=undefined,
        flagged=totals[design.key, test.name, "flagged"],
        verdict=found,
        first_rate=0.0,
        first_seeds=0,
    )


def _words(design: Design, test: Test) -> dict[str, str]:
    return {
        "family": design.family,
        "agent": design.agent,
        "truth": design.truth,
        "role": test.role,
        "note": test.note,
        "instead_of": test.instead_of,
    }


def merged(old: Iterable[Row], new: Iterable[Row]) -> list[Row]:
    """All rows in the order of the page. New numbers replace old ones; the words are those of the designs."""
    found = {(row.key, row.test): row for rows in (old, new) for row in rows}
    return [
        replace(found[design.key, test.name], **_words(design, test))
        for design in all_designs()
        for test in design.tests
        if (design.key, test.name) in found
    ]
