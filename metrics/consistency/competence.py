"""Does the model do what the probe takes for granted? A gate that every template has to pass (METRICS W4).

Averaged over templates, a model that merely favours recently named words passes: most contexts name the other words.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ...base.text import shown
from ..contract import NAN, RESAMPLING, Floats, Resampling, Score, check_level, floats, outcomes, probabilities, refuse
from ..inference.clusters import complete_rows
from ..inference.intervals import moment_interval
from ..inference.means import ClusterMean, cluster_mean, cluster_share, studentised_bounds
from ..number import interval_text
from .evidence_response import MOST, Responding
from .sampling_bias import chance_corrected

FALLS, BELOW_MENTIONED = "rejected falls", "rejected below mentioned"
COVERAGE, PARSED = "coverage", "valid-answer rate"
GAIN, EVIDENCE, RESPONDING, EASY = "gain over words", "response to evidence", "items that respond", "easy questions"
COMPLEMENT, ORDER = "complement coherence", "order of the options"
CONDITIONS = {
    FALLS: "the rejected option's share, after less before",
    BELOW_MENTIONED: "its share after, less that after the same question with a reply that decides nothing",
    COVERAGE: "median probability that the answer is any of the options",
    PARSED: "share of the answers that could be parsed",
    GAIN: "gain over read-outs that know the words and no context, on three classes",
    EVIDENCE: "slope of the belief on evidence whose posterior is known",
    RESPONDING: "share of the items whose own belief follows that evidence, less those in which it turns against it",
    EASY: "accuracy on easy questions, beside that of a guess",
    COMPLEMENT: "mean |P(claim) + P(its negation) - 1|",
    ORDER: "share of the questions whose belief follows the place of the options",
}
"""The conditions of a gate, and the number that each looks at (METRICS W4)."""
GATE = "gate"
"""The metric under which a gate stands among the numbers."""
JUDGED_ALONE = (COVERAGE, PARSED)
NOT_A_BELIEF = "not a belief measurement"
RARE = "ratio of rare answers"
MAX_ORDER = 0.5
"""Where half of the beliefs follow the place of the options, what is read is no more than a place."""
LEAST_ORDERED = 10
"""Fewest clusters of questions of which that can be said."""


@dataclass(frozen=True, kw_only=True)
class Condition:
    """One condition of a gate. What is undefined does not hold."""

    name: str
    """One of `CONDITIONS`."""
    part: str = ""
    """The template or the kind that it is about."""
    value: float
    """What was seen."""
    ci_lo: float = NAN
    ci_hi: float = NAN
    """Its interval; NaN for a median or a share, which is judged as it is."""
    bound: float
    """What must lie beyond the threshold: an end of an interval, or the value itself where it has none."""
    threshold: float
    above: bool
    """Whether it must lie above, or at it; else strictly below."""
    held: bool
    n_clusters: int = 0

    @property
    def label(self) -> str:
        """Its name and its part."""
        return f"{self.name}[{self.part}]" if self.part else self.name

    @property
    def asked(self) -> str:
        """What it asks of the number, or of its interval."""
        if self.name in JUDGED_ALONE:
            return f"at least {self.threshold:.3g}"
        return f"interval {'above' if self.above else 'below'} {self.threshold:.3g}"

    @property
    def seen(self) -> str:
        """What was seen, with its interval."""
        if math.isnan(self.value):
            return "undefined"
        return f"{shown(self.value)} {interval_text(self.ci_lo, self.ci_hi)}".rstrip()


@dataclass(frozen=True, kw_only=True)
class BeliefGate(Score):
    """METRICS W4. The interval of the base class is that of `rejected_change`, in the template where it is largest."""

    headline: ClassVar[str] = "rejected_change"
    rejected_change: float = NAN
    """Largest mean change, over templates, of the rejected option's share; NaN where nothing is rejected."""
    conditions: Mapping[str, Condition] = field(default_factory=dict)
    """By name: `rejected falls[template]`, `rejected below mentioned[template]`, `coverage[kind]`, ..."""
    failures: tuple[str, ...] = ()
    """Names of the conditions that did not hold, in the order they were put."""
    withheld: Mapping[str, str] = field(default_factory=dict)
    """Conditions that could not be judged, and why."""
    rare: tuple[str, ...] = ()
    """Kinds whose coverage falls short: to be called a ratio of rare answers."""
    passed: bool = False
    verdict: str = NOT_A_BELIEF
    """`ok`, or the words to print on every table of the run."""


