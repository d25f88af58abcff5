"""Does an answer become rarer once the model has seen itself give it? (METRICS C1, C3, C4, C7, C8)"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np

from ....metrics import (
    argmax_accuracy,
    cluster_mean,
    cluster_share,
    mean_abs_b_score,
    top_b_score,
    top_b_score_null_bias,
)
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
        held_out, alone = _held_out(sample, sample.counts, how.seed)
        ways = {"the question's other answers": ~alone, f"one half, in {SPLITS} splits": alone}
        told = ", or on ".join(way for way, rows in ways.items() if rows.any())
        note = {"chosen on": f"{told}, and scored on the rest"}
        yield _mean("top_b_held_out", "the same, chosen on other answers", sample, held_out, how, note)
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
        score = cluster_share(np.array(right), clusters_of(sample), **how.interval)
        yield Line(metric_name, f"accuracy {name}", with_drop_reasons(score, sample, np.array(right)))


def _mean(
    name: str, quantity: str, sample: Answers, values: Array, how: Resampling, beside: dict[str, str] | None = None
) -> Line:
    score = cluster_mean(values, clusters_of(sample), **how.interval)
    return Line(name, quantity, with_drop_reasons(score, sample, values), beside or {})


@cache
def _bias(k: int, n: int) -> float:
    return top_b_score_null_bias(k, n)


def _held_out(sample: Answers, counts: Array, seed: int) -> tuple[Array, Array]:
    """[n] B of the option that is likeliest in the answers of the question's other rows, by its share of a row's own;
    ties averaged. And [n] where there is no other row: it is then chosen on a random half, and scored on the other.
    """
    rng = np.random.default_rng(seed)
    found = np.full(len(counts), np.nan)
    total = np.nan_to_num(counts).astype(np.int64)
    of = np.arange(len(counts)) if sample.item is None else np.unique(sample.item, return_inverse=True)[1]
    every = np.zeros((of.max(initial=-1) + 1, counts.shape[1]), dtype=np.int64)
    np.add.at(every, of, total)
    others = every[of] - total
    alone = others.sum(axis=1) == 0
    for i, own in enumerate(total):
        if own.sum() < 1 + alone[i]:
            continue
        chosen, rest = others[i][None], own[None]
        if alone[i]:
            chosen = rng.multivariate_hypergeometric(own, int(own.sum()) // 2, size=SPLITS)
            rest = own - chosen
        top = chosen == chosen.max(axis=1, keepdims=True)
        b = rest / rest.sum(axis=1, keepdims=True) - sample.multi[i]
        found[i] = ((b * top).sum(axis=1) / top.sum(axis=1)).mean()
    return found, alone


METRICS = (b_score, answer_accuracy)
