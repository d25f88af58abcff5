"""The page on calibration, derived from its table: what is calibrated, and in one line what every test did."""

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from itertools import groupby
from pathlib import Path

import numpy as np
import pandas as pd

from doxascope.benchmarks.calibration.design import (
    AGAIN_SEEDS,
    FLAGGED,
    OUTSIDE,
    PERMUTATIONS,
    RESAMPLES,
    Row,
)

PAGE, TABLE = "calibration.md", "calibration.csv"

HEADER = """# Calibration

How often each test speaks up, on simulated agents whose beliefs are known: spread over (0, 1) in sections A to E, and
under "Where beliefs live" as those of language models are, at prior log-odds N(-6, 3), U-shaped, heavy-tailed, rounded,
or 0 and 1 in part, in 9 to 150 questions of 1 to 50 rows, of one model or of up to ten that are a sample, too.
Elsewhere nothing is promised. Every agent, test and rate is a row of [calibration.csv](calibration.csv); this page is
derived from it. How often known models are called readable, responding and coherent stands in
[Verdicts on known agents](verdicts.md). Page and table are written by

```
make calibration                                           # from simulated agents of benchmarks/agents/
python -m doxascope.benchmarks.calibration --page-only     # the page alone, from the table that is there
```

- **level**: the null is true. A rejection is an error, and so is an interval that misses the planted value. The
  nominal rate is 5% unless `nominal` says otherwise. *holds*: within two standard errors of it; *timid*: below, so the
  test errs on the safe side; *too many*: above; *flagged*: too many over all, but not where the status is `ok`. Some
  tests promise *at most* their level by construction (`bound`; `note` says by which): there *holds* means no more than
  two standard errors above it.
- **power**: the stated effect is planted. *found*: in at least 80% of the samples.
- **ours** is what doxascope reports, taken from the engine where runs and `doxascope score` print the number. **paper**
  is published practice on the same samples. **picture**, in the table alone, is neither: what the same machinery does
  uncorrected, or where it does not belong, or where the status of the result says that the level is not promised.
- {seeds} seeds per level (standard error {se:.1f} points at 5%), {power_seeds} per power. Inside a simulation,
  permutation tests take {permutations} permutations and bootstraps {resamples} draws, fewer than the defaults:
  the level of a permutation test does not depend on it, an interval gets a little less exact.
- **Two stages, by a rule fixed beforehand.** Of many tests that hold their level, one in twenty lies outside two
  standard errors by chance. So whatever of ours lies outside, above or below, is run again on {again} fresh seeds, and
  its row gives the fresh figures alone, the first in `first_rate` and `first_seeds`. The fresh seeds had no part in the
  choice, so their rate is as unbiased as if the test had been chosen by lot, and their standard error is half as
  large. What the first stage lets pass is not run again: it catches a true rate of 7% in four cases of five, one of
  6% in three of ten.
- Sample sizes and effects of some power designs were chosen after a first look at the power. Larger designs beside
  a level that failed (`drift2`, rejected share) were added after it failed, to find where it holds. The sizes below
  which a result says `few_clusters` or `few_contexts` were found on other seeds than these.

## In short

Of {n_ours} levels of ours, {doubtful} lay outside two standard errors in the first stage. In the end {holds} hold,
{flagged} reject too often where the status says so, {timid} are timid and {liberal} reject too often.
Published practice on the same samples: {paper}.

"""

BEFORE = """## Where beliefs live: before and after

Exact beliefs of language models lie near 0 and 1, questions are few, and clusters are unequal. On such agents the
tests that doxascope had, and that papers have, reject what is true. Beside each stands what took its place, on the same
samples: the range of the rates at which they reject, over the designs in which nothing is there to find.

"""

PROMISED: Mapping[str, tuple[str, float]] = {
    **{f"F-missed-ties-{n}": ("at most", 0.07) for n in (20, 60, 150)},
    **{f"F-missing-{n}": ("at most", 0.07) for n in (60, 150)},
    **{f"F-copied-{n}": ("at most", 0.07) for n in (20, 60)},
    "F-missed-ties-power": ("at least", 0.9),
    **{f"C-heard-{agent}": ("at most", 0.05) for agent in ("ignores", "avoids", "flattens")},
    "C-heard-power": ("at least", 0.9),
    **{f"W-urns-{what}-{n}": asked for n in (20, 40)
       for what, asked in (("power", ("at least", 0.95)), ("level", ("at most", 0.05)))},
}  # fmt: skip
"""Key of a design -> the rate that was asked of it before it was simulated."""

RATES = """## Rates that were asked for

Before the tests of this table were changed, their rates were measured, and what they should be was written down: how
often two sides are called different that are alike (where most items tie, rows are missing, or items are copies) or
apart; an agent is said to hear its earlier answers that does not, or does; and a reader is said to respond to urns. The
table alone is made anew by `python -m doxascope.benchmarks.calibration --promised`.

"""

TESTS = """## What every test did

How many of the designs hold their level, where the status of a result says that the level is not promised how many of
them are flagged, the range of the rates, and in how many designs the planted effect is found.

"""


