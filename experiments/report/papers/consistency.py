"""The tables of the paper (belief-consistency) from stored runs."""

import re
from collections.abc import Sequence

from .paper_tables import DASH, THINK, PaperCell, PaperColumn, PaperTable, RunNumbers, by_method, cell_of

PAPER = "belief-consistency"
CONSISTENCY, ENTROPY, ERROR = "Consistency", "Entropy [bit]", "Verbal Error"
INVALID = "p invalid posterior"
LABELS = ("Model", THINK)


def main(subset: str) -> list[PaperColumn]:
    """The columns of Table 1, of all rejections or of those of one template. Instances whose two remaining options were
    never answered, before or after, are left out of every column, as published (App. A); only Table 8 keeps them.
    """
    return [
        PaperColumn(CONSISTENCY, "2 classes", "c2", subset),
        PaperColumn(CONSISTENCY, "3 classes", "c3_included", subset),
        PaperColumn("", INVALID, "p_invalid_included", subset, written=".2%"),
        PaperColumn(ENTROPY, "Prior", "entropy_prior_included", subset),
        PaperColumn(ENTROPY, "Posterior", "entropy_post_included", subset),
        PaperColumn(ERROR, "Prior", "p_error_prior_included", subset, written=".2%"),
        PaperColumn(ERROR, "Posterior", "p_error_post_included", subset, written=".2%"),
    ]


TEMPLATES = {"reject": "Is it X?", "narrow": "Is it either X or Y?"}
"""A template of ours -> what the paper calls it."""


def template(called: str) -> str:
    """Our name of a template that the paper's question names, whatever it calls the options; other names stay."""
    words = " ".join(re.findall(r"\w+", called.lower()))
    if re.fullmatch(r"is it either \w+ or \w+( yes)?", words):
        return "narrow"
    return "reject" if re.fullmatch(r"is it \w+( no)?", words) else called


AGREEMENTS = {"free against closed set": "closed set", "sampled against exact": "all"}
"""What is compared -> the subset of its numbers."""
WINDOWS = ("ranks 1-1000", "ranks 10001-11000")
"""The paper's; runs may have others."""
ASSOCIATION = "invalid_association"
PARTS = (("Norm.", "norm"), ("Weighted Norm.", "wnorm"))


def tables(runs: Sequence[RunNumbers]) -> list[PaperTable]:
    """Tables 1 to 9; a row for each way of reading, of which `free` is free-form and `letters` the closed set."""
    held = dict.fromkeys(
        subset for run in runs for _, _, subset in run.rows if subset.startswith("ranks ") and ", " not in subset
    )
    windows = [("Entity Likelihood", name.removeprefix("ranks "), name) for name in held or WINDOWS]
    evaluated = windows if held else [("", "posteriors", "all")]
    candidates = (("1 - JS Divergence", "c2"), ("MSE", "mse"), ("MAE", "mae"))
    columns = {
        "1": ("Main results; entropy of the two words that are left.", main("all")),
        "2": (
            "Comparison with other candidate consistency score evaluation functions.",
            [PaperColumn("", name, metric) for name, metric in candidates],
        ),
        "4": (
            "Consistency scores (2-class) for entity candidates with different likelihoods.",
            [PaperColumn(group, name, "c2", subset) for group, name, subset in windows],
        ),
        "5": ('Evaluation of prompt bias: "Is it X?" "No." only.', main("reject")),
        "6": ('Evaluation of prompt bias: "Is it either X or Y?" "Yes." only.', main("narrow")),
        "7": (
            "Calibration performance evaluated by the consistency score.",
            [
                PaperColumn(f"Calibration (2-class), {told}", name, f"agreement_{name.lower()}_included", subset)
                for told, subset in AGREEMENTS.items()
                for name in ("Prior", "Posterior")
            ],
        ),
        "8": (
            "Weighted invalid probabilities.",
            [
                *_invalid("prior", "p_rejected_prior"),
                *_invalid("post", "p_invalid_raw"),
                PaperColumn("", "Increase Rate", ASSOCIATION, written=".2%"),
                *(PaperColumn("prior vs posterior", x, ASSOCIATION, field=x.lower()) for x in ("Pearson", "Spearman")),
            ],
        ),
        "9": (
            "Number of evaluated posteriors.",
            [PaperColumn(group, name, "c2", subset, "n_rows", "d") for group, name, subset in evaluated],
        ),
    }
    made = [by_method(runs, PAPER, f"Table {n}", told, own, labels=LABELS) for n, (told, own) in columns.items()]
    return [*made[:2], _switches(runs), *made[2:]]


def _invalid(when: str, raw: str) -> list[PaperColumn]:
    """Three columns of Table 8: the rejected option, before or after."""
    name = f"p invalid {'prior' if when == 'prior' else 'posterior'}"
    norms = [
        PaperColumn(name, told, ASSOCIATION, field=f"{part}_{when}", written=".2%", balanced=part + when == "normprior")
        for told, part in PARTS
    ]
    return [PaperColumn(name, "Raw", raw, written=".2%"), *norms]


def _switches(runs: Sequence[RunNumbers]) -> PaperTable:
    """Table 3, where the ways of reading stand side by side."""
    wanted = [PaperColumn("", name, name.lower(), written=".1%") for name in ("Switch", "HSwitch")]
    wanted.append(PaperColumn("", "Entropy", "entropy_prior_included"))
    ways = dict.fromkeys(method for run in runs for metric, method, _ in run.rows if metric == "switch")
    names = {"free": "Free-form, exact", "free sampled": "Free-form", "letters": "Closed"}
    rows = []
    for run in runs:
        cells = [_marked(cell_of(run, way, column), run.mark(way)) for way in ways for column in wanted]
        if any(cell.text != DASH for cell in cells):
            rows.append(((run.model, "✓" if run.thinking else ""), cells))
    columns = [(names.get(way, way), column.name) for way in ways for column in wanted]
    caption = "Average probability of the selection switching from prior to posterior."
    return PaperTable(PAPER, "Table 3", caption, LABELS, columns, rows)


def _marked(cell: PaperCell, mark: str) -> PaperCell:
    """With the mark of a way of reading that this run cannot be read by: another run may be."""
    return cell if cell.text == DASH else cell._replace(text=f"{cell.text}{mark}")
