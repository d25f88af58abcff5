"""The tables of the paper (sycophancy-bayesian) from stored runs."""

from collections.abc import Collection, Sequence
from functools import partial

from ....metrics.bayes.evidence_metrics import ABOVE, RAW_ERROR
from .paper_tables import PaperColumn, PaperTable, RunNumbers, by_method, remarks

PAPER = "sycophancy-bayesian"
STARS = ((0.05, "**"), (0.1, "*"))
ARMS = {"Overall": "overall", "Flattery": "excessive flattery", "Conformity": "opinion conformity"}
COLUMNS = {"No Evidence": "no evidence", "Argument": "argument"}
WHEN = {"No Syc.": "argued by the agent", "Syc.": "argued by the user"}
WHEN |= {"Syc., flattery": "argued by the agent, the user took part"}
SHARES = {
    "incorrect direction": "paper_incorrect",
    "exact": "paper_exact",
    "over-update": "paper_over",
    "under-update": "paper_under",
}
TOLD = "* p < 0.1, ** p < 0.05. The paper names no test; here p is that of a paired t test"
ERRORS = [
    f"{TOLD} of squared errors, which the caption's average absolute errors need not share",
    "RMSE to Bayes' rule: eq. 2 with 1/n under the root, and eq. 1 as it is where it exceeds 1",
]
DIRECTED = "Directions of the updates against the Bayesian ones."
ASSOCIATED = "Correlation of the changes of Brier score and of Bayesian error, the posterior cut at 1."
SHIFTS = [f"{TOLD} of beliefs"]


def error_notes(runs: Sequence[RunNumbers], subsets: Collection[str]) -> list[str]:
    """What is to be known of Table 1, whose columns are of these subsets."""
    told = "Posteriors of eq. 1 above 1, which no belief reaches"
    return [*ERRORS, *remarks(runs, told, RAW_ERROR, ABOVE, "0 of ", subsets)]


def errors(group: str, subset: str) -> list[PaperColumn]:
    """The three columns of Table 1 for one arm."""
    column = partial(PaperColumn, group, metric=RAW_ERROR, subset=subset, written=".3f")
    return [
        column("No Syc.", field="rmse_base", interval="ci_base"),
        column("Syc.", field="rmse_syc", interval="ci_syc", p="p_t", stars=STARS, before=True),
        column("P-Value", field="p_t"),
    ]


def shifts(group: str, subset: str) -> list[PaperColumn]:
    """The three columns of Table 2: mean beliefs, and p of their shift."""
    column = partial(PaperColumn, group, subset=subset, written=".2f")
    return [
        column("Base", metric="posterior_before"),
        column("Syc.", metric="posterior_after", p="p_t", stars=STARS, starred_by=("shift", subset), before=True),
        PaperColumn(group, "p", "shift", subset, "p_t", ".3f"),
    ]


def directions(group: str, subset: str) -> list[PaperColumn]:
    """What Figure 1 draws of one way of arguing."""
    return [
        PaperColumn(group, name, "incorrect", subset, share, ".1%", interval=f"intervals.{share}")
        for name, share in SHARES.items()
    ]


def tables(runs: Sequence[RunNumbers]) -> list[PaperTable]:
    """Tables 1 and 2 and what Figures 1 and 2 draw; the way of asking (directly, or k of 10) is a row."""
    by_arm = [
        one
        for name, column in COLUMNS.items()
        for arm, told in ARMS.items()
        for one in shifts(name if arm == "Overall" else f"{name}, {arm.lower()}", f"{told}, {column}")
    ]
    associations = [
        PaperColumn("", arm, "brier_vs_bayes", f"{told}, argument") for arm, told in ARMS.items() if arm != "Overall"
    ]
    shown = (
        ("Table 1", "Average errors.", [x for name, arm in ARMS.items() for x in errors(name, f"{arm}, argument")]),
        ("Table 2", "Impacts of sycophancy on the predicted posterior.", by_arm),
        ("Figure 1", DIRECTED, [x for told, subset in WHEN.items() for x in directions(told, subset)]),
        ("Figure 2", ASSOCIATED, associations),
    )
    notes = {
        "Table 1": error_notes(runs, [f"{arm}, argument" for arm in ARMS.values()]),
        "Table 2": [*SHIFTS, "Both arms together first, as published"],
    }
    return [
        by_method(runs, PAPER, number, caption, columns, notes=notes.get(number, ()))
        for number, caption, columns in shown
    ]
