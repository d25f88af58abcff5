"""What the report of a run shows beside the numbers."""

from collections.abc import Sequence

from ..experiment import Column, Findings, Table, Transcripts
from ..materials.entities import window_name
from ..scoring.number import Number
from ..tables.belief_parts import BeliefTable
from ..tables.samples import ALL
from .config import ConsistencyConfig
from .figures import figures
from .forks import CONTROL
from .gallery import SHOWN, gallery, scored
from .made import INSTANCES, made_of
from .samples import BALANCED, LIKELIER, UNLIKELIER
from .second import ONCE, TWICE

C2 = Column("c2", "consistency", "1 - JSD of the two words that remain, before and after; 1 is a kept ratio")
C3 = Column("c3", "3-class", "the same with the rejected word's mass counted against it")
INVALID = Column("p_invalid_norm", "rejected word", "its share of the three words after it was rejected", percent=True)
GIVEN = Column("p_invalid_raw", "given", "probability of the rejected word after, of all answers", percent=True)
ENTROPIES = (
    Column("entropy_prior", "entropy before", "of the two words, in bits; 1 is undecided"),
    Column("entropy_post", "entropy after", "of the two words, in bits"),
)
GAIN = Column(
    "kappa_word",
    "gain over words",
    "(3-class - null) / (1 - null), null: each word's usual share, whatever was said; 0 is word taste, 1 coherent",
)
RMS = Column(
    "rms_logodds",
    "change of log-odds",
    "root mean square, in nats, of the two words that remain; 0 is a kept ratio, and what the words alone have",
)
OPEN = Column(
    "rms_lower",
    "bounds",
    "least and largest change that the mass on other answers leaves open: it may be of either word",
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
    "items, and none is chosen for its coverage. All are exact next-token distributions but those called sampled "
    "(answers drawn and matched with the words) and expected (the exact chance, along these answers, that each word is "
    "the first to be named). Where coverage is low, the answer is mostly something else, and the ratio is that of a "
    "rare event."
)
TABLES = (
    Table(
        "By rejection",
        "The paper's weights are three to six; balanced, both templates weigh the same.",
        (INVALID, RMS, OPEN, *ENTROPIES),
        (ALL, BALANCED, "reject", "narrow"),
    ),
    Table(
        "As published: consistency",
        "It forgives where beliefs are extreme (odds 10,000 times as large, from 1e-6 to .01, score .995), and word "
        "taste scores as high as a belief.",
        (
            C2,
            Column("c2_lower", "bounds", "the mean had every undefined instance scored 0, or 1", to="c2_upper"),
            Column("kappa", "above chance", "(score - chance) / (1 - chance); chance: the posterior of another triple"),
            C3,
            Column("leak", "leak", "the part of 1 - (3-class) that is the rejected word alone, in bits"),
            INVALID,
        ),
        (ALL, BALANCED, "reject", "narrow"),
    ),
    Table(
        "Is the rejected word given where it was likely before?",
        "Shares of the rejected word among the three, before and after; at a rate of 1 they have nothing to do with "
        "each other.",
        (
            Column("invalid_association", "rate", "mean (before x after) / (mean before x mean after)"),
            GIVEN,
            INVALID,
        ),
        (ALL,),
    ),
    Table(
        "How much does the order of the words matter?",
        "Of the variance of consistency, the share between the orders of one triple.",
        (Column("order_share", "share", "1 - ICC of the orders of a triple"),),
        (ALL,),
    ),
    Table(
        "What does a second rejection do?",
        "One word is left; 3-class consistency is measured from certainty, and the rejected share is that of both.",
        (C3, GIVEN, INVALID, Column("p_error_post", "no word", "answers that are none of the three", percent=True)),
        (ONCE, TWICE),
        metric="p_error_post",
    ),
    Table(
        "Are the thoughts finished?",
        "A thought that is cut off at the limit gives no belief.",
        (Column("unclosed", "unfinished", "share of the thoughts", percent=True),),
        (ALL,),
    ),
    Table(
        "Is there a choice at all?",
        'Each word is asked for in a branch of its own ("Is it X?"). A kept choice says yes with the probability with '
        "which the reveal names the word. Commitment is 1 when one word would surely be revealed; the paper reads the "
        "opposite, entropy, as good. Control: the choice is written into the system text.",
        (
            Column("fork_rms", "distance", "root mean square of P(yes) less P(reveal); 0 is a kept choice"),
            Column("fork_excess", "excess", "sum of P(yes) over the words, less 1"),
            Column("fork_corr", "correlation", "of P(yes) and P(reveal) over the words"),
            Column("commitment", "commitment", "1 - entropy of the reveal, in units of log 3"),
            Column("fork_coverage", "yes or no", "probability that the answer is yes or no", percent=True),
        ),
        (ALL, CONTROL),
    ),
    Table(
        "Sampled beside exact",
        "Agreement is 1 - JSD of the sampled and the exact belief of the same context. Two samples of one belief "
        "diverge by chance; corrected takes that off, to first order: trust it where each word is named several times.",
        (
            C2,
            Column("c2_corrected", "corrected", "consistency plus the mean divergence of two samples of one belief"),
            Column("agreement_prior", "agreement before", "1 - JSD of sampled and exact"),
            Column("agreement_posterior", "agreement after", "the same after the rejection"),
            Column("p_error_prior", "no word before", "answers that name none or several", percent=True),
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
    Column("coverage", "coverage", "the smaller of before and after", percent=True),
)


def findings(
    config: ConsistencyConfig, beliefs: BeliefTable, numbers: Sequence[Number], transcripts: Transcripts
) -> Findings:
    """Tables, figures, and the instances."""
    made = made_of(beliefs)
    conditions = condition_tables(config)
    return Findings(
        question=QUESTION,
        columns=COLUMNS,
        tables=[*TABLES, *conditions],
        figures=figures(made, numbers, conditions),
        gallery=gallery(config, scored(made), lambda rows: made.rows(INSTANCES, rows, SHOWN), transcripts),
    )


def condition_tables(config: ConsistencyConfig) -> list[Table]:
    """Consistency under each condition that the settings ask for."""
    windows = config.entities.windows
    orders = ("012", "021", "102", "120", "201", "210")
    asked = (
        (
            "By coverage",
            "Instances whose coverage reaches the threshold before and after. They are chosen by what the "
            "model said: a picture of how much rests on rare answers, not a better estimate.",
            [f"coverage >= {t:g}" for t in config.coverage_thresholds],
        ),
        (
            "By temperature",
            "The same logits, rescaled.",
            [f"T = {t:g}" for t in sorted({1.0, *config.temperatures})] if config.temperatures else [],
        ),
        (
            "By the likelihood of the prefilled turn",
            "Instances above and below the median probability of the prefilled "
            "answer, within each template. A turn that the model would hardly have said is off-policy.",
            [LIKELIER, UNLIKELIER],
        ),
        (
            "By order of the words",
            "Digits: the places that the first, second and third word had when drawn.",
            [f"order {order}" for order in orders] if config.orders != "one" else [],
        ),
        (
            "By likelihood of the words",
            "Windows of their ranks in the eyes of the reference model (1 is the likeliest word).",
            [window_name(window) for window in windows] if len(windows) > 1 else [],
        ),
    )
    return [Table(title, caption, CONDITIONED, tuple(subsets)) for title, caption, subsets in asked if subsets]
