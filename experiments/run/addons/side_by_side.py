"""What a model says, computes and holds, side by side: the numbers that several kinds of belief have under the same
names, and what the stated probabilities of all options sum to.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from ....metrics import cluster_mean
from ....metrics.number import Number
from ....metrics.tables.samples import ALL
from ...report.cells import NONE, score_cell
from ...report.document import Block, Cell, Picture, TableBlock
from ...report.figures import forest
from ..scores import ScoredRun, resampling

WORDS = {"verbal": "says", "judge": "is said to hold", "exact": "computes", "lens": "holds inside", "probe": "holds"}
"""Kind of belief -> what the model does with it, in the order in which a table has them."""
NAMED = "/"
"""Before the name of a probe, after that of the method whose exact beliefs it is of."""
EXCESS = "stated_excess"
MOST = 6
"""Numbers that a table shows beside the headline."""


def excess_numbers(run: ScoredRun) -> Iterator[Number]:
    """P(all options) - 1, as it was stated, of each method."""
    if not run.config.stated.formats:
        return
    rows = run.every[run.every["stated"].notna()]
    for method, own in rows.groupby("method", sort=False, observed=True):
        each = own.groupby("readout_id", sort=False, observed=True).agg({"stated": "sum", "cluster": "first"})
        score = cluster_mean(each["stated"].to_numpy() - 1, each["cluster"].to_numpy(), how=resampling(run.config))
        quantity = "stated P of all options, summed, less 1"
        yield Number(metric=EXCESS, method=str(method), kind="verbal", score=score, quantity=quantity, code="F1")


def side_by_side(run: ScoredRun, numbers: Sequence[Number], doubted: Sequence[str] = ()) -> list[Block]:
    """A table of every kind and method, and a figure of the headline; none where there is one kind.

    Args:
        run: that was scored.
        numbers: all that it has.
        doubted: methods of probes whose cards say that what they read is no belief; they are struck out.
    """
    whole = {(one.kind, one.method, one.metric): one for one in numbers if one.subset == ALL and one.kind in WORDS}
    headline = run.experiment.headline
    columns = [
        (kind, method)
        for kind, method, metric in whole
        if metric == headline and (kind != "probe" or NAMED in method)  # as the experiment scores it, not as a stranger
    ]
    columns.sort(key=lambda column: list(WORDS).index(column[0]))
    if len({kind for kind, _ in columns}) < 2 or (run.config.kinds != "all" and "probe" not in dict(columns)):
        return []
    kinds_with = Counter(metric for kind, metric in {(kind, metric) for kind, _, metric in whole})
    shared = [headline, *(metric for metric in dict.fromkeys(key[2] for key in whole) if metric != headline)]
    metrics = [metric for metric in shared if kinds_with[metric] > 1][: MOST + 1]

    def cell(kind: str, method: str, metric: str) -> Cell:
        found = whole.get((kind, method, metric))
        return Cell(NONE, ["not defined"]) if found is None else score_cell(found.score, struck=method in doubted)

    table = TableBlock(
        title="What it says, computes and holds",
        short=True,
        name="Kinds of belief",
        caption="The same numbers of every kind of belief, of the same conversations. Struck out: by its report card, "
        "what that probe reads is no belief.",
        head=[("", ""), *((metric.replace("_", " "), "") for metric in metrics)],
        rows=[
            [Cell(f"{WORDS[kind]}", [f"{kind}: {method}"]), *(cell(kind, method, metric) for metric in metrics)]
            for kind, method in columns
        ],
    )
    drawn = forest(
        f"{headline.replace('_', ' ')} of what it says, computes and holds",
        [
            (f"{WORDS[kind]}: {method}", whole[kind, method, headline].score, method in doubted)
            for kind, method in columns
        ],
        headline.replace("_", " "),
        "Each with its interval; hollow: no belief, by the report card of the probe.",
    )
    return [table, *([Picture(figure=drawn)] if drawn else [])]
