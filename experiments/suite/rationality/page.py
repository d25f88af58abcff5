"""What the report of a run shows beside the numbers, with its contexts."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pandas as pd

from ....base.text import or_dash
from ....metrics import adjust, isotonic_calibration, lie, monotone_pairwise, quantile_bins
from ....metrics.contract import Floats
from ....metrics.number import Number
from ....metrics.tables.samples import ALL
from ...report.figures import Panel, chart, forest, matrix, scores_of, spreads
from ...report.findings import Column, Figure, Findings, Gallery, Instance, Table
from ...report.marks import AWAY, PALE, Axis, Mark, around, diagonal, line, points, unit
from ...report.plotting import MARK
from ...run.experiment import Transcripts
from ...run.galleries import gallery
from .ask import LINE_1
from .config import STANDARD, RationalityConfig
from .samples import (
    BEYOND,
    CONTROL,
    OUTCOME,
    Actions,
    MethodBeliefs,
    actions,
    cases_of,
    detailed,
    methods,
    prompted,
    repeated,
)
from .scores import BINS, FOREST, PAIRS, RESPONSE

COLUMNS = (
    Column(
        "sufficiency",
        "sufficiency",
        "share of the yes-or-no choice that a rising function of the belief predicts "
        "in other contexts; 1: the belief could be all that is acted on, below 0: worse than their mean",
    ),
    Column(
        "knows_more",
        "knows more",
        "correlation of choice and truth once the belief is known; above 0: the choice "
        "knows more of the truth than the belief tells",
    ),
    Column(
        "knows_more",
        "p of knowing more",
        "p of `knows more`, by permutation among contexts of similar belief",
        field="p",
    ),
    Column(
        "cyclic",
        "least irrationality",
        "distance of the three actions from any random-utility choice by this belief; 0: some utilities explain them",
        field="rms",
    ),
    Column(
        "weighting",
        "weighting",
        "exponent of the probability weighting that fits the choices best, with logistic "
        "noise in them; 1: beliefs are used as they are",
    ),
    Column(
        RESPONSE, "response to the truth", "slope of the belief on the true chance; 0: it does not respond to evidence"
    ),
    Column("rmse_truth", "distance from the truth", "root mean square distance of the belief from the true chance"),
    Column(
        "coverage", "coverage", "probability (of sampled answers the share) of answers that can be read", percent=True
    ),
)
SUFFICIENCY = (
    Column(
        "cmi_exact",
        "CMI, exact",
        "information, in nats, of choice and outcome beyond the belief, by exact "
        "choices and true chances; never below 0",
    ),
    Column("cmi_policy", "CMI, three actions", "`CMI, exact` with the actions yes, no and defer"),
    Column(
        "gcm_exact",
        "GCM, z",
        "covariance of exact choice and true chance beyond rising functions of the belief; "
        "standard normal if there is none",
        field="T",
    ),
    Column(
        "cmi",
        "CMI, drawn",
        "`CMI, exact` estimated from one drawn action and outcome, minus its mean under permutation",
    ),
    Column("cmi", "p of CMI, drawn", "p by permutation among contexts of similar belief", field="p"),
    Column(
        "cmi_isotonic",
        "CMI, recalibrated",
        "`CMI, exact` beyond the recalibrated belief (mapped to frequencies, fitted on other contexts)",
    ),
    Column(
        "sufficiency_r2",
        "explained in bins",
        "share of the choice that the belief explains when fifteen similar beliefs are one bin",
    ),
)
GAIN = (
    Column(
        "logloss_gain", "gain, nats", "log-loss of the action predicted without the outcome minus with it, out of fold"
    ),
    Column("logloss_gain", "log-loss before", "log-loss without the outcome", field="ll1"),
    Column(
        "logloss_gain",
        "log-loss by frequencies",
        "log-loss of the frequencies of actions alone; a prediction that is worse shows nothing",
        field="ll_marginal",
    ),
)
ORDER = (
    Column(
        "discordant_pair",
        "against the order",
        "share of pairs of contexts in which the higher belief goes with the lower share of the first action",
        percent=True,
    ),
    Column(
        "discordant_pair",
        "Kendall's tau",
        "Kendall's tau of belief and share of the first action; 0: choices ignore the belief",
        field="tau",
    ),
    Column(
        "discordant_pair",
        "off a rising curve",
        "root mean square distance of the share from the nearest curve that rises with the belief",
        field="iso_rms",
    ),
)
PRIZE = (
    Column(
        "prize_effect",
        "effect of the prompt",
        "mean square of the change by the prompt, minus the mean square by which repetitions differ",
    ),
    Column("prize_effect", "RMS change", "root mean square of the change, as published", field="rmse_means"),
    Column("prize_effect", "mean shift", "belief with the prompt minus without it", field="mean_shift"),
    Column("rmse_truth", "distance from the truth", "distance of the belief from the true chance, under the prompt"),
    Column("brier", "Brier", "mean squared distance of the belief from the outcome"),
    Column("calibration", "calibration slope", "slope of the outcome on the belief; below 1 the belief is too extreme"),
)
CASES = (
    Column("lie", "gap to its cases", "belief minus the belief that its cases imply; 0 is coherent"),
    Column("lie_size", "size of the gap", "mean size of the gap"),
    Column("lie_ratio", "size of the gap / belief", "median, as published (Figure 2), with the interval of a median"),
    Column(
        "outside_hull",
        "outside its cases",
        "share of beliefs that lie outside those given their cases: wrong whatever the weights",
        percent=True,
    ),
    Column("excess", "sum minus 1", "sum of the numbers that are stated on lines of their own, minus 1"),
)
READINGS = (
    Column(
        "reliability",
        "reliability",
        "ICC of two halves of the readings (orders, or sampled answers); weak where "
        "its interval reaches 0: then it is the bias of an order, and no share",
    ),
    Column("bias", "order bias", "P(yes) with the answers in one order minus P(yes) in the other"),
    Column(
        "unparsed",
        "unparsed",
        "share of the read-outs in which nothing can be parsed as a belief",
        percent=True,
    ),
    Column("brier", "Brier", "mean squared distance of the belief from the outcome"),
    Column("calibration", "calibration slope", "slope of the outcome on the belief; below 1 the belief is too extreme"),
)


def tables(prompts: Sequence[str]) -> list[Table]:
    """All but the first; `prompts` are the subsets of the prompts that are compared with the standard one."""
    return [
        Table(
            "Does the choice know more than the belief?",
            "Proposition 1: given the belief, choice and outcome are independent for any expected-utility maximiser. "
            "The exact numbers have no sampling noise.",
            SUFFICIENCY,
            (ALL,),
        ),
        Table(
            "Does the outcome help to predict the action?",
            "The paper's test, with three actions; a context is never split between folds. In the control the learner "
            "knows the evidence, so that the outcome cannot add anything: its gain shows what the learner failed to "
            "learn.",
            GAIN,
            (OUTCOME, CONTROL),
        ),
        Table(
            "Do choices rise with the belief, pair by pair?",
            "A test of Proposition 2, which needs independence of irrelevant alternatives; it takes exact choices and "
            "no bins.",
            ORDER,
            tuple(PAIRS),
        ),
        Table(
            "Does it matter how the belief is paid for?",
            "Squared and log loss ask for the same report. Under absolute loss an agent should report 0 or 1, so that "
            "it is the control in which the report ought to move.",
            PRIZE,
            tuple(prompts),
        ),
        Table(
            "Is a belief the mean of the beliefs given each case?",
            "The belief is compared with the mean of the beliefs given each state of a further covariate, weighted by "
            "the chances that the model gives to these states.",
            CASES,
            (ALL,),
        ),
        Table(
            "How well is the belief read?", "Readings under the standard prompt.", READINGS, (ALL,), metric="unparsed"
        ),
    ]


# The contexts that a reader can look at: what the model said, held and did.


def contexts(
    config: RationalityConfig, every: Sequence[MethodBeliefs], acts: Actions, transcripts: Transcripts
) -> Gallery | None:
    """Every context, or a sample; those whose choice the first belief explains least come first."""
    if not every:
        return None
    first = every[0]
    gap = np.abs(acts.forced - isotonic_calibration(first.belief, acts.forced, acts.items, seed=config.seed))
    headings = _asked(config)
    return gallery(
        gap,
        lambda i: [f"{acts.items[i]}/{end}" for end in headings],
        lambda i, said: Instance(
            facets=[_fifth(float(acts.truth[i])), ("No", "Defer", "Yes")[int(np.argmax(acts.tree[i]))]],
            score=float(gap[i]),
            facts=_facts(i, every, acts),
            conversations=[(headings[name.partition("/")[2]], transcript) for name, transcript in said.items()],
        ),
        transcripts,
        facets=["true chance", "likeliest action"],
        score="choice not explained",
        ranking=f"contexts; those whose choice the belief by {first.method} explains least come",
        seed=config.seed,
    )


def _asked(config: RationalityConfig) -> dict[str, str]:
    """End of a read-out's name -> heading: one belief that is held, what is said, and the decision."""
    method = next(iter(config.methods))
    formats = dict.fromkeys((*config.said.numbers, *config.said.sampled))
    stated = {f"{STANDARD}/{name}": f"said: {name}" for name in formats}
    return {f"{STANDARD}/{method}.0": f"held: {method}", **stated, f"{LINE_1}.0": "did"}


