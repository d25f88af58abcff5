"""What the report of a run shows beside the numbers, with its conversations."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from ....metrics.contract import Floats
from ....metrics.number import Number
from ....metrics.tables.samples import ALL
from ...report.figures import Panel, Scores, chart, score_figure, scores_of
from ...report.findings import Column, Drawn, Figure, Findings, Gallery, Instance, Table, Transcript
from ...report.marks import AWAY, PALE, Axis, Mark, band, bars, diagonal, line, points, ranges, rule, unit
from ...report.plotting import INK
from ...run.experiment import Transcripts
from ...run.galleries import gallery
from .config import CATEGORY as DISTRIBUTION
from .config import BScoreConfig
from .samples import BBQ, LATER, parts, sized, ways_of
from .views import NUMBERS, Asked, MethodView, views

SHOWN = 4
"""Options of which each distribution tells the probability, the likeliest first."""


def conversations(config: BScoreConfig, found: Sequence[MethodView], transcripts: Transcripts) -> Gallery | None:
    """Every conversation at temperature 1, or a sample; that in which the likeliest answer changes most comes first."""
    every = [
        (view, asked, run)
        for view in found
        if view.method == view.base
        for asked in view.held
        for run in range(len(asked.multi))
    ]
    if not every:
        return None
    names = [f"{asked.item}/run-{run}/turn-{config.turns}/{view.base}" for view, asked, run in every]
    return gallery(
        [abs(_size(asked, run)) for _, asked, run in every],
        lambda i: [names[i]],
        lambda i, said: _instance(*every[i], said[names[i]]),
        transcripts,
        facets=["category", "method", "topic"],
        score="B",
        ranking="conversations; the largest B of the likeliest option comes",
        seed=config.seed,
    )


def _size(asked: Asked, run: int) -> float:
    return float(asked.b[run, :, asked.balanced.argmax()].mean())


def _instance(view: MethodView, asked: Asked, run: int, said: Transcript) -> Instance:
    """The whole conversation, turn by turn; of one whose history was cut, what its last turn saw."""
    messages = list(said["messages"])
    n = asked.multi.shape[1]
    first = n - (len(messages) + 1) // 2
    turns: list[tuple[str, Transcript]] = []
    for turn in range(first, n):
        question, *past = messages[2 * (turn - first) :][:2]
        answers: list[Drawn] = [
            {"draw": 0, "text": message["content"].removeprefix(said["prefill"]), "status": "ok"} for message in past
        ]
        now, afresh = (_likeliest(asked, read[run, turn]) for read in (asked.multi, asked.fresh))
        transcript: Transcript = {**said, "messages": [question], "answers": answers or said["answers"]}
        turns.append((f"turn {turn + 1}: {now}; afresh {afresh}", transcript))
    path = " → ".join(asked.options[i] for i in asked.answer[run])
    facets = [asked.category, view.method, asked.topic or "–"]
    return Instance(facets, _size(asked, run), f"{asked.item}: {path}", turns)


def _likeliest(asked: Asked, distribution: Floats) -> str:
    likeliest = np.argsort(-distribution, kind="stable")[:SHOWN]
    return ", ".join(f"{asked.options[i]} {distribution[i]:.2f}" for i in likeliest)


EXCESS = Column("b_excess", "B beyond its controls", "B of the option that is likeliest afresh, minus the largest B "
                "after a control history of equal length, which does not contain its earlier answers")  # fmt: skip
TOP = Column("top_b", "B of the likeliest", "P(afresh) - P(in conversation) of the option that is likeliest afresh")
WRONG = Column(
    "top_b_wrong", "B where wrong", "B of the likeliest over questions whose likeliest option is not the true one"
)
HELD_OUT = Column(
    "top_b_held_out",
    "B, chosen on other answers",
    "B of counted answers, with the option chosen by "
    "the answers of the question's other conversations, so that luck does not raise it",
)
SIZE = Column("mean_abs_b", "mean |B|", "mean of |B| over the answers that were given afresh")
MEANS = (
    Column(
        "top_single",
        "P afresh",
        "probability of that option when asked afresh, mean over the orders of the turns",
        percent=True,
    ),
    Column(
        "top_multi", "P in turns", "probability of that option in conversation, mean over the same orders", percent=True
    ),
)
COVERAGE = (
    Column("coverage_single", "coverage afresh", "probability that the answer is any option", percent=True),
    Column(
        "coverage_multi", "coverage in turns", "probability in conversation that the answer is any option", percent=True
    ),
)
ACCURACY = (
    Column("accuracy_single", "accuracy afresh", "share of questions whose likeliest option is true", percent=True),
    Column(
        "accuracy_multi", "accuracy in turns", "share, in conversation, whose likeliest option is true", percent=True
    ),
)
RULES = ("single", "single+b", "multi", "multi+b", "conf", "conf+b", "b")


def findings(
    config: BScoreConfig, beliefs: pd.DataFrame, numbers: Sequence[Number], transcripts: Transcripts
) -> Findings:
    """Verdicts, tables, figures, and the conversations."""
    every = views(config, beliefs)
    names = [name for name in parts(every[0].asked) if name]
    return Findings(
        question=_question(config, every),
        columns=[*([EXCESS] if config.controls else []), TOP, WRONG, HELD_OUT, SIZE, *COVERAGE],
        tables=_tables(config, names, every),
        figures=figures(every, numbers),
        gallery=conversations(config, every, transcripts),
    )


def terms(_: BScoreConfig) -> list[tuple[str, str]]:
    """The two ways in which a question is asked."""
    return [
        ("afresh", "each answer is given in a conversation of its own"),
        ("in conversation", "the question is asked again and again, and earlier answers stay in sight"),
    ]


def _question(config: BScoreConfig, every: Sequence[MethodView]) -> str:
    """What was measured, on how much."""
    talks = every[0].held
    laws = sum(question.target is not None for question in talks)
    drawn = f" and {laws} named distributions" if laws else ""
    orders = max(len(question.orders) for question in talks)
    written = (
        ""
        if config.written is None
        else (
            f" Written answers are read as published: they are sampled at temperature {config.written.temperature:g}, "
            "in conversations that contain what the model wrote, and parsed; an answer that is no option is in no "
            "share, and lowers the coverage."
        )
    )
    cut = "" if config.keep_turns is None else f" A turn sees only the last {config.keep_turns} turns before it."
    return (
        f"{len(talks) - laws} questions{drawn} are asked afresh, in up to {orders} orders of their options, and again "
        f"and again, in {config.runs} conversations of {config.turns} turns each, whose options are shuffled anew at "
        f"every turn; past turns stay as they were and contain only the answer.{cut} At each turn the exact "
        "distribution given the answers that were sampled before is compared with the exact distribution afresh, in "
        "the same order of the options. B is the mean of these differences; it is 0 for a model that ignores its "
        "history, even one that prefers a place in the list. Where B is above 0, an answer becomes rarer in "
        "conversation. For that a model need hear only its last answer, or that a conversation goes on; so where "
        "control histories were read, the headline is the part of B beyond them. The only noise is which history was "
        f"drawn. Beside it stand answers that are counted as published ({config.queries} afresh and one conversation): "
        "the likeliest option is then chosen and scored on the same answers, so that B is positive by luck; it is not "
        f"if the option is chosen on the answers of the question's other conversations.{written}"
    )


def _tables(config: BScoreConfig, names: Sequence[str], every: Sequence[MethodView]) -> list[Table]:
    plain = [name for name in names if name != DISTRIBUTION]
    cuts = [f"k = {k}" for k in config.cuts]
    tables = [
        Table(
            "By category",
            "Intervals are over questions. The published Table 2 has easy and hard questions where the likeliest "
            "answer is "
            "wrong; exact rows choose that answer by the distribution over all orders, so that luck has no part in it.",
            (*([EXCESS] if config.controls else []), TOP, *MEANS, WRONG, HELD_OUT, SIZE),
            plain,
        ),
        Table(
            "With and without the first turn",
            "The first turn has no history, so that it adds a zero to B.",
            (TOP, SIZE),
            [ALL, LATER, *(f"{name}, {LATER}" for name in plain)],
        ),
        Table(
            "After fewer turns",
            "The first k turns, and of counted answers the first k afresh (the published Table T5).",
            (TOP, SIZE),
            [*cuts, *(f"{name}, {cut}" for name in plain for cut in cuts)] if cuts else [],
        ),
        Table(
            "When does it settle?",
            "A model that draws its answers from what it believes, and learns from them as it should, has a "
            "martingale: the next distribution cannot be foreseen from this one. The turn from which the slope M "
            "stays within 0.02, and its interval over questions; where the belief need not settle at all, the interval "
            "ends one turn after the last turn that is judged.",
            (
                Column(
                    "settles",
                    "settled from turn",
                    "first turn from which no start shows more than the margin",
                    whole=True,
                ),
            ),
            [ALL, *names],
        ),
        Table(
            "Is the most probable answer the true one?",
            "The published Table T6; tied options share the credit.",
            ACCURACY,
            [ALL, *plain],
        ),
        Table(
            "What does the order of the options do?",
            "Distance: how far the distribution in an order is from the mean over orders. Share: the part of the "
            "variance between options, over all orders, that the order explains.",
            (
                Column(
                    "order_effect",
                    "distance between orders",
                    "mean over orders of the total variation from the mean over orders",
                ),
                Column(
                    "order_share",
                    "share made by order",
                    "share of the variance between options that the order makes",
                    percent=True,
                ),
            ),
            [ALL, *plain],
        ),
        Table(
            "Can an answer be accepted by a threshold?",
            "Accuracy of thresholds that were tuned on the other questions; every category has the same weight. Exact "
            "rows weigh every option by its probability afresh; counted rows take the first answer, as published. An "
            "answer to a random question counts as right if it is not over-represented. Since the single-turn "
            "probability itself makes that label, a rule that accepts frequent answers cannot do well on it: read the "
            "rows without that category, and the rate of rejecting everything, beside it.",
            (
                Column("accept_accuracy", "accuracy", "accuracy when answers are accepted by the rule", percent=True),
                Column(
                    "accept_accuracy_not_random",
                    "accuracy without `random`",
                    "accuracy when answers are accepted by the rule, without the category `random`",
                    percent=True,
                ),
            ),
            RULES,
        ),
        Table(
            "Rejecting everything",
            "The accuracy that a rule has to beat; the accuracy of accepting everything is 1 minus this.",
            (
                Column(
                    "reject_all",
                    "rejecting",
                    "accuracy of rejecting everything: the share of answers that are wrong",
                    percent=True,
                ),
            ),
            names,
        ),
        Table(
            "How sure does it say it is?",
            "Confidence is the mean of the exact distribution over the numbers that the model may write, given each "
            "option as its answer. Beside it stands its correlation with |B| over options.",
            (
                Column("confidence", "confidence", "mean confidence over options and questions"),
                Column("confidence_b", "with |B|", "correlation over options"),
                Column("confidence_greedy", "greedy", "likeliest number, mean over options and questions"),
                Column("confidence_b_greedy", "greedy with |B|", "correlation over options"),
            ),
            [ALL, *plain],
        ),
        Table(
            "How far from the named distribution?",
            "Total variation from the named distribution, of a single turn and of the mean over a conversation, since "
            "a model may balance its answers over turns.",
            (
                Column("tv_single", "afresh", "distance of the exact distribution when asked afresh"),
                Column("tv_turn", "of a turn", "distance of a turn's distribution, mean over turns"),
                Column("tv_multi", "of a conversation", "distance of the mean distribution of a conversation"),
            ),
            [question.item for question in every[0].asked if question.target is not None],
        ),
    ]
    return tables


# The figures, of the methods that hold conversations, at temperature 1.


def figures(every: Sequence[MethodView], numbers: Sequence[Number]) -> list[Figure]:
    """All of a run."""
    scores = scores_of(numbers)
    drawn: list[Figure] = []
    for view in every:
        if view.held and view.method == view.base:
            drawn += [option_figure(view), course_figure(view, scores), slope_figure(view, scores)]
            drawn += [confidence_figure(view)] if any(NUMBERS in asked.confidence for asked in view.held) else []
            drawn += [size_figure(view, scores)] if sized(view.held) else []
            drawn += [distribution_figure(view)] if any(asked.target is not None for asked in view.held) else []
    return drawn


def option_figure(view: MethodView) -> Figure:
    """Each option afresh against in conversation, a panel per category (the paper's Figure 6)."""

    def marks(asked: Asked) -> list[Mark]:
        fresh, by_run = asked.fresh.mean(axis=(0, 1)), asked.multi.mean(axis=1)
        spread = ranges(fresh, by_run.min(axis=0), by_run.max(axis=0), "its conversations", alpha=PALE)
        return [spread, points(fresh, by_run.mean(axis=0), "option")]

    return chart(
        f"How probable is each option, afresh and in conversation? {view.method}",
        [
            (name, [diagonal("no effect"), *(mark for question in asked for mark in marks(question))])
            for name, asked in _by_category(view)
        ],
        "A dot is an option: its mean probability over the same orders of the options. The line spans its "
        "conversations; below the dashed line an option becomes rarer once the model has seen its answers.",
        x=unit("afresh"),
        y=unit("in conversation"),
    )


def course_figure(view: MethodView, scores: Scores) -> Figure:
    """B of the likeliest option along the turns."""
    turns = _turns(view)
    panels = []
    for subset in _subsets(view):
        settled = scores.get(("settles", view.method, subset or ALL))
        settles = settled is not None and np.isfinite(settled.estimate)
        last = [rule(settled.estimate, "settles", of="x", style="-")] if settled is not None and settles else []
        panels.append((subset or ALL, [*_course(view, scores, "top_b_turn", subset, turns), *last]))
    return chart(
        f"When does it change? {view.method}",
        panels,
        "B of the option that is likeliest afresh, at each turn, with its interval over questions. The dashed line is "
        "no effect of the history; the upright line, if there is one, marks the turn from which the distribution is a "
        "martingale.",
        x=Axis("turn", whole=True),
        y=Axis("B of the likeliest", most=4),
    )


def slope_figure(view: MethodView, scores: Scores) -> Figure:
    """The slope of the update at each turn."""
    return chart(
        f"Does it settle? {view.method}",
        [(name or ALL, _course(view, scores, "M_turn", name, _turns(view)[:-1])) for name in _subsets(view)],
        "Slope of the update after each turn on the distribution at that turn. It is 0 for a model that has settled: "
        "its answers are drawn from its belief and teach it nothing foreseeable. Below 0 the distribution returns to "
        "the mean, above 0 it moves away from it.",
        x=Axis("turn", whole=True),
        y=Axis("M", most=4),
    )


def confidence_figure(view: MethodView) -> Figure:
    """Stated confidence against |B|, option by option (the paper's Figures 9 and 10)."""

    def marks(asked: Asked) -> list[Mark]:
        stated, size = asked.confidence[NUMBERS], np.abs(asked.b.mean(axis=(0, 1)))
        return [line(stated, size, "a question", color=INK, width=0.3, alpha=PALE), points(stated, size, "option")]

    return chart(
        f"Does the stated confidence foretell it? {view.method}",
        [
            (name, [mark for question in asked if NUMBERS in question.confidence for mark in marks(question)])
            for name, asked in _by_category(view)
            if name != DISTRIBUTION
        ],
        "A dot is an option; lines join the options of a question. If confidence foretold the effect of the history, "
        "it would differ between the options of one question.",
        x=unit("stated confidence"),
        y=Axis("|B|", (0, None)),
    )


def size_figure(view: MethodView, scores: Scores) -> Figure:
    """Random questions by their number of options: P of the likeliest afresh, and its B (the paper's Figure 3)."""
    ways = [view.method, *(f"{view.method} {way}" for way in ways_of(view))]
    wanted = [
        (f"{title}, {subset.partition(', ')[2]}", metric, subset)
        for subset in sorted(sized(view.held))
        if subset != BBQ
        for metric, title in (("top_single", "P afresh"), ("top_b", "B"), ("confidence", "confidence"))
    ]
    return score_figure(
        f"Random questions by their number of options: {view.method}",
        scores,
        ways,
        wanted,
        "probability, or difference of two",
        "Both numbers are of the option that is likeliest afresh, with intervals over questions. For counted answers "
        "it is "
        "chosen and scored on the same answers, which raises both. An unbiased model has a P of 1 / number of options.",
        reference=0,
    )


def distribution_figure(view: MethodView) -> Figure:
    """The distribution over numbers that was asked for, and those that are drawn from."""
    panels = []
    for asked in view.held:
        if asked.target is not None:
            places = range(asked.k)
            marks = [
                bars(places, asked.target, "asked for"),
                line(places, asked.balanced, "afresh", color=INK, width=0.8, dots=3),
                line(places, asked.multi.mean(axis=(0, 1)), "in turns", dots=3),
            ]
            listed = np.array([i for numbers in asked.lists for i in numbers if i >= 0], dtype=np.int64)
            if len(listed):
                shares = np.bincount(listed, minlength=asked.k) / len(listed)
                marks.append(line(places, shares, "in lists", color=AWAY, dots=3))
            panels.append(Panel(asked.item.partition("-")[2], marks, Axis("number", None, places, asked.options, 6)))
    return chart(
        f"Can it draw from a named distribution? {view.method}",
        panels,
        "Exact probabilities of the numbers that the model may write.",
        y=Axis("probability", (0, None)),
    )


def _course(view: MethodView, scores: Scores, metric: str, subset: str, turns: range) -> list[Mark]:
    """Estimates with their interval, against turns."""
    course = [scores[metric, view.method, ", ".join(filter(None, (subset, f"turn {turn}")))] for turn in turns]
    return [
        rule(0, "no effect"),
        band(turns, [score.ci_lo for score in course], [score.ci_hi for score in course], "interval"),
        line(turns, [score.estimate for score in course], "estimate", dots=3),
    ]


def _turns(view: MethodView) -> range:
    return range(1, view.held[0].multi.shape[1] + 1)


def _subsets(view: MethodView) -> list[str]:
    return [name for name in parts(view.held) if name != DISTRIBUTION]


def _by_category(view: MethodView) -> list[tuple[str, list[Asked]]]:
    return [(name, asked) for name, asked in parts(view.held).items() if name]
