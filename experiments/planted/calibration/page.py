"""The page on calibration, and the same as a table: what every test did on planted agents."""

import csv
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from itertools import groupby
from pathlib import Path

import numpy as np
import pandas as pd

from .design import AGAIN_SEEDS, PERMUTATIONS, RESAMPLES
from .row import FLAGGED, OUTSIDE, Row

PAGE, TABLE = "calibration.md", "calibration.csv"

HEADER = """# Calibration

How often each test speaks up, on simulated agents whose beliefs are known: spread over (0, 1) in sections A to E, and
under "Where beliefs live" as those of language models are, at prior log-odds N(-6, 3), U-shaped, heavy-tailed, rounded,
or 0 and 1 in part, in 9 to 150 questions of 1 to 50 rows, of one model or of up to ten that are a sample, too.
Elsewhere nothing is promised. The agents are in
`experiments/planted/`; this page and `calibration.csv` are written by

```
make calibration        or: python -m doxascope.experiments.planted.calibration
```

- **level**: the null is true. A rejection is an error, and so is an interval that misses the planted value. The
  nominal rate is 5% unless said. *holds*: within two standard errors of it; *timid*: below, so the test errs on
  the safe side; *too many*: above. Some tests promise *at most* their level by construction, and the line says by
  which: there *holds* means no more than two standard errors above it.
- **power**: the stated effect is planted. *found*: in at least 80% of the samples.
- **ours** is what doxascope reports. Where runs and `doxascope score` print the number, it is taken from the engine
  that makes theirs. **paper** is published practice on the same samples. **picture** is neither:
  what the same machinery does uncorrected, or where it does not belong, or where the result itself says by its
  status that the level is not promised.
- {seeds} seeds per level (standard error {se:.1f} points at 5%), {power_seeds} per power. Inside a simulation,
  permutation tests take {permutations} permutations and bootstraps {resamples} draws, fewer than the defaults:
  the level of a permutation test does not depend on it, an interval gets a little less exact.
- **Two stages, by a rule fixed beforehand.** Of many tests that hold their level, one in twenty lies outside two
  standard errors by chance. So whatever of ours lies outside, above or below, is run again on {again} fresh seeds,
  and its line gives the fresh figures alone; the first are in its last column. The fresh seeds had no part in the
  choice, so their rate is as unbiased as if the test had been chosen by lot, and their standard error is half as
  large. What the first stage lets pass is not run again: it catches a true rate of 7% in four cases of five, one of
  6% in three of ten.
- Sample sizes and effects of some power designs were chosen after a first look at the power. Larger designs beside
  a level that failed (`drift2`, rejected share) were added after it failed, to find where it holds. The sizes below
  which a result says `few_clusters` or `few_contexts` were found on other seeds than these.

"""

SUMMARY = """## In short

Of {n_ours} levels of ours, {doubtful} lay outside two standard errors in the first stage. In the end {holds} hold,
{flagged} reject too often where the status says so, {timid} are timid and {liberal} reject too often.
Published practice on the same samples: {paper}.

"""
BEFORE = """## Where beliefs live: before and after

Exact beliefs of language models lie near 0 and 1, questions are few, and clusters are unequal. On such agents the
tests that doxascope had, and that papers have, reject what is true. Beside each stands what took its place, on the same
samples. The column *flagged* is the share of samples in which the status of the result says that the level is not
promised there (for instance `few_effective_clusters`); rates are of all samples, flagged or not. The verdict *flagged*
means too many over all, but not where the status is `ok`. What is *at most* its level holds up to two standard errors
above it.

"""
OFF = """Ours that are not at their level:

"""


def markdown(rows: Sequence[Row]) -> str:
    """The page."""
    levels = [row for row in rows if row.role == "ours" and row.aim == "level"]
    ours = Counter(row.verdict for row in levels)
    papers = [row for row in rows if row.role == "paper" and row.aim == "level"]
    seeds, power_seeds = (min((_first(row) for row in rows if row.aim == aim), default=0) for aim in ("level", "power"))
    text = HEADER.format(
        seeds=seeds,
        se=100 * np.sqrt(0.05 * 0.95 / max(seeds, 1)),
        again=max((row.seeds for row in levels if row.first_seeds), default=AGAIN_SEEDS),
        power_seeds=power_seeds,
        permutations=PERMUTATIONS,
        resamples=RESAMPLES,
    )
    text += SUMMARY.format(
        n_ours=ours.total(),
        doubtful=sum(row.first_seeds > 0 for row in levels),
        holds=ours["holds"],
        flagged=ours[FLAGGED],
        timid=ours["timid"],
        liberal=ours["too many"],
        paper=f"{sum(row.verdict == 'holds' for row in papers)} of {len(papers)} levels hold",
    )
    off = [row for row in levels if row.verdict in OUTSIDE]
    if off:
        text += OFF
        for row in off:
            reason = f" ({row.note})" if row.note else ""
            text += f"- {row.test}: {100 * row.rate:.1f}% of {row.seeds} for {row.agent}{reason}\n"
        text += "\n"
    text += BEFORE + _before_and_after(rows) + "\n"
    for family, of_family in groupby(rows, key=lambda row: row.family):
        text += f"## {family}\n\n"
        for (agent, aim, truth), group in groupby(of_family, key=lambda row: (row.agent, row.aim, row.truth)):
            text += f"**{aim}**: {agent}; {truth}\n\n{_table(group)}\n"
    return text.rstrip() + "\n"


def _before_and_after(rows: Sequence[Row]) -> str:
    """What replaced a test, beside it, on the same samples."""
    at = {(row.key, row.test): row for row in rows}
    lines = ["| | before | rejects | now | rejects | flagged | verdict |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        if row.instead_of:
            was = at[row.key, row.instead_of]
            told = f"{row.truth}: {row.agent}" if row.aim == "power" else row.agent
            rates = [f"{100 * one.rate:.1f}%" if np.isfinite(one.rate) else "-" for one in (was, row)]
            flagged = f"{100 * row.flagged / row.seeds:.0f}%"
            lines.append("| " + " | ".join((told, was.test, rates[0], row.test, rates[1], flagged, row.verdict)) + " |")
    return "\n".join(lines) + "\n"


def _first(row: Row) -> int:
    """Seeds of the first stage."""
    return row.first_seeds or row.seeds


def _table(rows: Iterable[Row]) -> str:
    lines = ["| test | whose | nominal | rejects | SE | verdict | |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        nominal = f"{'at most ' if row.bound else ''}{100 * row.nominal:g}%" if row.aim == "level" else ""
        notes = [row.note if row.aim == "level" and (row.bound or row.verdict != "holds") else ""]
        if row.first_seeds:
            notes.append(f"{row.seeds} fresh seeds, after {100 * row.first_rate:.1f}% of {row.first_seeds}")
        if row.undefined:
            notes.append(f"undefined in {row.undefined} of {row.seeds}")
        cells = [
            row.test, row.role, nominal, f"{100 * row.rate:.1f}%", f"{100 * row.se:.1f}", row.verdict,
            "; ".join(filter(None, notes)),
        ]  # fmt: skip
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


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
