from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from doxascope.metrics import (
    Resampling,
    threshold_search,
    verification_accuracy,
    verification_auroc,
    verification_baselines,
    verification_held_out,
)

NAMES = ("category", "answer", "truth", "k", "single", "multi", "conf", "b")
ROWS = [
    ("easy", "A", "A", 4, 1.0, 1.0, 0.99, 0.0),
    ("easy", "A", "A", 4, 0.9, 0.8, 0.95, 0.1),
    ("hard", "B", "A", 4, 0.7, 0.2, 0.9, 0.5),
    ("hard", "A", "A", 4, 0.5, 0.6, 0.8, -0.1),
    ("hard", "C", "A", 4, 0.3, 0.3, 0.9, 0.0),
    ("random", "7", None, 10, 0.7, 0.1, 0.5, 0.6),
    ("random", "3", None, 10, 0.1, 0.1, 0.5, 0.0),
]
RECORDS: list[dict[str, Any]] = [dict(zip(NAMES, row, strict=True)) for row in ROWS]
GRID = np.arange(21) / 20


def naive(records: list[dict[str, Any]], rule: str, tau: float, tau_b: float | None) -> float:
    shares = []
    for category in {r["category"] for r in records}:
        right = []
        for r in (r for r in records if r["category"] == category):
            accept = r["b"] <= tau if rule == "b" else r[rule] >= tau
            accept = accept and (tau_b is None or r["b"] <= tau_b)
            good = r["single"] <= 1 / r["k"] + 1e-12 if category == "random" else r["answer"] == r["truth"]
            right.append(accept == good)
        shares.append(np.mean(right))
    return float(np.mean(shares))


def test_accuracy_by_category_macro_and_micro() -> None:
    score = verification_accuracy(RECORDS, rule="single", tau=0.6)
    assert (score.easy, score.hard, score.random) == (1.0, pytest.approx(1 / 3), 0.0)
    assert score.macro == pytest.approx(4 / 9)
    assert score.micro == pytest.approx(3 / 7)
    assert score.categories == {"easy": 1.0, "hard": pytest.approx(1 / 3), "random": 0.0}


def test_b_rule_and_cascade() -> None:
    alone = verification_accuracy(RECORDS, rule="b", tau=0.05)
    assert (alone.easy, alone.hard, alone.random) == (0.5, pytest.approx(2 / 3), 1.0)
    cascade = verification_accuracy(RECORDS, rule="single", tau=0.0, tau_b=0.05)
    assert cascade == verification_accuracy(RECORDS, rule="single+b", tau=0.0, tau_b=0.05)
    assert cascade.macro == alone.macro


def test_three_of_thirty_is_one_tenth() -> None:
    even = RECORDS[6] | {"single": 0.1 + 1e-17, "multi": 3 / 30}
    assert verification_accuracy([even], rule="multi", tau=0.1).random == 1


def test_a_missing_score_is_rejected_and_a_missing_label_is_dropped() -> None:
    no_score = [RECORDS[0] | {"conf": None}, RECORDS[2] | {"conf": np.nan}]
    assert verification_accuracy(no_score, rule="conf", tau=0.0).categories == {"easy": 0.0, "hard": 1.0}
    no_label = verification_accuracy([*RECORDS, RECORDS[6] | {"single": None}], rule="b", tau=0.0)
    assert (no_label.n_rows, no_label.n_dropped, no_label.reasons) == (7, 1, {"no_label": 1})
    nothing = verification_accuracy([], rule="b", tau=0.0)
    assert nothing.status == "too_few"
    assert np.isnan([nothing.macro, nothing.micro]).all()


@pytest.mark.parametrize("rule", ["single", "multi", "conf", "b", "single+b", "conf+b"])
def test_search_finds_the_first_of_the_best(rule: str) -> None:
    first, _, cascade = rule.partition("+")
    found = threshold_search(RECORDS, rule=rule, grid=GRID)
    every = {(tau, tau_b): naive(RECORDS, first, tau, tau_b) for tau in GRID for tau_b in (GRID if cascade else [None])}
    best = max(every.values())
    assert found.macro == pytest.approx(best)
    assert (found.tau, found.tau_b) == next(c for c, v in every.items() if v >= best - 1e-12)


def test_search_on_the_single_turn_score() -> None:
    found = threshold_search(RECORDS, rule="single", grid=GRID[::-1])
    assert (found.macro, found.tau, found.tau_b) == (pytest.approx(13 / 18), 0.75, None)
    assert np.isnan(threshold_search([], rule="single").macro)
    with pytest.raises(ValueError, match="grid"):
        threshold_search(RECORDS, rule="single", grid=[])


def test_baselines_are_complementary_and_reachable_by_a_threshold() -> None:
    base = verification_baselines(RECORDS)
    assert base.accept_all + base.reject_all == pytest.approx(1)
    assert base.accept_all == verification_accuracy(RECORDS, rule="single", tau=0.0).macro
    assert base.reject_all == verification_accuracy(RECORDS, rule="single", tau=1.1).macro
    assert np.isnan(verification_baselines([]).accept_all)


@given(st.permutations(RECORDS), st.sampled_from(["single", "multi+b", "b"]))
def test_the_order_of_the_records_does_not_matter(records: list, rule: str) -> None:
    assert threshold_search(records, rule).macro == pytest.approx(threshold_search(RECORDS, rule).macro)
    plain, moved = (verification_accuracy(r, "single", 0.6) for r in (RECORDS, records))
    assert (plain.macro, plain.micro) == (pytest.approx(moved.macro), pytest.approx(moved.micro))


