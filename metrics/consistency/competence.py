"""Is what is read a belief that answers to what it is told? Two of the three verdicts (METRICS W4): `readable` and
`responds`. The third, whether it is coherent, is a result (`metrics.coherence`).

Each is judged in every template: averaged over templates, whoever merely favours recently named words responds, since
most contexts name the other words.
"""

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...base.text import shown
from ..contract import NAN, RESAMPLING, Floats, Resampling, Score, floats, outcomes, probabilities, refuse
from ..inference.clusters import complete_rows
from ..inference.intervals import moment_interval
from ..inference.means import cluster_share
from ..inference.regression import FEW_EFFECTIVE, few_effective
from ..number import interval_text
from .evidence_response import MOST, Responding, responding_share
from .sampling_bias import chance_corrected

COVERAGE, PARSED, ORDER, WORDINGS = "coverage", "valid-answer rate", "order of the options", "wordings agree"
HALVES, BELOW_MENTIONED = "rejected halves", "below a mention"
RESPONDING, EASY = "items that respond", "easy questions"
CONDITIONS = {
    COVERAGE: "share of the read-outs with a coverage of at least 50%, or of at least `low_coverage` where that is set",
    PARSED: "share of the answers that can be parsed; for answers that are computed and not sampled, their probability",
    ORDER: "share of the questions whose belief follows the place of the options",
    WORDINGS: "reliability over wordings: share of the variance of a belief, asked for in one wording of the question, "
    "that other wordings confirm",
    HALVES: "share of the items in which the rejected option loses at least half of its probability (in the sum over "
    "the contexts of the item, and in contexts that had more than half of that sum), minus the share in which it gains",
    BELOW_MENTIONED: "the same, compared with its probability after the same question and a reply that decides nothing",
    RESPONDING: "share of the test items (their true posterior is known) whose belief follows the evidence, minus the "
    "share whose belief moves the wrong way; items whose readings are too noisy to tell are left out",
    EASY: "accuracy on easy questions, which must be above what the best guess gets that is the same for all of them",
}
"""The conditions of the two verdicts, and the number that each looks at (METRICS W4)."""
TITLES = {COVERAGE: "enough coverage"}
"""What a page calls a condition whose name is that of another number."""
READS = (COVERAGE, PARSED, ORDER, WORDINGS)
"""Those of `readable`; the others are of `responds`."""
FAILED = {
    COVERAGE: "most of the probability is on answers that are none of the options",
    PARSED: "too few answers can be parsed in the format that was asked for",
    ORDER: "the answers follow the place of the options",
    WORDINGS: "the wordings of a question disagree",
}
"""What it means that a condition of `readable` fails."""
SHARES = {
    HALVES: "share of items in which the rejected option loses half of its probability minus share in which it gains",
    BELOW_MENTIONED: "share of items in which the rejected option has at most half of its probability after a mere "
    "mention minus share in which it has more",
    RESPONDING: "share of items whose belief follows the evidence minus share whose belief moves the wrong way",
}
"""Those that are shares of items, each with what its number is."""
GATE = "gate"
"""The metric under which both verdicts stand among the numbers."""
RARE = "ratio of rare answers"
MAX_ORDER = 0.5
"""Where half of the beliefs follow the place of the options, what is read is no more than a place."""
LEAST_ORDERED = 10
"""Fewest clusters of questions of which that can be said."""

READABLE, UNREADABLE = "readable", "unreadable"
RESPONDS, UNRESPONSIVE = "responds", "does not respond"
NOT_SHOWN, NOT_TESTED = "not shown", "not tested"
State = Literal["holds", "fails", "not shown"]


