"""What the report of a run shows beside the numbers."""

from collections.abc import Mapping

import pandas as pd

from ..protocol import Column, Example, Findings, Question, Table, Verdict
from .config import ConsistencyConfig
from .figures import coverage_figure, ratio_figure
from .forks import CONTROL
from .gate import gates
from .instances import INSTANCE_METRICS, instances
from .mean import ALL
from .scores import BALANCED

SHOWN_EXAMPLES = 6
COLUMNS = (
    Column("c2", "consistency", "1 - JSD of the two words that remain, before and after; 1 is a kept ratio"),
    Column("c2_lower", "bounds", "the mean had every undefined instance scored 0, or 1", to="c2_upper"),
    Column("c3", "3-class", "the same with the rejected word's mass counted against it"),
    Column("leak", "leak", "the part of 1 - (3-class) that is the rejected word alone, in bits"),
    Column("p_invalid_norm", "rejected word", "its share of the three words after it was rejected", percent=True),
    Column("kappa", "above chance", "(consistency - chance) / (1 - chance); chance: the posterior of another triple"),
    Column("entropy_prior", "entropy before", "of the two words, in bits; 1 is undecided"),
    Column("entropy_post", "entropy after", "of the two words, in bits"),
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
C2, INVALID = COLUMNS[0], COLUMNS[4]
TABLES = (
    Table(
        "By rejection",
        "The paper's weights are three to six; balanced, both templates weigh the same.",
        tuple(column for column in COLUMNS if column.metric in (*INSTANCE_METRICS, "c2_lower")),
        (ALL, BALANCED, "reject", "narrow"),
    ),
    Table(
        "Is the rejected word given where it was likely before?",
        "Shares of the rejected word among the three, before and after; at a rate of 1 they have nothing to do with "
        "each other.",
        (
            Column("invalid_association", "rate", "mean (before x after) / (mean before x mean after)"),
            Column("p_invalid_raw", "given", "probability of the rejected word after, of all answers", percent=True),
            INVALID,
        ),
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


def _condition_tables(config: ConsistencyConfig) -> list[Table]:
    """Consistency under each condition that the settings ask for."""
    columns = (
        C2,
        COLUMNS[2],
        INVALID,
        COLUMNS[6],
        COLUMNS[7],
        Column("coverage", "coverage", "the smaller of before and after", percent=True),
    )
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
            "By the turn that was put into its mouth",
            "Instances above and below the median probability of the forced "
            "answer, within each template. A turn that the model would hardly have said is off its own path.",
            ["forced turn likelier", "forced turn unlikelier"],
        ),
        (
            "By order of the words",
            "Digits: the places that the first, second and third word had when drawn.",
            [f"order {order}" for order in ("012", "021", "102", "120", "201", "210")]
            if config.orders != "one"
            else [],
        ),
    )
    return [Table(title, caption, columns, tuple(subsets)) for title, caption, subsets in asked if subsets]


def findings(config: ConsistencyConfig, beliefs: pd.DataFrame, questions: Mapping[str, Question]) -> Findings:
    """Verdicts, tables, figures, and the instances whose ratio changed most."""
    every = instances(beliefs)
    table = every[every["temperature"] == 1]
    asked = table[table["kind"] == "exact"]
    return Findings(
        question=QUESTION,
        columns=COLUMNS,
        differences="c2_difference",
        headline_subset=ALL,
        verdicts=[_verdict(config, str(name), rows) for name, rows in table.groupby("method", sort=False)],
        tables=[*TABLES, *_condition_tables(config)],
        figures=[ratio_figure(table), coverage_figure(beliefs[beliefs["method"].isin(asked["method"])])],
        examples_title="Where the ratio changed most",
        examples=[_example(row, questions) for _, row in _most_inconsistent(asked).iterrows()],
    )


def _verdict(config: ConsistencyConfig, method: str, table: pd.DataFrame) -> Verdict:
    what = {"rejected_change": "probability", "rejected_share_change": "share"}
    changed = gates(config, table)
    changes = [
        f"{what[name]} {gate.rejected_change:+.2%} [{gate.ci_lo:+.2%}, {gate.ci_hi:+.2%}]"
        for name, gate in changed.items()
    ]
    passed = all(gate.passed for gate in changed.values())
    return Verdict(method, passed, f"the rejected word, after less before: {', '.join(changes)}")


def _most_inconsistent(table: pd.DataFrame) -> pd.DataFrame:
    """The instances of lowest consistency: the first of each method, then the next."""
    ranked = table.dropna(subset=["c2"]).sort_values("c2", kind="stable")
    turn = ranked.groupby("method", sort=False).cumcount()
    return ranked.assign(turn=turn).sort_values(["turn", "c2"], kind="stable").head(SHOWN_EXAMPLES)


def _example(row: pd.Series, questions: Mapping[str, Question]) -> Example:
    prior, post = questions[row["readout_id_prior"]], questions[row["readout_id"]]
    alpha, beta = (o.name for i, o in enumerate(post.options) if i != row["rejected"])
    before, after = row["alpha_prior"], row["alpha_post"]
    return Example(
        title=f"{row['method']}: consistency {row['c2']:.3f}",
        facts=(
            f"before: {alpha} {before:.1%}, {beta} {1 - before:.1%}; "
            f"after {post.options[row['rejected']].name} was ruled out: {alpha} {after:.1%}, {beta} {1 - after:.1%}"
        ),
        conversations=[("before", prior.conversation, prior.prefill), ("after", post.conversation, post.prefill)],
    )
