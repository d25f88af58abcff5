"""The tables of the paper (belief-consistency) from stored runs."""

from collections.abc import Sequence

from .paper_tables import PaperColumn, PaperTable, RunNumbers, by_method

PAPER = "belief-consistency"
CONSISTENCY, ENTROPY, ERROR = "Consistency", "Entropy [bit]", "Verbal Error"
INVALID = "p invalid posterior"
LABELS = ("Model", "Think")


def main(subset: str) -> list[PaperColumn]:
    """The columns of Table 1, of all rejections or of those of one template."""
    return [
        PaperColumn(CONSISTENCY, "2 classes", "c2", subset),
        PaperColumn(CONSISTENCY, "3 classes", "c3", subset),
        PaperColumn("", INVALID, "p_invalid_included", subset, written=".2%"),
        PaperColumn(ENTROPY, "Prior", "entropy_prior", subset),
        PaperColumn(ENTROPY, "Posterior", "entropy_post", subset),
        PaperColumn(ERROR, "Prior", "p_error_prior", subset, written=".2%"),
        PaperColumn(ERROR, "Posterior", "p_error_post", subset, written=".2%"),
    ]


def tables(runs: Sequence[RunNumbers]) -> list[PaperTable]:
    """Tables 1 to 9; a row for each way of reading, of which `free` is free-form and `closed` the closed set."""
    windows = dict.fromkeys(subset for run in runs for _, _, subset in run.rows if subset.startswith("ranks "))
    found = [
        ("1", "Main results.", main("all")),
        (
            "2",
            "Comparison with other candidate consistency score evaluation functions.",
            [
                PaperColumn("", name, metric)
                for name, metric in (("1 - JS Divergence", "c2"), ("MSE", "mse"), ("MAE", "mae"))
            ],
        ),
        (
            "3",
            "Average probability of the selection switching from prior to posterior.",
            [
                *(PaperColumn("", name, name.lower(), written=".1%") for name in ("Switch", "HSwitch")),
                PaperColumn("", "Entropy", "entropy_prior"),
            ],
        ),
        (
            "4",
            "Consistency scores (2-class) for entity candidates with different likelihoods.",
            [
                PaperColumn("Entity Likelihood", name, "c2", name)
                for name in windows or ("ranks 1-1000", "ranks 10001-11000")
            ],
        ),
        ("5", 'Evaluation of prompt bias: "Is it X?" "No." only.', main("reject")),
        ("6", 'Evaluation of prompt bias: "Is it either X or Y?" "Yes." only.', main("narrow")),
        (
            "7",
            "Calibration performance evaluated by the consistency score.",
            [
                PaperColumn(f"Calibration (2-class), {told}", name, f"agreement_{name.lower()}", subset)
                for told, subset in AGREEMENTS.items()
                for name in ("Prior", "Posterior")
            ],
        ),
        (
            "8",
            "Weighted invalid probabilities.",
            [
                PaperColumn("posterior", "Raw", "p_invalid_raw", written=".2%"),
                *(
                    PaperColumn("prior", name, ASSOCIATION, field=f"{part}_prior", written=".2%")
                    for name, part in PARTS
                ),
                *(
                    PaperColumn("posterior", name, ASSOCIATION, field=f"{part}_post", written=".2%")
                    for name, part in PARTS
                ),
                PaperColumn("", "Increase Rate", ASSOCIATION, field="increase_rate", written=".2%"),
                *(PaperColumn("prior vs posterior", x, ASSOCIATION, field=x.lower()) for x in ("Pearson", "Spearman")),
            ],
        ),
        ("9", "Number of evaluated posteriors.", [PaperColumn("", "posteriors", "c2", field="n_rows", written="d")]),
    ]
    return [
        by_method(runs, PAPER, f"Table {number}", caption, columns, labels=LABELS) for number, caption, columns in found
    ]


AGREEMENTS = {"free against closed set": "closed set", "sampled against exact": "all"}
"""What is compared -> the subset of its numbers."""
ASSOCIATION = "invalid_association"
PARTS = (("Norm.", "norm"), ("Weighted Norm.", "wnorm"))