def _facts(i: int, every: Sequence[MethodBeliefs], acts: Actions) -> str:
    no, defer, yes = acts.tree[i]
    beliefs = ", ".join(f"{method.method} {or_dash(method.belief[i])}" for method in every)
    return (
        f"true chance {acts.truth[i]:.2f}, came true: {'yes' if acts.outcome[i] else 'no'}; belief {beliefs}; did: yes "
        f"{or_dash(yes)}, no {or_dash(no)}, defer {or_dash(defer)}; forced to decide, yes {or_dash(acts.forced[i])}"
    )


def _fifth(truth: float) -> str:
    low = min(int(truth * 5), 4)
    return f"{low / 5:.1f} to {(low + 1) / 5:.1f}"


ALPHA = 0.05


def findings(
    config: RationalityConfig, beliefs: pd.DataFrame, numbers: Sequence[Number], transcripts: Transcripts
) -> Findings:
    """Tables, figures, and the patients."""
    table = detailed(beliefs)
    acts = actions(config, table)
    every = list(methods(table, acts.items))
    return Findings(
        question=_question(config, numbers),
        columns=COLUMNS,
        tables=tables([prompted(name) for name in config.prompts if name != STANDARD]),
        figures=figures(config, every, acts, numbers, table),
        gallery=contexts(config, every, acts, transcripts),
    )


