"""The paper's Tables 1 and 2 and Figures 1 and 2 (sycophancy-bayesian) from one run: a row per number that it has."""

from collections.abc import Sequence

import pandas as pd

from ....metrics import DirectionRates, PairedSignificance, Score, SycophancyError
from ....metrics.contract import NAN
from ....metrics.number import Number
from ....metrics.tables.samples import ALL
from ...report.figures import Scores, scores_of
from .samples import (
    ARGUED,
    ARGUED_TO_USER,
    BARE,
    CONFORMITY,
    FLATTERY,
    OVERALL,
    PAPER,
    REASONED,
)

SUBSETS = {"no sycophancy": ARGUED["agent"], PAPER[CONFORMITY]: ARGUED["user"], PAPER[FLATTERY]: ARGUED_TO_USER}
BARS = ("paper_exact", "paper_under", "paper_over", "paper_incorrect")


def published(numbers: Sequence[Number]) -> pd.DataFrame:
    """table, method, kind, arm, column; then

    - of Table 1 `base`, `syc`: root mean square distance from Bayes' rule without and with the probe, over scenarios
      (the paper prints no 1/n under its root), and `change`; `p` and `p_t` are of squared errors, paired by scenario:
      sign flips, and t; `overall` is the mean of the two arms, with an interval and tests of its own;
    - of Table 2 `base`, `syc`: mean beliefs, and `change`; p of paired sign flips, `p_t` of a paired t;
    - of Figure 1 `base`: the share of updates of that class;
    - of Figure 2 `base`: Pearson's correlation of the changes of Brier score and of squared error;
    - base_lo, base_hi, syc_lo, syc_hi, ci_lo, ci_hi: of each number its interval;
    - n_rows, n_clusters, n_dropped, status: `ok` of no row that lacks a number.
    """
    scores = scores_of(numbers)
    methods = {number.method: number.kind for number in numbers if number.metric == "excess" and number.subset == ALL}
    rows = []
    for method, kind in methods.items():
        named = {"method": method, "kind": kind}
        rows += [{"table": "Table 1", **named, **row} for row in _errors(scores, method)]
        rows += [{"table": "Table 2", **named, **row} for row in _beliefs(scores, method)]
        rows += [{"table": "Figure 1", **named, **row} for row in _directions(scores, method)]
        for arm in (FLATTERY, CONFORMITY):
            score = scores.get(("brier_vs_bayes", method, f"{PAPER[arm]}, {REASONED}"))
            if score is not None:
                shown = {"base": score.estimate, "base_lo": score.ci_lo, "base_hi": score.ci_hi, **_counted(score)}
                rows.append({"table": "Figure 2", **named, "arm": PAPER[arm], "column": REASONED, **shown})
    table = pd.DataFrame(rows)
    if len(table):
        figure = table["table"].str.startswith("Figure")
        for lacking, status in ((~figure & table["ci_lo"].isna(), "too_few"), (table["base"].isna(), "undefined")):
            table["status"] = table["status"].mask(lacking & (table["status"] == "ok"), status)
    return table


def _errors(scores: Scores, method: str) -> list[dict[str, object]]:
    found = []
    for arm in (OVERALL, PAPER[FLATTERY], PAPER[CONFORMITY]):
        score = scores.get(("sycophancy_error", method, f"{arm}, {REASONED}"))
        if isinstance(score, SycophancyError):
            row = {"arm": arm, "column": REASONED, "base": score.rmse_base, "syc": score.rmse_syc}
            ends = zip(("base_lo", "base_hi", "syc_lo", "syc_hi"), score.ci_base + score.ci_syc, strict=True)
            found.append({**row, **dict(ends), **_change(score)})
    return found


def _beliefs(scores: Scores, method: str) -> list[dict[str, object]]:
    found = []
    for column in (BARE, REASONED):
        for arm in (FLATTERY, CONFORMITY):
            flips = scores.get(("shift", method, f"{PAPER[arm]}, {column}"))
            found_both = [scores.get((f"posterior_{when}", method, f"{arm}, {column}")) for when in ("before", "after")]
            both = [score for score in found_both if score is not None]
            if isinstance(flips, PairedSignificance) and len(both) == len(found_both):
                means: dict[str, object] = {}
                for name, score in zip(("base", "syc"), both, strict=True):
                    means |= {name: score.estimate, f"{name}_lo": score.ci_lo, f"{name}_hi": score.ci_hi}
                found.append({"arm": PAPER[arm], "column": column, **means, **_change(flips)})
    return found


def _directions(scores: Scores, method: str) -> list[dict[str, object]]:
    found = []
    for arm, subset in SUBSETS.items():
        score = scores.get(("incorrect", method, subset))
        if isinstance(score, DirectionRates):
            for bar in BARS:
                lo, hi = score.intervals.get(bar, (NAN, NAN))
                share = {"base": getattr(score, bar), "base_lo": lo, "base_hi": hi}
                found.append({"arm": arm, "column": bar.removeprefix("paper_"), **share, **_counted(score)})
    return found


def _change(score: SycophancyError | PairedSignificance) -> dict[str, object]:
    """A difference with its interval and its own tests."""
    ends = {"ci_lo": score.ci_lo, "ci_hi": score.ci_hi, "ci_method": score.ci_method}
    return {"change": score.estimate, "p": score.p_signflip, "p_t": score.p_t, **ends, **_counted(score)}


def _counted(score: Score) -> dict[str, object]:
    return {key: getattr(score, key) for key in ("n_rows", "n_clusters", "n_dropped", "status")}
