"""The paper's Tables 1 and 2 and Figure 1 (sycophancy-bayesian) from one run: a row per number that the paper has."""

from collections.abc import Mapping, Sequence

import pandas as pd

from ...metrics import DirectionRates, Score, SycophancyError
from ..scoring.number import Number
from ..tables.samples import ALL
from .samples import ARGUED, ARGUED_TO_USER, BARE, CONFORMITY, FLATTERY, PAPER, REASONED

SUBSETS = {"no sycophancy": ARGUED["agent"], PAPER[CONFORMITY]: ARGUED["user"], PAPER[FLATTERY]: ARGUED_TO_USER}
BARS = ("paper_exact", "paper_under", "paper_over", "paper_incorrect")


def published(numbers: Sequence[Number]) -> pd.DataFrame:
    """table, method, kind, arm, column; then

    - of Table 1 `base`, `syc`: root mean square distance from Bayes' rule without and with the probe, over scenarios
      (the paper prints no 1/n under its root), `change` with its interval, and `p` of the paired sign flips of beliefs;
      `overall` is the mean of the two arms, as in the paper;
    - of Table 2 `base`, `syc`: mean beliefs, `change` with its interval, p of paired sign flips, `p_t` of a paired t;
    - of Figure 1 `base`: the share of updates of that class;
    - n_rows, n_clusters, n_dropped, status.
    """
    scores = {(number.metric, number.method, number.subset): number.score for number in numbers}
    methods = {number.method: number.kind for number in numbers if number.metric == "excess" and number.subset == ALL}
    rows = []
    for method, kind in methods.items():
        named = {"method": method, "kind": kind}
        rows += [{"table": "Table 1", **named, **row} for row in _errors(scores, method)]
        rows += [{"table": "Table 2", **named, **row} for row in _beliefs(scores, method)]
        rows += [{"table": "Figure 1", **named, **row} for row in _directions(scores, method)]
    return pd.DataFrame(rows)


Scores = Mapping[tuple[str, str, str], Score]


def _errors(scores: Scores, method: str) -> list[dict[str, object]]:
    found = []
    for arm in (FLATTERY, CONFORMITY):
        subset = f"{PAPER[arm]}, {REASONED}"
        score, flips = scores.get(("sycophancy_error", method, subset)), scores.get(("shift", method, subset))
        if isinstance(score, SycophancyError) and flips is not None:
            row = {"arm": PAPER[arm], "column": REASONED, "base": score.rmse_base, "syc": score.rmse_syc}
            found.append({**row, **_change(score, flips)})
    if len(found) == len(PAPER):
        both = {key: sum(row[key] for row in found) / len(found) for key in ("base", "syc", "change")}
        found.insert(0, {"arm": "overall", "column": REASONED, **both, "status": "ok"})
    return found


def _beliefs(scores: Scores, method: str) -> list[dict[str, object]]:
    found = []
    for column in (BARE, REASONED):
        for arm in (FLATTERY, CONFORMITY):
            flips = scores.get(("shift", method, f"{PAPER[arm]}, {column}"))
            both = [scores.get((f"posterior_{when}", method, f"{arm}, {column}")) for when in ("before", "after")]
            if flips is not None and both[0] is not None and both[1] is not None:
                means = {"base": both[0].estimate, "syc": both[1].estimate}
                found.append({"arm": PAPER[arm], "column": column, **means, **_change(flips, flips)})
    return found


def _directions(scores: Scores, method: str) -> list[dict[str, object]]:
    found = []
    for arm, subset in SUBSETS.items():
        score = scores.get(("incorrect", method, subset))
        if isinstance(score, DirectionRates):
            counted = {key: getattr(score, key) for key in ("n_rows", "n_clusters", "n_dropped", "status")}
            found += [
                {"arm": arm, "column": bar.removeprefix("paper_"), "base": getattr(score, bar), **counted}
                for bar in BARS
            ]
    return found


def _change(score: Score, flips: Score) -> dict[str, object]:
    counted = {key: getattr(score, key) for key in ("ci_lo", "ci_hi", "ci_method", "n_rows", "n_clusters", "n_dropped")}
    p = {"p": getattr(flips, "p_signflip", flips.p), "p_t": getattr(flips, "p_t", None)}
    return {"change": score.estimate, **p, **counted, "status": score.status}
