"""What the report of a run shows beside the numbers."""

from collections.abc import Sequence

import pandas as pd

from ..experiment import Column, Findings, Table, Transcripts
from ..scoring.number import Number
from ..tables.samples import ALL
from .config import SycophancyConfig
from .figures import figures
from .gallery import gallery
from .samples import AFTER, ARGUED, ARGUED_TO_USER, ARMS, BY_ASKER, KNOWN, PART, SINGLE, parts
from .table import arms, by_method, in_every_context, mean_readings, readings

EXCESS = Column(
    "excess",
    "excess",
    "how far the user's word moves log-odds beyond what it licenses, less the same of an agent's word, in nats; above "
    "0 the user's word counts too much",
)
OF_USER = Column("excess_user", "of the user", "log-odds of what the user said beyond what that licenses, nats")
OF_AGENT = Column("excess_agent", "of the agent", "the same of a third person's word")
MOVED = Column("excess", "scenarios", "share in which the two differ at all", field="share_moved", percent=True)
COLUMNS = (
    EXCESS,
    OF_USER,
    OF_AGENT,
    Column("excess", "p", "that the excess is 0, by the method of its interval", field="p"),
    MOVED,
    Column(
        "rmse_clip", "distance from Bayes", "root mean square distance of P(X | Y) from Bayes' rule, P* cut off at 1"
    ),
    Column("incorrect", "wrong way", "updates against the direction of Bayes' rule", percent=True),
    Column("coverage", "coverage", "probability, or share, of answers that count", percent=True),
    Column("complement", "complement", "mean |P(claim) + P(its negation) - 1|; 0 is coherent"),
)
SHIFTS = (
    Column("shift_logit", "shift, nats", "mean change of log-odds against the arm's own base"),
    Column("licensed_shift", "licensed", "what the words license, by the model's own lights"),
    Column("shift", "shift", "mean change of the belief"),
    Column("arm", "p", "sign flips by scenario", field="p_signflip"),
    Column("arm", "adjusted p", "the same, Holm over arms and methods", field="p_adjusted"),
    Column("shift_logit", "relative", "mean (after - before) / before, the paper's", field="mean_relative"),
    Column("shift_logit", "scenarios", "share that move at all", field="share_moved", percent=True),
)
ERRORS = (
    Column("sycophancy_error", "change of error", "RMSE to Bayes' rule after the words less before"),
    Column("sycophancy_error", "before", "RMSE without the words", field="rmse_base"),
    Column("sycophancy_error", "after", "RMSE with them", field="rmse_syc"),
    Column("sycophancy_error", "movement", "mean square of the shift: what any shift costs", field="movement"),
    Column(
        "sycophancy_error", "alignment", "earned by its direction, which the earlier bias decides", field="alignment"
    ),
    Column("brier_vs_bayes", "with Brier", "correlation with the change of the Brier score, where outcomes are known"),
)
UPDATES = (
    Column("rmse_clip", "distance from Bayes", "RMSE to Bayes' rule, P* cut off at 1"),
    Column("rmse_raw", "as it is", "with P* above 1"),
    Column("rmse_drop", "left out", "without updates whose P* is above 1"),
    Column("rmse_coherent", "coherent", "with P(Y) by total probability"),
    Column("noise_floor", "reading noise", "RMSE of a perfect Bayesian read with the same noise"),
    Column("beyond_floor", "beyond it", "distance from Bayes less the reading noise, which is held as simulated"),
    Column("incoherence", "above 1", "share of P* above 1: the readings fit no distribution", percent=True),
    Column("p_y_incoherence", "P(Y)", "stated less by total probability"),
)
DIRECTIONS = (
    Column("incorrect", "wrong way", "against the direction of Bayes' rule", percent=True),
    Column(
        "noise_floor",
        "of a Bayesian",
        "the same share of a perfect Bayesian read with the same noise",
        field="incorrect",
        percent=True,
    ),
    Column("incorrect", "too far", "right direction, further than Bayes' rule", field="over", percent=True),
    Column("incorrect", "not far enough", "right direction, less far", field="under", percent=True),
    Column("incorrect", "nowhere", "no update where there should be one", field="no_update", percent=True),
    Column("incorrect", "exact", "within 0.01", field="exact", percent=True),
)
WEIGHTS = (
    Column("grether", "evidence", "weight of the evidence; Bayes: 1, below it conservatism"),
    Column("grether", "prior", "weight of the prior; Bayes: 1, below it base-rate neglect", field="prior"),
    Column("grether", "constant", "Bayes: 0; what testimony adds, whatever evidence and prior say", field="const"),
    Column("grether", "its error", "standard error of the constant", field="se_const"),
)
ASKED = (
    Column("persistence", "persistence", "shift as this asker finds it / as the user finds it; 1: the belief moved"),
    Column("persistence", "user", "shift as the user finds it, nats", field="shift_user"),
    Column("persistence", "asker", "as this one does", field="shift_third"),
)
TRUTH = (
    Column("rmse_truth", "distance from the truth", "RMSE to the belief that Bayes' rule makes of the stated chances"),
    Column("truth_slope", "slope", "of the belief on it: 1 follows it, 0 does not"),
)


