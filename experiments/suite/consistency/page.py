"""What the report of a run shows beside the numbers, with its instances."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ....base.text import or_dash
from ....metrics.number import Number
from ....metrics.tables.belief_parts import BeliefTable, StoredTables
from ....metrics.tables.samples import ALL
from ...materials.entities import window_name
from ...report.figures import QUANTILES, chart, score_figure, scores_of, spreads
from ...report.findings import Column, Figure, Findings, Gallery, Instance, Table, Transcript
from ...report.marks import DENSITY_KEY, Axis, density, diagonal, histogram, unit
from ...run.experiment import Transcripts
from .ask import CONTROLS
from .config import ConsistencyConfig
from .instances import INSTANCES, stored_tables
from .samples import BALANCED, CONTROL, LIKELIER, ONE_REJECTION, TWO_REJECTIONS, UNLIKELIER

MOST = 1000
"""Instances on a page; of more, so many are drawn."""
LOWEST = 20
"""Of each method, that are on the page in any case."""
SHOWN = (
    *("method", "template", "order", "temperature", "rejected", "coverage", "c2", "alpha_prior", "alpha_post"),
    *("readout_id", "readout_id_prior", "of", "of_prior"),
)
"""Columns of the instances that are on the page."""


def scored(tables: StoredTables) -> pd.DataFrame:
    """The consistency of every instance that is an answer, and its method; the index is its number."""
    every = pd.concat(
        tables.read(INSTANCES, name, ["method", "c2", "kind", "of"]) for name in tables.methods(INSTANCES)
    )
    stated = (every["kind"] == "verbal") & (every["of"] == "")
    return every.loc[~stated, ["method", "c2"]].sort_index()


def gallery(
    config: ConsistencyConfig,
    every: pd.DataFrame,
    look_up: Callable[[np.ndarray], pd.DataFrame],
    transcripts: Transcripts,
) -> Gallery:
    """Every instance, or a sample and the lowest; the lowest first.

    Args:
        every: `method` and `c2` of each instance, by its number.
        look_up: from the numbers of some instances to their columns `SHOWN`.
    """
    shown = look_up(_shown(every, config.seed))
    shown = shown.assign(
        status=np.select(
            [shown["c2"].isna(), shown["coverage"] < config.low_coverage], ["undefined", "low coverage"], "ok"
        ),
        temperature=shown["temperature"].map("T = {:g}".format),
        asked_before=_question(shown["readout_id_prior"], shown["of_prior"]),
        asked_after=_question(shown["readout_id"], shown["of"]),
    )
    facets = {"method": "method", "rejection": "template", "status": "status"}
    facets |= {"temperature": "temperature"} if config.temperatures else {}
    facets |= {"order": "order"} if config.orders != "one" else {}
    texts = transcripts({*shown["asked_before"], *shown["asked_after"]})
    sampled = (
        f"{len(shown)} of {len(every)}, the least consistent first: {MOST} drawn with seed {config.seed}, and the "
        f"{LOWEST} lowest of each method, which were chosen after looking."
    )
    return Gallery(
        caption=f"All {len(every)}, the least consistent first." if len(shown) == len(every) else sampled,
        facets=list(facets),
        score="consistency",
        instances=[_instance(row, facets.values(), texts) for row in shown.to_dict("records")],
    )


def _shown(every: pd.DataFrame, seed: int) -> np.ndarray:
    """The numbers of those that are on the page, the lowest first."""
    ranked = every.sort_values("c2", kind="stable")
    numbers = ranked.index.to_numpy()
    if len(ranked) <= MOST:
        return numbers
    ranked = ranked.reset_index(drop=True)
    lowest = ranked.groupby("method", observed=True, sort=False).head(LOWEST)
    drawn = ranked.sample(MOST, random_state=seed)
    return numbers[lowest.index.union(drawn.index)]


def _question(readout_id: pd.Series, of: pd.Series) -> pd.Series:
    """The read-outs that were asked for, and those from which others are derived."""
    return readout_id.astype(object).where(of == "", of.astype(object))


def _instance(row: Mapping[Hashable, Any], facets: Iterable[str], texts: Mapping[str, Transcript]) -> Instance:
    before, after = texts[row["asked_before"]], texts[row["asked_after"]]
    ruled_out = after["options"][row["rejected"]]
    alpha, beta = (word for word in after["options"] if word != ruled_out)
    shares = (row["alpha_prior"], row["alpha_post"])
    was, became = (f"{alpha} {or_dash(p, '.1%')}, {beta} {or_dash(1 - p, '.1%')}" for p in shares)
    return Instance(
        facets=[str(row[facet]) for facet in facets],
        score=row["c2"],
        facts=f"{was}; after {ruled_out} was ruled out {became}",
        conversations=[("before", before), ("after", after)],
    )


C2 = Column(
    "c2",
    "consistency",
    "1 minus the Jensen-Shannon divergence of the shares of the two words that remain, "
    "before and after; 1: their ratio is kept",
)
C3 = Column(
    "c3", "3-class", "consistency over all three words: what the rejected word keeps counts against it; 1 is best"
)
INVALID = Column(
    "p_invalid_norm",
    "share of the rejected",
    "share of the rejected word among the three words, after it was rejected",
    percent=True,
)
GIVEN = Column(
    "p_invalid_raw",
    "P(rejected word)",
    "probability of the rejected word among all answers, after it was rejected",
    percent=True,
)
ENTROPIES = (
    Column("entropy_prior", "entropy before", "entropy of the two words that remain, in bits; 1 is undecided"),
    Column("entropy_post", "entropy after", "entropy of the two words that remain, in bits"),
)
GAIN = Column("kappa_word", "gain over words", "(3-class consistency - null) / (1 - null), where the null gives each "
              "word its mean share whatever was said; 0: a preference for words, 1: coherent")  # fmt: skip
RMS = Column("rms_logodds", "change of log-odds", "root mean square change, in nats, of the log-odds of the two words "
       "that remain; 0 is a kept ratio, and a belief that depends on the words alone has 0, too")  # fmt: skip
OPEN = Column(
    "rms_lower",
    "change of log-odds, bounds",
    "least and largest change that is possible if the probability of other answers belonged to either word",
    to="rms_upper",
)
COLUMNS = (
    GAIN,
    RMS,
    OPEN,
    INVALID,
    Column("coverage_prior", "coverage before", "probability that the answer is any of the three words", percent=True),
    Column("coverage_posterior", "coverage after", "the same after the rejection", percent=True),
)
QUESTION = (
    "The model is told to choose one of three words and keep it secret. Then one word is ruled out. Nothing was "
    "said about the other two, so a coherent belief keeps their ratio. Each row is a form of asking, on the same "
    "items, and no form is chosen for its coverage. All rows are exact next-token distributions, except `sampled` "
    "(answers are drawn and matched with the words) and `expected` (the exact probability, along these answers, that "
    "each word is the first to be named). Where coverage is low, the answer is mostly something else, and the ratio is "
    "a ratio of rare events."
)
TABLES = (
    Table(
        "By rejection",
        "Two templates rule a word out: a no to a question about it (reject), and a yes to one about the two others "
        "(narrow). The paper weighs them three to six; in the balanced row both have the same weight.",
        (INVALID, RMS, OPEN, *ENTROPIES),
        (ALL, BALANCED, "reject", "narrow"),
    ),
    Table(
        "As published: consistency",
        "Consistency hardly falls where beliefs are extreme (if they go from 1e-6 to .01, so that the odds grow "
        "10,000-fold, the score is .995), and a mere preference for words scores as high as a belief.",
        (
            C2,
            Column(
                "c2_lower",
                "bounds by the undefined",
                "the mean if every undefined instance had scored 0, or 1",
                to="c2_upper",
            ),
            Column(
                "kappa",
                "consistency above chance",
                "(score - chance) / (1 - chance); chance: the posterior of another triple",
            ),
            C3,
            Column("leak", "leak", "the part of 1 - (3-class) that the rejected word alone makes, in bits"),
            INVALID,
        ),
        (ALL, BALANCED, "reject", "narrow"),
    ),
    Table(
        "Is the rejected word given where it was likely before?",
        "Shares of the rejected word among the three, before and after it is rejected; the ratio of their mean "
        "product to the product of their means is 1 where they are unrelated.",
        (
            Column("invalid_association", "association ratio", "mean (before x after) / (mean before x mean after)"),
            GIVEN,
            INVALID,
        ),
        (ALL,),
    ),
    Table(
        "How much does the order of the words matter?",
        "Share of the variance of consistency that lies between the orders of one triple.",
        (Column("order_share", "variance by order", "1 - ICC of the orders of a triple"),),
        (ALL,),
    ),
    Table(
        "What does a second rejection do?",
        "Only one word is left: 3-class consistency is measured from certainty, and the rejected share is of both "
        "words.",
        (
            C3,
            GIVEN,
            INVALID,
            Column("p_error_post", "no word", "share of the answers that are none of the three words", percent=True),
        ),
        (ONE_REJECTION, TWO_REJECTIONS),
        metric="p_error_post",
    ),
    Table(
        "Are the thoughts finished?",
        "A thought that is cut off at the limit gives no belief.",
        (Column("unclosed", "unfinished", "share of the thoughts that are unfinished", percent=True),),
        (ALL,),
    ),
    Table(
        "Is there a choice at all?",
        'Each word is asked for in a branch of its own ("Is it X?"). If a choice was made and kept, P(yes) is the '
        "probability that the reveal names the word. Commitment is 1 when one word would surely be revealed; the "
        "paper regards the opposite, entropy, as good. P(yes) off P(reveal) is the root mean square of their "
        "difference, and the correlation is that of the two over the words. In the control the choice is written into "
        "the system text.",
        (
            Column("fork_rms", "P(yes) off P(reveal)", "root mean square of P(yes) - P(reveal); 0 is a kept choice"),
            Column("fork_excess", "sum of P(yes) minus 1", "sum of P(yes) over the words, minus 1"),
            Column("fork_corr", "correlation", "correlation of P(yes) and P(reveal) over the words"),
            Column("commitment", "commitment", "1 - entropy of the reveal, in units of log 3"),
            Column("fork_coverage", "coverage of yes or no", "probability that the answer is yes or no", percent=True),
        ),
        (ALL, CONTROL),
    ),
    Table(
        "Sampled beside exact",
        "Agreement is 1 - JSD of the sampled and the exact belief of the same context. Two samples of one belief "
        "diverge by chance; `corrected` subtracts that, to first order, and can be trusted where each word is named "
        "several times.",
        (
            C2,
            Column(
                "c2_corrected",
                "consistency, corrected",
                "consistency plus the mean divergence of two samples of one belief",
            ),
            Column("agreement_prior", "agreement before", "1 - JSD of the sampled and the exact distribution"),
            Column("agreement_posterior", "agreement after", "the same after the rejection"),
            Column(
                "p_error_prior",
                "no word before",
                "share of the answers that name none of the words, or several",
                percent=True,
            ),
            Column("p_error_post", "no word after", "the same after the rejection", percent=True),
        ),
        (ALL,),
        metric="agreement_prior",
    ),
)


CONDITIONED = (
    RMS,
    C2,
    INVALID,
    *ENTROPIES,
    Column("coverage", "coverage", "the smaller of the coverage before and the coverage after", percent=True),
)


def findings(
    config: ConsistencyConfig, beliefs: BeliefTable, numbers: Sequence[Number], transcripts: Transcripts
) -> Findings:
    """Tables, figures, and the instances."""
    tables = stored_tables(beliefs)
    conditions = condition_tables(config)
    return Findings(
        question=QUESTION,
        columns=COLUMNS,
        tables=[*TABLES, *conditions],
        figures=figures(tables, numbers, conditions),
        gallery=gallery(config, scored(tables), lambda rows: tables.rows(INSTANCES, rows, SHOWN), transcripts),
    )


def terms(config: ConsistencyConfig) -> list[tuple[str, str]]:
    """The templates, the controls that rule nothing out, and the number that is registered."""
    wording = config.wording
    aside = f"“{wording.aside.strip()}” is asked with the same question, and “{{}}” decides nothing"
    other = (aside.format(answer) for answer in wording.aside_answers)
    return [
        ("reject", f"a word is ruled out by “{wording.reject}” “{wording.reject_answer}”"),
        ("narrow", f"a word is ruled out by “{wording.narrow}” “{wording.narrow_answer}” about the two others"),
        (BALANCED, "both of these, each with the same weight"),
        *zip(CONTROLS, (f"the reply “{wording.undecided}” decides nothing", *other), strict=True),
        ("before", "read before a word is ruled out"),
        ("after", "read after a word is ruled out"),
        ("c2", C2.explanation),
        ("p invalid", "probability of the rejected word, before and after it was ruled out, as the paper calls it"),
        ("Increase Rate", "the association ratio, as the paper calls it; 100%: the answer is unrelated to the prior"),
        ("Verbal Error", "probability of answers that are none of the three words, as the paper calls it"),
        (
            "HSwitch",
            "how far the share of each of the two words falls, weighted by its share before, as the paper calls it",
        ),
        (
            "Weighted Norm.",
            "share of the rejected word after the rejection, weighted by its share before, and the other way round",
        ),
    ]


def condition_tables(config: ConsistencyConfig) -> list[Table]:
    """Consistency under each condition that the settings ask for."""
    windows = config.entities.windows
    orders = ("012", "021", "102", "120", "201", "210")
    asked = (
        ("By coverage", "Instances whose coverage reaches the threshold before and after. They are chosen by what the "
         "model said, so that the table shows how much depends on rare answers, and is no better estimate.",
         [f"coverage >= {t:g}" for t in config.coverage_thresholds]),
        ("By temperature", "The same logits, rescaled.",
         [f"T = {t:g}" for t in sorted({1.0, *config.temperatures})] if config.temperatures else []),
        ("By the likelihood of the prefilled turn", "Instances above and below the median probability of the answer "
         f"“{config.wording.reject_answer}” or “{config.wording.narrow_answer}” that was written into the assistant's "
         "turn, within each template. A turn that the model would hardly have said is off-policy.",
         [LIKELIER, UNLIKELIER]),
        ("By order of the words", "The digits are the places that the first, second and third word had when they were "
               "drawn.",
         [f"order {order}" for order in orders] if config.orders != "one" else []),
        ("By likelihood of the words", "Windows of the words' ranks by the reference model (1 is the likeliest "
               "word).", [window_name(window) for window in windows] if len(windows) > 1 else []),
    )  # fmt: skip
    return [Table(title, caption, CONDITIONED, tuple(subsets)) for title, caption, subsets in asked if subsets]


# The figures, of the instances at temperature 1.

AXIS = "change of log-odds, nats"
EDGES = np.linspace(0, 1, 21)
PLACES = [(f"place {i}", f"prior_share_position_{i}", ALL) for i in (1, 2, 3)]
SWITCHED = (("switch", "switch", ALL), ("beyond an unchanged belief", "hswitch", ALL))


def figures(tables: StoredTables, numbers: Sequence[Number], conditions: Sequence[Table]) -> list[Figure]:
    """All of a run."""
    scores, methods = scores_of(numbers), tables.methods(INSTANCES)
    templates = [str(template) for template in _rows(tables, methods[0], "template")["template"].unique()]
    drawn = [
        _ratios(
            "Is the ratio kept?", tables, ("alpha_prior", "alpha_post"),
            "Share of the first of the two remaining words, before and after the rejection; a darker "
            "square has more instances. A coherent belief lies on the dashed line; a belief that leans to the word "
            "named first lies in the upper right.",
        ),
        score_figure(
            "Does the rejection's wording matter?", scores, methods,
            [(subset, "rms_logodds", subset) for subset in (ALL, *templates)], AXIS,
            "Root mean square change of the log-odds of the two words that remain, over all instances and by template.",
        ),
        _ratios(
            "Is the rejected word still given?", tables, ("rejected_prior_share", "p_invalid_norm"),
            "Share of the rejected word among the three, before and after it was ruled out; afterwards it should be 0.",
        ),
        _entropies(tables),
        score_figure(
            "Would one answer before and one after disagree?", scores, methods, SWITCHED, "probability",
            "Probability that one draw before and one after name different words, and the part of it that an unchanged "
            "belief would not have.",
        ),
        score_figure(
            "Does the place in the list decide?", scores, methods, PLACES, "share of the three words",
            "Mean share of the word in each place, before anything is ruled out; without a bias, each has a third.",
            reference=1 / 3,
        ),
        spreads(
            "How much of the answer is any of the three words?",
            [
                (name, {"before": 1 - rows.drop_duplicates("item")["p_error_prior"], "after": 1 - rows["p_error_post"]})
                for name, rows in _by_method(tables, "item", "p_error_prior", "p_error_post")
            ],
            f"Read-outs, sorted (quantiles where there are more than {QUANTILES}). The bar is the median. The rest, up "
            "to 1, is the probability of other answers.", unit("coverage"),
        ),
        *(
            score_figure(t.title, scores, methods, [(s, "rms_logodds", s) for s in t.subsets], AXIS, t.caption)
            for t in conditions
        ),
    ]  # fmt: skip
    return drawn + ([_agreement(tables, methods[0], methods[1:])] if len(methods) > 1 else [])


def _ratios(title: str, tables: StoredTables, columns: tuple[str, str], caption: str) -> Figure:
    """A share before against after, a panel per method (the paper's Figures 2 to 4 and appendix E)."""
    before, after = columns
    panels = [
        (method, [density(rows[before], rows[after]), diagonal("unchanged")])
        for method, rows in _by_method(tables, before, after)
    ]
    return chart(title, panels, caption, x=unit("before"), y=unit("after"), further=DENSITY_KEY)


def _entropies(tables: StoredTables) -> Figure:
    """How decided the model is between the two words, before and after."""
    panels = []
    for method, rows in _by_method(tables, "item", "rejected", "entropy_prior", "entropy_post"):
        before = rows.drop_duplicates(["item", "rejected"])["entropy_prior"]
        drawn = [
            histogram(before, EDGES, "before", style="--"),
            histogram(rows["entropy_post"], EDGES, "after", style="-"),
        ]
        panels.append((method, drawn))
    return chart(
        "How decided is it between the two words?", panels,
        "Entropy of the two words that remain, dashed before and solid after the rejection: 0 is settled, 1 undecided.",
        x=Axis("entropy (bits)", ticks=(0, 0.5, 1)), y=Axis("share of instances", most=4),
    )  # fmt: skip


def _agreement(tables: StoredTables, first: str, others: Sequence[str]) -> Figure:
    """The belief by one method against that by others in the same contexts (the paper's Figures 5 and 6)."""
    key, panels = ["item", "place"], []
    by_first = _rows(tables, first, *key, "alpha_prior", "alpha_post")
    for column, when in (("alpha_prior", "before"), ("alpha_post", "after")):
        for other in others:
            by_other = _rows(tables, other, *key, column)
            both = by_first.merge(by_other, on=key, suffixes=("", "_other"), validate="one_to_one")
            panels.append((f"{other}, {when}", [density(both[column], both[f"{column}_other"]), diagonal("the same")]))
    return chart(
        "Do the methods read the same belief?", panels,
        f"Share of the first of the two remaining words by {first} and by another method, in the same contexts.",
        x=unit(first), y=unit("as titled"), further=DENSITY_KEY, columns=len(others),
    )  # fmt: skip


def _by_method(tables: StoredTables, *columns: str) -> Iterator[tuple[str, pd.DataFrame]]:
    return ((method, _rows(tables, method, *columns)) for method in tables.methods(INSTANCES))


def _rows(tables: StoredTables, method: str, *columns: str) -> pd.DataFrame:
    """Columns of the instances of a method at temperature 1."""
    rows = tables.read(INSTANCES, method, [*columns, "temperature"])
    return rows.loc[rows["temperature"] == 1, [*columns]]
