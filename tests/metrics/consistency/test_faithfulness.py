"""Chains of thought by exact beliefs: by hand, refused where they are not whole, and planted ones told apart."""

from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax

from doxascope.base.errors import UserError
from doxascope.metrics import Faithfulness, chain_faithfulness
from doxascope.metrics.scoring.engine import score_table
from doxascope.probes.evidence.crossfit import auc

Write = Callable[..., Path]
BY_HAND = {
    "chain": ["x"] * 4 + ["y"] * 3,
    "sentences": [0, 1, 2, 2, 1, 0, 1],
    "belief_a": [0.6, 0.5, 0.1, 0.7, 0.2, 0.2, 0.3],
    "belief_b": [0.2, 0.3, 0.8, 0.2, 0.2, 0.2, 0.3],
    "belief_c": [0.2, 0.2, 0.1, 0.1, 0.4, 0.4, 0.2],
    "names": ["b"] * 4 + ["c", None, None],
    "replaced": [None, None, None, "a", None, None, "a"],
}
"""x: two sentences and one replaced thought; y: one of each, rows out of order, beliefs that sum to .8."""
THOUGHTS = {"thought_a": [0.1] * 7, "thought_b": [0.2] * 7, "thought_c": [0.1] * 7}


def test_two_chains_by_hand(table: Write) -> None:
    numbers = {number.metric: number.score for number in score_table(table(**BY_HAND)).numbers}
    expected = {
        "early_answering": ((0.6 + 0.5) / 2, 0.0),
        "decided_before": (0.2 - 0.6, 0.5 - 0.25),
        "says_answer": (0.8, 0.5),
        "replaced_effect": (0.7 - 0.1, 0.375 - 0.25),
    }
    assert {name: score.estimate for name, score in numbers.items()} == {
        name: pytest.approx(np.mean(pair)) for name, pair in expected.items()
    }


def test_an_answer_is_foretold_as_far_as_the_thoughts_that_may_come_say_it(table: Write) -> None:
    frame = pd.DataFrame(BY_HAND | THOUGHTS)
    short = {x.metric for x in score_table(table(**frame)).numbers}
    assert "simulatability" not in short  # no chain has a thought of each option
    row = frame.iloc[[3]].assign(replaced="c", belief_a=0.1, belief_b=0.3, belief_c=0.6)
    whole = {x.metric: x.score for x in score_table(table(**pd.concat([frame, row]), name="whole.csv")).numbers}
    assert whole["simulatability"].estimate == pytest.approx(0.25 * 0.7 + 0.5 * 0.8 + 0.25 * 0.6)
    assert whole["simulatability"].n_dropped == 1


def test_counts_are_scored_as_their_shares(table: Write) -> None:
    frame = pd.DataFrame(BY_HAND)
    times = frame.assign(**{name: (frame[name] * 20).round() for name in ("belief_a", "belief_b", "belief_c")})
    scores = [
        [x.score.estimate for x in score_table(table(**f, name=n)).numbers]
        for f, n in ((frame, "a.csv"), (times, "b.csv"))
    ]
    assert scores[0] == pytest.approx(scores[1])


@pytest.mark.parametrize(
    ("column", "row", "value", "says"),
    [
        ("sentences", 1, 0, "chain 'x': give it one row after each of 0, 1"),
        ("names", 1, "a", "names: differs within chain 'x'"),
        ("replaced", 3, "d", "replaced: 'd' is no option"),
        ("sentences", 2, 3, "chain 'x': give it one row"),
        ("replaced", 3, "b", "chain 'x', replaced: give each option but the one that it names"),
    ],
)
def test_what_is_no_whole_chain_is_refused(table: Write, column: str, row: int, value: Any, says: str) -> None:
    frame = pd.DataFrame(BY_HAND).astype({column: object})
    frame.loc[row, column] = value
    with pytest.raises(UserError, match=says):
        score_table(table(**frame))
    with pytest.raises(ValueError, match="two or more of each"):
        chain_faithfulness([[0.5, 0.5]])


def planted(species: str, rng: np.random.Generator, off: float) -> Faithfulness:
    """One chain of an organism that thinks aloud, whose log-probabilities are each off by so many nats (SD)."""
    belief = softmax(rng.uniform(-3, 3, 3))
    if species == "post-hoc":
        belief = 0.94 * np.eye(3)[belief.argmax()] + 0.06 * belief
    names = int(rng.choice(3, p=np.full(3, 1 / 3) if species == "unused" else belief))
    after = np.eye(3) if species == "used" else np.tile(belief, (3, 1))

    def read(shares: Any) -> Any:
        return softmax(np.log(shares + 0.01) + off * rng.standard_normal(3))

    others = {other: read(after[other]) for other in range(3) if other != names}
    thoughts = read(np.full(3, 1 / 3) if species == "unused" else belief)
    return chain_faithfulness([read(belief), read(belief), read(after[names])], names, others, thoughts)


@pytest.mark.parametrize("off", [0.0, 0.5])
def test_planted_chains_are_told_apart_in_pairs(off: float) -> None:
    """By what a replaced thought moves, and, where it moves nothing, by whether thoughts say what is answered."""
    chains = {
        species: [planted(species, np.random.default_rng([i, *species.encode()]), off) for i in range(300)]
        for species in ("used", "unused", "post-hoc")
    }
    by = {("used", "unused"): "replaced_effect", ("used", "post-hoc"): "replaced_effect"}
    for first, second in combinations(("used", "post-hoc", "unused"), 2):
        number = by.get((first, second), "simulatability")
        values = [getattr(chain, number) for chain in (*chains[first], *chains[second])]
        assert auc([1] * 300 + [0] * 300, values) >= 0.9, (first, second)
    early, before = (
        {s: np.mean([getattr(c, n) for c in cs]) for s, cs in chains.items()} for n in Faithfulness._fields[:2]
    )
    assert early["used"] > max(early["unused"], early["post-hoc"]) + 0.1
    assert before["post-hoc"] > before["used"] + 0.2
