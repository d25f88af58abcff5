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
    "slope of the update on the prior over whole trajectories, each cell with an intercept of its own; 0: nothing to "
    "foresee. By leaving out questions (CR3), t over those that carry it",
)
P = Column("M", "p of M", "of this slope, t over the questions that carry it", field="p")
CARRY = Column("M", "G*", "effective number of questions that carry the slope", field="effective_clusters")
TESTED = Column("tests", "p of any test", "smallest of this slope's, the joint and the conditional-moment test, first "
                "to last, adjusted (Holm)", field="p")  # fmt: skip
LEAST = Column("M", "minimum detectable effect", "smallest |M| that so many questions show with 80% power", field="mde")
COLUMNS = (
    M,
    P,
    CARRY,
    LEAST,
    TESTED,
    Column("M_balanced", "M per step", "the same from each step to the next, questions weighing the same"),
    Column("mean_update", "mean update", "posterior less prior; a drift that is the same for all is not in M"),
    Column("reliability_wording", "reliability", "of one wording, over paraphrases: 1 less it is how far one wording's "
           "noise pulls M down"),
    Column("bias", "order bias", "P(yes) with the options in one order less that in the other; of a claim, framing "
           "bias"),
    Column("coverage", "coverage", "probability, or share, of answers that count", percent=True),
    Column("unparsed", "no belief", "read-outs without any answer that can be parsed", percent=True),
)  # fmt: skip
TABLE_1 = (
    Column("M_step", "as published", "slope per step over all rows"),
    Column("M_step", "its p as published", "independent rows of equal spread, as papers print it", field="p_iid"),
    Column("M_balanced", "headline", "the same slope within cells, questions weighing the same, CR3 by question"),
    Column("M_balanced", "p of headline", "of this slope, t over the questions that carry it", field="p"),
    Column("M_balanced", "G*", "how many these are, in effect", field="effective_clusters"),
    Column("M_balanced", "minimum detectable effect", "smallest |M| found with 80% power", field="mde"),
    Column("M_iv", "split readings", "slope free of what only one of two readings of the prior has"),
    Column("M_corrected", "corrected", "slope had the mean of both readings no noise; slope and reliability drawn "
           "together"),
    Column("reliability", "reliability", "of one reading; of sampled answers 1 less it is how far their noise pulls "
           "the slope"),
    Column("M", "p of |M| < 0.02", "equivalence to zero of the slope from first to last", field="equivalence"),
)  # fmt: skip
OUTCOMES = (
    Column("brier_prior", "Brier before", "mean squared distance from what came true; 0.25 is a coin"),
    Column("brier_post", "Brier after", "the same after the last step"),
    Column("brier_update", "change", "after less before; negative is better"),
    Column("brier_on_M", "change per M", "over cells: Brier after on M, signed, of other questions, given Brier "
           "before"),
    Column("calibration", "calibration slope", "of the prior; below 1 beliefs are too extreme, and M < 0 follows"),
    Column("truth_error", "distance from the truth", "mean distance from the posterior by Bayes' rule, where it is "
           "known"),
    Column("M_truth", "M of the truth", "slope per step of the true posterior on the same draws: chance alone"),
)  # fmt: skip
MIXED = (
    M,
    Column("M", "between cells", "slope over the means of cells", field="M_between"),
    Column("M", "share between", "of the spread of the priors, that lies between cells", field="between_share"),
    Column("M", "over all rows", "share x between + (1 - share) x within: what pooling prints", field="M_pooled"),
)
FACTORS = (
    Column("M_at", "M, first to last", "mean slope had all rows had that level"),
    Column("M_contrast", "less the first", "the slope there less that at the first; t over the effective number of "
           "questions"),
    Column("M_contrast", "p of less the first", "of this difference", field="p"),
)  # fmt: skip
MIXTURE = (
    "The slope over all rows mixes two: that within cells, which leads, and that over the means of cells, where what "
    "differs between domains and prompts passes for a foreseeable update."
)
DRIFT = (Column("drift2", "drift²", "mean squared drift of a question's chains, sampling noise taken off"),)


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
                "The published number, per reasoning step, beside what may be said of it. An interval that leaves zero "
                "out is not enough where the noise of reading pulls the slope down: compare the split readings.",
                TABLE_1,
                names,
            ),
            *([Table("Within and between cells", MIXTURE, MIXED, (ALL,))] if len(names) > 1 else []),
            Table("What came true", "Where outcomes or the true posterior are known.", OUTCOMES, (ALL, *names)),
            Table(
                "Drift within a question",
                "Chains of one question, sampled as the model itself would go on, must not move its belief on average.",
                DRIFT,
                names,
            ),
            Table(
                "Where does the slope differ?",
                "One regression over all cells, of the update from first to last.",
                FACTORS,
                levels,
            ),
        ],
        figures=[*figures(table, numbers, names, levels), *([drawn] if drawn else [])],
        gallery=paths(config, table, beliefs, transcripts),
    )