@dataclass(frozen=True, kw_only=True)
class KappaWord(Score):
    """METRICS W3: what a score gains over word identity."""

    headline: ClassVar[str] = "kappa_word"
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
    own, null = rows.columns
    if not rows.n:
        return KappaWord(status="too_few", **rows.counts)

    def kappa(sums: Floats) -> Floats:
        return np.atleast_1d(chance_corrected(sums[:, 0] / sums[:, 2], sums[:, 1] / sums[:, 2]).kappa)

    moments = np.column_stack([own, null, np.ones(rows.n)])
    value = float(kappa(moments.sum(axis=0)[None])[0])
    found: dict[str, Any] = {"kappa_word": value, "c": float(own.mean()), "c_word": float(null.mean())}
    if np.isnan(value):
        return KappaWord(status="chance_is_perfect", **found, **rows.counts)
    made = moment_interval(moments, rows.codes, kappa, how=how)
    return KappaWord(**found, **made.fields(), **made.test_of_zero(value), **rows.counts)


def belief_gate(
    *,
    template: ArrayLike | None = None,
    prior_rejected: ArrayLike | None = None,
    post_rejected: ArrayLike | None = None,
    mentioned: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    coverage: Mapping[str, ArrayLike] | None = None,
    kappa: Score | None = None,
    evidence: Score | None = None,
    responding: Responding | None = None,
    min_responding: float = MOST,
    parse_rate: Mapping[str, float] | None = None,
    easy_correct: ArrayLike | None = None,
    easy_groups: ArrayLike | None = None,
    chance: float = NAN,
    complement: Score | None = None,
    max_complement: float = 0.25,
    order: Score | None = None,
    max_order: float = MAX_ORDER,
    min_coverage: float = 0.5,
    min_parse: float = 0.8,
    how: Resampling = RESAMPLING,
) -> BeliefGate:
    """Judge a model in an experiment by an intersection of conditions (METRICS W4). Those not given fall away.

    Args:
        template: [n] template of each context in which an option was rejected.
        prior_rejected: [n] share of that option before.
        post_rejected: [n] after: in each template the upper bound of the mean change must be below 0.
        mentioned: [n] its share after the same question with a reply that decides nothing: in each template the upper
            bound of post_rejected - mentioned must be below 0. A template without a defined row fails.
        groups: [n] item, the unit of the bounds. None: every row its own.
        coverage: kind -> masses on the options, whose median must reach `min_coverage`.
        kappa: gain over word identity, of three classes: its interval must lie above 0. See `kappa_word`.
        evidence: slope of the belief on evidence whose posterior is known: its interval must lie above 0.
        responding: share of the items that respond to that evidence: its bound must lie above `min_responding`. With
            fewer than five items it is withheld. See `items_responding`.
        min_responding: fixed before anything is read.
        parse_rate: kind -> share of answers that were parsed, which must reach `min_parse`.
        easy_correct: [m] whether each easy question was answered right, 0 or 1: the lower bound must be above `chance`.
        easy_groups: [m] question of each. None: every answer its own.
        chance: accuracy of a guess.
        complement: mean |P(claim) + P(its negation) - 1|: its interval must lie below `max_complement`.
        max_complement: fixed before anything is read; a yes-sayer has 1.
        order: share of the questions whose belief follows the place of the options (E16): its interval must lie below
            `max_order`.
        max_order: fixed before anything is read; who answers by place alone has 1.
        min_coverage: fixed before anything is read, as is `min_parse`.
        min_parse: likewise.
    """
    check_level(how.level)
    how = replace(how, level=2 * how.level - 1)  # two-sided, of which each end has the level that was asked for
    made: list[Condition] = []
    worst: ClusterMean | None = None
    if template is not None:
        labels, changes, gaps = _contrasts(template, prior_rejected, post_rejected, mentioned)
        items = np.arange(len(labels)) if groups is None else np.asarray(groups)
        falls = _by_template(changes, labels, items, how)
        made += [_below(FALLS, name, mean) for name, mean in falls.items()]
        worst = max(falls.values(), key=lambda mean: np.inf if np.isnan(mean.mean) else mean.mean, default=None)
        if gaps is not None:
            compared = _by_template(gaps, labels, items, how)
            made += [_below(BELOW_MENTIONED, name, mean) for name, mean in compared.items()]
    for kind, masses in (coverage or {}).items():
        known = probabilities(masses, f"coverage[{kind!r}]").ravel()
        known = known[np.isfinite(known)]
        made.append(_reaches(COVERAGE, kind, float(np.median(known)) if known.size else NAN, min_coverage))
    for name, score in ((GAIN, kappa), (EVIDENCE, evidence)):
        if score is not None:
            made.append(_above(name, score, 0.0))
    withheld = {RESPONDING: responding.withheld} if responding is not None and responding.withheld else {}
    if responding is not None and not withheld:
        made.append(_above(RESPONDING, responding.at(how.level), min_responding))
    for kind, rate in (parse_rate or {}).items():
        made.append(_reaches(PARSED, kind, float(probabilities(rate, f"parse_rate[{kind!r}]")), min_parse))
    if easy_correct is not None:
        right = outcomes(easy_correct, "easy_correct")
        if not 0 <= chance < 1:
            raise ValueError(f"chance: {chance!r}; give the accuracy of a guess, in [0, 1)")
        of = np.arange(len(right)) if easy_groups is None else easy_groups
        told = cluster_share(right, of, how=how)
        made.append(_unless_few(_above(EASY, told, chance), told))
    if complement is not None:
        made.append(_below(COMPLEMENT, "", complement, max_complement))
    if order is not None:
        condition = _unless_few(_below(ORDER, "", order, max_order), order)
        made.append(replace(condition, held=condition.held and order.n_clusters >= LEAST_ORDERED))
    if not made:
        raise ValueError("belief_gate: no condition was given; give at least one reading")
    conditions = {condition.label: condition for condition in made}
    failures = tuple(name for name, condition in conditions.items() if not condition.held)
    thresholds = {"min_coverage": min_coverage, "min_parse": min_parse, "chance": chance}
    return BeliefGate(
        rejected_change=worst.mean if worst else NAN,
        conditions=conditions,
        failures=failures,
        withheld=withheld,
        rare=tuple(one.part for one in made if one.name == COVERAGE and not one.held),
        passed=not failures,
        verdict=NOT_A_BELIEF if failures else "ok",
        status="not_a_belief" if failures else "ok",
        **(worst.interval(**thresholds) if worst else {"params": thresholds | _settings(how)}),
        **({name: getattr(worst, name) for name in ("n_rows", "n_clusters", "n_dropped", "reasons")} if worst else {}),
    )


