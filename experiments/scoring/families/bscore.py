"""Does an answer become rarer once the model has seen itself give it? (METRICS C1, C3, C4, C7, C8)"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np

from ....metrics import argmax_accuracy, cluster_mean, mean_abs_b_score, top_b_score, top_b_score_null_bias
from ...tables.cells import Array
from ...tables.samples import Answers
from ..number import Resampling
from .metric import Line, claimed, clusters_of, metric, with_drop_reasons

SPLITS = 200
"""Random halves of the answers over which the unbiased score is averaged."""
FEW_OPTIONS = 10
"""Up to so many, each option has a line of its own."""
BIAS_UP_TO = 200
"""Answers up to which the bias of choosing is computed; its cost grows with their square."""


@metric("C1, C3, C4, C7", "single_<option>, multi_<option> [, single_other, multi_other, question, truth]", Answers)
def b_score(sample: Answers, how: Resampling) -> Iterator[Line]:
    """How much more frequent an answer is afresh than after the model saw its own; above 0: a bias it corrects."""
    arms = [[dict(enumerate(row)) for row in shares] for shares in (sample.single, sample.multi)]
    both = list(zip(*arms, strict=True))
    top = np.array([top_b_score(one, two).b for one, two in both])
    beside = {"invalid answers": f"{sample.invalid[0]:.1%} afresh, {sample.invalid[1]:.1%} in conversation"}
    if sample.counts is not None:
        answers = sample.counts.sum(axis=1)
        known = answers[np.isfinite(top) & (answers <= BIAS_UP_TO)]
        if len(known):
            bias = np.mean([_bias(len(sample.options), int(n)) for n in known])
            beside["of equally likely options without any bias"] = f"{bias:+.3f}"
    yield _mean("top_b", "B of the likeliest option", sample, top, how, beside)
    if sample.counts is not None:
        halves = _split(sample.counts, sample.multi, how.seed)
        note = {"chosen on one half of the answers and scored on the other,": f"mean of {SPLITS} splits"}
        yield _mean("top_b_halves", "the same by halves, without luck", sample, halves, how, note)
    if sample.truth is not None:
        wrong = [top_b_score(one, two, int(t)).b for (one, two), t in zip(both, sample.truth, strict=True)]
        yield _mean("top_b_wrong", "B of the likeliest option where it is wrong", sample, np.array(wrong), how)
    size = [mean_abs_b_score(one, two) for one, two in both]
    luck = {} if sample.counts is None else {"biased upward,": "because answers were sampled"}
    yield _mean("mean_abs_b", "mean |B| over the answers", sample, np.array(size), how, luck)
    if len(sample.options) <= FEW_OPTIONS:
        for i, option in enumerate(sample.options):
            own = sample.single[:, i] - sample.multi[:, i]
            claim = claimed(own, clusters_of(sample), "b_score", how, bounded_below=False)
            yield replace(_mean("b", f"B of {option}", sample, own, how), part=option, equivalence=claim)


@metric("C8", "single_<option>, multi_<option>, truth", Answers, needs=("truth",))
def answer_accuracy(sample: Answers, how: Resampling) -> Iterator[Line]:
    """Share of questions whose likeliest option is the true one; tied options share the credit."""
    assert sample.truth is not None
    arms = (("accuracy_single", "afresh", sample.single), ("accuracy_multi", "in conversation", sample.multi))
    for metric_name, name, shares in arms:
        right = [argmax_accuracy(row[None], [int(t)]) for row, t in zip(shares, sample.truth, strict=True)]
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
