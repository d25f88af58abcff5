"""The tables of the report."""

from collections.abc import Sequence

from ..experiment import Column, Table
from ..tables.samples import ALL
from .own import PAIRS, RESPONSE
from .samples import CONTROL, OUTCOME

COLUMNS = (
    Column("sufficiency", "sufficiency", "share of the forced choice that a rising function of the belief predicts in "
           "other contexts; 1: the belief could be all that is acted on"),
    Column("knows_more", "knows more", "correlation of choice and truth once the belief is known; above 0: the choice "
           "knows more of the truth than the belief tells"),
    Column("knows_more", "p", "of that, by permutation among like beliefs", field="p"),
    Column("cyclic", "irrational, at least", "distance of the three actions from any random-utility choice by this "
           "belief; 0: some utilities have them", field="rms"),
    Column("weighting", "weighting", "exponent of a probability weighting, logistic shocks; 1: none"),
    Column(RESPONSE, "response", "slope of the belief on the true chance; 0: it does not respond to evidence"),
    Column("rmse_truth", "error", "root mean square distance of the belief from the true chance"),
    Column("coverage", "coverage", "probability, or share, of answers that count", percent=True),
)  # fmt: skip
SUFFICIENCY = (
    Column("cmi_exact", "CMI, exact", "information, in nats, of choice and outcome beyond the belief, by exact choices "
           "and true chances; never below 0"),
    Column("cmi_policy", "of three actions", "the same of yes, no and defer"),
    Column("gcm_exact", "GCM, z", "covariance of exact choice and true chance beyond rising functions of the belief; "
           "standard normal if there is none", field="T"),
    Column("cmi", "CMI, drawn", "of one drawn action and outcome, less its mean under permutation"),
    Column("cmi", "p", "permutation among like beliefs", field="p"),
    Column("cmi_isotonic", "recalibrated", "beyond the belief mapped to frequencies, fitted on other contexts"),
    Column("sufficiency_r2", "in bins", "share of the choice that fifteen like beliefs at a time explain"),
)  # fmt: skip
GAIN = (
    Column("logloss_gain", "gain, nats", "log-loss of the action without the outcome less with it, out of fold"),
    Column("logloss_gain", "of", "log-loss without it", field="ll1"),
    Column("logloss_gain", "frequencies alone", "log-loss; a model that is worse than this says nothing",
           field="ll_marginal"),
)  # fmt: skip
ORDER = (
    Column("discordant_pair", "against the order", "share of pairs of contexts in which the higher belief goes with "
           "the lower share of the first action", percent=True),
    Column("discordant_pair", "tau", "Kendall's, of belief and share; 0: choices ignore it", field="tau"),
    Column("discordant_pair", "off a rising curve", "root mean square", field="iso_rms"),
)  # fmt: skip
PRIZE = (
    Column("prize_effect", "effect", "mean square of what the prompt changes, less what repetitions differ by"),
    Column("prize_effect", "RMS", "of the change, as published", field="rmse_means"),
    Column("prize_effect", "mean shift", "with the prompt less without", field="mean_shift"),
    Column("rmse_truth", "error", "distance from the true chance under the prompt"),
    Column("brier", "Brier", "mean squared distance from what came true"),
    Column("calibration", "calibration slope", "of the outcome on the belief; below 1 too extreme"),
)
CASES = (
    Column("lie", "gap", "belief less what its cases imply; 0 is coherent"),
    Column("lie_size", "size", "mean size of the gap"),
    Column("lie_ratio", "median of size / belief", "as published (Figure 2), with the interval of a median"),
    Column("outside_hull", "outside", "share of beliefs that lie outside those given their cases: wrong whatever the "
           "weights", percent=True),
    Column("excess", "sum less 1", "of numbers that are stated on lines of their own"),
)  # fmt: skip
READINGS = (
    Column(
        "reliability",
        "reliability",
        "ICC of two halves of the readings (orders, or sampled "
        "answers); weak where its interval reaches 0: then it is the bias of an order, and no share",
    ),
    Column("bias", "order bias", "P(yes) with the answers in their order less that in the other"),
    Column("unparsed", "no number", "read-outs without a belief", percent=True),
    Column("brier", "Brier", "mean squared distance from what came true"),
    Column("calibration", "calibration slope", "of the outcome on the belief; below 1 too extreme"),
)


def tables(prompts: Sequence[str]) -> list[Table]:
    """All but the first; `prompts` are the subsets of the prompts that are compared with the standard one."""
    return [
        Table(
            "Does the choice know more than the belief?",
            "Proposition 1: given the belief, choice and outcome are independent for any expected-utility maximiser. "
            "The exact forms leave no noise of drawing.",
            SUFFICIENCY,
            (ALL,),
        ),
        Table(
            "Does the outcome help to predict the action?",
            "As the paper asks it, of three actions, contexts kept whole in folds. Control: with the evidence known "
            "the outcome can add nothing; what it adds is what the learner failed to learn.",
            GAIN,
            (OUTCOME, CONTROL),
        ),
        Table(
            "Do choices rise with the belief, pair by pair?",
            "Proposition 2, which needs independence of irrelevant alternatives; exact choices, no bins.",
            ORDER,
            tuple(PAIRS),
        ),
        Table(
            "Does it matter how the belief is paid for?",
            "Squared and log loss ask for the same report. Absolute loss does not: who is paid by it should say 0 or "
            "1, so it is the control that ought to move.",
            PRIZE,
            tuple(prompts),
        ),
        Table(
            "Is a belief the mean of the beliefs given each case?",
            "A further covariate, its chances as the model gives them, and the belief with each of its states "
            "revealed.",
            CASES,
            (ALL,),
        ),
        Table("How well is the belief read?", "Under the standard prompt.", READINGS, (ALL,), metric="unparsed"),
    ]