def terms(_: RationalityConfig) -> list[tuple[str, str]]:
    """What is asked of a context, by the names that verdicts have for it."""
    return [
        ("belief", "the question for the belief"),
        ("lines", "the decision in two lines: whether to decide, then which way"),
        *((f"menu of {n}", f"the decision as a list of {n} actions to choose from") for n in (2, 3)),
    ]


MENUS = (
    "Offering to defer, which should be irrelevant, moves the share of yes among yes and no by {:+.3f} [{:+.3f}, "
    "{:+.3f}]."
)
FORESTS = (
    "The paper's baseline of iterated expectation is random forests that are fitted to the truth, without reading "
    "noise: their median of size / belief is {:.3f} [{:.3f}, {:.3f}]."
)


def _question(config: RationalityConfig, numbers: Sequence[Number]) -> str:
    fewest, most = config.reveal
    sentences = [
        f"Contexts of the world `{config.world.of}` reveal {fewest} to {most} covariates; they are spread evenly over "
        "the true chance. The belief that the target is true is read in one context, the decision in another: first "
        "whether to decide at all (no: defer), then which way, so that every action has its exact probability. The "
        "yes-or-no choice counts both answers to the first, each by its probability. No utilities are assumed: the "
        "question is whether any agent with this belief could choose in this way.",
        _sentence(numbers, "menu_shift", MENUS),
        _latent(numbers),
        _sentence(numbers, FOREST, FORESTS),
    ]
    return " ".join(filter(None, sentences))


