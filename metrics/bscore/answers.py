"""B-score: how much likelier an answer is afresh than after the model saw its own answers (METRICS C)."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from ..contract import NAN, RESAMPLING, TIE, Floats, Resampling, Score, floats, one_of, probabilities, row_counts
from ..inference.means import cluster_mean

Beliefs = Mapping[Any, float]


def normal_form(answer: object) -> str | None:
    """The form in which answers are matched: case and spacing do not count. A missing answer is None."""
    if answer is None or (isinstance(answer, float) and np.isnan(answer)):
        return None
    return " ".join(str(answer).split()).casefold()


class BScore(Score, headline="b"):
    """METRICS C1. Mappings are keyed by the options as they were given."""

    b: Mapping[Any, float]
    """P_single - P_multi, in [-1, 1]; sums to zero when every answer is valid."""
    p_single: Mapping[Any, float]
    p_multi: Mapping[Any, float]
    invalid_single: float
    """Share of single-turn answers that are no option."""
    invalid_multi: float


def b_score(
    single: Sequence[object], multi: Sequence[object], options: Sequence[Hashable], denominator: str = "valid"
) -> BScore:
    """B-score of every option from sampled answers (METRICS C1; b-score eq. 1).

    Args:
        single: answers to the question asked afresh; what is no option counts as invalid.
        multi: answers of the turns of a conversation, or of several.
        options: the complete set, matched up to case and spacing.
        denominator: `valid` divides by the valid answers, `all` by all.

    No valid answer in an arm (or none at all) leaves that arm and the score NaN: it is not a probability of
    zero. Turns of one conversation are dependent; for a standard error see `b_score_exact`.

    >>> b_score(single=["7", "7", "7", "3"], multi=["3", "7", "3", "7"], options=["3", "7"]).b
    {'3': -0.25, '7': 0.25}
    """
    one_of(denominator, ("valid", "all"), "denominator")
    index = _index(options)
    p_single, invalid_single = _frequencies(single, index, denominator)
    p_multi, invalid_multi = _frequencies(multi, index, denominator)
    return BScore(
        b=dict(zip(options, (p_single - p_multi).tolist(), strict=True)),
        p_single=dict(zip(options, p_single.tolist(), strict=True)),
        p_multi=dict(zip(options, p_multi.tolist(), strict=True)),
        invalid_single=invalid_single,
        invalid_multi=invalid_multi,
        n_rows=len(single) + len(multi),
        status="ok" if np.isfinite(p_single - p_multi).all() else "no_valid_answer",
    )


class ExactBScore(Score, headline="b"):
    """METRICS C1 and C2, exact kind. Arrays follow the order of the options."""

    b: Floats
    """[k]."""
    b_later: Floats
    """[k] with turn 1 left out: it has no history and is a single-turn answer itself."""
    b_by_turn: Floats
    """[turns, k]."""
    p_single: Floats
    p_multi: Floats
    se_b: Floats
    """[k] standard error over conversations; NaN with fewer than two."""


def b_score_exact(single: ArrayLike, multi: ArrayLike) -> ExactBScore:
    """B-score from exact option probabilities (METRICS C1, C2).

    Args:
        single: [orders, k] or [k], option probabilities at temperature 1; option orders are averaged.
        multi: [runs, turns, k], the probabilities at each turn given the history that was sampled.

    A conversation with a NaN is dropped whole. The error is over conversations, whose turns are dependent.

    >>> conversations = [[[0.9, 0.1], [0.5, 0.5]], [[0.9, 0.1], [0.3, 0.7]]]  # two of two turns
    >>> b_score_exact([0.9, 0.1], conversations).b.round(3).tolist()
    [0.25, -0.25]
    """
    single, multi = np.atleast_2d(probabilities(single, "single")), probabilities(multi, "multi")
    if multi.ndim != 3 or single.ndim != 2 or single.shape[1] != multi.shape[2]:
        raise ValueError(f"single {single.shape}, multi {multi.shape}; give [orders, k] and [runs, turns, k]")
    n_all = len(multi)
    multi = multi[~np.isnan(multi).any(axis=(1, 2))]
    n_runs, n_turns, k = multi.shape
    p_single = single.mean(axis=0)
    blank = np.full(k, NAN)
    by_run = multi.mean(axis=1) if n_turns else np.full((n_runs, k), NAN)
    p_multi = by_run.mean(axis=0) if n_runs else blank
    later = multi[:, 1:].mean(axis=(0, 1)) if n_runs and n_turns > 1 else blank
    n_dropped = n_all - n_runs
    if not n_runs:
        status = "too_few"
    elif n_runs < 2:
        status = "one_cluster"
    else:
        status = "ok"
    return ExactBScore(
        b=p_single - p_multi,
        b_later=p_single - later,
        b_by_turn=p_single - (multi.mean(axis=0) if n_runs else np.full((n_turns, k), NAN)),
        p_single=p_single,
        p_multi=p_multi,
        se_b=by_run.std(axis=0, ddof=1) / np.sqrt(n_runs) if n_runs > 1 else blank,
        n_clusters=n_runs,
        **row_counts(n_runs * n_turns, n_dropped),
        status=status,
    )


class TopBScore(Score, headline="b"):
    """METRICS C3."""

    b: float = NAN
    top: list[Any]
    """The likeliest single-turn options that were scored."""
    n_wrong: int
    """How many of the likeliest options differ from the truth; 0 without a truth."""


def top_b_score(p_single: Beliefs, p_multi: Beliefs, truth: object = None, *, paper_zero: bool = False) -> TopBScore:
    """B-score of the likeliest single-turn option, ties averaged (METRICS C3; b-score Table 2).

    With a `truth` only wrong options are scored; if the likeliest one is right the result is NaN with status
    `never_wrong`, or 0 as the paper prints it with `paper_zero`. Selecting and scoring on the same answers
    makes the result positive by chance: print `top_b_score_null_bias` beside it.

    >>> top_b_score({"3": 0.25, "7": 0.75}, {"3": 0.5, "7": 0.5}).b
    0.25
    """
    options, single, multi = _arms(p_single, p_multi)
    if not np.isfinite(single).all():
        return TopBScore(top=[], n_wrong=0, status="no_valid_answer")
    top = [i for i, p in enumerate(single) if p >= single.max() - TIE]
    n_wrong = 0
    if truth is not None:
        if normal_form(truth) not in {normal_form(option) for option in options}:
            raise ValueError(f"truth: {truth!r} is not among the options {options}")
        top = [i for i in top if normal_form(options[i]) != normal_form(truth)]
        n_wrong = len(top)
    if not top:
        return TopBScore(b=0.0 if paper_zero else NAN, top=[], n_wrong=0, status="never_wrong")
    b = float(np.mean(single[top] - multi[top]))
    return TopBScore(
        b=b,
        top=[options[i] for i in top],
        n_wrong=n_wrong,
        n_rows=1,
        status="ok" if np.isfinite(b) else "no_valid_answer",
    )


class ExcessBScore(Score, headline="excess"):
    """METRICS C1: B beyond what histories of equal length make without being heard."""

    excess: float = NAN
    control: str = ""
    """The control history that leaves the least."""
    over: Mapping[str, float]
    """Control history -> what is left over it."""


def b_score_excess(
    b: ArrayLike, controls: Mapping[str, ArrayLike], clusters: ArrayLike, *, how: Resampling = RESAMPLING
) -> ExcessBScore:
    """B less the largest that a control history makes (METRICS C1).

    Args:
        b: [n] B of one option of each question.
        controls: control history -> [n] the same option's B after it; NaN where a question has no such history.
        clusters: [n], the unit that was sampled.

    B above 0 needs no self-assessment: avoiding the last answer makes it, and so does a distribution that flattens as a
    conversation grows. What is left over every control is what the earlier answers made by being heard, each option
    against the others. Each difference is paired by question. The estimate is the least of them, and so is each end of
    the interval: its lower end is above 0 only if B exceeds every control, a union of tests that needs no adjustment.

    >>> b_score_excess([0.3, 0.1, 0.2], {"shuffled": [0.1, 0.0, 0.0], "last": [0.2, 0.1, 0.1]}, [0, 1, 2]).control
    'last'
    """
    b = floats(b)
    scores = {
        name: cluster_mean(np.where(np.abs(left) <= TIE, 0.0, left), clusters, within=(-2.0, 2.0), how=how)
        for name, values in controls.items()
        for left in [b - floats(values)]
    }
    known = {name: score for name, score in scores.items() if np.isfinite(score.mean)}
    if not known:
        return ExcessBScore(over={}, status="no_controls")
    name, least = min(known.items(), key=lambda one: one[1].mean)
    fewest = min(known.values(), key=lambda score: score.status == "ok")
    return ExcessBScore(
        excess=least.mean,
        control=name,
        over={control: score.mean for control, score in known.items()},
        se=least.se,
        ci_lo=min((score.ci_lo for score in known.values() if np.isfinite(score.ci_lo)), default=NAN),
        ci_hi=min((score.ci_hi for score in known.values() if np.isfinite(score.ci_hi)), default=NAN),
        ci_method=f"{least.ci_method}; the least over {len(known)} controls",
        **least.row_fields,
        status=least.status if least.status != "ok" else fewest.status,
        params=least.params,
    )


def top_b_score_null_bias(k: int, n: int, p: ArrayLike | None = None) -> float:
    """Exact mean of the top-option B-score when both arms share one law (METRICS C7).

    Args:
        k: number of options.
        n: single-turn answers from which the top option is taken.
        p: [k] the common law; uniform if None.

    No answers give NaN.

    >>> round(top_b_score_null_bias(k=2, n=1), 3)  # one answer is always the top: 1 - 0.5
    0.5
    """
    if k < 1 or n < 0:
        raise ValueError(f"k = {k}, n = {n}; give at least one option and no negative count")
    law = np.full(k, 1 / k) if p is None else probabilities(p, "p")
    if law.shape != (k,) or abs(law.sum() - 1) > 1e-9:
        raise ValueError(f"p: shape {law.shape}, sum {law.sum():g}; give k = {k} values that sum to 1")
    if n == 0:
        return NAN
    if p is None:  # all options are alike: one stands for k
        return k * _selection_gain(law, 0, n)
    return float(sum(_selection_gain(law, a, n) for a in range(k)))


def mean_abs_b_score(p_single: Beliefs, p_multi: Beliefs) -> float:
    """Mean of |B| over the single-turn answers: sum of P_single |B|, in [0, 1] (METRICS C4).

    >>> mean_abs_b_score({"3": 0.25, "7": 0.75}, {"3": 0.5, "7": 0.5})
    0.25
    """
    _, single, multi = _arms(p_single, p_multi)
    return float(np.sum(single * np.abs(single - multi)))


def argmax_accuracy(p: Any, truth: Any) -> float:
    """Share of questions whose likeliest option is the true one; tied options share the credit (METRICS C8).

    Args:
        p: one question or a sequence of them, each a mapping from option to probability, or an array [n, k].
        truth: the true option of each: a key of the mapping, or an index for arrays.

    Questions with a NaN are left out; none left gives NaN.

    >>> argmax_accuracy([{"a": 0.6, "b": 0.4}, {"a": 0.5, "b": 0.5}], truth=["a", "b"])
    0.75
    """
    questions: list[Mapping[Any, float]]
    if isinstance(p, Mapping):
        questions, truth = [p], [truth]
    else:
        if not isinstance(p, np.ndarray) and len(p) and np.isscalar(p[0]):
            p, truth = [p], [truth]
        questions = [row if isinstance(row, Mapping) else dict(enumerate(row)) for row in p]
    truth = list(np.atleast_1d(np.asarray(truth, dtype=object)))
    if len(truth) != len(questions):
        raise ValueError(f"truth: {len(truth)} for {len(questions)} questions; give one each")
    credits = []
    for row, (question, answer) in enumerate(zip(questions, truth, strict=True)):
        if answer not in question:
            raise ValueError(f"truth: row {row}, {answer!r} is not among the options {list(question)}")
        values = probabilities(list(question.values()), "p")
        if np.isfinite(values).all():
            top = [o for o, v in zip(question, values, strict=True) if v >= values.max() - TIE]
            credits.append((answer in top) / len(top))
    return float(np.mean(credits)) if credits else NAN


def _index(options: Sequence[Hashable]) -> dict[str | None, int]:
    index = {normal_form(option): i for i, option in enumerate(options)}
    if len(index) != len(options) or None in index:
        raise ValueError(f"options: {list(options)} has two that match up to case and spacing, or a missing one")
    return index


def _frequencies(answers: Sequence[object], index: Mapping[str | None, int], denominator: str) -> tuple[Floats, float]:
    """Share of each option, and the share of answers that are none."""
    counts = np.zeros(len(index))
    for answer in answers:
        i = index.get(normal_form(answer))
        if i is not None:
            counts[i] += 1
    valid, total = counts.sum(), len(answers)
    invalid = 1 - valid / total if total else NAN
    if not valid:
        return np.full(len(index), NAN), float(invalid)
    return counts / (valid if denominator == "valid" else total), float(invalid)


def _arms(p_single: Beliefs, p_multi: Beliefs) -> tuple[list[Any], Floats, Floats]:
    """Options in the order of `p_single`, and both arms in it."""
    if set(p_single) != set(p_multi) or not p_single:
        raise ValueError(f"options differ or are none: {list(p_single)} single, {list(p_multi)} multi")
    options = list(p_single)
    single = probabilities([p_single[o] for o in options], "p_single")
    multi = probabilities([p_multi[o] for o in options], "p_multi")
    return options, single, multi


def _selection_gain(p: Floats, a: int, n: int) -> float:
    """E[1(a is top)/ties x (X_a/n - p_a)] of a multinomial: independent Poissons conditioned on their sum.

    For each count m of option a, the others are convolved with their total and the number that tie at m.
    """
    j = np.arange(n + 1)
    poisson = [np.asarray(scipy.stats.poisson.pmf(j, n * x)) for x in p]
    gain = 0.0
    for m in range(1, n + 1):
        ways = np.zeros((len(p), n + 1))  # [others that tie, their total]
        ways[0, 0] = 1.0
        for i, law in enumerate(poisson):
            if i == a:
                continue
            below = np.array([np.convolve(row, law[:m])[: n + 1] for row in ways])
            below[1:, m:] += law[m] * ways[:-1, : n + 1 - m]
            ways = below
        share = ways[:, n - m] @ (1 / np.arange(1, len(p) + 1))
        gain += poisson[a][m] * share * (m / n - p[a])
    return float(gain / scipy.stats.poisson.pmf(n, n))
