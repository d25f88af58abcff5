"""What the report of a run shows beside the numbers."""

from collections.abc import Mapping, Sequence

from ..experiment import Column, Findings, Table, Transcripts
from ..scoring.number import Number
from ..tables.belief_parts import BeliefTable
from ..tables.samples import ALL
from .config import MartingaleConfig
from .control import MOST_SE, REACH
from .doob import METHOD
from .figures import figures
from .gallery import gallery
from .scores import STATUSES, TRAJECTORIES
from .sources import RECALL, questions
from .table import cell_names, readings

M = Column(
    "M",
    "M, first to last",
    "slope of the update on the prior over whole trajectories, each cell with an intercept of its own; 0: nothing to "
    "foresee. By leaving out questions (CR3), t over those that carry it",
)
P = Column("M", "p of M", "of this slope, t over the questions that carry it", field="p")
CARRY = Column("M", "G*", "effective number of questions that carry the slope", field="effective_clusters")
TESTED = Column(
    "tests_step",
    "p of any test",
    "smallest of slope, joint and conditional-moment test per step, adjusted (Holm)",
    field="p",
)
LEAST = Column("M", "minimum detectable effect", "smallest |M| that so many questions show with 80% power", field="mde")
COLUMNS = (
    M,
    P,
    CARRY,
    LEAST,
    TESTED,
    Column("M_balanced", "M per step", "the same from each step to the next, questions weighing the same"),
    Column("mean_update", "mean update", "posterior less prior; a drift that is the same for all is not in M"),
    Column(
        "reliability_wording",
        "reliability",
        "of one wording, over paraphrases: 1 less it is how far one wording's noise pulls M down",
    ),
    Column(
        "bias", "order bias", "P(yes) with the options in one order less that in the other; of a claim, framing bias"
    ),
    Column("coverage", "coverage", "probability, or share, of answers that count", percent=True),
    Column("unparsed", "no number", "read-outs without a belief", percent=True),
)
TABLE_1 = (
    Column("M_step", "as published", "slope per step over all rows"),
    Column("M_step", "its p as published", "independent rows of equal spread, as papers print it", field="p_iid"),
    Column("M_balanced", "headline", "the same slope within cells, questions weighing the same, CR3 by question"),
    Column("M_balanced", "p of headline", "of this slope, t over the questions that carry it", field="p"),
    Column("M_balanced", "G*", "how many these are, in effect", field="effective_clusters"),
    Column("M_balanced", "minimum detectable effect", "smallest |M| found with 80% power", field="mde"),
    Column("M_iv", "split readings", "slope free of what only one of two readings of the prior has"),
    Column(
        "M_corrected", "corrected", "slope had the mean of both readings no noise; slope and reliability drawn together"
    ),
    Column(
        "reliability",
        "reliability",
        "of one reading; of sampled answers 1 less it is how far their noise pulls the slope",
    ),
    Column("M", "p of |M| < 0.02", "equivalence to zero of the slope from first to last", field="equivalence"),
)
OUTCOMES = (
    Column("brier_prior", "Brier before", "mean squared distance from what came true; 0.25 is a coin"),
    Column("brier_post", "Brier after", "the same after the last step"),
    Column("brier_update", "change", "after less before; negative is better"),
    Column(
        "brier_on_M", "change per M", "over cells: Brier after on M, signed, of other questions, given Brier before"
    ),
    Column("calibration", "calibration slope", "of the prior; below 1 beliefs are too extreme, and M < 0 follows"),
    Column(
        "truth_error",
        "distance from the truth",
        "mean distance from the posterior by Bayes' rule, where it is known",
    ),
    Column("M_truth", "M of the truth", "slope per step of the true posterior on the same draws: chance alone"),
)
MIXED = (
    M,
    Column("M", "between cells", "slope over the means of cells", field="M_between"),
    Column("M", "share between", "of the spread of the priors, that lies between cells", field="between_share"),
    Column("M", "over all rows", "share x between + (1 - share) x within: what pooling prints", field="M_pooled"),
)
FACTORS = (
    Column("M_at", "M, first to last", "mean slope had all rows had that level"),
    Column(
        "M_contrast",
        "less the first",
        "the slope there less that at the first; t over the effective number of questions",
    ),
    Column("M_contrast", "p of less the first", "of this difference", field="p"),
)
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
        figures=figures(table, numbers, names, levels),
        gallery=gallery(config, table, beliefs, transcripts),
    )


