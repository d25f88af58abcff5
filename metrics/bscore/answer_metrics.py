"""Tables of answers: how spread out they are (METRICS B4), what seeing them changes (METRICS C1-C8), and does
accepting them by a threshold decide rightly (METRICS C6)?
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from ..consistency.rejection import counts_to_probabilities
from ..contract import TIE, Array, Resampling
from ..divergence import entropy_bits
from ..inference.means import UNIT, cluster_share
from ..metric import (
    NO_OUTCOME,
    Compared,
    Line,
    clusters_of,
    compare_mean,
    deviation_claim,
    mean_of,
    metric,
    with_drop_reasons,
)
from ..tables.samples import Answers, Frequencies, Records
from .answers import b_score_excess, top_b_score_null_bias
from .verification import RULES, threshold_search, verification_auroc, verification_baselines, verification_held_out

SPLITS = 200
"""Random halves of the answers over which the unbiased score is averaged."""
FEW_OPTIONS = 10
"""Up to so many, each option has a line of its own."""
CONTROL_NAMES = {
    "other": "another question's answers",
    "shuffled": "the answers of a question of the same options",
    "balanced": "the last answer alone",
}
"""Control history -> how it is printed."""
INVALID, ALL_VALID = "invalid answers", "0.0% afresh, 0.0% in conversation"
"""What stands beside B under the first name, and what it is where every answer is an option."""
RIGHT = "likeliest option is right"
"""Why a question has no B of a wrong option."""
BIAS_UP_TO = 200
"""Answers up to which the bias of choosing is computed; its cost grows with their square."""


def _top(sample: Answers, truth: Array | None = None) -> Array:
    """[n] B of the option that is likeliest by `chosen_by`, ties averaged; with a truth only where it is wrong."""
    by = sample.single if sample.chosen_by is None else sample.chosen_by
    top = _likeliest(by)
    if truth is not None:
        top &= (np.arange(by.shape[1]) != truth[:, None]) & np.isfinite(truth)[:, None]
    total = np.where(top, sample.single - sample.multi, 0.0).sum(axis=1)
    return total / np.where(top.any(axis=1), top.sum(axis=1), np.nan)


def _likeliest(shares: Array) -> Array:
    """[n, k] whether an option is as likely as any; none of a row that lacks a share."""
    return shares >= shares.max(axis=1, keepdims=True) - TIE


def _compare(sample: Answers) -> Compared | None:
    """The likeliest option's B, on the same questions."""
    return compare_mean("top_b", _top(sample), sample, limits=(-1.0, 1.0)) if sample.keys_known else None


@metric(
    "C1, C3, C4, C7",
    "single_<option>, multi_<option> [, single_other, multi_other, question, truth]",
    Answers,
    compare=_compare,
    place=270,
    margin="b_score",
)
def b_score_lines(sample: Answers, how: Resampling) -> Iterator[Line]:
    """How much more frequent an answer is afresh than after the model saw its own; above 0: a bias it corrects."""
    top = _top(sample)
    beside = {INVALID: f"{sample.invalid[0]:.1%} afresh, {sample.invalid[1]:.1%} in conversation"}
    if sample.named and sample.offered is not None:
        sizes = sample.offered.sum(axis=1)
        beside["options that questions offer, cells that are empty in all rows of one left out"] = ", ".join(
            f"{k} of {n} questions" for k, n in zip(*np.unique(sizes, return_counts=True), strict=True)
        )
    if sample.counts is not None:
        answers = sample.counts.sum(axis=1)
        known = np.isfinite(top) & (answers <= BIAS_UP_TO)
        if known.any():
            k = np.full(len(top), len(sample.options)) if sample.offered is None else sample.offered.sum(axis=1)
            bias = np.mean([_bias(int(k), int(n)) for k, n in zip(k[known], answers[known], strict=True)])
            beside["of equally likely options without any bias"] = f"{bias:+z.3f}"
    yield Line("top_b", "B of the likeliest option", mean_of(sample, top, how), beside)
    if sample.counts is not None:
        held_out, alone = _held_out(sample, sample.counts, how.seed)
        ways = {"the question's other answers": ~alone, f"one half, in {SPLITS} splits": alone}
        chosen_on = ", or on ".join(way for way, rows in ways.items() if rows.any())
        note = {"chosen on": f"{chosen_on}, and scored on the rest"}
        yield Line("top_b_held_out", "the same, chosen on other answers", mean_of(sample, held_out, how), note)
    if sample.truth is not None:
        wrong = _top(sample, sample.truth)
        why = np.full(len(top), "undefined", dtype=object) if sample.why is None else sample.why.copy()
        why[np.isnan(wrong) & np.isfinite(top)] = RIGHT
        why[np.isnan(sample.truth)] = NO_OUTCOME
        score = mean_of(replace(sample, why=why), wrong, how)
        yield Line("top_b_wrong", "B of the likeliest option where it is wrong", score)
    size = (sample.single * np.abs(sample.single - sample.multi)).sum(axis=1)
    luck = {} if sample.counts is None else {"biased upward,": "because answers were sampled"}
    yield Line("mean_abs_b", "mean |B| over the answers", mean_of(sample, size, how), luck)
    if sample.named and len(sample.options) <= FEW_OPTIONS:
        for i, option in enumerate(sample.options):
            shift = sample.single[:, i] - sample.multi[:, i]
            if sample.offered is not None:
                shift = np.where(sample.offered[:, i], shift, np.nan)
            claim = deviation_claim(shift, sample, "b_score", how)
            yield Line("b", f"B of {option}", mean_of(sample, shift, how), part=option, equivalence=claim)


