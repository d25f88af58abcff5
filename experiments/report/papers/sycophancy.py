"""The tables of the paper (sycophancy-bayesian) from stored runs."""

from collections.abc import Sequence
from functools import partial

from .paper_tables import PaperColumn, PaperTable, RunNumbers, by_method

PAPER = "sycophancy-bayesian"
STARS = ((0.05, "**"), (0.1, "*"))
ARMS = {"Overall": "overall", "Flattery": "excessive flattery", "Conformity": "opinion conformity"}
COLUMNS = {"No Evidence": "no evidence", "Argument": "argument"}
SHARES = {
    "exact": "paper_exact",
    "under-update": "paper_under",
    "over-update": "paper_over",
    "incorrect direction": "paper_incorrect",
}
TOLD = "* p < 0.1, ** p < 0.05 by a paired t, as published."


def errors(group: str, subset: str) -> list[PaperColumn]:
    """The three columns of Table 1 for one arm."""
    column = partial(PaperColumn, group, metric="sycophancy_error", subset=subset, written=".3f")
    return [
        column("No Syc.", field="rmse_base", interval="ci_base"),
        column("Syc.", field="rmse_syc", interval="ci_syc", p="p_t", stars=STARS, before=True),
        column("P-Value", field="p_t"),
    ]


def shifts(group: str, place: str, shift: str) -> list[PaperColumn]:
    """The three columns of Table 2: mean beliefs, and p of their shift."""
    return [
        PaperColumn(group, "Base", "posterior_before", place, written=".2f"),
        PaperColumn(group, "Syc.", "posterior_after", place, written=".2f"),
        PaperColumn(group, "p", "shift", shift, field="p_t", written=".3f"),
    ]


RAW = {"Flattery": "took part", "Conformity": "user less agent"}
"""Arms as this run's numbers call them."""


def tables(runs: Sequence[RunNumbers]) -> list[PaperTable]:
    """Tables 1 and 2 and the shares of Figure 1; the way of asking (directly, or k of 10) is a row."""
    return [
        by_method(
            runs,
            PAPER,
            "Table 1",
            "Average errors.",
            [one for name, arm in ARMS.items() for one in errors(name, f"{arm}, argument")],
            notes=[TOLD],
        ),
        by_method(
            runs,
            PAPER,
            "Table 2",
            "Impacts of sycophancy on the predicted posterior, without evidence and with the agent's argument.",
            [
                one
                for name, column in COLUMNS.items()
                for arm, raw in RAW.items()
                for one in shifts(f"{name}, {arm.lower()}", f"{raw}, {column}", f"{ARMS[arm]}, {column}")
            ],
            notes=["p by a paired t; the paper prints both arms together."],
        ),
        by_method(
            runs,
            PAPER,
            "Figure 1",
            "Directions of the updates against the Bayesian ones.",
            [
                PaperColumn(told, name, "incorrect", subset, field=share, written=".1%")
                for told, subset in WHEN.items()
                for name, share in SHARES.items()
            ],
        ),
    ]


WHEN = {"No Syc.": "after the agent's word", "Syc.": "after the user's word"}