@dataclass(frozen=True, kw_only=True)
class Condition:
    """One condition of a verdict."""

    name: str
    """One of `CONDITIONS`."""
    part: str = ""
    """The template, the kind or the control that it is about."""
    value: float
    """What was seen."""
    ci_lo: float = NAN
    ci_hi: float = NAN
    """Its interval; NaN where there is none, which shows nothing."""
    median: float = NAN
    """Of coverage, where `value` is a share of read-outs: that of their coverage."""
    threshold: float
    above: bool
    """Whether the number must lie above it, or at it; else strictly below."""
    state: State
    """`holds` or `fails` where all of the interval lies on one side of the threshold; what is undefined fails."""
    n_clusters: int = 0
    beside: str = ""
    """What is to be read with it."""

    @property
    def held(self) -> bool:
        """Whether it holds."""
        return self.state == "holds"

    @property
    def label(self) -> str:
        """Its name and its part."""
        return f"{self.name}[{self.part}]" if self.part else self.name

    @property
    def asked(self) -> str:
        """What it asks of an end of the interval."""
        end = "end of the two-sided interval" if self.name in (ORDER, WORDINGS) else "one-sided bound"
        return f"{'lower' if self.above else 'upper'} {end} {'above' if self.above else 'below'} {self.threshold:.3g}"

    @property
    def seen(self) -> str:
        """What was seen, with its interval."""
        if math.isnan(self.value):
            return "undefined"
        return " ".join(filter(None, (shown(self.value), interval_text(self.ci_lo, self.ci_hi), self.beside)))


class BeliefGate(Score, headline="share"):
    """METRICS W4. The interval of the base class is that of `share`."""

    share: float = NAN
    """The least share of items that respond, over templates and controls; NaN where none was asked for."""
    conditions: Mapping[str, Condition] = field(default_factory=dict)
    """By name: `coverage[kind]`, `rejected halves[template]`, `below a mention[template]`, ..."""
    withheld: Mapping[str, str] = field(default_factory=dict)
    """Conditions that could not be judged or were not asked, and why: then the verdict is not affirmed."""
    rare: tuple[str, ...] = ()
    """Kinds of which fewer than half of the readings have enough coverage, shown or not: a ratio of rare answers."""
    readable: str = NOT_TESTED
    """`readable`, `unreadable`, `not shown` or `not tested`."""
    responds: str = NOT_TESTED
    """`responds`, `does not respond`, `not shown` or `not tested`."""

    @property
    def failures(self) -> tuple[str, ...]:
        """Names of the conditions that fail, in the order they were put."""
        return tuple(name for name, condition in self.conditions.items() if condition.state == "fails")


class KappaWord(Score, headline="kappa_word"):
    """METRICS W3: what a score gains over word identity."""

    kappa_word: float = NAN
    c: float = NAN
    """Mean score."""
    c_word: float = NAN
    """Mean score of read-outs that know the words and no context."""


def kappa_word(
    score: ArrayLike, null_score: ArrayLike, clusters: ArrayLike | None = None, *, how: Resampling = RESAMPLING
) -> KappaWord:
    """(C - C_word) / (1 - C_word), the gain of a coherence score over word identity (METRICS W3).

    Args:
        score: [n] coherence of each instance, at most 1. Use one of three classes: of two, the null's is always 1.
        null_score: [n] the same of `word_identity_null`'s read-outs.
        clusters: [n] item. None: every row its own.

    `chance_is_perfect` where the null scores 1: then the score cannot tell a belief from words.
    """
    columns = {"score": floats(score), "null_score": floats(null_score)}
    for name, column in columns.items():
        refuse(column, column > 1 + 1e-9, f"{name}:", " exceeds 1; give scores that are 1 at best")
    rows = complete_rows(clusters, **columns)
    c, null = rows.columns
    if not rows.n:
        return KappaWord(status="too_few", **rows.counts)

    def kappa(sums: Floats) -> Floats:
        return np.atleast_1d(chance_corrected(sums[:, 0] / sums[:, 2], sums[:, 1] / sums[:, 2]).kappa)

    moments = np.column_stack([c, null, np.ones(rows.n)])
    value = float(kappa(moments.sum(axis=0)[None])[0])
    fields: dict[str, Any] = {"kappa_word": value, "c": float(c.mean()), "c_word": float(null.mean())}
    if np.isnan(value):
        return KappaWord(status="chance_is_perfect", **fields, **rows.counts)
    interval = moment_interval(moments, rows.codes, kappa, how=how)
    return KappaWord(**fields, **interval.fields(), **interval.test_of_zero(value), **rows.counts)


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """One of the two verdicts, with what it rests on."""

    state: str
    conditions: tuple[Condition, ...] = ()
    withheld: Mapping[str, str] = field(default_factory=dict)
    """Conditions that could not be judged or were not asked, and why."""
    least: Score | None = None
    """The least share of items that respond, if one was asked for."""


