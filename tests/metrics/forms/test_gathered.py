"""Tables as experiments write them down: a row per answer, and columns under the names of the papers' symbols."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from doxascope.base.errors import UserError
from doxascope.metrics.forms.synonyms import SYNONYMS
from doxascope.metrics.scoring.engine import ScoredTable, score_table

Write = Callable[..., Path]


def numbers(scored: ScoredTable) -> dict[tuple[str, str, str], tuple[float, int, int]]:
    return {
        (one.metric, one.run, one.subset): (one.score.estimate, one.score.n_rows, one.score.n_clusters)
        for one in scored.numbers
    }


def same(one: ScoredTable, two: ScoredTable) -> None:
    first, second = numbers(one), numbers(two)
    assert first
    assert first.keys() == second.keys()
    for name, found in first.items():
        assert found == pytest.approx(second[name], nan_ok=True)


def test_answers_one_by_one_are_scored_as_their_counts(table: Write) -> None:
    """Questions of two and of three options, an answer that is none, and a truth that nobody gave. What nobody gave and
    is not right is not known to have been offered.
    """
    rng = np.random.default_rng(3)
    listed, counted = [], []
    for model in ("m", "n"):
        for category, options, truth in (("hard", "abc", "c"), ("random", "de", ""), ("easy", "abc", "A")):
            offered = {*options[:2], truth.lower()}
            row: dict[str, str | int] = {"model": model, "category": category, "question": category, "truth": truth}
            for arm in ("single", "multi"):
                said = list(rng.choice(list(options[:2]), 9)) + [""] * (arm == "multi")
                listed += [(model, category, category, truth, f"{arm}-turn", t, x.upper()) for t, x in enumerate(said)]
                row |= {f"{arm}_{x}": said.count(x) if x in offered else "" for x in "abcde"}
                row[f"{arm}_other"] = said.count("")
            counted.append(row)
    names = ["model", "category", "question_id", "ground_truth", "setting", "turn", "response"]
    long = score_table(table(**pd.DataFrame(listed, columns=names), name="long.csv"), by=["model", "category"])
    wide = score_table(table(**pd.DataFrame(counted), name="wide.csv"), by=["model", "category"])
    same(long, wide)
    for theirs, ours in (("question_id", "question"), ("ground_truth", "truth"), ("setting", "arm")):
        assert f"{theirs} taken for {ours}" in long.understood.line


def test_beliefs_under_each_prompt_are_set_beside_the_standard_one(table: Write) -> None:
    rng = np.random.default_rng(4)
    listed, paired = [], []
    for context in range(8):
        base = rng.uniform(0.2, 0.8, 3).round(3)
        listed += [("m", f"c{context}", "Standard", p) for p in base]
        for prompt, n in (("MSE", 3), ("Bayesian", 2)):
            other = rng.uniform(0.2, 0.8, n).round(3)
            listed += [("m", f"c{context}", prompt, p) for p in other]
            paired += [("m", f"c{context}", prompt, p, q) for p, q in zip(base, [*other, ""][:3], strict=True)]
    rng.shuffle(listed)  # contexts and prompts may come in any order
    long = pd.DataFrame(listed, columns=["model", "patient", "prompt", "probability"])
    wide = pd.DataFrame(paired, columns=["model", "context", "prompt", "p_base", "p_alt"])
    found, expected = (
        score_table(table(**frame, name=name), by=["prompt"])
        for name, frame in (("long.csv", long), ("wide.csv", wide))
    )
    assert {run for metric, run, _ in numbers(found) if metric == "prize_effect"} > {"prompt=MSE", "prompt=Bayesian"}
    same(found, expected)


@pytest.mark.parametrize(
    ("head", "row", "message"),
    [
        ("question,arm,answer", "q,third,a", "row 1, arm: 'third'; give 'single' or 'multi'"),
        ("question,arm,answer", ",single,a", "row 1, question: is missing"),
        ("context,prompt,belief", "c,MSE,0.5", "prompt: none is 'standard', with which others are compared ('MSE')"),
        ("step,belief", "1,0.5", "nearest is 'trajectories, one row per step'"),
        ("P(Y|X),P(X),P(X|Y)", "0.5,0.5,0.5", "which lacks 'p_y'"),
    ],
)
def test_what_cannot_be_put_together_is_refused_in_one_line(table: Write, head: str, row: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        score_table(table(head, row))
    assert message in str(caught.value)


def test_symbols_of_a_paper_are_columns(table: Write) -> None:
    """Bayes' readings with and without a user, as sycophancy-bayesian writes them, and what is not used is told."""
    rng = np.random.default_rng(5)
    ours = ["p_x", "p_y", "p_y_given_x", "base", "syc", "outcome", "arm"]
    frame = pd.DataFrame(rng.uniform(0.3, 0.7, (12, 5)), columns=ours[:5]).assign(
        outcome=[0, 1] * 6, arm=["f", "c"] * 6
    )
    theirs = ["P(X)", "P(Y)", "P(Y | X)", "P(X|Y)", "P_syc(X|Y)", "ground truth", "arm"]
    read = score_table(table(**frame.set_axis(theirs, axis=1), name="theirs.csv"), by=["arm"])
    same(read, score_table(table(**frame, name="ours.csv"), by=["arm"]))
    pairs = pd.DataFrame({"prior": [0.2, 0.4], "posterior": [0.3, 0.2], "label": [0, 1]})
    line = score_table(table(**pairs, name="pairs.csv")).understood.line
    assert "not used: label (or --map outcome=label)" in line


def test_no_name_is_anothers() -> None:
    for ours, others in SYNONYMS.items():
        assert not {*others} & {*SYNONYMS}, ours