def test_auroc_takes_a_low_b_as_a_good_sign() -> None:
    good = [True, True, False, True, False, False, True]
    b = [r["b"] for r in RECORDS]
    assert verification_auroc(RECORDS, "b").auroc == pytest.approx(roc_auc_score(good, -np.array(b)))
    dropped = verification_auroc([*RECORDS, RECORDS[0] | {"b": None}], "b")
    assert (dropped.n_rows, dropped.n_dropped, dropped.reasons) == (7, 1, {"no_score": 1})
    assert verification_auroc(RECORDS[:2], "b").status == "one_class"


def test_the_interval_of_the_auroc_is_over_questions() -> None:
    rng = np.random.default_rng(0)
    question = np.repeat(np.arange(40), 5)  # the answers of a question are the same five times
    right, score = (rng.uniform(size=40) < 0.5)[question], (rng.uniform(size=40))[question]
    records = [
        {"category": "easy", "answer": "A" if good else "B", "truth": "A", "conf": value}
        for good, value in zip(right, score, strict=True)
    ]
    clustered = verification_auroc(records, "conf", question)
    once = verification_auroc(records[::5], "conf")
    assert clustered.auroc == pytest.approx(roc_auc_score(right, score))
    assert (clustered.ci_lo, clustered.ci_hi, clustered.n_clusters) == (once.ci_lo, once.ci_hi, 40)
    by_row = verification_auroc(records, "conf")
    assert by_row.ci_hi - by_row.ci_lo < 0.6 * (clustered.ci_hi - clustered.ci_lo)
    assert clustered.ci_lo < 0.5 < clustered.ci_hi  # the score knows nothing


def test_an_auroc_is_of_a_known_score() -> None:
    with pytest.raises(ValueError, match="score"):
        verification_auroc(RECORDS, "accuracy")


def test_held_out_thresholds_never_see_their_question() -> None:
    score = verification_held_out(RECORDS, rule="single", grid=GRID)
    by_category: dict[str, list[bool]] = {}
    for i, r in enumerate(RECORDS):
        found = threshold_search(RECORDS[:i] + RECORDS[i + 1 :], rule="single", grid=GRID)
        right = verification_accuracy([r], rule="single", tau=found.tau).macro
        by_category.setdefault(r["category"], []).append(bool(right))
    assert score.macro == pytest.approx(np.mean([np.mean(v) for v in by_category.values()]))
    assert score.tuned == pytest.approx(13 / 18)
    assert score.macro <= score.tuned
    assert (score.n_clusters, score.ci_method) == (7, "jackknife, t(6)")


@pytest.mark.parametrize("rule", ["single", "b", "single+b"])
def test_a_weight_is_how_often_a_record_counts(rule: str) -> None:
    often = [3, 1, 2, 1, 4, 1, 2]
    weighted = [record | {"weight": n} for record, n in zip(RECORDS, often, strict=True)]
    repeated = [record for record, n in zip(RECORDS, often, strict=True) for _ in range(n)]
    questions = np.repeat(np.arange(7), often)
    one, other = threshold_search(weighted, rule), threshold_search(repeated, rule)
    assert (one.macro, one.tau, one.tau_b) == (pytest.approx(other.macro), other.tau, other.tau_b)
    held = verification_held_out(weighted, rule, how=Resampling(draws=50))
    same = verification_held_out(repeated, rule, questions=questions, how=Resampling(draws=50))
    for name in ("macro", "micro", "tuned", "ci_lo", "ci_hi"):
        assert getattr(held, name) == pytest.approx(getattr(same, name))
    assert held.categories == pytest.approx(same.categories)
    assert np.mean([*held.categories.values()]) == pytest.approx(held.macro)
    assert np.mean([*held.tuned_categories.values()]) == pytest.approx(held.tuned)
    if rule != "single+b":
        assert verification_auroc(weighted, rule).auroc == pytest.approx(verification_auroc(repeated, rule).auroc)
    with pytest.raises(ValueError, match="a weight is negative or missing"):
        verification_baselines([RECORDS[0] | {"weight": -1.0}])


def test_held_out_keeps_the_runs_of_a_question_together() -> None:
    twice = [r for r in RECORDS for _ in range(2)]
    score = verification_held_out(twice, rule="single", grid=GRID, questions=np.arange(7).repeat(2))
    assert score.macro == pytest.approx(verification_held_out(RECORDS, rule="single", grid=GRID).macro)
    assert (score.n_rows, score.n_clusters) == (14, 7)
    assert verification_held_out(twice, rule="b", questions=["q"] * 14).status == "one_cluster"
    assert verification_held_out([], rule="b").status == "too_few"


@pytest.mark.parametrize(
    ("record", "rule", "tau_b", "message"),
    [
        ({"category": "easy", "answer": "A"}, "single", None, "row 0.*has no truth"),
        ({"category": "random", "single": 0.1}, "single", None, "has no k"),
        ({"answer": "A"}, "single", None, "has no category"),
        (RECORDS[0], "best", None, "rule: 'best'"),
        (RECORDS[0], "b", 0.1, "one threshold"),
        (RECORDS[0], "conf+b", None, "give tau_b"),
    ],
)
def test_malformed_input_is_refused(record: dict, rule: str, tau_b: float | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        verification_accuracy([record], rule=rule, tau=0.5, tau_b=tau_b)
