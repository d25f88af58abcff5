"""The AUROC, by itself and from tables of labels and scores."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from doxascope.base.errors import UserError
from doxascope.metrics import Resampling, auroc, auroc_difference
from doxascope.metrics.scoring.engine import score_table

RNG = np.random.default_rng(3)
CLUSTERS = np.repeat(np.arange(20), 6)
LABELS = RNG.integers(0, 2, 120)
LEVEL = RNG.normal(size=20)[CLUSTERS]
WEAK = np.round(0.5 * LABELS + LEVEL + RNG.normal(size=120), 1)
STRONG = 2.5 * LABELS + RNG.normal(size=120)


def test_it_is_that_of_the_ranks_with_ties_half() -> None:
    assert auroc(WEAK, LABELS).auroc == pytest.approx(roc_auc_score(LABELS, WEAK))
    weights = RNG.uniform(0.1, 2, 120)
    assert auroc(WEAK, LABELS, weights=weights).auroc == pytest.approx(
        roc_auc_score(LABELS, WEAK, sample_weight=weights)
    )
    assert auroc([0.2, 0.2], [0, 1]).auroc == 0.5


def test_the_interval_is_over_clusters() -> None:
    """Of rows that are copies of one row the interval is as wide as of one copy."""
    once = auroc(WEAK, LABELS, how=Resampling(draws=500))
    copies = auroc(np.repeat(WEAK, 5), np.repeat(LABELS, 5), np.repeat(np.arange(120), 5), how=Resampling(draws=500))
    assert copies.ci_hi - copies.ci_lo == pytest.approx(once.ci_hi - once.ci_lo, rel=1e-6)
    assert copies.n_clusters == once.n_clusters == 120
    assert 0 < once.ci_lo < once.auroc < once.ci_hi < 1
    few = {n: auroc(WEAK, LABELS, np.arange(120) % n, how=Resampling(draws=50)).ci_method for n in (9, 10)}
    assert "bootstrap" in few[10]
    assert "bootstrap" not in few[9]


def test_what_cannot_be_told_is_no_number() -> None:
    of_one_class = auroc([0.1, 0.2], [1, 1])
    assert np.isnan(of_one_class.auroc)
    assert of_one_class.status == "one_class"
    scored = auroc([0.1, np.nan, 0.4, 0.3], [0, 1, 1, np.nan])
    assert scored.auroc == 1
    assert scored.n_dropped == 2
    assert dict(scored.reasons) == {"no_score": 1, "no_label": 1}


def test_two_scores_are_compared_on_the_same_rows() -> None:
    how = Resampling(draws=800)
    apart = auroc_difference(STRONG, WEAK, LABELS, CLUSTERS, how=how)
    assert apart.difference == pytest.approx(roc_auc_score(LABELS, STRONG) - roc_auc_score(LABELS, WEAK))
    assert apart.ci_lo > 0
    assert apart.p < 0.01
    assert auroc_difference(WEAK, WEAK, LABELS, CLUSTERS, how=how).difference == 0


def test_a_table_of_labels_is_scored_and_one_of_another_benchmark_is_read_as_it_is(tmp_path: Path) -> None:
    ours = pd.DataFrame({"question": CLUSTERS, "label": LABELS, "score_weak": WEAK, "score_strong": STRONG})
    theirs = ours.rename(columns={"question": "question_index"}).assign(
        label_type=np.where(LABELS == 1, "FAITHFUL_STEP", "UNFAITHFUL_STEP")
    )
    for name, frame in (("ours", ours), ("theirs", theirs.drop(columns="label"))):
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    numbers = [
        {number.quantity: number.score for number in score_table(tmp_path / f"{name}.csv").numbers}
        for name in ("ours", "theirs")
    ]
    for scores in numbers:
        assert scores["AUROC of strong"].estimate == pytest.approx(roc_auc_score(LABELS, STRONG))
        assert scores["AUROC of strong"].n_clusters == 20
        assert scores["AUROC of weak minus that of strong"].ci_hi < 0
    assert numbers[0] == numbers[1]


def test_a_label_of_another_kind_is_refused_by_its_row(tmp_path: Path) -> None:
    table = tmp_path / "labels.csv"
    table.write_text("label_type,score\nFAITHFUL_COT,0.2\nPARTLY,0.1\n")
    with pytest.raises(UserError, match="row 2, label_type: 'PARTLY' begins with neither FAITHFUL nor UNFAITHFUL"):
        score_table(table)