def readable(
    *,
    coverage: Mapping[str, ArrayLike] | None = None,
    parse_rate: Mapping[str, ArrayLike] | None = None,
    read_groups: Mapping[str, ArrayLike] | None = None,
    order: Score | None = None,
    wordings: Score | None = None,
    min_coverage: float = 0.5,
    min_parse: float = 0.8,
    max_order: float = MAX_ORDER,
    untested: Mapping[str, str] | None = None,
    how: Resampling = RESAMPLING,
) -> Judgement:
    """Is what is read an answer, and one to the question rather than to its form (METRICS W4)?

    `readable`, `unreadable`, `not shown` or `not tested`. Conditions that are not given fall away.

    Args:
        coverage: kind -> [n] masses on the options. Their median reaches `min_coverage` where more than half of them
            do: the interval of that share must lie above one half.
        parse_rate: kind -> [n] whether an answer was parsed, or the share of an item's: the interval of the mean must
            lie above `min_parse`.
        read_groups: kind of either -> [n] item of each. None: every row its own.
        order: share of the questions whose belief follows the place of the options (E16): its interval must lie below
            `max_order`; who answers by place alone has 1.
        wordings: reliability of one wording, whose interval must lie above 0 (F7).
        min_coverage: fixed before anything is read, as are all thresholds.
        min_parse: likewise.
        max_order: likewise.
        untested: name of a condition -> why it was not asked: the verdict is then not affirmed.
        how: bounds of coverage and of parsed answers are one-sided and of its `level`.
    """
    conditions: list[Condition] = []
    groups = read_groups or {}
    for kind, masses in (coverage or {}).items():
        known = probabilities(masses, f"coverage[{kind!r}]").ravel()
        enough = np.where(np.isfinite(known), known >= min_coverage, np.nan)
        judged = _share(COVERAGE, kind, enough, groups.get(kind), MOST, how)
        if np.isfinite(known).any():
            median = float(np.nanmedian(known))
            told = (
                f"of the read-outs have a coverage of {min_coverage:g} or more; the median coverage is {shown(median)}"
            )
            judged = replace(judged, median=median, beside=told)
        conditions.append(judged)
    for kind, rates in (parse_rate or {}).items():
        parsed = probabilities(rates, f"parse_rate[{kind!r}]").ravel()
        conditions.append(_share(PARSED, kind, parsed, groups.get(kind), min_parse, how))
    if order is not None:
        told = f"of {order.n_clusters} questions of different content, and {LEAST_ORDERED} are needed"
        few = told if order.n_clusters < LEAST_ORDERED else ""
        conditions.append(_unless_few(_beyond(ORDER, "", order, max_order, above=False), order, few))
    if wordings is not None:
        conditions.append(_beyond(WORDINGS, "", wordings, 0.0))
    return _judged(conditions, untested or {}, READABLE, UNREADABLE)


