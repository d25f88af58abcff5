"""What the report of a run shows beside the numbers."""

from collections.abc import Sequence

import pandas as pd

from ..experiment import Column, Findings, Table, Transcripts
from ..scoring.number import Number
from ..tables.samples import ALL
from .config import BScoreConfig
from .distributions import CATEGORY as DISTRIBUTION
from .figures import figures
from .gallery import gallery
from .samples import LATER, parts
from .table import MethodView, views

TOP = Column("top_b", "B of the likeliest", "P(afresh) - P(in conversation) of the option that is likeliest afresh")
WRONG = Column("top_b_wrong", "where it is wrong", "the same, of questions whose likeliest option is not the true one")
HELD_OUT = Column(
    "top_b_held_out",
    "on other answers",
    "counted answers; chosen by those that go with the question's other conversations, so without luck",
)
SIZE = Column("mean_abs_b", "mean |B|", "over the answers afresh")
MEANS = (
    Column("top_single", "P afresh", "of that option, over the orders of the turns", percent=True),
    Column("top_multi", "P in turns", "of that option, over the same orders", percent=True),
)
COVERAGE = (
    Column("coverage_single", "coverage afresh", "probability that the answer is any option", percent=True),
    Column("coverage_multi", "coverage in turns", "the same in conversation", percent=True),
)
ACCURACY = (
    Column("accuracy_single", "accuracy afresh", "share of questions whose likeliest option is true", percent=True),
    Column("accuracy_multi", "accuracy in turns", "the same in conversation", percent=True),
)
RULES = ("single", "single+b", "multi", "multi+b", "conf", "conf+b", "b")


def findings(
    config: BScoreConfig, beliefs: pd.DataFrame, numbers: Sequence[Number], transcripts: Transcripts
) -> Findings:
    """Verdicts, tables, figures, and the conversations."""
    found = views(config, beliefs)
    names = [name for name in parts(found[0].asked) if name]
    return Findings(
        question=_question(config, found),
        columns=[TOP, WRONG, HELD_OUT, SIZE, *COVERAGE],
        tables=_tables(config, names, found),
        figures=figures(found, numbers),
        gallery=gallery(config, found, transcripts),
    )


def _question(config: BScoreConfig, found: Sequence[MethodView]) -> str:
    """What was measured, on how much."""
    held = found[0].held
    laws = sum(one.target is not None for one in held)
    drawn = f" and {laws} named distributions" if laws else ""
    orders = max(len(one.orders) for one in held)
    cut = "" if config.keep_turns is None else f" A turn sees the last {config.keep_turns} of those before it alone."
    return (
        f"{len(held) - laws} questions{drawn} are asked afresh, in up to {orders} orders of their options, and again "
        f"and again, in {config.runs} conversations of {config.turns} turns each, whose options are shuffled anew at "
        f"every turn; past turns stay as they were and hold the answer alone.{cut} At each turn the exact distribution "
        "given what was sampled before is compared with the exact distribution afresh in the same order of the "
        "options; B is the mean of these differences, and 0 for a model that ignores its history, however it leans to "
        "a place in the list. Above 0, an answer becomes rarer once the model has seen itself give it. Which history "
        "was drawn is the only noise. Beside it stand answers that are counted as they were published "
        f"({config.queries} afresh and one conversation): the likeliest option is then chosen and scored on the same "
        "answers, which makes B positive by luck; chosen on the answers that go with the question's other "
        "conversations, it is not."
    )


def _tables(config: BScoreConfig, names: Sequence[str], found: Sequence[MethodView]) -> list[Table]:
    own = [name for name in names if name != DISTRIBUTION]
    cuts = [f"k = {k}" for k in config.cuts]
    tables = [
        Table(
            "By category",
            "Interval over questions. The published Table 2 has easy and hard questions where the likeliest answer is "
            "wrong; the exact rows choose it by the distribution over all orders, so that luck has no part in it.",
            (TOP, *MEANS, WRONG, HELD_OUT, SIZE),
            own,
        ),
        Table(
            "With and without the first turn",
            "The first turn has no history, so that it adds a zero to B.",
            (TOP, SIZE),
            [ALL, LATER, *(f"{name}, {LATER}" for name in own)],
        ),
        Table(
            "After fewer turns",
            "The first k turns, and of counted answers the first k afresh (the published Table T5).",
            (TOP, SIZE),
            [*cuts, *(f"{name}, {cut}" for name in own for cut in cuts)] if cuts else [],
        ),
        Table(
            "When does it settle?",
            "A model that draws its answers from what it believes, and learns from them as it should, has a "
            "martingale: the next distribution cannot be foreseen from this one. The turn from which the slope M "
            "stays within 0.02, and its interval over questions, which ends one turn after the last that is judged "
            "where it need not settle at all.",
            (Column("settles", "from turn", "first turn from which no start shows more than the margin", whole=True),),
            [ALL, *names],
        ),
        Table(
            "Is the most probable answer the true one?",
            "The published Table T6; tied options share the credit.",
            ACCURACY,
            [ALL, *own],
        ),
        Table(
            "What does the order of the options do?",
            "Distance: how far an order's distribution is from the mean over orders. Share: of what tells options "
            "apart, over all orders, the part that is their order.",
            (
                Column("order_effect", "distance", "total variation, mean over orders"),
                Column("order_share", "share", "of the variance between options", percent=True),
            ),
            [ALL, *own],
        ),
        Table(
            "Can an answer be accepted by a threshold?",
            "Accuracy, each category weighing the same, of thresholds that were tuned on the other questions. Exact "
            "rows weigh every option by its probability afresh; counted ones take the first answer, as it was "
            "published. An answer to a random question counts as right if it is not over-represented: that label is "
            "made of the single-turn probability itself, and a rule that accepts what is frequent cannot do well on "
            "it. Read the rows without that category, and the rate of rejecting everything, beside it.",
            (
                Column("accept_accuracy", "accuracy", "of accepting by the rule", percent=True),
                Column("accept_accuracy_not_random", "without random", "the same of the others", percent=True),
            ),
            RULES,
        ),
        Table(
            "Rejecting everything",
            "What a rule has to beat; accepting everything scores the rest to one.",
            (Column("reject_all", "rejecting", "share of the answers that are to be rejected", percent=True),),
            names,
        ),
        Table(
            "How sure does it say it is?",
            "The mean of the exact distribution over the numbers that it may write, given each option as its answer; "
            "and the correlation with |B| over options.",
            (
                Column("confidence", "confidence", "mean over options and questions"),
                Column("confidence_b", "with |B|", "correlation over options"),
                Column("confidence_greedy", "greedy", "the likeliest number"),
                Column("confidence_b_greedy", "greedy with |B|", "correlation over options"),
            ),
            [ALL, *own],
        ),
        Table(
            "How far from the named distribution?",
            "Total variation; of a turn, and of the mean over a conversation, which a model may balance.",
            (
                Column("tv_single", "afresh", "of the exact distribution"),
                Column("tv_turn", "of a turn", "mean over turns"),
                Column("tv_multi", "of a conversation", "of its mean"),
            ),
            [one.item for one in found[0].asked if one.target is not None],
        ),
    ]
    return tables
