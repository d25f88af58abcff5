"""Calibration of what is read inside: probes of nothing and of confounds, what they add, when they know, and what
follows their dose (PROBES 5, 9, 10, METRICS E5); of sure losses (W7); and of length that passes for an opinion (D5).
"""

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import expit

from doxascope.benchmarks.agents.updates import Floats
from doxascope.benchmarks.calibration.design import (
    PERMUTATIONS,
    RESAMPLES,
    Aim,
    Design,
    Test,
    excludes,
    names,
    rejects,
    score_of,
    scores,
    simulation,
    unless_flagged,
)
from doxascope.benchmarks.calibration.near_certainty import formerly, instead
from doxascope.metrics import Resampling
from doxascope.metrics.consistency.evidence_response import MOST
from doxascope.metrics.tables.samples import Testimony, Told, YesNo
from doxascope.probes.causal.plan import EXACT, OUTCOMES, PLAIN, Arm, CausalData, CausalPlan
from doxascope.probes.causal.steering import dose_response
from doxascope.probes.dataset import Target
from doxascope.probes.evidence.controls import baseline_r2
from doxascope.probes.evidence.crossfit import cross_fit, out_of_fold_r2, refit
from doxascope.probes.evidence.incremental import incremental_validity
from doxascope.probes.evidence.token_lead import lead_in_tokens
from doxascope.probes.groups import grouped_folds

FAMILY = "P. Probes"
FOLDS, REFITS, PENALTIES = 5, 40, (10.0,)
"""Refits are fewer than those of a job, and the penalty is one of its many."""

MOVES = 99
"""Permutations of trajectories, each of which is slow: 5 of 100 is exactly 5%."""
LEAD = Test("lead in tokens, questions exchanged", bound=True, note="leads come in whole tokens, and tie")


@simulation
def _knew(rng: Generator, questions: int, each: int, early: float) -> dict[str, float]:
    """Beliefs asked for walk to one side in eight steps. What is read in passing is a walk of its own, leaning as much,
    or of a share `early` of the questions what is asked for three steps later. Trajectories of a question share how
    they lean, in both.
    """
    n, steps = questions * each, 8
    lean = np.repeat(rng.normal(0, 0.5, (2, questions)), each, axis=1)
    asked, passive = ((side[:, None] + rng.normal(0, 1, (n, steps + 3))).cumsum(axis=1) for side in lean)
    knows = np.repeat(rng.random(questions) < early, each)
    passive = np.where(knows[:, None], asked, passive)[:, 3:]
    asked = asked[:, :steps]
    chain = np.repeat(np.arange(n), steps)
    found = lead_in_tokens(
        expit(passive.ravel()),
        expit(asked.ravel()),
        np.tile(10.0 * np.arange(1, steps + 1), n),
        np.tile(np.arange(steps), n),
        chain,
        chain // each,
        how=Resampling(int(rng.integers(2**31)), MOVES),
    )
    return {LEAD.name: rejects(found.p)}


ADDS = Test(
    "adds nats to the exact log-odds, permutation of what is unexplained",
    bound=True,
    note="p of folds combined by Cauchy's law",
)


def _states(rng: Generator, signals: Floats, width: int) -> Floats:
    """[n, width] activations with each signal [n, k] along a direction of its own, and noise."""
    return signals @ rng.normal(size=(signals.shape[1], width)) + rng.normal(size=(len(signals), width))


@simulation
def _adds(rng: Generator, groups: int, hidden: float) -> dict[str, float]:
    """Truths of two rows a group, by log-odds that the model says, and others that its states alone hold."""
    said, held = rng.normal(0, 1, (2, groups, 1)) + rng.normal(0, 0.5, (2, groups, 2))
    said, held = said.ravel(), held.ravel()
    owner = np.repeat(np.arange(groups), 2)
    y = (rng.random(2 * groups) < expit(said + hidden * held)).astype(float)
    x = _states(rng, np.column_stack([said, held]), 12)
    folds = grouped_folds(owner, FOLDS, int(rng.integers(2**31)))
    target = Target("truth", y, np.where(y > 0, 4.0, -4.0), 0)
    read = cross_fit(x, target, folds, PENALTIES).signals
    found = incremental_validity(
        read, y, [("exact logit", said)], owner, folds, how=Resampling(int(rng.integers(2**31)), PERMUTATIONS)
    )
    return {ADDS.name: float(found.gain > 0 and found.p <= 0.05)}


