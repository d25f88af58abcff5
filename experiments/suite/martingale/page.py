"""What the report of a run shows beside the numbers."""

from collections.abc import Mapping, Sequence
from itertools import permutations, product
from typing import Any

import numpy as np
import pandas as pd

from ....base.text import or_dash
from ....metrics import MartingaleScore
from ....metrics.number import Number
from ....metrics.tables.belief_parts import BeliefTable
from ....metrics.tables.sample_rows import WHOLE
from ....metrics.tables.samples import ALL
from ...report.cells import as_row
from ...report.figures import Scores, chart, matrix, score_figure, scores_of
from ...report.findings import Column, Figure, Findings, Table
from ...report.marks import PALE, Axis, line, points, rule, unit
from ...report.papers.martingale import as_cells, setup_figure, setups
from ...report.plotting import DASHED, INK
from ...run.experiment import Transcripts
from ...run.paper_tables import numbers_of
from .ask import RECALL, questions
from .config import MartingaleConfig
from .readings import cell_names, pairs, readings
from .samples import MOST_SE, REACH, STATUSES, TRAJECTORIES
from .trajectories import METHOD, paths

M = Column(
    "M",
    "M, first to last",
    "slope of the update on the prior over whole trajectories, each cell with an "
    "intercept of its own; 0: the update cannot be foreseen from the prior. Its interval is a jackknife over "
    "questions (CR3), by t with G* - 1 degrees of freedom (1 at least)",
)
P = Column("M", "p of M", "p of M = 0, by t with G* - 1 degrees of freedom (1 at least)", field="p")
CARRY = Column("M", "G*", "effective number of questions that carry the slope", field="effective_clusters")
TESTED = Column("tests", "smallest p of three", "smallest adjusted p (Holm) of three tests, first to last: of M, "
                "the joint test of slope and mean, and the conditional-moment test (any shape)", field="p")  # fmt: skip
LEAST = Column(
    "M", "minimum detectable effect", "smallest |M| that this many questions would find with 80% power", field="mde"
)
COLUMNS = (
    M,
    P,
    CARRY,
    LEAST,
    TESTED,
    Column("M_balanced", "M per step, balanced", "the slope from each step to the next; all questions weigh the same"),
    Column(
        "mean_update",
        "mean update",
        "mean of posterior minus prior; a shift that all questions share does not change M",
    ),
    Column(
        "reliability_wording",
        "reliability over wordings",
        "share of the variance of the prior, asked for in one "
        "wording, that other wordings confirm; the rest is the amount by which reading in one wording lowers M",
    ),
    Column(
        "bias",
        "order bias",
        "P(first option) in one order of the options minus that in the other; for a claim, the framing bias",
    ),
    Column(
        "coverage",
        "coverage",
        "probability (of sampled answers the share) of answers that are one of the options, or a number",
        percent=True,
    ),
    Column(
        "unparsed",
        "unparsed",
        "share of the read-outs in which nothing can be parsed as a belief",
        percent=True,
    ),
)
TABLE_1 = (
    Column("M_step", "M per step, published", "slope of the update on the prior, step by step, over all rows"),
    Column(
        "M_step",
        "p as published",
        "p of the published slope if rows were independent and of equal variance, as papers print it",
        field="p_iid",
    ),
    Column(
        "M_balanced",
        "M within cells",
        "slope per step within cells; every question weighs the same; the error is CR3 by question",
    ),
    Column(
        "M_balanced",
        "p of M within cells",
        "p of M within cells = 0, by t with G* - 1 degrees of freedom (1 at least)",
        field="p",
    ),
    Column("M_balanced", "G*", "effective number of questions that carry the slope", field="effective_clusters"),
    Column("M_balanced", "minimum detectable effect", "smallest |M| that would be found with 80% power", field="mde"),
    Column(
        "M_iv",
        "M by split readings",
        "slope with the prior read twice, one reading as the instrument of the "
        "other, so that noise of a single reading cancels; `errors shared`: the same wordings read prior and "
        "posterior, so that what a wording adds to both does not cancel",
    ),
    Column(
        "M_corrected",
        "M corrected for noise",
        "estimate of the slope if the mean of both readings had no noise; "
        "the bootstrap draws slope and reliability together",
    ),
    Column(
        "reliability",
        "reliability over readings",
        "share of the variance of the prior, read once in one wording, "
        "that a second reading confirms; of sampled answers, the rest is by how much their noise lowers the slope",
    ),
    Column(
        "M",
        "p of |M| < 0.02",
        "p of the equivalence test that M, first to last, lies within 0.02 of zero",
        field="equivalence",
    ),
)
OUTCOMES = (
    Column(
        "brier_prior", "Brier before", "mean squared distance of the prior from the outcome; a belief of 0.5 has 0.25"
    ),
    Column("brier_post", "Brier after", "the same for the belief after the last step"),
    Column("brier_update", "change of Brier", "Brier after minus Brier before; negative is better"),
    Column(
        "brier_on_M",
        "Brier after per unit of M",
        "coefficient of a regression over cells, at equal Brier "
        "before: Brier after of half of the questions on the signed M of the other half",
    ),
    Column(
        "calibration",
        "calibration slope",
        "slope of the calibration of the prior; below 1 the prior is too extreme, which alone makes M < 0",
    ),
    Column(
        "truth_error",
        "distance from the truth",
        "mean distance of the belief from the posterior by Bayes' rule, where it is known",
    ),
    Column(
        "M_truth",
        "M of the truth",
        "slope per step of the true posterior on the same draws, which differs from 0 by chance alone",
    ),
)
MIXED = (
    M,
    Column("M", "M between cells", "slope of the mean updates of cells on their mean priors", field="M_between"),
    Column(
        "M",
        "variance between cells",
        "share of the variance of the priors that lies between cells",
        field="between_share",
    ),
    Column(
        "M",
        "M over all rows",
        "share x between + (1 - share) x within: the slope of a pooled regression",
        field="M_pooled",
    ),
)
FACTORS = (
    Column("M_at", "M, first to last", "mean slope if all rows had that level"),
    Column(
        "M_contrast",
        "M minus the first level",
        "the slope at this level minus the slope at the first level; t over the effective number of questions",
    ),
    Column(
        "M_contrast",
        "p of that difference",
        "p of the hypothesis that this level and the first have one slope",
        field="p",
    ),
)
MIXTURE = (
    "The slope over all rows mixes two slopes: the slope within cells, which is the headline, and the slope over the "
    "means of cells, in which differences between domains and prompts look like a foreseeable update."
)
DRIFT = (
    Column("drift2", "drift²", "mean squared drift of a question's chains, minus the part that sampling noise makes"),
)