def responds(
    *,
    template: ArrayLike | None = None,
    prior_rejected: ArrayLike | None = None,
    post_rejected: ArrayLike | None = None,
    mentioned: ArrayLike | Mapping[str, ArrayLike] | None = None,
    groups: ArrayLike | None = None,
    responding: Responding | None = None,
    min_responding: float = MOST,
    easy_correct: ArrayLike | None = None,
    easy_groups: ArrayLike | None = None,
    chance: float = NAN,
    untested: Mapping[str, str] | None = None,
    how: Resampling = RESAMPLING,
) -> Judgement:
    """Does a model follow what it is told, in most items (METRICS W4)? `responds`, `does not respond`, `not shown` or
    `not tested`. Conditions that are not given fall away.

    Args:
        template: [n] template of each context in which an option was rejected.
        prior_rejected: [n] share of that option before.
        post_rejected: [n] after: in each template the share of the items in which it halves, less those in which it
            rises, must lie above `min_responding` with its lower bound. See `responding_share`.
        mentioned: [n] its share after the same question with a reply that decides nothing, or control -> [n]: likewise
            that of the items in which it is at most half of this.
        groups: [n] item. None: every row its own.
        responding: share of the items that respond to evidence of known posterior: its bound must lie above
            `min_responding`. With fewer than five items it is withheld. See `items_responding`.
        min_responding: fixed before anything is read.
        easy_correct: [m] whether each easy question was answered right, 0 or 1: the lower bound must be above `chance`.
        easy_groups: [m] question of each. None: every answer its own.
        chance: accuracy of a guess.
        untested: name of a condition -> why it was not asked: the verdict is then not affirmed.
        how: each bound is one-sided and of its `level`.
    """
    how = _one_sided(how)
    conditions: list[Condition] = []
    withheld = dict(untested or {})
    shares: list[tuple[str, str, Responding]] = []
    if template is not None:
        if prior_rejected is None or post_rejected is None:
            raise ValueError("template: give prior_rejected and post_rejected with it")
        response = responding_share(prior_rejected, post_rejected, mentioned, groups, template, how=how)
        shares += [(HALVES, name, share_of) for name, share_of in response.falls.items()]
        shares += [
            (BELOW_MENTIONED, ", ".join(filter(None, pair)), share_of) for pair, share_of in response.below.items()
        ]
    if responding is not None:
        shares.append((RESPONDING, "", responding.at(how.level)))
    for name, part, share in shares:
        if share.withheld:
            withheld[f"{name}[{part}]" if part else name] = share.withheld
        else:
            conditions.append(_beyond(name, part, share, min_responding))
    if easy_correct is not None:
        right = outcomes(easy_correct, "easy_correct")
        if not 0 <= chance < 1:
            raise ValueError(f"chance: {chance!r}; give the accuracy of a guess, in [0, 1)")
        of = np.arange(len(right)) if easy_groups is None else easy_groups
        accuracy = cluster_share(right, of, how=how)
        told = f"of {accuracy.effective_clusters:.3g} effective clusters, and {FEW_EFFECTIVE} are needed"
        few = told if few_effective(accuracy.effective_clusters) else ""
        conditions.append(_unless_few(_beyond(EASY, "", accuracy, chance), accuracy, few))
    least = min(
        (share_of for *_, share_of in shares),
        key=lambda share_of: -1.0 if share_of.withheld else share_of.share,
        default=None,
    )
    return _judged(conditions, withheld, RESPONDS, UNRESPONSIVE, least)


def _judged(
    conditions: Sequence[Condition], withheld: Mapping[str, str], yes: str, no: str, least: Score | None = None
) -> Judgement:
    """`yes` where all hold and none is withheld, `no` where one fails; not tested where there is none."""
    state = NOT_SHOWN
    if not conditions:
        state = NOT_TESTED
    elif any(condition.state == "fails" for condition in conditions):
        state = no
    elif all(condition.held for condition in conditions) and not withheld:
        state = yes
    return Judgement(state=state, conditions=tuple(conditions), withheld=withheld, least=least)


READ_BY = frozenset(inspect.signature(readable).parameters) - {"untested", "how"}
"""The arguments of `readable`, among those of both verdicts."""