NOTHING = Test("R2 of a probe above 0, refits of groups", bound=True, note="an R2 out of fold of nothing lies below 0")
KNOWS = formerly("R2 of a probe above 0, whatever the prompt gives away")
CONFOUND = instead("R2 of a probe above that of its confound", KNOWS.name, "both are fitted anew in every draw")


@simulation
def _probed(
    rng: Generator, groups: int, width: int, confound: float, own: float, refits: int = REFITS
) -> dict[str, float]:
    """Log-odds of three rows a group that go along with the length of the prompt by `confound`, and are in the states
    by `own`; the states hold the length.
    """
    owner = np.repeat(np.arange(groups), 3)
    length = rng.normal(size=groups)[owner] + 0.3 * rng.normal(size=3 * groups)
    rest = rng.normal(size=groups)[owner] + 0.3 * rng.normal(size=3 * groups)
    y = confound * length + rest
    x = _states(rng, np.column_stack([length * bool(confound), own * rest]), width)
    x += rng.normal(size=(groups, width))[owner]  # what a group can be known by
    folds = grouped_folds(owner, FOLDS, int(rng.integers(2**31)))

    def statistic(rows: NDArray[np.intp], mine: NDArray[np.intp]) -> dict[str, float]:
        target = Target("y", expit(y[rows]), y[rows], 0)
        found = cross_fit(x[rows], target, mine, PENALTIES)
        r2 = out_of_fold_r2(target.logit, found.score, found.train_logit)
        if not confound:
            return {"r2": r2}
        return {"r2": r2, "above": r2 - baseline_r2(length[rows, None], target.logit, mine, PENALTIES)}

    made = refit(statistic, owner, folds, how=Resampling(int(rng.integers(2**31)), refits))
    knows = float(made["r2"].lo > 0)
    return {CONFOUND.name: float(made["above"].lo > 0), KNOWS.name: knows} if confound else {NOTHING.name: knows}


DOSE = instead(
    "dose response, by the share of contexts", "dose response, mean tau above 0", "of contexts, not of means"
)
PLAN = CausalPlan(directions=("d",), draws=RESAMPLES, erase=False, surgery=(), random=0)


@simulation
def _dosed(rng: Generator, contexts: int, share: float) -> dict[str, float]:
    """A share of the contexts follows the dose by 1 nat for each nat read, the others not at all; .2 nat of noise."""
    follows = (rng.random(contexts) < share)[:, None] * 1.0
    blank = np.full((contexts, len(OUTCOMES)), np.nan)
    at = [OUTCOMES.index("probe"), OUTCOMES.index(EXACT)]
    readings = {PLAIN: blank.copy()}
    readings[PLAIN][:, at] = rng.normal(size=(contexts, 2))
    for dose in PLAN.signed:
        values = readings[PLAIN].copy()
        values[:, at] += dose * np.hstack([np.ones_like(follows), follows]) + 0.2 * rng.normal(size=(contexts, 2))
        readings[Arm("steer", "d", dose)] = values
    none = np.full(contexts, np.nan)
    data = CausalData(np.arange(contexts), readings, none, np.zeros(contexts), none)
    found = dose_response(data, [EXACT], PLAN)
    return {DOSE.instead_of: float(found.trend.ci_lo > 0), DOSE.name: float(found.share.ci_lo > MOST)}


BOOK = Test("sure loss in a statement and its negation, interval", bound=True, note="no shorter than t")


@simulation
def _loses(rng: Generator, items: int, rare: bool, planted: float) -> dict[str, float]:
    """Beliefs in a statement and its negation that miss one by up to .2 in every item, or by .5 in a tenth of them.
    The loss is the distance in cents, of stakes of one: its mean is 10, or 5.
    """
    off = rng.uniform(-0.2, 0.2, items)
    if rare:
        off = np.where(rng.random(items) < 0.1, 0.5, 0.0)
    belief = rng.uniform(0.55, 0.75, items)
    sample = YesNo(belief=belief, negated=1 - belief + off, mass=np.ones(items), clusters=names(items))
    found = score_of("dutch-book-complement", "dutch_book_complement", sample, RESAMPLES)
    return {BOOK.name: unless_flagged(found, excludes(found, planted))}


LONG = instead(
    "user's excess over a prompt as long, interval by scenario",
    "shift by an opinion, interval by scenario",
    "a difference of prompts of one length",
)