def findings(
    config: MartingaleConfig, beliefs: BeliefTable, numbers: Sequence[Number], transcripts: Transcripts
) -> Findings:
    """Tables, figures, and the trajectories."""
    table = readings(beliefs)
    names = tuple(dict.fromkeys(cell_names(table)))
    levels = tuple(dict.fromkeys(number.subset for number in numbers if number.metric == "M_at"))
    drawn = setup_figure(as_cells(setups([numbers_of("", config, map(as_row, numbers), {})])))
    return Findings(
        question=_question(config, numbers),
        columns=COLUMNS,
        tables=[
            Table("By cell", "Domain, reasoning, system prompt.", COLUMNS, names),
            Table(
                "As the paper's Table 1",
                "The published number, per reasoning step, beside numbers that correct it. An interval that excludes "
                "zero does not show that updates can be foreseen where noise of reading lowers the slope: compare the "
                "split readings.",
                TABLE_1,
                names,
            ),
            *([Table("Within and between cells", MIXTURE, MIXED, (ALL,))] if len(names) > 1 else []),
            Table(
                "What came true",
                "These numbers need known outcomes, or a known true posterior.",
                OUTCOMES,
                (ALL, *names),
            ),
            Table(
                "Drift within a question",
                "Chains of one question that are sampled from the model itself must not move its belief on average.",
                DRIFT,
                names,
            ),
            Table(
                "Where does the slope differ?",
                "One regression of the update, first to last, over all cells.",
                FACTORS,
                levels,
            ),
        ],
        figures=[*figures(table, numbers, names, levels), *([drawn] if drawn else [])],
        gallery=paths(config, table, beliefs, transcripts),
    )


UNTESTED = "Drift within a question is not tested: it needs 8 chains at temperature 1, top-p 1, no other limit."
THOUGHTS = (
    "The model thought under the question of the method {}, with the options in their order; every method is read "
    "after the same thoughts, under its own question. Before any step the thought is empty."
)