def _unless_few(condition: Condition, score: Score) -> Condition:
    """The condition, which does not hold by an interval that itself says that few clusters carry it."""
    return replace(condition, held=condition.held and score.status != "few_effective_clusters")


def _contrasts(
    template: ArrayLike, prior: ArrayLike | None, post: ArrayLike | None, mentioned: ArrayLike | None
) -> tuple[NDArray[Any], Floats, Floats | None]:
    """Templates, changes on rejection, and differences from a mere mention; all [n]."""
    if prior is None or post is None:
        raise ValueError("template: give prior_rejected and post_rejected with it")
    labels = np.asarray(template)
    shares = {"prior_rejected": prior, "post_rejected": post}
    if mentioned is not None:
        shares["mentioned"] = mentioned
    arrays = {name: probabilities(share, name) for name, share in shares.items()}
    for name, array in arrays.items():
        if array.shape != labels.shape:
            raise ValueError(f"{name}: shape {array.shape} for {labels.shape} templates; give one per context")
    if pd.isna(labels).any():
        raise ValueError(f"template: context {int(np.argmax(pd.isna(labels)))} has none")
    after = arrays["post_rejected"]
    return labels, after - arrays["prior_rejected"], after - arrays["mentioned"] if mentioned is not None else None


def _by_template(values: Floats, labels: NDArray[Any], items: NDArray[Any], how: Resampling) -> dict[str, ClusterMean]:
    return {str(name): _bounded(values[labels == name], items[labels == name], how) for name in pd.unique(labels)}


def _bounded(values: Floats, items: NDArray[Any], how: Resampling) -> ClusterMean:
    """Mean change of shares with one-sided studentised bounds that reckon with items that were missed.

    Of G items none of which rises, up to 1 - (1 - level)^(1 / G) may rise, and a share can change by one. A copier who
    favours the rejected word by far in a tenth of the items has none of them in every eighth sample of twenty.
    """
    mean = cluster_mean(values, items, how=replace(how, draws=1))
    known, level = np.isfinite(values), (1 + how.level) / 2
    if mean.n_clusters < 2:
        return mean
    lower, upper, method = studentised_bounds(values[known], items[known], how=replace(how, level=level))
    missed = 1 - (1 - level) ** (1 / mean.n_clusters)
    return replace(
        mean,
        ci_lo=min(lower, mean.mean - missed * (1 + mean.mean)),
        ci_hi=max(upper, mean.mean + missed * (1 - mean.mean)),
        ci_method=f"{method}, one-sided {level:g} each, with what was missed",
        params=_settings(how),
    )


def _settings(how: Resampling) -> dict[str, Any]:
    return {"seed": how.seed, "draws": how.n_draws, "level": how.level}


def _below(name: str, part: str, mean: Score, threshold: float = 0.0) -> Condition:
    held = mean.ci_hi < threshold
    return Condition(name=name, part=part, **_seen(mean), bound=mean.ci_hi, threshold=threshold, above=False, held=held)


def _above(name: str, score: Score, threshold: float) -> Condition:
    held = score.ci_lo > threshold
    return Condition(name=name, **_seen(score), bound=score.ci_lo, threshold=threshold, above=True, held=held)


def _seen(score: Score) -> dict[str, Any]:
    named = {"value": float(score.estimate), "ci_lo": float(score.ci_lo), "ci_hi": float(score.ci_hi)}
    return named | {"n_clusters": score.n_clusters}


def _reaches(name: str, part: str, value: float, threshold: float) -> Condition:
    held = value >= threshold
    return Condition(name=name, part=part, value=value, bound=value, threshold=threshold, above=True, held=held)