@simulation
def _long(rng: Generator, scenarios: int, opinion: float) -> dict[str, float]:
    """Beliefs rise by .3 nat with every ten words that a prompt is longer, whatever these say; and by an opinion."""
    words = rng.integers(8, 16, scenarios) / 10
    odds = rng.normal(0, 1, scenarios)

    def read(longer: Floats, heard: float = 0.0) -> Floats:
        return expit(odds + 0.3 * longer + heard + rng.normal(0, 0.2, scenarios))

    base, user, agent = read(0 * words), read(words, opinion), read(words)
    licensed = expit(odds)
    was = scores("sycophancy", Testimony(base=base, syc=user, clusters=names(scenarios)), RESAMPLES)["shift_logit"]
    told = Told(user=user, licensed_user=licensed, agent=agent, licensed_agent=licensed, clusters=names(scenarios))
    now = score_of("licensed-testimony", "excess", told, RESAMPLES)
    return {LONG.instead_of: excludes(was, 0.0), LONG.name: excludes(now, 0.0)}


def designs() -> list[Design]:
    """The designs of what is read inside, of sure losses and of length."""
    level: Aim = "level"
    power: Aim = "power"
    lead, confounds = (LEAD,), (KNOWS, CONFOUND)
    dose, length = ((formerly(test.instead_of), test) for test in (DOSE, LONG))
    return [
        Design("P-lead", FAMILY, "20 questions x 3 trajectories of 8 steps, a belief in passing of its own", level,
               "no lead", _knew(20, 3, 0.0), lead),
        Design("P-lead-40", FAMILY, "40 trajectories of 8 steps, a belief in passing of its own", level,
               "no lead", _knew(40, 1, 0.0), lead),
        Design("P-lead-power", FAMILY, "40 trajectories of 8 steps", power,
               "in half of them the belief in passing is three steps ahead", _knew(40, 1, 0.5), lead),
        Design("P-adds", FAMILY, "80 groups of two rows, states that hold something besides", level,
               "the truth goes by what is said alone", _adds(80, 0.0), (ADDS,)),
        Design("P-adds-power", FAMILY, "120 groups of two rows, states that hold something besides", power,
               "the truth goes by both alike", _adds(120, 1.0), (ADDS,)),
        Design("P-random", FAMILY, "40 groups of three rows, 20 random features of the group and the row", level,
               "nothing to decode", _probed(40, 20, 0.0, 0.0, 20), (NOTHING,)),
        Design("P-random-power", FAMILY, "40 groups of three rows, 20 features", power,
               "a direction holds the target", _probed(40, 20, 0.0, 1.0, 20), (NOTHING,)),
        Design("P-confound", FAMILY, "60 groups of three rows, states that hold the length of the prompt", level,
               "the target goes along with the length, nothing else is held", _probed(60, 12, 1.0, 0.0), confounds),
        Design("P-confound-power", FAMILY, "80 groups of three rows, states that hold the length of the prompt", power,
               "and the rest of the target", _probed(80, 12, 1.0, 2.0), confounds),
        *(
            Design(f"P-dose-{share:g}", FAMILY, f"{share:.0%} of 40 contexts follow the dose", level,
                   "at most half follow", _dosed(40, share), dose)
            for share in (0.0, 0.25, 0.45, 0.5)
        ),
        Design("P-dose-power", FAMILY, "90% of 40 contexts follow the dose", power, "most follow",
               _dosed(40, 0.9), dose),
        Design("D-length", "D. Sycophancy", "30 scenarios, belief rises with the length of the prompt", level,
               "the opinion does nothing", _long(30, 0.0), length),
        Design("D-length-power", "D. Sycophancy", "30 scenarios, belief rises with the length of the prompt", power,
               "the opinion adds .3 nat", _long(30, 0.3), length),
        *(
            Design(f"E-book-{n}-{said}", "E. Decisions", f"{n} items, {words}", level, f"mean loss {planted:g} cents",
                   _loses(n, said == "rare", planted), (BOOK,))
            for n, said, words, planted in (
                (20, "spread", "beliefs that miss one by up to .2", 10.0),
                (60, "spread", "beliefs that miss one by up to .2", 10.0),
                (60, "rare", "a tenth of which misses one by .5", 5.0),
            )
        ),
        Design("E-book-power", "E. Decisions", "60 items, beliefs that miss one by up to .2", power,
               "mean loss 10 cents, not 7", _loses(60, False, 7.0), (BOOK,)),
    ]  # fmt: skip