def _question(config: MartingaleConfig, numbers: Sequence[Number]) -> str:
    """What was measured, on what, and what is wrong with it."""
    known = {(number.metric, number.method): number for number in numbers if number.subset == ALL}
    sampling, sampled = config.generation, {*config.reasoning} != {"evidence"}
    tested = config.tests_drift or not {"cot", "thought"} & {*config.reasoning}
    sentences = [
        "The model reasons about a question, or is shown evidence, step by step; after each step its belief is read, "
        "by several methods on the same steps. If only news moves a belief, its updates cannot be foreseen from the "
        "belief before: M, the slope of the update on the prior, is 0. With a positive M beliefs move away from the "
        "middle, with a negative M back to it. Each cell has an intercept of its own, since differences between cells "
        "would look like M in a pooled regression.",
        _attenuation(numbers),
        f"Steps were sampled at temperature {sampling.temperature:g}, top-p {sampling.top_p:g}." if sampled else "",
        "" if tested else UNTESTED,
        THOUGHTS.format(next(iter(config.methods))) if "thought" in config.reasoning else "",
        _judged(config),
        _endings(known),
        _recall(config),
        _control(known),
    ]
    return " ".join(filter(None, sentences))


def _judged(config: MartingaleConfig) -> str:
    """Who reads the steps, besides the model."""
    judges = config.stated.judges
    if not judges:
        return "No judge reads the steps: the model itself holds or states every belief."
    seen = {
        name: "all in one query" if plan.query == "trajectory" else "all" if plan.sees_all else "those so far"
        for name, plan in judges.items()
    }
    listed = "; ".join(f"{name} ({judge.model.name}) sees {seen[name]}" for name, judge in judges.items())
    return f"Judges: {listed}. The prior of a judge that sees later steps contains the posterior."


def _attenuation(numbers: Sequence[Number]) -> str:
    """What noise of reading alone would show."""
    below = {
        number.method: number.score.estimate
        for number in numbers
        if number.metric == "M" and number.subset == ALL and -1 < number.score.estimate < 0
    }
    each = ", ".join(f"{1 + slope:.2f} for {method}" for method, slope in below.items())
    return f"Noise in the prior alone would produce this M if its reliability were 1 + M: {each}." if each else ""


def _endings(known: Mapping[tuple[str, str], Number]) -> str:
    shares = {name: known[name, TRAJECTORIES].score for name in STATUSES}
    n = shares["empty"].n_rows
    counted = [f"{round(share.estimate * n)} {name}" for name, share in shares.items() if share.estimate > 0]
    return (
        f"Of {n} trajectories, {', '.join(counted)}; empty trajectories are dropped, the others kept."
        if counted
        else f"{n} trajectories."
    )


def _recall(config: MartingaleConfig) -> str:
    if "forecasting" not in config.sources:
        return ""
    dates = [question.resolved_on for domain, question in questions(config) if domain in (RECALL, "forecasting")]
    known = sorted(date for date in dates if date)
    span = f"were resolved between {known[0]} and {known[-1]}" if known else "have no date of resolution"
    return (
        f"Questions about events {span}; the model's training ended {config.cutoff or 'at an unknown date'}. What was "
        f"resolved by then may be remembered and is called {RECALL}."
    )


def _control(known: Mapping[tuple[str, str], Number]) -> str:
    if ("control_iv", METHOD) not in known:
        return ""
    control = [known[name, METHOD] for name in ("control_slope", "control_iv", "control_drift2")]
    slope, iv, drift = (number.score for number in control)
    passed = all(number.is_none for number in control[1:]) and iv.se <= MOST_SE
    return (
        "The negative control is a martingale by the tower rule. Its split-reading slope is "
        f"{iv.estimate:+.3f} (SE {iv.se:.3f}) and its drift² {drift.estimate:+.4f} (SE {drift.se:.4f}); that both are "
        f"equivalent to zero (within {REACH} and {REACH}², at an SE of the slope of at most {MOST_SE}) is "
        f"{'shown' if passed else 'not shown'}. The uncorrected slope is {slope.estimate:+.3f}, which noise makes."
    )


# The figures; none of methods that gave no belief.

SMALLEST_REACH = 0.01
"""Of an axis of updates; smaller ones are nothing to look at."""
MOST_LINES = 60
"""Trajectories in a panel; of more, the first."""