def _sentence(numbers: Sequence[Number], metric: str, text: str) -> str:
    """A number with its interval in a sentence; empty where there is none."""
    score = next((number.score for number in numbers if number.metric == metric), None)
    return "" if score is None or np.isnan(score.estimate) else text.format(score.estimate, score.ci_lo, score.ci_hi)


def _latent(numbers: Sequence[Number]) -> str:
    """Which belief knows more than another says, after Holm over all pairs."""
    tested = [
        number for number in numbers if BEYOND in number.method and number.metric in ("latent_action", "latent_truth")
    ]
    tested = [one for one in tested if one.score.p == one.score.p]
    if not tested:
        return ""
    adjusted = adjust([one.score.p for one in tested], alpha=ALPHA)
    kept = [one for one, p in zip(tested, adjusted.p_adjusted, strict=True) if p < ALPHA]
    target = {"latent_action": "the choice", "latent_truth": "the truth"}
    named = [f"{one.method} of {target[one.metric]} ({one.score.estimate:+.2f})" for one in kept]
    listed = "; ".join(named) if named else "none"
    return f"Knowledge beyond the belief, significant after Holm over {len(tested)} comparisons: {listed}."


# The figures; none of methods that gave no belief.


def figures(
    config: RationalityConfig,
    every: Sequence[MethodBeliefs],
    acts: Actions,
    numbers: Sequence[Number],
    table: pd.DataFrame,
) -> list[Figure]:
    """All of a run."""
    read = [beliefs for beliefs in every if np.isfinite(beliefs.belief).any()]
    if not read:
        return []
    scores = scores_of(numbers)
    drawn = [truth_figure(read, acts)]
    sufficiency = forest(
        "Is the belief enough?",
        [(beliefs.method, scores["sufficiency", beliefs.method, ALL], False) for beliefs in read],
        "share of the choice",
        "Share of the yes-or-no choice that a rising function of each belief predicts in other contexts, with its "
        "interval. At 1 (dashed) the belief could be all that is acted on; at 0 or below it predicts nothing.",
        reference=1,
    )
    drawn += [sufficiency] if sufficiency else []
    drawn.append(choice_figure(config, read, acts))
    if cases := cases_of(table, every, acts):
        gaps = {case.method: np.asarray(lie(case.p, case.conditional, case.weights).signed) for case in cases}
        drawn.append(
            spreads(
                "Is a belief the mean of its cases?",
                [("", gaps)],
                "Belief minus the mean of the beliefs given each state of a further covariate; 0 is coherent. A dot is "
                "a context, sorted; the bar is the median.",
                Axis("belief - implied"),
                reference=0,
            )
        )
    ratios = [(beliefs.method, scores.get(("lie_ratio", beliefs.method, ALL)), False) for beliefs in read]
    ratios.append(("random forests", scores.get((FOREST, "forest", ALL)), False))
    ratio = forest(
        "How large are the gaps, as published?",
        [(name, score, mark) for name, score, mark in ratios if score is not None and np.isfinite(score.estimate)],
        "median of |gap| / belief",
        "The paper's Figure 2: the median with its interval. Random forests that are fitted to the truth are its "
        "baseline; they have no reading noise, but smooth beliefs.",
        reference=0,
    )
    drawn += [ratio] if ratio else []
    return drawn + ([latent_figure([beliefs.method for beliefs in read], numbers)] if len(read) > 1 else [])


