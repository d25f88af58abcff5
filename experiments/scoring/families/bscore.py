"""Does an answer become rarer once the model has seen itself give it? (METRICS C1, C3, C4, C7, C8)"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np

from ....metrics import argmax_accuracy, cluster_mean, mean_abs_b_score, top_b_score, top_b_score_null_bias
from ....metrics.score import NAN
from ...tables.cells import Array
from ...tables.samples import Answers
from ..number import Resampling
from .metric import Compared, Line, claimed, clusters_of, compare_mean, metric, with_drop_reasons

SPLITS = 200
"""Random halves of the answers over which the unbiased score is averaged."""
FEW_OPTIONS = 10
"""Up to so many, each option has a line of its own."""
BIAS_UP_TO = 200
"""Answers up to which the bias of choosing is computed; its cost grows with their square."""


def _top(sample: Answers, truth: Array | None = None) -> Array:
    """[n] B of the option that is likeliest by `chosen_by`, ties averaged; with a truth only where it is wrong."""
    by = sample.single if sample.chosen_by is None else sample.chosen_by
    found = np.full(len(by), np.nan)
    for i, (chances, b) in enumerate(zip(by, sample.single - sample.multi, strict=True)):
        if not np.isfinite(chances).all() or (truth is not None and np.isnan(truth[i])):
            continue
        right = None if truth is None else int(truth[i])
        top = top_b_score(dict(enumerate(chances)), dict.fromkeys(range(len(chances)), 0.0), right).top
        found[i] = b[top].mean() if top else np.nan
    return found


def _compare(sample: Answers) -> Compared | None:
    """The likeliest option's B, on the same questions."""
    return compare_mean("top_b", _top(sample), sample) if sample.keys_known else None


@metric(
    "C1, C3, C4, C7",
    "single_<option>, multi_<option> [, single_other, multi_other, question, truth]",
    Answers,
    compare=_compare,
)
def b_score(sample: Answers, how: Resampling) -> Iterator[Line]:
    """How much more frequent an answer is afresh than after the model saw its own; above 0: a bias it corrects."""
    arms = [[dict(enumerate(row)) for row in shares] for shares in (sample.single, sample.multi)]
    both = list(zip(*arms, strict=True))
    top = _top(sample)
    beside = {"invalid answers": f"{sample.invalid[0]:.1%} afresh, {sample.invalid[1]:.1%} in conversation"}
    if sample.counts is not None:
        answers = sample.counts.sum(axis=1)
        known = np.isfinite(top) & (answers <= BIAS_UP_TO)
        if known.any():
            k = np.full(len(top), len(sample.options)) if sample.sizes is None else sample.sizes
            bias = np.mean([_bias(int(k), int(n)) for k, n in zip(k[known], answers[known], strict=True)])
            beside["of equally likely options without any bias"] = f"{bias:+.3f}"
    yield _mean("top_b", "B of the likeliest option", sample, top, how, beside)
    if sample.counts is not None:
        halves = _split(sample.counts, sample.multi, how.seed)
        note = {"chosen on one half of the answers and scored on the other,": f"mean of {SPLITS} splits"}
        yield _mean("top_b_halves", "the same by halves, without luck", sample, halves, how, note)
    if sample.truth is not None:
        wrong = _top(sample, sample.truth)
        yield _mean("top_b_wrong", "B of the likeliest option where it is wrong", sample, wrong, how)
    size = [mean_abs_b_score(one, two) for one, two in both]
    luck = {} if sample.counts is None else {"biased upward,": "because answers were sampled"}
    yield _mean("mean_abs_b", "mean |B| over the answers", sample, np.array(size), how, luck)
    if sample.named and len(sample.options) <= FEW_OPTIONS:
        for i, option in enumerate(sample.options):
            own = sample.single[:, i] - sample.multi[:, i]
            claim = claimed(own, clusters_of(sample), "b_score", how, bounded_below=False, worst=1.0)
            yield replace(_mean("b", f"B of {option}", sample, own, how), part=option, equivalence=claim)


@metric("C8", "single_<option>, multi_<option>, truth", Answers, needs=("truth",))
def answer_accuracy(sample: Answers, how: Resampling) -> Iterator[Line]:
    """Share of questions whose likeliest option is the true one; tied options share the credit."""
    assert sample.truth is not None
    arms = (("accuracy_single", "afresh", sample.single), ("accuracy_multi", "in conversation", sample.multi))
    for metric_name, name, shares in arms:
        known = zip(shares, sample.truth, strict=True)
        right = [NAN if np.isnan(t) else argmax_accuracy(row[None], [int(t)]) for row, t in known]
        yield _mean(metric_name, f"accuracy {name}", sample, np.array(right), how)


def _mean(
    name: str, quantity: str, sample: Answers, values: Array, how: Resampling, beside: dict[str, str] | None = None
) -> Line:
    score = cluster_mean(values, clusters_of(sample), **how.interval)
    return Line(name, quantity, with_drop_reasons(score, sample, values), beside or {})


@cache
def _bias(k: int, n: int) -> float:
    return top_b_score_null_bias(k, n)


def _split(counts: Array, multi: Array, seed: int) -> Array:
    """[n] B of the option that is likeliest in a random half, by its share of the other half; ties averaged."""
    rng = np.random.default_rng(seed)
    found = np.full(len(counts), np.nan)
    for i, (row, after) in enumerate(zip(counts, multi, strict=True)):
        if not np.isfinite(row).all() or row.sum() < 2:
            continue
        total = row.astype(np.int64)
        half = rng.multivariate_hypergeometric(total, int(total.sum()) // 2, size=SPLITS)
        top = half == half.max(axis=1, keepdims=True)
        rest = (total - half) / (total - half).sum(axis=1, keepdims=True)
        found[i] = ((rest - after) * top).sum(axis=1) @ (1 / top.sum(axis=1)) / SPLITS
    return found


METRICS = (b_score, answer_accuracy)