def markdown(rows: Sequence[Row]) -> str:
    """The page."""
    levels = [row for row in rows if row.role == "ours" and row.aim == "level"]
    verdicts = Counter(row.verdict for row in levels)
    papers = [row for row in rows if row.role == "paper" and row.aim == "level"]
    seeds, power_seeds = (min((_first(row) for row in rows if row.aim == aim), default=0) for aim in ("level", "power"))
    text = HEADER.format(
        seeds=seeds,
        se=100 * np.sqrt(0.05 * 0.95 / max(seeds, 1)),
        again=max((row.seeds for row in levels if row.first_seeds), default=AGAIN_SEEDS),
        power_seeds=power_seeds,
        permutations=PERMUTATIONS,
        resamples=RESAMPLES,
        n_ours=verdicts.total(),
        doubtful=sum(row.first_seeds > 0 for row in levels),
        holds=verdicts["holds"],
        flagged=verdicts[FLAGGED],
        timid=verdicts["timid"],
        liberal=verdicts["too many"],
        paper=f"{sum(row.verdict == 'holds' for row in papers)} of {len(papers)} levels hold",
    )
    for title, lines in (
        ("Ours that are not at their level", (_line(row) for row in levels if row.verdict in OUTSIDE)),
        ("Run again", (_line(row) for row in levels if row.first_seeds)),
        ("Without a result in some samples", (_line(row) for row in rows if row.role == "ours" and row.undefined)),
    ):
        listed = "\n".join(lines)
        text += f"{title}:\n\n{listed}\n\n" if listed else ""
    text += RATES + "\n".join(_promised(rows)) + "\n\n"
    text += BEFORE + "\n".join(_before_and_after(rows)) + "\n\n" + TESTS
    for family, members in groupby(rows, key=lambda row: row.family):
        text += f"### {family}\n\n" + "\n".join(_tests(members)) + "\n\n"
    return text.rstrip() + "\n"


def _line(row: Row) -> str:
    first = f"{100 * row.first_rate:.1f}% of {row.first_seeds}"
    again = f"{row.seeds} fresh seeds, after {first}" if row.first_seeds else ""
    undefined = f"undefined in {row.undefined} of {row.seeds}" if row.undefined else ""
    notes = "; ".join(filter(None, (row.note, again, undefined)))
    return f"- {row.test}: {100 * row.rate:.1f}% of {row.seeds} for {row.agent}" + (f" ({notes})" if notes else "")


def _promised(rows: Sequence[Row]) -> Iterator[str]:
    """Of each design of `PROMISED`: its rate before and now, and what was asked."""
    at = {(row.key, row.test): row for row in rows}
    yield "| agent | said | before | now | asked | kept |"
    yield "|---|---|---:|---:|---:|---|"
    for key, (side, bound) in PROMISED.items():
        for row in rows:
            if row.key == key and row.instead_of:
                kept = row.rate <= bound if side == "at most" else row.rate >= bound
                before, now = (f"{100 * one.rate:.1f}%" for one in (at[key, row.instead_of], row))
                said = row.test.partition(",")[0]
                yield _cells(row.agent, said, before, now, f"{side} {100 * bound:g}%", "yes" if kept else "no")


def _before_and_after(rows: Sequence[Row]) -> Iterator[str]:
    """What replaced a test, beside it, on the same samples."""
    at = {(row.key, row.test): row for row in rows}
    pairs: dict[tuple[str, str], list[tuple[Row, Row]]] = {}
    for row in rows:
        if row.instead_of:
            pairs.setdefault((row.instead_of, row.test), []).append((at[row.key, row.instead_of], row))
    yield "| before | rejects | now | rejects | levels that hold | flagged | effects found |"
    yield "|---|---:|---|---:|---:|---:|---:|"
    for (before, now), designs in pairs.items():
        null = [(old, new) for old, new in designs if new.aim == "level"]
        old_rates, new_rates = ([pair[i].rate for pair in null] for i in (0, 1))
        counts = _counts(new for _, new in designs)
        yield _cells(before, _range(old_rates), now, _range(new_rates), *counts)


def _tests(rows: Iterable[Row]) -> Iterator[str]:
    """One line for each test of ours and of the papers."""
    tests: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.role != "picture":
            tests.setdefault((row.test, row.role), []).append(row)
    yield "| test | whose | nominal | rejects | levels that hold | flagged | effects found |"
    yield "|---|---|---:|---:|---:|---:|---:|"
    for (test, role), designs in tests.items():
        null = [row for row in designs if row.aim == "level"]
        nominal = {f"{'at most ' if row.bound else ''}{100 * row.nominal:g}%" for row in null}
        yield _cells(test, role, " or ".join(sorted(nominal)), _range([row.rate for row in null]), *_counts(designs))


def _counts(rows: Iterable[Row]) -> tuple[str, str, str]:
    """Of one test in some designs: levels that hold, levels that are flagged, effects that are found."""
    verdicts: dict[str, Counter[str]] = {"level": Counter(), "power": Counter()}
    for row in rows:
        verdicts[row.aim][row.verdict] += 1
    level, power = verdicts["level"], verdicts["power"]
    return (
        f"{level['holds']} of {level.total()}" if level else "-",
        str(level[FLAGGED]) if level[FLAGGED] else "",
        f"{power['found']} of {power.total()}" if power else "-",
    )


def _range(rates: Sequence[float]) -> str:
    defined = sorted(rate for rate in rates if np.isfinite(rate))
    return " to ".join(dict.fromkeys(f"{100 * rate:.1f}%" for rate in defined[:1] + defined[-1:])) or "-"


def _cells(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _first(row: Row) -> int:
    """Seeds of the first stage."""
    return row.first_seeds or row.seeds


def write(rows: Sequence[Row], folder: Path) -> None:
    """Write the page and the same as CSV."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / PAGE).write_text(markdown(rows), encoding="utf-8")
    with (folder / TABLE).open("w", encoding="utf-8", newline="") as file:
        out = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        out.writeheader()
        out.writerows(asdict(row) for row in rows)


def read(folder: Path) -> list[Row]:
    """The rows of a table that was written; none if there is none."""
    path = folder / TABLE
    if not path.exists():
        return []
    table = pd.read_csv(path, keep_default_na=False, na_values={name: ["nan"] for name in ("rate", "se")})
    return [Row(**{str(name): value for name, value in record.items()}) for record in table.to_dict("records")]
