"""The tables of the paper (rational-agents) from stored runs; of several data sets also the means over them."""

from collections.abc import Sequence
from dataclasses import replace

from .paper_tables import DASH, PaperCell, PaperColumn, PaperTable, RunNumbers, by_method, mean_cell

PAPER = "rational-agents"
CMI = "kNN CMI"
GAIN, GIVEN = "CB: A ~ p v. A ~ (p, θ)", "CB: A ~ (p, x) v. A ~ (p, x, θ)"
LAW = {"beliefs": "lie_ratio", "random forests": "lie_ratio_forest"}
PAIRS = {"Y/(N+Y)": "Yes against No", "Y/(D+Y)": "Yes against Defer", "D/(N+D)": "Defer against No"}
PROMPTS = {"MSE": "prompt squared", "Abs": "prompt absolute", "Bayes": "prompt bayesian"}
TRUTH = {"MSE": PROMPTS["MSE"], "Bayesian": PROMPTS["Bayes"], "Absolute": PROMPTS["Abs"]}
STRADDLES = (
    "The isotonic map gives one value to beliefs on both sides of an action threshold, which alone puts an agent "
    "who acts only on the belief above 0"
)
LEARNERS = (
    "CMI: information, in nats, that action and outcome share beyond the belief, by nearest neighbours. CB: boosted "
    "trees predict the action A from the belief p, or from p and the evidence x; % Impr: by how much the outcome θ "
    "improves their log-loss"
)
SPREADS = (
    "π_0: the belief under the standard prompt, and Std its standard deviation over repetitions; MSE, Abs and Bayes: "
    "the belief under prompts that pay by squared loss, by absolute loss, or tell of Bayes' rule"
)
WITHOUT = "with the outcome"
CONTROL = "with the outcome, given the evidence (control)"


def tables(runs: Sequence[RunNumbers]) -> list[PaperTable]:
    """Tables 1 to 5 and Figure 2; of several data sets Tables 3 and 4 end with the mean over them."""
    rmse = "RMSE: diff π vs π_0"
    found = [
        (
            "Table 1",
            "Conditional-independence (belief sufficiency) tests.",
            [
                PaperColumn(CMI, "CMI", "cmi_knn"),
                PaperColumn(GAIN, "% Impr", "logloss_gain", WITHOUT, "pct", ".2f", interval="pct_ci"),
                PaperColumn(GIVEN, "% Impr", "logloss_gain", CONTROL, "pct", ".2f", interval="pct_ci"),
            ],
        ),
        (
            "Table 2",
            "Monotone pairwise choice: significant violation rates, in %.",
            [PaperColumn("", name, "order_pairs", subset, written=".1%") for name, subset in PAIRS.items()],
        ),
        (
            "Table 3",
            "Prompt-consistency metrics.",
            [
                PaperColumn("π_0", "Std", "prize_effect", PROMPTS["MSE"], "sd_pooled", repeated=True, interval="ci_sd"),
                *(
                    PaperColumn(rmse, name, "prize_effect", subset, "rmse_means", interval="ci_means")
                    for name, subset in PROMPTS.items()
                ),
            ],
        ),
        (
            "Table 4",
            "RMSE vs. ground truth by model.",
            [PaperColumn("", name, "rmse_truth", subset) for name, subset in {"Standard": "all", **TRUTH}.items()],
        ),
        (
            "Table 5",
            "kNN CMI for raw vs. isotonic-calibrated elicited beliefs.",
            [PaperColumn("CMI (Raw p)", "CMI", "cmi_knn"), PaperColumn("CMI (Isotonic p)", "CMI", "cmi_knn_isotonic")],
        ),
        (
            "Figure 2",
            "Internal consistency error via the law of iterated expectation.",
            [PaperColumn("median of Δ / p", name, metric) for name, metric in LAW.items()],
        ),
    ]
    head = ("Dataset / Model",) if len({run.dataset for run in runs}) > 1 else ("Model",)
    notes = {"Table 1": [LEARNERS], "Table 3": [SPREADS], "Table 5": [STRADDLES]}
    made = [
        by_method(runs, PAPER, number, told, columns, labels=head, notes=notes.get(number, ()))
        for number, told, columns in found
    ]
    return [_with_means(table, runs) if table.number in ("Table 3", "Table 4") else table for table in made]


def _with_means(table: PaperTable, runs: Sequence[RunNumbers]) -> PaperTable:
    """The table with the mean of each model and method over the data sets, and of all."""
    if len({run.dataset for run in runs}) < 2:
        return table
    rows = list(table.rows)
    ways = dict.fromkeys(labels[-1] for labels, _ in rows)
    for model in [*dict.fromkeys(run.model for run in runs), ""]:
        names = {
            f"{run.dataset}-{run.model}{run.mark(way)}" for run in runs for way in ways if model in ("", run.model)
        }
        for way in ways:
            own = [cells for labels, cells in table.rows if labels[-1] == way and labels[0] in names]
            if own:
                means = [
                    PaperCell() if any(x.text == DASH for x in column) else mean_cell(column, apart=bool(model))
                    for column in zip(*own, strict=True)
                ]
                rows.append(((f"Mean: {model}" if model else "Overall mean", way), means))
    return replace(table, rows=rows)