def figures(
    table: pd.DataFrame, numbers: Sequence[Number], names: Sequence[str], levels: Sequence[str]
) -> list[Figure]:
    """All of a run."""
    scores = scores_of(numbers)
    methods = [str(method) for method in table.loc[table["belief"].notna(), "method"].unique()]
    if not methods:
        return []
    ends = pairs(table, WHOLE)
    slopes = [
        ("Slope by cell", "M", names, "Slope of the update on the prior with its interval over questions; a "
         "martingale has 0."),
        ("What goes with a larger slope?", "M_at", levels, "Mean slope if all rows had that level. System prompt and "
         "reasoning were assigned; domains differ in their questions."),
    ]  # fmt: skip
    return [
        *(update_figure(ends[ends["method"] == method], method, scores) for method in methods),
        *(
            score_figure(title, scores, methods, [(s, metric, s) for s in subsets], M.title, caption, reference=0)
            for title, metric, subsets, caption in slopes
            if any(np.isfinite(scores[key].estimate) for key in product([metric], methods, subsets) if key in scores)
        ),
        path_figure(table[table["method"] == methods[0]], methods[0]),
        *([agreement_figure(scores, methods)] if len(methods) > 1 else []),
    ]


def update_figure(ends: pd.DataFrame, method: str, scores: Scores) -> Figure:
    """Update against prior, a panel for each cell, all of one scale (the paper's Figures 2 and 6)."""
    reach = float(f"{max([SMALLEST_REACH, *ends['update'].abs().dropna()]):.1g}")
    panels = []
    for name, rows in _by_cell(ends):
        marks = [rule(0, "martingale"), points(rows["prior"], rows["update"], "trajectory", alpha=PALE)]
        score = scores["M", method, name]
        assert isinstance(score, MartingaleScore)
        if np.isfinite(score.M) and rows["prior"].nunique() > 2:
            span = np.array([rows["prior"].min(), rows["prior"].max()])
            marks.append(line(span, score.intercept + score.M * span, "fit", width=1.6))
        panels.append((name, marks))
    ticks = (-reach, 0, reach)
    return chart(
        f"Can the update be foreseen? {method}",
        panels,
        "A dot is a trajectory: its first belief, and the last minus the first. The dashed line is a martingale, the "
        "solid line the fit.",
        x=unit("prior"),
        y=Axis("update", (-1.2 * reach, 1.2 * reach), ticks, [f"{tick:g}" for tick in ticks]),
    )


def path_figure(table: pd.DataFrame, method: str) -> Figure:
    """Belief after each step, a panel for each cell."""
    panels = []
    for name, rows in _by_cell(table):
        drawn = [path for _, path in rows.groupby(["item", "draw"], sort=False)][:MOST_LINES]
        marks = [line(path["step"], path["belief"], "trajectory", width=1, alpha=PALE, dots=1.5) for path in drawn]
        if rows["truth"].notna().any():
            truths = [truth for _, truth in rows.groupby("item", sort=False)]
            style: dict[str, Any] = {"color": INK, "width": 0.6, "style": DASHED}
            marks += [line(truth["step"], truth["truth"], "true posterior", **style) for truth in truths]
        panels.append((name, marks))
    return chart(
        f"Belief after each step: {method}",
        panels,
        f"A line is a trajectory, at most {MOST_LINES} in a panel. A dashed line is the true posterior, where it is "
        f"known.",
        x=Axis("step", whole=True),
        y=unit("belief"),
    )


def agreement_figure(scores: Scores, methods: Sequence[str]) -> Figure:
    """Concordance of every two methods, on beliefs and on updates."""
    panels = []
    for title, metric in (("beliefs", "agreement"), ("updates", "agreement_update")):
        written = {(i, i): "1.00" for i in range(len(methods))}
        for i, j in permutations(range(len(methods)), 2):
            score = scores.get((metric, "", f"{methods[i]} - {methods[j]}"))
            value = 0.0 if score is None else score.estimate
            if score is not None or (i, j) not in written:
                written[i, j] = written[j, i] = or_dash(value)
        panels.append((title, written))
    return matrix(
        "Do the methods agree?",
        panels,
        methods,
        "Lin's concordance of two methods in the same read-outs: 1 means the same numbers, 0 no agreement. Agreement "
        "of beliefs is partly due to differences between questions; agreement of updates is due to the steps.",
    )


def _by_cell(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    return [(str(name), rows) for name, rows in table.groupby(cell_names(table), sort=False)]