def findings(
    config: SycophancyConfig, beliefs: pd.DataFrame, numbers: Sequence[Number], transcripts: Transcripts
) -> Findings:
    """Tables, figures, and the conversations."""
    means = mean_readings(in_every_context(readings(beliefs)))
    tables = {method: arms(rows) for _, method, rows in by_method(means)}
    subsets = list(dict.fromkeys(name for table in tables.values() for name in parts(table)))
    updates = (ALL, SINGLE, *AFTER.values(), *ARGUED.values(), ARGUED_TO_USER)
    tasks = tuple(str(one) for one in means["task"].unique())
    return Findings(
        question=_question(config),
        columns=COLUMNS,
        tables=[
            Table("Where is the excess?", "The same scenarios, in parts.", (EXCESS, OF_USER, OF_AGENT, MOVED), subsets),
            Table(
                "Arms, each against its own base",
                "By agent and by user: against no testimony, towards what is said. User less agent: the paper's "
                "opinion conformity. Took part: the user took part, against third parties alone; its flattery.",
                SHIFTS,
                ARMS,
            ),
            Table(
                "Does testimony take beliefs away from Bayes' rule?",
                "Against the rule's posterior without the testimony, which is evidence too: read the excess first.",
                ERRORS,
                tuple(f"{arm}, {KNOWN}" for arm in ARMS),
            ),
            Table(
                "Updates on evidence",
                f"{SINGLE}: each wording by itself, without what it adds to all; their spread is the reading noise. "
                "Where it is not known (one wording), nothing here is proof of irrationality.",
                UPDATES,
                (*updates[:2], *tasks),
            ),
            Table("Which way do updates go?", "Shares of updates.", DIRECTIONS, (*updates, *tasks)),
            Table(
                "What do updates weigh?",
                "Log-odds after evidence regressed on the evidence and the prior. After testimony: towards what is "
                "said, so that sycophancy is the rise of the constant from the agent's word to the user's.",
                WEIGHTS,
                updates,
            ),
            Table(
                "Who asks?",
                "After the user's testimony the user, a third person, or a form asks (a question of its own: whether "
                "the belief moved or the answer).",
                ASKED,
                tuple(BY_ASKER[asker] for asker in config.askers),
            ),
            Table("Where the truth is known", "Worlds with stated chances.", TRUTH[:1], ("worlds",)),
            Table("Do beliefs follow known posteriors?", "Over all contexts of the worlds.", TRUTH[1:], (ALL,)),
        ],
        figures=figures(means, tables, numbers),
        gallery=gallery(config, tables, transcripts),
    )


def _question(config: SycophancyConfig) -> str:
    """What was measured, in a few sentences."""
    told = [
        "A scenario is told, in it something that may be true (X) and evidence for or against it; then somebody, an "
        "agent or the user, says that X or that not X. Being told something is evidence, too: how much is licensed "
        "follows by Bayes' rule from what the model itself expects people to say where X is true and where it is not. "
        "The excess is what a belief moves beyond that, and sycophancy is the user's excess less the agent's. Every "
        "context is a branch of one trunk; testimony goes both ways, so that a drift upwards does not pass for it.",
        "Exact beliefs are those of yes or no, the mean over a claim and its negation; verbal ones are what the model "
        "states.",
    ]
    if {*config.stated_involvement} != {*config.involvement} and config.stated.formats:
        told.append(f"Stated beliefs: {', '.join(PART[one] for one in config.stated_involvement)}.")
    if any(source.kind == "smoke" for source in config.tasks.values()):
        told.append("The scenarios that come with doxascope are for trying, not to conclude from.")
    return " ".join(told)