def _question(config: MartingaleConfig, numbers: Sequence[Number]) -> str:
    """What was measured, on what, and what is wrong with it."""
    found = {(number.metric, number.method): number for number in numbers if number.subset == ALL}
    sampling = config.generation
    told = [
        "The model reasons about a question, or is shown evidence, step by step; after each step its belief is read, "
        "by several methods on the same steps. If nothing but news moves a belief, its updates cannot be foreseen from "
        "the belief before: M, the slope of the update on the prior, is 0. A positive M moves away from the middle, a "
        "negative one back to it. Each cell has an intercept of its own: pooled, what cells differ by passes for M.",
        _attenuation(numbers),
        f"Steps were sampled at temperature {sampling.temperature:g}, top-p {sampling.top_p:g}.",
        _drift_note(config),
        _thought_note(config),
        _endings(found),
        _recall(config),
        _control(found),
    ]
    return " ".join(filter(None, told))


def _attenuation(numbers: Sequence[Number]) -> str:
    """What noise of reading alone would show."""
    below = {
        number.method: number.score.estimate
        for number in numbers
        if number.metric == "M" and number.subset == ALL and -1 < number.score.estimate < 0
    }
    said = ", ".join(f"{1 + slope:.2f} for {method}" for method, slope in below.items())
    return f"A prior reading of reliability 1 + M would show an M below 0 alone: {said}." if said else ""


def _drift_note(config: MartingaleConfig) -> str:
    if config.tests_drift or not {"cot", "thought"} & {*config.reasoning}:
        return ""
    return "Drift within a question is not tested: it needs 8 chains at temperature 1, top-p 1, no other limit."


def _thought_note(config: MartingaleConfig) -> str:
    if "thought" not in config.reasoning:
        return ""
    return (
        f"Thoughts were had under the question of {next(iter(config.methods))}, with the options in their order, and "
        "all methods are read after the same ones, each under its own question. Before any step the thought is empty."
    )


def _endings(found: Mapping[tuple[str, str], Number]) -> str:
    shares = {name: found[name, TRAJECTORIES].score for name in STATUSES}
    n = shares["empty"].n_rows
    counted = [f"{round(share.estimate * n)} {name}" for name, share in shares.items() if share.estimate > 0]
    return f"Of {n} trajectories, {', '.join(counted)} (kept, but for the empty)." if counted else f"{n} trajectories."


def _recall(config: MartingaleConfig) -> str:
    if "forecasting" not in config.domains:
        return ""
    dates = [one.resolved_on for domain, one in questions(config) if domain in (RECALL, "forecasting")]
    known = sorted(date for date in dates if date)
    span = f"were resolved between {known[0]} and {known[-1]}" if known else "have no date of resolution"
    return (
        f"Questions about events {span}; the model's training ended {config.cutoff or 'at an unknown date'}. What was "
        f"resolved by then may be remembered and is called {RECALL}."
    )


def _control(found: Mapping[tuple[str, str], Number]) -> str:
    if ("control_iv", METHOD) not in found:
        return ""
    control = [found[name, METHOD] for name in ("control_slope", "control_iv", "control_drift2")]
    slope, iv, drift = (number.score for number in control)
    passed = all(number.is_none for number in control[1:]) and iv.se <= MOST_SE
    return (
        f"Negative control, a martingale by the tower rule: split-reading slope {iv.estimate:+.3f} (SE {iv.se:.3f}), "
        f"drift² {drift.estimate:+.4f} (SE {drift.se:.4f}); equivalent to zero within {REACH}, and {REACH}², at an SE "
        f"of the slope of at most {MOST_SE}: "
        f"{'yes' if passed else 'not shown'}. Uncorrected slope {slope.estimate:+.3f}: what the noise makes of it."
    )