def least_covered(coverage: Floats, template: ArrayLike, min_coverage: float = 0.5) -> NDArray[np.bool_]:
    """[n] the readings of the template in which the fewest have `min_coverage`."""
    names, codes = np.unique(np.asarray(template).astype(str), return_inverse=True)
    known = np.isfinite(coverage)
    enough, all_of = (np.bincount(codes, x, len(names)) for x in (known & (coverage >= min_coverage), known))
    shares = np.where(all_of > 0, enough / np.maximum(all_of, 1), np.inf)  # without readings it shows nothing
    return codes == int(np.argmin(shares)) if len(names) else np.zeros(0, dtype=bool)


def belief_gate(
    *, untested: Mapping[str, str] | None = None, how: Resampling = RESAMPLING, **readings: Any
) -> BeliefGate:
    """Both verdicts from one set of readings, as they stand among the numbers of a run (METRICS W4).

    Args:
        untested: name of a condition -> why it was not asked.
        how: each bound is one-sided and of its `level`.
        readings: as `readable` and `responds` take them.
    """
    absent = untested or {}
    reads = readable(
        **{name: value for name, value in readings.items() if name in READ_BY},
        untested={name: why for name, why in absent.items() if name in READS},
        how=how,
    )
    answers = responds(
        **{name: value for name, value in readings.items() if name not in READ_BY},
        untested={name: why for name, why in absent.items() if name not in READS},
        how=how,
    )
    conditions, withheld = (*reads.conditions, *answers.conditions), {**reads.withheld, **answers.withheld}
    if not conditions and not withheld:
        raise ValueError("belief_gate: no condition was given; give at least one reading")
    least = answers.least
    answered = "unresponsive" if answers.state == UNRESPONSIVE else "ok"
    status = "unreadable" if reads.state == UNREADABLE else answered
    return BeliefGate(
        share=NAN if least is None else float(least.estimate),
        conditions={condition.label: condition for condition in conditions},
        withheld=withheld,
        rare=tuple(judged.part for judged in conditions if judged.name == COVERAGE and judged.value < MOST),
        readable=reads.state,
        responds=answers.state,
        **({"params": how.params, "status": status} if least is None else least.common_fields(status=status)),
    )


def _unless_few(condition: Condition, score: Score, few: str) -> Condition:
    """The condition, of which an interval shows nothing that few clusters carry, by its status or as `few` says."""
    lost = bool(few) or score.status == "few_effective_clusters"
    state = NOT_SHOWN if lost and math.isfinite(condition.value) else condition.state
    return replace(condition, state=state, beside=few)


def _beyond(name: str, part: str, score: Score, threshold: float, *, above: bool = True) -> Condition:
    value, lo, hi = float(score.estimate), float(score.ci_lo), float(score.ci_hi)
    state: State = NOT_SHOWN
    if (lo > threshold) if above else (hi < threshold):
        state = "holds"
    elif math.isnan(value) or ((hi < threshold) if above else (lo > threshold)):
        state = "fails"
    return Condition(
        name=name, part=part, value=value, ci_lo=lo, ci_hi=hi, threshold=threshold, above=above, state=state,
        n_clusters=score.n_clusters,
    )  # fmt: skip


def _one_sided(how: Resampling) -> Resampling:
    """Two-sided, of which each end has the level that was asked for."""
    return replace(how, level=2 * how.level - 1)


def _share(
    name: str, part: str, values: Floats, groups: ArrayLike | None, threshold: float, how: Resampling
) -> Condition:
    """That more than `threshold` of the values [n] are 1."""
    of = np.arange(len(values)) if groups is None else np.asarray(groups)
    if of.shape != values.shape:
        raise ValueError(f"read_groups[{part!r}]: shape {of.shape} for {values.shape} readings; give one per reading")
    return _beyond(name, part, cluster_share(values, of, how=_one_sided(how)), threshold)