UNTESTED = "Drift within a question is not tested: it needs 8 chains at temperature 1, top-p 1, no other limit."
THOUGHTS = (
    "Thoughts were had under the question of {}, with the options in their order, and all methods are read after the "
    "same ones, each under its own question. Before any step the thought is empty."
)


def _question(config: MartingaleConfig, numbers: Sequence[Number]) -> str:
    """What was measured, on what, and what is wrong with it."""
    known = {(number.metric, number.method): number for number in numbers if number.subset == ALL}
    sampling, sampled = config.generation, {*config.reasoning} != {"evidence"}
    tested = config.tests_drift or not {"cot", "thought"} & {*config.reasoning}
    sentences = [
        "The model reasons about a question, or is shown evidence, step by step; after each step its belief is read, "
        "by several methods on the same steps. If nothing but news moves a belief, its updates cannot be foreseen from "
        "the belief before: M, the slope of the update on the prior, is 0. A positive M moves away from the middle, a "
        "negative one back to it. Each cell has an intercept of its own: pooled, what cells differ by passes for M.",
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
        return "No judge reads the steps: every belief is one that the model itself holds or states."
    seen = {
        name: "all in one query" if plan.query == "trajectory" else "all" if plan.sees_all else "those so far"
        for name, plan in judges.items()
    }
    listed = "; ".join(f"{name} ({judge.model.name}) sees {seen[name]}" for name, judge in judges.items())
    return f"Judges: {listed}. Who sees later steps has a prior that knows the posterior."


def _attenuation(numbers: Sequence[Number]) -> str:
    """What noise of reading alone would show."""
    below = {
        number.method: number.score.estimate
        for number in numbers
        if number.metric == "M" and number.subset == ALL and -1 < number.score.estimate < 0
    }
    each = ", ".join(f"{1 + slope:.2f} for {method}" for method, slope in below.items())
    return f"A prior reading of reliability 1 + M would show an M below 0 alone: {each}." if each else ""


def _endings(known: Mapping[tuple[str, str], Number]) -> str:
    shares = {name: known[name, TRAJECTORIES].score for name in STATUSES}
    n = shares["empty"].n_rows
    counted = [f"{round(share.estimate * n)} {name}" for name, share in shares.items() if share.estimate > 0]
    return f"Of {n} trajectories, {', '.join(counted)} (kept, but for the empty)." if counted else f"{n} trajectories."


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
        f"Negative control, a martingale by the tower rule: split-reading slope {iv.estimate:+.3f} (SE {iv.se:.3f}), "
        f"drift² {drift.estimate:+.4f} (SE {drift.se:.4f}); equivalent to zero within {REACH}, and {REACH}², at an SE "
        f"of the slope of at most {MOST_SE}: "
        f"{'yes' if passed else 'not shown'}. Uncorrected slope {slope.estimate:+.3f}: what the noise makes of it."
    )


# The figures; none of methods that gave no belief.

SMALLEST_REACH = 0.01
"""Of an axis of updates; smaller ones are nothing to look at."""
MOST_LINES = 60
"""Trajectories in a panel; of more, the first."""


def figures(
    table: pd.DataFrame, numbers: Sequence[Number], names: Sequence[str], levels: Sequence[str]
) -> list[Figure]:
    """All of a run.

    Args:
        table: the readings.
        numbers: of the run.
        names: of the cells.
        levels: of the factors.
    """
    scores = scores_of(numbers)
    methods = [str(method) for method in table.loc[table["belief"].notna(), "method"].unique()]
    if not methods:
        return []
    ends = pairs(table, WHOLE)
    slopes = [
        ("Slope by cell", "M", names, "Slope of the update on the prior with its interval over questions; 0 is a "
         "martingale."),
        ("What goes with a larger slope?", "M_at", levels, "Mean slope had all rows had that level. System prompt and "
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
        "A dot is a trajectory: its first belief, and how much its last adds. Dashed: a martingale; solid: the fit.",
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
        f"A line is a trajectory, at most {MOST_LINES} in a panel. Dashed: the true posterior, where it is known.",
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
        "Lin's concordance of two methods at the same places: 1 is the same number, 0 none of it. On beliefs much of "
        "it is which question is which; on updates it is what the steps did.",
    )


def _by_cell(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    return [(str(name), rows) for name, rows in table.groupby(cell_names(table), sort=False)]