def _excesses(sample: Answers) -> tuple[Array, dict[str, Array]]:
    """[n] B of the likeliest option, and after each control history."""
    assert sample.controls is not None
    after = {name: _top(replace(sample, multi=sample.controls[:, i])) for i, name in enumerate(sample.control_names)}
    return _top(sample), after


def _compare_excess(sample: Answers) -> Compared | None:
    """The likeliest option's B beyond the control that makes the most of it in this sample, on the same questions."""
    if not sample.keys_known or not sample.control_names:
        return None
    top, after = _excesses(sample)
    least = min(after.values(), key=lambda b: np.nan_to_num(np.nanmean(top - b), nan=np.inf))
    return compare_mean("b_excess", top - least, sample, worst=2.0, limits=(-2.0, 2.0))


@metric("C1", "the answers after control histories", Answers, needs=("controls",), compare=_compare_excess, place=265,
        margin="b_score")  # fmt: skip
def b_excess_lines(sample: Answers, how: Resampling) -> Iterator[Line]:
    """How far B exceeds what histories of equal length make that say nothing of the model's view of the question."""
    top, after = _excesses(sample)
    score = b_score_excess(top, after, clusters_of(sample), how=how)
    beside = {f"over {CONTROL_NAMES.get(name, name)}": f"{left:+z.3f}" for name, left in score.over.items()}
    yield Line("b_excess", "B of the likeliest option beyond its controls", score, beside, worst=2.0)


@metric("C8", "single_<option>, multi_<option>, truth", Answers, needs=("truth",), place=280)
def answer_accuracy_lines(sample: Answers, how: Resampling) -> Iterator[Line]:
    """Share of questions whose likeliest option is the true one; tied options share the credit."""
    assert sample.truth is not None
    arms = (("accuracy_single", "afresh", sample.single), ("accuracy_multi", "in conversation", sample.multi))
    for metric_name, name, shares in arms:
        top = _likeliest(shares)
        credit = (top & (np.arange(shares.shape[1]) == sample.truth[:, None])).sum(axis=1)
        right = np.where(top.any(axis=1) & np.isfinite(sample.truth), credit / np.maximum(top.sum(axis=1), 1), np.nan)
        score = cluster_share(right, clusters_of(sample), how=how)
        score_of = with_drop_reasons(score, sample, shares.sum(axis=1), sample.truth)
        yield Line(metric_name, f"accuracy {name}", score_of)


_bias = cache(top_b_score_null_bias)