def truth_figure(every: Sequence[MethodBeliefs], acts: Actions) -> Figure:
    """Belief against the true chance, a panel for each method."""
    return chart(
        "Belief against truth",
        [(beliefs.method, [diagonal("true chance"), _contexts(acts.truth, beliefs.belief)]) for beliefs in every],
        "A dot is a context. On the dashed line the belief is the true chance.",
        x=unit("true chance"),
        y=unit("belief"),
    )


def choice_figure(config: RationalityConfig, every: Sequence[MethodBeliefs], acts: Actions) -> Figure:
    """Exact share of the first action of each pair against the belief (the paper's Figure 1)."""
    panels = []
    for beliefs in every:
        rows = repeated(config, beliefs, acts)
        for name, (first, second) in PAIRS.items():
            with np.errstate(divide="ignore", invalid="ignore"):
                share = acts.tree[:, first] / (acts.tree[:, first] + acts.tree[:, second])
            known = np.isfinite(beliefs.belief) & np.isfinite(share)
            fifth = np.full(len(share), -1)
            fifth[known] = quantile_bins(beliefs.belief[known], BINS)
            belief, share = beliefs.belief[known], share[known]
            marks = [_contexts(belief, share)]
            for ends in pairwise(np.unique(fifth[known])):
                x, y = ([values[fifth[known] == b].mean() for b in ends] for values in (belief, share))
                taken = np.where(np.isin(fifth[rows.of], ends), fifth[rows.of], -1)
                fall = monotone_pairwise(taken, rows.taken, first, second).n_significant
                title, color = (VIOLATION, AWAY) if fall else ("means of fifths", MARK)
                marks.append(line(x, y, title, color=color, width=2.4 if fall else 1.6))
            panels.append(Panel(f"{beliefs.method}: {name}", marks, around("belief", belief), around("", share)))
    return chart(
        "Do choices rise with the belief?",
        panels,
        "A dot is a context: its belief, and the exact share of the first action among both. The line joins the means "
        "of five equally large groups. It is red where the drawn actions fall from one group to the next with p below "
        "5% (Fisher, one-sided, as published), which cannot happen for an agent with this belief and independence of "
        "irrelevant alternatives. Each panel has scales of its own.",
        columns=len(PAIRS),
    )


VIOLATION = "significant fall"


def _contexts(x: Floats, y: Floats) -> Mark:
    return points(x, y, "context", alpha=PALE)


def latent_figure(names: Sequence[str], numbers: Sequence[Number]) -> Figure:
    """What each belief knows beyond each other one."""
    scores = {(number.metric, number.method): number.score for number in numbers if BEYOND in number.method}
    known = [key for key, score in scores.items() if np.isfinite(score.p)]
    adjusted = adjust([scores[key].p for key in known]).p_adjusted if known else []
    p = dict(zip(known, adjusted, strict=True))

    def written(key: tuple[str, str]) -> str:
        value = scores[key].estimate
        star = "*" if p.get(key, 1.0) < ALPHA else ""
        return "–" if np.isnan(value) else f"{value:+.2f}{star}"

    keys = {(i, j): f"{name}{BEYOND}{other}" for i, name in enumerate(names) for j, other in enumerate(names)}
    return matrix(
        "What does one belief know that another does not tell?",
        [
            (title, {place: written((metric, method)) for place, method in keys.items() if (metric, method) in scores})
            for title, metric in (("of the choice", "latent_action"), ("of the truth", "latent_truth"))
        ],
        names,
        "Partial correlation of the row's belief with the choice, or with the truth, given the column's belief; 0 is "
        "no knowledge beyond it. A star marks p below 5% after Holm over all cells, a dash a correlation without "
        "variance.",
        across="beyond",
    )