def _held_out(sample: Answers, counts: Array, seed: int) -> tuple[Array, Array]:
    """[n] B of the option that is likeliest in the answers of the question's other rows, by its share of a row's own;
    ties averaged. And [n] where there is no other row: it is then chosen on a random half, and scored on the other.
    """
    rng = np.random.default_rng(seed)
    tops = np.full(len(counts), np.nan)
    total = np.nan_to_num(counts).astype(np.int64)
    of = np.arange(len(counts)) if sample.item is None else np.unique(sample.item, return_inverse=True)[1]
    every = np.zeros((of.max(initial=-1) + 1, counts.shape[1]), dtype=np.int64)
    np.add.at(every, of, total)
    others = every[of] - total
    alone = others.sum(axis=1) == 0
    for i, answers in enumerate(total):
        if answers.sum() < 1 + alone[i]:
            continue
        chosen, rest = others[i][None], answers[None]
        if alone[i]:
            chosen = rng.multivariate_hypergeometric(answers, int(answers.sum()) // 2, size=SPLITS)
            rest = answers - chosen
        top = chosen == chosen.max(axis=1, keepdims=True)
        b = rest / rest.sum(axis=1, keepdims=True) - sample.multi[i]
        tops[i] = ((b * top).sum(axis=1) / top.sum(axis=1)).mean()
    return tops, alone


@metric("B1, B4, B12", "count_<option> for each of two or more [, count_other]", Frequencies, place=260)
def entropy_lines(sample: Frequencies, how: Resampling) -> Iterator[Line]:
    """How spread out answers are over the options, in bits; what fraction of all each of them is."""
    k = len(sample.options)
    values = entropy_bits(counts_to_probabilities(sample.shares[:, :-1]))
    score = mean_of(sample, values, how, (0.0, float(np.log2(k))))
    beside = {"at most": f"{np.log2(k):.3f}"}
    if sample.n_answers is not None and score.n_rows:
        low = (k - 1) / (2 * np.log(2) * sample.n_answers[np.isfinite(values)])
        beside["so few answers lower it by about"] = f"{low.mean():.3f} (Miller-Madow)"
    yield Line("entropy", "entropy of the options", score, beside)
    if k <= FEW_OPTIONS:
        for name, share in zip((*sample.options, "no option"), sample.shares.T, strict=True):
            yield Line("share", f"share of {name}", mean_of(sample, share, how, UNIT), part=name)


RANDOM = "random"


@metric("C6", "category, answer, truth, one or more of single, multi, conf and b [, k, question]", Records, place=290)
def verification_lines(sample: Records, how: Resampling) -> Iterator[Line]:
    """Accuracy, each category weighing the same, of thresholds that were tuned on the other questions."""
    rows = sample.rows
    easier = [row for row in rows if row["category"] != RANDOM]
    if rows:
        bare = verification_baselines(rows)
        for name, share in bare.accept_all_by_category.items():
            n = int((sample.category == name).sum())
            constant = replace(bare, accept_all=share, reject_all=1 - share, n_rows=n, ci_method="no interval")
            yield Line("reject_all", f"accuracy of rejecting every answer, {name}", constant, part=name)
    for rule in RULES:
        if not set(rule.split("+")) <= sample.scores.keys():
            continue
        fresh = verification_held_out(rows, rule, questions=sample.clusters, how=how)
        yield Line("accept_accuracy", f"accuracy, accepting by {rule}", fresh, _beside(rows, rule), part=rule)
        if "+" not in rule:
            auroc = verification_auroc(rows, rule, sample.clusters, how=how)
            yield Line("auroc", f"AUROC of accepting by {rule}", auroc, part=rule)
        if 0 < len(easier) < len(rows):
            keep = sample.category != RANDOM
            questions = None if sample.clusters is None else sample.clusters[keep]
            fresh = verification_held_out(easier, rule, questions=questions, how=how)
            quantity = f"accuracy, accepting by {rule}, without category {RANDOM}"
            yield Line("accept_accuracy_not_random", quantity, fresh, _beside(easier, rule), part=rule)


def _beside(rows: list[dict[str, Any]], rule: str) -> Mapping[str, str]:
    bare = verification_baselines(rows)
    tuned = threshold_search(rows, rule)
    thresholds = f"{tuned.tau:.2f}" + ("" if tuned.tau_b is None else f" and b {tuned.tau_b:.2f}")
    return {
        "of accepting all, of rejecting all": f"{bare.accept_all:.3f}, {bare.reject_all:.3f}",
        f"tuned on the same answers, at {thresholds},": f"{tuned.macro:.3f}",
    }
